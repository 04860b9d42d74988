"""The version's own shift of the cut-off, re-chosen at every fit (docs/adr/0007-offset-rule.md)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from console.models import ClassifierVersion, OperatingPoint
from console.services import table
from sq_core.offset import choose_offset
from sq_core.scoring import cut_off


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
    parent: NDArray[np.float64] | None = None,
) -> tuple[float, str]:
    """(offset, the rule that chose it): first, same, share or recall.

    ``twin`` is an earlier version with the same weights: its offset is taken back, so that an undo is exact. ``cured`` are
    ids of query states that a person just said must be shown. ``parent`` (S,) are the base's margins where it was fitted
    around another centre and its weights say nothing on these states.
    """
    if twin is not None:
        return twin.offset, "same"
    if base is None:
        return 0.0, "first"
    if parent is None:
        parent = table.margins_of(table.classifier_of(base), states, table.pooling_of(point))
    rows = np.array([states.positions[pk] for pk in point.background if pk in states.positions], dtype=np.int64)
    relevant = labels.relevant & ~left_out
    chosen = choose_offset(
        parent_background=parent[rows],
        new_background=margins[rows],
        parent_relevant=parent[relevant],
        new_relevant=margins[relevant],
        parent_cutoff=cut_off(point.theta, base.offset),
        theta=point.theta,
        must_fire=[float(margins[states.positions[pk]]) for pk in cured if pk in states.positions],
    )
    return chosen.offset, chosen.rule
