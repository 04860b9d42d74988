"""Ranks and scorecards (TRACES 2.6). A missing target is a miss of rank ∞ and stays in every denominator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.causal.prefix import PrefixRow
from sq_core.ranking.worlds import Bools, Columns, Pool, WorldName

Floats = NDArray[np.float64]

# Scores that are equal on paper differ in their last bits; a tie must not be won by the order of candidates.
HAIR = 1e-9
RECALL_AT = (1, 5, 10)
NDCG_AT = 10


def ranks(scores: Floats, columns: Columns, allowed: Bools) -> Floats:
    """Rank of every row's target, (N,): 1 + greater + half of the other equal ones; ∞ where it is no candidate.

    scores (N, n), read where `allowed` (N, n); siblings are taken out first.
    """
    at = np.arange(len(scores))
    own = scores[at, columns.target][:, None]
    rivals = allowed & ~columns.siblings
    rivals[at, columns.target] = False
    greater = (rivals & (scores > own + HAIR)).sum(axis=1)
    equal = (rivals & (np.abs(scores - own) <= HAIR)).sum(axis=1)
    found: Floats = np.where(allowed[at, columns.target], 1.0 + greater + 0.5 * equal, np.inf)
    return found


def reciprocal(found: ArrayLike) -> Floats:
    """1 / rank (N,), 0 for a miss."""
    return 1.0 / np.asarray(found, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Scorecard:
    """One method in one world. No figure comes without its coverage, world, pool and counts: none is optional.

    `mrr_covered` is the mean over covered rows alone, 0 without any; never shown without coverage.
    """

    method: str
    world: WorldName
    pool: Pool
    target_mode: str
    rows: int
    sessions: int
    groups: int
    coverage: float
    mrr: float
    recall_at: tuple[tuple[int, float], ...]
    ndcg_at_10: float
    mrr_covered: float

    def __post_init__(self) -> None:
        if not 0 <= self.coverage <= 1 + HAIR:
            raise AssertionError(f"{self.method}: coverage is {self.coverage}")
        best = max([self.mrr, self.ndcg_at_10, *(share for _, share in self.recall_at)])
        if best > self.coverage + HAIR:
            raise AssertionError(f"{self.method} in {self.world}: {best} exceeds the coverage {self.coverage}")

    def __str__(self) -> str:
        recall = ", ".join(f"Recall@{k} {share:.3f}" for k, share in self.recall_at)
        return (
            f"{self.method} in {self.world} (pool {self.pool}, {self.target_mode}): MRR {self.mrr:.3f}, {recall}, "
            f"NDCG@10 {self.ndcg_at_10:.3f}, coverage {self.coverage:.3f}; "
            f"{self.rows} rows, {self.sessions} sessions, {self.groups} groups"
        )


def scorecard(
    found: Floats,
    rows: Sequence[PrefixRow],
    *,
    method: str,
    world: WorldName,
    pool: Pool,
    target_mode: str,
    recall_at: Sequence[int] = RECALL_AT,
) -> Scorecard:
    """The scorecard of ranks (N,), one for each row: a row may never be dropped at evaluation."""
    if len(found) != len(rows):
        raise AssertionError(f"{len(found)} ranks for {len(rows)} rows; every row is counted")
    covered = np.isfinite(found)
    if world == "all_splits" and not covered.all():
        raise AssertionError("a target is missing from all_splits, which holds every target")
    gain = np.where(found <= NDCG_AT, 1.0 / np.log2(1.0 + found), 0.0)
    one = reciprocal(found)
    return Scorecard(
        method=method,
        world=world,
        pool=pool,
        target_mode=target_mode,
        rows=len(rows),
        sessions=len({row.session_id for row in rows}),
        groups=len({row.group_id for row in rows}),
        coverage=_mean(covered),
        mrr=_mean(one),
        recall_at=tuple((k, _mean(found <= k)) for k in recall_at),
        ndcg_at_10=_mean(gain),
        mrr_covered=_mean(one[covered]),
    )


def _mean(values: ArrayLike) -> float:
    each = np.asarray(values, dtype=np.float64)
    return float(each.mean()) if each.size else 0.0
