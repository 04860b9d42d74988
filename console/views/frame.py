"""What every page's frame needs: navigation, the inventory's state in the header, the reader's own settings."""

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import get_resolver, reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _

from console.models import Inventory, OperatingPoint, Role, Run
from console.permissions import inventories_of, last_inventory
from console.services.inventories import point_as_read

THEMES = ("light", "dark")


@dataclass(frozen=True)
class Entry:
    """A line of the navigation; ``names`` are the URL names under which it is the current one."""

    route: str
    label: str | Promise
    key: str = ""
    names: tuple[str, ...] = ()
    group: bool = False  # a hairline above
    needs: Role = Role.VIEWER
    unless: Role | None = None  # who has this role is led to another page


# In this order on every page. An entry appears once its page exists.
NAVIGATION = (
    Entry("home", _("Home")),
    Entry("policies", _("Policies"), "g p", ("policy", "policy-")),
    Entry("neighbours", _("Neighbours"), "", ("neighbours-",)),
    Entry("conversations", _("Conversations"), "g c", ("conversation", "similar", "saved-views", "why")),
    Entry("playground", _("Playground")),
    Entry("review", _("Review"), "g j", ("review-",), group=True),
    Entry("candidates", _("Suggestions"), "", ("candidates-",)),
    Entry("agreement", _("Agreement"), "g a", ("agreement-",)),
    Entry("evaluation", _("Evaluation"), "", ("evaluation-",)),
    Entry("evidence", _("Evidence"), "", ("evidence-",)),
    Entry("releases", _("Releases"), "", ("release-", "undo"), group=True),
    Entry("runs", _("Runs"), "g r", ("run", "run-", "schedules", "schedule", "schedule-", "costs")),
    Entry("data", _("Data"), "", ("data-",)),
    Entry("audit", _("Audit"), needs=Role.REVIEWER),
    Entry("settings-general", _("Settings"), "", ("settings-",), needs=Role.ADMIN),
    Entry("settings-migrations", _("Settings"), "", ("settings-",), needs=Role.PUBLISHER, unless=Role.ADMIN),
)

# The `?` sheet. Page-specific keys are on their buttons (data-key) and come after these.
KEYS = (
    ("?", _("This sheet")),
    ("/", _("Search")),
    ("g p", _("Go to Policies")),
    ("g c", _("Go to Conversations")),
    ("g r", _("Go to Runs")),
    ("g j", _("Go to Review")),
    ("g a", _("Go to Agreement")),
    ("j", _("Next row")),
    ("k", _("Previous row")),
    ("Enter", _("Open the row")),
    ("Esc", _("Close, or leave the field")),
    ("x", _("Tick the row")),
    ("Shift x", _("Tick from the last ticked row to here")),
    ("*", _("Tick all on the page")),
    ("u", _("Undo")),
    (".", _("Actions of the row")),
)


# What the profile lets people move: the single keys above, and those that pages put on their buttons.
OWN_KEYS = (
    *((key, what) for key, what in KEYS if len(key) == 1),
    ("s", _("Use as a show example")),
    ("a", _("Use as a don't-show example")),
    ("r", _("Don't use")),
    ("]", _("Next message, or next policy")),
    ("[", _("Message before, or policy before")),
    ("p", _("Must select here")),
    ("w", _("Why")),
    ("y", _("Review: yes")),
    ("n", _("Review: no")),
    ("o", _("Review: unsure")),
    ("m", _("Note")),
    ("z", _("My last answers")),
    ("f", _("Flag")),
    (">", _("To the end of the queue")),
    ("h", _("History")),
    ("t", _("Move to the other side")),
    ("e", _("Edit")),
    ("v", _("What will change")),
    ("d", _("Compare; don't use the rest of a policy")),
    ("l", _("Lasso on the map")),
    ("b", _("Box on the map; use the best of a policy")),
    ("0", _("The whole map")),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    inventory: Inventory = request.inventory  # type: ignore[attr-defined]
    role: Role = getattr(request, "role", Role.VIEWER)
    known = get_resolver().reverse_dict
    match = request.resolver_match
    name = (match.url_name if match else None) or ""
    return [
        {
            "url": reverse(entry.route, args=[inventory.slug]),
            "label": entry.label,
            "key": entry.key,
            "group": entry.group,
            "current": name == entry.route
            or any(name == n or (n.endswith("-") and name.startswith(n)) for n in entry.names),
        }
        for entry in NAVIGATION
        if entry.route in known and role.includes(entry.needs) and not (entry.unless and role.includes(entry.unless))
    ]


def operating_point(inventory: Inventory) -> OperatingPoint:
    return point_as_read(inventory)


def runs_at_work(inventory: Inventory) -> int:
    """How many runs of the inventory have not ended and wait for nobody."""
    return Run.objects.filter(inventory=inventory).working().count()


def frame(request: HttpRequest) -> dict[str, Any]:
    """Context of every template; what costs a query is read only by the templates that ask for it."""
    user = getattr(request, "user", None)
    inventory: Inventory | None = getattr(request, "inventory", None)
    theme = request.COOKIES.get("theme", "")
    context: dict[str, Any] = {
        "theme": theme if theme in THEMES else "",
        "technical_terms": bool(user and user.is_authenticated and user.technical_terms),
        "key_map": user.key_map if user and user.is_authenticated else {},
        "key_map_json": json.dumps(user.key_map) if user and user.is_authenticated and user.key_map else "",
        "keys": KEYS,
        "inventory": inventory,
        "role": getattr(request, "role", None),
        "inventories": SimpleLazyObject(lambda: _inventories(request)),
    }
    if inventory is not None:
        context["navigation"] = SimpleLazyObject(lambda: navigation(request))
        known: int | None = getattr(request, "runs_at_work", None)  # read with the inventory, on its own pages
        context["runs_at_work"] = SimpleLazyObject(lambda: runs_at_work(inventory) if known is None else known)
        context["operating_point"] = SimpleLazyObject(lambda: operating_point(inventory))
    return context


def _inventories(request: HttpRequest) -> list[Inventory]:
    """The reader's, as `permissions.require` has read them already on an inventory's page."""
    found: list[Inventory] | None = getattr(request, "inventories", None)
    user = getattr(request, "user", None)
    return found if found is not None else inventories_of(user) if user else []


def say(request: HttpRequest, text: str, *, undo: str = "", error: bool = False) -> None:
    """The result of an action in one line, with the address that undoes it: in #status of the next page or partial."""
    messages.add_message(request, messages.ERROR if error else messages.SUCCESS, text, extra_tags=undo)


def posted(request: HttpRequest) -> QueryDict | None:
    """What a form is bound to: an empty POST is a POST all the same."""
    return request.POST if request.method == "POST" else None


def local_next(request: HttpRequest, fallback: str) -> str:
    """The address a form asks to come back to, if it is one of ours."""
    address = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(
        address, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return address if ours and address.startswith("/") else fallback  # a bare word would be read as a route's name


def whole(text: str) -> int | None:
    """A whole number of an address or a form; None for what is none, or longer than any number here."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None


def front(request: HttpRequest) -> HttpResponse:
    """The home of the inventory last looked at; the first steps for who has none; the sign-in page for strangers."""
    if not request.user.is_authenticated:
        return redirect("sign-in")
    last = last_inventory(request)
    return redirect("home", last.slug) if last else redirect("start")
