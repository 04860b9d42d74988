"""Where the gain of mined exemplars comes from: positives alone, then the negatives (Fig. 8)."""

from __future__ import annotations

from collections.abc import Sequence

from sq_core.evaluation.data import EvaluationSet, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.protocols import mined
from sq_core.evaluation.rows import SEEDS

STEPS = ("sq-generated", "sq-mined-positives-only", "sq-mined-negatives-only", "sq-mined-paper")
_FROM = {
    "sq-mined-positives-only": "sq-generated",
    "sq-mined-negatives-only": "sq-generated",
    "sq-mined-paper": "sq-mined-positives-only",
}


def decomposition(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    extras: Extras = NOTHING,
    seeds: Sequence[int] = SEEDS,
    minimum: int = 3,
) -> list[Row]:
    """Generated, mined positives, mined negatives and both, in the fitted world; ``gain`` is that over ``over``."""
    del extras
    found = {
        row["method"]: row
        for row in mined(data, labels=labels, seeds=seeds, minimum=minimum, methods=STEPS)
        if row["world"] == "fitted"
    }
    rows = []
    for name in STEPS:
        row, over = dict(found[name]), _FROM.get(name)
        for figure in ("precision_at_r90", "auprc"):
            before = None if over is None else found[over][figure]
            known = before is not None and row[figure] is not None
            row[f"gain_{figure}"] = row[figure] - before if known else None
        rows.append(row | {"over": over})
    return rows
