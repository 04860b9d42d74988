"""Two pictures of one classifier's space (paper Figures 1 and 2): the map and the strip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.classifier import Classifier
from sq_core.scoring import exact_dots, round_margin

Floats = NDArray[np.float64]

# A residual direction with less than this share of the exemplars' spread is rounding, not a direction.
NO_SPREAD = 1e-6


def project(points: ArrayLike, classifier: Classifier, cutoff: float, exemplars: ArrayLike) -> Floats:
    """Map coordinates (p, 2) of points (p, d): x = margin − cut-off, y = first residual component of the exemplars.

    y is the first principal component of the exemplars (n, d) after removing their mean and the weights' direction; its
    sign is fixed by making its largest entry positive. Without any residual (one exemplar a side, say) y is 0.
    """
    rows, shown = _rows(exemplars, classifier), _rows(points, classifier)
    mean = rows.mean(axis=0) if len(rows) else np.zeros(classifier.dimension)
    across = (shown - mean) @ _residual_axis(rows - mean, classifier.weights.astype(np.float64))
    return np.column_stack((_margins(shown, classifier) - cutoff, across))


def _residual_axis(centred: Floats, weights: Floats) -> Floats:
    """Unit vector (d,), orthogonal to the weights, or zeros where the exemplars do not spread beside them."""
    length = float(np.linalg.norm(weights))
    along: Floats = weights / length if length > 0 else weights
    residual = centred - np.outer(centred @ along, along)
    spread = np.linalg.norm(centred)
    if len(centred) < 2 or np.linalg.norm(residual) <= NO_SPREAD * spread:
        return np.zeros_like(weights)
    axis: Floats = np.linalg.svd(residual, full_matrices=False)[2][0]
    axis = axis - (axis @ along) * along
    # The sign of a principal component is arbitrary; the first of the largest entries decides it.
    largest = axis[int(np.argmax(np.round(np.abs(axis), 12)))]
    return -axis if largest < 0 else axis


@dataclass(frozen=True, slots=True)
class Strip:
    """Margins w·q + b per group, in the order given, and shift = mean of relevant states − mean of signals.

    The shift is the distance between clean exemplars and real turns (paper Figure 2); None when either is empty.
    """

    signals: tuple[float, ...]
    anti_signals: tuple[float, ...]
    relevant: tuple[float, ...]
    irrelevant: tuple[float, ...]
    shift: float | None


def strip(
    signals: ArrayLike, anti_signals: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike, classifier: Classifier
) -> Strip:
    """The margins of four groups of vectors (·, d); states are given at their winning views."""
    show, dont_show, needed, extra = (
        tuple(float(value) for value in _margins(_rows(group, classifier), classifier))
        for group in (signals, anti_signals, relevant, irrelevant)
    )
    shift = float(np.mean(needed) - np.mean(show)) if show and needed else None
    return Strip(show, dont_show, needed, extra, shift)


def _margins(rows: Floats, classifier: Classifier) -> Floats:
    return round_margin(exact_dots(rows, classifier.weights) + classifier.bias)


def _rows(vectors: ArrayLike, classifier: Classifier) -> Floats:
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.size == 0:
        return np.zeros((0, classifier.dimension))
    if rows.ndim != 2 or rows.shape[1] != classifier.dimension:
        raise ValueError(f"vectors have shape {rows.shape}; expected (n, {classifier.dimension}), the classifier's d")
    return rows
