"""What expiry does over a conversation: the active set turn by turn, recall and tokens with and without (§6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sq_core.evaluation.baselines import max_over_views, own_turns
from sq_core.evaluation.cost import tokens_saved
from sq_core.evaluation.data import Bools, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, operating_point, precision_at_recall
from sq_core.evaluation.rows import TARGET
from sq_core.evaluation.scorers import generated_scorers
from sq_core.expiry import Expiry, replay

RULES = (Expiry(), Expiry(others=3), Expiry(others=6), Expiry(turns=3), Expiry(turns=6))


def expiry_effect(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    extras: Extras = NOTHING,
    rules: Sequence[Expiry] = RULES,
    theta: float | None = None,
) -> list[Row]:
    """One row per rule, at one θ for all: that of P@R90 without expiry, unless given.

    ``set_size`` is the mean number of active artifacts by user turn (from 0), ``tokens`` the mean prompt tokens a turn
    of ``extras.artifact_tokens`` and ``tokens_saved`` what the left-out artifacts would have cost.
    """
    data = data.with_labels(labels)
    scorer = generated_scorers(data)["sq-generated"]
    scores = max_over_views(data.table, scorer)
    if theta is None:
        curve = Sweep(scores, data.relevant, data.judged).curve()
        found = precision_at_recall(curve, TARGET)
        theta = found.theta if found is not None else float(curve.theta[-1])
    own = scorer(data.table.turns)[own_turns(data.table)]
    holds, evidence = scores > theta, own > theta
    return [_row(data, rule, active(data, holds, evidence, rule), theta, extras) for rule in rules]


def active(data: EvaluationSet, holds: Bools, evidence: Bools, rule: Expiry) -> Bools:
    """The active set (S, N): every conversation replayed from its first user turn under the rule."""
    if not rule.on:
        return holds
    result = np.zeros_like(holds)
    for start, end in data.conversations():
        result[start:end] = replay(holds[start:end], evidence[start:end], rule).active
    return result


def _row(data: EvaluationSet, rule: Expiry, fired: Bools, theta: float, extras: Extras) -> Row:
    # As scores 0 and 1: at the cut-off ½ exactly the active ones fire.
    at = operating_point(fired.astype(np.float64), data.relevant, 0.5, data.judged)
    turns = data.table.state_turn
    sizes: Floats = fired.sum(axis=1).astype(np.float64)
    by_turn = [float(sizes[turns == turn].mean()) for turn in np.unique(turns)]
    row: Row = {"method": _name(rule), "world": "fitted", "precision_at_r90": None, "auprc": None, "theta": theta}
    row |= {"precision": at.precision, "recall": at.recall, "kept": at.kept, "set_size": by_turn}
    row |= {"mean_set_size": float(sizes.mean()), "coverage": float(np.mean([e is not None for e in data.generated]))}
    if extras.artifact_tokens is not None:
        row["tokens"] = float((fired @ extras.artifact_tokens.astype(np.float64)).mean())
        row["tokens_saved"] = tokens_saved(fired, extras.artifact_tokens)
    return row


def _name(rule: Expiry) -> str:
    parts = [f"{rule.others} others"] if rule.others is not None else []
    parts += [f"{rule.turns} turns"] if rule.turns is not None else []
    return "expiry after " + " or ".join(parts) if parts else "no expiry"
