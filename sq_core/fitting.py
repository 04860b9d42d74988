"""Fit one artifact: L2 logistic regression on its own signals and anti-signals (paper §2.2), by Newton's method.

The optimum lies in the span of the exemplars: w = Xᵀα with αᵢ = C·sᵢ·(yᵢ − pᵢ). With no more exemplars than
dimensions every step is therefore solved for n numbers through the Gram matrix; with more, for the d weights. The α
are the exact attribution of every later margin. Why no library's solver: ``docs/adr/0002-exact-fit-in-the-span.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
ClassWeight = Literal["balanced"] | None

TOLERANCE = 1e-10
ITERATION_LIMIT = 100
# The gradient is measured against ‖w‖, or against this share of C·Σs where w itself is (nearly) zero.
WEIGHT_FLOOR = 1e-6
# Newton steps that neither lower the objective nor shrink the gradient before rounding counts as the limit.
PATIENCE = 3
# Relative rounding of the objective: differences below it say nothing.
ROUNDING = 1e-13
TINY = float(np.finfo(np.float64).tiny)
# Centred unit vectors have length 1; a C beyond this leaves no digits to fit with. Both keep the numbers finite.
LARGEST_ENTRY = 1e6
LARGEST_C = 1e9


class FitError(ValueError):
    """Exemplars or settings from which no classifier can be fitted."""


class EmptyClass(FitError):
    """No signal or no anti-signal: the classifier needs at least one of each."""


@dataclass(frozen=True, slots=True)
class StopState:
    """How the fit ended: ``converged``, ``stagnated`` (rounding is the limit) or ``iteration_limit``."""

    iterations: int
    relative_gradient: float
    reason: Literal["converged", "stagnated", "iteration_limit"]


@dataclass(frozen=True, slots=True)
class Fit:
    """weights (d,), bias, alphas (n,) and sample_weights (n,), float64; n counts signals first, then anti-signals."""

    weights: Floats
    bias: float
    alphas: Floats
    C: float
    class_weight: ClassWeight
    sample_weights: Floats
    stop: StopState


@dataclass(frozen=True, slots=True)
class _Problem:
    """rows (n, d); sign ±1 per row; cost = C·s per row."""

    rows: Floats
    sign: Floats
    cost: Floats


@dataclass(frozen=True, slots=True)
class _Point:
    """One iterate (w, b) with everything Newton needs at it."""

    weights: Floats
    bias: float
    pull: Floats  # (n,) C·s·(y − p), the negative slope of each row's loss: α at the optimum
    curvature: Floats  # (n,) C·s·p·(1 − p)
    gradient: Floats  # (d,) w − Xᵀ pull
    objective: float
    relative_gradient: float


class _Steps(Protocol):
    """Newton's direction in (w, b): the Hessian of w is I + XᵀDX with D = diag(curvature), bordered by XᵀD1 and 1ᵀD1."""

    def step(self, point: _Point) -> tuple[Floats, float]: ...


class _Span:
    """The direction for n ≤ d, through S = I + AKA with the Gram matrix K = XXᵀ (n, n) and A = √D.

    The unknowns of each step are thus the n shares of the rows, not d weights. K is never inverted, S has no eigenvalue
    below 1, and nothing is subtracted that nearly cancels, so duplicated rows and a large C do no harm. The iterate
    stays w, not α: where near-duplicates stand on both sides, α grows to C/2 and cancels, and margins taken from it
    would lose the digits the fit needs.
    """

    def __init__(self, rows: Floats) -> None:
        self.rows, self.gram, self.identity = rows, rows @ rows.T, np.eye(len(rows))

    def step(self, point: _Point) -> tuple[Floats, float]:
        root = np.sqrt(point.curvature)
        system = self.identity + root[:, None] * self.gram * root
        right = np.empty((len(root), 2))
        right[:, 0], right[:, 1] = root * (self.rows @ -point.gradient), root
        solved = np.linalg.solve(system, right)
        bias = (point.pull.sum() - root @ solved[:, 0]) / max(float(root @ solved[:, 1]), TINY)
        shares = root * (solved[:, 0] + bias * solved[:, 1])
        return -point.gradient - shares @ self.rows, float(bias)


class _Full:
    """The direction for more exemplars than dimensions: the bordered system itself, (d + 1, d + 1)."""

    def __init__(self, rows: Floats) -> None:
        self.rows = np.column_stack((rows, np.ones(len(rows))))
        # The bias is not penalised; tiny keeps the system solvable where every curvature underflowed.
        self.penalty = np.diag(np.append(np.ones(rows.shape[1]), TINY))

    def step(self, point: _Point) -> tuple[Floats, float]:
        hessian = self.penalty + self.rows.T @ (point.curvature[:, None] * self.rows)
        direction = np.linalg.solve(hessian, np.append(-point.gradient, point.pull.sum()))
        return direction[:-1], float(direction[-1])


def fit_classifier(
    signals: ArrayLike,
    anti_signals: ArrayLike,
    C: float = 1.0,
    class_weight: ClassWeight = None,
    *,
    exemplar_weights: ArrayLike | None = None,
) -> Fit:
    """Minimise ½‖w‖² + C·Σ sᵢ·log(1 + exp(−tᵢ(w·xᵢ + b))), the intercept b unpenalised (paper §2.2, Eq. 1).

    signals (n₊, d) and anti_signals (n₋, d): centred unit vectors, any float type; computed in float64.
    class_weight: None is the paper's unweighted recipe; "balanced" gives both sides the same total weight
    (sᵢ = n / (2·n_side), as scikit-learn does), so that one more exemplar on a side does not move the intercept.
    exemplar_weights (n₊ + n₋,): how much each exemplar counts, 1 by default; balanced sides then have equal sums.
    The same input gives the same bytes. Raises EmptyClass when a side is empty, FitError on anything unusable.
    """
    positive, negative = _side(signals, "signal"), _side(anti_signals, "anti-signal")
    if positive.shape[1] != negative.shape[1]:
        raise FitError(
            f"signals have {positive.shape[1]} dimensions and anti-signals {negative.shape[1]}; "
            "embed both with the same encoder"
        )
    if isinstance(C, bool) or not 0 < C <= LARGEST_C:
        raise FitError(f"C is {C!r}; expected a positive number up to {LARGEST_C:g} (the default is 1.0)")
    weights = _sample_weights(len(positive), len(negative), class_weight, exemplar_weights)
    sign = np.concatenate((np.ones(len(positive)), -np.ones(len(negative))))
    problem = _Problem(np.concatenate((positive, negative), dtype=np.float64), sign=sign, cost=C * weights)
    point, stop = _minimise(problem)
    # The last α are C·s·(y − p) at the optimum itself; w is their sum, so attribution needs no further rounding.
    return Fit(
        weights=point.pull @ problem.rows,
        bias=point.bias,
        alphas=point.pull,
        C=float(C),
        class_weight=class_weight,
        sample_weights=weights,
        stop=stop,
    )


def _side(vectors: ArrayLike, name: str) -> NDArray[np.floating]:
    """One side as an array (n, d) of any float type; anything else becomes float64."""
    rows = np.asarray(vectors)
    if not np.issubdtype(rows.dtype, np.floating):
        rows = np.asarray(vectors, dtype=np.float64)
    if rows.shape[0:1] == (0,):
        raise EmptyClass(f"no {name} given; a classifier needs at least one signal and one anti-signal")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise FitError(f"{name}s have shape {rows.shape}; expected (n, d), one row per {name}")
    # The extremes are NaN where any number is: one comparison finds whatever cannot be fitted.
    if max(float(rows.max()), -float(rows.min())) <= LARGEST_ENTRY:
        return rows
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise FitError(f"{name} {bad} (counted from 0) holds NaN or infinity; embed its text again")
    raise FitError(f"{name}s hold numbers beyond {LARGEST_ENTRY:g}; expected centred unit vectors")


def _sample_weights(positive: int, negative: int, class_weight: ClassWeight, given: ArrayLike | None) -> Floats:
    own = np.ones(positive + negative) if given is None else np.array(given, dtype=np.float64)
    if own.shape != (positive + negative,) or not np.isfinite(own).all() or not (own > 0).all():
        raise FitError(
            f"exemplar weights of shape {own.shape} for {positive} signals and {negative} anti-signals; expected one "
            "positive number each"
        )
    if class_weight is None:
        return own
    if class_weight != "balanced":
        raise FitError(f'class_weight is {class_weight!r}; expected "balanced" or None')
    total, up, down = own.sum(), own[:positive].sum(), own[positive:].sum()
    scale: Floats = own * np.repeat([total / (2 * up), total / (2 * down)], [positive, negative])
    return scale


def _minimise(problem: _Problem) -> tuple[_Point, StopState]:
    n, d = problem.rows.shape
    steps: _Steps = _Span(problem.rows) if n <= d else _Full(problem.rows)
    # Start where w = 0 is best: the log-odds of the two sides' weights.
    up, down = problem.cost[problem.sign > 0].sum(), problem.cost[problem.sign < 0].sum()
    point = best = _evaluate(problem, np.zeros(d), float(np.log(up / down)))
    waited = 0
    for iteration in range(ITERATION_LIMIT):
        if best.relative_gradient <= TOLERANCE:
            return best, StopState(iteration, best.relative_gradient, "converged")
        following = _descend(problem, steps, point)
        # Away from the optimum the gradient may grow while the objective falls; only a flat objective stagnates.
        flat = following.objective >= point.objective * (1 - ROUNDING)
        waited = waited + 1 if flat and following.relative_gradient >= best.relative_gradient else 0
        if waited >= PATIENCE:
            return best, StopState(iteration + 1, best.relative_gradient, "stagnated")
        point = following
        best = min(best, point, key=lambda each: each.relative_gradient)
    return best, StopState(ITERATION_LIMIT, best.relative_gradient, "iteration_limit")


def _descend(problem: _Problem, steps: _Steps, point: _Point) -> _Point:
    """Newton's step, halved until the objective does not rise; a step halved to nothing counts as stagnation."""
    weights, bias = steps.step(point)
    # Near the optimum the objective is flat to the last bits: a rise within its rounding is no rise.
    ceiling = point.objective * (1 + ROUNDING)
    length = 1.0
    following = _evaluate(problem, point.weights + weights, point.bias + bias)
    while following.objective > ceiling and length > ROUNDING:
        length /= 2
        following = _evaluate(problem, point.weights + length * weights, point.bias + length * bias)
    return following


def _evaluate(problem: _Problem, weights: Floats, bias: float) -> _Point:
    signed = problem.sign * (problem.rows @ weights + bias)
    # log(1 + e^−x) and 1 / (1 + e^x) through e^−|x|: no overflow, full relative precision at both ends.
    small = np.exp(-np.abs(signed))
    wrong = np.where(signed > 0, small, 1.0) / (1.0 + small)
    loss = np.maximum(-signed, 0.0) + np.log1p(small)
    pull = problem.cost * problem.sign * wrong
    gradient = weights - pull @ problem.rows
    norm = math.sqrt(weights @ weights)  # np.linalg.norm costs as much as a product at this size
    scale = max(norm, WEIGHT_FLOOR * float(problem.cost.sum()))
    return _Point(
        weights=weights,
        bias=bias,
        pull=pull,
        curvature=problem.cost * small / (1.0 + small) ** 2,
        gradient=gradient,
        objective=0.5 * norm**2 + float(problem.cost @ loss),
        relative_gradient=math.hypot(math.sqrt(gradient @ gradient), float(pull.sum())) / scale,
    )
