"""Candidates (P8): what was suggested, decided on row by row, or a policy at a time, into a tray (`candidates_strip`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from console.models import Artifact, Inventory, Polarity, Role, Source, ViewPage
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import candidates as shown
from console.services import candidates, candidates_decide
from console.services.candidates import Filters
from console.services.errors import Invalid, Malformed
from console.services.run_kinds import KINDS as KINDS_OF_RUN
from console.views import saved_views
from console.views.candidates_tray import Tray
from console.views.frame import say, whole

KINDS = {"signal": Polarity.SIGNAL.value, "anti": Polarity.ANTI_SIGNAL.value}
DECISIONS = {"show": Polarity.SIGNAL.value, "dont_show": Polarity.ANTI_SIGNAL.value, "reject": "reject"}
DEFAULT_K, MOST_K = 5, 50
NONE_OFFERED = gettext_lazy("Nothing here is both new to its policy and without harm by itself. Decide row by row.")


# ------------------------------------------------------------------------------------------------------------------- list
@require_GET
@require(Role.VIEWER)
def candidate_list(request: Request, inventory: Inventory) -> HttpResponse:
    """``?policy=`` a key, ``?kind=signal|anti``, ``?run=`` a run's id, ``?source=generated|mined``, ``?after=`` a cursor."""
    saved_views.opened(request, ViewPage.CANDIDATES)
    context = list_context(request, request.GET)
    if wants_part(request):
        return render(request, "candidates/list.html#body", context)
    return render(request, "candidates/list.html", context | {"shelf": saved_views.shelf(request, ViewPage.CANDIDATES)})


@dataclass(frozen=True)
class Asked:
    """What the address asks for; ``ignored`` are the parts of it that mean nothing here."""

    filters: Filters
    after: str
    ignored: list[str]


def asked_of(inventory: Inventory, query: QueryDict) -> Asked:
    ignored = [
        f"{name}={query[name]}" for name in query if name not in {"policy", "kind", "run", "source", "after", "view"}
    ]
    values = {name: query.get(name, "") for name in ("policy", "kind", "run", "source")}
    known: dict[str, Callable[[str], bool]] = {
        "policy": lambda value: Artifact.objects.filter(inventory=inventory, key=value).exists(),
        "kind": lambda value: value in KINDS,
        "run": lambda value: value.isalnum() and len(value) <= 12,
        "source": lambda value: value in {Source.GENERATED, Source.MINED},
    }
    for name, value in values.items():
        if value and not known[name](value):
            ignored.append(f"{name}={value}")
            values[name] = ""
    filters = Filters(values["policy"], KINDS.get(values["kind"], ""), values["run"], values["source"])
    return Asked(filters, query.get("after", ""), ignored)


def list_context(request: Request, query: QueryDict) -> dict[str, Any]:
    inventory, asked = request.inventory, asked_of(request.inventory, query)
    page = candidates.page(inventory, asked.filters, after=asked.after)
    tray = Tray(request)
    contents = tray.contents(inventory)
    base = reverse("candidates", args=[inventory.slug])
    address = base + (f"?{query.urlencode()}" if query else "")

    def link(**changes: str | None) -> str:
        changed = query.copy()
        changed.pop("after", None)
        for name, value in changes.items():
            changed.pop(name, None)
            if value:
                changed[name] = value
        return f"{base}?{changed.urlencode()}" if changed else base

    nothing = None if page.rows else candidates.why_nothing(inventory, asked.filters)
    return {
        "page": page,
        "groups": shown.rows(page.groups, tray.decisions),
        "ways": shown.ways(page, asked.filters.policy, contents.by_policy, link),
        "wanted": asked,
        "asked_kind": query.get("kind", "") if asked.filters.kind else "",
        "address": address,
        "chips": shown.chips(asked.filters, link),
        "first": link() if asked.after else None,
        "next": f"{link()}{'&' if '?' in link() else '?'}after={page.next}" if page.next else None,
        "tray": contents,
        "may_write": request.role.includes(Role.AUTHOR),
        "part": wants_part(request),
        "k": DEFAULT_K,
        "most_k": MOST_K,
        "most_at_once": candidates_decide.MOST_AT_ONCE,
        "nothing": shown.nothing(nothing, _start_url(request, nothing.run)) if nothing else None,
    }


def _start_url(request: Request, kind: str) -> str:
    """Where a run of that kind is started; "" for who may not start it."""
    if not kind or not request.role.includes(Role(KINDS_OF_RUN[kind].role)):
        return ""
    return f"{reverse('run-new', args=[request.inventory.slug])}?kind={kind}"


# ---------------------------------------------------------------------------------------------------------------- deciding
@require_POST
@require(Role.AUTHOR)
def decide(request: Request, inventory: Inventory) -> HttpResponse:
    """Put a decision into the tray, take it back, or empty the tray; nothing is written."""
    do, ids = request.POST.get("do", ""), [c for c in request.POST.getlist("candidate") if c.isalnum()][:500]
    tray = Tray(request)
    if do == "clear":
        tray.clear()
        return _list_again(request)
    if do in {"best", "rest"}:
        _put_policy(request, tray, do)
        return _list_again(request)
    ticked = [c for c in request.POST.getlist("tick") if c.isalnum()][:500]
    if "bulk" in request.POST:
        _put_ticked(inventory, tray, request.POST["bulk"], ticked)
        return _list_again(request)
    if len(ids) != 1 or do not in {*DECISIONS, "reject_cluster"}:
        raise Malformed(_("This form is not one of the page's."), hint=_("Load the page again."))
    changed = ids
    if do == "reject_cluster":
        changed = candidates.cluster_of(inventory, ids[0])
        tray.put(changed, "reject")
    elif tray.decisions.get(ids[0]) == DECISIONS[do]:
        tray.take(ids)  # the same button again takes it back
    else:
        tray.put(ids, DECISIONS[do])
    if not wants_part(request):
        return back_to(request, anchor=request.POST.get("following", ""))
    return render(request, "candidates/decided.html", _acts(request, tray, ids[0], changed))


def _put_policy(request: Request, tray: Tray, do: str) -> None:
    """The best K of one policy on their proposed sides, as many as together keep recall and pins; or none of its rest."""
    asked = asked_of(request.inventory, query_of(list_of(request))).filters
    asked = replace(asked, policy=request.POST.get("policy", "")[:100])
    if not asked.policy:
        raise Malformed(_("This form is not one of the page's."), hint=_("Load the page again."))
    if do == "rest":
        tray.put(candidates_decide.rest(request.inventory, asked, tray.decisions), "reject")
        return
    taken, _left = candidates_decide.best(request.inventory, asked, best_k(request.POST.get("top", str(DEFAULT_K))))
    if not taken:
        say(request, str(NONE_OFFERED))
    found, _gone = candidates_decide.decided(request.inventory, {**tray.decisions, **taken})
    for one in found:
        if one.artifact.key == asked.policy:
            candidates_decide.within_target(one, by=actor_of(request), target=request.inventory.target_recall)
            for exemplar, decision in one.rows:
                tray.put([exemplar.public_id], decision)


def best_k(text: str) -> int:
    """How many are asked for. Raises Invalid."""
    k = whole(text.strip())
    if k is None or not 1 <= k <= MOST_K:
        raise Invalid(_("Ask for 1 to %(n)s of each policy.") % {"n": MOST_K}, field="top")
    return k


def _acts(request: Request, tray: Tray, first: str, changed: Sequence[str]) -> dict[str, Any]:
    """The buttons that changed, the pressed row's first."""
    inventory = request.inventory
    sides = candidates.sides_of(inventory, changed)
    alike = min(whole(request.POST.get("alike", "")) or 1, 10_000)

    def act(public_id: str, following: str = "") -> shown.Act:
        decision = tray.decisions.get(public_id, "")
        gone = public_id not in sides
        return shown.Act(public_id, sides.get(public_id, ""), decision, alike, following, gone)

    return {
        "first": act(first, request.POST.get("following", "")),
        "others": [act(public_id) for public_id in changed if public_id != first],
        "address": list_of(request),
        "tray": tray.contents(inventory),
        "may_write": True,
    }


def _put_ticked(inventory: Inventory, tray: Tray, do: str, ticked: Sequence[str]) -> None:
    if not ticked:
        raise Invalid(_("No row is ticked."), field="tick", hint=_("Tick rows with x, all of them with *."))
    if do == "reject":
        tray.put(ticked, "reject")
    elif do == "suggested":
        sides = candidates.sides_of(inventory, ticked)
        for side in Polarity:
            tray.put([c for c in ticked if sides.get(c) == side], side.value)
    else:
        raise Malformed(_("This is no action for several rows."), field="bulk")


def list_of(request: Request) -> str:
    """The list as it was addressed, from the form's ``next``."""
    base = reverse("candidates", args=[request.inventory.slug])
    try:
        parts = urlsplit(request.POST.get("next", ""))
    except ValueError:
        return base
    return base + (f"?{parts.query}" if parts.path == base and parts.query else "")


def query_of(address: str) -> QueryDict:
    return QueryDict(urlsplit(address).query)


def back_to(request: Request, *, anchor: str = "") -> HttpResponse:
    address = list_of(request) + (f"#{anchor}" if anchor.replace("-", "").isalnum() else "")
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response


def _list_again(request: Request) -> HttpResponse:
    if not wants_part(request):
        return back_to(request)
    return render(request, "candidates/list.html#body", list_context(request, query_of(list_of(request))))
