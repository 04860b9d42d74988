"""Choosing θ and what may be promised about it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.evaluation.calibration import (
    calibrate_theta,
    percentile_interval,
    promise_theta,
    scenario_draws,
)
from sq_core.evaluation.metrics import operating_point


def test_theta_by_hand():
    scores = np.array([[4.0], [3.0], [2.0], [1.0]])
    relevant = np.array([[True], [False], [True], [False]])
    found = calibrate_theta(scores, relevant, 0.9, scenarios=["a", "a", "b", "b"])
    # Above 1 lie both relevant states: the largest θ that still catches them.
    assert found.theta == 1.0
    assert (found.recall, found.precision, found.kept) == pytest.approx((1.0, 2 / 3, 3 / 4))
    assert (found.states, found.scenarios, found.artifacts, found.relevant_pairs) == (4, 2, 1, 2)
    assert found.reached
    assert calibrate_theta(scores, relevant, 0.5).theta == 3.0


def test_the_promise_lowers_theta_by_hand():
    """Twenty scenarios of one relevant state with margins 1 … 20: 18 of 20 reach the target, the promise needs 19.

    One miss in 20 gives 20/21 · 1/20 + 1/21 = 2/21 ≤ .1; two give 3/21.
    """
    scores, relevant, names = np.arange(1.0, 21.0)[:, None], np.ones((20, 1), bool), list("abcdefghijklmnopqrst")
    ours = calibrate_theta(scores, relevant, 0.9, scenarios=names)
    plain = calibrate_theta(scores, relevant, 0.9, scenarios=names, rule="target")
    assert (plain.theta, plain.target_theta, plain.recall, plain.promised) == (2.0, 2.0, 0.9, False)
    assert ours.theta == ours.promise.theta == pytest.approx(2.0, abs=1e-6)
    assert (ours.target_theta, ours.recall, ours.promised) == (2.0, 0.95, True)
    assert not calibrate_theta(scores[:8], relevant[:8], 0.9, scenarios=names[:8]).promised  # too few labels
    alone = calibrate_theta(scores, relevant, 0.9)  # whose states are whose is not known: no promise
    assert (alone.theta, alone.promised) == (2.0, False)


def test_the_target_decides_where_it_asks_for_more():
    """A rare artifact that scores low moves the macro recall, and hardly the share of a scenario's pairs."""
    scores, relevant = np.full((40, 2), 5.0), np.zeros((40, 2), dtype=bool)
    relevant[:, 0], relevant[:2, 1], scores[:2, 1] = True, True, 1.0
    found = calibrate_theta(scores, relevant, 0.9, scenarios=[f"s{i}" for i in range(40)])
    assert found.promise.theta is not None
    assert found.theta == found.target_theta < found.promise.theta
    assert (found.recall, found.promised) == (1.0, True)


@settings(deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.8, 0.9, 1.0]))
def test_the_promise_never_raises_theta(seed, target):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.integers(0, 20, size=(30, 3)) / 8, rng.random((30, 3)) < 0.4
    relevant[0] = True
    ours, plain = (
        calibrate_theta(scores, relevant, target, scenarios=[i // 2 for i in range(30)], rule=rule)
        for rule in ("promise", "target")
    )
    assert ours.theta <= plain.theta == ours.target_theta
    assert ours.recall >= target - 1e-9
    assert ours.promised == ours.promise.enough


@settings(deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.8, 0.9, 1.0]))
def test_theta_is_the_largest_that_reaches_the_target(seed, target):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.integers(0, 20, size=(15, 4)) / 8, rng.random((15, 4)) < 0.3
    relevant[0] = True
    found = calibrate_theta(scores, relevant, target)
    assert found.recall >= target - 1e-9
    higher = np.unique(scores[scores > found.theta])
    assert all(operating_point(scores, relevant, theta).recall < target for theta in higher)


def test_an_artifact_without_a_classifier_may_put_the_target_out_of_reach():
    scores = np.array([[1.0, -np.inf], [0.0, -np.inf]])
    found = calibrate_theta(scores, np.ones((2, 2), bool), 0.9)
    assert not found.reached
    assert found.recall == 0.5
    assert found.theta < 0.0


def test_unjudged_pairs_are_left_out():
    judged = np.array([[True], [True], [False]])
    found = calibrate_theta([[3.0], [2.0], [1.0]], [[True], [False], [True]], 0.9, judged=judged)
    assert found.theta == 2.0
    assert found.relevant_pairs == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate_theta([[1.0]], [[False]], 0.9), "no relevant judgement"),
        (lambda: calibrate_theta([[1.0]], [[True]], 1.5), "target recall is 1.5"),
        (lambda: calibrate_theta([[1.0]], [[True]], 0.9, rule="hope"), "rule is 'hope'"),
        (lambda: promise_theta([[1.0]], [[True]], ["a", "b"]), "2 scenarios for 1 states"),
        (lambda: promise_theta([[1.0]], [[True]], ["a"], 1.0), "miss rate is 1.0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_promise_by_hand():
    # Ten scenarios of one relevant pair each, α = 0.2: bound(k missed) = 10/11 · k/10 + 1/11 = (k + 1)/11 ≤ .2 for k = 1.
    scores, names = np.arange(10.0)[:, None], [f"s{i}" for i in range(10)]
    found = promise_theta(scores, np.ones((10, 1), bool), names, 0.2)
    assert found.theta == pytest.approx(1.0, abs=1e-6)
    assert found.theta < 1.0
    assert (found.risk, found.bound) == pytest.approx((0.1, 2 / 11))
    assert (found.scenarios, found.relevant_pairs, found.needed) == (10, 10, 4)
    assert found.enough
    assert "10 scenarios" in found.note


def test_a_scenarios_loss_is_its_share_of_pairs():
    # Nine scenarios: the first has ten pairs, of which one may be missed at a tenth of its loss.
    names = ["first"] * 10 + [f"s{i}" for i in range(8)]
    scores = np.concatenate(([0.0], np.arange(10.0, 27.0)))[:, None]
    found = promise_theta(scores, np.ones((18, 1), bool), names, 0.12)
    # n = 9: bound = 9/10 · (1/10)/9 + 1/10 = .11 after one miss, .12 after two, more than that after three.
    assert found.bound == pytest.approx(0.12)
    assert found.theta == pytest.approx(11.0, abs=1e-6)


def test_tied_margins_fire_together():
    names = [f"s{i}" for i in range(20)]
    scores = np.concatenate((np.zeros(3), np.ones(17)))[:, None]
    found = promise_theta(scores, np.ones((20, 1), bool), names, 0.1)
    assert found.theta == pytest.approx(0.0, abs=1e-6)
    assert found.theta < 0.0
    assert found.risk == 0.0


def test_too_few_labels_are_said():
    found = promise_theta(np.zeros((8, 1)), np.ones((8, 1), bool), list("abcdefgh"))
    assert not found.enough
    assert (found.theta, found.risk, found.bound, found.needed) == (None, None, None, 9)
    assert found.note.startswith("too few labels: 8 scenarios")
    # Scenarios without a relevant pair say nothing about misses.
    relevant = np.ones((10, 1), bool)
    relevant[:2] = False
    assert promise_theta(np.zeros((10, 1)), relevant, list("abcdefghij")).scenarios == 8


def test_nothing_promises_a_miss_rate_of_zero():
    found = calibrate_theta(np.arange(30.0)[:, None], np.ones((30, 1), bool), 1.0)
    assert found.recall == 1.0
    assert (found.promise.enough, found.promise.needed) == (False, None)
    assert "no number of labels" in found.promise.note


def test_what_can_never_fire_breaks_the_promise():
    found = promise_theta(np.full((9, 1), -np.inf), np.ones((9, 1), bool), list("abcdefghi"))
    assert not found.enough
    assert "without a classifier" in found.note


def test_the_promise_holds_on_new_scenarios():
    # Exchangeable scenarios of one to four pairs: over many draws the mean miss rate stays below the promise.
    rng = np.random.default_rng(0)
    misses = []
    for _ in range(300):
        pairs = rng.integers(1, 5, size=21)
        owner = np.repeat(np.arange(21), pairs)
        margins = rng.normal(size=21)[owner] + rng.normal(size=len(owner))
        known = owner < 20
        found = promise_theta(margins[known, None], np.ones((known.sum(), 1), bool), owner[known].tolist(), 0.2)
        assert found.theta is not None
        misses.append(np.mean(margins[~known] <= found.theta))
    assert np.mean(misses) <= 0.2 + 2 * np.std(misses) / np.sqrt(len(misses))
    assert np.mean(misses) > 0.1


def test_draws_resample_whole_scenarios():
    weights = scenario_draws(["b", "a", "b", "c"], draws=50, seed=1)
    assert weights.shape == (50, 4)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, :2].sum(axis=1) + weights[:, 3] == 3).all()
    assert (weights == scenario_draws(["b", "a", "b", "c"], draws=50, seed=1)).all()


def test_interval():
    found = percentile_interval([*np.arange(101.0), None])
    assert found is not None
    assert (found.low, found.high, found.draws) == pytest.approx((2.5, 97.5, 101))
    assert percentile_interval([None]) is None
