"""Label Studio's chats and Inspect's logs: a file of tasks or samples, each with its conversations."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sq_core.causal.coupling import couple
from sq_core.causal.trace import trace_of
from sq_core.conversation import Conversation, user_turns
from sq_core.readers import RowError, inspect_packed, read_conversations
from sq_core.readers.head import head, recognise, rows_of
from tests.core.reader_samples import Json, inspect, label_studio

ASK, TELL = ("user", "where is my parcel"), ("assistant", "On its way.")


def read(*rows: Any, name: str = "log.json") -> list[Conversation | RowError]:
    return list(read_conversations([json.dumps(row) for row in rows], None, name))


def one(row: Any, name: str = "log.json") -> Conversation:
    (found,) = read(row, name=name)
    assert isinstance(found, Conversation), found
    return found


def words(found: Conversation) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in found.messages]


# -------------------------------------------------------------------------------------------------------- Label Studio
def task(*annotations: Any, **data: Any) -> Json:
    return {"id": 7, "data": data, "annotations": [*annotations]}


def annotation(id_: int, *said: tuple[str, str], **more: Any) -> Json:
    (row,) = label_studio(said)
    return {**row["annotations"][0], "id": id_, **more}


def test_every_annotation_is_a_conversation_of_its_task() -> None:
    other = annotation(2, ASK)
    other["result"].insert(0, {"type": "choices", "value": {"choices": ["good"]}})
    found = read([task(annotation(1, ASK, TELL), other, annotation(3, ASK, was_cancelled=True), annotation(4))])
    assert [(c.external_id, c.scenario) for c in found if isinstance(c, Conversation)] == [("7-1", "7"), ("7-2", "7")]
    (first, _) = found
    assert isinstance(first, Conversation)
    assert words(first) == [ASK, TELL]
    assert first.started_at == first.messages[0].at
    assert first.started_at is not None
    assert first.started_at.year == 2026


def test_what_a_chat_began_with_comes_first_and_once() -> None:
    began = [{"role": "system", "content": "be kind"}, {"role": ASK[0], "content": ASK[1]}]
    for said in ([TELL], [ASK, TELL]):
        found = one(task(annotation(1, *said), input_chat=began))
        assert words(found) == [("system", "be kind"), ASK, TELL]
        assert user_turns(found.messages) == (1,)


def test_calls_of_tools_are_read() -> None:
    row = annotation(1, ASK, ("assistant", ""), ("tool", "found"), TELL)
    messages = [part["value"]["chatmessage"] for part in row["result"]]
    messages[1]["tool_calls"] = [{"id": "k", "type": "function", "function": {"name": "find", "arguments": '{"id":7}'}}]
    messages[2]["tool_call_id"] = "k"
    assert [c.response for c in couple(trace_of(one(task(row))))] == ["found"]


def test_bad_tasks_stop_nothing() -> None:
    broken = annotation(1, ASK)
    broken["result"][0]["value"] = None
    found = read(
        task(), task(annotation(1, ("boss", "x")), annotation(2, ASK)), task(broken), task(7), task({"id": 1,
            "result": None}),
        task(annotation(1, ASK), input_chat=[5]),
    )  # fmt: skip
    assert [(e.line, e.field) for e in found if isinstance(e, RowError)] == [
        (1, "annotations"), (2, "annotations[0].messages[0].role"), (3, "annotations[0].result[0].value.chatmessage"),
        (4, "annotations[0]"), (5, "annotations[0].result"), (6, "data.input_chat[0]"),
    ]  # fmt: skip
    assert [c.external_id for c in found if isinstance(c, Conversation)] == ["7-2"]


# ------------------------------------------------------------------------------------------------------------- Inspect
def log(*samples: Any) -> Json:
    (row,) = inspect([ASK])
    return {**row, "samples": [*samples]}


def sample(*messages: Any, **more: Any) -> Json:
    return {"id": "s", "epoch": 2, "input": "hello", "messages": [*messages], **more}


CALL = {"id": "k", "function": "find", "arguments": {"id": 7}, "type": "function"}


def test_a_sample_with_its_tools_reasoning_and_errors() -> None:
    found = one(log(sample(
        {"role": "system", "content": "the policy"},
        {"role": "user", "content": [{"type": "text", "text": "where is it"}, {"type": "image", "image": "data:x"}]},
        {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text",
            "text": "Let me see."}],
         "tool_calls": [CALL], "source": "generate"},
        {"role": "tool", "content": "", "tool_call_id": "k", "function": "find", "error": {"type": "timeout",
            "message": "too slow"}},
        {"role": "assistant", "content": "Later."},
    )))  # fmt: skip
    assert words(found) == [
        ("system", "the policy"), ("user", "where is it"), ("assistant", "Let me see."), ("tool", "too slow"),
            ("assistant", "Later."),
    ]  # fmt: skip
    assert [(c.name, c.arguments) for c in found.messages[2].tool_calls] == [("find", '{"id":7}')]
    assert [c.response for c in couple(trace_of(found))] == ["too slow"]
    assert (found.external_id, found.scenario, found.config, found.metadata) == ("run-s-2", "s", "m-1", {"task": "t"})
    assert found.started_at is not None


def test_texts_that_are_kept_apart_come_to_their_places() -> None:
    apart = "attachment://abc"
    call = {**CALL, "arguments": {"id": apart}}
    found = one(log(sample(
        {"role": "user", "content": apart}, {"role": "assistant", "content": [{"type": "text", "text": apart}],
            "tool_calls": [call]},
        {"role": "assistant", "content": "attachment://gone"},
        attachments={"abc": "long words"},
    )))  # fmt: skip
    assert [text for _, text in words(found)] == ["long words", "long words", "attachment://gone"]
    assert found.messages[1].tool_calls[0].arguments == '{"id":"long words"}'


@pytest.mark.parametrize("given", ["hello", [{"role": "user", "content": "hello"}]])
def test_without_messages_input_and_output_speak(given: Any) -> None:
    output = {"choices": [{"message": {"role": "assistant", "content": "Hi!"}}]}
    found = one(log({"id": 1, "epoch": 1, "input": given, "output": output}), "run.json")
    assert words(found) == [("user", "hello"), ("assistant", "Hi!")]


def test_bad_samples_stop_nothing_and_ids_stay_short() -> None:
    user = {"role": "user", "content": "x"}
    found = read(log(7, sample(5), sample({"role": "boss"}), sample(user), sample(user, id="i" * 300), sample(user,
        id="i" * 301),
                     {"id": 1}, sample(messages="x")))  # fmt: skip
    assert [(e.line, e.field) for e in found if isinstance(e, RowError)] == [
        (1, "samples[0]"), (2, "samples[1].messages[0]"), (3, "samples[2].messages[0].role"), (7, "samples[6].input"),
        (8, "samples[7].messages"),
    ]  # fmt: skip
    ids = [c.external_id for c in found if isinstance(c, Conversation)]
    assert [len(each) for each in ids] == [7, 200, 200]
    assert len(set(ids)) == 3
    without = [log() | {"samples": samples} for samples in (None, [], 5)]
    assert [e.field for e in read(*without) if isinstance(e, RowError)] == ["samples"] * 3


def test_of_a_cut_log_the_first_samples_are_seen() -> None:
    text = json.dumps(
        log(sample({"role": "user", "content": "x"}), sample({"role": "user", "content": "y"}, id="t")), indent=1
    )
    lines = head(text.encode()[:-30], whole=False, most=5)
    assert recognise(rows_of(lines, 5)).format == "inspect"
    (found,) = read_conversations(lines)
    assert isinstance(found, Conversation)
    assert found.external_id == "run-s-2"


# ----------------------------------------------------------------------------------------------------------- packed logs
def packed(path: Path, entries: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, value in entries.items():
            archive.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


HEADER = {"version": 2, "eval": {"run_id": "run", "task": "t", "model": "m-1", "created": "2026-01-01T00:00:00Z"}}
SAID = {"role": "user", "content": "hi"}


@pytest.mark.parametrize("header", ["header.json", "_journal/start.json"])
def test_samples_of_a_packed_log_are_read_one_by_one(tmp_path: Path, header: str) -> None:
    entries = {
        "samples/2_epoch_1.json": sample(SAID, id=2, epoch=1), header: HEADER, "samples/1_epoch_1.json": sample(SAID,
            id=1, epoch=1),
        "samples/3_epoch_1.json": "{", "samples/4_epoch_1.json": [1], "samples/5_epoch_1.json": sample({"role": "boss"}),
        "samples/6_epoch_1.json": b"\xff", "samples/7_epoch_1.json": "[" * 200 + "]" * 200,
        "../../evil.json": sample(SAID), "summaries.json": [], "samples/sub/8.json": sample(SAID),
    }  # fmt: skip
    path = packed(tmp_path / "log.eval", entries)
    for source in (path, tmp_path):
        found = list(read_conversations(source))
        assert [(c.external_id, c.config) for c in found if isinstance(c, Conversation)] == [
            ("run-1-1", "m-1"), ("run-2-1", "m-1"),
        ]  # fmt: skip
        assert [(e.line, e.field) for e in found if isinstance(e, RowError)] == [
            (3, "samples/3_epoch_1.json"), (4, "samples/4_epoch_1.json"), (5, "samples/5_epoch_1.json.messages[0].role"),
            (6, "samples/6_epoch_1.json"), (7, "samples/7_epoch_1.json"),
        ]  # fmt: skip


def test_what_an_archive_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_packed, "LARGEST_LINE", 5_000)
    monkeypatch.setattr(inspect_packed, "MOST_BYTES", 11_001)  # the bomb has cost what was read of it
    long = sample({**SAID, "content": "x" * 2_500})
    bomb = " " * 100_000 + "{}"
    path = packed(
        tmp_path / "log.eval", {"samples/0.json": bomb, **{f"samples/{n}.json": {**long, "id": n} for n in (1, 2, 3)}}
    )
    found = list(read_conversations(path))
    assert [c.scenario for c in found if isinstance(c, Conversation)] == ["1", "2"]
    assert [(e.line, "unpacks to more than" in e.message) for e in found if isinstance(e, RowError)] == [
        (1, True),
        (4, True),
    ]
    monkeypatch.setattr(inspect_packed, "MOST_SAMPLES", 2)
    assert [e.field for e in read_conversations(path) if isinstance(e, RowError)] == ["samples"]


@pytest.mark.parametrize("spoil", [b"", b"PK\x03\x04", b"no archive at all", None])
def test_damaged_archives_are_one_error(tmp_path: Path, spoil: bytes | None) -> None:
    path = packed(tmp_path / "log.eval", {"header.json": HEADER, "samples/1.json": sample(SAID)}, zipfile.ZIP_STORED)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"role"', b'"rule"') if spoil is None else spoil)  # a checksum that does not hold
    (found,) = read_conversations(path)
    assert isinstance(found, RowError)
    assert "inspect log convert" in found.mend
    path.write_bytes(whole.replace(b'"run_id"', b'"ran_id"'))
    assert [e.field for e in read_conversations(path) if isinstance(e, RowError)] == ["header.json"]
    packed(path, {"header.json": HEADER})
    assert [e.field for e in read_conversations(path) if isinstance(e, RowError)] == ["samples"]


def test_a_packed_log_is_no_stream() -> None:
    (found,) = read_conversations(b"PK", filename="log.eval")
    assert isinstance(found, RowError)
    assert "path" in found.message


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), byte=st.integers(0, 255))
def test_no_byte_of_an_archive_stops_the_reader(tmp_path: Path, at: int, byte: int) -> None:
    path = packed(tmp_path / "log.eval", {"header.json": HEADER, "samples/1.json": sample(SAID)})
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(bytes(data))
    for found in read_conversations(path):
        assert isinstance(found, Conversation) or (found.message and found.mend)
