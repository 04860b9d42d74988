"""What it costs to own the loop (Fig. 9): refit time, time a turn at N, bytes an artifact, and whether it repeats."""

from __future__ import annotations

import importlib.util

import numpy as np

from sq_core.evaluation.cost import RUNS, median_seconds
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.heldout_policy import weight_digests
from sq_core.evaluation.rows import sides
from sq_core.fitting import fit_classifier
from sq_core.turn_scorer import TurnScorer


def ownership(
    data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING, runs: int = RUNS
) -> list[Row]:
    """The row of S&Q, and one of SetFit that is skipped with the reason where it cannot run.

    ``refit_ms`` is the median over ``runs`` of fitting the median-sized artifact; ``turn_us`` scoring one state with
    the median number of views against all artifacts (embedding, once a turn, is not in it); ``bytes`` weights and bias
    of one artifact; ``same_twice``: the same exemplars give the same weights to the last bit.
    """
    del extras
    data = data.with_labels(labels)
    signals, anti = sides(data.generated)
    made = [(own, near) for own, near in zip(signals, anti, strict=True) if own is not None and near is not None]
    if not made:
        raise EvaluationError("no artifact has generated signals and anti-signals; generate exemplars first")
    made.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
    own, near = made[len(made) // 2]
    fits = [fit_classifier(*pair) for pair in made]
    scorer = TurnScorer(np.stack([fit.weights for fit in fits]), [fit.bias for fit in fits])
    turns = data.table.state_turn
    views = data.table.views(int(np.argsort(turns, kind="stable")[len(turns) // 2])).vectors
    row: Row = {
        "method": "sq-generated",
        "world": "fitted",
        "artifacts": len(made),
        "refit_ms": median_seconds(lambda: fit_classifier(own, near), runs) * 1e3,
        "turn_us": median_seconds(lambda: scorer(views), runs) * 1e6,
        "bytes": 4 * scorer.weights.shape[1] + 8,
        "same_twice": weight_digests(data.generated) == weight_digests(data.generated),
    }
    return [row, setfit_row()]


def setfit_row() -> Row:
    """SetFit's row of Tables 5 and 7 and Fig. 9: an optional extra, printed by `bench.setfit` alone."""
    row: Row = {"method": "setfit", "world": "fitted", "refit_ms": None, "turn_us": None, "bytes": None}
    if importlib.util.find_spec("setfit") is None:
        return row | {"skipped": "SetFit is not installed; it is the optional extra “setfit” and needs torch"}
    return row | {
        "skipped": "SetFit fine-tunes one encoder per artifact for minutes: python -m bench.setfit prints its row"
    }
