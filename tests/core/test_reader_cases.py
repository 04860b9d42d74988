"""What every importer is tried on: the same hard chats in all formats, and each value of each format replaced by a wrong one."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from sq_core.conversation import Conversation, render, user_turns
from sq_core.readers import CONVERSATION_FORMATS, ArtifactText, RowError, read_conversations, read_policies
from sq_core.readers.conversations import conversation_format
from sq_core.readers.head import recognise
from tests.core.reader_samples import FORMS, NO_SYSTEM, RICH, Json, Said, without_system

POLICY = "Policy: refunds within 30 days. " * 300  # about 9,000 characters
ASK, TELL, MORE = ("user", "where is my parcel?"), ("assistant", "On its way."), ("user", "thanks, and my refund?")


def read(rows: list[Json], form: str | None = None) -> list[Conversation | RowError]:
    return list(read_conversations([json.dumps(row) for row in rows], form, "log.jsonl"))


def one(name: str, said: Said) -> Conversation:
    (found,) = read(FORMS[name][1](said))
    assert isinstance(found, Conversation), found
    return found


def words(found: Conversation) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in found.messages]


def test_every_format_is_tried() -> None:
    assert {form for form, _ in FORMS.values()} == set(CONVERSATION_FORMATS)


CHATS: dict[str, Said] = {
    "a system message that holds the policy": [("system", POLICY), ASK, TELL],
    "the assistant first": [("assistant", "Hello!"), ASK, TELL],
    "no user turn": [("assistant", "Your parcel has arrived.")],
    "two user turns in a row": [ASK, MORE, TELL],
    "Chinese": [("user", "我的包裹在哪里？"), ("assistant", "在路上。")],
    "emoji and curly quotes": [("user", "it’s “late” 😡👨‍👩‍👧"), ("assistant", "sorry… 🙏")],
    "tokens of a simulator": [ASK, TELL, ("user", "###STOP###")],
    "an object as the agent's text": [ASK, ("assistant", '{"action": "find", "id": 7}'), MORE],
    "words like markup": [("user", "if a < b & c > d"), ("assistant", "then &amp; stays")],
    "history that repeats itself": [ASK, TELL, ASK, TELL],
}


@pytest.mark.parametrize("name", sorted(FORMS))
@pytest.mark.parametrize("chat", sorted(CHATS))
def test_a_chat_is_the_same_in_every_format(name: str, chat: str) -> None:
    said = [*(without_system(CHATS[chat]) if name in NO_SYSTEM else CHATS[chat])]
    found = one(name, said)
    assert words(found) == said
    asked = [at for at, (role, _) in enumerate(said) if role == "user"]
    assert user_turns(found.messages) == tuple(asked)
    assert POLICY not in render(found.messages)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_every_row_is_recognised_by_its_fields_and_may_be_insisted_on(name: str) -> None:
    form, write = FORMS[name]
    rows = write([ASK, TELL])
    assert {conversation_format(row) for row in rows} == {form}
    assert (recognise(rows).what, recognise(rows).format) == ("conversations", form)
    assert [type(each) for each in read(rows, form)] == [Conversation]
    other = "rasa" if form != "rasa" else "tau"
    assert {type(each) for each in read(rows, other)} == {RowError}


MISSING = object()
SHAPES: list[tuple[Any, str]] = [
    (MISSING, ""), (None, ""), ("", ""), ([], ""), ([{"type": "image_url", "image_url": {}}], ""),
    ([{"type": "text", "text": "On its way."}], "On its way."), ([{"type": "text", "value": "On its way."}], "On its way."),
    ([{"type": "output_text", "text": "On its way."}], "On its way."), ([{"input_text": "On its way."}], "On its way."),
    ([{"output_text": "On its way."}], "On its way."), ([{"parts": ["On its", {"text": "way."}]}], "On its\nway."),
    (["On its", "way."], "On its\nway."),
]  # fmt: skip


@pytest.mark.parametrize("name", ["jsonl", "tau", "tau_1", "openai", "langsmith", "label_studio", "inspect"])
@pytest.mark.parametrize(("content", "text"), SHAPES)
def test_content_in_every_shape(name: str, content: Any, text: str) -> None:
    rows = FORMS[name][1]([ASK, TELL, MORE])
    (path,) = (each for each in places(rows) if each and each[-1] == "content" and at(rows, each) == TELL[1])
    if content is MISSING:
        rows = copy.deepcopy(rows)
        del at(rows, path[:-1])["content"]
    else:
        rows = spoilt(rows, path, content)
    (found,) = read(rows)
    assert isinstance(found, Conversation), found
    assert words(found) == [ASK, ("assistant", text), MORE]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


POLICIES = ("abcd", "botpress", "parlant", "routes")
HOSTILE: list[Any] = [
    None, True, 0, -7, 1.5, 1e308, "", "x", "9" * 5_000, "\ud800\x00", "{", '{"a": [1', "[" * 90 + "]" * 90, [], {}, [[]],
    [None, 1, "x", {}], {"a": 1}, {"type": "message"}, "<a " * 50,
]  # fmt: skip
for _ in range(60):
    HOSTILE[-1] = [HOSTILE[-1]]  # deep, and still within what a row may be


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in pairs:
        yield from places(member, (*path, key))


def spoilt(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    changed = copy.deepcopy(value)
    at(changed, path[:-1])[path[-1]] = by
    return changed


ROWS = {**{name: write([("system", "be kind"), ASK, TELL]) for name, (_, write) in FORMS.items()},
        **{f"rich {name}": rows for name, rows in RICH.items()}}  # fmt: skip


@pytest.mark.parametrize("name", sorted(RICH))
def test_rows_with_all_that_they_may_hold_are_read(name: str) -> None:
    rows = RICH[name]
    found = list(read_policies([json.dumps(row) for row in rows])) if name in POLICIES else read(rows)
    assert found
    assert not [each for each in found if isinstance(each, RowError)]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_any_wrong_value_at_any_place_gives_records_or_named_errors(name: str) -> None:
    rows = ROWS[name]
    for path in places(rows):
        for by in HOSTILE if path else ():
            lines = [json.dumps(row) for row in spoilt(rows, path, by)]
            for found in [*read_conversations(lines, None, "log.jsonl"), *read_policies(lines, "log.jsonl")]:
                assert isinstance(found, Conversation | ArtifactText | RowError)
                if isinstance(found, RowError):
                    assert all((found.message, found.mend, found.line)), (path, by)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_value_that_is_not_there_gives_records_or_named_errors(name: str) -> None:
    rows = ROWS[name]
    for path in places(rows):
        if not path or not isinstance(path[-1], str):
            continue
        changed = copy.deepcopy(rows)
        del at(changed, path[:-1])[path[-1]]
        for found in read(changed):
            assert isinstance(found, Conversation) or all((found.message, found.mend, found.line))
