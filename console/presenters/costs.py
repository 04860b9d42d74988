"""The ledger in words: what a line of it is about, where it leads, and its money."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from console.models import ArtifactText, Inventory, Run
from console.presenters import amounts, labels, run_words
from console.services.costs import Line

LISTED = 50  # lines of one table; the rest is one more line, so that the table adds up


@dataclass(frozen=True)
class Row:
    line: Line
    label: str = ""
    sub: str = ""
    url: str = ""

    @property
    def money(self) -> str:
        """Of the calls whose price is known; "unknown" where none is, a dash where nothing was called."""
        if not self.line.calls:
            return amounts.NONE
        if self.line.unknown_calls == self.line.calls:
            return _("unknown")
        return amounts.money(self.line.money)


def rows(inventory: Inventory, dimension: str, lines: Iterable[Line], *, technical: bool = False) -> list[Row]:
    """The lines of one table, the smallest ones beyond the limit taken together."""
    listed = list(lines)
    first, others = listed, None
    if dimension != "day" and len(listed) > LISTED:
        first, others = listed[: LISTED - 1], _together(listed[LISTED - 1 :])
    named = _NAMED[dimension](inventory, first, technical)
    n = len(listed) - len(first)
    return named + ([Row(others, _("%(n)s others") % {"n": amounts.figure(n)})] if others else [])


def _together(lines: list[Line]) -> Line:
    names = (
        "calls",
        "tokens_in",
        "tokens_cached",
        "tokens_out",
        "money",
        "unknown_calls",
        "unknown_tokens",
    )
    return Line(key=None, **{name: sum(getattr(line, name) for line in lines) for name in names})


def _sources(inventory: Inventory, lines: list[Line], technical: bool) -> list[Row]:
    return [Row(line, labels.spend_source(line.key, technical=technical)) for line in lines]


def _models(inventory: Inventory, lines: list[Line], technical: bool) -> list[Row]:
    return [Row(line, line.key or _("no name")) for line in lines]


def _days(inventory: Inventory, lines: list[Line], technical: bool) -> list[Row]:
    return [Row(line, line.key.isoformat() if isinstance(line.key, date) else str(line.key)) for line in lines]


def _policies(inventory: Inventory, lines: list[Line], technical: bool) -> list[Row]:
    texts = ArtifactText.objects.current().filter(artifact__in=[line.key for line in lines if line.key])
    names = {pk: (name, key) for pk, name, key in texts.values_list("artifact_id", "name", "artifact__key")}
    found = []
    for line in lines:
        name, key = names.get(line.key, (_("several at once, or none"), ""))
        found.append(Row(line, name, url=reverse("policy", args=[inventory.slug, key]) if key else ""))
    return found


def _runs(inventory: Inventory, lines: list[Line], technical: bool) -> list[Row]:
    known: Mapping[Any, Run] = Run.objects.in_bulk([line.key for line in lines if line.key])
    found = []
    for line in lines:
        run = known.get(line.key)
        if run is None:
            found.append(Row(line, _("no run")))
            continue
        label = f"{labels.run_kind(run.kind, technical=technical)}, {run_words.clock(run.created_at)}"
        url = reverse("run", args=[inventory.slug, run.public_id])
        found.append(Row(line, label, run_words.scope(run.kind, run.scope, run.params)[:120], url))
    return found


_NAMED = {"source": _sources, "model": _models, "day": _days, "policy": _policies, "run": _runs}
