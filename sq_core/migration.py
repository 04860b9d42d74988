"""What stands beside each other before an encoder or a centre is changed: figures on the same turns, and bounds chosen anew."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.evaluation.per_artifact import cluster_counts, spread

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
DRAWS = 500
# A bound below the first would match everything, one above the second only the same text: neither is a test of nearness.
LEAST_BOUND, MOST_BOUND = 0.5, 0.99


@dataclass(frozen=True, slots=True)
class Beside:
    """A macro figure before and after, and the middle 95 % of their difference over resampled scenarios (None: too few)."""

    before: float
    after: float
    low: float | None
    high: float | None

    @property
    def difference(self) -> float:
        return self.after - self.before


def figures_beside(
    before: ArrayLike,
    after: ArrayLike,
    relevant: ArrayLike,
    judged: ArrayLike,
    scenarios: Sequence[Hashable],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Beside]:
    """Macro ``recall`` and ``precision`` and the share ``kept`` when what fires changes from ``before`` to ``after``.

    before, after, relevant, judged (S, N) bool: fired then and now, needed, and whether anybody said so; scenarios (S,).
    Macro over artifacts that occur (PRODUCT, Figures). The same draws of whole scenarios serve both sides. Empty where no
    judged state needs an artifact.
    """
    known, needed = np.asarray(judged, dtype=bool), np.asarray(relevant, dtype=bool)
    needed = needed & known
    if not needed.any():
        return {}
    names = {name: code for code, name in enumerate(sorted(set(scenarios), key=str))}
    group = np.array([names[name] for name in scenarios], dtype=np.intp)
    base = cluster_counts(needed, group, len(names)), cluster_counts(known, group, len(names))
    sides = [_Side.of(np.asarray(fired, dtype=bool) & known, needed, group, len(names)) for fired in (before, after)]
    picks = np.random.default_rng(seed).integers(0, len(names), size=(draws, len(names)))
    times = np.stack([np.bincount(pick, minlength=len(names)) for pick in picks]).astype(np.float64)
    whole = [side.figures(np.ones((1, len(names))), *base) for side in sides]
    drawn = [side.figures(times, *base) for side in sides]
    found = {}
    for name in ("recall", "precision", "kept"):
        first, second = float(whole[0][name][0]), float(whole[1][name][0])
        interval = spread(second - first, drawn[1][name] - drawn[0][name])
        found[name] = Beside(first, second, *((interval.low, interval.high) if interval else (None, None)))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Per scenario (C, N): fired, and fired where needed."""

    fired: Floats
    hits: Floats

    @classmethod
    def of(cls, fired: Bools, needed: Bools, group: NDArray[np.intp], clusters: int) -> _Side:
        return cls(cluster_counts(fired, group, clusters), cluster_counts(fired & needed, group, clusters))

    def figures(self, times: Floats, needed: Floats, known: Floats) -> dict[str, Floats]:
        """Each (D,) under the scenario counts ``times`` (D, C)."""
        fired, hits, wanted = times @ self.fired, times @ self.hits, times @ needed
        occurs = wanted > 0
        n = np.maximum(occurs.sum(axis=1), 1)
        recall = np.divide(hits, wanted, out=np.zeros_like(hits), where=occurs).sum(axis=1) / n
        # Precision 0 where an occurring artifact never fires: the rule of every figure here.
        precision = np.divide(hits, fired, out=np.zeros_like(hits), where=occurs & (fired > 0)).sum(axis=1) / n
        total = (times @ known).sum(axis=1)
        kept = np.divide(fired.sum(axis=1), total, out=np.zeros_like(total), where=total > 0)
        return {"recall": recall, "precision": precision, "kept": kept}


def same_share(old: ArrayLike, new: ArrayLike, bound: float) -> float:
    """The bound on ``new`` cosines that as many of the same pairs reach as reach ``bound`` on the ``old`` ones.

    old, new (P,): cosines of the same P pairs of texts under two encoders. A cosine says nothing across encoders; how rare
    it is among the inventory's own turns does. Where no pair reaches the bound, its distance above the nearest pair is
    kept. Never outside ``LEAST_BOUND`` to ``MOST_BOUND``, nor moved without pairs. Raises ValueError for unequal pairs.
    """
    before, after = np.asarray(old, dtype=np.float64), np.asarray(new, dtype=np.float64)
    if before.shape != after.shape or before.ndim != 1:
        raise ValueError(f"cosines of shapes {before.shape} and {after.shape}; expected the same pairs, (P,) each")
    if not before.size:
        return bound
    reached = int(np.count_nonzero(before >= bound))
    if reached:
        found = float(np.partition(after, after.size - reached)[after.size - reached])
    else:
        found = float(after.max()) + bound - float(before.max())
    return min(max(found, LEAST_BOUND), MOST_BOUND)


def pair_cosines(vectors: ArrayLike) -> Floats:
    """Cosines (P,) of every pair of distinct rows of unit vectors (n, d), in a fixed order."""
    rows = np.asarray(vectors, dtype=np.float64)
    upper = np.triu_indices(len(rows), k=1)
    cosines: Floats = (rows @ rows.T)[upper]
    return cosines
