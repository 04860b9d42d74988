"""Meters of an exemplar set (§6): coverage of irrelevant talk, near-synonym clusters, and the judge's pass mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import cosine_signals, logistic, max_over_views
from sq_core.evaluation.data import Bools, EvaluationError, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, operating_point, precision_at_recall
from sq_core.evaluation.rows import TARGET, figures, sides
from sq_core.evaluation.scorers import generated_scores

# Cosine of two centred artifact texts from which they count as near-synonyms.
NEAR_SYNONYM = 0.5
IRRELEVANT = 1


def clusters(text_vectors: NDArray[np.floating], bound: float = NEAR_SYNONYM) -> list[list[int]]:
    """Groups of two or more artifacts connected by text cosines ≥ bound, each sorted."""
    n = len(text_vectors)
    rows = np.asarray(text_vectors, dtype=np.float64)
    linked = rows @ rows.T >= bound
    left, found = set(range(n)), []
    while left:
        group, open_ = set(), [min(left)]
        while open_:
            at = open_.pop()
            if at in group:
                continue
            group.add(at)
            open_ += [j for j in left if linked[at, j] and j not in group]
        left -= group
        if len(group) > 1:
            found.append(sorted(group))
    return found


def near_synonyms(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    extras: Extras = NOTHING,
    bound: float = NEAR_SYNONYM,
    seed: int = 0,
) -> list[Row]:
    """Precision at recall .90 inside near-synonym clusters: on states that need a member, among the members only.

    ``anti-signals`` (the method), ``random-negatives`` (as many signals drawn from artifacts outside the cluster) and
    ``cosine`` (to signals). No rows when no two texts reach ``bound``.
    """
    del extras
    data = data.with_labels(labels)
    groups = clusters(data.text_vectors, bound)
    signals, anti = sides(data.generated)
    rng = np.random.default_rng(seed)
    drawn = [_random_negatives(signals, anti, groups, j, rng) for j in range(len(signals))]
    tables = {
        "anti-signals": max_over_views(data.table, logistic(signals, anti)),
        "random-negatives": max_over_views(data.table, logistic(signals, drawn)),
        "cosine": max_over_views(data.table, cosine_signals(signals)),
    }
    rows = []
    for name, scores in tables.items():
        inside = np.zeros_like(data.judged)
        for group in groups:
            needed = np.flatnonzero(data.relevant[:, group].any(axis=1))
            inside[np.ix_(needed, np.array(group))] = True
        judged = data.judged & inside
        relevant = data.relevant & judged
        if not relevant.any():
            continue
        curve = Sweep(scores, relevant, judged).curve()
        row: Row = {"method": name, "world": "fitted", "clusters": len(groups)}
        row |= figures(curve, precision_at_recall(curve, TARGET))
        rows.append(row | {"coverage": float(np.mean([s is not None for s in signals]))})
    return rows


def _random_negatives(
    signals: Sequence[NDArray[np.floating] | None],
    anti: Sequence[NDArray[np.floating] | None],
    groups: Sequence[Sequence[int]],
    j: int,
    rng: np.random.Generator,
) -> NDArray[np.floating] | None:
    own, near = signals[j], anti[j]
    group = next((set(each) for each in groups if j in each), {j})
    others = [each for i, each in enumerate(signals) if i not in group and each is not None]
    if own is None or near is None or not others:
        return near
    pool = np.concatenate(others)
    return pool[rng.choice(len(pool), size=min(len(near), len(pool)), replace=False)]


def coverage_meter(
    data: EvaluationSet, scores: Floats, theta: float, *, draws: int = 1000, seed: int = 0
) -> tuple[float, Floats]:
    """Share of random clearly irrelevant (state, artifact) pairs above the cut-off, overall and per artifact (N,).

    High where the anti-signals under-sample irrelevant talk. Per artifact NaN without such a pair.
    """
    pairs = np.argwhere(data.scores == IRRELEVANT)
    if not len(pairs):
        raise EvaluationError("no pair is judged clearly irrelevant (1); the coverage meter has nothing to draw from")
    if len(pairs) > draws:
        pairs = pairs[np.random.default_rng(seed).choice(len(pairs), size=draws, replace=False)]
    fired = scores[pairs[:, 0], pairs[:, 1]] > theta
    counts = np.bincount(pairs[:, 1], minlength=scores.shape[1])
    hits = np.bincount(pairs[:, 1], weights=fired, minlength=scores.shape[1])
    per = np.divide(hits, counts, out=np.full(scores.shape[1], np.nan), where=counts > 0)
    return float(fired.mean()), per


def pass_marks(
    data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING, marks: Sequence[int] = (3, 4, 5)
) -> list[Row]:
    """The three methods with relevance from 3, 4 or 5 on; ``share_of_threes``: the judge's diffuse "maybe" band."""
    del extras
    data = data.with_labels(labels)
    tables = generated_scores(data)
    threes = float(np.mean(data.scores[data.judged] == 3)) if data.judged.any() else 0.0
    rows = []
    for mark in marks:
        relevant: Bools = (data.scores >= mark) & data.judged
        if not relevant.any():
            continue
        for name, scores in tables.items():
            curve = Sweep(scores, relevant, data.judged).curve()
            found = precision_at_recall(curve, TARGET)
            row: Row = {"method": name, "world": "fitted", "pass_mark": mark, "share_of_threes": threes}
            row |= figures(curve, found)
            at = operating_point(scores, relevant, row["theta"], data.judged)
            own = at.artifact_recall[at.occurring]
            rows.append(
                row
                | {
                    "artifacts": int(at.occurring.sum()),
                    "artifacts_at_target": int((own >= TARGET - 1e-9).sum()),
                    "coverage": 1.0,
                }
            )
    return rows


def with_pass_mark(data: EvaluationSet, mark: int) -> EvaluationSet:
    """The same judgements with relevance from ``mark`` on, mapped so that every protocol reads it as 4 and up."""
    if not 2 <= mark <= 5:
        raise EvaluationError(f"pass mark is {mark}; expected 2 to 5")
    scores = np.where(data.scores >= mark, np.maximum(data.scores, 4), np.minimum(data.scores, 3))
    return replace(data, scores=scores)
