"""The version's own shift of the cut-off, re-chosen at every fit (docs/adr/0007-offset-rule.md)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from console.models import ClassifierVersion, OperatingPoint
from console.services import table
from sq_core import offset as rules

ENOUGH_RELEVANT = 20


def choose(
    *,
    point: OperatingPoint,
    base: ClassifierVersion | None,
    twin: ClassifierVersion | None,
    states: table.StateTable,
    labels: table.Labels,
    margins: NDArray[np.float64],
    left_out: NDArray[np.bool_],
    cured: Sequence[int],
) -> tuple[float, str]:
    """(offset, the rule that chose it): first, same, share or recall.

    ``twin`` is an earlier version with the same weights: its offset is taken back, so that an undo is exact.
    """
    if twin is not None:
        return twin.offset, "same"
    if base is None or not len(states):
        return (base.offset if base else 0.0), ("kept" if base else "first")
    parent = table.margins_of(table.classifier_of(base), states, table.pooling_of(point))
    parent_cutoff = point.theta + base.offset
    relevant = labels.relevant & ~left_out
    if point.calibration is not None and relevant.sum() >= ENOUGH_RELEVANT:
        target = max(point.target_recall, rules.recall_at(parent[relevant], parent_cutoff))
        offset, rule = rules.hold_recall(margins[relevant], point.theta, target), "recall"
    else:
        rows = np.array([states.positions[pk] for pk in point.background if pk in states.positions], dtype=np.int64)
        rows = rows if len(rows) else np.arange(len(states))
        offset, rule = rules.hold_share(parent[rows], margins[rows], parent_cutoff, point.theta), "share"
    must_fire = [margins[states.positions[pk]] for pk in cured if pk in states.positions]
    return rules.lower_to_fire(offset, point.theta, must_fire), rule
