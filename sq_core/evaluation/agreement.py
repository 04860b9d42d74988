"""How far two raters agree: percent, Cohen's κ (quadratic weights on ordered scores), and an interval clustered by scenario.

Every figure is None where it has no value: no comparable pair, or two raters who both say one and the same thing always
(κ would divide by zero). Pairs of one conversation or scenario are not independent: whole clusters are resampled.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Weights = Literal["none", "quadratic"]

DRAWS = 2_000
ENOUGH = 6  # clusters, as for every clustered interval here
DEFINED = 0.9  # share of draws in which κ must have a value for an interval to be given


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two raters on the same n pairs; ``table[i][j]``: the first said ``levels[i]``, the second ``levels[j]``."""

    levels: tuple[int, ...]
    table: tuple[tuple[int, ...], ...]
    n: int
    clusters: int
    percent: float | None
    kappa: float | None
    low: float | None
    high: float | None
    weights: Weights


def agreement(
    first: Sequence[int],
    second: Sequence[int],
    clusters: Sequence[Hashable],
    *,
    levels: Sequence[int],
    weights: Weights = "none",
    draws: int = DRAWS,
    seed: int = 0,
) -> Agreement:
    """Everything of one comparison. Raises ValueError for rows of different lengths or a score that is no level."""
    per_cluster = tables(first, second, clusters, levels=levels)
    total: Counts = per_cluster.sum(axis=0)
    low, high = interval(per_cluster, weights=weights, draws=draws, seed=seed)
    return Agreement(
        levels=tuple(levels),
        table=tuple(tuple(int(n) for n in row) for row in total),
        n=int(total.sum()),
        clusters=len(per_cluster),
        percent=percent(total),
        kappa=kappa(total, weights=weights),
        low=low,
        high=high,
        weights=weights,
    )


def tables(
    first: Sequence[int], second: Sequence[int], clusters: Sequence[Hashable], *, levels: Sequence[int]
) -> Counts:
    """Counts (clusters, k, k) per cluster, in order of first appearance."""
    if not len(first) == len(second) == len(clusters):
        raise ValueError(f"{len(first)}, {len(second)} and {len(clusters)} rows; expected the same number of each")
    at = {level: i for i, level in enumerate(levels)}
    unknown = {value for value in (*first, *second) if value not in at}
    if unknown:
        raise ValueError(f"scores {sorted(unknown)} are none of the levels {list(levels)}")
    codes = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    result = np.zeros((len(codes), len(at), len(at)), dtype=np.int64)
    for a, b, name in zip(first, second, clusters, strict=True):
        result[codes[name], at[a], at[b]] += 1
    return result


def percent(table: Counts) -> float | None:
    """The share of pairs on the diagonal."""
    n = int(table.sum())
    return None if n == 0 else float(np.trace(table)) / n


def kappa(table: Counts, *, weights: Weights = "none") -> float | None:
    """Cohen's κ of a k × k table, 1 − observed / expected disagreement; quadratic: (i − j)² counts instead of i ≠ j."""
    value = float(_kappas(table[None].astype(np.float64), weights)[0])
    return None if np.isnan(value) else value


def interval(
    per_cluster: Counts, *, weights: Weights = "none", draws: int = DRAWS, seed: int = 0, level: float = 0.95
) -> tuple[float | None, float | None]:
    """The percentile interval of κ over resampled clusters; (None, None) with too few clusters, or where κ seldom has a
    value.
    """
    n = len(per_cluster)
    if n < ENOUGH or draws == 0:
        return None, None
    taken = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws)
    flat = per_cluster.reshape(n, -1).astype(np.float64)
    found = _kappas((taken @ flat).reshape(draws, *per_cluster.shape[1:]), weights)
    found = found[~np.isnan(found)]
    if len(found) < DEFINED * draws:
        return None, None
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _kappas(stack: Floats, weights: Weights) -> Floats:
    """κ per table of (b, k, k); nan where it has no value."""
    k = stack.shape[-1]
    places = np.arange(k)
    gap = places[:, None] - places[None, :]
    cost = (gap**2 if weights == "quadratic" else gap != 0).astype(np.float64)
    n = stack.sum(axis=(1, 2))
    observed = (stack * cost).sum(axis=(1, 2))
    expected = np.einsum("bi,bj,ij->b", stack.sum(axis=2), stack.sum(axis=1), cost)
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.where(expected > 0, 1 - observed * n / expected, np.nan)
    return result
