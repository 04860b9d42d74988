"""The paper's six properties (Table 1), each tied to a check on this inventory rather than to a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from sq_core.evaluation.data import Bools, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.heldout_policy import weight_digests
from sq_core.evaluation.meters import near_synonyms
from sq_core.evaluation.metrics import Sweep, operating_point, precision_at_recall, topk_curve
from sq_core.evaluation.rows import TARGET
from sq_core.evaluation.scorers import generated_scores

Mark = Literal["yes", "partly", "no"]
METHODS = ("topk-text", "cosine-text", "sq-generated")
K = 15


def capabilities(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """Rows {property, method, mark, figure, check}: ``check`` says in words what ``figure`` is and what decides.

    The marks are what this inventory shows; where it shows something else than the paper's Table 1, the mark differs.
    """
    del extras
    data = data.with_labels(labels)
    scores = generated_scores(data)
    checks: tuple[Callable[[EvaluationSet, dict[str, Floats]], list[Row]], ...] = (
        _inference_free,
        _adaptive_size,
        _uncapped_recall,
        _near_synonyms,
        _own_boundary,
        _portable,
    )
    return [row for check in checks for row in check(data, scores)]


def _row(name: str, method: str, mark: Mark, figure: float | None, check: str) -> Row:
    return {"property": name, "method": method, "world": "fitted", "mark": mark, "figure": figure, "check": check}


def _inference_free(data: EvaluationSet, scores: dict[str, Floats]) -> list[Row]:
    check = "language-model calls a turn: every score here is a product of stored vectors"
    return [_row("inference-free per turn", method, "yes", 0.0, check) for method in METHODS]


def _fired(data: EvaluationSet, scores: Floats) -> Floats:
    found = precision_at_recall(Sweep(scores, data.relevant, data.judged).curve(), TARGET)
    theta = float(np.min(scores[np.isfinite(scores)], initial=0.0)) - 1 if found is None else found.theta
    return (scores > theta).astype(np.float64)


def _adaptive_size(data: EvaluationSet, scores: dict[str, Floats]) -> list[Row]:
    check = "standard deviation of the number selected per state at its operating point; 0 = the same number always"
    rows = [_row("adaptive selection size", "topk-text", "no", 0.0, check)]
    for method in METHODS[1:]:
        spread = float(_fired(data, scores[method]).sum(axis=1).std())
        rows.append(_row("adaptive selection size", method, "yes" if spread > 0 else "no", spread, check))
    return rows


def _uncapped_recall(data: EvaluationSet, scores: dict[str, Floats]) -> list[Row]:
    check = f"highest macro recall its knob reaches (K at most {K}, or any θ)"
    limit = min(K, len(data.artifacts))
    capped = float(topk_curve(scores["cosine-text"], data.relevant, [limit], data.judged).recall[-1])
    rows = [_row("uncapped recall", "topk-text", "yes" if capped >= 1 - 1e-9 else "no", capped, check)]
    for method in METHODS[1:]:
        highest = float(Sweep(scores[method], data.relevant, data.judged).curve().recall[-1])
        rows.append(_row("uncapped recall", method, "yes" if highest >= 1 - 1e-9 else "no", highest, check))
    return rows


def _near_synonyms(data: EvaluationSet, scores: dict[str, Floats]) -> list[Row]:
    check = "precision at recall .90 inside clusters of near-synonym artifacts; yes = a point above cosine there"
    found = {row["method"]: row["precision"] for row in near_synonyms(data)}
    if not found:
        none = "no two artifacts are near-synonyms in this inventory"
        return [_row("near-synonym discrimination", method, "no", None, none) for method in METHODS]
    ours, best = found.get("anti-signals"), found.get("cosine")
    better = ours is not None and (best is None or ours >= best + 0.01)
    return [
        _row("near-synonym discrimination", "topk-text", "no", best, check),
        _row("near-synonym discrimination", "cosine-text", "no", best, check),
        _row("near-synonym discrimination", "sq-generated", "yes" if better else "no", ours, check),
    ]


def _own_boundary(data: EvaluationSet, scores: dict[str, Floats]) -> list[Row]:
    check = "share of artifacts whose boundary stays the same to the last bit when another one is removed"
    rows = [_row("per-artifact decision boundary", method, "no", None, "one knob for all") for method in METHODS[:2]]
    whole = weight_digests(data.generated)
    less = weight_digests(data.generated[:-1])
    same = float(np.mean([a == b for a, b in zip(whole, less, strict=False)])) if less else 1.0
    return [*rows, _row("per-artifact decision boundary", "sq-generated", "yes" if same == 1.0 else "no", same, check)]


def _portable(data: EvaluationSet, scores: dict[str, Floats]) -> list[Row]:
    """θ of one half of the scenarios, used on the other: how far the recall moves from the target."""
    check = "mean |recall − .90| on the other half of the scenarios at θ chosen on one half (both ways)"
    names = sorted(set(data.scenario))
    first = np.array([name in set(names[::2]) for name in data.scenario], dtype=bool)
    rows = [_row("portable operating point", "topk-text", "partly", None, "K carries over but means no level of need")]
    moved = {method: _moved(data, scores[method], first) for method in METHODS[1:]}
    best = min((each for each in moved.values() if each is not None), default=None)
    for method, each in moved.items():
        mark: Mark = "no" if each is None else "yes" if each == best else "partly"
        rows.append(_row("portable operating point", method, mark, each, check))
    return rows


def _moved(data: EvaluationSet, scores: Floats, first: Bools) -> float | None:
    distances = []
    for chosen in (first, ~first):
        if not data.relevant[chosen].any() or not data.relevant[~chosen].any():
            return None
        found = precision_at_recall(Sweep(scores[chosen], data.relevant[chosen], data.judged[chosen]).curve(), TARGET)
        if found is None:
            return None
        at = operating_point(scores[~chosen], data.relevant[~chosen], found.theta, data.judged[~chosen])
        distances.append(abs(at.recall - TARGET))
    return float(np.mean(distances))
