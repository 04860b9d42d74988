"""Neighbours (P4): policies that are selected together or have learnt alike, as a matrix and a list, and one pair of them."""

from typing import Any

import numpy as np
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET
from numpy.typing import NDArray

from console.models import Inventory, Role
from console.permissions import Request, require, wants_part
from console.presenters import figures_neighbours as figures
from console.presenters.names import policy_names
from console.services import neighbours as service
from console.services.evaluation_pages import rank_of
from console.services.neighbours import Neighbourhood

PAGE = 50
BY = (("one", _("One too many")), ("rate", _("Selected together")), ("cosine", _("Learnt alike")))


def _by(request: Request) -> str:
    asked = request.GET.get("by", "")
    return asked if asked in dict(BY) else "one"


@require_GET
@require(Role.VIEWER)
def neighbours(request: Request, inventory: Inventory) -> HttpResponse:
    """``?by=`` one, rate or cosine; ``?q=`` a part of a policy's name; ``?after=`` a rank of the list."""
    found, by, q = service.neighbourhood(inventory), _by(request), request.GET.get("q", "")[:80]
    if found is None:
        return render(request, "neighbours/list.html", {"found": None})
    names = policy_names(inventory, found.keys)
    start = rank_of(request.GET.get("after", ""))
    rows = _asked(found, names, by, q)
    context: dict[str, Any] = {
        "found": found,
        "rows": [_row(found, names, i, j) for i, j in rows[start : start + PAGE].tolist()],
        "next": start + PAGE if len(rows) > start + PAGE else None,
        "by": by,
        "choices": BY,
        "caption": figures.caption(by),
        "q": q,
        "policies": len(found.keys),
        "drawn": len(found.drawn),
        "pairs": len(rows),
    }
    return render(request, "neighbours/list.html#rows" if wants_part(request) else "neighbours/list.html", context)


def _asked(found: Neighbourhood, names: dict[str, str], by: str, q: str) -> NDArray[np.intp]:
    """The pairs of the list, the strongest first; with ``q`` those of a policy so named."""
    wanted, pairs = q.strip().casefold(), found.pairs(by)
    if not wanted:
        return pairs
    hit = np.array([wanted in names.get(key, "").casefold() or wanted in key for key in found.keys], dtype=bool)
    return pairs[hit[pairs].any(axis=1)]


def _row(found: Neighbourhood, names: dict[str, str], i: int, j: int) -> dict[str, Any]:
    a, b = found.keys[i], found.keys[j]
    return {
        "a": a, "b": b, "a_name": names.get(a, a), "b_name": names.get(b, b), "one": int(found.one[i, j]),
        "both": int(found.both[i, j]), "rate": float(found.rate[i, j]), "cosine": float(found.cosine[i, j]),
    }  # fmt: skip


@require_GET
@require(Role.VIEWER)
def neighbours_figures(request: Request, inventory: Inventory) -> HttpResponse:
    found, by = service.neighbourhood(inventory), _by(request)
    if found is None:
        return JsonResponse({})
    keys = tuple(found.keys[j] for j in found.drawn.tolist())
    base = reverse("neighbours", args=[inventory.slug])
    links = {(a, b): f"{base}{a}...{b}/" for a in keys for b in keys if a != b}
    response = JsonResponse({"matrix": figures.matrix_figure(found, policy_names(inventory, keys), links, by=by)})
    response["Cache-Control"] = "private, no-cache"
    return response


@require_GET
@require(Role.VIEWER)
def neighbours_pair(request: Request, inventory: Inventory, a: str, b: str) -> HttpResponse:
    """Two policies: how often both are selected, and the turns where one of them was selected for nothing."""
    ranks = rank_of(request.GET.get("a", "")), rank_of(request.GET.get("b", ""))
    found = service.pair(inventory, a, b, after=ranks)
    context = {
        "found": found,
        "sides": [("a", found.sides[0]), ("b", found.sides[1])],
        "beside": f"{reverse('policy-map', args=[inventory.slug, a])}?beside={b}",
    }
    return render(request, "neighbours/pair.html", context)
