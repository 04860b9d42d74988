"""Policy-heldout (TRACES 3.4): without its exemplars a policy can be found by its text alone, and no other one changes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sq_core.evaluation.baselines import cosine_text, max_over_views
from sq_core.evaluation.data import EvaluationSet, Exemplars, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, auprc, precision_at_recall
from sq_core.evaluation.rows import TARGET
from sq_core.fitting import fit_classifier


def policy_heldout(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """One row per occurring artifact, scored by cosine to its text after all of its exemplars were removed.

    ``others_unchanged``: the digest of all other artifacts' weights and biases is the same with and without it.
    """
    del extras
    data = data.with_labels(labels)
    scores = max_over_views(data.table, cosine_text(data.text_vectors))
    before = weight_digests(data.generated)
    rows = []
    for j in np.flatnonzero(data.relevant.any(axis=0)).tolist():
        without = replace(data, generated=tuple(None if i == j else own for i, own in enumerate(data.generated)))
        after = weight_digests(without.generated)
        same = all(a == b for i, (a, b) in enumerate(zip(before, after, strict=True)) if i != j)
        curve = Sweep(scores[:, [j]], data.relevant[:, [j]], data.judged[:, [j]]).curve()
        found = precision_at_recall(curve, TARGET)
        row: Row = {"method": "cosine-text", "world": "unfitted-is-miss", "artifact": data.artifacts[j]}
        row |= {"precision_at_r90": None if found is None else found.precision, "auprc": auprc(curve)}
        row |= {"recall": None if found is None else found.recall, "theta": None if found is None else found.theta}
        row |= {"kept": None if found is None else found.kept, "coverage": 0.0, "sq_recall": 0.0}
        rows.append(row | {"others_unchanged": same})
    return rows


def weight_digests(exemplars: Sequence[Exemplars | None]) -> list[str | None]:
    """sha256 over weights and bias of every artifact's fit; None without exemplars on both sides."""
    digests: list[str | None] = []
    for each in exemplars:
        if each is None or not len(each.signals) or not len(each.anti_signals):
            digests.append(None)
            continue
        fit = fit_classifier(each.signals, each.anti_signals)
        digests.append(hashlib.sha256(fit.weights.tobytes() + repr(fit.bias).encode()).hexdigest())
    return digests
