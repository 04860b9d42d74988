"""Agreement (P9) and what follows from it (P9a): who agrees with whom, the turns behind a cell, differences decided."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.models import Artifact, Guideline, Inventory, ReviewItem, Role
from console.permissions import Request, actor_of, require
from console.presenters import agreement as shown
from console.presenters import figures_pages
from console.services import agreement as service
from console.services import decide as deciding
from console.services import precision, review_items
from console.services.agreement import LISTED, Comparison, Filters
from console.services.errors import Invalid
from console.services.filters import time_of
from console.views.frame import say


@require_GET
@require(Role.VIEWER)
def agreement(request: Request, inventory: Inventory) -> HttpResponse:
    """``?policy=`` a key, ``?judge=`` an AI reviewer's name, ``?from=`` a time, ``?show=scores`` the 5 × 5 tables,
    ``?cell=`` one cell's turns. State is in the address alone.
    """
    judges, policies = service.judges(inventory), _policies(inventory)
    filters, ignored = _filters(request, judges, policies)
    scores = request.GET.get("show") == "scores"
    found = None if scores else service.audit_sample(inventory, filters)
    if found is not None:
        comparisons = found.comparisons
    else:
        comparisons = [service.repeats(inventory, filters), service.all_labels(inventory, filters)]
    kept = {name: request.GET[name] for name in ("policy", "judge", "from", "show") if request.GET.get(name)}
    base = reverse("agreement", args=[inventory.slug])
    cell = request.GET.get("cell", "")

    def link(name: str) -> str:
        return f"{base}?{urlencode({**kept, 'cell': name})}#turns"

    context = {
        "found": found,
        "cards": [shown.card(comparison, link, cell) for comparison in comparisons],
        "listed": _listed(comparisons, cell),
        "ignored": ignored,
        "filters": filters,
        "judges": judges,
        "judge": filters.judge or inventory.judge,
        "policies": policies,
        "scores": scores,
        "nothing": found is not None and not found.answers,
        "most": LISTED,
        "sampled": None if scores or filters.policy else precision.of_inventory(inventory),
        "drawn": urlencode(kept)
        if found and any(c.audit and c.result.kappa is not None for c in comparisons)
        else None,
    }
    return render(request, "agreement/agreement.html", context)


@require_GET
@require(Role.VIEWER)
def agreement_figures(request: Request, inventory: Inventory) -> HttpResponse:
    """κ of every comparison under the page's own filters, as a figure."""
    filters, _ignored = _filters(request, service.judges(inventory), _policies(inventory))
    cards = [shown.card(each, lambda _cell: "", "") for each in service.audit_sample(inventory, filters).comparisons]
    found = {}
    if any(card.kappa is not None for card in cards):
        found["kappa"] = figures_pages.agreement_figure(cards, technical=request.user.technical_terms)
    return JsonResponse(found)


@require_POST
@require(Role.AUTHOR)
def agreement_review(request: Request, inventory: Inventory) -> HttpResponse:
    """A queue of the turns behind a cell, under the address's filters; blind, so that nobody sees what the cell says."""
    filters, _ignored = _filters(request, service.judges(inventory), _policies(inventory))
    comparisons = (
        [service.repeats(inventory, filters), service.all_labels(inventory, filters)]
        if request.GET.get("show") == "scores"
        else service.audit_sample(inventory, filters).comparisons
    )
    listed = _listed(comparisons, request.GET.get("cell", ""))
    if listed is None or not listed["pairs"]:
        raise Invalid(_("There is no turn in this cell."), field="cell")
    made = service.queue_of(inventory, listed["pairs"], by=actor_of(request), name=str(listed["title"])[:120])
    say(request, _("%(name)s: %(n)s items.") % {"name": made.name, "n": made.size})
    return redirect("review-queue", inventory.slug, made.public_id)


def _policies(inventory: Inventory) -> list[str]:
    return list(Artifact.objects.filter(inventory=inventory).order_by("key").values_list("key", flat=True))


def _filters(request: Request, judges: list[Any], policies: list[str]) -> tuple[Filters, list[str]]:
    asked, ignored = request.GET, []
    policy = asked.get("policy", "")
    if policy and policy not in policies:
        ignored.append(f"policy={policy}")
        policy = ""
    judge = next((j for j in judges if j.name == asked.get("judge")), None)
    if asked.get("judge") and judge is None:
        ignored.append(f"judge={asked['judge']}")
    since = None
    if asked.get("from"):
        try:
            since = time_of(asked["from"])
        except (ValueError, OverflowError):
            ignored.append(f"from={asked['from']}")
    return Filters(policy=policy, judge=judge, since=since), ignored


def _listed(comparisons: list[Comparison], cell: str) -> dict[str, Any] | None:
    """The turns behind a cell; None where none is asked for."""
    parts = cell.split(":")
    comparison = next((c for c in comparisons if c.name == parts[0]), None)
    if comparison is None or len(parts) != 3 or not all(part.isdecimal() and len(part) == 1 for part in parts[1:]):
        return None
    first, second = int(parts[1]), int(parts[2])
    pairs = comparison.cell(first, second)
    n = sum((p.first, p.second) == (first, second) for p in comparison.pairs)
    title = shown.cell_title(comparison, first, second)
    return {"pairs": pairs[:LISTED], "n": n, "hidden": n - len(pairs), "title": title, "more": len(pairs) - LISTED}


def _guided(request: Request, item: ReviewItem, needed: bool) -> Guideline | None:
    """The case in the guideline, for who may change it and asked for it."""
    if "guideline" not in request.POST or not request.role.includes(Role.ADMIN):
        return None
    return deciding.add_case(item, needed, request.POST.get("reason", ""), by=actor_of(request))


AGAIN = 50  # turns that are offered to be scored again after a change of the guideline


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def decide(request: Request, inventory: Inventory) -> HttpResponse:
    """``?policy=``; ``?judged=`` a policy whose turns are offered to be scored again under the newest guideline. A POST of item,
    queue, needed and reason decides one; with ``guideline`` it becomes a case of the AI reviewer's guideline."""
    policy = request.GET.get("policy", "")
    error: Invalid | None = None
    if request.method == "POST":
        item = review_items.get_item(inventory, request.POST.get("queue", ""), request.POST.get("item", ""))
        needed = request.POST.get("needed")
        try:
            if needed not in {"yes", "no"}:
                raise Invalid(_("Say needed or not needed."), field="needed")
            deciding.decide(item, needed == "yes", request.POST.get("reason", ""), by=actor_of(request))
        except Invalid as refused:
            error = refused
        else:
            made = _guided(request, item, needed == "yes")
            if made is not None:
                say(request, _("Guideline %(n)s has the case.") % {"n": made.number})
                query = urlencode({"policy": policy, "judged": item.artifact.key, "guideline": made.number})
                return redirect(f"{request.path}?{query}")
            say(request, _("Decided: %(word)s.") % {"word": _("needed") if needed == "yes" else _("not needed")})
            return redirect(request.get_full_path())
    judged = request.GET.get("judged", "")
    again = judged if judged in _policies(inventory) else ""
    cases, n = deciding.cases(inventory, policy=policy)
    context = {
        "cases": cases,
        "again": again,
        "again_of": AGAIN,
        "n": n,
        "error": error,
        "wrong": request.POST.get("item", ""),
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "agreement/decide.html", context, status=error.status if error else 200)
