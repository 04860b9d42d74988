"""What model calls cost: the ledger summed by run, policy, model, source or day. Reads only; rows are written by the work itself.

Three kinds of money are never added to each other: what is known, what is unknown (counted in calls and tokens), and what
was replayed and cost nothing.
"""

import zoneinfo
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from console.models import Inventory, Spend

UNKNOWN = Q(money__isnull=True)
DIMENSIONS = {
    "source": ("source",),
    "model": ("model",),
    "policy": ("artifact_id",),
    "run": ("run_id",),
    "day": ("day",),
}


@dataclass(frozen=True)
class Line:
    """Calls of one group. ``money`` is of the calls whose price is known; the ``unknown`` ones stand beside it."""

    key: Any
    calls: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    money: Decimal
    unknown_calls: int
    unknown_tokens: int

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


def month_of(year: int, month: int, zone: zoneinfo.ZoneInfo) -> tuple[datetime, datetime]:
    """Its first moment and the first of the next month, in the reader's zone."""
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return datetime(year, month, 1, tzinfo=zone), datetime(*following, 1, tzinfo=zone)


def spends(
    inventory: Inventory, start: datetime | None = None, end: datetime | None = None, *, recorded: bool | None = None
) -> "QuerySet[Spend]":
    """The ledger's rows of a time, start included; ``recorded``: those alone that were replayed, or that were called."""
    rows = Spend.objects.filter(inventory=inventory)
    if recorded is not None:
        rows = rows.filter(recorded=recorded)
    if start is not None:
        rows = rows.filter(at__gte=start)
    return rows.filter(at__lt=end) if end is not None else rows


def months(inventory: Inventory, zone: zoneinfo.ZoneInfo) -> list[date]:
    """The first days of the months from the first spending to now, newest first."""
    first = Spend.objects.filter(inventory=inventory).aggregate(at=Min("at"))["at"]
    now = timezone.now().astimezone(zone)
    began = (first or now).astimezone(zone)
    found, year, month = [], now.year, now.month
    while (year, month) >= (began.year, began.month):
        found.append(date(year, month, 1))
        year, month = (year - 1, 12) if month == 1 else (year, month - 1)
    return found or [date(now.year, now.month, 1)]


def total(rows: "QuerySet[Spend]") -> Line:
    return _line(rows.aggregate(**_sums()), None)


def sum_of(lines: Iterable[Line]) -> Line:
    """What the lines of one table add up to: `total` of the same rows."""
    listed = list(lines)
    names = ("calls", "tokens_in", "tokens_cached", "tokens_out", "unknown_calls", "unknown_tokens")
    counts = {name: sum(getattr(line, name) for line in listed) for name in names}
    return Line(key=None, money=sum((line.money for line in listed), Decimal(0)), **counts)


def grouped(rows: "QuerySet[Spend]", dimension: str, zone: zoneinfo.ZoneInfo | None = None) -> list[Line]:
    """One line per value of the dimension, dearest first (days in their order); every call is in exactly one of them."""
    names = DIMENSIONS[dimension]
    if dimension == "day":
        rows = rows.annotate(day=TruncDate("at", tzinfo=zone))
    found = [_line(row, row[names[0]]) for row in rows.values(*names).order_by().annotate(**_sums())]
    if dimension == "day":
        return sorted(found, key=lambda line: line.key)
    return sorted(found, key=lambda line: (-line.money, -line.unknown_tokens, -line.tokens, str(line.key)))


def _sums() -> dict[str, Any]:
    return {
        "calls": Count("id"),
        "t_in": Sum("tokens_in"),
        "t_cached": Sum("tokens_cached"),
        "t_out": Sum("tokens_out"),
        "sum": Sum("money"),
        "unknown": Count("id", filter=UNKNOWN),
        "unknown_t": Sum(F("tokens_in") + F("tokens_out"), filter=UNKNOWN),
    }


def _line(row: dict[str, Any], key: Any) -> Line:
    return Line(
        key=key,
        calls=row["calls"],
        tokens_in=row["t_in"] or 0,
        tokens_cached=row["t_cached"] or 0,
        tokens_out=row["t_out"] or 0,
        money=row["sum"] or Decimal(0),
        unknown_calls=row["unknown"],
        unknown_tokens=row["unknown_t"] or 0,
    )


def ledger(rows: "QuerySet[Spend]") -> Iterator[dict[str, Any]]:
    """Every row of the ledger as it is written to a file, oldest first; money "" where the price is unknown."""
    read = rows.select_related("run", "artifact").order_by("id").values_list(
        "at", "source", "run__public_id", "artifact__key", "model", "prompt_version", "recorded", "tokens_in",
        "tokens_cached", "tokens_out", "money",
    )  # fmt: skip
    for at, source, run, artifact, model, prompt, recorded, t_in, cached, t_out, money in read.iterator(2_000):
        yield {
            "at": at.astimezone(zoneinfo.ZoneInfo("UTC")).isoformat(),
            "source": source,
            "run": run or "",
            "policy": artifact or "",
            "model": model,
            "prompt_version": prompt,
            "recorded": "yes" if recorded else "no",
            "tokens_in": t_in,
            "tokens_cached": cached,
            "tokens_out": t_out,
            "money": "" if money is None else f"{money:f}",
        }
