"""What a new version keeps of its parent: share, recall, and the turn that was just promoted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sq_core.offset import HALF_STEP, choose_offset, hold_recall, hold_share, lower_to_fire, recall_at

margins = hnp.arrays(np.float64, st.integers(1, 60), elements=st.integers(-40, 40).map(lambda k: k / 8))


def fired(values, cutoff):
    return int(np.count_nonzero(np.asarray(values) > cutoff))


def test_share_by_hand():
    # The parent fires on 2 of 5; the new version's second highest margin is 3.
    offset = hold_share([0, 1, 2, 3, 4], [1, 4, 2, 0, 3], parent_cutoff=2.0, theta=-0.5)
    assert offset == pytest.approx(3.5 - HALF_STEP)
    assert fired([1, 4, 2, 0, 3], -0.5 + offset) == 2


def test_ties_fire_rather_than_miss():
    offset = hold_share([0, 0, 0, 1], [2, 2, 2, 0], parent_cutoff=0.5, theta=0.0)
    assert fired([2, 2, 2, 0], offset) == 3


def test_where_the_parent_fired_on_none_its_distance_is_kept():
    offset = hold_share([0, 1], [5, 6], parent_cutoff=1.5, theta=0.0)
    assert offset == pytest.approx(6.5)
    assert fired([5, 6], offset) == 0


def test_where_the_parent_fired_on_all_its_distance_is_kept():
    offset = hold_share([0, 1], [5, 6], parent_cutoff=-2.0, theta=0.0)
    assert offset == pytest.approx(3.0)
    assert fired([5, 6], offset) == 2


def test_without_a_background_the_cutoff_stays():
    assert hold_share([], [], parent_cutoff=0.3, theta=-0.1) == pytest.approx(0.4)


@given(margins, st.integers(0, 2**31), st.integers(-50, 50).map(lambda k: k / 8), st.sampled_from([-0.07, 0.0, 1.5]))
def test_never_fewer_fire_and_no_higher_cutoff_would_do(parent, seed, cutoff, theta):
    new = np.random.default_rng(seed).permutation(parent) * 1.5
    offset = hold_share(parent, new, cutoff, theta)
    before = fired(parent, cutoff)
    assert fired(new, theta + offset) >= before
    if 0 < before < len(new):
        assert fired(new, theta + offset + 2 * HALF_STEP) < before


@given(margins, st.sampled_from([-0.07, 0.0]))
def test_an_unchanged_version_keeps_every_decision(parent, theta):
    for cutoff in (-100.0, float(np.median(parent)), 100.0):
        offset = hold_share(parent, parent, cutoff, theta)
        assert ((parent > theta + offset) == (parent > cutoff)).all()


def test_recall_by_hand():
    relevant = [0.1, 0.2, 0.3, 0.4, 0.5]
    offset = hold_recall(relevant, theta=-0.1, target=0.8)
    assert recall_at(relevant, -0.1 + offset) == pytest.approx(0.8)
    assert recall_at(relevant, -0.1 + offset + 2 * HALF_STEP) == pytest.approx(0.6)
    assert recall_at([], 0.0) == 1.0


@given(margins, st.sampled_from([0.01, 0.5, 0.9, 1.0]))
def test_recall_reaches_its_target(relevant, target):
    offset = hold_recall(relevant, 0.0, target)
    assert recall_at(relevant, offset) >= target - 1e-9
    assert recall_at(relevant, offset + 2 * HALF_STEP) < target


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hold_recall([], 0.0, 0.9), "no relevant turn"),
        (lambda: hold_recall([1.0], 0.0, 0.0), "target recall is 0.0"),
        (lambda: hold_share([1.0], [1.0, 2.0], 0.0, 0.0), "1 parent margins and 2 new ones"),
        (lambda: hold_share([np.nan], [1.0], 0.0, 0.0), "finite numbers"),
        (lambda: choose(parent_relevant=[1.0], new_relevant=[]), "1 parent margins and 0 new ones"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def choose(**changes):
    given = {
        "parent_background": [0.0, 1.0, 2.0],
        "new_background": [10.0, 11.0, 12.0],
        "parent_relevant": [],
        "new_relevant": [],
        "parent_cutoff": 1.5,
        "theta": 1.0,
    }
    return choose_offset(**{**given, **changes})


def test_with_few_relevant_turns_the_share_is_held():
    choice = choose(parent_relevant=[2.0] * 19, new_relevant=[-5.0] * 19)
    assert (choice.rule, choice.relevant, choice.parent_recall, choice.lowered) == ("share", 19, 1.0, False)
    assert choice.offset == pytest.approx(11.0 - HALF_STEP)


def test_with_enough_the_parents_recall_is_held_not_the_target():
    before = np.concatenate((np.full(15, 2.0), np.full(5, 0.0)))  # recall .75
    choice = choose(parent_relevant=before, new_relevant=np.arange(20.0))
    assert (choice.rule, choice.parent_recall) == ("recall", 0.75)
    assert choice.offset == pytest.approx(4.0 - HALF_STEP)  # 15 of 0..19 lie above 5 - HALF_STEP


def test_a_parent_that_caught_nothing_has_no_recall_to_hold():
    choice = choose(parent_relevant=[0.0] * 20, new_relevant=[0.0] * 20)
    assert (choice.rule, choice.parent_recall) == ("share", 0.0)


def test_what_was_just_promoted_fires():
    choice = choose(must_fire=[20.0, 3.0])
    assert choice.lowered
    assert 1.0 + choice.offset < 3.0
    assert choice.offset == pytest.approx(2.0 - HALF_STEP)
    assert lower_to_fire(0.5, 0.0, []) == 0.5
