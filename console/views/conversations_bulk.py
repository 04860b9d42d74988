"""Acts on many conversations: a sheet with what it takes first, then the act, on exactly what the sheet was shown for."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from console.forms.runs import CapForm
from console.models import Inventory, Role
from console.permissions import Request, actor_of, refused, require
from console.presenters import conversations_acts as shown
from console.presenters.bulk import Sheet, sheet
from console.services import bulk, conversation_list
from console.services.errors import Invalid
from console.services.filters import Extent, extent
from console.views import bulk as form
from console.views.frame import say


@require_POST
@require(Role.REVIEWER)
def conversations_bulk(request: Request, inventory: Inventory) -> HttpResponse:
    """``do``, ``scope`` (ticked or all), ``tick``…, ``query`` (the list's): the sheet; with ``start`` the act itself."""
    do = form.act_of(request, shown.ACTS)
    if not request.role.includes(shown.ACTS[do].needs):
        return refused(request, shown.ACTS[do].needs)
    which = _which(request, inventory)
    now = extent(which.query())
    bulk.check_size(now.count)
    caps = CapForm(request.POST if "start" in request.POST else None)
    seen = _sheet(which, do, now)
    problem = ""
    if "start" in request.POST:
        try:
            bulk.check(now, form.shown_extent(request))
            done = _started(request, which, seen, caps)
            if done is not None:
                return done
        except bulk.Moved as moved:
            return _page(request, _sheet(which, do, moved.now), caps, status=409, moved=moved)
        except Invalid as error:
            problem = f"{error.message} {error.hint}".strip()
    return _page(request, seen, caps, status=422 if problem or caps.errors else 200, problem=problem)


def _which(request: Request, inventory: Inventory) -> bulk.Conversations:
    ticked = form.ticked(request, 12)
    if ticked is not None:
        return bulk.Conversations(inventory, ticked[: bulk.MOST])
    query = form.query_of(request)
    asks = conversation_list.wanted(inventory, q=query.get("q", ""), f=query.getlist("f"))
    return bulk.Conversations(inventory, asks=asks)


def _sheet(which: bulk.Conversations, do: str, now: Extent) -> Sheet:
    names = list(which.query().order_by("pk").values_list("external_id", flat=True))
    return sheet(which.inventory, shown.ACTS, do, now, names, {"conversations": names})


def _started(request: Request, which: bulk.Conversations, now: Sheet, caps: CapForm) -> HttpResponse | None:
    """Where it leads; None where the forecast has changed since the sheet, or a cap is wrong."""
    if now.do == "export":
        return form.export(request, "conversations", field="id", names=None if which.asks else which.ticked)
    if now.do != "flag":
        return form.start_run(request, which.inventory, now, caps)
    reason = request.POST.get("reason", "")
    n = bulk.flag_conversations(which, reason, shown=form.shown_extent(request), by=actor_of(request))
    text = ngettext("%(n)s conversation is flagged.", "%(n)s conversations are flagged.", n) % {"n": n}
    say(request, text if n else _("You have flagged them already."))
    return redirect(form.list_address(request, "conversations"))


def _page(request: Request, now: Sheet, caps: CapForm, *, status: int, **more: Any) -> HttpResponse:
    n = now.extent.count
    words = {
        "list_name": _("Conversations"),
        "counted": ngettext("%(n)s conversation", "%(n)s conversations", n) % {"n": n},
        "moved_line": ngettext(
            "Below is what %(n)s conversation would take.", "Below is what the %(n)s conversations of now would take.", n
        ) % {"n": n},
        "back": form.list_address(request, "conversations"),
        "export_forms": shown.EXPORTS,
    }  # fmt: skip
    return form.page(request, "conversations/sheet.html", now, caps, status=status, **words, **more)
