"""Do more *mined* anti-signals help (§5)? Their pools are larger than the ten that are generated.

As in ``mined``: five half splits by scenario, mined on one half and measured on the other. The signals stay as they are, of
the anti-signals only the nearest so many are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.data import EvaluationSet, Exemplars, Labels, Row
from sq_core.evaluation.protocols import held_out_figures
from sq_core.evaluation.recipes import RECIPES, default_recipe, recipe_exemplars, recipe_scores, rubric_of
from sq_core.evaluation.rows import SEEDS, coverage
from sq_core.evaluation.saturation import SIZES, diversity, hardness
from sq_core.evaluation.splits import Split, split_half

FIGURES = ("precision_at_r90", "precision", "recall", "auprc", "theta", "kept", "coverage")
METERS = ("mean_size", "additions_near", "additions_repeated", "diversity")


def nearest_only(exemplars: Exemplars, size: int) -> Exemplars:
    """The same signals with the first ``size`` anti-signals, which mining puts nearest first."""
    weights = exemplars.weights
    if weights is not None:
        weights = np.concatenate((weights[: len(exemplars.signals)], weights[len(exemplars.signals) :][:size]))
    return Exemplars(exemplars.signals, exemplars.anti_signals[:size], weights)


def saturation_mined(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    sizes: Sequence[int | None] = (*SIZES, None),
    seeds: Sequence[int] = SEEDS,
    minimum: int = 3,
) -> list[Row]:
    """One row per bound on the anti-signals (None = all that the recipe mines), under our default recipe for the labels.

    Figures are means over the splits, of artifacts with enough mined material; shares of additions are told by the user
    messages, against the nearest ``sizes[0]``. A bound that no pool reaches gives a row without figures that says so.
    """
    data = data.with_labels(labels)
    name = default_recipe(rubric_of(labels))
    splits = [split_half(data, seed) for seed in seeds]
    first = next(size for size in sizes if size is not None)
    made = [_exemplars(data, split, name, minimum) for split in splits]
    longest = max((len(each.anti_signals) for row in made for each in row if each is not None), default=0)
    rows = []
    for size in sizes:
        row: Row = {"method": "sq-mined", "recipe": name, "world": "fitted", "anti_signals": size or "all"}
        if not longest or (size is not None and longest < size):
            missing = "no artifact could be mined" if not longest else f"no artifact has {size} mined anti-signals"
            rows.append(row | dict.fromkeys(FIGURES) | {"skipped": missing})
            continue
        bound = longest if size is None else size
        each = [
            _split_row(data, split, name, own, bound, first, minimum) for split, own in zip(splits, made, strict=True)
        ]
        rows.append(
            row | {key: _mean(each, key) for key in (*FIGURES, *METERS)} | {"sd": _mean(each, FIGURES[0], np.std)}
        )
    return rows


def _exemplars(data: EvaluationSet, split: Split, name: str, minimum: int) -> list[Exemplars | None]:
    minable = split.minable(minimum)
    return [recipe_exemplars(data, split, RECIPES[name], j) if own else None for j, own in enumerate(minable)]


def _split_row(
    data: EvaluationSet, split: Split, name: str, made: Sequence[Exemplars | None], size: int, first: int, minimum: int
) -> Row:
    kept = [None if each is None else nearest_only(each, size) for each in made]
    scores = recipe_scores(data, RECIPES[name], kept)
    columns = split.minable(minimum)
    row = held_out_figures(data, split, scores[split.held_out], columns)
    messages = [_messages(split, name, j)[:size] for j, each in enumerate(kept) if each is not None]
    added = [hardness(each[first:], each[:first]) for each in messages if len(each) > first]
    counts = [each.count for each in added]
    varied = [diversity(each) for each in messages if len(each) > 1]
    return row | {
        "coverage": coverage(data, columns, split.held_out),
        "mean_size": float(np.mean([len(each) for each in messages])) if messages else None,
        "additions_near": float(np.average([each.near for each in added], weights=counts)) if added else None,
        "additions_repeated": float(np.average([each.repeated for each in added], weights=counts)) if added else None,
        "diversity": float(np.mean(varied)) if varied else None,
    }


def _messages(split: Split, name: str, artifact: int) -> NDArray[np.floating]:
    """The user messages of the anti-signals (n, d), unit rows, nearest first: what nearness is told by."""
    if RECIPES[name].material == "states":
        return np.array([each.user_turn_vector for each in split.states[artifact].anti_signals])
    return np.array([each.vector for each in split.wide[artifact].anti_signals])


def _mean(rows: Sequence[Row], key: str, of: Callable[[Sequence[float]], np.floating] = np.mean) -> float | None:
    """Over the splits; None where a split has figures but not this one, as a missed target must not be left out."""
    values = [row[key] for row in rows if row.get(key) is not None]
    missed = key in FIGURES and any("recall" in row and row.get(key) is None for row in rows)
    return None if missed or not values else float(of(values))
