"""Notes and flags: written on the page of what they are about, listed with filters, seen by who is named."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from console.models import Inventory, Note, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import notes as shown
from console.services import notes as service
from console.services.errors import Invalid
from console.templatetags.notes import context_of
from console.views.frame import local_next, say, whole


@require_GET
@require(Role.VIEWER)
def note_list(request: Request, inventory: Inventory) -> HttpResponse:
    """``f=`` conditions; ``after``: where the page before ended."""
    asked = service.asked(request.GET.getlist("f"), request.user)
    found = service.page(inventory, asked, before=whole(request.GET.get("after", "")))
    chips = (
        (_("Open flags"), ["flag:is:yes", "open:is:yes"]), (_("Name me"), ["names:is:yes"]),
        (_("Mine"), [f"by:is:{request.user.get_username()}"]), (_("Flags"), ["flag:is:yes"]),
    )  # fmt: skip
    now = request.GET.getlist("f")
    context: dict[str, Any] = {
        "rows": [shown.row(inventory, row, request.user) for row in found.rows],
        "next": found.next,
        "asked": asked,
        "chips": [{"label": label, "f": f, "on": f == now} for label, f in chips],
    }
    return render(request, "notes/list.html#rows" if wants_part(request) else "notes/list.html", context)


@require_GET
@require(Role.VIEWER)
def note_open(request: Request, inventory: Inventory, note: str) -> HttpResponse:
    """To what a note is on; who is named in it has seen it then."""
    row = service.get_note(inventory, note)
    service.seen(row, request.user)
    where = shown.url_of(inventory, row.object_type, row.object_id, row.url)
    return redirect((where or reverse("notes", args=[inventory.slug])) + f"#note-{row.public_id}")


@require_GET
@require(Role.VIEWER)
def note_on(request: Request, inventory: Inventory) -> HttpResponse:
    """The notes on the one ``object`` of a ``kind``, and the form: for what has no page of its own."""
    on = service.target(inventory, request.GET.get("kind", ""), request.GET.get("object", ""))
    return render(request, "notes/one.html", {"on": on, "part": context_of(request, on.kind, on.id)})


@require_POST
@require(Role.REVIEWER)
def note_write(request: Request, inventory: Inventory) -> HttpResponse:
    """``kind`` and ``object``, ``text``; ``do``: draft, note or flag."""
    post, by = request.POST, actor_of(request)
    on = service.target(inventory, post.get("kind", ""), post.get("object", ""))
    back = local_next(request, shown.url_of(inventory, on.kind, on.id) or reverse("notes", args=[inventory.slug]))
    text, do = post.get("text", ""), post.get("do", "note")
    if do == "draft":
        saved = _saved(service.save_draft(inventory, on, text, by=by, url=back))
        if wants_part(request):
            return HttpResponse(saved)
        say(request, saved or _("The draft is gone."))
        return redirect(back)
    try:
        service.write(inventory, on, text, by=by, flag=do == "flag", url=back)
    except Invalid as error:
        more: dict[str, Any] = {"error": error, "text": text[: service.LONGEST], "flagging": do == "flag"}
        if wants_part(request):
            return render(request, "_ui/notes.html", context_of(request, on.kind, on.id, **more), status=422)
        context = {"on": on, "part": context_of(request, on.kind, on.id, **more)}
        return render(request, "notes/one.html", context, status=422)
    if wants_part(request):
        done = _("Flagged.") if do == "flag" else _("Noted.")
        return render(request, "_ui/notes.html", context_of(request, on.kind, on.id, done=done))
    say(request, _("Flagged.") if do == "flag" else _("Noted."))
    return redirect(back)


def _saved(row: Note | None) -> str:
    if row is None:
        return ""
    return _("Saved %(time)s") % {"time": f"{timezone.localtime(row.changed_at):%H:%M}"}


@require_POST
@require(Role.REVIEWER)
def note_close(request: Request, inventory: Inventory, note: str) -> HttpResponse:
    """A flag seen to, or one's own note taken back."""
    row = service.close(
        service.get_note(inventory, note), by=actor_of(request), reason=request.POST.get("reason", "")[:500]
    )
    done = _("Seen to.") if row.flag else _("Taken back.")
    if wants_part(request):
        return render(request, "_ui/notes.html", context_of(request, row.object_type, row.object_id, done=done))
    say(request, done)
    return redirect(local_next(request, reverse("notes", args=[inventory.slug])))
