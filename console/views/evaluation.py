"""Evaluation: what was measured, one measurement with its baselines, policies and errors, and two held against each other."""

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from console.models import Evaluation, Inventory, Role, RunKind
from console.permissions import Request, actor_of, refused, require, wants_part
from console.presenters import evaluation as shown
from console.presenters import figures_evaluation as figures
from console.presenters import labels, run_words
from console.presenters.runs import nobody_works
from console.services import evaluation_compare as comparing
from console.services import evaluation_pages as service
from console.services import runs
from console.services.errors import Invalid
from console.services.evaluate import OVERVIEW
from console.services.evaluation_overview import READINGS
from console.services.witness import witness
from console.views.frame import say, whole
from console.views.runs import wake


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def evaluations(request: Request, inventory: Inventory) -> HttpResponse:
    """The list; ``?v=`` twice compares two of them. A POST measures a release (the newest by default)."""
    if request.method == "POST":
        return _start(request, inventory)
    ticked = request.GET.getlist("v")
    if ticked:
        if len(ticked) != 2 or ticked[0] == ticked[1]:
            raise Invalid(_("Two evaluations are needed to compare."), field="v", hint=_("Tick exactly two."))
        pair = sorted((service.get_evaluation(inventory, run) for run in ticked), key=lambda e: e.pk)
        return redirect("evaluation-compare", inventory.slug, *(e.run.public_id for e in pair))
    found = service.listed(inventory, before=whole(request.GET.get("after", "")))
    technical = request.user.technical_terms
    context: dict[str, Any] = {
        "rows": [
            {"run": run, "evaluation": kept, "table": run_words.scope(run.kind, run.scope, run.params),
             "state": labels.RUN_STATES[run.state].text(technical=technical), "overview": run.params.get("protocol") == OVERVIEW}
            for run, kept in found.rows
        ],
        "next": found.next,
        "working": any(not run.ended for run, _kept in found.rows),
        "measured": sum(kept is not None for _run, kept in found.rows),
    }  # fmt: skip
    if wants_part(request):
        return render(request, "evaluation/list.html#rows", context)
    return render(
        request, "evaluation/list.html", context | {"witness": witness(inventory), "nobody_works": nobody_works()}
    )


def _start(request: Request, inventory: Inventory) -> HttpResponse:
    if not request.role.includes(Role.REVIEWER):
        return refused(request, Role.REVIEWER)
    number = whole(request.POST.get("release", "")) or inventory.release
    params = {"protocol": OVERVIEW, "release": number}
    run = runs.create_run(inventory, RunKind.EVALUATE, by=actor_of(request), params=params)
    wake(run)
    say(request, _("Release %(n)s is being measured.") % {"n": number})
    response = HttpResponseRedirect(request.path)
    response.status_code = 303
    return response


@require_GET
@require(Role.VIEWER)
def evaluation(request: Request, inventory: Inventory, run: str) -> HttpResponse:
    """One evaluation. ``?labels=`` the reading, ``?sort=``, ``?q=`` and ``?after=`` of the policies, ``?policy=``,
    ``?missed=`` and ``?extra=`` (ranks) of the errors.
    """
    found = service.get_evaluation(inventory, run)
    asked = request.GET
    name, sort, technical = (
        shown.reading_of(asked.get("labels", "")),
        shown.sort_of(asked.get("sort", "")),
        request.user.technical_terms,
    )
    reading = found.detail["readings"][name]
    policy = asked.get("policy", "")
    policy = policy if policy in found.detail["names"] else ""
    policies = shown.policies(
        found, reading, sort=sort, q=asked.get("q", "")[:80], after=service.rank_of(asked.get("after", ""))
    )
    sides = service.errors(
        found, reading=name, policy=policy, after={side: asked.get(side, "") for side in service.SIDES}
    )
    context = {
        "evaluation": found,
        "reading": name,
        "found": reading,
        "head": reading["headline"],
        "readings": [(each, str(labels.RUN_VALUES[each])) for each in READINGS],
        "methods": shown.methods(reading, technical=technical),
        "best_cosine": labels.method(reading["headline"]["best_cosine"], technical=technical),
        "policies": policies,
        "sort": sort,
        "q": asked.get("q", "")[:80],
        "policy": policy,
        "policy_name": found.detail["names"].get(policy, ""),
        "names": found.detail["names"],
        "sides": sides,
        "slopes": [row for row in reading["policies"] if row["slope"]],
        "families": [
            (labels.method(f"family-{row['family']}", technical=technical), row) for row in reading["upgrade"]["families"]
        ],
        "rests_on": shown.rests_on(found),
        "target": inventory.target_recall,
        "witness": witness(inventory),
    }  # fmt: skip
    if wants_part(request):
        return render(request, "evaluation/one.html#policies", context)
    return render(request, "evaluation/one.html", context)


@require_GET
@require(Role.VIEWER)
def evaluation_figures(request: Request, inventory: Inventory, run: str) -> HttpResponse:
    found = service.get_evaluation(inventory, run)
    reading = found.detail["readings"][shown.reading_of(request.GET.get("labels", ""))]
    technical = request.user.technical_terms
    return _json(
        {
            "frontier": figures.frontier_figure(reading, target=inventory.target_recall, technical=technical),
            "slope": figures.slope_figure(reading, found.detail["names"], technical=technical),
        }
    )


def _json(found: dict[str, Any]) -> JsonResponse:
    response = JsonResponse(found)
    response["Cache-Control"] = "private, no-cache"
    return response


def _two(inventory: Inventory, a: str, b: str) -> tuple[Evaluation, Evaluation]:
    return service.get_evaluation(inventory, a), service.get_evaluation(inventory, b)


@require_GET
@require(Role.VIEWER)
def compare(request: Request, inventory: Inventory, a: str, b: str) -> HttpResponse:
    """Two evaluations on the turns both measured. ``?labels=``, ``?kind=`` of flip, ``?after=`` a rank."""
    old, new = _two(inventory, a, b)
    name = shown.reading_of(request.GET.get("labels", ""))
    found = comparing.comparison(old, new, reading=name)
    kind = request.GET.get("kind", "")
    kind = kind if kind in comparing.KINDS else ""
    flips, following, total = comparing.flipped(new, found, kind=kind, after=request.GET.get("after", ""))
    moved = [row for row in found.policies if row.moved or any(row.flips.values())]
    context = {
        "old": old,
        "new": new,
        "found": found,
        "reading": name,
        "readings": [(each, str(labels.RUN_VALUES[each])) for each in READINGS],
        "moved": moved[: shown.PAGE],
        "moved_n": len(moved),
        "names": {**old.detail["names"], **new.detail["names"]},
        "kinds": [(each, shown.FLIPS[each], found.flips[each]) for each in comparing.KINDS],
        "kind": kind,
        "flips": [(shown.FLIPS[each], turn) for each, turn in flips],
        "next": following,
        "total": total,
        "witness": witness(inventory),
    }
    return render(request, "evaluation/compare.html", context)


@require_GET
@require(Role.VIEWER)
def compare_figures(request: Request, inventory: Inventory, a: str, b: str) -> HttpResponse:
    name = shown.reading_of(request.GET.get("labels", ""))
    pair = [(_("Release %(n)s") % {"n": e.release}, e.detail["readings"][name]) for e in _two(inventory, a, b)]
    if pair[0][0] == pair[1][0]:  # the same release, measured twice
        pair = [
            (f"{title}, {place}", reading)
            for place, (title, reading) in zip((_("first"), _("second")), pair, strict=True)
        ]
    figure = figures.compared_figure(pair, target=inventory.target_recall, technical=request.user.technical_terms)
    return _json({"compared": figure})
