"""One artifact at a time, under many resamples at once: area under its curve, caught and needed, generated against mined.

``weights`` (D, S) count a state that often in a draw (``scenario_draws``); the same weights for two methods make their
difference a paired one, clustered by scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.evaluation.data import Bools, EvaluationSet, Floats, Labels
from sq_core.evaluation.metrics import Sweep, auprc, precision_at_recall
from sq_core.evaluation.recipes import RECIPES, Recipe, default_recipe, recipe_exemplars, recipe_scores, rubric_of
from sq_core.evaluation.rows import SEEDS, TARGET
from sq_core.evaluation.splits import Split, split_half

# Numbers held at once: draws are taken in parts when a log is long.
_CHUNK = 1 << 22
ENOUGH_DRAWS = 20


def artifact_area(scores: ArrayLike, relevant: ArrayLike, judged: ArrayLike, weights: ArrayLike) -> Floats:
    """AUPRC (D,) of one artifact under each row of ``weights``; NaN where a draw holds no relevant state.

    scores (S,) finite or −inf (never fires), relevant and judged (S,). The same figure as ``auprc`` of a ``Sweep`` over
    this artifact alone: every distinct score is a θ, precision is 0 before anything fires, no extrapolation.
    """
    own, needed, known = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=bool), np.asarray(judged)
    counted = known.astype(bool)
    each = np.asarray(weights, dtype=np.float64)[:, counted]
    own, needed = own[counted], needed[counted]
    order = np.argsort(-own, kind="stable")
    order = order[: int(np.isfinite(own).sum())]
    ranked = own[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if ranked.size else np.array([], dtype=np.intp)
    result = np.full(len(each), np.nan)
    step = max(1, _CHUNK // max(1, len(own)))
    for start in range(0, len(each), step):
        part = each[start : start + step]
        total = part[:, needed].sum(axis=1)
        fired = np.cumsum(part[:, order], axis=1)[:, ends]
        hits = np.cumsum(part[:, order] * needed[order], axis=1)[:, ends]
        zero = np.zeros((len(part), 1))
        precision = np.concatenate((zero, np.divide(hits, fired, out=np.zeros_like(hits), where=fired > 0)), axis=1)
        recall = np.concatenate((zero, hits / np.where(total > 0, total, 1.0)[:, None]), axis=1)
        area = np.trapezoid(precision, recall, axis=1)
        result[start : start + step] = np.where(total > 0, area, np.nan)
    return result


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure on all states and the middle 95 % of its draws; ``low`` is None where too few draws gave one."""

    estimate: float
    low: float | None
    high: float | None


def spread(estimate: float, draws: ArrayLike) -> Spread | None:
    """None where the figure itself is missing (NaN)."""
    if not np.isfinite(estimate):
        return None
    known = np.asarray(draws, dtype=np.float64)
    known = known[np.isfinite(known)]
    if len(known) < ENOUGH_DRAWS:
        return Spread(float(estimate), None, None)
    low, high = np.quantile(known, [0.025, 0.975])
    return Spread(float(estimate), float(low), float(high))


def cluster_counts(values: ArrayLike, group: NDArray[np.intp], clusters: int) -> Floats:
    """(C, N) sums of a (S, N) table per cluster."""
    table = np.asarray(values, dtype=np.float64)
    sums = np.zeros((clusters, table.shape[1]))
    np.add.at(sums, group, table)
    return sums


def ratio(hits: Floats, of: Floats) -> Floats:
    """hits / of, NaN where there is nothing to divide by."""
    share: Floats = np.divide(hits, of, out=np.full(np.shape(hits), np.nan), where=of > 0)
    return share


# ------------------------------------------------------------------------------------------------- generated against mined
@dataclass(frozen=True, slots=True)
class Upgrade:
    """AUPRC of one artifact on held-out scenarios, mean over the ``splits`` that could fit and measure it."""

    generated: float
    mined: float
    splits: int


@dataclass(frozen=True, slots=True)
class Family:
    """One way to use exemplars: macro P@R90 (None where a split misses the recall) and AUPRC, means over the splits."""

    p90: tuple[float | None, float | None]  # on generated, on mined exemplars
    area: tuple[float | None, float | None]
    artifacts: Mapping[str, Upgrade]


FAMILIES: Mapping[str, tuple[str, str]] = {"cosine": ("cosine-signals", "cosine-signals-mined")}


def upgrades(
    data: EvaluationSet, *, labels: Labels = "as-judged", seeds: Sequence[int] = SEEDS, minimum: int = 3
) -> dict[str, Family]:
    """What better exemplars bring (paper Figure 7): per family ``sq`` and ``cosine``, macro and artifact by artifact.

    Every split mines one half of the scenarios and measures on the other; an artifact counts where that half gave it at
    least ``minimum`` mined signals and it is needed in the other half. Mined S&Q is our default for these labels.
    """
    data = data.with_labels(labels)
    names = {"sq": ("sq-generated", default_recipe(rubric_of(labels))), **FAMILIES}
    found: dict[str, list[tuple[_HeldOut, _HeldOut]]] = {family: [] for family in names}
    for seed in seeds:
        split = split_half(data, seed)
        columns = split.minable(minimum) & data.relevant[split.held_out].any(axis=0)
        columns &= np.array([each is not None for each in data.generated], dtype=bool)
        if columns.any():
            for family, (before, after) in names.items():
                found[family].append(
                    (_held_out(data, split, RECIPES[before], columns), _held_out(data, split, RECIPES[after], columns))
                )
    return {family: _family(data, rows) for family, rows in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _HeldOut:
    areas: Floats  # (N,) NaN where not measured
    p90: float | None
    area: float


def _held_out(data: EvaluationSet, split: Split, recipe: Recipe, columns: Bools) -> _HeldOut:
    chosen = [recipe_exemplars(data, split, recipe, j) if columns[j] else None for j in range(len(columns))]
    out = split.held_out
    scores, relevant, judged = recipe_scores(data, recipe, chosen)[out], data.relevant[out], data.judged[out]
    one = np.ones((1, len(scores)))
    areas = np.full(len(columns), np.nan)
    for j in np.flatnonzero(columns):
        if chosen[j] is not None:
            areas[j] = artifact_area(scores[:, j], relevant[:, j], judged[:, j], one)[0]
    curve = Sweep(scores[:, columns], relevant[:, columns], judged[:, columns]).curve()
    at = precision_at_recall(curve, TARGET)
    return _HeldOut(areas, None if at is None else at.precision, auprc(curve))


def _family(data: EvaluationSet, rows: Sequence[tuple[_HeldOut, _HeldOut]]) -> Family:
    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known and len(known) == len(values) else None

    pairs: dict[str, list[tuple[float, float]]] = {}
    for before, after in rows:
        for j in np.flatnonzero(np.isfinite(before.areas) & np.isfinite(after.areas)):
            pairs.setdefault(data.artifacts[j], []).append((float(before.areas[j]), float(after.areas[j])))
    artifacts = {
        key: Upgrade(float(np.mean([a for a, _ in own])), float(np.mean([b for _, b in own])), len(own))
        for key, own in pairs.items()
    }
    return Family(
        p90=(mean([a.p90 for a, _ in rows]), mean([b.p90 for _, b in rows])),
        area=(mean([a.area for a, _ in rows]), mean([b.area for _, b in rows])),
        artifacts=artifacts,
    )
