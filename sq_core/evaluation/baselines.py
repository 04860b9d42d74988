"""What S&Q is compared with (paper §3, §4.2): the same views, the max over views, centred unit vectors.

Every method is a scorer, vectors (v, d) -> scores (v, N), pooled over a state's views by ``max_over_views``.
scikit-learn is imported only for the linear SVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.fitting import ClassWeight, fit_classifier
from sq_core.scoring import Pooling, ViewTable

Floats = NDArray[np.float64]
Vectors = NDArray[np.floating]
Scorer = Callable[[Vectors], Floats]

TOP_K = range(1, 16)


def max_over_views(
    table: ViewTable,
    scorer: Scorer,
    *,
    cumulative: bool = True,
    user_turns: Literal["all", "latest", "none"] = "all",
) -> Floats:
    """Scores (S, N) of every state: the max over its cumulative view and its user turns so far."""
    if not cumulative and user_turns == "none":
        raise ValueError("no view left to score; keep the cumulative view, the user turns, or both")
    parts = [scorer(table.cumulative)] if cumulative else []
    if user_turns != "none":
        parts.append(_turns_so_far(table, scorer(table.turns), running=user_turns == "all"))
    best: Floats = np.maximum.reduce(parts)
    return best


def _turns_so_far(table: ViewTable, scores: Floats, *, running: bool) -> Floats:
    """Per state the best score of its conversation's user turns up to its own, or of its own turn alone."""
    best = scores.copy()
    starts = np.flatnonzero(np.diff(table.turn_conversation, prepend=-1))
    ends = np.append(starts[1:], len(scores))
    if running:
        for start, end in zip(starts, ends, strict=True):
            best[start:end] = np.maximum.accumulate(scores[start:end], axis=0)
    return best[own_turns(table)]


def own_turns(table: ViewTable) -> NDArray[np.intp]:
    """The row in ``turns`` of every state's newest user message (S,)."""
    row = {pair: i for i, pair in enumerate(zip(table.turn_conversation, table.turn_index, strict=True))}
    return np.array([row[pair] for pair in zip(table.state_conversation, table.state_turn, strict=True)], dtype=np.intp)


def cosine_text(texts: Vectors) -> Scorer:
    """Cosine to the artifact's own text (N, d): B1 and B3."""
    return lambda vectors: _dots(vectors, texts)


def cosine_signals(signals: Sequence[Vectors | None]) -> Scorer:
    """Highest cosine to any of the artifact's signals: B2, B4 and the positive-only ablation. None: never fires."""

    def scores(vectors: Vectors) -> Floats:
        columns = [_never(vectors) if own is None else _dots(vectors, own).max(axis=1) for own in signals]
        return np.column_stack(columns)

    return scores


positive_only = cosine_signals


def linear(weights: Sequence[Vectors | None], biases: Sequence[float]) -> Scorer:
    """w·q + b of N classifiers, weights (d,) each; None marks an artifact without one, which never fires."""
    fitted = [j for j, own in enumerate(weights) if own is not None]
    rows = [own for own in weights if own is not None]

    def scores(vectors: Vectors) -> Floats:
        table = np.full((len(vectors), len(weights)), -np.inf)
        if rows:
            table[:, fitted] = _dots(vectors, np.stack(rows)) + np.array([biases[j] for j in fitted])
        return table

    return scores


def logistic(
    signals: Sequence[Vectors | None],
    anti_signals: Sequence[Vectors | None],
    *,
    C: float = 1.0,
    class_weight: ClassWeight = None,
) -> Scorer:
    """S&Q itself: one logistic regression per artifact on its own exemplars; without both sides it never fires."""
    weights: list[Vectors | None] = []
    biases: list[float] = []
    for own, near in zip(signals, anti_signals, strict=True):
        fit = None if own is None or near is None else fit_classifier(own, near, C, class_weight)
        weights.append(None if fit is None else fit.weights)
        biases.append(0.0 if fit is None else fit.bias)
    return linear(weights, biases)


def generic_negatives(signals: Sequence[Vectors], *, C: float = 1.0, class_weight: ClassWeight = None) -> Scorer:
    """The coupled variant: each artifact's signals against all other artifacts' signals (paper §2.3)."""
    others = [np.concatenate([own for i, own in enumerate(signals) if i != j]) for j in range(len(signals))]
    return logistic(signals, others, C=C, class_weight=class_weight)


def linear_svm(signals: Sequence[Vectors], anti_signals: Sequence[Vectors], *, C: float = 1.0) -> Scorer:
    """scikit-learn's LinearSVC on the same exemplars; its signed distance is the score."""
    from sklearn.svm import LinearSVC

    weights: list[Vectors | None] = []
    biases: list[float] = []
    for own, near in zip(signals, anti_signals, strict=True):
        rows = np.concatenate((own, near)).astype(np.float64)
        labels = np.repeat([1, 0], [len(own), len(near)])
        machine = LinearSVC(C=C, random_state=0, tol=1e-6, max_iter=100_000).fit(rows, labels)
        weights.append(machine.coef_[0])
        biases.append(float(machine.intercept_[0]))
    return linear(weights, biases)


def signed_knn(signals: Sequence[Vectors], anti_signals: Sequence[Vectors], *, k: int = 5) -> Scorer:
    """Mean of sign × cosine over the k nearest exemplars of either side."""

    def scores(vectors: Vectors) -> Floats:
        columns = []
        for own, near in zip(signals, anti_signals, strict=True):
            cosines = _dots(vectors, np.concatenate((own, near)))
            sign = np.repeat([1.0, -1.0], [len(own), len(near)])
            nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
            columns.append((np.take_along_axis(cosines, nearest, axis=1) * sign[nearest]).mean(axis=1))
        return np.column_stack(columns)

    return scores


def _dots(vectors: Vectors, rows: Vectors) -> Floats:
    product: Floats = np.asarray(vectors, dtype=np.float64) @ np.asarray(rows, dtype=np.float64).T
    return product


def _never(vectors: Vectors) -> Floats:
    return np.full(len(vectors), -np.inf)


def pooled_views(table: ViewTable, scorer: Scorer, pooling: Pooling) -> Floats:
    """Scores (S, N) of every state under any pooling; under ``both`` the same as ``max_over_views``.

    A scorer's values carry their bias, which the max and the mean pass through unchanged.
    """
    turns, whole = scorer(table.turns), scorer(table.cumulative)
    low, high = table.spans(pooling)
    pooled = np.empty_like(whole)
    for state in range(len(table)):
        rows = slice(int(low[state]), int(high[state]))
        ages = (table.state_turn[state] - table.turn_index[rows]).astype(np.float64)
        parts = turns[rows] - pooling.age_discount * ages[:, None]
        if pooling.cumulative:
            parts = np.concatenate((parts, whole[state : state + 1]))
        if len(parts) == 0:
            raise ValueError("no view left to score; keep the cumulative view, the user turns, or both")
        pooled[state] = parts.max(axis=0) if pooling.mode == "max" else parts.mean(axis=0)
    return pooled
