"""Formats whose conversations stand in several rows: Intercom, Zendesk, OpenInference."""

import json
from pathlib import Path
from typing import Any

import pytest

from sq_core.causal.coupling import couple
from sq_core.causal.trace import trace_of
from sq_core.conversation import Conversation, user_turns
from sq_core.readers import RowError, held, openinference_attributes, read_conversations
from tests.core.reader_samples import BEGAN, Json, intercom, iso, line, otlp, span, zendesk

ASK, TELL, MORE = ("user", "where is my parcel"), ("assistant", "On its way."), ("user", "and my refund")


def read(*rows: Any) -> list[Conversation | RowError]:
    return list(read_conversations([json.dumps(row) for row in rows], None, "log.jsonl"))


def one(*rows: Any) -> Conversation:
    (found,) = read(*rows)
    assert isinstance(found, Conversation), found
    return found


def errors(*rows: Any) -> list[tuple[int, str, str]]:
    return [(e.line, e.field, e.message) for e in read(*rows) if isinstance(e, RowError)]


def words(found: Conversation) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in found.messages]


# ------------------------------------------------------------------------------------------------------------ Intercom
LEAD, ADMIN, BOT = {"type": "lead", "id": "u-1"}, {"type": "admin", "id": 5}, {"type": "bot", "id": 6}


def talk(id_: Any = "7", body: str | None = "<p>hey there</p>", author: Json = LEAD, **more: Any) -> Json:
    source = {"type": "email", "delivered_as": "customer_initiated", "subject": "", "body": body, "author": author}
    return line("conversations", type="conversation", id=id_, created_at=BEGAN, source=source, **more)


def part(id_: Any, body: Any, author: Json = ADMIN, kind: str = "comment", **more: Any) -> Json:
    at = BEGAN + int(id_)
    return line("conversation_parts", id=id_, part_type=kind, body=body, author=author, created_at=at,
                **{"conversation_id": 7, **more})  # fmt: skip


def test_parts_are_joined_by_the_conversation_s_id_in_the_order_of_their_times() -> None:
    found = one(
        part("3", "<p>You&#39;re welcome.<br>Bye</p>"), part("2", "<p>thanks</p>", LEAD), talk(), part("1",
            "<p>Found it.</p>", BOT),
        line("admins", id="5", name="x"), line("tickets", type="ticket", id="70"), line("contacts", id="u-1", role="lead"),
    )  # fmt: skip
    assert words(found) == [
        ("user", "hey there"), ("assistant", "Found it."), ("user", "thanks"), ("assistant", "You're welcome.\nBye"),
    ]  # fmt: skip
    assert (found.external_id, found.customer, found.channel, found.line) == ("7", "u-1", "email", 3)
    assert found.metadata == {"delivered_as": "customer_initiated"}
    assert found.started_at == found.messages[0].at
    assert found.started_at is not None
    assert found.started_at.timestamp() == BEGAN


def test_what_never_reached_the_customer_is_left_out() -> None:
    found = one(
        talk(),
        part("1", "<p>is he a VIP?</p>", kind="note"),
        part("2", "<p>yours</p>", kind="assignment"),
        part("3", None, kind="close"),
        part("4", "<p>closing words</p>", kind="close"),
        part("5", "<p>gone</p>", redacted=True),
        part("6", "<p>still there?</p>", LEAD, kind="open"),
        part("7", "<p> </p>"),
        part("8", "<p>yes</p>", kind="open"),
    )
    assert [text for _, text in words(found)] == ["hey there", "still there?", "yes"]


def test_an_automated_first_message_is_the_agent_s_and_the_contact_is_known() -> None:
    contacts = {"type": "contact.list", "contacts": [{"type": "contact", "id": "c-9"}]}
    found = one(talk(author=ADMIN, contacts=contacts))
    assert words(found) == [("assistant", "hey there")]
    assert (found.customer, user_turns(found.messages)) == ("c-9", ())


def test_a_record_that_comes_again_counts_once_in_its_later_form() -> None:
    found = one(talk(body="<p>old</p>"), part("1", "<p>draft</p>"), talk(), part("1", "<p>final</p>"))
    assert [text for _, text in words(found)] == ["hey there", "final"]


def test_conversations_of_the_api_hold_their_parts() -> None:
    inner = {"type": "conversation_part.list", "conversation_parts": [part("1", "<p>Hi</p>")["data"]]}
    row = talk(conversation_parts=inner)["data"]
    assert [text for _, text in words(one(row))] == ["hey there", "Hi"]
    wrapped = {"type": "RECORD", "record": talk()}
    assert words(one(wrapped)) == [("user", "hey there")]
    assert errors(row | {"conversation_parts": {"conversation_parts": [7]}})[0][1] == "data.conversation_parts[0]"


def test_streams_in_files_of_a_folder_are_joined(tmp_path: Path) -> None:
    (tmp_path / "conversation_parts.jsonl").write_text(json.dumps(part("1", "<p>Hi</p>")))
    (tmp_path / "conversations.jsonl").write_text(json.dumps(talk()))
    (found,) = read_conversations(tmp_path)
    assert isinstance(found, Conversation)
    assert [text for _, text in words(found)] == ["hey there", "Hi"]
    (lone,) = read_conversations(tmp_path / "conversation_parts.jsonl")
    assert isinstance(lone, RowError)
    assert (lone.file, lone.line, lone.field) == ("conversation_parts.jsonl", 1, "data.conversation_id")
    assert "streams conversations and conversation_parts" in lone.mend


def test_what_is_wrong_with_a_part_is_told_and_its_conversation_not_given() -> None:
    bad = [
        part("1", 5), part("2", "<p>x</p>", {"type": "ghost"}), part("3", "x", None), part("4", "x", conversation_id=None),
        part("5", "x") | {"data": {**part("5", "x")["data"], "created_at": "soon"}},
    ]  # type: ignore[arg-type]  # fmt: skip
    told = errors(talk(), *bad, talk("8"))
    assert [(at, field) for at, field, _ in told] == [
        (2, "data.body"), (3, "data.author.type"), (4, "data.author.type"), (5, "data.conversation_id"), (6,
            "data.created_at"),
    ]  # fmt: skip
    assert [c.external_id for c in read(talk(), *bad, talk("8")) if isinstance(c, Conversation)] == ["8"]
    assert errors(talk(body=None)) == [(1, "data.source.body", "conversation 7 has no message with text.")]
    assert errors(line("conversations", id="7", created_at=BEGAN, source=None))[0][1] == "data.source"
    assert errors(line("conversations", id="i" * 201, created_at=BEGAN))[0][1] == "data.id"


@pytest.mark.parametrize("write", [intercom, zendesk, lambda said: otlp(said)])
def test_no_more_is_held_than_the_bound(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MOST_HELD", 700)
    (found,) = read(*write([("user", "long " * 100), ("assistant", "long " * 100)]))
    assert isinstance(found, RowError)
    assert "at once" in found.message
    assert "Split the export" in found.mend


# ------------------------------------------------------------------------------------------------------------- Zendesk
USERS = [
    line("users", id=11, role="end-user"),
    line("users", id=12.0, role="agent"),
    line("users", id="13", role="admin"),
]


def ticket(id_: Any = 7, description: Any = "it is broken", **more: Any) -> Json:
    facts = {"id": id_, "description": description, "requester_id": 11, "submitter_id": 11, "created_at": iso(0),
             "subject": "Broken", "type": "problem", "via": {"channel": "email"}}  # fmt: skip
    return line("tickets", **{**facts, **more})


def comment(id_: int, author: Any, body: Any, **more: Any) -> Json:
    return line("ticket_comments", **{"id": id_, "ticket_id": "7", "author_id": author, "body": body, "public": True,
                                      "created_at": iso(id_), **more})  # fmt: skip


def test_a_ticket_with_its_comments_and_who_wrote_them() -> None:
    found = one(
        comment(3, 13, "Done."), comment(2, 12, "Which one?"), comment(1, 11.0, "it is *broken*", created_at=iso(0)),
            ticket(), *USERS,
        line("ticket_metrics", id=1), line("organizations", id=1),
    )  # fmt: skip
    assert words(found) == [("user", "it is *broken*"), ("assistant", "Which one?"), ("assistant", "Done.")]
    assert (found.external_id, found.customer, found.channel) == ("7", "11", "email")
    assert found.metadata == {"subject": "Broken"}


def test_internal_notes_are_left_out_also_where_one_is_the_description() -> None:
    note = comment(1, 12, "called him, angry", public=False, created_at=iso(0))
    found = one(ticket(description="called him, angry", submitter_id=12), note, comment(2, 12, "We are on it."), *USERS)
    assert words(found) == [("assistant", "We are on it.")]
    (told,) = errors(ticket(is_public=False), *USERS)
    assert told[1:] == ("data.description", "ticket 7 has no public message with text.")


@pytest.mark.parametrize(
    ("description", "text"),
    [
        (r"Call from: +1\nTime: 10:00", "Call from: +1\nTime: 10:00"),
        (r"Call\r\nTime", "Call\nTime"),
        ("see C:\\new\nand more", "see C:\\new\nand more"),
    ],
)
def test_a_literal_line_break_is_one(description: str, text: str) -> None:
    assert words(one(ticket(description=description), *USERS)) == [("user", text)]


def test_html_is_read_where_there_is_no_plain_body() -> None:
    found = one(
        ticket(), comment(1, 12, None, html_body="<p>Try &amp; see</p>"), comment(2, 12, "b", plain_body="p"), *USERS
    )
    assert [text for _, text in words(found)] == ["it is broken", "Try & see", "p"]


def test_without_user_records_what_is_missing_is_said() -> None:
    assert words(one(ticket(), comment(1, 11, "hello?"))) == [("user", "it is broken"), ("user", "hello?")]
    (told,) = errors(ticket(), comment(1, 99, "Hi."))
    assert told[:2] == (1, "data.author_id")
    assert "user 99, who wrote in line 2, has no record; the stream users is not there at all" in told[2]
    (partly,) = [e for e in read(ticket(), comment(1, 99, "Hi."), *USERS) if isinstance(e, RowError)]
    assert (partly.message, partly.mend) == (
        "user 99, who wrote in line 2, has no record.", "Export the stream users with the tickets.",
    )  # fmt: skip
    assert words(one(ticket(), comment(1, -1, "Merged."), *USERS))[1] == ("assistant", "Merged.")


def test_bad_rows_of_zendesk_are_named() -> None:
    rows = [
        ticket(), comment(1, 12, 5), comment(2, 12, "x", public="no"), comment(3, 12, "x", created_at=None),
        comment(4, 12, "x", ticket_id=None), line("users", id=1, role="king"), comment(5, 12, "x", ticket_id=8), *USERS,
    ]  # fmt: skip
    assert [(at, field) for at, field, _ in errors(*rows)] == [
        (2, "data.body"), (3, "data.public"), (4, "data.created_at"), (5, "data.ticket_id"), (6, "data.role"), (7,
            "data.ticket_id"),
    ]  # fmt: skip
    assert not [each for each in read(*rows) if isinstance(each, Conversation)]


# ------------------------------------------------------------------------------------------------------- OpenInference
def envelope(*spans: Json) -> Json:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [*spans]}]}]}


def turn(trace: str, said: Any, minute: int = 0, **more: Any) -> Json:
    at = {"startTimeUnixNano": str((BEGAN + 60 * minute) * 10**9)}
    return {**span(said, **more), "traceId": trace, **at}


CALLED = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "the policy",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "where is",
    "llm.input_messages.1.message.contents.1.message_content.type": "image",
    "llm.input_messages.1.message.contents.1.message_content.image.image.url": "data:x",
    "llm.input_messages.1.message.contents.2.message_content.text": "my parcel",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "k",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "find",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"id":7}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.content": "found",
    "llm.input_messages.3.message.tool_call_id": "k",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "On its way.",
    "session.id": "s-1", "user.id": "u-1", "llm.model_name": "m-1",
}  # fmt: skip


def nested() -> Json:
    messages = [
        {"message": {"role": "system", "content": "the policy"}},
        {"message.role": "user", "message.contents": [
            {"message_content.type": "text", "message_content.text": "where is"},
            {"message_content": {"type": "text", "text": "my parcel"}}]},
        {"message": {"role": "assistant", "content": None, "tool_calls": [
            {"tool_call": {"id": "k", "function": {"name": "find", "arguments": '{"id":7}'}}}]}},
        {"message": {"role": "tool", "content": "found", "tool_call_id": "k"}},
    ]  # fmt: skip
    return {
        "llm": {"input_messages": messages, "output_messages": [{"message": {"role": "assistant",
            "content": "On its way."}}],
                "model_name": "m-1"},
        "session": {"id": "s-1"}, "user": {"id": "u-1"}, "metadata": {"a.b": {"c": 1}},
    }  # fmt: skip


OTLP = {
    "traceId": "t", "startTimeUnixNano": BEGAN * 10**9,
    "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in CALLED.items()],
}  # fmt: skip
OTLP_LISTS = {
    **OTLP,
    "attributes": [
        *[each for each in OTLP["attributes"] if "put_messages" not in each["key"]],  # type: ignore[attr-defined]
        {"key": "llm.input_messages", "value": {"arrayValue": {"values": [
            {"kvlistValue": {"values": [
                {"key": "message", "value": {"kvlistValue": {"values": [
                    {"key": name, "value": {"stringValue": value}} for name, value in message.items()]}}}]}}
            for message in (
                {"role": "system", "content": "the policy"}, {"role": "user", "content": "where is\nmy parcel"},
                {"role": "assistant", "function_call_name": "find", "function_call_arguments_json": '{"id":7}'},
                {"role": "tool", "content": "found"})]}}},
        {"key": "llm.output_messages",
            "value": {"stringValue": '[{"message.role": "assistant", "message.content": "On its way."}]'}},
    ],
}  # fmt: skip
PHOENIX = {"name": "x", "context": {"trace_id": "t", "span_id": "s"}, "span_kind": "LLM", "parent_id": "p",
    "start_time": iso(0)}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        envelope(OTLP),
        envelope(OTLP_LISTS),
        {**PHOENIX, "attributes": CALLED},
        {**PHOENIX, "attributes": nested()},
        {**PHOENIX, "attributes": json.dumps(nested())},
        {"context.trace_id": "t", "span_kind": "LLM", "start_time": BEGAN * 1000,
         **{f"attributes.llm.{name}": value for name, value in nested()["llm"].items()},
         "attributes.session.id": "s-1", "attributes.user.id": "u-1"},
    ],
)  # fmt: skip
def test_attributes_in_every_writing_give_the_same_conversation(row: Json) -> None:
    found = one(row)
    assert words(found) == [
        ("system", "the policy"), ("user", "where is\nmy parcel"), ("assistant", ""), ("tool", "found"), ("assistant",
            "On its way."),
    ]  # fmt: skip
    assert [(c.name, c.arguments) for c in found.messages[2].tool_calls] == [("find", '{"id":7}')]
    assert [c.response for c in couple(trace_of(found))] == ["found"]
    assert (found.external_id, found.customer, found.config) == ("s-1", "u-1", "m-1")
    assert found.started_at is not None
    assert (found.started_at.timestamp(), user_turns(found.messages)) == (BEGAN, (1,))


def test_of_a_trace_the_fullest_history_is_read_and_sessions_join_traces() -> None:
    first = turn("a", [("system", "Today is Monday."), ASK, TELL], **{"session.id": "s"})
    whole = turn("b", [("system", "Today is Tuesday."), ASK, TELL, MORE], 5, **{"session.id": "s"})
    helper = turn("b", [("system", "Name the topic."), ("user", "a"), ("assistant", "b")], 6)
    alone = turn("c", [("user", "only this")], 9, **{"session.id": "s"})
    found = read(envelope(alone, helper), envelope(whole), envelope(first), envelope(turn("d", [ASK])))
    assert [c.external_id for c in found if isinstance(c, Conversation)] == ["s", "d"]
    (session,) = (c for c in found if isinstance(c, Conversation) and c.external_id == "s")
    assert words(session) == [("system", "Today is Monday."), ASK, TELL, MORE, ("user", "only this")]
    assert session.started_at is not None
    assert session.started_at.timestamp() == BEGAN


def test_answers_of_tools_among_the_parts_of_a_user_s_message_are_the_tool_s() -> None:
    asked = {
        "role": "assistant",
        "contents": [{"message_content": {"type": "tool_use", "id": "k", "name": "find", "input": {"id": 7}}}],
    }
    answer = {"message_content": {"type": "tool_result", "tool_use_id": "k", "text": "found"}}
    messages = [
        {"message": {"role": "user", "content": "hi"}},
        {"message": asked},
        {"message": {"role": "user", "contents": [answer]}},
    ]
    found = one({**PHOENIX, "attributes": {"llm": {"input_messages": messages}}})
    assert words(found) == [("user", "hi"), ("assistant", ""), ("tool", "found")]
    assert [c.response for c in couple(trace_of(found))] == ["found"]


@pytest.mark.parametrize(
    ("given", "answer", "said"),
    [
        ("hello", "Hi!", [("user", "hello"), ("assistant", "Hi!")]),
        ('{"messages": [{"role": "user", "content": "hello"}]}', '{"role": "assistant", "content": "Hi!"}',
         [("user", "hello"), ("assistant", "Hi!")]),
        ('{"messages": [{"type": "human", "content": "hello"}]}',
         '{"messages": [{"type": "human", "content": "hello"}, {"type": "ai", "content": "Hi!"}]}',
         [("user", "hello"), ("assistant", "Hi!")]),
        ('{"input": "hello"}', '{"answer": 42}', [("user", "hello"), ("assistant", '{"answer":42}')]),
        ("hello", None, [("user", "hello")]),
    ],
)  # fmt: skip
def test_without_a_model_s_messages_input_and_output_speak(given: str, answer: Any, said: Any) -> None:
    values = {"input.value": given, "output.value": answer}
    for kind, parent in (("LLM", "p"), ("AGENT", None), ("CHAIN", None)):
        attributes = {"openinference.span.kind": kind, **values}
        assert words(one({**PHOENIX, "parent_id": parent, "span_kind": kind, "attributes": attributes})) == said


def test_what_is_wrong_with_spans_is_told_by_its_place() -> None:
    good = turn("g", [ASK])
    rows = [
        envelope(7, good),  # type: ignore[arg-type]
        envelope({"attributes": []}),
        envelope({"traceId": "b", "startTimeUnixNano": "soon"}),
        envelope({"traceId": "c", "attributes": {}}),
        {"resourceSpans": [{"scopeSpans": [{}]}]},
        {**PHOENIX, "attributes": {"llm.input_messages.0.message.content": "x"}},
        {**PHOENIX, "context": {"trace_id": "e"}, "span_kind": "TOOL", "attributes": {"input.value": "x"}},
        {**PHOENIX, "context": {"trace_id": "f"}, "attributes": 5},
    ]
    assert [(at, field) for at, field, _ in errors(*rows)] == [
        (1, "resourceSpans[0].scopeSpans[0].spans[0]"), (2, "resourceSpans[0].scopeSpans[0].spans[0].traceId"),
        (3, "resourceSpans[0].scopeSpans[0].spans[0].startTimeUnixNano"),
        (4, "resourceSpans[0].scopeSpans[0].spans[0].attributes"), (5, "resourceSpans[0].scopeSpans[0].spans"),
        (8, "attributes"), (6, "attributes.llm.input_messages.0.message.role"), (7, "attributes"),
    ]  # fmt: skip
    assert [c.external_id for c in read(*rows) if isinstance(c, Conversation)] == ["g"]


def test_dotted_keys_are_not_followed_without_end() -> None:
    deep = {"llm." + "a." * 5_000 + "b": 1}
    for _ in range(12):
        deep = {"llm." + "b." * 14 + "c": deep}
    found = read({**PHOENIX, "attributes": deep})
    assert [e.field for e in found if isinstance(e, RowError)] == ["attributes"]
    assert openinference_attributes.listed({"1": "b", "0": "a", "x": "c", "٣": "d"}) == ["a", "b"]
