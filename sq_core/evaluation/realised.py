"""Does the recall promise hold where θ was not chosen? θ from one half of the scenarios, recall on the other.

The tolerance is the sampling error of the mean over halvings: two standard errors by deleting one scenario at a time,
θ chosen again each time. The spread over halvings would not do: they are halves of the same scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.evaluation.calibration import Rule, calibrate_theta
from sq_core.evaluation.fence import assert_theta_apart
from sq_core.evaluation.metrics import Bools, Floats, operating_point

SPLITS = 20


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean and lowest over the halvings, and twice the standard error of that mean over scenarios."""

    mean: float
    low: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Realised:
    """What a rule for θ realises on the other half of the scenarios, over ``splits`` halvings.

    macro: mean recall of the artifacts that occur there. per_scenario: mean over scenarios of the share of relevant
    pairs that fire, which is what the promise is about. kept: share of all pairs that fire.
    """

    rule: Rule
    target: float
    macro: Figure
    per_scenario: Figure
    kept: Figure
    splits: int

    @property
    def holds(self) -> bool:
        """Both recalls are at least the target less their tolerance."""
        return all(each.mean >= self.target - each.tolerance for each in (self.macro, self.per_scenario))

    @property
    def reaches(self) -> bool:
        """Both recalls are at least the target itself."""
        return all(each.mean >= self.target for each in (self.macro, self.per_scenario))


class _Table(NamedTuple):
    """scores and relevant (S, N), and the scenario of every state as a number."""

    scores: Floats
    relevant: Bools
    scenario: NDArray[np.intp]


def realised_recall(
    scores: ArrayLike,
    relevant: ArrayLike,
    scenarios: Sequence[str],
    *,
    target: float = 0.90,
    rule: Rule = "promise",
    splits: int = SPLITS,
    seed: int = 0,
) -> Realised:
    """Choose θ by ``rule`` on one half of the scenarios and measure on the other, ``splits`` times.

    scores (S, N) = margin − offset, by classifiers that saw none of these states (``cross_fitted``). Halvings whose
    sides do not both hold a relevant pair are skipped. Raises ValueError when all are.
    """
    names, codes = np.unique(np.array(list(scenarios)), return_inverse=True)
    table = _Table(np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool), codes)
    halves = [_half(len(names), seed, split) for split in range(splits)]
    every = np.ones(len(names), dtype=bool)
    figures = _figures(table, halves, every, target, rule)
    if not len(figures):
        raise ValueError("no split had relevant turns on both sides; judge more conversations")
    left_out = (every & (np.arange(len(names)) != each) for each in range(len(names)))
    without = [rows.mean(axis=0) for kept in left_out if len(rows := _figures(table, halves, kept, target, rule))]
    errors = _jackknife(np.array(without))
    macro, per_scenario, kept = (
        Figure(float(column.mean()), float(column.min()), 2 * float(error))
        for column, error in zip(figures.T, errors, strict=True)
    )
    return Realised(rule, target, macro, per_scenario, kept, len(figures))


def _half(count: int, seed: int, split: int) -> Bools:
    half = np.zeros(count, dtype=bool)
    half[np.random.default_rng((seed, split)).permutation(count)[: count // 2]] = True
    return half


def _figures(table: _Table, halves: Sequence[Bools], kept: Bools, target: float, rule: Rule) -> Floats:
    """(splits, 3): macro recall, recall per scenario and kept share of every usable halving of the kept scenarios."""
    rows = [_measured(table, half & kept, ~half & kept, target, rule) for half in halves]
    return np.array([row for row in rows if row is not None]).reshape(-1, 3)


def _measured(table: _Table, chosen: Bools, measured: Bools, target: float, rule: Rule) -> list[float] | None:
    assert_theta_apart(np.flatnonzero(chosen).tolist(), np.flatnonzero(measured).tolist())
    here, there = chosen[table.scenario], measured[table.scenario]
    if not table.relevant[here].any() or not table.relevant[there].any():
        return None
    codes = table.scenario[here].tolist()
    theta = calibrate_theta(table.scores[here], table.relevant[here], target, scenarios=codes, rule=rule).theta
    at = operating_point(table.scores[there], table.relevant[there], theta)
    return [at.recall, _per_scenario(table, there, theta), at.kept]


def _per_scenario(table: _Table, states: Bools, theta: float) -> float:
    owner = table.scenario[states]
    needed = table.relevant[states]
    hits = np.bincount(owner, weights=(needed & (table.scores[states] > theta)).sum(axis=1))
    pairs = np.bincount(owner, weights=needed.sum(axis=1))
    return float(np.mean(hits[pairs > 0] / pairs[pairs > 0]))


def _jackknife(without: Floats) -> Floats:
    """Standard errors of figures (n, 3), each computed without one of n scenarios."""
    n = len(without)
    spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
    errors: Floats = np.sqrt((n - 1) / n * spread)
    return errors
