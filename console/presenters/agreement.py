"""Agreement in the pages' words: what is compared with what, its table with links, κ with its interval or why there is none."""

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.services.agreement import Comparison
from sq_core.evaluation.agreement import ENOUGH

Text = str | Promise


@dataclass(frozen=True)
class Words:
    title: Text
    first: Text
    second: Text
    line: Text


WORDS: dict[str, Words] = {
    "judge-people": Words(
        gettext_lazy("AI reviewer and people"),
        gettext_lazy("AI reviewer"),
        gettext_lazy("people"),
        gettext_lazy("May its scores stand for people's?"),
    ),
    "model-people": Words(
        gettext_lazy("Selection and people"),
        gettext_lazy("selection"),
        gettext_lazy("people"),
        gettext_lazy("Is what people say is needed selected? As it was when the sample was drawn."),
    ),
    "model-judge": Words(
        gettext_lazy("Selection and AI reviewer"),
        gettext_lazy("selection"),
        gettext_lazy("AI reviewer"),
        gettext_lazy("On the turns that people have answered."),
    ),
    "people-people": Words(
        gettext_lazy("People and people"),
        gettext_lazy("first person"),
        gettext_lazy("second person"),
        gettext_lazy("How far the question has one answer: nothing can agree with people more than they do."),
    ),
    "judge-judge": Words(
        gettext_lazy("AI reviewer and itself"),
        gettext_lazy("first score"),
        gettext_lazy("scored again"),
        gettext_lazy("The same turn, policy and prompt scored more than once. κ has quadratic weights."),
    ),
    "judge-people-scores": Words(
        gettext_lazy("AI reviewer and people, all scores"),
        gettext_lazy("AI reviewer"),
        gettext_lazy("people"),
        gettext_lazy("Every label, however its turn was picked: counts to look into, no κ."),
    ),
}
SAYS: dict[str, tuple[Text, Text]] = {
    "first person": (gettext_lazy("needed"), gettext_lazy("not needed")),
    "selection": (gettext_lazy("selected"), gettext_lazy("not selected")),
}


@dataclass(frozen=True)
class Cell:
    n: int
    url: str
    same: bool
    current: bool
    label: str


@dataclass(frozen=True)
class Card:
    name: str
    words: Words
    n: int
    percent: float | None
    kappa: float | None
    low: float | None
    high: float | None
    note: str
    heads: list[str]
    rows: list[tuple[str, list[Cell]]]


def _head(side: Text, level: int, *, scores: bool) -> str:
    if scores:
        return str(level)
    yes, no = SAYS.get(str(side), SAYS["first person"])
    return str(yes if level else no)


def card(comparison: Comparison, link: Callable[[str], str], cell: str) -> Card:
    """``link`` makes the address of a cell; ``cell`` is the one that is open."""
    result, words = comparison.result, WORDS[comparison.name]
    scores = len(result.levels) > 2
    firsts = [_head(words.first, level, scores=scores) for level in result.levels]
    seconds = [_head(words.second, level, scores=scores) for level in result.levels]
    rows = []
    for i, first in enumerate(result.levels):
        cells = []
        for j, second in enumerate(result.levels):
            name = f"{comparison.name}:{first}:{second}"
            label = f"{result.table[i][j]}: {cell_title(comparison, first, second)}"
            cells.append(Cell(result.table[i][j], link(name), i == j, name == cell, label))
        rows.append((firsts[i], cells))
    return Card(
        comparison.name, words, result.n, result.percent, result.kappa if comparison.audit else None,
        None if _constant(comparison) else result.low, result.high, note(comparison), seconds, rows,
    )  # fmt: skip


def _constant(comparison: Comparison) -> bool:
    """Whether one side has only ever given one answer: resampling says nothing then."""
    table = comparison.result.table
    used = [sum(map(bool, map(sum, rows))) for rows in (table, list(zip(*table, strict=True)))]
    return 1 in used


def cell_title(comparison: Comparison, first: int, second: int) -> str:
    """ "AI reviewer: needed, people: not needed"."""
    words, scores = WORDS[comparison.name], len(comparison.result.levels) > 2
    title = _("%(first)s: %(a)s, %(second)s: %(b)s") % {
        "first": words.first, "a": _head(words.first, first, scores=scores),
        "second": words.second, "b": _head(words.second, second, scores=scores),
    }  # fmt: skip
    return title[:1].upper() + title[1:]


def note(comparison: Comparison) -> str:
    """What κ rests on, or why there is none."""
    result = comparison.result
    if result.n == 0:
        return _("Nothing to compare yet.")
    if not comparison.audit:
        return _("No κ: these turns were picked.")
    if result.kappa is None:
        return _("κ has no value: both always say the same one thing.")
    if _constant(comparison):
        return _("One of them always says the same: κ is 0 whatever the other says.")
    if result.low is None and result.clusters >= ENOUGH:
        return _("No interval: too few of one answer.")
    if result.low is None:
        n = result.clusters
        return ngettext(
            "No interval: %(n)s scenario, it takes %(k)s.", "No interval: %(n)s scenarios, it takes %(k)s.", n
        ) % {"n": n, "k": ENOUGH}
    return ngettext("%(n)s scenario", "%(n)s scenarios", result.clusters) % {"n": result.clusters}
