"""Agreement of two raters: solved by hand, against scikit-learn, and where it has no value."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from sq_core.evaluation.agreement import agreement, interval, kappa, percent, tables


def test_two_by_two_by_hand() -> None:
    # 20 both yes, 5 first alone, 10 second alone, 15 both no: po = 35/50, pe = .5·.6 + .5·.4 = .5, κ = .2/.5
    table = np.array([[20, 5], [10, 15]])
    assert percent(table) == pytest.approx(0.7)
    assert kappa(table) == pytest.approx(0.4)


def test_quadratic_weights_by_hand() -> None:
    # Observed cost 4, of the pair (3, 1). Rows 1, 1, 1 and columns 2, 1, 0: expected (1·1 + 1·2 + 4·2 + 1·1) / 3 = 4.
    found = agreement([1, 2, 3], [1, 2, 1], "abc", levels=(1, 2, 3), weights="quadratic")
    assert found.kappa == pytest.approx(0.0)
    assert found.table == ((1, 0, 0), (0, 1, 0), (1, 0, 0))
    near = agreement([1, 2, 3], [1, 2, 2], "abc", levels=(1, 2, 3), weights="quadratic")
    assert near.kappa == pytest.approx(1 - 1 / ((1 * 2 + 1 * 1 + 4 * 1 + 1 * 2) / 3))


@pytest.mark.parametrize("seed", range(8))
def test_as_scikit_learn_has_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    a = draw.integers(1, 6, 80)
    b = np.clip(a + draw.integers(-1, 2, 80), 1, 5)
    table = tables(list(a), list(b), list(range(80)), levels=(1, 2, 3, 4, 5)).sum(axis=0)
    levels = [1, 2, 3, 4, 5]
    assert kappa(table) == pytest.approx(cohen_kappa_score(a, b, labels=levels))
    assert kappa(table, weights="quadratic") == pytest.approx(
        cohen_kappa_score(a, b, labels=levels, weights="quadratic")
    )


def test_no_pair_no_figure() -> None:
    found = agreement([], [], [], levels=(0, 1))
    assert (found.n, found.clusters) == (0, 0)
    assert (found.percent, found.kappa, found.low, found.high) == (None, None, None, None)


def test_two_who_always_say_the_same_one_thing() -> None:
    found = agreement([0] * 9, [0] * 9, list(range(9)), levels=(0, 1))
    assert found.percent == 1.0
    assert found.kappa is None
    assert (found.low, found.high) == (None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(cohen_kappa_score([0] * 9, [0] * 9, labels=[0, 1]))


def test_one_who_always_says_the_same_is_chance() -> None:
    assert kappa(np.array([[5, 5], [0, 0]])) == pytest.approx(0.0)


def test_whole_clusters_are_resampled() -> None:
    """Ten copies of each pair in one cluster say no more than one: the interval is as wide as without the copies."""
    draw = np.random.default_rng(3)
    a = draw.integers(0, 2, 40)
    b = np.where(draw.random(40) < 0.2, 1 - a, a)
    once = tables(list(a), list(b), list(range(40)), levels=(0, 1))
    assert interval(once * 10) == pytest.approx(interval(once))
    apart = tables(list(a) * 10, list(b) * 10, list(range(400)), levels=(0, 1))
    wide, narrow = interval(once), interval(apart)
    assert None not in (*wide, *narrow)
    assert (narrow[1] or 0) - (narrow[0] or 0) < ((wide[1] or 0) - (wide[0] or 0)) / 2
    assert interval(once) == interval(once)  # seeded


def test_too_few_clusters_have_no_interval() -> None:
    found = agreement([0, 1] * 10, [0, 1, 1, 1] * 5, ["a", "b", "c", "d", "e"] * 4, levels=(0, 1))
    assert found.kappa is not None
    assert (found.low, found.high) == (None, None)


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="expected the same number"):
        agreement([1], [1, 1], ["a"], levels=(0, 1))
    with pytest.raises(ValueError, match="none of the levels"):
        agreement([7], [1], ["a"], levels=(0, 1))
