"""Acts on many policies: a sheet with what it takes first, then the act itself, on exactly what the sheet was shown for."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from console.forms.runs import CapForm
from console.models import Artifact, Inventory, Mode, Role
from console.permissions import Request, actor_of, refused, require
from console.presenters import labels
from console.presenters import policies_acts as shown
from console.presenters.bulk import Sheet, sheet
from console.presenters.names import policy_names
from console.services import bulk, policy_list
from console.services.errors import Invalid
from console.views import bulk as form
from console.views.frame import say


@require_POST
@require(Role.REVIEWER)
def policies_bulk(request: Request, inventory: Inventory) -> HttpResponse:
    """``do``, ``scope`` (ticked or all), ``tick``…, ``query`` (the list's): the sheet; with ``start`` the act itself."""
    do = form.act_of(request, shown.ACTS)
    if not request.role.includes(shown.ACTS[do].needs):
        return refused(request, shown.ACTS[do].needs)
    which = _which(request, inventory)
    found = which.find()
    bulk.check_size(len(found))
    caps = CapForm(request.POST if "start" in request.POST else None)
    now = _sheet(inventory, do, found)
    problem = ""
    if "start" in request.POST:
        try:
            bulk.check(now.extent, form.shown_extent(request))
            done = _started(request, which, now, caps)
            if done is not None:
                return done
        except bulk.Moved as moved:
            return _page(request, _sheet(inventory, do, which.find()), caps, status=409, moved=moved)
        except Invalid as error:
            problem = f"{error.message} {error.hint}".strip()
    return _page(request, now, caps, status=422 if problem or caps.errors else 200, problem=problem)


def _which(request: Request, inventory: Inventory) -> bulk.Policies:
    ticked = form.ticked(request, 64)
    if ticked is not None:
        return bulk.Policies(inventory, ticked[: bulk.MOST])
    query = form.query_of(request)
    return bulk.Policies(inventory, asks=policy_list.wanted(inventory, q=query.get("q", ""), f=query.getlist("f")))


def _sheet(inventory: Inventory, do: str, found: Sequence[Artifact]) -> Sheet:
    keys = [artifact.key for artifact in found]
    names = policy_names(inventory, keys)
    named = [names.get(key, key) for key in keys]
    return sheet(inventory, shown.ACTS, do, bulk.extent_of(found), named, {"artifacts": keys})


def _started(request: Request, which: bulk.Policies, now: Sheet, caps: CapForm) -> HttpResponse | None:
    """Where it leads; None where the forecast has changed since the sheet, or a cap is wrong."""
    if now.do == "export":
        return form.export(request, "policies", field="key", names=None if which.asks else which.ticked)
    if now.do != "mode":
        return form.start_run(request, which.inventory, now, caps)
    n = bulk.set_mode(
        which, request.POST.get("mode", ""), shown=form.shown_extent(request), by=actor_of(request),
        reason=request.POST.get("reason", "")[:2_000],
    )  # fmt: skip
    said = ngettext("The mode of %(n)s policy is set.", "The mode of %(n)s policies is set.", n) % {"n": n}
    say(request, said if n else _("They had this mode already."))
    return redirect(form.list_address(request, "policies"))


def _page(request: Request, now: Sheet, caps: CapForm, *, status: int, **more: Any) -> HttpResponse:
    n = now.extent.count
    words = {
        "list_name": labels.term("policies", technical=request.user.technical_terms),
        "counted": ngettext("%(n)s policy", "%(n)s policies", n) % {"n": n},
        "moved_line": ngettext(
            "Below is what %(n)s policy would take.", "Below is what the %(n)s policies of now would take.", n
        ) % {"n": n},
        "back": form.list_address(request, "policies"),
        "modes": Mode.values,
        "export_forms": shown.EXPORTS,
    }  # fmt: skip
    return form.page(request, "policies/sheet.html", now, caps, status=status, **words, **more)
