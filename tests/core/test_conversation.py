"""Message objects of every shape that logs bring, user turns, digests and the renderer."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.conversation import (
    Message,
    MessageError,
    ToolCall,
    canonical_json,
    clean_text,
    messages_from_json,
    parse_time,
    prefix,
    prefix_digests,
    read_messages,
    render,
    user_turns,
)


def test_clean_text_replaces_what_cannot_be_stored_and_counts_it() -> None:
    assert clean_text("a\x00b\ud800c") == ("a�b�c", 2)
    assert clean_text("RTL ‮ and 😀 and \x07 stay") == ("RTL ‮ and 😀 and \x07 stay", 0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
        ([{"type": "text", "value": "a"}], "a"),
        ([{"input_text": "a"}, {"output_text": "b"}], "a\nb"),
        ([{"type": "text", "text": {"value": "a"}}], "a"),
        ([{"parts": ["a", {"text": "b"}]}], "a\nb"),
        ([{"type": "image_url", "image_url": {"url": "u"}}, {"type": "tool_result", "content": "r"}], ""),
        (["a", "b"], "a\nb"),
    ],
)
def test_content_in_every_form(content: object, text: str) -> None:
    assert messages_from_json([{"role": "user", "content": content}])[0].content == text


def test_content_may_be_absent_and_a_tool_may_answer_with_an_object() -> None:
    messages = messages_from_json([{"role": "assistant"}, {"role": "tool", "content": {"b": 1, "a": "é"}}])
    assert [message.content for message in messages] == ["", '{"b":1,"a":"é"}']


def test_tool_calls_in_both_forms_and_fields_of_a_message() -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"name": "g", "arguments": {"b": 2}},
        {"id": 7, "name": "h"},
    ]
    first, second = messages_from_json(
        [
            {"role": "assistant", "tool_calls": calls, "timestamp": 1772467451},
            {"role": "function", "content": "r", "tool_call_id": "c1", "requestor": "user", "visible_to_agent": False},
        ]
    )
    assert first.tool_calls == (ToolCall("c1", "f", '{"a": 1}'), ToolCall(None, "g", '{"b":2}'), ToolCall("7", "h", ""))
    assert first.at == datetime(2026, 3, 2, 16, 4, 11, tzinfo=UTC)
    assert second == Message(1, "tool", "r", call_id="c1", requestor="user", visible_to_agent=False)


def test_replaced_characters_are_counted_over_all_fields() -> None:
    messages, replaced = read_messages(
        [
            {"role": "user", "content": "\x00"},
            {"role": "assistant", "tool_calls": [{"name": "f\x00", "arguments": "\ud800"}]},
        ]
    )
    assert replaced == 3
    assert messages[1].tool_calls[0].name == "f�"


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ("text", "messages"),
        ({"role": "user"}, "messages"),
        (7, "messages"),
        ([], "messages"),
        (["x"], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "customer", "content": "x"}], "messages[0].role"),
        ([{"role": 3}], "messages[0].role"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": {"a": 1}}], "messages[0].content"),
        ([{"role": "user", "content": [5]}], "messages[0].content[0]"),
        ([{"role": "user", "content": "x", "at": "yesterday"}], "messages[0].at"),
        ([{"role": "user", "tool_calls": {}}], "messages[0].tool_calls"),
        ([{"role": "user", "tool_calls": ["f"]}], "messages[0].tool_calls[0]"),
        ([{"role": "user", "tool_calls": [{"name": 1}]}], "messages[0].tool_calls[0]"),
        ([{"role": "user", "tool_calls": [{"name": "f", "id": True}]}], "messages[0].tool_calls[0].id"),
        ([{"role": "user", "requestor": []}], "messages[0].requestor"),
        ([{"role": "tool", "call_id": "c" * 201}], "messages[0].call_id"),
        ([{"role": "user", "visible_to_agent": "no"}], "messages[0].visible_to_agent"),
    ],
)
def test_bad_messages_name_the_field_and_the_mend(items: object, field: str) -> None:
    with pytest.raises(MessageError) as caught:
        messages_from_json(items)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert caught.value.hint
    assert str(caught.value).startswith(field)


@pytest.mark.parametrize(
    "value",
    ["2026-03-02T16:04:11Z", "2026-03-02T17:04:11+01:00", "2026-03-02T16:04:11", 1772467451, 1772467451.0, "1772467451",
     1772467451000, "1772467451000000000", "1772467451.0"],
)  # fmt: skip
def test_times_in_every_form(value: object) -> None:
    assert parse_time(value, "at") == datetime(2026, 3, 2, 16, 4, 11, tzinfo=UTC)


@pytest.mark.parametrize("value", [True, "soon", [], float("nan"), float("inf"), {}, 10**30 * 10**300, -(10**10) * 7])
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(MessageError, match="is not a time"):
        parse_time(value, "at")


def test_absent_times_are_none() -> None:
    assert parse_time(None, "at") is None
    assert parse_time("", "at") is None


LOG = messages_from_json(
    [
        {"role": "system", "content": "be kind"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "first"},
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": "{}"}]},
        {"role": "tool", "content": "result"},
        {"role": "user", "content": "  "},
        {"role": "user", "content": "hidden", "visible_to_agent": False},
        {"role": "user", "content": "third"},
    ]
)


def test_user_turns_are_user_messages_with_text_that_the_agent_saw() -> None:
    assert user_turns(LOG) == (2, 3, 8)
    assert len(prefix(LOG, 1)) == 4
    assert prefix(LOG, 2) == LOG
    for beyond in (3, -1):
        with pytest.raises(IndexError):
            prefix(LOG, beyond)


def test_render_shows_user_and_assistant_text_only() -> None:
    assert render(LOG) == "assistant: hello\nuser: first\nuser: second\nuser: third"
    assert render(LOG, tool_results=True).splitlines()[3] == "tool: result"
    assert render(LOG, user_only=True) == "user: first\nuser: second\nuser: third"
    assert render(LOG, user_only=True, tool_results=True) == render(LOG, user_only=True)


def test_digest_is_the_chain_of_canonical_json() -> None:
    first, second = Message(0, "user", "é"), Message(1, "assistant", "b")
    one = hashlib.sha256('{"content":"é","role":"user"}'.encode()).hexdigest()
    two = hashlib.sha256((one + '{"content":"b","role":"assistant"}').encode()).hexdigest()
    assert prefix_digests((first, second)) == (one, two)


def test_canonical_json_holds_what_differs_from_its_default_and_no_time() -> None:
    message = Message(
        5, "tool", "r", at=datetime.now(UTC), tool_calls=(ToolCall("i", "f", "{}"),), call_id="c", requestor="user",
        visible_to_agent=False,
    )  # fmt: skip
    assert json.loads(canonical_json(message)) == {
        "role": "tool",
        "content": "r",
        "tool_calls": [{"id": "i", "name": "f", "arguments": "{}"}],
        "call_id": "c",
        "requestor": "user",
        "visible_to_agent": False,
    }


TEXTS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text(max_size=8)), min_size=1, max_size=8
)


@given(TEXTS, TEXTS)
def test_appending_changes_no_earlier_digest_and_contents_decide(
    one: list[tuple[str, str]], two: list[tuple[str, str]]
) -> None:
    def read(pairs: list[tuple[str, str]]) -> tuple[Message, ...]:
        return messages_from_json([{"role": role, "content": text} for role, text in pairs])

    alone, longer = prefix_digests(read(one)), prefix_digests(read(one + two))
    assert longer[: len(one)] == alone
    assert (prefix_digests(read(two)) == alone) == (read(one) == read(two))


@given(TEXTS)
def test_every_prefix_ends_in_its_user_turn(pairs: list[tuple[str, str]]) -> None:
    messages = messages_from_json([{"role": role, "content": text} for role, text in pairs])
    for turn, index in enumerate(user_turns(messages)):
        assert prefix(messages, turn) == messages[: index + 1]
        assert render(prefix(messages, turn)).endswith(messages[index].content)
