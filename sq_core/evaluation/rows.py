"""Rows of API.md's ``evaluate``: figures of one method's scores, shares as fractions 0..1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.calibration import percentile_interval
from sq_core.evaluation.data import Bools, EvaluationSet, Exemplars, Floats, Row
from sq_core.evaluation.metrics import Curve, PrecisionAtRecall, Sweep, auprc, precision_at_recall

TARGET = 0.90
SEEDS = range(5)
DRAWS = 200


def sides(
    exemplars: Sequence[Exemplars | None],
) -> tuple[list[NDArray[np.floating] | None], list[NDArray[np.floating] | None]]:
    """Signals and anti-signals per artifact; None where there are none."""
    signals = [None if each is None or not len(each.signals) else each.signals for each in exemplars]
    anti = [None if each is None or not len(each.anti_signals) else each.anti_signals for each in exemplars]
    return signals, anti


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One method's scores on one set of labels, and the resamples for its interval."""

    method: str
    scores: Floats
    relevant: Bools
    judged: Bools
    draws: Floats

    def row(self) -> Row:
        sweep = Sweep(self.scores, self.relevant, self.judged)
        curve = sweep.curve()
        drawn = [precision_at_recall(sweep.curve(weights), TARGET) for weights in self.draws]
        interval = percentile_interval([each.precision if each else None for each in drawn])
        row: Row = {"method": self.method, "world": "fitted", **figures(curve, precision_at_recall(curve, TARGET))}
        if interval is not None:
            row["interval"] = [interval.low, interval.high]
        return row


def figures(curve: Curve, found: PrecisionAtRecall | None) -> Row:
    """P@R90 and the point it stands at; where the target is not reached, the point of highest recall."""
    best = int(np.argmax(curve.recall))
    return {
        "precision_at_r90": None if found is None else found.precision,
        "precision": float(curve.precision[best]) if found is None else found.precision,
        "recall": float(curve.recall[best]) if found is None else found.recall,
        "auprc": auprc(curve),
        "theta": float(curve.theta[best]) if found is None else found.theta,
        "kept": float(curve.kept[best]) if found is None else found.kept,
    }


def topk_row(method: str, curve: Curve) -> Row:
    """Top-K at its highest K, as the paper prints it; it has a K in place of a θ."""
    at_most: Row = {name: float(getattr(curve, name)[-1]) for name in ("precision", "recall", "kept")}
    found = precision_at_recall(curve, TARGET)
    row = {"method": method, "world": "fitted", "k": int(curve.theta[-1]), "theta": None, "auprc": auprc(curve)}
    return {**row, "precision_at_r90": None if found is None else found.precision, **at_most}


def coverage(data: EvaluationSet, fitted: Bools, states: Bools | None = None) -> float:
    """Share of the occurring artifacts that have a classifier (TRACES 3.3)."""
    occurring = (data.relevant if states is None else data.relevant[states]).any(axis=0)
    return float(fitted[occurring].mean()) if occurring.any() else 0.0
