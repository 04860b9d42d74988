"""θ in other words, per artifact and per genre, and what each choice realises (PRODUCT, A recall promise).

Scores passed in are margin − offset. Every choice is measured where it was not made: cut-offs of one fold of scenarios
come from the other folds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.evaluation.calibration import Promise, calibrate_theta, promise_theta
from sq_core.evaluation.data import Row
from sq_core.evaluation.fence import assert_theta_apart
from sq_core.evaluation.metrics import HAIR, Bools, Floats, Sweep, operating_point
from sq_core.evaluation.splits import scenario_folds
from sq_core.offset import MIN_RELEVANT, hold_recall

# An artifact with relevant turns in fewer scenarios has no promise of its own.
FEWEST_SCENARIOS = 20


def theta_of_probability(probability: float) -> float:
    """θ from which relevance is more likely than this: ln(p / (1 − p))."""
    if not 0 < probability < 1:
        raise ValueError(f"probability is {probability!r}; expected a number above 0 and below 1")
    return math.log(probability / (1 - probability))


def probability_of_theta(theta: float) -> float:
    """The relevance probability at θ: 1 / (1 + e^−θ)."""
    small = math.exp(-abs(theta))
    return 1 / (1 + small) if theta >= 0 else small / (1 + small)


def theta_of_costs(false_negative: float, false_positive: float) -> float:
    """θ at which showing and not showing cost the same: ln(cost of an extra / cost of a miss).

    A miss ten times as bad as an extra gives ln(1/10) = −2.303. Exact where margins are calibrated log-odds
    (``reliability`` says how far they are), as of the balanced prior they were fitted under.
    """
    for name, cost in (("false_negative", false_negative), ("false_positive", false_positive)):
        if not (math.isfinite(cost) and cost > 0):
            raise ValueError(f"{name} costs {cost!r}; expected a positive number")
    return math.log(false_positive / false_negative)


def cost_ratio_of_theta(theta: float) -> float:
    """How many extras one miss is worth at θ: e^−θ."""
    return math.exp(-theta)


# -------------------------------------------------------------------------------------------------- promises per artifact
@dataclass(frozen=True, slots=True)
class ArtifactPromise:
    """One artifact's promise, or, with ``pooled``, that of all artifacts whose positives are too few for their own."""

    artifact: str
    theta: float | None
    promise: Promise
    pooled: bool

    @property
    def note(self) -> str:
        if not self.pooled:
            return self.promise.note
        return f"too few positives of its own, pooled with the others that have too few: {self.promise.note}"


def artifact_promises(
    scores: ArrayLike,
    relevant: ArrayLike,
    scenarios: Sequence[Hashable],
    artifacts: Sequence[str],
    *,
    miss_rate: float = 0.10,
    fewest: int = FEWEST_SCENARIOS,
) -> tuple[ArtifactPromise, ...]:
    """Conformal risk control artifact by artifact, in their order.

    An artifact relevant in at least ``fewest`` scenarios gets a θ of its own; the others share one from their pairs
    pooled, whose promise is about a scenario's pairs of all of them together, not about each. Where even these are too
    few, θ is None.
    """
    table, needed = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool)
    if table.shape != needed.shape or table.ndim != 2 or table.shape[1] != len(artifacts):
        raise ValueError(
            f"scores {table.shape}, relevant {needed.shape}, {len(artifacts)} artifacts; expected (S, N), N"
        )
    counts = [len({name for name, hit in zip(scenarios, column, strict=True) if hit}) for column in needed.T]
    few = np.array([count < fewest for count in counts], dtype=bool)
    shared = promise_theta(table[:, few], needed[:, few], scenarios, miss_rate) if few.any() else None
    found = []
    for j, key in enumerate(artifacts):
        if few[j] and shared is not None:
            found.append(ArtifactPromise(key, shared.theta, shared, pooled=True))
        else:
            own = promise_theta(table[:, [j]], needed[:, [j]], scenarios, miss_rate)
            found.append(ArtifactPromise(key, own.theta, own, pooled=False))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------------ reliability
@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Do the probabilities mean what they say? Per bin (B,): mean probability, share relevant, count.

    error: mean |probability − share| weighted by count; brier: mean squared error of single pairs.
    """

    probability: Floats
    share: Floats
    count: NDArray[np.int64]
    error: float
    brier: float


def reliability(
    scores: ArrayLike, relevant: ArrayLike, judged: ArrayLike | None = None, *, bins: int = 10
) -> Reliability:
    """Margins as probabilities in ``bins`` equally wide bins; empty bins are left out."""
    table, needed = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool)
    known = np.isfinite(table) & (np.ones_like(needed) if judged is None else np.asarray(judged, dtype=bool))
    if not known.any():
        raise ValueError("no judged pair with a score; nothing to compare probabilities with")
    clipped = np.clip(table[known], -500, 500)
    probability, hit = 1 / (1 + np.exp(-clipped)), needed[known].astype(np.float64)
    place = np.minimum((probability * bins).astype(np.intp), bins - 1)
    count = np.bincount(place, minlength=bins)
    used = count > 0
    mean = np.bincount(place, weights=probability, minlength=bins)[used] / count[used]
    share = np.bincount(place, weights=hit, minlength=bins)[used] / count[used]
    error = float(np.average(np.abs(mean - share), weights=count[used]))
    return Reliability(mean, share, count[used], error, float(np.mean((probability - hit) ** 2)))


# ----------------------------------------------------------------------------------------------------------- side by side
def side_by_side(
    scores: ArrayLike,
    relevant: ArrayLike,
    scenarios: Sequence[str],
    genres: Sequence[str],
    *,
    judged: ArrayLike | None = None,
    target: float = 0.90,
    folds: int = 5,
    seed: int = 0,
) -> list[Row]:
    """One θ, one θ per genre (genres: one per artifact) and one offset per artifact, cross-fitted by scenario.

    Rows ``one-theta`` (for the target alone), ``promised-theta`` (the default: the promise kept too, see
    ``calibrate_theta``), ``theta-per-genre``, ``offsets``: macro recall, precision, kept and removed = 1 − kept of the
    pooled held-out folds, and ``artifacts_at_target``, how many of the occurring ``artifacts`` reach the target each.
    Offsets keep the target recall of an artifact with at least ``MIN_RELEVANT`` relevant turns in the other folds; the
    others stay at θ.
    """
    table, needed = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool)
    known = np.ones_like(needed) if judged is None else np.asarray(judged, dtype=bool)
    needed = needed & known
    names = np.array(list(scenarios), dtype=object)
    if table.shape != (len(names), len(genres)):
        raise ValueError(f"scores {table.shape} for {len(names)} scenarios and {len(genres)} genres; expected (S, N)")
    cuts = {
        name: np.full(table.shape, np.nan) for name in ("one-theta", "promised-theta", "theta-per-genre", "offsets")
    }
    for part in scenario_folds(scenarios, folds, seed):
        inside = np.array([name in part for name in names], dtype=bool)
        assert_theta_apart(names[~inside], names[inside])
        rows = table[~inside], needed[~inside], known[~inside]
        chosen = calibrate_theta(
            rows[0], rows[1], target, judged=rows[2], scenarios=[name for name in names if name not in part]
        )
        theta = chosen.target_theta
        cuts["one-theta"][inside], cuts["promised-theta"][inside] = theta, chosen.theta
        cuts["theta-per-genre"][inside] = _per_genre(*rows, genres, target, theta)
        cuts["offsets"][inside] = _offsets(*rows, target, theta)
    found = []
    for name, cut in cuts.items():
        # One table of distances to the cut-off: at 0 everything above its own cut-off fires.
        at = operating_point(np.where(np.isfinite(table), table - cut, -np.inf), needed, 0.0, known)
        row: Row = {"method": name, "world": "fitted", "recall": at.recall, "precision": at.precision, "kept": at.kept}
        own = at.artifact_recall[at.occurring]
        found.append(row | {"removed": 1 - at.kept, "target": target, "artifacts": int(at.occurring.sum()),
                            "artifacts_at_target": int(np.count_nonzero(own >= target - HAIR))})  # fmt: skip
    return found


def lowest_theta(scores: Floats, relevant: Bools, judged: Bools, target: float) -> float:
    """The largest θ with macro recall ≥ target, the lowest of all where none reaches it."""
    curve = Sweep(scores, relevant, judged).curve()
    reached = np.flatnonzero(curve.recall >= target - HAIR)
    return float(curve.theta[reached[0] if reached.size else -1])


def _per_genre(
    scores: Floats, relevant: Bools, judged: Bools, genres: Sequence[str], target: float, theta: float
) -> Floats:
    cut = np.full(scores.shape[1], theta)
    for genre in dict.fromkeys(genres):
        columns = np.array([each == genre for each in genres], dtype=bool)
        if relevant[:, columns].any():
            cut[columns] = lowest_theta(scores[:, columns], relevant[:, columns], judged[:, columns], target)
    return cut


def _offsets(scores: Floats, relevant: Bools, judged: Bools, target: float, theta: float) -> Floats:
    cut = np.full(scores.shape[1], theta)
    for j in range(scores.shape[1]):
        own = scores[relevant[:, j] & judged[:, j] & np.isfinite(scores[:, j]), j]
        if own.size >= MIN_RELEVANT:
            cut[j] = theta + hold_recall(own, theta, target)
    return cut
