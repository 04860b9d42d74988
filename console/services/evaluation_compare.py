"""Two evaluations on the turns that both measured: paired differences clustered by scenario, policies that moved, turns that
flipped. Both are stored and never change, so a comparison is worked out once per process and kept.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Evaluation
from console.services import evaluation_pairs as packed
from console.services.caches import Cache
from console.services.errors import Invalid
from console.services.evaluation_pages import ERRORS, Turn, rank_of, turns
from console.services.evaluation_pairs import Pairs
from sq_core.evaluation.calibration import scenario_draws
from sq_core.evaluation.per_artifact import Spread, ratio, spread

DRAWS = 200
CELLS = 1 << 22  # scenario × policy counts held at once
# In the order of the list: recall first.
KINDS = ("now_missed", "now_caught", "now_extra", "no_longer_extra")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """A rate before and after, on the same turns, and the interval of the difference."""

    a: float | None
    b: float | None
    difference: Spread | None

    @property
    def moved(self) -> bool:
        """The interval of the difference leaves out 0."""
        found = self.difference
        return (
            found is not None and found.low is not None and found.high is not None and not found.low <= 0 <= found.high
        )


@dataclass(frozen=True)
class PolicyChange:
    key: str
    version_a: int | None
    version_b: int | None
    needed: int
    shown: int  # in b
    recall: Change
    precision: Change
    flips: dict[str, int]

    @property
    def moved(self) -> bool:
        return self.recall.moved or self.precision.moved


@dataclass(frozen=True)
class Comparison:
    pairs: int
    only_a: int
    only_b: int
    relabelled: int  # common pairs whose need is judged otherwise now; b's labels count for both
    scenarios: int
    recall: Change
    precision: Change
    kept: tuple[float, float]
    policies: list[PolicyChange]
    flips: dict[str, int]
    order: NDArray[np.intp]  # rows of b's pairs that flipped, as the list shows them
    kinds: NDArray[np.int8]  # (len(order),) into KINDS


_held = Cache(16)


def comparison(a: Evaluation, b: Evaluation, *, reading: str) -> Comparison:
    """Raises Invalid where they share no turn."""
    return _held.get((a.run.public_id, b.run.public_id, reading), lambda: _compared(a, b, reading))


def flipped(
    b: Evaluation, found: Comparison, *, kind: str = "", after: str = ""
) -> tuple[list[tuple[str, Turn]], int | None, int]:
    """A page of the turns that flipped, with what became of each; where the next page begins, and how many there are."""
    rows, kinds = found.order, found.kinds
    if kind in KINDS:
        mask = kinds == KINDS.index(kind)
        rows, kinds = rows[mask], kinds[mask]
    start = rank_of(after)
    page, of = rows[start : start + ERRORS], kinds[start : start + ERRORS]
    pairs = packed.pairs_of(b)
    names = {(int(pairs.state[r]), pairs.keys[pairs.policy[r]]): KINDS[k] for r, k in zip(page, of, strict=True)}
    told = [(names[turn.state_id, turn.policy], turn) for turn in turns(pairs, page)]
    return told, start + ERRORS if start + ERRORS < len(rows) else None, len(rows)


def _compared(a: Evaluation, b: Evaluation, reading: str) -> Comparison:
    old, new = packed.pairs_of(a), packed.pairs_of(b)
    keys = sorted({*old.keys, *new.keys})
    place = {key: i for i, key in enumerate(keys)}
    rows = [_ids(pairs, place) for pairs in (old, new)]
    _, in_a, in_b = np.intersect1d(rows[0][0], rows[1][0], assume_unique=True, return_indices=True)
    left, right = rows[0][1][in_a], rows[1][1][in_b]
    if not len(left):
        raise Invalid(
            "These two evaluations share no judged turn.", hint="Measure both releases again on today's turns."
        )
    needed = new.has(packed.NEEDED[reading])[right]
    was, now = old.has(packed.FIRED)[left], new.has(packed.FIRED)[right]
    policy = np.array([place[key] for key in new.keys], dtype=np.int64)[new.policy[right]]
    scenario = new.scenario[right].astype(np.int64)
    used, scenario = np.unique(scenario, return_inverse=True)
    weights = scenario_draws([new.scenarios[i] for i in used], DRAWS)  # (D, C): one column per scenario
    drawn = _rates(needed, was, now, policy, scenario, weights, len(keys))
    kinds = np.select(
        [needed & was & ~now, needed & ~was & now, ~needed & ~was & now, ~needed & was & ~now], [0, 1, 2, 3], -1
    )
    flips = np.flatnonzero(kinds >= 0)
    order = flips[np.lexsort((policy[flips], new.state[right[flips]], kinds[flips]))]
    versions = [{row["key"]: row["version"] for row in e.detail["readings"][reading]["policies"]} for e in (a, b)]
    policies = [
        PolicyChange(
            key, versions[0].get(key), versions[1].get(key), drawn.needed[j], drawn.shown[j], drawn.recall[j], drawn.precision[j],
            {name: int(((kinds == k) & (policy == j)).sum()) for k, name in enumerate(KINDS)},
        )
        for j, key in enumerate(keys)
        if j in drawn.recall
    ]  # fmt: skip
    policies.sort(key=_first_the_worse)
    return Comparison(
        pairs=len(left), only_a=len(rows[0][0]) - len(left), only_b=len(rows[1][0]) - len(right),
        relabelled=int((old.has(packed.NEEDED[reading])[left] != needed).sum()), scenarios=len(used),
        recall=drawn.macro_recall, precision=drawn.macro_precision, kept=(float(was.mean()), float(now.mean())),
        policies=policies, flips={name: int((kinds == k).sum()) for k, name in enumerate(KINDS)},
        order=right[order], kinds=kinds[order].astype(np.int8),
    )  # fmt: skip


def _ids(pairs: Pairs, place: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """One number per counted pair, the same in both evaluations, and its row."""
    rows = np.flatnonzero(pairs.counted)
    columns = np.array([place[key] for key in pairs.keys], dtype=np.int64)
    return pairs.state[rows] * len(place) + columns[pairs.policy[rows]], rows


def _first_the_worse(row: PolicyChange) -> tuple[bool, float, float, str]:
    deltas = [change.difference.estimate if change.difference else 0.0 for change in (row.recall, row.precision)]
    return (not row.moved and not any(row.flips.values()), deltas[0], deltas[1], row.key)


@dataclass
class _Drawn:
    recall: dict[int, Change]
    precision: dict[int, Change]
    needed: dict[int, int]
    shown: dict[int, int]
    macro_recall: Change
    macro_precision: Change


def _rates(
    needed: Any, was: Any, now: Any, policy: NDArray[np.int64], scenario: NDArray[np.intp], weights: Floats, n: int
) -> _Drawn:
    """Rates per policy and macro, a and b under the same draws."""
    drawn = _Drawn({}, {}, {}, {}, Change(None, None, None), Change(None, None, None))
    masks = (needed, needed & was, was, needed & now, now)
    sums = {name: np.zeros(len(weights) + 1) for name in ("ra", "rb", "pa", "pb", "n")}
    step = max(1, CELLS // max(1, weights.shape[1]))
    for start in range(0, n, step):
        width = min(step, n - start)
        inside = (policy >= start) & (policy < start + width)
        cell = scenario[inside] * width + policy[inside] - start
        size = weights.shape[1] * width
        counts = [np.bincount(cell, weights=mask[inside], minlength=size).reshape(-1, width) for mask in masks]
        # The first row is the figure itself, the others are its draws.
        need, hit_a, shown_a, hit_b, shown_b = (np.concatenate((c.sum(axis=0)[None], weights @ c)) for c in counts)
        ra, rb = ratio(hit_a, need), ratio(hit_b, need)
        pa, pb = (
            np.where(need > 0, np.nan_to_num(ratio(h, s)), np.nan) for h, s in ((hit_a, shown_a), (hit_b, shown_b))
        )
        for name, table in (("ra", ra), ("rb", rb), ("pa", pa), ("pb", pb), ("n", (need > 0).astype(float))):
            sums[name] += np.nansum(table, axis=1)
        for j in np.flatnonzero(need[0] > 0):
            drawn.recall[start + int(j)] = _change(ra[:, j], rb[:, j])
            drawn.precision[start + int(j)] = _change(ratio(hit_a, shown_a)[:, j], ratio(hit_b, shown_b)[:, j])
            drawn.needed[start + int(j)], drawn.shown[start + int(j)] = int(need[0, j]), int(shown_b[0, j])
    count = np.maximum(1.0, sums["n"])
    drawn.macro_recall = _change(sums["ra"] / count, sums["rb"] / count)
    drawn.macro_precision = _change(sums["pa"] / count, sums["pb"] / count)
    return drawn


def _change(a: Floats, b: Floats) -> Change:
    first, second = (float(row[0]) if np.isfinite(row[0]) else None for row in (a, b))
    return Change(first, second, spread(float(b[0] - a[0]), b[1:] - a[1:]))
