"""θ in other words, per artifact and per genre, and the recall it realises where it was not chosen."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.evaluation.operating_points import (
    artifact_promises,
    cost_ratio_of_theta,
    probability_of_theta,
    reliability,
    side_by_side,
    theta_of_costs,
    theta_of_probability,
)


@given(st.floats(-30, 30))
def test_probability_and_back(theta):
    assert theta_of_probability(probability_of_theta(theta)) == pytest.approx(theta, abs=1e-2)


def test_costs_by_hand():
    assert theta_of_costs(10, 1) == pytest.approx(-math.log(10))
    assert cost_ratio_of_theta(theta_of_costs(10, 1)) == pytest.approx(10)
    assert theta_of_costs(1, 1) == 0.0
    assert probability_of_theta(theta_of_costs(9, 1)) == pytest.approx(0.1)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.2])
def test_impossible_probabilities_are_refused(value):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        theta_of_probability(value)


@pytest.mark.parametrize("costs", [(0, 1), (1, -1), (math.inf, 1)])
def test_impossible_costs_are_refused(costs):
    with pytest.raises(ValueError, match="positive number"):
        theta_of_costs(*costs)


def test_an_artifact_with_enough_scenarios_has_its_own_promise():
    """a occurs in 20 scenarios with margins 1..20, b in 10, c in 10 others."""
    scores, relevant = np.full((40, 3), -9.0), np.zeros((40, 3), dtype=bool)
    scores[:20, 0], relevant[:20, 0] = np.arange(1, 21), True
    scores[20:30, 1], relevant[20:30, 1] = 5.0, True
    scores[30:, 2], relevant[30:, 2] = 7.0, True
    own, *others = artifact_promises(scores, relevant, range(40), ["a", "b", "c"])
    # 20/21·k/20 + 1/21 ≤ .1 holds for k = 1 missed: θ lies just below 2
    assert (own.pooled, own.promise.scenarios) == (False, 20)
    assert own.theta == pytest.approx(2.0, abs=1e-5)
    assert [each.pooled for each in others] == [True, True]
    assert others[0].theta == others[1].theta == pytest.approx(5.0, abs=1e-5)
    assert "pooled with the others" in others[0].note
    assert "expected miss rate" in own.note


def test_too_few_even_together_is_a_result():
    scores, relevant = np.ones((4, 1)), np.ones((4, 1), dtype=bool)
    (only,) = artifact_promises(scores, relevant, range(4), ["a"])
    assert only.theta is None
    assert "too few labels" in only.note
    with pytest.raises(ValueError, match="2 artifacts"):
        artifact_promises(scores, relevant, range(4), ["a", "b"])


def test_reliability_by_hand():
    scores = np.array([[0.0, 0.0], [np.log(9), -np.inf]])
    found = reliability(scores, [[True, False], [True, True]])
    assert found.probability == pytest.approx([0.5, 0.9])
    assert found.share == pytest.approx([0.5, 1.0])
    assert found.count.tolist() == [2, 1]
    assert found.error == pytest.approx(0.1 / 3)
    assert found.brier == pytest.approx((0.25 + 0.25 + 0.01) / 3)
    with pytest.raises(ValueError, match="no judged pair"):
        reliability(scores, np.ones((2, 2)), np.zeros((2, 2)))


def made(seed=0, scenarios=40, shift=3.0):
    """Two artifacts with the same skill whose margins lie ``shift`` apart."""
    rng = np.random.default_rng(seed)
    relevant = rng.random((scenarios * 4, 2)) < 0.4
    scores = rng.normal(size=relevant.shape) + 3 * relevant + np.array([0.0, shift])
    return scores, relevant, [f"s{i // 4:02d}" for i in range(len(scores))]


def test_cut_offs_of_their_own_help_where_scales_differ():
    scores, relevant, scenarios = made()
    rows = {row["method"]: row for row in side_by_side(scores, relevant, scenarios, ["generated", "mined"])}
    one, genre, offsets = rows["one-theta"], rows["theta-per-genre"], rows["offsets"]
    assert genre["precision"] > one["precision"] + 0.1
    assert offsets["precision"] > one["precision"] + 0.1
    assert all(row["recall"] > 0.8 for row in rows.values())
    same = {row["method"]: row for row in side_by_side(scores, relevant, scenarios, ["mined", "mined"])}
    assert same["theta-per-genre"]["recall"] == same["one-theta"]["recall"]
    promised = rows["promised-theta"]  # never above the θ of the target alone
    assert promised["recall"] >= one["recall"]
    assert promised["kept"] >= one["kept"]
    assert promised["removed"] == 1 - promised["kept"]
    assert (promised["artifacts"], promised["artifacts_at_target"]) == (2, 1)  # the shifted one alone
    with pytest.raises(ValueError, match="1 genres"):
        side_by_side(scores, relevant, scenarios, ["mined"])
