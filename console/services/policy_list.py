"""The list of policies: what it can be filtered and ordered by, one page of it (its rows: `policy_rows`).

All rows are read together and filtered here: for pages, API, exports and bulk acts alike.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext_lazy as _

from console.models import FitSet, Inventory, Kind, OperatingPoint
from console.services import policy_rows, saved_views
from console.services.filters import Asked, Field, parse
from console.services.policy_rows import Row
from sq_core.conversation import clean_text

PAGE, LONGEST = 50, 200
STATES: dict[str, Any] = {
    "under_target": _("caught under target"),
    "unfitted": _("no examples yet"),
    "text_changed": _("text changed"),
    "failing_pin": _("must-select turn missed"),
    "few": _("few judged turns"),
    "never": _("never needed"),
    "stale": _("of another centre"),
}
MODES: dict[str, Any] = {
    "auto": _("decided"),
    "always": _("always on"),
    "off": _("off"),
    "archived": _("archived"),
}
GENRES: dict[str, Any] = {
    FitSet.GENERATED: _("written by AI"),
    FitSet.MINED: _("from real chats"),
    FitSet.MIXED: _("both"),
}
DEFAULT = "recall"


# ------------------------------------------------------------------------------------------------------------- conditions
def fields(inventory: Inventory) -> tuple[Field, ...]:
    """Every condition reads a `Row`."""
    return (
        Field("state", _("State"), "choice", get=lambda row: row.states, choices=STATES),
        Field("mode", _("Mode"), "choice", get=lambda row: "archived" if row.archived else row.mode, choices=MODES),
        Field("genre", _("Learns from"), "choice", get=lambda row: row.genre, choices=GENRES),
        Field("kind", _("Kind"), "choice", get=lambda row: row.artifact.kind, choices={k: k for k in Kind.values}),
        Field("recall", _("Caught, %"), "number", get=lambda row: _percent(row.recall), hint="0–100"),
        Field("precision", _("Needed when shown, %"), "number", get=lambda row: _percent(row.precision), hint="0–100"),
        Field("share", _("Selected share, %"), "number", get=lambda row: _percent(row.share), hint="0–100"),
        Field("needed", _("Turns that needed it"), "number", get=lambda row: row.relevant),
        Field("week", _("Selected in the last 7 days"), "number", get=lambda row: row.week_fired),
        Field("waiting", _("Suggested examples"), "number", get=lambda row: row.candidates),
        Field("key", _("Key"), get=lambda row: row.key),
        Field("name", _("Name"), get=lambda row: row.name),
        Field(
            saved_views.AMONG, _("Selection"), "choice", get=_Selections(inventory).of, hint=_("a saved selection's id")
        ),
    )  # fmt: skip


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


class _Selections:
    """Which saved selections a row is in; read when it is first asked."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._held: dict[str, frozenset[str]] | None = None

    def of(self, row: Row) -> frozenset[str]:
        if self._held is None:
            self._held = saved_views.selections(self._inventory, "policies")
        return frozenset(name for name, keys in self._held.items() if row.key in keys)


_ORDERS: dict[str, Callable[[Row], Any]] = {
    "recall": lambda row: row.recall,
    "precision": lambda row: row.precision,
    "share": lambda row: row.share,
    "name": lambda row: row.name.casefold(),
    "week": lambda row: row.week_fired,
    "waiting": lambda row: row.oldest,
    "age": lambda row: row.made_at,
}
SORTS = (*(f"{sign}{name}" for name in _ORDERS for sign in ("", "-")), "order")


@dataclass(frozen=True)
class Wanted:
    q: str = ""
    asked: Asked = field(default_factory=Asked)
    sort: str = DEFAULT


def wanted(inventory: Inventory, *, q: str = "", f: Sequence[str] = (), sort: str = "") -> Wanted:
    """From the parameters of an address; never raises for what somebody typed."""
    return Wanted(clean_text(q)[0].strip()[:LONGEST], parse(f, fields(inventory)), sort if sort in SORTS else DEFAULT)


def chosen(every: Iterable[Row], asks: Wanted) -> list[Row]:
    """The rows that match, in the order asked for. Archived ones only when a condition speaks of them."""
    archived = any(c.field.name == "mode" and c.text == "archived" for c in asks.asked.conditions)
    words = asks.q.casefold().split()
    found = []
    for row in every:
        haystack = f"{row.key} {row.name} {row.text}".casefold() if words else ""
        if (archived or not row.archived) and all(word in haystack for word in words) and asks.asked.keeps(row):
            found.append(row)
    return ordered(found, asks.sort)


def matching(inventory: Inventory, asks: Wanted) -> list[Row]:
    return chosen(policy_rows.read(inventory).rows, asks)


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """By the column, then by name and place; what has no value comes last, whichever way it is turned."""
    name = sort.removeprefix("-")
    if name == "order":
        return list(rows)
    value = _ORDERS[name]
    known = sorted((row for row in rows if value(row) is not None), key=lambda row: row.name.casefold())
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + [row for row in rows if value(row) is None]


@dataclass(frozen=True)
class Page:
    rows: list[Row]
    next: str | None
    matching: int
    every: list[Row]
    point: OperatingPoint

    @property
    def total(self) -> int:
        """Of all that are not archived."""
        return sum(not row.archived for row in self.every)


def page(inventory: Inventory, asks: Wanted, *, after: str = "", size: int = PAGE, fresh: bool = False) -> Page:
    """``after`` is the key of the last row before; ``fresh`` as in `policy_rows.read`."""
    read = policy_rows.read(inventory, fresh=fresh)
    every = read.rows
    found = chosen(every, asks)
    start = 0
    if after:
        keys = {row.key for row in found}
        whole = ordered(every, asks.sort)  # it may have left the list meanwhile: where it would stand
        place = next((n for n, row in enumerate(whole) if row.key == after), len(whole) - 1)
        start = sum(row.key in keys for row in whole[: place + 1])
    shown = found[start : start + size]
    more = len(found) > start + size
    return Page(shown, shown[-1].key if more else None, len(found), every, read.point)
