"""How much the encoder's space allows per artifact: a supervised probe on the judged states, cross-fitted by scenario."""

from __future__ import annotations

import numpy as np

from sq_core.evaluation.baselines import own_turns
from sq_core.evaluation.data import Bools, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, auprc, precision_at_recall
from sq_core.evaluation.rows import TARGET, figures
from sq_core.evaluation.scorers import generated_scores
from sq_core.evaluation.splits import scenario_folds
from sq_core.fitting import fit_classifier

FOLDS = 5
# A probe that, at recall .90, is right less than half of the time marks an artifact as faint.
FAINT = 0.5
FEWEST_SCENARIOS = 3


def ceiling(
    data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING, folds: int = FOLDS, seed: int = 0
) -> list[Row]:
    """The row ``probe`` over all artifacts it could fit, then one row per occurring artifact.

    The probe is a balanced logistic regression on the mean of a state's newest message and its prefix, over every
    judged state of the other scenarios. Per artifact ``precision_at_r90`` and ``auprc`` are the probe's own,
    ``sq_precision_at_r90`` those of S&Q on generated exemplars, ``base_rate`` the share of relevant states. ``badge``:
    ``faint`` where even the probe stays below ``FAINT`` (pin must-fire turns), ``too few labels`` where it could not be
    fitted, else None.
    """
    del extras
    data = data.with_labels(labels)
    scores, fitted = probe_scores(data, folds=folds, seed=seed)
    sq = generated_scores(data)["sq-generated"]
    occurring = np.flatnonzero(data.relevant.any(axis=0)).tolist()
    return [
        _overall(data, scores, fitted),
        *(_artifact(data, j, scores, sq, fitted=bool(fitted[j])) for j in occurring),
    ]


def probe_scores(data: EvaluationSet, *, folds: int = FOLDS, seed: int = 0) -> tuple[Floats, Bools]:
    """Scores (S, N) of every state by a probe that saw no state of its scenario, and which artifacts could be fitted.

    An artifact needs relevant and irrelevant states in every fold's training part.
    """
    rows = own_turns(data.table)
    states = (data.table.turns[rows].astype(np.float64) + data.table.cumulative.astype(np.float64)) / 2
    scores = np.full(data.scores.shape, -np.inf)
    inside = [np.array([s in part for s in data.scenario]) for part in scenario_folds(data.scenario, folds, seed)]
    for j in range(len(data.artifacts)):
        if _scenarios(data, j) < FEWEST_SCENARIOS:
            continue
        column = np.full(len(states), -np.inf)
        for test in inside:
            train = ~test & data.judged[:, j]
            up, down = states[train & data.relevant[:, j]], states[train & ~data.relevant[:, j]]
            if not len(up) or not len(down):
                break
            fit = fit_classifier(up, down, class_weight="balanced")
            column[test] = np.dot(states[test], fit.weights) + fit.bias
        else:
            scores[:, j] = column
    return scores, np.isfinite(scores).all(axis=0)


def _scenarios(data: EvaluationSet, artifact: int) -> int:
    return len({name for name, hit in zip(data.scenario, data.relevant[:, artifact], strict=True) if hit})


def _overall(data: EvaluationSet, scores: Floats, fitted: Bools) -> Row:
    occurring = data.relevant.any(axis=0)
    used = fitted & occurring
    row: Row = {"method": "probe", "world": "fitted"}
    if not used.any():
        empty = ("precision_at_r90", "precision", "recall", "auprc", "theta", "kept")
        return row | dict.fromkeys(empty) | {"coverage": 0.0, "badge": "too few labels"}
    curve = Sweep(scores[:, used], data.relevant[:, used], data.judged[:, used]).curve()
    row |= figures(curve, precision_at_recall(curve, TARGET))
    return row | {"coverage": float(used.sum() / occurring.sum()), "badge": None}


def _artifact(data: EvaluationSet, j: int, scores: Floats, sq: Floats, *, fitted: bool) -> Row:
    relevant, judged = data.relevant[:, [j]], data.judged[:, [j]]
    row: Row = {"method": "probe", "world": "fitted", "artifact": data.artifacts[j]}
    row |= {
        "relevant": int(relevant.sum()),
        "base_rate": float(relevant.sum() / judged.sum()),
        "coverage": float(fitted),
    }
    own = Sweep(sq[:, [j]], relevant, judged).curve()
    at = precision_at_recall(own, TARGET)
    row["sq_precision_at_r90"] = None if at is None else at.precision
    if not fitted:
        empty = ("precision_at_r90", "precision", "recall", "auprc", "theta", "kept")
        return row | dict.fromkeys(empty) | {"badge": "too few labels"}
    curve = Sweep(scores[:, [j]], relevant, judged).curve()
    row |= figures(curve, precision_at_recall(curve, TARGET)) | {"auprc": auprc(curve)}
    faint = row["precision_at_r90"] is None or row["precision_at_r90"] < FAINT
    return row | {"badge": "faint" if faint else None}
