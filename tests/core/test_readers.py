"""Files as people bring them: good rows kept, bad rows named with file, row, field and mend."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.classifier import Polarity
from sq_core.conversation import Conversation, MessageError, messages_from_json, user_turns
from sq_core.readers import (
    ArtifactText,
    ExemplarRow,
    JudgementRow,
    RowError,
    jsonl,
    read_conversations,
    read_exemplars,
    read_judgements,
    read_policies,
    read_skills,
)

HELLO = [{"role": "user", "content": "hello"}]


def lines(*rows: object) -> list[str]:
    return [row if isinstance(row, str) else json.dumps(row) for row in rows]


def fields(found: list[Any]) -> list[tuple[int, str]]:
    return [(item.line, item.field) for item in found if isinstance(item, RowError)]


# ------------------------------------------------------------------------------------------------------------ policies
def test_policies() -> None:
    found = list(
        read_policies(
            lines(
                {"id": "cancel-flight", "name": "Cancel", "text": "Say no.\x00"},
                {"id": "look-up", "text": "Look it up.", "kind": "tool", "more": 1},
            ),
            "p.jsonl",
        )
    )
    assert found == [
        ArtifactText("cancel-flight", "Cancel", "Say no.�"),
        ArtifactText("look-up", "look-up", "Look it up.", "tool"),
    ]
    assert [item.replaced for item in found if isinstance(item, ArtifactText)] == [1, 0]


def test_bad_rows_are_named_and_stop_nothing() -> None:
    found = list(
        read_policies(
            lines(
                "{broken",
                [1, 2],
                {"id": "Cancel Flight", "text": "t"},
                {"id": "a" * 65, "text": "t"},
                {"text": "t"},
                {"id": "good", "text": "t"},
                {"id": "good", "text": "again"},
                {"id": "b", "text": " "},
                {"id": "c", "text": 1.5},
                {"id": "d", "text": "t", "kind": "rule"},
                {"id": "e", "text": "t", "name": "n" * 201},
                {"id": "Ω", "text": "t"},
                "",
                '{"id": "f", "text": NaN}',
                "[" * 100_000,
                {"id": "last", "text": "t"},
            ),
            "p.jsonl",
        )
    )
    assert fields(found) == [
        (1, ""), (2, ""), (3, "id"), (4, "id"), (5, "id"), (7, "id"), (8, "text"), (9, "text"), (10, "kind"), (11, "name"),
        (12, "id"), (14, ""), (15, ""),
    ]  # fmt: skip
    assert [item.key for item in found if isinstance(item, ArtifactText)] == ["good", "last"]
    errors = [item for item in found if isinstance(item, RowError)]
    assert all(error.message and error.mend and error.file == "p.jsonl" for error in errors)
    assert "'cancel-flight'" in errors[2].mend
    assert str(errors[2]).startswith("p.jsonl:3 id: 'Cancel Flight' is no key")
    assert str(errors[0]).startswith("p.jsonl:1: not valid JSON")
    assert "row 6" in errors[5].message
    assert "NaN" in errors[11].message
    assert "deeply" in errors[12].message


ROWS = lines({"id": "a", "text": "é 😀 \u2028 x"}, {"id": "b", "text": "t"})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_and_line_ends(encoding: str, end: str, tmp_path: Path) -> None:
    data = end.join([json.dumps({"id": "a", "text": "é 😀 \u2028 ਅĀਅ"}, ensure_ascii=False), ROWS[1]]).encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    path = tmp_path / "p.jsonl"
    path.write_bytes(data)
    expected = [ArtifactText("a", "a", "é 😀 \u2028 ਅĀਅ"), ArtifactText("b", "b", "t")]
    assert list(read_policies(path)) == list(read_policies(data)) == list(read_policies(io.BytesIO(data))) == expected

    # whatever the pieces are
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(3)

    assert list(read_policies(Trickle(data))) == expected


def test_text_streams_lines_and_names(tmp_path: Path) -> None:
    text = "\ufeff" + "\n".join(ROWS)
    expected = [ArtifactText("a", "a", "é 😀 \u2028 x"), ArtifactText("b", "b", "t")]
    assert list(read_policies(io.StringIO(text))) == expected
    assert list(read_policies([row.encode() for row in ROWS])) == expected
    assert list(read_policies([row.encode() + b"\n" for row in ROWS])) == expected
    assert list(read_policies([row + "\n" for row in ROWS])) == expected
    path = tmp_path / "bad.jsonl"
    path.write_text("nonsense\n")
    (error,) = read_policies(path)
    assert isinstance(error, RowError)
    assert error.file == "bad.jsonl"
    with path.open("rb") as stream:
        assert [item.file for item in read_policies(stream) if isinstance(item, RowError)] == [str(path)]


def test_a_line_that_is_not_utf8_is_an_error_of_its_own() -> None:
    found = list(read_policies(b'{"id": "a", "text": "caf\xe9"}\n{"id": "b", "text": "t"}\n', "p"))
    assert fields(found) == [(1, "")]
    assert "byte 25" in str(found[0])
    assert found[1] == ArtifactText("b", "b", "t")
    # also where the first line made the reader look at the whole file
    again = list(read_policies(b'{\n\xff\n{"id": "b", "text": "t"}\n', "p"))
    assert fields(again) == [(1, ""), (2, "")]
    assert again[2] == ArtifactText("b", "b", "t")


def test_empty_files() -> None:
    assert list(read_policies(b"")) == list(read_policies([])) == list(read_policies(b"\n \n")) == []


def test_an_array_or_one_object_over_many_lines() -> None:
    rows = [{"id": "a", "text": "t"}, 7, {"id": "b", "text": "t"}]
    for document in (json.dumps(rows), json.dumps(rows, indent=1)):
        found = list(read_policies(document.encode(), "p"))
        assert fields(found) == [(2, "")]
        assert [item.key for item in found if isinstance(item, ArtifactText)] == ["a", "b"]
    assert list(read_policies(json.dumps(rows[0], indent=1).encode())) == [ArtifactText("a", "a", "t")]


class Counted(bytes):
    """Bytes that know how much of them was looked through."""

    looked = 0

    def find(self, *args: Any) -> int:
        Counted.looked += len(self) - (args[1] if len(args) > 1 else 0)
        return super().find(*args)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_long_line_is_looked_through_once_however_many_pieces_it_comes_in(encoding: str) -> None:
    row = json.dumps({"id": "a", "messages": [{"role": "user", "content": "\u010a" * 20_000}]}, ensure_ascii=False)
    data = f"{row}\n{row.replace('a', 'b', 1)}".encode(encoding)
    Counted.looked = 0
    pieces = [Counted(data[start : start + 999]) for start in range(0, len(data), 999)]
    newline = "\n".encode(encoding)
    found = list(jsonl._split(iter(pieces), newline, len(newline)))
    assert [line.decode(encoding) for line in found] == [row, row.replace("a", "b", 1)]
    assert Counted.looked < 20 * len(data)  # once, and once more for each newline not at a character's start
    assert [c.external_id for c in read_conversations(io.BytesIO(data)) if isinstance(c, Conversation)] == ["a", "b"]


def test_what_is_too_long_to_be_held_is_an_error_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LARGEST_LINE", 200)
    good = json.dumps({"id": "a", "text": "a"})
    data = f"{good}\n{json.dumps({'id': 'b', 'text': 'b' * 500})}\n{good.replace('a', 'c')}".encode()
    for source in (data, io.BytesIO(data)):
        found = list(read_policies(source, "p.jsonl"))
        assert [item.key for item in found if isinstance(item, ArtifactText)] == ["a", "c"]
        assert fields(found) == [(2, "")]
        assert "can be held at once" in str(found[1])


def test_a_value_over_many_lines_that_is_too_long_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LARGEST_LINE", 200)
    rows = [{"id": f"a{n}", "text": "a" * 20} for n in range(30)]
    found = list(read_policies(json.dumps(rows, indent=1).encode(), "p.json"))
    assert [str(item) for item in found] == [
        "p.json:1: one JSON value of more than 128 MB is more than can be held at once. Write one JSON object on each line."
    ]
    # ... while a long file of lines whose first is no JSON loses that line alone
    found = list(read_policies("\n".join(["oops", *map(json.dumps, rows)]).encode(), "p.jsonl"))
    assert fields(found) == [(1, "")]
    assert sum(isinstance(item, ArtifactText) for item in found) == 30


def nested(depth: int, inner: str = "1") -> str:
    return '{"a":' * depth + inner + "}" * depth


@pytest.mark.parametrize("depth", [99, 400, 600, 900, 5_000, 100_000])
def test_deep_nesting_is_an_error_of_its_row_that_names_the_field(depth: int) -> None:
    parts = '[{"parts":' * (depth // 2) + '["deep"]' + "}]" * (depth // 2)
    text = "\n".join(
        [
            '{"id": "m", "metadata": ' + nested(depth - 1) + ', "messages": [{"role": "user", "content": "x"}]}',
            '{"id": "p", "messages": [{"role": "user", "content": ' + parts + "}]}",
            '{"id": "t", "messages": [{"role": "tool", "content": ' + nested(depth - 3) + "}]}",
            '{"id": "c", "messages": [{"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": '
            + nested(depth - 5)
            + "}]}]}",
            '{"id": "good", "messages": [{"role": "user", "content": "x"}]}',
        ]
    )
    found = list(read_conversations(text.encode(), filename="c.jsonl"))
    read = [item.external_id for item in found if isinstance(item, Conversation)]
    if depth == 99:
        assert read == ["m", "t", "c", "good"]
        return
    assert read == ["good"]
    names = ["metadata", "messages", "messages", "messages"]
    assert fields(found) in ([(n, name) for n, name in enumerate(names, 1)], [(n, "") for n in range(1, 5)])
    for item in found[:4]:
        assert "100 deep" in str(item) or "nested too deeply" in str(item)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user", "content": json.loads('[{"parts":' * 150 + '["x"]' + "}]" * 150)}, "content"),
        ({"role": "tool", "content": json.loads(nested(300))}, "content"),
        (
            {"role": "assistant", "tool_calls": [{"name": "f", "arguments": json.loads(nested(300))}]},
            "tool_calls[0].arguments",
        ),
    ],
)
def test_an_agent_s_own_deep_message_is_refused_by_its_field(message: dict[str, Any], field: str) -> None:
    with pytest.raises(MessageError, match="100 deep") as caught:
        messages_from_json([message])
    assert caught.value.field == f"messages[0].{field}"


def test_lines_are_read_as_they_come() -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield json.dumps({"id": f"a{number}", "text": "t"})

    rows = read_policies(endless())
    assert [next(rows), next(rows)] == [ArtifactText("a1", "a1", "t"), ArtifactText("a2", "a2", "t")]


# ------------------------------------------------------------------------------------------- judgements and exemplars
JUDGED = {"conversation": "c", "user_turn": 0, "judge": "j", "scores": {"a": 5, "b": 1}}


def test_judgements() -> None:
    full = JUDGED | {
        "conversation": 7,
        "judge": "human:ana",
        "visible_upto": 3,
        "prefix_digest": "0" * 64,
        "prompt_version": 2,
        "pass_mark": 4,
        "reasons": {"a": "because"},
    }
    one, other = read_judgements(lines(JUDGED, full))
    assert one == JudgementRow("c", 0, "j", {"a": 5, "b": 1})
    assert other == JudgementRow("7", 0, "human:ana", {"a": 5, "b": 1}, 3, "0" * 64, "2", 4, {"a": "because"})
    assert isinstance(one, JudgementRow)
    assert isinstance(other, JudgementRow)
    assert (one.human, other.human, JudgementRow("c", 0, "human", {}).human) == (None, "ana", "")


def test_a_simulation_with_a_field_called_simulations_is_one_all_the_same() -> None:
    row = {"task_id": "1", "trial": 0, "simulations": True, "messages": [{"role": "user", "content": "hi"}]}
    (found,) = read_conversations([json.dumps(row)], filename="f.json")
    assert isinstance(found, Conversation)
    assert found.external_id == "f-1-0"


def test_a_judgement_says_whether_its_pair_was_chosen() -> None:
    row = {"conversation": "c", "user_turn": 0, "judge": "j", "scores": {"a": 5}}
    given = [{**row, "chosen": value} for value in (True, False, None, "yes")]
    found = list(read_judgements([json.dumps(one) for one in given], "f"))
    assert [one.chosen for one in found if isinstance(one, JudgementRow)] == [True, False, False]
    assert str(found[3]) == "f:4 chosen: expected true or false, got text. Leave it out."


def test_a_judgement_may_say_how_its_judge_scored() -> None:
    row = {"conversation": "c", "user_turn": 0, "judge": "j", "scores": {"a": 5}}
    found = list(read_judgements([json.dumps({**row, "rubric": value}) for value in ("sticky", None, "kind", [])], "f"))
    assert [one.rubric for one in found if isinstance(one, JudgementRow)] == ["sticky", None]
    assert [one.field for one in found if isinstance(one, RowError)] == ["rubric", "rubric"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conversation": None}, "conversation"),
        ({"user_turn": None}, "user_turn"),
        ({"user_turn": -1}, "user_turn"),
        ({"user_turn": True}, "user_turn"),
        ({"user_turn": 10**20}, "user_turn"),
        ({"judge": ""}, "judge"),
        ({"judge": ["j"]}, "judge"),
        ({"scores": None}, "scores"),
        ({"scores": {}}, "scores"),
        ({"scores": {"a": 6}}, "scores.a"),
        ({"scores": {"a": 4.0}}, "scores.a"),
        ({"scores": {"A b": 4}}, "scores.A b"),
        ({"pass_mark": 0}, "pass_mark"),
        ({"prefix_digest": "abc"}, "prefix_digest"),
        ({"reasons": []}, "reasons"),
        ({"prompt_version": "v" * 41}, "prompt_version"),
    ],
)
def test_bad_judgements(change: dict[str, Any], field: str) -> None:
    found = list(read_judgements(lines(JUDGED | change, JUDGED), "j"))
    assert fields(found) == [(1, field)]
    assert isinstance(found[1], JudgementRow)


def test_exemplars_in_both_forms() -> None:
    found = list(
        read_exemplars(
            lines(
                {"artifact": "a", "signals": ["s1", "", 5.5, "s2"], "anti_signals": ["n1"]},
                {"artifact": "a", "anti_signals": None, "signals": None},
                {"artifact": "a", "polarity": "anti_signal", "text": "n2", "source": "imported"},
            ),
            "e",
        )
    )
    assert [item for item in found if isinstance(item, ExemplarRow)] == [
        ExemplarRow("a", Polarity.SIGNAL, "s1", None, listed=True),
        ExemplarRow("a", Polarity.SIGNAL, "s2", None, listed=True),
        ExemplarRow("a", Polarity.ANTI_SIGNAL, "n1", None, listed=True),
        ExemplarRow("a", Polarity.ANTI_SIGNAL, "n2", "imported"),
    ]
    assert fields(found) == [(1, "signals[1]"), (1, "signals[2]")]


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"signals": ["s"]}, "artifact"),
        ({"artifact": "a", "signals": "s"}, "signals"),
        ({"artifact": "a", "text": "s"}, "polarity"),
        ({"artifact": "a", "polarity": "positive", "text": "s"}, "polarity"),
        ({"artifact": "a", "polarity": "signal"}, "text"),
        ({"artifact": "a", "polarity": "signal", "text": "s", "source": "web"}, "source"),
        ({"artifact": "a", "polarity": ["signal"], "text": "s"}, "polarity"),
        ({"artifact": "a", "polarity": "signal", "text": "s", "origin": "c1"}, "origin"),
        ({"artifact": "a", "polarity": "signal", "text": "s", "origin": {"user_turn": 1}}, "origin.conversation"),
        ({"artifact": "a", "polarity": "signal", "text": "s", "origin": {"conversation": "c"}}, "origin.user_turn"),
        ({"artifact": "a", "polarity": "signal", "text": "s", "label_horizon": -1}, "label_horizon"),
        (
            {
                "artifact": "a", "polarity": "signal", "text": "s", "label_horizon": 1,
                "origin": {"conversation": "c", "user_turn": 2},
            },
            "label_horizon",
        ),
    ],
)  # fmt: skip
def test_bad_exemplars(row: dict[str, Any], field: str) -> None:
    assert fields(list(read_exemplars(lines(row), "e"))) == [(1, field)]


# ------------------------------------------------------------------------------------------------------- conversations
def test_conversations_with_all_fields() -> None:
    row = {
        "id": 12, "scenario": "s", "customer": "ann", "config": "v1", "channel": "web", "started_at": "2026-03-02T16:04:11Z",
        "metadata": {"a": ["\x00"], "b": {"c": None}}, "rating": 5, "nested": {"dropped": True}, "messages": HELLO,
    }  # fmt: skip
    (one,) = read_conversations(lines(row))
    assert isinstance(one, Conversation)
    assert (one.external_id, one.scenario, one.customer, one.config, one.channel) == ("12", "s", "ann", "v1", "web")
    assert one.started_at == datetime(2026, 3, 2, 16, 4, 11, tzinfo=UTC)
    assert one.metadata == {"rating": 5, "a": ["�"], "b": {"c": None}}
    assert (one.line, one.replaced) == (1, 0)
    (plain,) = read_conversations(lines({"id": "c", "messages": HELLO}))
    assert isinstance(plain, Conversation)
    assert (plain.scenario, plain.channel, plain.metadata) == (None, "", {})


def test_bad_conversations_stop_nothing() -> None:
    found = list(
        read_conversations(
            lines(
                {"messages": HELLO, "scenario": "s"},
                {"id": "a"},
                {"id": "a", "messages": []},
                {"id": "a", "messages": [{"role": "user", "content": 1}]},
                {"id": "a", "messages": HELLO, "started_at": "soon"},
                {"id": "a", "messages": HELLO, "metadata": 1},
                {"id": "i" * 201, "messages": HELLO},
                {"id": "good", "messages": HELLO},
            ),
            filename="c",
        )
    )
    assert fields(found) == [
        (1, "id"), (2, "messages"), (3, "messages"), (4, "messages[0].content"), (5, "started_at"), (6, "metadata"), (7, "id"),
    ]  # fmt: skip
    assert "this row has id" in str(found[1])
    assert isinstance(found[7], Conversation)


TAU1 = {
    "task_id": 3, "trial": 1, "reward": 0.5, "info": {"task": {}},
    "traj": [
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "book me a flight"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"to\":\"SEA\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "[]"},
        {"role": "assistant", "content": "none"},
        {"role": "user", "content": "###STOP###"},
    ],
}  # fmt: skip

TAU2 = {
    "id": "run-1", "task_id": "[data_issue]airplane_mode_on", "trial": 0, "start_time": "2025-08-01T16:23:24.895557",
    "termination_reason": "user_stop", "reward_info": {"reward": 1.0}, "seed": 5,
    "messages": [
        {"role": "assistant", "content": "Hi!", "tool_calls": None, "turn_idx": 0, "timestamp": "2025-08-01T16:23:25"},
        {"role": "user", "content": "my data is slow", "tool_calls": None},
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c1", "name": "customer", "arguments": {"phone": "5"}, "requestor": "assistant"}]},
        {"role": "tool", "id": "c1", "content": "{}", "requestor": "assistant", "error": False},
        {"role": "user", "content": None, "tool_calls": [{"id": "c2", "name": "status", "arguments": {}, "requestor": "user"}]},
        {"role": "tool", "id": "c2", "content": "airplane mode", "requestor": "user", "error": False},
        {"role": "tool", "tool_messages": [
            {"role": "tool", "id": "c3", "content": "a", "requestor": "user"},
            {"role": "tool", "id": "c4", "content": "b", "requestor": "user"}]},
        {"role": "user", "content": "it says airplane mode"},
    ],
}  # fmt: skip
TAU2_FILE = {
    "timestamp": "t",
    "info": {"agent_info": {"llm": "some-model"}},
    "tasks": [],
    "simulations": [TAU2, 7, TAU2],
}


def only(found: Iterator[Conversation | RowError]) -> Conversation:
    (one,) = found
    assert isinstance(one, Conversation)
    return one


def test_tau_bench_1() -> None:
    one = only(read_conversations(json.dumps([TAU1], indent=2).encode(), filename="gpt-airline.json"))
    assert (one.external_id, one.scenario) == ("gpt-airline-3-1", "task-3")
    assert one.metadata == {"task_id": 3, "trial": 1, "reward": 0.5}
    assert user_turns(one.messages) == (1, 5)
    assert one.messages[2].tool_calls[0].arguments == '{"to":"SEA"}'
    assert one.messages[3].call_id == "c1"
    assert all(message.visible_to_agent for message in one.messages)


def test_tau_2_keeps_the_users_tool_traffic_from_the_agent() -> None:
    one = only(read_conversations(json.dumps([TAU2]).encode()))
    assert (one.external_id, one.scenario, one.config) == ("run-1", "task-[data_issue]airplane_mode_on", None)
    assert one.started_at == datetime(2025, 8, 1, 16, 23, 24, 895557, tzinfo=UTC)
    assert user_turns(one.messages) == (1, 8)
    assert [m.visible_to_agent for m in one.messages] == [True, True, True, True, False, False, False, False, True]
    assert [m.requestor for m in one.messages[2:6]] == [None, "assistant", "user", "user"]
    assert [m.call_id for m in one.messages[3:8]] == ["c1", None, "c2", "c3", "c4"]
    assert one.messages[4].tool_calls[0].arguments == "{}"


def test_a_tau_2_file_names_its_model_and_each_bad_simulation() -> None:
    for document in (json.dumps(TAU2_FILE), json.dumps(TAU2_FILE, indent=1)):
        found = list(read_conversations(document.encode(), filename="r.json"))
        assert fields(found) == [(2, "simulations[1].")]
        assert [c.config for c in found if isinstance(c, Conversation)] == ["some-model"] * 2
        assert [c.line for c in found if isinstance(c, Conversation)] == [1, 3]


def test_tau_2_runs_that_cannot_be_read() -> None:
    rows = [
        {"id": "r1", "task_id": 1, "trial": 0, "messages": None, "ticks": [1]},
        {"id": "r2", "task_id": 1, "trial": 0, "messages": None},
        {"id": "r3", "task_id": 1, "trial": 0, "messages": ["x"]},
        {"id": "r4", "task_id": 1, "trial": 0, "messages": [{"role": "user", "content": "x", "tool_calls": "y"}]},
        {"id": "r5", "task_id": 1, "trial": 0, "messages": [{"role": "user", "content": "x", "tool_calls": ["y"]}]},
        {"id": "r6", "task_id": 1, "trial": 0, "messages": HELLO, "start_time": None, "timestamp": 1754065404},
        {"task_id": None, "trial": None, "messages": HELLO},
        {"info": [], "simulations": [{"task_id": "t" * 300, "messages": HELLO}]},
        {"info": {"agent_info": {"llm": 3}}, "simulations": [{"id": "r7", "messages": []}]},
    ]
    found = list(read_conversations(lines(*rows), filename="r.json"))
    assert fields(found) == [
        (1, "messages"), (2, "messages"), (3, "messages[0]"), (4, "messages[0].tool_calls"), (5, "messages[0].tool_calls[0]"),
        (1, "simulations[0].messages"),
    ]  # fmt: skip
    assert "full-duplex" in str(found[0])
    good = [c for c in found if isinstance(c, Conversation)]
    assert [c.external_id for c in good[:2]] == ["r6", "r-7-0"]
    assert good[0].started_at is not None
    assert len(good[2].scenario or "") == len(good[2].external_id) == 200


def test_a_bad_message_of_one_simulation_leaves_the_others() -> None:
    bad = {**TAU2, "messages": [{"role": "boss", "content": "x"}]}
    found = list(read_conversations(json.dumps({"info": {}, "simulations": [bad, TAU2]}).encode(), filename="r.json"))
    assert fields(found) == [(1, "simulations[0].messages[0].role")]
    assert [c.line for c in found if isinstance(c, Conversation)] == [2]


def test_a_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "sims").mkdir()
    (tmp_path / "sims" / "b.json").write_text(json.dumps(TAU2, indent=1))
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "c", "messages": HELLO}) + "\nbroken\n")
    (tmp_path / "notes.txt").write_text("not read")
    found = list(read_conversations(tmp_path))
    assert [c.external_id for c in found if isinstance(c, Conversation)] == ["c", "run-1"]
    assert [(e.file, e.line) for e in found if isinstance(e, RowError)] == [("a.jsonl", 2)]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no .json" in str(next(read_conversations(empty)))


def test_a_format_may_be_insisted_on() -> None:
    rows = lines({"id": "c", "messages": HELLO}, TAU1)
    assert fields(list(read_conversations(rows, "jsonl"))) == [(2, "")]
    assert fields(list(read_conversations(rows, "tau"))) == [(1, "")]
    with pytest.raises(ValueError, match="expected one of jsonl, tau"):
        read_conversations(rows, "csv")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "messages", "role", "content", "tool_calls", "traj", "task_id", "trial", "simulations", "info"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
READERS: list[Callable[[Any], Iterator[Any]]] = [read_policies, read_conversations, read_judgements, read_exemplars]


@settings(deadline=None, max_examples=80)
@given(st.lists(JSON | st.text(max_size=20), max_size=4))
def test_nothing_a_file_holds_stops_a_reader(rows: list[Any]) -> None:
    good = {"id": "c", "messages": HELLO, "text": "t", "artifact": "a", "signals": ["s"]} | JUDGED
    for reader in READERS:
        found = list(reader([*lines(good), *(json.dumps(row) for row in rows), *lines(good | {"id": "last"})]))
        kept = [item for item in found if not isinstance(item, RowError)]
        assert len(kept) >= 2
        for error in found:
            assert not isinstance(error, RowError) or (error.message and error.mend)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=60))
def test_no_bytes_stop_a_reader(data: bytes) -> None:
    for reader in READERS:
        for item in reader(data):
            assert not isinstance(item, RowError) or (item.message and item.mend)


# -------------------------------------------------------------------------------------------------------------- skills
def skill(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(text)


def test_skills(tmp_path: Path) -> None:
    skill(
        tmp_path,
        "a/refunds",
        "---\nname: Refunds & more\ndescription: >\n  Handle refunds.\n  Use when asked.\n---\n# Body\n---\n",
    )
    skill(
        tmp_path, "b", '---\r\nname: triage\r\ndescription: "Sort: tickets"\r\ntriggers: [sort this, 5, ""]\r\n---\r\n'
    )
    skill(tmp_path, "c", "---\nname: 退款\ndescription: 退款\n---\n")
    found = list(read_skills(tmp_path))
    assert found == [
        ArtifactText("refunds-more", "Refunds & more", "Handle refunds. Use when asked.", "skill"),
        ArtifactText("triage", "triage", "Sort: tickets", "skill", ("sort this",)),
        ArtifactText("c", "退款", "退款", "skill"),
    ]
    assert list(read_skills(tmp_path / "b" / "SKILL.md")) == [found[1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# no front matter", "no front matter"),
        ("", "no front matter"),
        ("---\nname: a\ndescription: b\n", "no front matter"),
        ("# late\nname: a\n---\n", "no front matter"),
        ("---\n---\n", "not name: value lines"),
        ("---\n- a\n---\n", "not name: value lines"),
        ("---\nname: a: b\n---\n", r"not valid YAML \(line 2\)"),
        ("---\nname: a\nwhen: 2026-99-99\n---\n", "not valid YAML"),
        ("---\nname: a\n---\n", "missing"),
        ("---\nname: a\ndescription: [x]\n---\n", "expected text, got a list"),
        ("---\nname: ''\ndescription: x\n---\n", "is empty"),
    ],
)
def test_bad_skills_stop_nothing(tmp_path: Path, text: str, message: str) -> None:
    skill(tmp_path, "a", text)
    skill(tmp_path, "b", "---\nname: good\ndescription: d\n---\n")
    error, good = read_skills(tmp_path)
    assert isinstance(error, RowError)
    assert isinstance(good, ArtifactText)
    assert error.file == "a/SKILL.md"
    assert re.search(message, str(error))


def test_skills_with_the_same_name_no_name_at_all_and_bad_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        skill(tmp_path, name, "---\nname: same\ndescription: d\n---\n")
    skill(tmp_path, "款", "---\nname: 款\ndescription: d\n---\n")
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "SKILL.md").write_bytes(b"---\nname: caf\xe9\n---\n")
    first, second, third, fourth = read_skills(tmp_path)
    assert isinstance(first, ArtifactText)
    assert "taken by a/SKILL.md" in str(second)
    assert "not UTF-8" in str(third)
    assert "gives no key" in str(fourth)


def test_a_folder_without_skills(tmp_path: Path) -> None:
    (error,) = read_skills(tmp_path)
    assert "no SKILL.md" in str(error)
