"""Transition turns and hard negatives, on conversations small enough to mine by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.mining import JudgedConversation, MiningError, mine, running_turn, transition_turn

# TRACES.md 3.1; its turns are counted from 1, ours from 0.
HORIZON_CASES = [
    pytest.param([2, 4, 3, 5], 3, 1, id="X44"),
    pytest.param([1, 5, 5], 1, 1, id="X45"),
    pytest.param([1, 2, 3], None, None, id="X46"),
    pytest.param([2, 4], 1, 1, id="X47 before"),
    pytest.param([2, 4, 5], 2, 1, id="X47 after"),
    pytest.param([], None, None, id="no turn"),
]


@pytest.mark.parametrize(("scores", "whole", "running"), HORIZON_CASES)
def test_the_two_rules(scores, whole, running):
    assert transition_turn(scores) == whole
    assert running_turn(scores) == running


@given(st.lists(st.integers(1, 5), max_size=12), st.lists(st.integers(1, 5), max_size=4))
def test_the_running_rule_never_changes_its_mind(scores, later):
    first = running_turn(scores)
    assert first is None or running_turn(scores + later) == first


def vector(degrees):
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def conversation(name, *turns, finished=True):
    """turns: (text, degrees, score)."""
    texts, angles, scores = zip(*turns, strict=True)
    return JudgedConversation(
        id=name,
        scenario=f"scenario of {name}",
        texts=texts,
        vectors=np.stack([vector(angle) for angle in angles]),
        scores=scores,
        finished=finished,
    )


def texts(exemplars):
    return [each.text for each in exemplars]


def test_signals_and_the_nearest_irrelevant_turns():
    mined = mine(
        [
            conversation("a", ("hi", 90, 1), ("cancel it", 0, 5), ("thanks", 80, 2)),
            conversation("b", ("change it", 10, 1), ("where is my bag", 45, 1), ("a pet", 120, 1), ("odd", 200, 1)),
        ],
        ratio=3,
    )
    assert texts(mined.signals) == ["cancel it"]
    # Three per signal, nearest first; "thanks" scored 2 is no hard negative, "odd" is beyond the budget of hi's rank.
    assert texts(mined.anti_signals) == ["change it", "where is my bag", "hi"]
    assert mined.anti_signals[0].similarity == pytest.approx(np.cos(np.radians(10)), abs=1e-6)
    assert (mined.signals[0].conversation, mined.signals[0].scenario) == ("a", "scenario of a")
    assert (mined.signals[0].user_turn, mined.signals[0].score, mined.signals[0].label_horizon) == (1, 5, 2)
    assert mined.report.irrelevant_turns == 5
    assert mined.report.without_transition == 1
    assert mined.enough(1, 3)
    assert not mined.enough()


def test_max_irrelevant_two_is_a_named_variant():
    given = [conversation("a", ("hi", 90, 2), ("cancel it", 0, 4))]
    assert texts(mine(given).anti_signals) == []
    assert "no turn scored 1 or less" in mine(given).report.reasons[0]
    assert texts(mine(given, max_irrelevant=2).anti_signals) == ["hi"]


def test_duplicates_go_before_the_budget_is_spent():
    given = [
        conversation("a", ("cancel", 0, 5), ("yes", 20, 1), ("bag", 50, 1)),
        conversation("b", ("cancel", 0, 5), ("yes", 20, 1)),
    ]
    mined = mine(given, ratio=2)
    assert texts(mined.signals) == ["cancel"]
    assert mined.signals[0].conversation == "a"
    assert texts(mined.anti_signals) == ["yes", "bag"]
    assert (mined.report.duplicate_signals, mined.report.duplicate_anti_signals) == (1, 1)


def test_a_signals_text_is_no_anti_signal_and_the_conflict_is_listed():
    given = [
        conversation("a", ("yes", 0, 5), ("bag", 40, 1)),
        conversation("b", ("yes", 0, 1)),
    ]
    mined = mine(given, ratio=1)
    assert texts(mined.anti_signals) == ["bag"]
    assert [(c.text, c.signal, c.anti_signal) for c in mined.conflicts] == [("yes", ("a", 0), ("b", 0))]
    as_the_reference = mine(given, ratio=1, remove_conflicts=False)
    assert texts(as_the_reference.anti_signals) == ["yes"]
    assert as_the_reference.conflicts == mined.conflicts


def test_a_partly_judged_conversation_waits_with_its_missing_count():
    given = [
        conversation("a", ("cancel", 0, 5), ("bag", 40, None), ("pet", 60, None)),
        conversation("b", ("cancel now", 5, 4), ("hello", 90, 1)),
    ]
    mined = mine(given)
    assert texts(mined.signals) == ["cancel now"]
    assert mined.report.partly_judged == (("a", 2),)
    assert mined.report.missing == 2
    assert mined.report.mined == 1
    assert mined.report.conversations == 2
    assert "2 turns to judge" in mined.report.reasons[0]


def test_open_conversations_are_for_the_running_rule():
    given = [conversation("a", ("hello", 90, 1), ("cancel", 0, 4), ("cancel all", 3, 5), finished=False)]
    assert mine(given).signals == ()
    assert mine(given).report.unfinished == ("a",)
    assert len(mine(given).report.reasons) == 2
    running = mine(given, rule="running")
    assert texts(running.signals) == ["cancel"]
    assert running.rule == "running"
    assert running.signals[0].label_horizon == 1
    assert running.anti_signals[0].label_horizon == 0


def test_what_never_occurred_says_so():
    report = mine([conversation("a", ("hello", 0, 1))]).report
    assert "never relevant in the 1 conversations" in report.reasons[0]
    assert mine([]).report.reasons == ("no fully judged conversation",)


def test_equal_cosines_keep_reading_order():
    given = [conversation("a", ("cancel", 0, 5), ("left", 30, 1), ("right", -30, 1), ("left again", 30, 1))]
    assert texts(mine(given, ratio=2).anti_signals) == ["left", "right"]


def test_bad_settings_are_named():
    with pytest.raises(MiningError, match="rule is 'latest'"):
        mine([], rule="latest")
    with pytest.raises(MiningError, match="max_irrelevant is 4"):
        mine([], max_irrelevant=4)
    with pytest.raises(MiningError, match="conversation a: 1 texts, 1 vectors and 2 scores"):
        JudgedConversation("a", "s", ("hi",), np.zeros((1, 2)), (1, 2))
