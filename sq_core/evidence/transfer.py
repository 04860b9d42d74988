"""Fitted and tuned on one configuration, run unchanged on another (TRACES 2.8): a matrix with ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sq_core.evidence.measuring import donors_for
from sq_core.evidence.splits import group_split
from sq_core.ranking.methods import Fold, Parts, RankingData, RankSettings
from sq_core.ranking.metrics import reciprocal
from sq_core.ranking.worlds import WorldName

# Three groups of ten are tested: enough of them for inference also where a configuration has 20.
FRACTIONS = (0.5, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class TransferCell:
    """Fitted on `source`, run on `target`; ratio to the target's own fit (None when that is 0).

    baseline: MRR of ``reset`` on the same rows, which needs no fit: what does not beat it was not carried over.
    gate: the numbers tuned on `source`; gamma: the decay it was fitted with.
    """

    source: str
    target: str
    method: str
    world: str
    rows: int
    groups: int
    coverage: float
    mrr: float
    baseline: float
    ratio: float | None
    gate: dict[str, float]
    gamma: float


def ratio(mrr: float, own: float) -> float | None:
    """What is left of the target's own figure."""
    return mrr / own if own > 0 else None


def transfer_matrix(
    data: RankingData, settings: RankSettings, *, method: str, world: WorldName, seed: int
) -> tuple[TransferCell, ...]:
    """Every ordered pair of the rows' configurations, each tested on the target's held-out groups.

    One split of all group names serves every configuration, so that a task never trains one and tests another. Raises
    ValueError with fewer than two configurations, or one without rows in a part.
    """
    configs = sorted({row.config_id for row in data.rows})
    if len(configs) < 2:
        raise ValueError(f"transfer needs two configurations, got {', '.join(configs)}")
    split = group_split(data.rows, fractions=FRACTIONS, seed=seed)
    of = np.array([row.config_id for row in data.rows], dtype=object)
    found: dict[tuple[str, str], TransferCell] = {}
    for source in configs:
        train, validation = (part[of[part] == source] for part in (split.train, split.validation))
        for target in configs:
            parts = Parts(train, validation, split.test[of[split.test] == target])
            if not all(len(part) for _, part in parts.all):
                raise ValueError(f"{source} → {target}: a part has no rows; more groups are needed")
            found[source, target] = _cell(data, parts, settings, (source, target, method), world, seed)
    return with_ratios(list(found.values()))


def with_ratios(cells: Sequence[TransferCell]) -> tuple[TransferCell, ...]:
    """The cells with their ratio to the target's own."""
    own = {cell.target: cell.mrr for cell in cells if cell.source == cell.target}
    return tuple(replace(cell, ratio=ratio(cell.mrr, own[cell.target])) for cell in cells)


def _cell(
    data: RankingData, parts: Parts, settings: RankSettings, names: tuple[str, str, str], world: WorldName, seed: int
) -> TransferCell:
    source, target, method = names
    fold = Fold(data, parts, settings, donors=donors_for((method,), data, parts, seed))
    ranks = fold.ranks(method, parts.test, world)
    base, gated, kind = method.partition("+prior:")
    return TransferCell(
        source=source,
        target=target,
        method=method,
        world=world,
        rows=len(ranks),
        groups=len({data.rows[at].group_id for at in parts.test.tolist()}),
        coverage=float(np.isfinite(ranks).mean()),
        mrr=float(reciprocal(ranks).mean()),
        baseline=float(reciprocal(fold.ranks("reset", parts.test, world)).mean()),
        ratio=None,
        gate=fold.gate(base, kind, world).describe() if gated else {},
        gamma=settings.aggregation.gamma,
    )
