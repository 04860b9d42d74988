"""The recall–precision frontier (Fig. 3), the lead over the best cosine along it, and what θ removes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from sq_core.evaluation.data import EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Curve, Sweep, auprc, operating_point, precision_at_recall
from sq_core.evaluation.resampling import paired_statistics
from sq_core.evaluation.rows import TARGET
from sq_core.evaluation.scorers import generated_scores

RECALLS = (0.5, 0.6, 0.7, 0.8, 0.9)
# What the paper promises to remove before downstream evaluation.
PROMISED_REMOVAL = 0.30


def frontier(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    extras: Extras = NOTHING,
    recalls: Sequence[float] = RECALLS,
    scores: Mapping[str, Floats] | None = None,
    draws: int = 200,
) -> list[Row]:
    """One row per method and recall: the best macro precision that reaches it, and what that removes.

    S&Q rows also carry ``lead`` over the better cosine with its scenario-clustered ``lead_interval``;
    ``lead_note`` says "no better than cosine yet" where the interval spans 0. ``removed`` = 1 − kept;
    ``artifacts_at_target`` counts the occurring artifacts whose own recall is ≥ .90 there. ``scores`` (by method; names
    beginning with ``cosine`` are baselines) replaces the generated exemplars' methods.
    """
    del extras
    data = data.with_labels(labels)
    tables = generated_scores(data) if scores is None else scores
    sweeps = {name: Sweep(table, data.relevant, data.judged) for name, table in tables.items()}
    cosines = [name for name in sweeps if name.startswith("cosine")]
    rows = []
    for name, sweep in sweeps.items():
        curve = sweep.curve()
        for recall in recalls:
            row = _row(data, name, tables[name], curve, recall)
            if name not in cosines and cosines:
                row |= _lead(data, sweep, [sweeps[each] for each in cosines], recall, draws)
            rows.append(row)
    return rows


def _row(data: EvaluationSet, name: str, scores: Floats, curve: Curve, recall: float) -> Row:
    found = precision_at_recall(curve, recall)
    row: Row = {"method": name, "world": "fitted", "at_recall": recall, "precision_at_r90": None, "auprc": auprc(curve)}
    if found is None:
        empty = ("precision", "recall", "theta", "kept", "removed", "artifacts_at_target")
        return row | dict.fromkeys(empty) | {"coverage": _covered(data, scores)}
    at = operating_point(scores, data.relevant, found.theta, data.judged)
    own = at.artifact_recall[at.occurring]
    at90 = precision_at_recall(curve, TARGET)
    return row | {
        "precision_at_r90": None if at90 is None else at90.precision,
        "precision": found.precision,
        "recall": found.recall,
        "theta": found.theta,
        "kept": found.kept,
        "removed": 1 - found.kept,
        "promise_kept": 1 - found.kept >= PROMISED_REMOVAL,
        "artifacts_at_target": int(np.count_nonzero(own >= TARGET - 1e-9)),
        "coverage": _covered(data, scores),
    }


def _covered(data: EvaluationSet, scores: Floats) -> float:
    occurring = data.relevant.any(axis=0)
    fitted = np.asarray(np.isfinite(scores).any(axis=0))
    return float(fitted[occurring].mean()) if occurring.any() else 0.0


def precision_of(recall: float, sweep: Sweep, weights: Floats | None = None) -> float | None:
    """P@recall under state weights."""
    found = precision_at_recall(sweep.curve(weights), recall)
    return None if found is None else found.precision


def _best(recall: float, sweeps: Sequence[Sweep], weights: Floats | None = None) -> float | None:
    known = [each for each in (precision_of(recall, sweep, weights) for sweep in sweeps) if each is not None]
    return max(known, default=None)


def _lead(data: EvaluationSet, sweep: Sweep, cosines: Sequence[Sweep], recall: float, draws: int) -> Row:
    found = paired_statistics(
        partial(precision_of, recall, sweep), partial(_best, recall, cosines), data.scenario, draws=draws
    )
    if found is None:
        return {"lead": None, "lead_interval": None, "lead_note": "recall not reached"}
    # No p: precision at a recall jumps from one θ to another, which the sign-flip test on jackknife parts cannot bear.
    note = "no better than cosine yet: mine negatives" if found.low <= 0 else f"over {found.clusters} scenarios"
    return {"lead": found.estimate, "lead_interval": [found.low, found.high], "lead_note": note}
