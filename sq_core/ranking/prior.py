"""The frequency prior and its gate (TRACES 2.5): counts of training rows, kept apart from the state at every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.causal.prefix import PrefixRow
from sq_core.ranking.worlds import Bools

Floats = NDArray[np.float64]
ALPHA = 0.5
GRID = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def centred_log_counts(counts: ArrayLike, alpha: float = ALPHA) -> Floats:
    """ln(n + α) − mean ln(n + α) over the candidates given, (n,); exactly 0 where nothing was counted.

    Raises ValueError unless α > 0 and no count is negative.
    """
    number = np.asarray(counts, dtype=np.float64)
    if not alpha > 0 or (number < 0).any():
        raise ValueError(f"alpha is {alpha} and the lowest count {number.min(initial=0)}; expected > 0 and ≥ 0")
    if not number.any():
        return np.zeros_like(number)
    logs = np.log(number + alpha)
    centred: Floats = logs - logs.mean()
    return centred


def base_rate_log_odds(relevant: int, judged: int, alpha: float = 1.0) -> float:
    """ln((n + α) / (N − n + α)) of one artifact's judged base rate (TRACES 3.2): no other artifact enters."""
    if not alpha > 0 or not 0 <= relevant <= judged:
        raise ValueError(f"{relevant} relevant of {judged} with alpha {alpha}; expected 0 ≤ n ≤ N and alpha > 0")
    return math.log((relevant + alpha) / (judged - relevant + alpha))


@dataclass(frozen=True, slots=True, eq=False)
class ToolCounts:
    """Targets of training rows by context, each (n,) over the vocabulary; `total` (n,) counts them over all tools."""

    by_context: Mapping[str, Floats]
    total: Floats

    def of(self, context: str) -> Floats:
        """Counts of one context; zeros where it was never seen in training."""
        return self.by_context.get(context, np.zeros_like(self.total))

    def prior(self, rows: Sequence[PrefixRow], allowed: Bools, alpha: float = ALPHA) -> Floats:
        """(N, n): each row's prior centred over its own candidates; 0 outside of them."""
        found = np.zeros(allowed.shape)
        known: dict[tuple[str, bytes], Floats] = {}
        for at, row in enumerate(rows):
            key = (row.context, allowed[at].tobytes())
            if key not in known:
                line = np.zeros(allowed.shape[1])
                if allowed[at].any():
                    line[allowed[at]] = centred_log_counts(self.of(row.context)[allowed[at]], alpha)
                known[key] = line
            found[at] = known[key]
        return found


def count_targets(rows: Sequence[PrefixRow], words: Sequence[str]) -> ToolCounts:
    """Counts of these rows (training rows only), one per row."""
    place = {word: at for at, word in enumerate(words)}
    by_context: dict[str, Floats] = {}
    total = np.zeros(len(words))
    for row in rows:
        by_context.setdefault(row.context, np.zeros(len(words)))[place[row.target]] += 1
        total[place[row.target]] += 1
    return ToolCounts(by_context, total)


class Gate(Protocol):
    """How much the prior counts in each row; it sees state scores and never a target."""

    kind: ClassVar[str]

    def weights(self, scores: Floats, allowed: Bools) -> Floats:
        """λ (N,) from state scores (N, n) over each row's candidates."""
        ...

    def describe(self) -> dict[str, float]:
        """Its numbers, for the record."""
        ...


@dataclass(frozen=True, slots=True)
class FixedGate:
    """One λ for every row, chosen beforehand."""

    kind: ClassVar[str] = "fixed"
    value: float

    def weights(self, scores: Floats, allowed: Bools) -> Floats:
        del allowed
        return np.full(len(scores), self.value)

    def describe(self) -> dict[str, float]:
        return {"lambda": self.value}


@dataclass(frozen=True, slots=True)
class TunedGate(FixedGate):
    """One λ for every row, chosen on validation rows."""

    kind: ClassVar[str] = "tuned"


@dataclass(frozen=True, slots=True)
class LearnedGate:
    """λ = maximum · σ(w0 + w1 · margin), margin = best − second-best state score of the row."""

    kind: ClassVar[str] = "learned"
    maximum: float
    w0: float
    w1: float

    def weights(self, scores: Floats, allowed: Bools) -> Floats:
        return self.at(margins(scores, allowed))

    def at(self, margin: ArrayLike) -> Floats:
        """λ at these margins."""
        turned = np.clip(self.w0 + self.w1 * np.asarray(margin, dtype=np.float64), -500, 500)
        value: Floats = self.maximum / (1.0 + np.exp(-turned))
        return value

    def describe(self) -> dict[str, float]:
        return {"maximum": self.maximum, "w0": self.w0, "w1": self.w1}


def margins(scores: Floats, allowed: Bools) -> Floats:
    """Best − second-best allowed score of each row (N,); 0 with fewer than two candidates."""
    if scores.shape[1] < 2:
        return np.zeros(len(scores))
    top = np.sort(np.where(allowed, scores, -np.inf), axis=1)[:, -2:]
    two = np.isfinite(top).all(axis=1)
    return np.where(two, np.where(two[:, None], top, 0.0) @ np.array([-1.0, 1.0]), 0.0)


def tune_gate(quality: Callable[[float], float], grid: Sequence[float] = GRID) -> TunedGate:
    """The λ of the grid with the highest validation quality (MRR); of equals the smaller. The grid must hold 0."""
    if 0.0 not in grid:
        raise ValueError("the grid must contain 0, or the prior could not be turned off")
    ordered = sorted(grid)
    return TunedGate(ordered[int(np.argmax([round(quality(value), 12) for value in ordered]))])
