"""Choosing θ on judged states, and what may be promised about it (PRODUCT, A recall promise).

Scores passed in are margin − offset, so that one θ serves every artifact.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.evaluation.metrics import HAIR, Sweep, operating_point
from sq_core.offset import HALF_STEP

Floats = NDArray[np.float64]
Rule = Literal["promise", "target"]
RULES: tuple[Rule, ...] = ("promise", "target")


@dataclass(frozen=True, slots=True)
class Promise:
    """Conformal risk control over scenarios: the expected miss rate on a new scenario is at most ``miss_rate``.

    Assumption: scenarios are exchangeable. Loss of a scenario = missed / relevant pairs; scenarios without a relevant
    pair say nothing about misses and are not counted in ``scenarios``. bound = n/(n+1)·risk + 1/(n+1) ≤ miss_rate at
    ``theta``. theta is None when the labels are too few for any θ; ``needed`` says how many scenarios it takes at
    least (None: no number of them promises a miss rate of 0).
    """

    miss_rate: float
    theta: float | None
    risk: float | None
    bound: float | None
    scenarios: int
    relevant_pairs: int
    needed: int | None

    @property
    def enough(self) -> bool:
        return self.theta is not None

    @property
    def note(self) -> str:
        if self.needed is None:
            return "no number of labels promises that nothing is ever missed; set a target below 100 %"
        if self.scenarios < self.needed:
            return (
                f"too few labels: {self.scenarios} scenarios with a relevant turn, at least {self.needed} needed to "
                f"promise an expected miss rate of {self.miss_rate:.0%}"
            )
        if self.theta is None:
            return "no θ keeps the promise: some relevant turns cannot fire (an artifact without a classifier)"
        return (
            f"expected miss rate at most {self.miss_rate:.0%} on a new scenario, from {self.scenarios} scenarios with "
            f"{self.relevant_pairs} relevant pairs, if new scenarios are like these"
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """θ and the figures on the very states it was chosen on; ``reached`` is False when no θ reaches the target.

    recall and precision are macro over the ``artifacts`` that occur, out of all columns. ``target_theta`` is what the
    target alone would have chosen; θ lies below it where the promise asks for more.
    """

    theta: float
    target_theta: float
    target: float
    reached: bool
    recall: float
    precision: float
    kept: float
    states: int
    scenarios: int
    artifacts: int
    relevant_pairs: int
    promise: Promise

    @property
    def promised(self) -> bool:
        """True when the promise holds at ``theta``."""
        return self.promise.theta is not None and self.theta <= self.promise.theta


def calibrate_theta(
    scores: ArrayLike,
    relevant: ArrayLike,
    target: float = 0.90,
    *,
    scenarios: Sequence[Hashable] | None = None,
    judged: ArrayLike | None = None,
    rule: Rule = "promise",
) -> Calibration:
    """θ for a target recall on judged states, chosen so that new scenarios may expect it too (docs/adr/0011).

    ``target``: the largest θ (a distinct score) with macro recall ≥ target on these states. ``promise``, the default:
    the lower of that and the largest θ at which the conformal bound on the expected miss rate of a new scenario is
    ≤ 1 − target. Where the labels are too few for a promise, or no ``scenarios`` are given, the target decides alone
    and ``promised`` is False.

    scores (S, N) = margin − offset; relevant (S, N); scenarios (S,), one per state. When the target is out of reach θ
    is the lowest, where everything that can fire does. Raises ValueError without a relevant pair: then there is nothing
    to calibrate on and θ stays what it was.
    """
    sweep = Sweep(scores, relevant, judged)
    table, needed, known = sweep_tables(scores, relevant, judged)
    if not 0 < target <= 1:
        raise ValueError(f"target recall is {target!r}; expected a share above 0 and at most 1")
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; expected one of {', '.join(RULES)}")
    if not needed.any():
        raise ValueError("no relevant judgement among these states; judge some conversations first")
    curve = sweep.curve()
    reached = np.flatnonzero(curve.recall >= target - HAIR)
    target_theta = float(curve.theta[reached[0] if reached.size else -1])
    groups = list(range(len(table))) if scenarios is None else list(scenarios)
    promise = promise_theta(table, needed, groups, round(1 - target, 12))
    promised = promise.theta if rule == "promise" and scenarios is not None else None
    theta = target_theta if promised is None else min(target_theta, promised)
    figures = operating_point(table, needed, theta, known)
    return Calibration(
        theta=theta,
        target_theta=target_theta,
        target=target,
        reached=bool(reached.size),
        recall=figures.recall,
        precision=figures.precision,
        kept=figures.kept,
        states=len(table),
        scenarios=len(set(groups)),
        artifacts=int(figures.occurring.sum()),
        relevant_pairs=int(needed.sum()),
        promise=promise,
    )


def promise_theta(
    scores: ArrayLike, relevant: ArrayLike, scenarios: Sequence[Hashable], miss_rate: float = 0.10
) -> Promise:
    """The largest θ whose conformal bound on the expected miss rate of a new scenario is ≤ miss_rate.

    For one artifact pass its column (S, 1). Only relevant pairs count: how much θ keeps has no part in the promise.
    """
    table, needed, _ = sweep_tables(scores, relevant, None)
    if len(scenarios) != len(table):
        raise ValueError(f"{len(scenarios)} scenarios for {len(table)} states; expected one each")
    if not 0 <= miss_rate < 1:
        raise ValueError(f"miss rate is {miss_rate!r}; expected a share of at least 0 and below 1")
    codes = {name: i for i, name in enumerate(dict.fromkeys(scenarios))}
    group = np.array([codes[name] for name in scenarios], dtype=np.intp)
    state, _ = np.nonzero(needed)
    margins, owner = table[needed], group[state]
    pairs = np.bincount(owner, minlength=len(codes))
    n = int((pairs > 0).sum())
    least = int(np.ceil(1 / miss_rate - 1 - HAIR)) if miss_rate > 0 else None
    theta, risk, bound = (None, None, None)
    if least is not None and n >= least:
        theta, risk, bound = _risk_control(margins, pairs[owner], n, miss_rate)
    return Promise(miss_rate, theta, risk, bound, n, int(needed.sum()), least)


def _risk_control(
    margins: Floats, pairs_of_scenario: NDArray[np.intp], n: int, miss_rate: float
) -> tuple[float | None, float | None, float | None]:
    """Largest θ among the values just below each relevant margin with n/(n+1)·risk(θ) + 1/(n+1) ≤ miss_rate."""
    order = np.argsort(margins, kind="stable")
    ranked = margins[order]
    # risk after missing the k lowest margins: each adds its share of its scenario's loss, averaged over scenarios.
    risk = np.concatenate(([0.0], np.cumsum(1.0 / pairs_of_scenario[order]) / n))
    first = np.searchsorted(ranked, ranked, side="left")  # θ just below a margin misses what lies below it, ties fire
    bounds = n / (n + 1) * risk[first] + 1 / (n + 1)
    allowed = np.flatnonzero((bounds <= miss_rate + HAIR) & np.isfinite(ranked))
    if allowed.size == 0:
        return None, None, None
    best = int(allowed[-1])
    return float(ranked[best]) - HALF_STEP, float(risk[first[best]]), float(bounds[best])


def sweep_tables(
    scores: ArrayLike, relevant: ArrayLike, judged: ArrayLike | None
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """The three tables as arrays (S, N), unjudged pairs no longer relevant."""
    table, needed = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool)
    known = np.ones_like(needed) if judged is None else np.asarray(judged, dtype=bool)
    return table, needed & known, known


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval over ``draws`` resamples of whole scenarios (None when no draw gave a figure)."""

    low: float
    high: float
    draws: int


def scenario_draws(scenarios: Sequence[Hashable], draws: int = 200, seed: int = 0) -> NDArray[np.float64]:
    """State weights (draws, S) of resampling whole scenarios with replacement, seeded."""
    codes = {name: i for i, name in enumerate(sorted(set(scenarios), key=str))}
    group = np.array([codes[name] for name in scenarios], dtype=np.intp)
    picks = np.random.default_rng(seed).integers(0, len(codes), size=(draws, len(codes)))
    times = np.stack([np.bincount(pick, minlength=len(codes)) for pick in picks]).astype(np.float64)
    weights: Floats = times[:, group]
    return weights


def percentile_interval(values: Sequence[float | None], level: float = 0.95) -> Interval | None:
    """The middle ``level`` of the draws that gave a figure."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if known.size == 0:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), int(known.size))
