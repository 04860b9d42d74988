"""Clustered inference (TRACES 2.7): whole scenarios are resampled or flipped, never single states.

Fewer than ``ENOUGH`` clusters: the difference is reported without a p value, "too few groups for inference".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ENOUGH = 6
EXACT = 12
DRAWS = 2000
# Sums that are equal on paper differ in their last bits.
HAIR = 1e-12


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired difference, its percentile interval and the sign-flip p over ``clusters`` (None: too few of them)."""

    estimate: float
    low: float
    high: float
    p: float | None
    clusters: int

    @property
    def spans_zero(self) -> bool:
        return self.low <= 0 <= self.high

    @property
    def note(self) -> str:
        if self.p is None:
            return f"too few groups for inference ({self.clusters} of at least {ENOUGH})"
        return f"{self.clusters} groups, p = {self.p:.3f}"


def cluster_sums(values: ArrayLike, groups: Sequence[Hashable]) -> tuple[Floats, Floats]:
    """Sum and number of rows per cluster, clusters in order of first appearance."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or len(rows) != len(groups):
        raise ValueError(f"values of shape {rows.shape} for {len(groups)} groups; expected one value per row")
    codes = {name: i for i, name in enumerate(dict.fromkeys(groups))}
    at = np.array([codes[name] for name in groups], dtype=np.intp)
    sums: Floats = np.bincount(at, weights=rows, minlength=len(codes)).astype(np.float64)
    return sums, np.bincount(at, minlength=len(codes)).astype(np.float64)


def clustered_difference(
    a: ArrayLike, b: ArrayLike, groups: Sequence[Hashable], *, draws: int = DRAWS, seed: int = 0
) -> Difference:
    """Mean of a − b over rows; interval and p treat every group as one unit."""
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    sums, counts = cluster_sums(differences, groups)
    if len(sums) == 0:
        raise ValueError("no rows to compare")
    picks = np.random.default_rng(seed).integers(0, len(sums), size=(draws, len(sums)))
    drawn = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    p = sign_flip(sums, draws=draws, seed=seed) if len(sums) >= ENOUGH else None
    return Difference(float(sums.sum() / counts.sum()), float(low), float(high), p, len(sums))


def sign_flip(sums: ArrayLike, *, draws: int = DRAWS, seed: int = 0) -> float:
    """p of |Σ| under random signs of the cluster sums: exact up to ``EXACT`` clusters, else (1 + hits) / (1 + draws)."""
    values = np.asarray(sums, dtype=np.float64)
    observed = abs(values.sum()) - HAIR
    if len(values) <= EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=len(values))))
        return float(np.mean(np.abs(signs @ values) >= observed))
    signs = np.random.default_rng(seed).choice((1.0, -1.0), size=(draws, len(values)))
    return float((1 + np.count_nonzero(np.abs(signs @ values) >= observed)) / (1 + draws))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment of a family of p values, in the order given."""
    order = np.argsort(p_values, kind="stable")
    adjusted, highest = np.empty(len(p_values)), 0.0
    for place, at in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[at]))
        adjusted[at] = highest
    return tuple(float(each) for each in adjusted)


Statistic = Callable[[Floats], float | None]
"""State weights (S,) → a figure, None where the target is not reached under these weights."""


def paired_statistics(
    a: Statistic, b: Statistic, scenarios: Sequence[Hashable], *, draws: int = 200, seed: int = 0
) -> Difference | None:
    """Difference of two figures that are no means over rows (P@R90, AUPRC), over resampled scenarios.

    The interval resamples scenarios, each figure computed again in every draw (θ with it). p flips the signs of the
    scenarios' jackknife contributions, n·all − (n − 1)·(all without the scenario), so that no scenario counts twice; for
    P@R90, which jumps from one θ to another, read the interval, not p. None when either figure is missing on the whole
    set.
    """
    codes = {name: i for i, name in enumerate(sorted(set(scenarios), key=str))}
    group = np.array([codes[name] for name in scenarios], dtype=np.intp)
    n = len(codes)

    def difference(times: Floats) -> float | None:
        first, second = a(times[group]), b(times[group])
        return None if first is None or second is None else first - second

    whole = difference(np.ones(n))
    if whole is None:
        return None
    rng = np.random.default_rng(seed)
    drawn = [difference(np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)) for _ in range(draws)]
    known = np.array([each for each in drawn if each is not None])
    low, high = np.quantile(known, [0.025, 0.975]) if known.size else (float("nan"), float("nan"))
    p = None
    if n >= ENOUGH:
        left_out = [difference(np.where(np.arange(n) == i, 0.0, 1.0)) for i in range(n)]
        # Pseudo-values: their mean is the (bias-corrected) difference, one independent part per scenario.
        parts = [n * whole - (n - 1) * (whole if each is None else each) for each in left_out]
        p = sign_flip(np.array(parts), seed=seed)
    return Difference(whole, float(low), float(high), p, n)
