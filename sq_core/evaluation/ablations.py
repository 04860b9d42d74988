"""One component varied at a time from the paper's method (Table 3), and why the classifier hardly matters (§4.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sq_core.evaluation.baselines import (
    Scorer,
    cosine_signals,
    generic_negatives,
    linear_svm,
    logistic,
    pooled_views,
    signed_knn,
)
from sq_core.evaluation.data import Bools, EvaluationError, EvaluationSet, Exemplars, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.metrics import Sweep, precision_at_recall
from sq_core.evaluation.rows import TARGET, figures
from sq_core.fitting import fit_classifier
from sq_core.scoring import PRESETS, Pooling

FEWER = 5
BOTH = Pooling()


def ablations(data: EvaluationSet, *, labels: Labels = "as-judged", extras: Extras = NOTHING) -> list[Row]:
    """Rows of Table 3: ``block`` names what varies, ``method`` the variant, ``default`` the paper's choice.

    All on generated exemplars; artifacts without them are left out of every variant, which ``coverage`` shows.
    Centring off is printed where ``extras.uncentred`` is given, the SVM where scikit-learn is installed; a row whose
    figures are None names in ``skipped`` what is missing.
    """
    data = data.with_labels(labels)
    columns = np.array([each is not None and len(each.anti_signals) > 0 for each in data.generated], dtype=bool)
    made = [each for each, use in zip(data.generated, columns, strict=True) if each is not None and use]
    if not made:
        raise EvaluationError("no artifact has generated signals and anti-signals; generate exemplars first")
    rows = [
        _row(data, columns, "pooling", name, pooled_views(data.table, _fit(made), pooling), default=name == "both")
        for name, pooling in PRESETS.items()
    ]
    for block, name, scorer, default in _scorers(made):
        rows.append(_row(data, columns, block, name, pooled_views(data.table, scorer(), BOTH), default=default))
    rows.append(_centring(data, columns, made, extras))
    rows.append(_svm(data, columns, made))
    return rows


def _scorers(made: list[Exemplars]) -> list[tuple[str, str, Callable[[], Scorer], bool]]:
    signals, anti = [each.signals for each in made], [each.anti_signals for each in made]
    few = [Exemplars(each.signals[:FEWER], each.anti_signals[:FEWER]) for each in made]
    found: list[tuple[str, str, Callable[[], Scorer], bool]] = [
        ("negatives", "anti-signals", lambda: _fit(made), True),
        ("negatives", "none", lambda: cosine_signals(signals), False),
        ("classifier", "logistic", lambda: _fit(made), True),
        ("classifier", "signed-knn", lambda: signed_knn(signals, anti), False),
        ("exemplars", f"m={FEWER}", lambda: _fit(few), False),
        ("exemplars", "all", lambda: _fit(made), True),
        ("weights", "balanced", lambda: logistic(signals, anti, class_weight="balanced"), False),
    ]
    if len(made) > 1:
        found.append(("negatives", "generic", lambda: generic_negatives(signals), False))
    return found


def _fit(made: list[Exemplars]) -> Scorer:
    return logistic([each.signals for each in made], [each.anti_signals for each in made])


def _centring(data: EvaluationSet, columns: Bools, made: list[Exemplars], extras: Extras) -> Row:
    if extras.uncentred is None:
        return _skipped("centring", "off", "no uncentred vectors were given")
    raw = extras.uncentred
    plain = [each for each, use in zip(raw.generated, columns, strict=True) if each is not None and use]
    if len(plain) != len(made):
        raise EvaluationError("the uncentred set has exemplars of other artifacts than the centred one")
    return _row(data, columns, "centring", "off", pooled_views(raw.table, _fit(plain), BOTH), default=False)


def _svm(data: EvaluationSet, columns: Bools, made: list[Exemplars]) -> Row:
    try:
        scorer = linear_svm([each.signals for each in made], [each.anti_signals for each in made])
    except ImportError:
        return _skipped("classifier", "linear-svm", "scikit-learn is not installed")
    row = _row(data, columns, "classifier", "linear-svm", pooled_views(data.table, scorer, BOTH), default=False)
    return row | svm_agreement(made)


def _row(data: EvaluationSet, columns: Bools, block: str, name: str, scores: Floats, *, default: bool) -> Row:
    relevant, judged = data.relevant[:, columns], data.judged[:, columns]
    curve = Sweep(scores, relevant, judged).curve()
    occurring = data.relevant.any(axis=0)
    row: Row = {"method": name, "block": block, "world": "fitted", "default": default}
    row |= figures(curve, precision_at_recall(curve, TARGET))
    return row | {"coverage": float(columns[occurring].mean()) if occurring.any() else 0.0}


def _skipped(block: str, name: str, why: str) -> Row:
    names = ("precision_at_r90", "precision", "recall", "auprc", "theta", "kept", "coverage")
    return {"method": name, "block": block, "world": "fitted", "default": False, **dict.fromkeys(names), "skipped": why}


def svm_agreement(made: list[Exemplars]) -> Row:
    """Why LR and SVM tie: share of artifacts that are separable, share of exemplars that are support vectors, mean
    cosine of both directions.
    """
    from sklearn.svm import LinearSVC

    separable, support, cosines = [], [], []
    for each in made:
        rows = np.concatenate((each.signals, each.anti_signals)).astype(np.float64)
        sign = np.repeat([1.0, -1.0], [len(each.signals), len(each.anti_signals)])
        soft = LinearSVC(C=1.0, random_state=0, tol=1e-6, max_iter=100_000).fit(rows, sign)
        hard = LinearSVC(C=1e4, random_state=0, tol=1e-6, max_iter=100_000, loss="hinge").fit(rows, sign)
        separable.append(bool(np.all(sign * hard.decision_function(rows) > 0)))
        # On or inside the margin, with the solver's own tolerance.
        support.append(float(np.mean(sign * soft.decision_function(rows) <= 1 + 1e-4)))
        ours, theirs = fit_classifier(each.signals, each.anti_signals).weights, soft.coef_[0]
        cosines.append(float(ours @ theirs / (np.linalg.norm(ours) * np.linalg.norm(theirs))))
    return {
        "share_separable": float(np.mean(separable)),
        "share_support_vectors": float(np.mean(support)),
        "mean_cosine_lr_svm": float(np.mean(cosines)),
    }
