"""Acts on many policies: a sheet with what it takes first, then the act itself, on exactly what the sheet was shown for."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from console.forms.runs import CapForm
from console.models import Artifact, ArtifactText, Inventory, Mode, Role
from console.permissions import Request, actor_of, refused, require
from console.presenters import policies as shown
from console.presenters.forecasts import Ahead
from console.services import bulk, policy_list, runs
from console.services.errors import Invalid, Malformed
from console.services.filters import Extent
from console.views.frame import say, whole
from console.views.runs import wake


@require_POST
@require(Role.REVIEWER)
def policies_bulk(request: Request, inventory: Inventory) -> HttpResponse:
    """``do``, ``scope`` (ticked or all), ``tick``…, ``query`` (the list's): the sheet; with ``start`` the act itself."""
    do = request.POST.get("do", "")
    if do not in shown.ACTS:
        raise Malformed(_("There is no such act."), field="do", hint=_("Load the page again."))
    if not request.role.includes(shown.ACTS[do].needs):
        return refused(request, shown.ACTS[do].needs)
    which = _which(request, inventory)
    found = which.find()
    bulk.check_size(len(found))
    now = bulk.extent_of(found)
    caps = CapForm(request.POST if "start" in request.POST else None)
    sheet = shown.sheet(inventory, do, now, _names(found))
    problem = ""
    if "start" in request.POST:
        try:
            bulk.check(now, shown_extent(request))
            done = _started(request, which, found, sheet, caps)
            if done is not None:
                return done
        except bulk.Moved as moved:
            found = which.find()
            sheet = shown.sheet(inventory, do, bulk.extent_of(found), _names(found))
            return _page(request, sheet, caps, status=409, moved=moved)
        except Invalid as error:
            problem = f"{error.message} {error.hint}".strip()
    return _page(request, sheet, caps, status=422 if problem or caps.errors else 200, problem=problem)


def _which(request: Request, inventory: Inventory) -> bulk.Policies:
    if request.POST.get("scope") != "all":
        ticked = tuple(dict.fromkeys(key[:64] for key in request.POST.getlist("tick") if key))
        return bulk.Policies(inventory, ticked[: bulk.MOST])
    query = QueryDict(request.POST.get("query", "")[:8_000])
    asks = policy_list.wanted(inventory, q=query.get("q", ""), f=query.getlist("f"))
    return bulk.Policies(inventory, asks=asks)


def shown_extent(request: Request) -> Extent:
    """What the sheet was shown for. Raises Malformed."""
    count = whole(request.POST.get("count", ""))
    if count is None:
        raise Malformed(_("This form is not one of the page's."), field="count", hint=_("Load the page again."))
    return Extent(count, request.POST.get("digest", "")[:64])


def _names(found: Sequence[Artifact]) -> dict[str, str]:
    names = dict(ArtifactText.objects.current().filter(artifact__in=found).values_list("artifact_id", "name"))
    return {artifact.key: names.get(artifact.pk, artifact.key) for artifact in found}


def _started(
    request: Request, which: bulk.Policies, found: Sequence[Artifact], sheet: shown.Sheet, caps: CapForm
) -> HttpResponse | None:
    """Where it leads; None where the forecast has changed since the sheet, or a cap is wrong."""
    if sheet.do == "export":
        return redirect(_export(request, which))
    if sheet.do == "mode":
        n = bulk.set_mode(
            which, request.POST.get("mode", ""), shown=shown_extent(request), by=actor_of(request),
            reason=request.POST.get("reason", "")[:2_000],
        )  # fmt: skip
        said = ngettext("The mode of %(n)s policy is set.", "The mode of %(n)s policies is set.", n) % {"n": n}
        say(request, said if n else _("They had this mode already."))
        return redirect(_list(request))
    if not caps.is_valid() or sheet.ahead is None or sheet.ahead.seen != request.POST.get("seen"):
        return None
    run = runs.create_run(
        which.inventory, sheet.act.kind, by=actor_of(request), scope={"artifacts": [a.key for a in found]}, params={},
        cap_tokens=caps.cleaned_data["cap_tokens"], cap_money=caps.cleaned_data["cap_money"],
        unpriced_ok=caps.cleaned_data["unpriced_ok"],
    )  # fmt: skip
    wake(run)
    return redirect("run", which.inventory.slug, run.public_id)


def _export(request: Request, which: bulk.Policies) -> str:
    """The file's address: it carries the filter (or the keys), never a state of the session."""
    if which.asks is None:
        query = urlencode({"key": which.ticked}, doseq=True)
    else:
        kept = parse_qs(request.POST.get("query", ""))
        query = urlencode([(name, value) for name in ("q", "f") for value in kept.get(name, [])])
    what, _dot, form = request.POST.get("form", "policies.jsonl").partition(".")
    base = reverse("data-export-file", args=[which.inventory.slug, what[:20] or "policies", form[:10] or "jsonl"])
    return f"{base}?{query}" if query else base


def _list(request: Request) -> str:
    query = QueryDict(request.POST.get("query", "")[:8_000])
    base = reverse("policies", args=[request.inventory.slug])
    return f"{base}?{query.urlencode()}" if query else base


def _page(request: Request, sheet: shown.Sheet, caps: CapForm, *, status: int, **more: Any) -> HttpResponse:
    ahead: Ahead | None = sheet.ahead
    context = {
        "sheet": sheet,
        "ahead": ahead,
        "caps": caps,
        "modes": Mode.values,
        "export_forms": shown.EXPORTS,
        "scope": "all" if request.POST.get("scope") == "all" else "ticked",
        "ticked": request.POST.getlist("tick"),
        "query": request.POST.get("query", ""),
        "back": _list(request),
        "changed": "start" in request.POST and status == 200,
        **more,
    }
    return render(request, "policies/sheet.html", context, status=status)
