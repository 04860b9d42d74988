"""The paper's tables on one inventory's judgements: ``operating_point`` (§4, Table 2) and ``mined`` (§5, Table 7).

Rows are the dicts that API.md's ``evaluate`` prints, shares as fractions 0..1. Margins are used as fitted: offsets,
pins, dependencies, modes and expiry are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import (
    TOP_K,
    cosine_signals,
    cosine_text,
    logistic,
    max_over_views,
    own_turns,
)
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
from sq_core.evaluation.metrics import Sweep, precision_at_recall, topk_curve
from sq_core.evaluation.rows import DRAWS, SEEDS, TARGET, Measured, coverage, figures, sides, topk_row
from sq_core.fitting import ClassWeight
from sq_core.mining import JudgedConversation, Mined, mine

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
@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """One half split: the mining scenarios and, per artifact, what was mined from them by both recipes.

    paper: conflicts left in, as the reference run; ours: conflicts removed. held_out (S,): the states measured on.
    """

    seed: int
    mining_scenarios: frozenset[str]
    held_out: Bools
    paper: tuple[Mined, ...]
    ours: tuple[Mined, ...]

    def minable(self, minimum: int) -> Bools:
        """Artifacts with at least ``minimum`` mined signals and an anti-signal under both recipes (N,)."""
        pairs = zip(self.paper, self.ours, strict=True)
        return np.array([a.enough(minimum, 1) and b.enough(minimum, 1) for a, b in pairs], dtype=bool)


def split_half(data: EvaluationSet, seed: int) -> Split:
    """Mine every artifact from half of the scenarios; the other half's states are held out."""
    names = sorted(set(data.scenario))
    shuffled = np.random.default_rng(seed).permutation(names).tolist()
    mining = frozenset(shuffled[: len(names) // 2])
    held_out = np.array([name not in mining for name in data.scenario], dtype=bool)
    read = [span for span in data.conversations() if not held_out[span[0]]]
    rows = own_turns(data.table)
    columns = [[judged_conversation(data, span, rows, j) for span in read] for j in range(len(data.artifacts))]
    split = Split(
        seed=seed,
        mining_scenarios=mining,
        held_out=held_out,
        paper=tuple(mine(column, remove_conflicts=False) for column in columns),
        ours=tuple(mine(column) for column in columns),
    )
    assert_no_leak(data, split)
    return split


def assert_no_leak(data: EvaluationSet, split: Split) -> None:
    """Raises LeakageError when an exemplar's scenario is among the held-out states."""
    measured = {name for name, out in zip(data.scenario, split.held_out, strict=True) if out}
    for key, *recipes in zip(data.artifacts, split.paper, split.ours, strict=True):
        for mined in recipes:
            leaked = sorted({e.scenario for e in (*mined.signals, *mined.anti_signals)} & measured)
            if leaked:
                raise LeakageError(f"{key}: exemplars of scenario {leaked[0]} would be measured on it")


def judged_conversation(
    data: EvaluationSet, span: tuple[int, int], rows: NDArray[np.intp], artifact: int
) -> JudgedConversation:
    """One conversation as one artifact sees it; ``rows`` are the states' own turns."""
    start, end = span
    own = rows[start:end]
    return JudgedConversation(
        id=str(data.table.state_conversation[start]),
        scenario=data.scenario[start],
        texts=tuple(data.turn_texts[row] for row in own),
        vectors=data.table.turns[own],
        scores=tuple(int(score) if score > 0 else None for score in data.scores[start:end, artifact]),
    )


@dataclass(frozen=True, slots=True)
class _Recipe:
    """A mined method: which side comes from where, which mining, which weights."""

    signals: Literal["generated", "mined", "both"]
    anti_signals: Literal["generated", "mined", "both"]
    conflicts_removed: bool
    class_weight: ClassWeight
    cosine: bool = False


RECIPES: Mapping[str, _Recipe] = {
    "sq-generated": _Recipe("generated", "generated", False, None),
    "sq-mined-paper": _Recipe("mined", "mined", False, None),
    "sq-mined": _Recipe("mined", "mined", True, "balanced"),
    "sq-mined-positives-only": _Recipe("mined", "generated", False, None),
    "sq-mined-negatives-only": _Recipe("generated", "mined", False, None),
    "sq-mixed": _Recipe("both", "both", False, None),
    "cosine-signals": _Recipe("generated", "generated", False, None, cosine=True),
    "cosine-signals-mined": _Recipe("mined", "mined", False, None, cosine=True),
}


def mined(
    data: EvaluationSet, *, labels: Labels = "as-judged", seeds: Sequence[int] = SEEDS, minimum: int = 3
) -> list[Row]:
    """Generated against mined exemplars on held-out scenarios (paper §5), each method in the three worlds.

    ``fitted``: only artifacts with enough mined material (the paper's); ``with-generated-fallback``: all occurring, the
    others keep their generated classifier (the product's); ``unfitted-is-miss``: all occurring, the others never fire.
    Figures are means over the splits, ``sd`` that of P@R90 over them; a world no split could fill gives None.
    """
    data = data.with_labels(labels)
    splits = [split_half(data, seed) for seed in seeds]
    collected: dict[tuple[str, World], list[Row]] = {(m, w): [] for m in RECIPES for w in WORLDS}
    for split in splits:
        for method, recipe in RECIPES.items():
            for world, row in _split_rows(data, split, recipe, minimum).items():
                collected[method, world].append(row)
    return [_mean_row(method, world, rows) for (method, world), rows in collected.items()]


def _split_rows(data: EvaluationSet, split: Split, recipe: _Recipe, minimum: int) -> dict[World, Row]:
    minable = split.minable(minimum)
    own = np.ones(len(minable), dtype=bool) if _needs_no_mining(recipe) else minable
    exemplars = [_exemplars(data, split, recipe, j) if own[j] else None for j in range(len(own))]
    fallback = [generated if each is None else each for each, generated in zip(exemplars, data.generated, strict=True)]
    fitted = np.array([each is not None for each in exemplars])
    scores = _scored(data, recipe, exemplars)[split.held_out]
    filled = _scored(data, recipe, fallback)[split.held_out]
    covered = coverage(data, fitted, split.held_out)
    return {
        "fitted": {**_held_out(data, split, scores, minable), "coverage": covered_by(data, split, minable)},
        "with-generated-fallback": {**_held_out(data, split, filled), "coverage": covered},
        "unfitted-is-miss": {**_held_out(data, split, scores), "coverage": covered},
    }


def _needs_no_mining(recipe: _Recipe) -> bool:
    return recipe.signals == recipe.anti_signals == "generated"


def covered_by(data: EvaluationSet, split: Split, minable: Bools) -> float:
    """Share of the artifacts occurring in the held-out states that the fitted world contains."""
    return coverage(data, minable, split.held_out)


def _held_out(data: EvaluationSet, split: Split, scores: Floats, columns: Bools | None = None) -> Row:
    chosen = np.ones(scores.shape[1], dtype=bool) if columns is None else columns
    relevant, judged = (table[split.held_out][:, chosen] for table in (data.relevant, data.judged))
    if not relevant.any():
        return {}
    # The fitted world holds the artifacts that were mined and occur: kept is a share of their pairs.
    occurring = relevant.any(axis=0) if columns is not None else np.ones(relevant.shape[1], dtype=bool)
    curve = Sweep(scores[:, chosen][:, occurring], relevant[:, occurring], judged[:, occurring]).curve()
    return figures(curve, precision_at_recall(curve, TARGET))


def _exemplars(data: EvaluationSet, split: Split, recipe: _Recipe, artifact: int) -> Exemplars | None:
    generated = data.generated[artifact]
    found = (split.ours if recipe.conflicts_removed else split.paper)[artifact]
    sides = []
    for source, own, made in (
        (recipe.signals, found.signals, generated.signals if generated else None),
        (recipe.anti_signals, found.anti_signals, generated.anti_signals if generated else None),
    ):
        parts = [] if source == "mined" or made is None else [made]
        if source != "generated":
            parts += [np.stack([each.vector for each in own])] if own else []
        if not parts:
            return None
        sides.append(np.concatenate(parts))
    return Exemplars(*sides)


def _scored(data: EvaluationSet, recipe: _Recipe, exemplars: Sequence[Exemplars | None]) -> Floats:
    signals, anti_signals = sides(exemplars)
    if recipe.cosine:
        return max_over_views(data.table, cosine_signals(signals))
    return max_over_views(data.table, logistic(signals, anti_signals, class_weight=recipe.class_weight))


def _mean_row(method: str, world: World, rows: Sequence[Row]) -> Row:
    def mean(name: str, of: Callable[[Sequence[float]], float] = lambda values: float(np.mean(values))) -> float | None:
        values = [row[name] for row in rows if row.get(name) is not None]
        return of(values) if values else None

    names = ("precision_at_r90", "precision", "recall", "auprc", "theta", "kept", "coverage")
    spread = mean("precision_at_r90", lambda values: float(np.std(values)))
    # A split that misses the target has no P@R90; the mean of the others would flatter the method.
    missed = any(row and row.get("precision_at_r90") is None for row in rows if "recall" in row)
    row: Row = {"method": method, "world": world, **{name: mean(name) for name in names}, "sd": spread}
    return {**row, "precision_at_r90": None, "sd": None} if missed else row
