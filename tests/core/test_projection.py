"""The map and the strip."""

import numpy as np
import pytest

from sq_core.classifier import Classifier
from sq_core.fitting import fit_classifier
from sq_core.projection import project, strip


def classifier(*weights, bias=0.0):
    return Classifier(np.array(weights, np.float32), bias)


def test_by_hand():
    # Exemplars spread along x (the weights) and, less, along y: x is the margin over the cut-off, y their own axis.
    exemplars = [[1.0, 0.5], [1.0, -0.5], [-1.0, 0.5], [-1.0, -0.5]]
    xy = project([[3.0, 2.0], [0.0, -1.0]], classifier(2.0, 0.0, bias=1.0), 0.5, exemplars)
    assert xy == pytest.approx(np.array([[6.5, 2.0], [0.5, -1.0]]))


def test_y_is_orthogonal_to_the_weights_and_its_sign_is_fixed():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 12))
    fit = fit_classifier(rows[:10], rows[10:])
    own = Classifier.from_fit(fit)
    along = fit.weights / np.linalg.norm(fit.weights)
    moved = project(np.stack((rows[0], rows[0] + along)), own, 0.0, rows)
    assert moved[0, 1] == pytest.approx(moved[1, 1], abs=1e-6)
    assert project(rows, own, 0.0, rows)[:, 1] == pytest.approx(project(rows, own, 0.0, rows[::-1])[:, 1], abs=1e-9)


def test_one_exemplar_a_side_has_no_second_axis():
    fit = fit_classifier([[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    xy = project([[0.3, 0.2, 0.9]], Classifier.from_fit(fit), 0.0, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert xy[0, 1] == 0.0


@pytest.mark.parametrize("exemplars", [np.zeros((0, 2)), [[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]]])
def test_without_spread_y_is_zero(exemplars):
    assert project([[3.0, 4.0]], classifier(1.0, 1.0), 0.0, exemplars).tolist() == [[7.0, 0.0]]


def test_weights_of_zero_leave_the_exemplars_axis():
    xy = project([[0.0, 2.0]], classifier(0.0, 0.0, bias=-1.0), 0.0, [[0.0, 1.0], [0.0, -1.0]])
    assert xy == pytest.approx(np.array([[-1.0, 2.0]]))


def test_strip_and_its_shift():
    found = strip([[1.0], [3.0]], [[-1.0]], [[0.0], [1.0]], [], classifier(2.0, bias=0.5))
    assert found.signals == (2.5, 6.5)
    assert found.anti_signals == (-1.5,)
    assert found.relevant == (0.5, 2.5)
    assert found.irrelevant == ()
    assert found.shift == pytest.approx(1.5 - 4.5)
    assert strip([[1.0]], [[1.0]], [], [[1.0]], classifier(1.0)).shift is None


def test_another_dimension_is_refused():
    with pytest.raises(ValueError, match=r"expected \(n, 2\)"):
        project([[1.0, 2.0, 3.0]], classifier(1.0, 1.0), 0.0, [])
