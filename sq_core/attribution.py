"""Why a margin is what it is: one exact signed term per exemplar (paper §2.2; PRODUCT, Exact attribution).

For L2 logistic regression w = Σ αᵢxᵢ, so w·q̄ + b = Σ αᵢ(xᵢ·q̄) + b, with q̄ = Σ weight·view over the views that count
(the winning view itself under max pooling). An auditor can redo the sum by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.classifier import Polarity
from sq_core.fitting import TINY, ClassWeight, fit_classifier


@dataclass(frozen=True, slots=True)
class Term:
    """One exemplar's part of a margin: value = alpha · (exemplar · query)."""

    index: int
    alpha: float
    value: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """All terms in the exemplars' order. total = show + dont_show + bias.

    show sums the signals' terms and dont_show the anti-signals'; residual = stored margin − total (None without a
    stored margin): float32 weights and rounding keep it within 1e-6.
    """

    terms: tuple[Term, ...]
    show: float
    dont_show: float
    bias: float
    total: float
    residual: float | None


def attribute(
    exemplars: ArrayLike,
    alphas: ArrayLike,
    bias: float,
    query: ArrayLike,
    polarity: Sequence[Polarity],
    *,
    stored: float | None = None,
) -> Attribution:
    """Split the margin of ``query`` (d,) over exemplars (n, d) with alphas (n,) and one polarity each.

    stored: the margin as stored or shown, to compare with. Raises ValueError when the lengths do not match.
    """
    rows, shares = np.asarray(exemplars, dtype=np.float64), np.asarray(alphas, dtype=np.float64)
    point = np.asarray(query, dtype=np.float64)
    if rows.ndim != 2 or shares.shape != (len(rows),) or len(polarity) != len(rows) or point.shape != rows.shape[1:]:
        raise ValueError(
            f"exemplars {rows.shape}, alphas {shares.shape}, {len(polarity)} polarities and query {point.shape} do not "
            "belong together; expected (n, d), (n,), n and (d,)"
        )
    values = shares * (rows @ point)
    signal = np.array([each == Polarity.SIGNAL for each in polarity], dtype=bool)
    show, dont_show = float(values[signal].sum()), float(values[~signal].sum())
    total = show + dont_show + bias
    return Attribution(
        terms=tuple(Term(i, float(shares[i]), float(values[i])) for i in range(len(rows))),
        show=show,
        dont_show=dont_show,
        bias=bias,
        total=total,
        residual=None if stored is None else stored - total,
    )


def leave_one_out(
    signals: ArrayLike, anti_signals: ArrayLike, C: float = 1.0, class_weight: ClassWeight = None
) -> NDArray[np.float64]:
    """Margin of each exemplar (n,) under the classifier fitted without it: what the others say about it.

    Signals first, then anti-signals. NaN for the only exemplar of its side: without it there is no classifier.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (signals, anti_signals)]
    margins: list[float] = []
    for which, side in enumerate(sides):
        for i in range(len(side)):
            if len(side) == 1:
                margins.append(float("nan"))
                continue
            rest = np.delete(side, i, axis=0)
            positive, negative = (rest, sides[1]) if which == 0 else (sides[0], rest)
            fit = fit_classifier(positive, negative, C, class_weight)
            margins.append(float(fit.weights @ side[i] + fit.bias))
    return np.array(margins, dtype=np.float64)


def leave_one_out_estimate(
    signals: ArrayLike, anti_signals: ArrayLike, C: float = 1.0, class_weight: ClassWeight = None
) -> NDArray[np.float64]:
    """`leave_one_out` to a good approximation, at the cost of one fit and two factorisations in place of n fits.

    From the optimum θ with Hessian H, leaving exemplar i out is one Newton step: its own gradient is all that is
    missing, and H without it is H − dᵢx̃ᵢx̃ᵢᵀ (x̃ with the bias' 1, d the curvature), inverted by Sherman and Morrison:
    margin₋ᵢ = marginᵢ − αᵢhᵢ / (1 − dᵢhᵢ) with hᵢ = x̃ᵢᵀH⁻¹x̃ᵢ. Balanced sides weigh anew with one exemplar fewer; H
    and a gradient common to the side's exemplars take that up, hence one factorisation a side. Good to some 0.001 where
    there are more dimensions than exemplars, worse the larger C.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (signals, anti_signals)]
    fit = fit_classifier(sides[0], sides[1], C, class_weight)
    rows, n = np.concatenate(sides), len(sides[0]) + len(sides[1])
    margins = rows @ fit.weights + fit.bias
    if n < rows.shape[1]:  # the same geometry in n coordinates
        values, axes = np.linalg.eigh(rows @ rows.T)
        rows = axes * np.sqrt(np.maximum(values, 0.0))
    points = np.column_stack((rows, np.ones(n)))
    wrong = np.clip(np.abs(fit.alphas) / (C * fit.sample_weights), 0.0, 1.0)
    curvature = C * fit.sample_weights * wrong * (1.0 - wrong)
    penalty = np.append(np.ones(rows.shape[1]), TINY)  # as in the fit: the bias is not penalised
    result = np.full(n, np.nan)
    is_signal = np.arange(n) < len(sides[0])
    for mine in (is_signal, ~is_signal):
        size = int(mine.sum())
        if size == 1:
            continue
        own, other = ((n - 1) / n * size / (size - 1), (n - 1) / n) if class_weight == "balanced" else (1.0, 1.0)
        weight = np.where(mine, own, other)
        hessian = points.T @ ((weight * curvature)[:, None] * points) + np.diag(penalty)
        common = ((1.0 - weight) * fit.alphas) @ points
        solved = np.linalg.solve(hessian, np.column_stack((points[mine].T, common)))
        leverage = np.einsum("ij,ji->i", points[mine], solved[:, :-1])
        step = points[mine] @ solved[:, -1] + own * fit.alphas[mine] * leverage
        result[mine] = margins[mine] - step / np.maximum(1.0 - own * curvature[mine] * leverage, TINY)
    return result
