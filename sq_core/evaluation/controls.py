"""Controls that a figure must pass before it is believed: known hits, and judgements shuffled among scenarios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import Scorer
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, auprc, precision_at_recall
from sq_core.evaluation.rows import TARGET, coverage, figures
from sq_core.evaluation.scorers import generated_scorers, generated_scores

DRAWS = 50


def controls(
    data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING, draws: int = DRAWS, seed: int = 0
) -> list[Row]:
    """Per method the figures as they are, with the permutation mean beside them, and the known hits.

    ``shuffled_*``: means over ``draws`` permutations of the judgements among scenarios within every artifact;
    ``above_chance`` is the share of permutations that the real AUPRC exceeds. ``known_hits``: share of the artifact's
    own signals that beat its own anti-signals. A constant result is refused (``EvaluationError``).
    """
    del extras
    data = data.with_labels(labels)
    known = {name: known_hits(data, scorer) for name, scorer in generated_scorers(data).items()}
    fitted = np.array([each is not None for each in data.generated], dtype=bool)
    rows = []
    for name, scores in generated_scores(data).items():
        refuse_constant(scores, name)
        covered = 1.0 if name == "cosine-text" else coverage(data, fitted)
        row: Row = {"method": name, "world": "fitted", "coverage": covered, "known_hits": known[name]}
        curve = Sweep(scores, data.relevant, data.judged).curve()
        row |= figures(curve, precision_at_recall(curve, TARGET))
        rows.append(row | _shuffled(data, scores, row["auprc"], draws, seed))
    return rows


def refuse_constant(scores: Floats, name: str) -> None:
    """Raises EvaluationError when a method says the same about every state and artifact it can score."""
    known = scores[np.isfinite(scores)]
    if known.size == 0 or float(np.ptp(known)) == 0.0:
        raise EvaluationError(f"{name} gives one score to everything; a constant result measures nothing")


def known_hits(data: EvaluationSet, scorer: Scorer) -> float | None:
    """Share of (signal, anti-signal) pairs of one artifact that the method puts in the right order; None without."""
    shares = []
    for j, own in enumerate(data.generated):
        if own is None or not len(own.signals) or not len(own.anti_signals):
            continue
        up, down = scorer(own.signals)[:, j], scorer(own.anti_signals)[:, j]
        shares.append(float(np.mean(up[:, None] > down[None, :])))
    return float(np.mean(shares)) if shares else None


def _shuffled(data: EvaluationSet, scores: Floats, real: float, draws: int, seed: int) -> Row:
    rng = np.random.default_rng(seed)
    precisions, areas = [], []
    for _ in range(draws):
        shuffled = shuffle_judgements(data, rng)
        curve = Sweep(scores, shuffled.relevant, shuffled.judged).curve()
        found = precision_at_recall(curve, TARGET)
        areas.append(auprc(curve))
        precisions += [] if found is None else [found.precision]
    return {
        "shuffled_precision_at_r90": float(np.mean(precisions)) if precisions else None,
        "shuffled_auprc": float(np.mean(areas)),
        "above_chance": float(np.mean(real > np.array(areas))),
    }


def shuffle_judgements(data: EvaluationSet, rng: np.random.Generator) -> EvaluationSet:
    """Per artifact, scenarios swap their columns of judgements: the states in a new order of scenarios, cut anew.

    What is kept: every artifact's number of relevant states, and that neighbouring states are judged alike.
    """
    blocks = _blocks(data)
    scores = np.empty_like(data.scores)
    order = np.concatenate(blocks)
    for j in range(scores.shape[1]):
        given = np.concatenate([blocks[i] for i in rng.permutation(len(blocks))])
        scores[order, j] = data.scores[given, j]
    return replace(data, scores=scores)


def _blocks(data: EvaluationSet) -> list[NDArray[np.intp]]:
    names = np.array(data.scenario, dtype=object)
    return [np.flatnonzero(names == name) for name in dict.fromkeys(data.scenario)]


def permutation_mean(figure: Callable[[NDArray[np.bool_]], float], labels: NDArray[np.bool_]) -> float:
    """Mean of a figure over every distinct order of the labels (n,): the exact negative control of a small case."""
    from itertools import combinations

    n, positives = len(labels), int(labels.sum())
    values = []
    for chosen in combinations(range(n), positives):
        order = np.zeros(n, dtype=bool)
        order[list(chosen)] = True
        values.append(figure(order))
    return float(np.mean(values))
