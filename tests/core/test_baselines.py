"""Every method sees the same views and takes the max over them."""

import numpy as np
import pytest

from sq_core.evaluation.baselines import (
    cosine_signals,
    cosine_text,
    generic_negatives,
    linear_svm,
    logistic,
    max_over_views,
    own_turns,
    positive_only,
    signed_knn,
)
from sq_core.fitting import fit_classifier
from sq_core.scoring import PRESETS, ViewTable, state_margins


def unit_rows(rng, n, d=6):
    rows = rng.normal(size=(n, d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def table():
    """Two conversations of three and two user turns."""
    rng = np.random.default_rng(0)
    conversation, turn = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1])
    return ViewTable(unit_rows(rng, 5), unit_rows(rng, 5), conversation, turn, conversation, turn)


def test_max_over_the_cumulative_view_and_the_turns_so_far():
    conversation, turn = np.array([0, 0, 1]), np.array([0, 1, 0])
    rows = np.eye(3, dtype=np.float32)
    table = ViewTable(rows, rows, conversation, turn, conversation, turn)

    def scorer(vectors):
        # Cumulative rows and turn rows are the same; the first score is high, the last low.
        return vectors @ np.array([[5.0], [1.0], [3.0]])

    assert max_over_views(table, scorer)[:, 0].tolist() == [5, 5, 3]
    assert max_over_views(table, scorer, user_turns="latest")[:, 0].tolist() == [5, 1, 3]
    assert max_over_views(table, scorer, cumulative=False)[:, 0].tolist() == [5, 5, 3]
    assert max_over_views(table, scorer, user_turns="none")[:, 0].tolist() == [5, 1, 3]
    with pytest.raises(ValueError, match="no view left"):
        max_over_views(table, scorer, cumulative=False, user_turns="none")
    assert own_turns(table).tolist() == [0, 1, 2]


def test_sq_scores_are_the_products_margins(table):
    rng = np.random.default_rng(1)
    signals, near = unit_rows(rng, 4), unit_rows(rng, 4)
    fit = fit_classifier(signals, near)
    for pooling, options in (
        ("both", {}),
        ("cumulative", {"user_turns": "none"}),
        ("max-over-turns", {"cumulative": False}),
        ("cumulative+latest", {"user_turns": "latest"}),
    ):
        theirs = state_margins(fit.weights, fit.bias, table, PRESETS[pooling])
        ours = max_over_views(table, logistic([signals], [near]), **options)[:, 0]
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_cosines_by_hand():
    texts = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert cosine_text(texts)(np.array([[0.6, 0.8]])) == pytest.approx(np.array([[0.6, 0.8]]))
    scorer = cosine_signals([texts, None])
    assert scorer(np.array([[0.6, 0.8]])).tolist() == [[pytest.approx(0.8), -np.inf]]
    assert positive_only is cosine_signals


def test_an_artifact_without_both_sides_never_fires():
    rng = np.random.default_rng(2)
    scores = logistic([unit_rows(rng, 2), None, unit_rows(rng, 2)], [unit_rows(rng, 2), unit_rows(rng, 2), None])
    found = scores(unit_rows(rng, 3))
    assert np.isfinite(found[:, 0]).all()
    assert np.isneginf(found[:, 1:]).all()
    assert np.isneginf(logistic([None], [None])(np.ones((2, 1)))).all()


def test_generic_negatives_are_the_others_signals():
    rng = np.random.default_rng(3)
    signals = [unit_rows(rng, 3) for _ in range(3)]
    query = unit_rows(rng, 1)
    fit = fit_classifier(signals[1], np.concatenate((signals[0], signals[2])))
    assert generic_negatives(signals)(query)[0, 1] == pytest.approx(float(fit.weights @ query[0] + fit.bias))


def test_svm_separates_and_repeats_itself():
    rng = np.random.default_rng(4)
    signals, near = [unit_rows(rng, 5)], [unit_rows(rng, 5)]
    first = linear_svm(signals, near)(np.concatenate((signals[0], near[0])))
    assert (first == linear_svm(signals, near)(np.concatenate((signals[0], near[0])))).all()
    assert first[:5].mean() > first[5:].mean()


def test_signed_knn_by_hand():
    signals, near = [np.array([[1.0, 0.0]])], [np.array([[0.0, 1.0], [-1.0, 0.0]])]
    query = np.array([[0.8, 0.6]])
    assert signed_knn(signals, near, k=2)(query) == pytest.approx((0.8 - 0.6) / 2)
    # Fewer exemplars than k: all of them.
    assert signed_knn(signals, near, k=5)(query) == pytest.approx((0.8 - 0.6 + 0.8) / 3)
