"""Named ways from mined material to one (w, b) per artifact and one margin per state (docs/adr/0010).

A recipe says which exemplars, which class weights and which pooling; the paper's stands beside ours. Everything a
recipe reads comes from the mining half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import Scorer, cosine_signals, linear, pooled_views
from sq_core.evaluation.data import Bools, EvaluationError, EvaluationSet, Exemplars, Floats, Labels
from sq_core.evaluation.rows import sides
from sq_core.evaluation.splits import Split, mine_from, scenario_folds
from sq_core.fitting import ClassWeight, fit_classifier
from sq_core.mining_states import STATES_C
from sq_core.scoring import PRESETS, Pooling

Side = Literal["generated", "mined", "both"]
Rubric = Literal["current-need", "sticky"]
Material = Literal["transition", "transition-with-conflicts", "transition-wide", "states"]
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which side comes from where, what is mined, the class weights, and how a state's views are pooled."""

    signals: Side
    anti_signals: Side
    material: Material = "transition-with-conflicts"
    class_weight: ClassWeight = None
    pooling: Pooling = field(default_factory=Pooling)
    C: float = 1.0
    cosine: bool = False

    @property
    def needs_mining(self) -> bool:
        return not self.signals == self.anti_signals == "generated"


# `DEFAULTS` says which of ours serves when; sq-mined-balanced is the paper's material with our weights.
RECIPES: Mapping[str, Recipe] = {
    "sq-generated": Recipe("generated", "generated"),
    "sq-mined-paper": Recipe("mined", "mined"),
    "sq-mined-balanced": Recipe("mined", "mined", "transition", "balanced"),
    "sq-mined-transition": Recipe("mined", "mined", "transition-wide", "balanced"),
    "sq-mined-states": Recipe("mined", "mined", "states", "balanced", PRESETS["mean-latest"], STATES_C),
    "sq-mined-positives-only": Recipe("mined", "generated"),
    "sq-mined-negatives-only": Recipe("generated", "mined"),
    "sq-mixed": Recipe("both", "both"),
    "cosine-signals": Recipe("generated", "generated", cosine=True),
    "cosine-signals-mined": Recipe("mined", "mined", cosine=True),
}
DEFAULTS: Mapping[Rubric, str] = {"current-need": "sq-mined-states", "sticky": "sq-mined-transition"}


def default_recipe(rubric: Rubric) -> str:
    """The name of the recipe that stands for ``sq-mined`` under this rubric."""
    if rubric not in DEFAULTS:
        raise EvaluationError(f"rubric is {rubric!r}; expected current-need or sticky")
    return DEFAULTS[rubric]


def rubric_of(labels: Labels) -> Rubric:
    """The running maximum of scores is what a sticky judge would have said."""
    return "sticky" if labels == "running-max" else "current-need"


def recipe_exemplars(data: EvaluationSet, split: Split, recipe: Recipe, artifact: int) -> Exemplars | None:
    """One artifact's exemplars under a recipe; None when a side has no material."""
    generated = data.generated[artifact]
    mined = _mined_rows(split, recipe, artifact)
    rows: list[NDArray[np.floating]] = []
    weights: list[Floats] = []
    for source, (own, counts), made in (
        (recipe.signals, mined[0], generated.signals if generated else None),
        (recipe.anti_signals, mined[1], generated.anti_signals if generated else None),
    ):
        parts: list[NDArray[np.floating]] = []
        share: list[Floats] = []
        if source != "mined" and made is not None and len(made):
            parts.append(made)
            share.append(np.ones(len(made)))
        if source != "generated" and len(own):
            parts.append(own)
            share.append(counts)
        if not parts and not (recipe.cosine and rows):  # a cosine has no use for anti-signals
            return None
        rows.append(np.concatenate(parts) if parts else rows[0][:0])
        weights.append(np.concatenate(share) if share else np.empty(0))
    return Exemplars(rows[0], rows[1], np.concatenate(weights))


def _mined_rows(split: Split, recipe: Recipe, artifact: int) -> list[tuple[Floats, Floats]]:
    """Vectors and weights of the mined signals, and of the mined anti-signals."""
    if recipe.material == "states":
        mined = split.states[artifact]
        return [
            (np.array([each.vector for each in side]), np.array([each.weight for each in side]))
            for side in (mined.signals, mined.anti_signals)
        ]
    by_material = {"transition": split.ours, "transition-wide": split.wide, "transition-with-conflicts": split.paper}
    found = by_material[recipe.material][artifact]
    return [
        (np.array([each.vector for each in side], dtype=np.float64), np.ones(len(side)))
        for side in (found.signals, found.anti_signals)
    ]


def recipe_scores(data: EvaluationSet, recipe: Recipe, exemplars: Sequence[Exemplars | None]) -> Floats:
    """Pooled scores (S, N) of every state; −inf in the columns of artifacts without exemplars."""
    return pooled_views(data.table, recipe_scorer(recipe, exemplars), recipe.pooling)


def recipe_scorer(recipe: Recipe, exemplars: Sequence[Exemplars | None]) -> Scorer:
    """Vectors → scores of all artifacts as the recipe fits them; one without both sides never fires."""
    signals, anti_signals = sides(exemplars)
    if recipe.cosine:
        return cosine_signals(signals)
    weights: list[Floats | None] = []
    biases = []
    for each, own, near in zip(exemplars, signals, anti_signals, strict=True):
        if each is None or own is None or near is None:
            weights.append(None)
            biases.append(0.0)
            continue
        fit = fit_classifier(own, near, recipe.C, recipe.class_weight, exemplar_weights=each.weights)
        weights.append(fit.weights)
        biases.append(fit.bias)
    return linear(weights, biases)


def fitted_scores(data: EvaluationSet, split: Split, recipe: Recipe, columns: Bools) -> Floats:
    """Scores (S, N) after fitting the chosen artifacts on the split's material; the other columns are −inf."""
    chosen = [recipe_exemplars(data, split, recipe, j) if columns[j] else None for j in range(len(columns))]
    return recipe_scores(data, recipe, chosen)


def cross_fitted(
    data: EvaluationSet, scenarios: frozenset[str], recipe: Recipe, columns: Bools, *, folds: int = FOLDS, seed: int = 0
) -> tuple[Floats, Bools]:
    """Scores of these scenarios' states, each by classifiers that saw none of its scenario, and which states they are.

    θ and choices between recipes rest on these scores; states outside ``scenarios`` are left at −inf.
    """
    scores = np.full(data.scores.shape, -np.inf)
    inside = np.array([name in scenarios for name in data.scenario], dtype=bool)
    for part in scenario_folds(sorted(scenarios), folds, seed):
        rows = np.array([name in part for name in data.scenario], dtype=bool)
        scores[rows] = fitted_scores(data, mine_from(data, scenarios - part), recipe, columns)[rows]
    return scores, inside
