"""The figures on tables small enough to count by hand, and against the definition written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.evaluation.metrics import (
    MetricError,
    Sweep,
    auprc,
    macro_curve,
    operating_point,
    precision_at_recall,
    topk_curve,
)

# Two artifacts over four states; the third never occurs.
SCORES = np.array([[0.9, 0.2, 0.5], [0.6, 0.8, 0.1], [0.4, 0.3, 0.7], [0.1, 0.7, 0.2]])
RELEVANT = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)


def by_definition(scores, relevant, theta, weights=None):
    """Macro recall and precision at one θ, straight from the text."""
    weights = np.ones(len(scores)) if weights is None else weights
    recalls, precisions = [], []
    for j in range(scores.shape[1]):
        fired = scores[:, j] > theta
        needed = weights @ relevant[:, j]
        if needed:
            hits = weights @ (fired & relevant[:, j])
            recalls.append(hits / needed)
            precisions.append(hits / (weights @ fired) if weights @ fired else 0.0)
    return np.mean(recalls), np.mean(precisions)


def test_operating_point_by_hand():
    found = operating_point(SCORES, RELEVANT, 0.35)
    assert found.true_positives.tolist() == [2, 1, 0]
    assert found.false_positives.tolist() == [1, 1, 2]
    assert found.false_negatives.tolist() == [0, 0, 0]
    assert found.occurring.tolist() == [True, True, False]
    assert (found.recall, found.precision) == pytest.approx((1.0, (2 / 3 + 1 / 2) / 2))
    assert found.kept == pytest.approx(7 / 12)
    assert np.isnan(found.artifact_recall[2])


def test_an_artifact_that_never_fires_has_precision_zero():
    found = operating_point(SCORES, RELEVANT, 0.85)
    assert found.artifact_precision[:2].tolist() == [1.0, 0.0]
    assert (found.recall, found.precision) == pytest.approx((0.25, 0.5))


def test_strictly_above_fires():
    assert operating_point(SCORES, RELEVANT, 0.9).true_positives.sum() == 0


def test_a_cutoff_per_artifact():
    assert operating_point(SCORES, RELEVANT, [0.5, 0.75, 1.0]).kept == pytest.approx(3 / 12)


def test_nothing_occurring_gives_no_figure():
    found = operating_point(SCORES, np.zeros_like(RELEVANT), 0.0)
    assert np.isnan(found.recall)
    assert precision_at_recall(macro_curve(SCORES, np.zeros_like(RELEVANT))) is None


def test_curve_by_hand():
    curve = macro_curve([[3.0], [2.0], [2.0], [1.0]], [[True], [False], [True], [False]])
    assert curve.theta == pytest.approx([3, 2, 1, 1], abs=1e-6)
    assert curve.recall == pytest.approx([0, 0.5, 1, 1])
    assert curve.precision == pytest.approx([0, 1, 2 / 3, 0.5])
    assert curve.kept == pytest.approx([0, 0.25, 0.75, 1])
    # ½·½·(0 + 1) + ½·½·(1 + ⅔)
    assert auprc(curve) == pytest.approx(0.25 + 5 / 12)
    assert precision_at_recall(curve, 0.9) == pytest.approx((2 / 3, 1.0, 1.0, 0.75))


def test_target_not_reached_is_none():
    scores = np.array([[1.0, -np.inf], [0.0, -np.inf]])
    relevant = np.array([[True, False], [False, True]])
    curve = macro_curve(scores, relevant)
    assert curve.recall.max() == 0.5
    assert precision_at_recall(curve, 0.9) is None
    assert np.isfinite(curve.theta).all()
    assert curve.kept[-1] == 0.5


def test_nothing_can_fire():
    curve = macro_curve(np.full((2, 2), -np.inf), np.ones((2, 2), bool))
    assert curve.recall.tolist() == [0.0]
    assert auprc(curve) == 0.0


def test_nine_of_ten_reach_ninety_percent():
    scores = np.arange(10.0)[:, None]
    found = precision_at_recall(macro_curve(scores, np.ones((10, 1), bool)), 0.9)
    assert found is not None
    assert found.recall >= 0.9 - 1e-9


def test_of_equal_precision_the_higher_recall():
    found = precision_at_recall(macro_curve([[3.0], [2.0], [1.0]], np.ones((3, 1), bool)), 0.5)
    assert found is not None
    assert found.recall == pytest.approx(1.0)


tables = st.tuples(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 5), st.sampled_from([3, 1000]))


@settings(deadline=None)
@given(tables)
def test_the_sweep_is_the_definition_at_every_theta(table):
    seed, states, artifacts, levels = table
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, size=(states, artifacts)) / 4
    relevant = rng.random((states, artifacts)) < 0.4
    relevant[0, 0] = True
    weights = rng.integers(0, 3, size=states).astype(float)
    weights[0] = 1
    for each in (None, weights):
        curve = Sweep(scores, relevant).curve(each)
        assert len(curve.theta) == len(np.unique(scores)) + 1
        expected = np.array([by_definition(scores, relevant, theta, each) for theta in curve.theta])
        assert curve.recall == pytest.approx(expected[:, 0])
        assert curve.precision == pytest.approx(expected[:, 1])
        assert (curve.recall[0], curve.recall[-1]) == pytest.approx((0, 1))


def test_unjudged_pairs_count_nowhere():
    judged = np.ones_like(RELEVANT)
    judged[1, 0] = False  # a false positive at low θ, and one relevant pair of artifact 2
    judged[1, 1] = False
    found = operating_point(SCORES, RELEVANT, 0.35, judged)
    assert found.false_positives.tolist() == [0, 1, 2]
    assert found.occurring.tolist() == [True, False, False]
    curve = Sweep(SCORES, RELEVANT, judged).curve()
    at = int(np.flatnonzero(curve.theta == 0.3)[0])
    assert (curve.recall[at], curve.precision[at]) == pytest.approx((found.recall, found.precision))
    assert curve.kept[-1] == pytest.approx(1.0)


def test_topk_by_hand():
    curve = topk_curve(SCORES, RELEVANT, [2, 1])
    assert curve.theta.tolist() == [1, 2]
    # K = 1 retrieves columns 0, 1, 2, 1; K = 2 adds 2, 0, 0, 2.
    assert curve.recall == pytest.approx([(1 / 2 + 1) / 2, 1.0])
    assert curve.precision == pytest.approx([(1 + 1 / 2) / 2, (2 / 3 + 1 / 2) / 2])
    assert curve.kept == pytest.approx([1 / 3, 2 / 3])


def test_topk_never_retrieves_what_cannot_fire():
    assert topk_curve([[1.0, -np.inf]], [[True, True]], [2]).recall.tolist() == [0.5]


@pytest.mark.parametrize(
    ("scores", "relevant", "message"),
    [
        ([[1.0]], [[True, False]], "expected .S, N. for each"),
        ([1.0], [True], "expected .S, N. for each"),
        ([[np.nan]], [[True]], "NaN"),
        ([[np.inf]], [[True]], "infinity"),
    ],
)
def test_bad_tables_are_named(scores, relevant, message):
    with pytest.raises(MetricError, match=message):
        macro_curve(scores, relevant)
