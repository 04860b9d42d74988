"""Taking a change back: its effect first, then the inverse in a release of its own, which can be taken back too."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.models import Change, Inventory, Role
from console.permissions import Request, actor_of, refused, require, wants_part
from console.presenters import changes as shown
from console.presenters import releases as releases_shown
from console.presenters.names import policy_names
from console.presenters.words import items
from console.services import reverting, workbench
from console.services.curate import Applied
from console.services.errors import Conflict, NotFound
from console.services.idempotency import InFlight
from console.services.workbench import Ground
from console.views.frame import local_next, say
from console.views.workbench_changes import done_with, once, reason_of
from console.views.workbench_strip import answer, common, next_of


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def undo(request: Request, inventory: Inventory, change: str) -> HttpResponse:
    """GET: what taking a change back would change. POST: take it back, keeping what came after it."""
    row = Change.objects.filter(inventory=inventory, public_id=change).select_related("artifact", "release").first()
    if row is None:
        raise NotFound("There is no such change.", field="change")
    row.inventory = inventory
    impossible = reverting.why_not(row)
    if impossible is not None:  # before the role: nobody need be asked for it
        raise impossible
    needed = reverting.needed_role(row)
    if not request.role.includes(needed):
        return refused(request, needed)
    if row.artifact is not None and reverting.has_impact(row):
        return _of_examples(request, row, workbench.ground(inventory, row.artifact.key))
    return _of_fields(request, row)


# ------------------------------------------------------------------------------------------------- examples and versions
def _of_examples(request: Request, change: Change, ground: Ground) -> HttpResponse:
    """The impact strip, then the tab it was asked from with its new numbers."""
    change.artifact = ground.artifact
    if request.method != "POST":
        return answer(request, _strip_context(request, ground, change))

    def write() -> Applied:
        applied = reverting.revert(change, by=actor_of(request), reason=reason_of(request)).applied
        assert applied is not None  # noqa: S101  # for the type checker: it is one of those with an effect
        return applied

    try:
        done = once(request, write)
    except InFlight:
        raise
    except Conflict as error:
        part = wants_part(request)
        context = {
            "error": error,
            "artifact": ground.artifact,
            "next": next_of(request, ground.artifact.key),
            "part": part,
        }
        template = "policies/workbench/undo_refused.html" if part else "policies/workbench/merge_page.html"
        return render(request, template, context, status=error.status)
    return done_with(request, ground.artifact.key, done)


def _strip_context(request: Request, ground: Ground, change: Change) -> dict[str, Any]:
    effect = reverting.preview(change, by=actor_of(request)).impact
    assert effect is not None  # noqa: S101  # for the type checker: it is one of those with an effect
    exemplars = (change.after or {}).get("exemplars") or {}
    text = next(iter(exemplars.values())).get("text", "") if len(exemplars) == 1 else ""
    url = reverse("undo", args=[request.inventory.slug, change.public_id])
    found = common(request, ground, effect, apply_url=url, hidden={})
    return found | {
        "title": _title(request, change),
        "text": text,
        "verb": _("Undo"),
        "reason_needed": False,
        "override_refused": False,
    }


def _title(request: Request, change: Change) -> str:
    act, times = reverting.roots([change])[change.pk]
    what = shown.what(act, times, technical=request.user.technical_terms)
    return _("Take back: %(what)s") % {"what": what[:1].lower() + what[1:]}


# --------------------------------------------------------------------------------- texts, settings, the cut-off, everything
def _of_fields(request: Request, change: Change) -> HttpResponse:
    """The fields with what they are and would be, and the turns that change; then back to the list it was asked from."""
    inventory = request.inventory
    if request.method == "POST":
        done = reverting.revert(change, by=actor_of(request), reason=reason_of(request))
        say(
            request,
            _("Taken back in release %(n)s.") % {"n": done.change.release.number},
            undo=reverse("undo", args=[inventory.slug, done.change.public_id]),
        )
        return redirect(_next(request))
    found = reverting.preview(change, by=actor_of(request))
    technical, names = request.user.technical_terms, policy_names(inventory)
    context: dict[str, Any] = {
        "change": shown.change_rows(inventory, [change], technical=technical)[0],
        "title": _title(request, change),
        "items": items(found.fields, technical=technical, names=names),
        "flips": [(names.get(key, key), key, started, stopped) for key, started, stopped in found.flips],
        "started": sum(flip[1] for flip in found.flips),
        "stopped": sum(flip[2] for flip in found.flips),
        "diff": found.releases and releases_shown.difference(inventory, *found.releases, technical=technical),
        "next": _next(request),
    }
    return render(request, "releases/undo.html", context)


def _next(request: Request) -> str:
    return local_next(request, reverse("releases", args=[request.inventory.slug]))
