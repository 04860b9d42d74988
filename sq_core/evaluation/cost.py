"""What a turn costs (Table 6): a judge asked about every artifact, S&Q, and S&Q with the judge over its survivors."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from sq_core.evaluation.calibrated import MINED, compared
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, precision_at_recall
from sq_core.evaluation.rows import TARGET, coverage, figures, sides
from sq_core.evaluation.scorers import generated_scores
from sq_core.fitting import Fit, fit_classifier
from sq_core.turn_scorer import TurnScorer

RUNS = 5
REPEATS = 50
# The paper's own count for a text whose tokenizer is not at hand: about four characters a token.
CHARACTERS_PER_TOKEN = 4


def cost(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING, runs: int = RUNS) -> list[Row]:
    """Rows ``judge-all``, ``sq-generated``, ``sq+judge`` and ``sq-mined+judge``: calls, prompt tokens, CPU µs a turn.

    Tokens are those of ``extras.judge_prompts`` (one per artifact, on a median-length prefix), counted by
    ``extras.count_tokens`` or as characters / 4, which ``tokens_by`` says; without prompts they are None. ``sq+judge``
    asks the judge about the share that fires at P@R90's θ; ``sq-mined+judge`` does so with our default for real
    conversations, cross-fitted, and about every artifact that it could not fit (``coverage``: the share it could).
    ``ratio`` divides what ``ratio_divides`` names. CPU is the median of ``runs`` for scoring all artifacts on a state
    with the median number of views; embedding is not in it.
    """
    data = data.with_labels(labels)
    n = len(data.artifacts)
    scores = generated_scores(data)["sq-generated"]
    curve = Sweep(scores, data.relevant, data.judged).curve()
    found = precision_at_recall(curve, TARGET)
    kept = found.kept if found is not None else 1.0
    signals, anti_signals = sides(data.generated)
    fitted = [
        (own, near) for own, near in zip(signals, anti_signals, strict=True) if own is not None and near is not None
    ]
    if not fitted:
        raise EvaluationError("no artifact has generated signals and anti-signals; generate exemplars first")
    fit_ms = median_seconds(lambda: [fit_classifier(own, near) for own, near in fitted], runs) * 1e3
    cpu_us = _scoring_us(data, [fit_classifier(own, near) for own, near in fitted], runs)
    tokens, by = _prompt_tokens(extras, n)
    shared = {
        "world": "fitted",
        "coverage": coverage(data, np.array([each is not None for each in signals])),
        "tokens_by": by,
    }
    at = figures(curve, found)
    judge = {"calls": float(n), "tokens": tokens, "cpu_us": None, "offline_calls": 0, "fit_ms": None}
    everything: Row = {
        "precision_at_r90": None,
        "precision": None,
        "recall": 1.0,
        "auprc": None,
        "theta": None,
        "kept": 1.0,
    }
    sq = {"calls": 0.0, "embedding_calls": 1, "tokens": 0.0, "cpu_us": cpu_us, "offline_calls": 2 * n, "fit_ms": fit_ms}
    both = sq | {"calls": n * kept, "tokens": None if tokens is None else tokens * kept}
    divides = "at the θ of P@R90"
    rows = [
        {"method": "judge-all", **everything, **shared, **judge},
        {"method": "sq-generated", **at, **shared, **sq, "ratio": None, "ratio_divides": "S&Q asks no model: no ratio"},
        {
            "method": "sq+judge", **at, **shared, **both,
            "ratio": 1 / kept if kept else None,
            "ratio_divides": f"model calls a turn, judge-all by sq+judge, {divides}",
        },
    ]  # fmt: skip
    return rows + _mined(data, labels, sq | shared, tokens, divides)


def _mined(data: EvaluationSet, labels: Labels, sq: Row, tokens: float | None, divides: str) -> list[Row]:
    """The row of our default with the judge behind it; none where it has nothing to be fitted on."""
    used, tables = compared(data, labels)
    if MINED not in tables:
        return []
    curve = Sweep(tables[MINED], used.relevant, used.judged).curve()
    found = precision_at_recall(curve, TARGET)
    if found is None:
        return []
    n, fitted = len(data.artifacts), len(used.artifacts)
    calls = fitted * found.kept + (n - fitted)
    row = {"method": f"{MINED}+judge", **figures(curve, found), **sq, "coverage": fitted / n, "calls": calls}
    row |= {"tokens": None if tokens is None else tokens * calls / n, "offline_calls": None, "fit_ms": None}
    return [row | {"ratio": n / calls, "ratio_divides": f"model calls a turn, judge-all by {MINED}+judge, {divides}"}]


def _prompt_tokens(extras: Extras, artifacts: int) -> tuple[float | None, str | None]:
    """Prompt tokens of judging every artifact once, and how they were counted."""
    if not extras.judge_prompts:
        return None, None
    if len(extras.judge_prompts) != artifacts:
        raise EvaluationError(f"{len(extras.judge_prompts)} judge prompts for {artifacts} artifacts; expected one each")
    if extras.count_tokens is not None:
        return float(sum(map(extras.count_tokens, extras.judge_prompts))), "tokenizer"
    return sum(map(len, extras.judge_prompts)) / CHARACTERS_PER_TOKEN, f"characters / {CHARACTERS_PER_TOKEN}"


def tokens_saved(fired: ArrayLike, artifact_tokens: ArrayLike) -> float:
    """Mean prompt tokens a turn that the artifacts left out would have cost; fired (S, N) bool, artifact_tokens (N,)."""
    left_out = ~np.asarray(fired, dtype=bool)
    return float((left_out @ np.asarray(artifact_tokens, dtype=np.float64)).mean())


def _scoring_us(data: EvaluationSet, fits: list[Fit], runs: int) -> float:
    score = TurnScorer(np.stack([fit.weights for fit in fits]), [fit.bias for fit in fits])
    turns = data.table.state_turn
    views = data.table.views(int(np.argsort(turns, kind="stable")[len(turns) // 2])).vectors
    return median_seconds(lambda: [score(views) for _ in range(REPEATS)], runs) / REPEATS * 1e6


def median_seconds(action: Callable[[], object], runs: int) -> float:
    """Median over ``runs`` of the seconds one call takes."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
