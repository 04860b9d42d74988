"""Every margin is the sum of its exemplars' terms."""

import numpy as np
import pytest

from sq_core.attribution import attribute, leave_one_out
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
