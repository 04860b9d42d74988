"""The first rows of a file whose rest is not read, and what they seem to be."""

import json

import pytest

from sq_core.readers import read_conversations
from sq_core.readers.head import head, recognise, rows_of

TALK = {"id": "a", "messages": [{"role": "user", "content": "hi"}]}
RUN = {"id": "r", "task_id": "1", "trial": 0, "messages": [{"role": "user", "content": "hi"}]}


def cut(text: str, at: int, most: int = 10) -> bytes | list[str]:
    return head(text.encode()[:at], whole=False, most=most)


def test_a_whole_file_is_handed_on_as_it_is() -> None:
    assert head(b"anything", whole=True, most=1) == b"anything"


def test_of_lines_those_that_ended_are_taken_and_numbers_stay() -> None:
    text = "\n".join(["", json.dumps(TALK), "", "{broken", json.dumps(TALK)])
    lines = cut(text, len(text) - 3)
    assert lines == ["", json.dumps(TALK), "", "{broken"]
    assert cut(text, len(text) - 3, most=1) == ["", json.dumps(TALK)]


def test_of_utf_16_lines_too() -> None:
    data = f"{json.dumps(TALK)}\n{json.dumps(TALK)}\n".encode("utf-16")
    assert head(data[:-5], whole=False, most=5) == [json.dumps(TALK)]


def test_a_line_that_cannot_be_decoded_keeps_its_place() -> None:
    data = b'{"id": 1}\n\xff\xfe\xff\n{"id": 2}\n{"id"'
    assert head(data, whole=False, most=5) == ['{"id": 1}', "\ufffd", '{"id": 2}']


@pytest.mark.parametrize("indent", [None, 2])
def test_of_an_array_the_whole_members(indent: int | None) -> None:
    text = json.dumps([TALK, {**TALK, "id": "ü"}, TALK], indent=indent, ensure_ascii=False)
    found = cut(text, len(text.encode()) - 9)
    assert [json.loads(line)["id"] for line in found] == ["a", "ü"]
    assert len(cut(text, len(text.encode()) - 9, most=1)) == 1


@pytest.mark.parametrize("indent", [None, 2])
def test_of_a_saved_run_its_first_simulations_with_its_info(indent: int | None) -> None:
    info = {"agent_info": {"llm": "agent-1"}}
    run = {"timestamp": "now", "info": info, "tasks": [{"id": "1"}], "simulations": [RUN, {**RUN, "id": "s"}, RUN]}
    text = json.dumps(run, indent=indent)
    lines = cut(text, len(text) - 12)
    found = list(read_conversations(lines))
    assert [(c.external_id, c.config) for c in found] == [("r", "agent-1"), ("s", "agent-1")]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ['{"info": {"a": 1', '{"a": 1,\n"b', "[", "{", '{"a" 1, "b": [', "", '{1: 2}, "x'])
def test_what_is_cut_before_a_row_ended_stays_text(text: str) -> None:
    assert "".join(cut(text + "   ", len(text))) in text.replace("\n", "")


def test_kinds_are_told_by_their_fields_and_the_majority_decides() -> None:
    rows = {
        ("conversations", "jsonl"): TALK,
        ("conversations", "tau"): RUN,
        ("judgements", "jsonl"): {"conversation": "a", "user_turn": 0, "judge": "j", "scores": {}},
        ("exemplars", "jsonl"): {"artifact": "a", "signals": ["x"]},
        ("artifacts", "jsonl"): {"id": "a", "text": "t"},
    }
    for (what, form), row in rows.items():
        found = recognise([row])
        assert (found.what, found.format) == (what, form)
    assert recognise([{"artifact": "a", "text": "x"}]).what == "exemplars"
    assert recognise([{"judge": "a", "user_turn": 1}]).what == "judgements"
    assert recognise([{"signals": []}]).what == "exemplars"
    assert recognise([TALK, {"id": "a", "text": "t"}, {"id": "b", "text": "t"}, 7]).what == "artifacts"
    assert recognise([], "SKILL.md") == recognise([TALK], "Skill.MD")
    assert recognise([], "SKILL.md").format == "skill"


def test_what_is_none_of_ours_says_its_fields() -> None:
    found = recognise([{"conversations": [], "tools": ""}])
    assert (found.what, found.fields) == (None, ("conversations", "tools"))
    assert recognise(["text", 1]).fields == ()


def test_rows_are_the_values_that_are_json() -> None:
    assert rows_of(['{"a": 1}', "{broken", '{"b": 2}'], 5) == [{"a": 1}, {"b": 2}]
    assert rows_of(b'[{"a": 1}, {"b": 2}]', 1) == [{"a": 1}]
