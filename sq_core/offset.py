"""A version's own shift of the cut-off, so that one changed exemplar stays one change (PRODUCT, Margin).

It fires iff margin > theta + offset, strictly. Margins are rounded to 1e-6, so a cut-off half a step below a margin is
the highest at which that margin still fires. All rules are recall-first: of equal margins, all fire.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

HALF_STEP = 5e-7


def hold_share(parent_margins: ArrayLike, new_margins: ArrayLike, parent_cutoff: float, theta: float) -> float:
    """The largest offset at which at least as many background states fire as did for the parent version.

    parent_margins and new_margins (S,): both versions on the same background states. Where the parent fired on none
    (or on all), there is no margin to hold on to: its distance to the nearest one is kept instead. Without background
    states the parent's cut-off stays.
    """
    parent, new = _margins(parent_margins, "parent_margins"), _margins(new_margins, "new_margins")
    if parent.shape != new.shape:
        raise ValueError(f"{parent.size} parent margins and {new.size} new ones; expected the same background states")
    if new.size == 0:
        return parent_cutoff - theta
    fired = int(np.count_nonzero(parent > parent_cutoff))
    if fired == 0:
        return float(new.max()) + (parent_cutoff - float(parent.max())) - theta
    if fired == new.size:
        return float(new.min()) - max(float(parent.min()) - parent_cutoff, HALF_STEP) - theta
    return _just_below(np.partition(new, new.size - fired)[new.size - fired]) - theta


def hold_recall(margins_of_relevant: ArrayLike, theta: float, target: float) -> float:
    """The largest offset at which at least ``target`` of these relevant turns fire; margins_of_relevant (R,), R ≥ 1."""
    margins = _margins(margins_of_relevant, "margins_of_relevant")
    if margins.size == 0:
        raise ValueError("no relevant turn to hold the recall on; use hold_share instead")
    if not 0 < target <= 1:
        raise ValueError(f"target recall is {target!r}; expected a share above 0 and at most 1")
    # 0.9 · 20 is 18.000000000000004 in some roundings: a hair must not cost one more turn.
    needed = max(math.ceil(target * margins.size - 1e-9), 1)
    return _just_below(np.partition(margins, margins.size - needed)[margins.size - needed]) - theta


def recall_at(margins_of_relevant: ArrayLike, cutoff: float) -> float:
    """Share of these margins (R,) above the cut-off; 1 when there are none, since nothing was missed."""
    margins = _margins(margins_of_relevant, "margins_of_relevant")
    return float(np.mean(margins > cutoff)) if margins.size else 1.0


def lower_to_fire(offset: float, theta: float, must_fire: Sequence[float]) -> float:
    """The offset, lowered just below the least of these margins when one of them would not fire."""
    return min([offset, *(_just_below(margin) - theta for margin in must_fire)])


def _just_below(margin: float) -> float:
    return float(margin) - HALF_STEP


def _margins(values: ArrayLike, name: str) -> NDArray[np.float64]:
    margins = np.asarray(values, dtype=np.float64)
    if margins.ndim != 1 or not np.isfinite(margins).all():
        raise ValueError(f"{name} must be one row of finite numbers; got shape {margins.shape}")
    return margins
