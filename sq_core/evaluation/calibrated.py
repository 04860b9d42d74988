"""Where the cut-offs are chosen on other scenarios than they are measured on: our default beside the baselines.

``sq-mined`` is scored cross-fitted: every state by classifiers whose exemplars come from other scenarios. All methods
are compared on the artifacts that every fold could fit.
"""

from __future__ import annotations

import numpy as np

from sq_core.evaluation.data import Bools, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.frontier import frontier
from sq_core.evaluation.meters import coverage_meter
from sq_core.evaluation.metrics import Sweep, precision_at_recall
from sq_core.evaluation.operating_points import side_by_side
from sq_core.evaluation.realised import realised_recall
from sq_core.evaluation.recipes import RECIPES, cross_fitted, default_recipe, rubric_of
from sq_core.evaluation.rows import TARGET
from sq_core.evaluation.scorers import generated_scores

MINED = "sq-mined"


def compared(data: EvaluationSet, labels: Labels) -> tuple[EvaluationSet, dict[str, Floats]]:
    """The artifacts that every fold could fit and that occur, and every method's scores (S, N) of them.

    ``sq-mined`` is the default recipe of the rubric that the labels stand for. Without such artifacts the set is whole
    and has the generated exemplars' methods alone. Methods that can never fire here (no exemplars) are left out.
    """
    data = data.with_labels(labels)
    tables = {name: table for name, table in generated_scores(data).items() if np.isfinite(table).any()}
    everyone, all_columns = frozenset(data.scenario), np.ones(len(data.artifacts), dtype=bool)
    mined, _ = cross_fitted(data, everyone, RECIPES[default_recipe(rubric_of(labels))], all_columns)
    used: Bools = np.asarray(np.isfinite(mined).all(axis=0) & data.relevant.any(axis=0))
    if not used.any():
        return data, tables
    return data.with_artifacts(used), {name: table[:, used] for name, table in (tables | {MINED: mined}).items()}


def mined_frontier(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """``frontier`` with our default for real conversations beside the generated exemplars' methods."""
    del extras
    used, tables = compared(data, labels)
    return frontier(used, scores=tables)


def calibrated(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """Cut-offs of each fold of scenarios from the other folds: what they recall, keep and remove, and for how many.

    ``choice`` is a row of ``side_by_side``. The paper promises that 30 % is removed.
    """
    del extras
    used, tables = compared(data, labels)
    rows: list[Row] = []
    for name in [each for each in tables if each.startswith("sq-")]:
        genres = ["mined" if name == MINED else "generated"] * len(used.artifacts)
        found = side_by_side(tables[name], used.relevant, used.scenario, genres, judged=used.judged)
        more = {"method": name, "coverage": _coverage(data, used)}
        rows += [{**row, "choice": row["method"], **more} for row in found]
    return rows


def promise(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """The recall promise over twenty halvings, for θ by the target alone and by the promise (``realised_recall``).

    ``holds``: both recalls are within their tolerance of the target; ``reaches``: they reach it.
    """
    del extras
    used, tables = compared(data, labels)
    rows = []
    for name in [each for each in tables if each.startswith("sq-")]:
        for rule in ("target", "promise"):
            found = realised_recall(tables[name], used.relevant, used.scenario, target=TARGET, rule=rule)
            row: Row = {"method": name, "world": "fitted", "rule": rule, "target": TARGET, "splits": found.splits}
            for what in ("macro", "per_scenario"):
                figure = getattr(found, what)
                row |= {
                    f"{what}_recall": figure.mean,
                    f"{what}_lowest": figure.low,
                    f"{what}_tolerance": figure.tolerance,
                }
            row |= {"kept": found.kept.mean, "removed": 1 - found.kept.mean}
            rows.append(row | {"holds": found.holds, "reaches": found.reaches, "coverage": _coverage(data, used)})
    return rows


def coverage_of_talk(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """The coverage meter (§6): share of random clearly irrelevant pairs above the cut-off of P@R90.

    ``above`` over all pairs drawn; ``most_above`` the artifact with the highest share, named ``worst``. High where
    anti-signals leave irrelevant talk out.
    """
    del extras
    used, tables = compared(data, labels)
    rows = []
    for name, table in tables.items():
        found = precision_at_recall(Sweep(table, used.relevant, used.judged).curve(), TARGET)
        if found is None:
            continue
        above, per = coverage_meter(used, table, found.theta)
        worst = int(np.nanargmax(per))
        row: Row = {"method": name, "world": "fitted", "theta": found.theta, "above": above}
        rows.append(row | {"most_above": float(per[worst]), "worst": used.artifacts[worst], "kept": found.kept})
    return rows


def _coverage(data: EvaluationSet, used: EvaluationSet) -> float:
    occurring = int(np.count_nonzero(data.relevant.any(axis=0)))
    return len(used.artifacts) / occurring if occurring else 0.0
