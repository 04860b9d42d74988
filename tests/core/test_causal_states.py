"""What S&Q may have seen at a user turn (TRACES 3.1), and that every hand-computed case has its test."""

import dataclasses
import re
from pathlib import Path

import pytest

from sq_core.causal.states import check_judgement, check_view, query_states
from sq_core.causal.trace import CausalityError
from tests.core.test_causal import A, log, user


def test_later_messages_change_no_query_state():
    states = query_states(log(*A))
    assert [(s.user_turn, s.visible_upto) for s in states] == [(0, 1), (1, 6)]
    assert query_states(log(*A, user("thanks")))[:2] == states
    changed = dataclasses.replace(states[1], digest="0" * 64)
    assert query_states(log(*A[:5], user("other"), *A[6:]))[0] == states[0]
    assert changed != states[1]


def test_a_view_of_anything_later_names_the_conversation():
    conversation = log(*A)
    state = query_states(conversation)[0]
    check_view(state, conversation.messages[:2])
    with pytest.raises(CausalityError, match=r"trace s1, message 2: is shown at user turn 0"):
        check_view(state, conversation.messages[:4])


def test_a_judgement_of_another_prefix_is_refused():
    state = query_states(log(*A))[1]
    check_judgement(state, state.visible_upto, state.digest)
    check_judgement(state, None, None)
    with pytest.raises(CausalityError, match=r"trace s1, message 8: .* saw up to here"):
        check_judgement(state, 8, state.digest)
    with pytest.raises(CausalityError, match=r"trace s1, message 6: .* another prefix"):
        check_judgement(state, state.visible_upto, "0" * 64)


def test_every_case_of_the_specification_has_a_test():
    """X1 to X55 by name, in a test's name or docstring; X33 to X37 stand as a range."""
    found: set[int] = set()
    for path in Path(__file__).resolve().parent.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        found |= {int(number) for number in re.findall(r"def test_(?:x\d+_)*?x(\d+)_", text)}
        found |= {int(n) for names in re.findall(r"def test_((?:x\d+_)+)", text) for n in re.findall(r"\d+", names)}
        for first, last in re.findall(r"def test_x(\d+)_to_x(\d+)_", text):
            found |= set(range(int(first), int(last) + 1))
    assert sorted(set(range(1, 56)) - found) == []


def test_every_ranking_method_is_documented_once_and_no_other():
    from sq_core.ranking.methods import METHODS

    text = (Path(__file__).resolve().parents[2] / "docs/traces.md").read_text(encoding="utf-8")
    section = text.split("## Methods")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)) == sorted(METHODS)
