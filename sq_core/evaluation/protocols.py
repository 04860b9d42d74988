"""The paper's tables on one inventory's judgements: ``operating_point`` (§4, Table 2) and ``mined`` (§5, Table 7).

Rows are the dicts that API.md's ``evaluate`` prints, shares as fractions 0..1. Margins are used as fitted: offsets,
pins, dependencies, modes and expiry are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sq_core.evaluation.baselines import TOP_K, cosine_signals, cosine_text, logistic, max_over_views
from sq_core.evaluation.calibration import scenario_draws
from sq_core.evaluation.data import (
    WORLDS,
    Bools,
    EvaluationError,
    EvaluationSet,
    Exemplars,
    Floats,
    Labels,
    LeakageError,
    Row,
    World,
)
from sq_core.evaluation.fence import assert_theta_apart
from sq_core.evaluation.metrics import Sweep, precision_at_recall, topk_curve
from sq_core.evaluation.metrics import operating_point as figures_at
from sq_core.evaluation.recipes import (
    RECIPES,
    Recipe,
    Rubric,
    cross_fitted,
    default_recipe,
    recipe_exemplars,
    recipe_scores,
    rubric_of,
)
from sq_core.evaluation.rows import DRAWS, SEEDS, TARGET, Measured, coverage, figures, sides, topk_row
from sq_core.evaluation.splits import Split, assert_no_leak, split_half

__all__ = [
    "DRAWS",
    "RECIPES",
    "SEEDS",
    "TARGET",
    "WORLDS",
    "EvaluationError",
    "EvaluationSet",
    "Exemplars",
    "Labels",
    "LeakageError",
    "Row",
    "Split",
    "World",
    "assert_no_leak",
    "larger_k",
    "mined",
    "operating_point",
    "split_half",
]


def operating_point(data: EvaluationSet, *, labels: Labels = "as-judged", draws: int = DRAWS) -> list[Row]:
    """Cosine, top-K and S&Q on generated exemplars, all states, every artifact (paper Table 2).

    S&Q uses the paper's unweighted recipe. ``interval`` is that of P@R90 over resampled scenarios, θ chosen again in
    each draw; top-K rows stand at K = 15, which may not reach the target (``larger_k`` says which K would).
    """
    data = data.with_labels(labels)
    scores = _generated_scores(data)
    weights = scenario_draws(data.scenario, draws)
    measure = [Measured(name, table, data.relevant, data.judged, weights) for name, table in scores.items()]
    rows = {each.method: each.row() for each in measure}
    for name in ("text", "signals"):
        curve = topk_curve(scores[f"cosine-{name}"], data.relevant, TOP_K, data.judged)
        rows[f"topk-{name}"] = topk_row(f"topk-{name}", curve)
    fitted = {"sq-generated", "cosine-signals", "topk-signals"}
    covered = coverage(data, np.array([each is not None for each in data.generated]))
    for method, row in rows.items():
        row["coverage"] = covered if method in fitted else 1.0
    return [rows[name] for name in ("cosine-text", "cosine-signals", "topk-text", "topk-signals", "sq-generated")]


def larger_k(data: EvaluationSet, *, labels: Labels = "as-judged") -> list[Row]:
    """The smallest K that reaches the target recall, per top-K method: printed apart from K = 1..15."""
    data = data.with_labels(labels)
    scores = _generated_scores(data)
    rows = []
    for name in ("text", "signals"):
        curve = topk_curve(scores[f"cosine-{name}"], data.relevant, range(1, len(data.artifacts) + 1), data.judged)
        found = precision_at_recall(curve, TARGET)
        if found is not None:
            rows.append({"method": f"topk-{name}", "world": "fitted", "k": int(found.theta), **figures(curve, found)})
    return rows


def _generated_scores(data: EvaluationSet) -> dict[str, Floats]:
    signals, anti_signals = sides(data.generated)
    return {
        "cosine-text": max_over_views(data.table, cosine_text(data.text_vectors)),
        "cosine-signals": max_over_views(data.table, cosine_signals(signals)),
        "sq-generated": max_over_views(data.table, logistic(signals, anti_signals)),
    }


# ---------------------------------------------------------------------------------------------------------- mined (§5)
def mined(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    seeds: Sequence[int] = SEEDS,
    minimum: int = 3,
    rubric: Rubric | None = None,
    cut_offs: bool = False,
    methods: Sequence[str] = tuple(RECIPES),
) -> list[Row]:
    """Generated against mined exemplars on held-out scenarios (paper §5), each method in the three worlds.

    ``fitted``: only artifacts with enough mined material (the paper's); ``with-generated-fallback``: all occurring, the
    others keep their generated classifier (the product's); ``unfitted-is-miss``: all occurring, the others never fire.
    ``sq-mined`` repeats the row of our default for the ``rubric`` (by default the one the labels stand for) and names
    it as ``recipe``. Figures are means over the splits, ``sd`` that of P@R90 over them; a world no split could fill
    gives None. With ``cut_offs`` the fitted world also has ``mining_theta``, chosen on the mining half by cross-fitting
    for the target recall, and what it realised on the held-out half: ``mining_recall``, ``mining_precision``,
    ``mining_kept``.
    """
    data = data.with_labels(labels)
    splits = [split_half(data, seed) for seed in seeds]
    collected: dict[tuple[str, World], list[Row]] = {(m, w): [] for m in methods for w in WORLDS}
    for split in splits:
        for method in methods:
            for world, row in _split_rows(data, split, RECIPES[method], minimum, cut_offs).items():
                collected[method, world].append(row)
    rows = [_mean_row(method, world, found) for (method, world), found in collected.items()]
    ours = default_recipe(rubric or rubric_of(labels))
    return rows + [{**row, "method": "sq-mined", "recipe": ours} for row in rows if row["method"] == ours]


def _split_rows(data: EvaluationSet, split: Split, recipe: Recipe, minimum: int, cut_offs: bool) -> dict[World, Row]:
    minable = split.minable(minimum)
    own = minable if recipe.needs_mining else np.ones(len(minable), dtype=bool)
    exemplars = [recipe_exemplars(data, split, recipe, j) if own[j] else None for j in range(len(own))]
    fallback = [generated if each is None else each for each, generated in zip(exemplars, data.generated, strict=True)]
    fitted = np.array([each is not None for each in exemplars])
    scores = recipe_scores(data, recipe, exemplars)
    filled = recipe_scores(data, recipe, fallback)[split.held_out] if not fitted.all() else scores[split.held_out]
    covered = coverage(data, fitted, split.held_out)
    in_fitted = held_out_figures(data, split, scores[split.held_out], minable)
    if cut_offs and in_fitted:
        in_fitted |= _at_mining_cut_off(data, split, recipe, scores, minable)
    return {
        "fitted": {**in_fitted, "coverage": coverage(data, minable, split.held_out)},
        "with-generated-fallback": {**held_out_figures(data, split, filled), "coverage": covered},
        "unfitted-is-miss": {**held_out_figures(data, split, scores[split.held_out]), "coverage": covered},
    }


def held_out_figures(data: EvaluationSet, split: Split, scores: Floats, columns: Bools | None = None) -> Row:
    """Figures of ``scores`` (H, N) at the split's held-out states; with ``columns`` of these artifacts, as far as they occur."""
    chosen = np.ones(scores.shape[1], dtype=bool) if columns is None else columns
    relevant, judged = (table[split.held_out][:, chosen] for table in (data.relevant, data.judged))
    if not relevant.any():
        return {}
    # The fitted world holds the artifacts that were mined and occur: kept is a share of their pairs.
    occurring = relevant.any(axis=0) if columns is not None else np.ones(relevant.shape[1], dtype=bool)
    curve = Sweep(scores[:, chosen][:, occurring], relevant[:, occurring], judged[:, occurring]).curve()
    return figures(curve, precision_at_recall(curve, TARGET))


def _at_mining_cut_off(data: EvaluationSet, split: Split, recipe: Recipe, scores: Floats, columns: Bools) -> Row:
    """θ for the target recall on cross-fitted scores of the mining half, and its figures on the held-out half."""
    own, inside = cross_fitted(data, split.mining_scenarios, recipe, columns)
    names = np.array(data.scenario, dtype=object)
    assert_theta_apart(names[inside], names[split.held_out])
    mining = own[inside][:, columns]
    relevant, judged = data.relevant[inside][:, columns], data.judged[inside][:, columns]
    # An artifact that some fold could not fit says nothing about θ.
    usable = np.isfinite(mining).all(axis=0) & relevant.any(axis=0)
    found = precision_at_recall(Sweep(mining[:, usable], relevant[:, usable], judged[:, usable]).curve(), TARGET)
    if found is None:
        return {}
    out = split.held_out
    at = figures_at(scores[out][:, columns], data.relevant[out][:, columns], found.theta, data.judged[out][:, columns])
    return {
        "mining_theta": found.theta,
        "mining_recall": at.recall,
        "mining_precision": at.precision,
        "mining_kept": at.kept,
    }


def _mean_row(method: str, world: World, rows: Sequence[Row]) -> Row:
    def mean(name: str, of: Callable[[Sequence[float]], float] = lambda values: float(np.mean(values))) -> float | None:
        values = [row[name] for row in rows if row.get(name) is not None]
        return of(values) if values else None

    names = ["precision_at_r90", "precision", "recall", "auprc", "theta", "kept", "coverage"]
    names += sorted({name for row in rows for name in row if name.startswith("mining_")})
    spread = mean("precision_at_r90", lambda values: float(np.std(values)))
    # A split that misses the target has no P@R90; the mean of the others would flatter the method.
    missed = any(row and row.get("precision_at_r90") is None for row in rows if "recall" in row)
    row: Row = {"method": method, "world": world, **{name: mean(name) for name in names}, "sd": spread}
    return {**row, "precision_at_r90": None, "sd": None} if missed else row
