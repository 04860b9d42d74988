"""Every margin is the sum of its exemplars' terms."""

from typing import Any

import numpy as np
import pytest

from sq_core.attribution import attribute, leave_one_out, leave_one_out_estimate
from sq_core.classifier import Classifier, Polarity
from sq_core.fitting import fit_classifier

S, A = Polarity.SIGNAL, Polarity.ANTI_SIGNAL


def unit_rows(rng, n, d):
    rows = rng.normal(size=(n, d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_by_hand():
    found = attribute([[1.0, 0.0], [0.0, 1.0]], [0.5, -0.25], 0.1, [2.0, 4.0], [S, A], stored=0.2)
    assert [(term.index, term.alpha, term.value) for term in found.terms] == [(0, 0.5, 1.0), (1, -0.25, -1.0)]
    assert (found.show, found.dont_show, found.bias) == (1.0, -1.0, 0.1)
    assert found.total == pytest.approx(0.1)
    assert found.residual == pytest.approx(0.1)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_sum_is_the_margin(class_weight):
    rng = np.random.default_rng(0)
    signals, near = unit_rows(rng, 11, 384), unit_rows(rng, 30, 384)
    fit = fit_classifier(signals, near, 1.0, class_weight)
    stored = Classifier.from_fit(fit)
    polarity = [S] * 11 + [A] * 30
    for query in unit_rows(rng, 20, 384):
        exact = float(fit.weights @ query + fit.bias)
        shown = round(float(stored.weights.astype(np.float64) @ query.astype(np.float64)) + stored.bias, 6)
        found = attribute(np.concatenate((signals, near)), fit.alphas, fit.bias, query, polarity, stored=shown)
        assert abs(found.total - exact) <= 1e-9
        assert found.residual is not None
        assert abs(found.residual) <= 1e-6
        assert found.show + found.dont_show + found.bias == found.total


def test_without_a_stored_margin_there_is_no_residual():
    assert attribute(np.zeros((0, 2)), [], 0.5, [1.0, 0.0], []).residual is None


def test_lengths_must_match():
    with pytest.raises(ValueError, match="do not belong together"):
        attribute([[1.0, 0.0]], [0.5, 0.5], 0.0, [1.0, 0.0], [S])


def test_leave_one_out_is_a_refit_without_it():
    rng = np.random.default_rng(1)
    signals, near = unit_rows(rng, 3, 6), unit_rows(rng, 2, 6)
    margins = leave_one_out(signals, near, 1.0, "balanced")
    without = fit_classifier(signals[1:], near, 1.0, "balanced")
    assert margins[0] == pytest.approx(float(without.weights @ signals[0] + without.bias))
    without = fit_classifier(signals, near[:1], 1.0, "balanced")
    assert margins[4] == pytest.approx(float(without.weights @ near[1] + without.bias))


def test_the_only_one_of_a_side_cannot_be_left_out():
    margins = leave_one_out(np.eye(3)[:1], np.eye(3)[1:])
    assert np.isnan(margins[0])
    assert not np.isnan(margins[1:]).any()


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize(
    ("signals", "anti_signals", "dimensions", "C", "within"),
    [
        (20, 20, 384, 1.0, 1e-3),
        (12, 5, 384, 1.0, 0.01),
        (20, 20, 384, 10.0, 5e-3),
        (10, 10, 64, 1.0, 5e-3),
        (6, 10, 8, 1.0, 0.05),  # more exemplars than dimensions
        (60, 20, 20, 1.0, 0.02),
        (3, 2, 8, 1.0, 0.1),
    ],
)
def test_the_estimate_is_near_the_exact_refits(
    signals: int, anti_signals: int, dimensions: int, C: float, within: float, class_weight: Any
) -> None:
    rng = np.random.default_rng(signals + dimensions)
    towards = rng.normal(size=dimensions)

    def side(n: int, sign: float) -> Any:
        rows = rng.normal(size=(n, dimensions)) + sign * 0.3 * towards
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    both = side(signals, 1.0), side(anti_signals, -1.0)
    exact, estimate = leave_one_out(*both, C, class_weight), leave_one_out_estimate(*both, C, class_weight)
    assert np.abs(exact - estimate).max() < within
    assert np.array_equal(np.argsort(exact), np.argsort(estimate)) or dimensions < 64


def test_the_estimate_takes_repeated_rows_and_has_no_word_on_a_side_of_one() -> None:
    rows = np.eye(4)
    once = leave_one_out_estimate(rows[:1], rows[1:])
    assert np.isnan(once[0])
    assert np.abs(once[1:] - leave_one_out(rows[:1], rows[1:])[1:]).max() < 0.05
    again = np.repeat(rows[:2], 30, axis=0)
    found = leave_one_out_estimate(again, np.repeat(rows[2:], 30, axis=0), 100.0, "balanced")
    assert np.isfinite(found).all()
    assert found[:60].min() > found[60:].max()


def test_a_thousand_exemplars_take_no_thousand_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        fits.append(1)
        return fit_classifier(*args, **kwargs)

    monkeypatch.setattr("sq_core.attribution.fit_classifier", counted)
    rows = np.random.default_rng(1).normal(size=(1_000, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert leave_one_out_estimate(rows[:500], rows[500:]).shape == (1_000,)
    assert len(fits) == 1
