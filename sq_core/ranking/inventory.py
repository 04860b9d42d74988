"""Inventory worlds (TRACES 3.3): one decision table with what could be found at all beside what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sq_core.ranking.worlds import Bools


@dataclass(frozen=True, slots=True)
class InventoryCard:
    """Pairs of (state, artifact) in the world ``unfitted-is-miss``; macro recall over artifacts that occur.

    coverage: share of the relevant pairs whose artifact has a version. None where nothing was relevant, or fired.
    never_occurred: artifacts without a relevant state; they have no recall and are no part of the macro average.
    """

    recall: float | None
    precision: float | None
    macro_recall: float | None
    coverage: float | None
    artifacts: int
    never_occurred: tuple[str, ...]

    def __str__(self) -> str:
        shown = {name: getattr(self, name) for name in ("recall", "precision", "macro_recall", "coverage")}
        figures = ", ".join(f"{name} {'none' if value is None else f'{value:.3f}'}" for name, value in shown.items())
        return f"{figures}; {len(self.never_occurred)} of {self.artifacts} never occurred"


def inventory_card(relevant: Bools, fired: Bools, fitted: Bools, artifacts: Sequence[str]) -> InventoryCard:
    """relevant and fired (S, N), fitted (N,): an artifact without a version is a miss, never an exclusion.

    Raises ValueError when an artifact without a version fires.
    """
    unfitted = fired.any(axis=0) & ~fitted
    if unfitted.any():
        raise ValueError(f"{artifacts[int(np.argmax(unfitted))]} has no version and fired")
    hits = relevant & fired
    each = relevant.sum(axis=0)
    occurring = each > 0
    return InventoryCard(
        recall=_share(hits.sum(), relevant.sum()),
        precision=_share(hits.sum(), fired.sum()),
        macro_recall=float(np.mean(hits.sum(axis=0)[occurring] / each[occurring])) if occurring.any() else None,
        coverage=_share((relevant & fitted).sum(), relevant.sum()),
        artifacts=len(artifacts),
        never_occurred=tuple(name for name, seen in zip(artifacts, occurring, strict=True) if not seen),
    )


def _share(part: np.integer, whole: np.integer) -> float | None:
    return float(part / whole) if whole else None
