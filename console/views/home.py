"""Home: the headline, and four cards that can each be asked for alone."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, require, wants_part
from console.presenters import home as cards_of
from console.presenters import tour
from console.services import log_figures, policy_rows
from console.services.errors import ServiceError


def _needs(request: Request, inventory: Inventory) -> Any:
    return cards_of.needs(inventory, policy_rows.but_for_the_week(inventory), request.user)


def _watch(request: Request, inventory: Inventory) -> Any:
    return cards_of.watch(policy_rows.but_for_the_week(inventory))


def _activity(request: Request, inventory: Inventory) -> Any:
    return cards_of.activity(inventory, request.user, _since(request))


def _runs(request: Request, inventory: Inventory) -> Any:
    return cards_of.runs_card(inventory, _since(request), technical=request.user.technical_terms)


def _headline(request: Request, inventory: Inventory) -> Any:
    return log_figures.headline(inventory)


# The name of a card is the id of its element, its partial's name and the value of ?card=.
CARDS: dict[str, Callable[[Request, Inventory], Any]] = {
    "headline": _headline,
    "needs-you": _needs,
    "watch": _watch,
    "activity": _activity,
    "runs": _runs,
}


@require_GET
@require(Role.VIEWER)
def home(request: Request, inventory: Inventory) -> HttpResponse:
    one = request.GET.get("card", "")
    if wants_part(request) and one:
        if one not in CARDS:
            raise Http404
        return render(request, f"home/home.html#{one}", {"cards": {_name(one): _card(request, inventory, one)}})
    cards = {_name(card): _card(request, inventory, card) for card in CARDS}
    return render(request, "home/home.html", {"cards": cards, "tour": _tour(request, inventory)})


def _tour(request: Request, inventory: Inventory) -> tour.Progress | None:
    """The first steps on the sample's home, until they are done or taken off."""
    if inventory.slug != tour.INVENTORY or request.COOKIES.get(tour.COOKIE) == "off":
        return None
    steps = tour.progress(request.user, request.session.get(tour.SESSION, []))
    return steps if steps.now else None


def _name(card: str) -> str:
    return card.replace("-", "_")


def _card(request: Request, inventory: Inventory, card: str) -> dict[str, Any]:
    """A card that fails says so alone."""
    try:
        return {"content": CARDS[card](request, inventory), "error": None}
    except ServiceError as error:
        return {"content": None, "error": error}


def _since(request: Request) -> datetime | None:
    return parse_datetime(request.session.get("since", "")) if request.session.get("since") else None
