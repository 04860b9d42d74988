"""Do more anti-signals help (§5)? Sizes of the pool, how near its additions lie, and how diverse it is.

The two meters also serve the console: ``hardness`` says how near new texts are to what is there, ``diversity`` how
unlike each other the texts of a pool are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import logistic, max_over_views
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, precision_at_recall
from sq_core.evaluation.rows import TARGET, coverage, figures

SIZES = (10, 20, 30)
# Cosines from which an addition is near one that is there already, and from which it only repeats it.
NEAR, REPEATED = 0.60, 0.95

Vectors = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Hardness:
    """Of new texts beside existing ones: mean nearest cosine, and the shares at ``NEAR`` and at ``REPEATED``."""

    mean_nearest: float
    near: float
    repeated: float
    count: int


def nearest_cosines(new: Vectors, existing: Vectors) -> NDArray[np.float64]:
    """Highest cosine of every new unit vector (n, d) to an existing one (m, d); −1 where there is none."""
    if len(new) == 0 or len(existing) == 0:
        return np.full(len(new), -1.0)
    nearest: NDArray[np.float64] = (np.asarray(new, dtype=np.float64) @ np.asarray(existing, dtype=np.float64).T).max(
        axis=1
    )
    return nearest


def hardness(new: Vectors, existing: Vectors) -> Hardness:
    """How near ``new`` lies to ``existing``; NaN figures without new texts."""
    nearest = nearest_cosines(new, existing)
    if nearest.size == 0:
        return Hardness(float("nan"), float("nan"), float("nan"), 0)
    return Hardness(
        float(nearest.mean()),
        float(np.mean(nearest >= NEAR - 1e-6)),
        float(np.mean(nearest >= REPEATED - 1e-6)),
        int(nearest.size),
    )


def diversity(vectors: Vectors) -> float:
    """1 − mean cosine over pairs of unit vectors (n, d): 0 when all are the same; NaN for fewer than two."""
    n = len(vectors)
    if n < 2:
        return float("nan")
    total = np.asarray(vectors, dtype=np.float64).sum(axis=0)
    return float(1 - (total @ total - n) / (n * (n - 1)))


def saturation(
    data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING, sizes: Sequence[int] = SIZES
) -> list[Row]:
    """One row per size of the anti-signal pool: figures, ``near`` and ``repeated`` shares of its additions, diversity.

    Pools come from ``extras.anti_signal_pools``, else from the generated anti-signals. A size that no pool reaches
    gives a row without figures that says so; an artifact with fewer uses all it has, and ``mean_size`` shows it.
    """
    data = data.with_labels(labels)
    pools = extras.anti_signal_pools or tuple(None if e is None else e.anti_signals for e in data.generated)
    if len(pools) != len(data.artifacts):
        raise EvaluationError(f"{len(pools)} anti-signal pools for {len(data.artifacts)} artifacts; expected one each")
    longest = max((len(pool) for pool in pools if pool is not None), default=0)
    return [_row(data, pools, size, sizes[0], reached=longest >= size) for size in sizes]


def _row(data: EvaluationSet, pools: Sequence[Vectors | None], size: int, first: int, *, reached: bool) -> Row:
    row: Row = {"method": "sq-generated", "world": "fitted", "anti_signals": size}
    if not reached:
        names = ("precision_at_r90", "precision", "recall", "auprc", "theta", "kept", "coverage")
        return row | dict.fromkeys(names) | {"skipped": f"no artifact has {size} anti-signals"}
    anti = [None if pool is None or not len(pool) else pool[:size] for pool in pools]
    signals = [None if each is None or not len(each.signals) else each.signals for each in data.generated]
    scores = max_over_views(data.table, logistic(signals, anti))
    curve = Sweep(scores, data.relevant, data.judged).curve()
    used = [each for each in anti if each is not None]
    added = [hardness(each[first:], each[:first]) for each in used if len(each) > first]
    fitted = np.array([a is not None and s is not None for a, s in zip(anti, signals, strict=True)], dtype=bool)
    varied = [diversity(each) for each in used if len(each) > 1]
    return row | figures(curve, precision_at_recall(curve, TARGET)) | {
        "coverage": coverage(data, fitted),
        "mean_size": float(np.mean([len(each) for each in used])),
        "additions_near": float(np.average([h.near for h in added], weights=[h.count for h in added])) if added else None,
        "additions_repeated": float(np.average([h.repeated for h in added], weights=[h.count for h in added])) if added else None,
        "diversity": float(np.mean(varied)) if varied else None,
    }  # fmt: skip
