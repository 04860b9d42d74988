"""A version's own shift of the cut-off, so that one changed exemplar stays one change (PRODUCT, Margin).

It fires iff margin > theta + offset, strictly. Margins are rounded to 1e-6, so a cut-off half a step below a margin is
the highest at which that margin still fires. All rules are recall-first: of equal margins, all fire.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

HALF_STEP = 5e-7
# Fewer relevant turns than this say too little about recall; the firing share is held instead.
MIN_RELEVANT = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """An offset and what it held: the parent's recall on ``relevant`` turns, or its firing share.

    lowered: the held cut-off would have missed a turn that must fire, so it was lowered just below it.
    """

    offset: float
    rule: Literal["recall", "share"]
    relevant: int
    parent_recall: float | None
    lowered: bool


def choose_offset(
    *,
    parent_background: ArrayLike,
    new_background: ArrayLike,
    parent_relevant: ArrayLike,
    new_relevant: ArrayLike,
    parent_cutoff: float,
    theta: float,
    must_fire: Sequence[float] = (),
) -> Choice:
    """The product's rule at every fit after the first: keep what the parent version achieved.

    With at least ``MIN_RELEVANT`` relevant turns its recall on them, else its firing share on the background sample;
    then never above a turn that a person just promoted. The target is the parent's own recall, not the inventory's:
    lifting a policy to the target is a calibration, and would newly fire a sixth of all turns for one click.

    parent_background, new_background (S,): margins of both versions on the inventory's frozen background sample.
    parent_relevant, new_relevant (R,): on this artifact's judged relevant turns in other scenarios than its exemplars'.
    must_fire: the new version's margins at the turns that were just promoted.
    """
    before, after = _margins(parent_relevant, "parent_relevant"), _margins(new_relevant, "new_relevant")
    if before.shape != after.shape:
        raise ValueError(f"{before.size} parent margins and {after.size} new ones; expected the same relevant turns")
    recall = recall_at(before, parent_cutoff) if before.size else None
    rule: Literal["recall", "share"] = "recall" if before.size >= MIN_RELEVANT and recall else "share"
    if rule == "recall" and recall:
        held = hold_recall(after, theta, recall)
    else:
        held = hold_share(parent_background, new_background, parent_cutoff, theta)
    offset = lower_to_fire(held, theta, must_fire)
    return Choice(offset, rule, before.size, recall, offset < held)


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
