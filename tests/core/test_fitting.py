"""The fit against hand-solved cases, scikit-learn and its own optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import sq_core
from sq_core import fit_classifier, fitting
from sq_core.classifier import Classifier, ClassifierError
from sq_core.fitting import EmptyClass, FitError


def unit_rows(rng, n, d, shift=0.0):
    rows = rng.normal(size=(n, d)) + shift * np.sin(np.arange(d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def gradient(fit, signals, anti_signals):
    """Norm of the objective's gradient in (w, b), from the definition."""
    rows = np.concatenate((signals, anti_signals)).astype(np.float64)
    labels = np.repeat([1.0, 0.0], [len(signals), len(anti_signals)])
    likely = np.exp(-np.logaddexp(0, -(rows @ fit.weights + fit.bias)))  # margins may lie beyond ±700
    pull = fit.C * fit.sample_weights * (labels - likely)
    return np.hypot(np.linalg.norm(fit.weights - rows.T @ pull), pull.sum())


def test_one_exemplar_a_side_solved_by_hand():
    # x = ±1, w = 2a and b = 0 with a = C·(1 - σ(2a)): for w = 1, C = 0.5 / σ(-1).
    C = 0.5 * (1 + np.e)
    fit = fit_classifier([[1.0]], [[-1.0]], C=C)
    assert fit.weights == pytest.approx([1.0], abs=1e-12)
    assert fit.bias == pytest.approx(0.0, abs=1e-12)
    assert fit.alphas == pytest.approx([0.5, -0.5], abs=1e-12)
    assert fit.stop.reason == "converged"


def test_the_same_rows_on_both_sides_leave_nothing_to_learn():
    rows = unit_rows(np.random.default_rng(0), 3, 8)
    fit = fit_classifier(np.concatenate((rows, rows)), rows)
    # Twice as many signals: w = 0 and the bias is the log-odds.
    assert fit.weights == pytest.approx(np.zeros(8), abs=1e-12)
    assert fit.bias == pytest.approx(np.log(2), abs=1e-12)
    assert fit_classifier(np.concatenate((rows, rows)), rows, class_weight="balanced").bias == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("positive", "negative", "dimension"),
    [(1, 1, 384), (10, 10, 384), (3, 12, 1536), (10, 10, 3072), (60, 140, 384), (300, 300, 384), (500, 1500, 384)],
)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_agrees_with_scikit_learn(positive, negative, dimension, class_weight):
    rng = np.random.default_rng(positive + dimension)
    signals, near = unit_rows(rng, positive, dimension, 0.8), unit_rows(rng, negative, dimension, 0.5)
    fit = fit_classifier(signals, near, 1.0, class_weight)
    rows = np.concatenate((signals, near)).astype(np.float64)
    labels = np.repeat([1, 0], [positive, negative])
    # newton-cholesky is exact to the last digits but factorises d × d: for the wide ones lbfgs stands in.
    solver = "newton-cholesky" if dimension == 384 else "lbfgs"
    theirs = LogisticRegression(C=1.0, class_weight=class_weight, solver=solver, tol=1e-10, max_iter=5000)
    theirs.fit(rows, labels)
    assert np.abs(theirs.coef_[0] - fit.weights).max() < 1e-6
    assert abs(theirs.intercept_[0] - fit.bias) < 1e-6


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    positive=st.integers(1, 12),
    negative=st.integers(1, 12),
    dimension=st.sampled_from([2, 8, 384]),
    log_c=st.integers(-4, 6),
    class_weight=st.sampled_from([None, "balanced"]),
    kind=st.sampled_from(["plain", "duplicates", "near-duplicates", "conflict", "near-conflict"]),
)
def test_is_the_optimum_whatever_the_exemplars(seed, positive, negative, dimension, log_c, class_weight, kind):
    rng = np.random.default_rng(seed)
    signals, near = unit_rows(rng, positive, dimension), unit_rows(rng, negative, dimension)
    both = min(positive, negative)
    if kind in ("duplicates", "near-duplicates"):
        signals[:] = signals[0]
    if kind in ("conflict", "near-conflict"):
        near[:both] = signals[:both]
    if kind.startswith("near"):
        signals += rng.normal(scale=1e-6, size=signals.shape).astype(np.float32)
    fit = fit_classifier(signals, near, 10.0**log_c, class_weight)
    rows = np.concatenate((signals, near)).astype(np.float64)
    assert fit.stop.reason != "iteration_limit"
    # w = Xᵀα to the last digits, and no gradient left beyond the rounding of C·s·(y - p).
    assert np.abs(rows.T @ fit.alphas - fit.weights).max() <= 1e-9 * (1 + np.abs(fit.alphas).sum())
    assert abs(fit.alphas.sum()) <= 1e-6 * max(1.0, np.abs(fit.alphas).max())
    curvature = 10.0**log_c * fit.sample_weights.max()
    assert gradient(fit, signals, near) <= 1e-7 * (1 + np.linalg.norm(fit.weights)) * (1 + curvature)


def test_duplicates_equal_one_row_counted_twice():
    rng = np.random.default_rng(1)
    signals, near = unit_rows(rng, 4, 30), unit_rows(rng, 4, 30)
    twice = fit_classifier(np.repeat(signals, 2, axis=0), np.repeat(near, 2, axis=0), C=0.5)
    once = fit_classifier(signals, near, C=1.0)
    assert twice.weights == pytest.approx(once.weights, abs=1e-12)
    assert twice.alphas.reshape(-1, 2).sum(axis=1) == pytest.approx(once.alphas, abs=1e-12)


def test_more_rows_than_dimensions_and_fewer_agree_at_the_border():
    rng = np.random.default_rng(2)
    signals, near = unit_rows(rng, 8, 15), unit_rows(rng, 8, 15)
    padded = [np.hstack((side, np.zeros((8, 5), np.float32))) for side in (signals, near)]
    narrow, wide = fit_classifier(signals, near, 100.0), fit_classifier(*padded, 100.0)
    assert wide.weights[:15] == pytest.approx(narrow.weights, abs=1e-9)
    assert wide.bias == pytest.approx(narrow.bias, abs=1e-9)


def test_where_rounding_is_the_limit_the_fit_says_so():
    reasons = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        signals = unit_rows(rng, 6, 64)
        near = signals + rng.normal(scale=1e-6, size=signals.shape).astype(np.float32)
        stop = fit_classifier(signals, near, C=1e9).stop
        assert stop.relative_gradient < 1e-6
        reasons.add(stop.reason)
    assert "stagnated" in reasons


def test_a_step_that_raises_the_objective_is_halved_and_given_up_at_last(monkeypatch):
    def uphill(self, point):
        return 10 * point.gradient, 0.0

    monkeypatch.setattr(fitting._Span, "step", uphill)
    fit = fit_classifier(np.eye(3)[:1], np.eye(3)[1:])
    assert (fit.stop.reason, fit.stop.iterations) == ("stagnated", fitting.PATIENCE)
    assert fit.stop.relative_gradient > 1e-3


def test_the_iteration_limit_is_a_stop_state(monkeypatch):
    monkeypatch.setattr(fitting, "ITERATION_LIMIT", 1)
    assert fit_classifier(np.eye(3)[:1], np.eye(3)[1:], C=100).stop.reason == "iteration_limit"


def test_load_bundle_is_found_when_asked_for():
    assert sq_core.load_bundle.__name__ == "load_bundle"
    with pytest.raises(AttributeError, match="no attribute 'load_bundel'"):
        _ = sq_core.load_bundel


def test_balanced_weights_are_scikit_learns():
    fit = fit_classifier(np.eye(4)[:1], np.eye(4)[1:], class_weight="balanced")
    assert fit.sample_weights == pytest.approx([2.0, 2 / 3, 2 / 3, 2 / 3])
    assert (fit.C, fit.class_weight) == (1.0, "balanced")


def test_the_same_input_gives_the_same_bytes():
    rng = np.random.default_rng(3)
    signals, near = unit_rows(rng, 12, 384), unit_rows(rng, 40, 384)
    first, again = (fit_classifier(signals.copy(), near.copy(), 1.0, "balanced") for _ in range(2))
    assert first.weights.tobytes() == again.weights.tobytes()
    assert (first.bias, first.alphas.tobytes()) == (again.bias, again.alphas.tobytes())


@pytest.mark.parametrize("empty", [[], np.zeros((0, 3))])
def test_an_empty_side_is_refused(empty):
    rows = np.eye(3)
    with pytest.raises(EmptyClass, match="no anti-signal given"):
        fit_classifier(rows, empty)
    with pytest.raises(EmptyClass, match="no signal given"):
        fit_classifier(empty, rows)


@pytest.mark.parametrize(
    ("signals", "near", "options", "message"),
    [
        ([[1.0, np.nan]], [[0.0, 1.0]], {}, "signal 0 .* NaN or infinity"),
        ([[1.0, 0.0]], [[0.0, 1.0], [np.inf, 1.0]], {}, "anti-signal 1 .* NaN or infinity"),
        ([[1.0, 0.0]], [[0.0, 1.0, 0.0]], {}, "2 dimensions and anti-signals 3"),
        ([1.0, 0.0], [[0.0, 1.0]], {}, r"shape \(2,\)"),
        ([[1.0]], [[0.0]], {"C": 0}, "C is 0"),
        ([[1.0]], [[0.0]], {"C": float("nan")}, "C is nan"),
        ([[1.0]], [[0.0]], {"C": 1e10}, "C is 10000000000.0"),
        ([[1.0]], [[-1e7]], {}, "beyond 1e.06; expected centred unit vectors"),
        ([[1.0]], [[0.0]], {"C": True}, "C is True"),
        ([[1.0]], [[0.0]], {"class_weight": "even"}, "class_weight is 'even'"),
    ],
)
def test_bad_input_is_named(signals, near, options, message):
    with pytest.raises(FitError, match=message):
        fit_classifier(signals, near, **options)


def test_a_classifier_keeps_bytes_and_hash():
    rng = np.random.default_rng(4)
    fit = fit_classifier(unit_rows(rng, 5, 16), unit_rows(rng, 5, 16))
    stored = Classifier.from_fit(fit, offset=0.25)
    read = Classifier.from_bytes(stored.to_bytes(), stored.bias, stored.offset)
    assert read == stored
    assert hash(read) == hash(stored)
    assert read.dimension == 16
    assert read.weight_hash == stored.weight_hash
    assert read.weight_hash != Classifier(stored.weights, stored.bias + 1e-9).weight_hash
    assert len(stored.to_bytes()) == 64
    assert not stored.weights.flags.writeable
    assert stored != "something else"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Classifier(np.array([np.nan], np.float32), 0.0), "NaN or infinity"),
        (lambda: Classifier(np.zeros((2, 2), np.float32), 0.0), r"shape \(2, 2\)"),
        (lambda: Classifier(np.zeros(2, np.float32), float("inf")), "bias is inf"),
        (lambda: Classifier(np.zeros(2, np.float32), 0.0, float("nan")), "offset is nan"),
        (lambda: Classifier.from_bytes(b"12345", 0.0), "5 bytes of weights"),
    ],
)
def test_a_broken_classifier_is_refused(make, message):
    with pytest.raises(ClassifierError, match=message):
        make()
