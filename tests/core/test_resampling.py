"""Clustered inference against answers worked out by hand (TRACES X33–X37)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.evaluation.resampling import (
    cluster_sums,
    clustered_difference,
    holm,
    paired_statistics,
    sign_flip,
)


def test_the_mean_is_over_rows_and_the_p_over_clusters():
    values, groups = [1, 1, 1, 1, -0.5, 0.5], ["a"] * 4 + ["b", "c"]
    sums, counts = cluster_sums(values, groups)
    assert (sums.tolist(), counts.tolist()) == ([4, -0.5, 0.5], [4, 1, 1])
    assert clustered_difference(values, np.zeros(6), groups).estimate == pytest.approx(2 / 3)
    assert sign_flip(sums) == pytest.approx(0.75)  # |±4 ∓.5 ±.5| ≥ 4 in 6 of 8
    assert sign_flip(values) == pytest.approx(6 / 64)  # what rows taken for independent would claim


def test_few_clusters_give_no_p():
    found = clustered_difference([1.0, 1.0], [0.0, 0.0], ["a", "b"])
    assert found.p is None
    assert "too few groups" in found.note
    assert not found.spans_zero


def test_no_difference_is_no_evidence():
    found = clustered_difference(np.ones(20), np.ones(20), [i // 2 for i in range(20)])
    assert (found.low, found.high, found.p, found.spans_zero) == (0, 0, 1.0, True)
    assert found.note == "10 groups, p = 1.000"


def test_the_bootstrap_takes_the_four_draws_of_two_clusters():
    found = clustered_difference([1, 1, 1, 1, -0.5], np.zeros(5), list("aaaab"))
    assert found.estimate == pytest.approx(0.7)
    assert (found.low, found.high) == pytest.approx((-0.5, 1.0))


def test_duplicated_rows_change_nothing():
    rng = np.random.default_rng(1)
    values, groups = rng.normal(size=16), [i // 2 for i in range(16)]
    once = clustered_difference(values, np.zeros(16), groups)
    twice = clustered_difference(np.repeat(values, 2), np.zeros(32), np.repeat(groups, 2).tolist())
    assert (twice.low, twice.high, twice.p) == pytest.approx((once.low, once.high, once.p))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.9, 0.8]) == (1.0, 1.0)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_sign_flip_is_a_share_and_blind_to_the_sign(sums):
    p = sign_flip(sums)
    assert 0 < p <= 1
    assert sign_flip([-each for each in sums]) == pytest.approx(p)


def test_many_clusters_are_sampled():
    assert sign_flip(np.ones(20), draws=500) == pytest.approx(1 / 501)


def test_statistics_that_are_no_means_are_compared_on_whole_scenarios():
    value = np.repeat(np.arange(8.0), 2)
    scenarios = [f"s{i // 2}" for i in range(16)]

    def mean(of):
        return lambda weights: float(weights @ of / weights.sum())

    found = paired_statistics(mean(value), mean(value - 1), scenarios)
    assert (found.estimate, found.low, found.high) == pytest.approx((1, 1, 1))
    assert found.p == pytest.approx(2 / 256)  # of all 2^8 signs only the two constant ones
    assert paired_statistics(lambda _: None, mean(value), scenarios) is None


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="one value per row"):
        cluster_sums([1.0], ["a", "b"])
    with pytest.raises(ValueError, match="no rows"):
        clustered_difference([], [], [])
