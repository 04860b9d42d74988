"""The figures (paper §3, §4): macro recall and precision over one θ for all, P@R90, AUPRC.

Macro = mean over occurring artifacts, those with at least one relevant state. An artifact that never fires has
precision 0. Something fires iff its score is strictly above θ; every distinct score is a θ, and one θ lies below all.
A score of −inf never fires (an artifact without a classifier, a miss and not an exclusion).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.offset import HALF_STEP

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Shares that are equal on paper differ in their last bits: 9 of 10 must count as reaching .90.
HAIR = 1e-9


class MetricError(ValueError):
    """Scores and labels that do not belong together."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One point per θ, highest θ first: theta, recall, precision (macro) and kept (share of pairs that fire), (T,)."""

    theta: Floats
    recall: Floats
    precision: Floats
    kept: Floats


class PrecisionAtRecall(NamedTuple):
    """The best macro precision among the points that reach the target, and the point it was found at."""

    precision: float
    theta: float
    recall: float
    kept: float


class Sweep:
    """All θ of one table of scores, sorted once; ``curve`` can then be asked under many state weights.

    scores (S, N), finite or −inf; relevant (S, N) bool; judged (S, N) bool, pairs outside it count nowhere.
    """

    def __init__(self, scores: ArrayLike, relevant: ArrayLike, judged: ArrayLike | None = None) -> None:
        table, needed, known = _tables(scores, relevant, judged)
        states, artifacts = table.shape
        # Falling θ adds pairs one by one. Each changes its own artifact's precision only, so the macro precision is a
        # running sum of those changes: two sorts in place of thresholds × artifacts.
        self._by_artifact = np.argsort(-table, axis=0, kind="stable")
        self._relevant = np.take_along_axis(needed & known, self._by_artifact, axis=0)
        self._judged = np.take_along_axis(known, self._by_artifact, axis=0)
        place = np.empty_like(self._by_artifact)
        np.put_along_axis(place, self._by_artifact, np.arange(states)[:, None], axis=0)
        order = np.argsort(-table, axis=None, kind="stable")
        order = order[: int(np.isfinite(table).sum())]
        self._order = place.ravel()[order] * artifacts + order % artifacts
        ranked = table.ravel()[order]
        starts = (
            np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if ranked.size else np.array([], int)
        )
        self._ends = np.append(starts, ranked.size)
        # Half a step of the margins' rounding below the lowest score, so that a rounded cut-off still lies below it.
        lowest = [ranked[-1] - HALF_STEP] if ranked.size else [0.0]
        self.theta: Floats = np.append(ranked[starts], lowest)

    def curve(self, weights: ArrayLike | None = None) -> Curve:
        """Figures at every θ; weights (S,) count a state that often (a bootstrap draw), all 1 by default."""
        each = np.ones(len(self._by_artifact)) if weights is None else np.asarray(weights, dtype=np.float64)
        weight = each[self._by_artifact] * self._judged
        fired, hits = np.cumsum(weight, axis=0), np.cumsum(weight * self._relevant, axis=0)
        totals = hits[-1] if len(hits) else np.zeros(fired.shape[1])
        occurring = totals > 0
        count = max(int(occurring.sum()), 1)
        precision = np.divide(hits, fired, out=np.zeros_like(hits), where=fired > 0)
        gain = np.diff(precision, axis=0, prepend=0.0) * occurring / count
        found = weight * self._relevant / np.where(occurring, totals, 1.0) / count
        return Curve(
            theta=self.theta,
            recall=self._running(found),
            precision=self._running(gain),
            kept=self._running(weight / max(float(weight.sum()), 1.0)),
        )

    def _running(self, changes: Floats) -> Floats:
        sums = np.concatenate(([0.0], np.cumsum(changes.ravel()[self._order])))
        # A running sum of shares may leave [0, 1] by rounding.
        clipped: Floats = np.clip(sums[self._ends], 0.0, 1.0)
        return clipped


def macro_curve(scores: ArrayLike, relevant: ArrayLike, judged: ArrayLike | None = None) -> Curve:
    """Macro recall, macro precision and kept at every distinct score as θ (strictly above fires), see ``Sweep``."""
    return Sweep(scores, relevant, judged).curve()


def topk_curve(scores: ArrayLike, relevant: ArrayLike, ks: Sequence[int], judged: ArrayLike | None = None) -> Curve:
    """The curve of retrieving the K best-scored artifacts per state; ``theta`` holds K. Ties: the earlier column."""
    table, needed, known = _tables(scores, relevant, judged)
    rank = np.argsort(np.argsort(-table, axis=1, kind="stable"), axis=1, kind="stable")
    place = np.where(np.isneginf(table), -np.inf, -rank.astype(np.float64))
    figures = [operating_point(place, needed, -float(k), known) for k in sorted(ks)]
    columns = ("recall", "precision", "kept")
    recall, precision, kept = (np.array([getattr(each, name) for each in figures]) for name in columns)
    return Curve(np.array(sorted(ks), dtype=np.float64), recall, precision, kept)


def precision_at_recall(curve: Curve, target: float = 0.90) -> PrecisionAtRecall | None:
    """P@R: the best macro precision with macro recall ≥ target; of equals the higher recall. None when not reached."""
    reached = np.flatnonzero(curve.recall >= target - HAIR)
    if reached.size == 0:
        return None
    best = reached[np.lexsort((curve.recall[reached], np.round(curve.precision[reached], 12)))[-1]]
    return PrecisionAtRecall(*(float(row[best]) for row in (curve.precision, curve.theta, curve.recall, curve.kept)))


def auprc(curve: Curve) -> float:
    """Trapezoid area under (macro recall, macro precision) sorted by recall, without extrapolation."""
    order = np.argsort(curve.recall, kind="stable")
    return float(np.trapezoid(curve.precision[order], curve.recall[order]))


@dataclass(frozen=True, slots=True, eq=False)
class OperatingFigures:
    """Counts per artifact (N,) at one θ, and the macro figures; per-artifact rates are NaN where undefined.

    recall is NaN for an artifact that never occurs; precision is 0 for an occurring one that never fires.
    """

    true_positives: NDArray[np.int64]
    false_positives: NDArray[np.int64]
    false_negatives: NDArray[np.int64]
    artifact_recall: Floats
    artifact_precision: Floats
    recall: float
    precision: float
    kept: float

    @property
    def occurring(self) -> Bools:
        return self.true_positives + self.false_negatives > 0


def operating_point(
    scores: ArrayLike, relevant: ArrayLike, theta: ArrayLike, judged: ArrayLike | None = None
) -> OperatingFigures:
    """Figures at one θ, or at one cut-off per artifact (N,). Macro figures are NaN when no artifact occurs."""
    table, needed, known = _tables(scores, relevant, judged)
    fired = (table > np.asarray(theta, dtype=np.float64)) & known
    hits = (fired & needed).sum(axis=0)
    extras, missed = (fired & ~needed).sum(axis=0), (~fired & needed & known).sum(axis=0)
    occurring = hits + missed > 0
    recall = np.divide(hits, hits + missed, out=np.full(len(hits), np.nan), where=occurring)
    precision = np.divide(hits, hits + extras, out=np.where(occurring, 0.0, np.nan), where=hits + extras > 0)
    return OperatingFigures(
        true_positives=hits,
        false_positives=extras,
        false_negatives=missed,
        artifact_recall=recall,
        artifact_precision=precision,
        recall=float(recall[occurring].mean()) if occurring.any() else float("nan"),
        precision=float(precision[occurring].mean()) if occurring.any() else float("nan"),
        kept=float(fired.sum() / max(int(known.sum()), 1)),
    )


def _tables(scores: ArrayLike, relevant: ArrayLike, judged: ArrayLike | None) -> tuple[Floats, Bools, Bools]:
    table, needed = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool)
    known = np.ones_like(needed) if judged is None else np.asarray(judged, dtype=bool)
    if table.ndim != 2 or not table.shape == needed.shape == known.shape:
        raise MetricError(
            f"scores {table.shape}, relevant {needed.shape} and judged {known.shape}; expected (S, N) for each"
        )
    if np.isnan(table).any() or np.isposinf(table).any():
        raise MetricError("scores hold NaN or +infinity; expected finite numbers, or −infinity for what cannot fire")
    return table, needed, known
