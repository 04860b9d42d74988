"""The three ways every table compares, on generated exemplars: text cosine, signal cosine, S&Q."""

from __future__ import annotations

from sq_core.evaluation.baselines import Scorer, cosine_signals, cosine_text, logistic, max_over_views
from sq_core.evaluation.data import EvaluationSet, Floats
from sq_core.evaluation.rows import sides


def generated_scorers(data: EvaluationSet) -> dict[str, Scorer]:
    """Scorers by method name; S&Q is the paper's unweighted recipe."""
    signals, anti_signals = sides(data.generated)
    return {
        "cosine-text": cosine_text(data.text_vectors),
        "cosine-signals": cosine_signals(signals),
        "sq-generated": logistic(signals, anti_signals),
    }


def generated_scores(data: EvaluationSet) -> dict[str, Floats]:
    """Scores (S, N) of every state under the paper's pooling."""
    return {name: max_over_views(data.table, scorer) for name, scorer in generated_scorers(data).items()}
