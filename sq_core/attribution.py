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
from sq_core.fitting import ClassWeight, fit_classifier


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
