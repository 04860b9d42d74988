"""An evaluation in the page's words: its methods with their numbers in the paper, its policies sorted and in pages, its
badges, and what each figure rests on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.models import Evaluation
from console.presenters import labels
from console.services.evaluation_overview import READINGS

Json = Mapping[str, Any]
BASELINES = {"topk-text": "B1", "topk-signals": "B2", "cosine-text": "B3", "cosine-signals": "B4"}
PAGE = 50
FLIPS: dict[str, Any] = {
    "now_missed": gettext_lazy("now missed"),
    "now_caught": gettext_lazy("now caught"),
    "now_extra": gettext_lazy("now shown for nothing"),
    "no_longer_extra": gettext_lazy("no longer shown for nothing"),
}
SORTS = ("recall", "precision", "auprc", "lead", "needed", "name")


@dataclass(frozen=True)
class Method:
    name: str
    label: str
    number: str  # B1 to B4
    row: Json
    ours: bool


def reading_of(asked: str) -> str:
    return asked if asked in READINGS else READINGS[0]


def methods(reading: Json, *, technical: bool) -> list[Method]:
    return [
        Method(
            row["method"], labels.method(row["method"], technical=technical), BASELINES.get(row["method"], ""), row,
            row["method"] == "sq-active",
        )
        for row in reading["methods"]
    ]  # fmt: skip


@dataclass(frozen=True)
class Policies:
    rows: list[dict[str, Any]]
    total: int
    first: int
    next: int | None


def policies(evaluation: Evaluation, reading: Json, *, sort: str, q: str = "", after: int = 0) -> Policies:
    """The lowest caught first unless asked otherwise; ``after`` is a rank, a stored evaluation keeps its order."""
    names = evaluation.detail["names"]
    rows = [{**row, "name": names.get(row["key"], row["key"])} for row in reading["policies"]]
    wanted = q.strip().casefold()
    if wanted:
        rows = [row for row in rows if wanted in row["name"].casefold() or wanted in row["key"]]
    rows.sort(key=lambda row: (_key(row, sort.removeprefix("-")), row["key"]), reverse=sort.startswith("-"))
    return Policies(rows[after : after + PAGE], len(rows), after, after + PAGE if after + PAGE < len(rows) else None)


def _key(row: Json, sort: str) -> Any:
    if sort == "name":
        return row["name"].casefold()
    value = row[sort]
    figure = value[0] if isinstance(value, list) else value
    return (figure is None, figure or 0.0)


def sort_of(asked: str) -> str:
    return asked if asked.removeprefix("-") in SORTS else "recall"


def rests_on(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Which turns each figure is from: (figure, split)."""
    found = evaluation.detail
    own = _("every reviewed turn outside the conversations that gave that policy's version an example")
    if found["left_out"]:
        own += " " + _("(%(n)s pairs left out)") % {"n": f"{found['left_out']:,}"}
    cut = (
        _("the cut-off was chosen on reviewed turns, these among them")
        if found["calibrated"]
        else _("the cut-off is not chosen on reviewed turns")
    )
    splits = len(evaluation.detail["readings"]["as-judged"]["upgrade"].get("families", []))
    judged = _("the AI reviewer's scores")
    if found.get("decided"):  # one measured before decisions counted has no such number
        judged = _("what people decided on %(n)s pairs, else the AI reviewer's scores") % {"n": f"{found['decided']:,}"}
    rows = [
        (_("Needed or not"), judged),
        (_("Caught, needed when shown, curves of all methods"), own),
        (_("The cut-off as it stands"), cut),
        (_("What the encoder allows"), _("cross-fitted: a probe that saw no turn of the same scenario, in 5 folds")),
        (_("Intervals"), _("95 %%, whole scenarios drawn again %(n)s times") % {"n": found["draws"]}),
    ]
    if splits:
        n = evaluation.detail["readings"]["as-judged"]["upgrade"].get("splits", 0)
        rows.append(
            (
                _("AI-written against real examples"),
                _("the held-out half of the scenarios, mean of %(n)s splits") % {"n": n},
            )
        )
    return rows
