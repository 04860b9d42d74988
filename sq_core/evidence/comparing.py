"""Paired differences with their two intervals, by session and by task (TRACES 2.7).

Rows are never the unit: nothing here takes anything but the rows' own sessions and groups, so that no row-level p value
can be had. On real data it would have "proved" two comparisons that fail by task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sq_core.causal.prefix import PrefixRow
from sq_core.evaluation.resampling import DRAWS, Difference, clustered_difference
from sq_core.ranking.methods import Floats
from sq_core.ranking.metrics import reciprocal


@dataclass(frozen=True, slots=True)
class Comparison:
    """MRR of method a − method b in one world, with both clusterings and the coverage it stands on."""

    a: str
    b: str
    world: str
    rows: int
    coverage: float
    by_session: Difference
    by_group: Difference

    @property
    def estimate(self) -> float:
        return self.by_group.estimate

    def __str__(self) -> str:
        spans = " and ".join(
            f"[{each.low:+.3f}, {each.high:+.3f}] by {unit} ({_note(each)})"
            for unit, each in (("session", self.by_session), ("task", self.by_group))
        )
        return (
            f"{self.a} − {self.b} in {self.world}: {self.estimate:+.3f}, {spans}; "
            f"{self.rows} rows, coverage {self.coverage:.3f}"
        )

    def record(self) -> dict[str, Any]:
        """The comparison as JSON, both intervals always together."""
        return asdict(self)


def _note(found: Difference) -> str:
    """Groups and p to four places: with 2,000 sign flips no p is below .0005."""
    return found.note if found.p is None else f"{found.clusters} groups, p = {found.p:.4f}"


def compare(
    ranks_a: Floats,
    ranks_b: Floats,
    rows: Sequence[PrefixRow],
    *,
    names: tuple[str, str],
    world: str,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """The difference of reciprocal ranks, one pair for each row; a miss counts 0 on either side."""
    if not len(rows) == len(ranks_a) == len(ranks_b):
        raise AssertionError(f"{len(ranks_a)} and {len(ranks_b)} ranks for {len(rows)} rows; every row is counted")
    one, two = reciprocal(ranks_a), reciprocal(ranks_b)
    sessions, groups = [row.session_id for row in rows], [row.group_id for row in rows]
    return Comparison(
        *names,
        world,
        len(rows),
        float((ranks_a < float("inf")).mean()),
        clustered_difference(one, two, sessions, draws=draws, seed=seed),
        clustered_difference(one, two, groups, draws=draws, seed=seed),
    )


def comparison_of(record: Mapping[str, Any]) -> Comparison:
    """Inverse of `Comparison.record`."""
    values = dict(record)
    for name in ("by_session", "by_group"):
        values[name] = Difference(**values[name])
    return Comparison(**values)
