"""Foreign formats: each shape that was met in real files, written small by hand, and what is wrong told by its place."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.causal.coupling import couple
from sq_core.causal.trace import trace_of
from sq_core.conversation import Conversation, user_turns
from sq_core.readers import (
    CONVERSATION_FORMATS,
    ArtifactText,
    RowError,
    chat,
    held,
    rasa,
    read_conversations,
    read_policies,
    yaml_file,
)
from sq_core.readers.conversations import conversation_format
from sq_core.readers.head import recognise, rows_of
from tests.core import reader_samples

Json = dict[str, Any]
ASK, TELL = {"role": "user", "content": "where is my parcel"}, {"role": "assistant", "content": "On its way."}


def read(*rows: Any, name: str = "log.jsonl", format: str | None = None) -> list[Conversation | RowError]:  # noqa: A002
    return list(read_conversations([json.dumps(row) for row in rows], format, name))


def one(row: Any, name: str = "log.jsonl") -> Conversation:
    (found,) = read(row, name=name)
    assert isinstance(found, Conversation), found
    return found


def error(row: Any, name: str = "log.jsonl") -> RowError:
    (found,) = read(row, name=name)
    assert isinstance(found, RowError), found
    return found


def said(found: Conversation) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in found.messages]


def calls(found: Conversation) -> list[tuple[str | None, str, str]]:
    return [(c.id, c.name, c.arguments) for m in found.messages for c in m.tool_calls]


# ------------------------------------------------------------------------------------------------------------- openai
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id":"7"}'}}
TUNING = {
    "messages": [
        {"role": "system", "content": "the whole policy"},
        {"role": "assistant", "content": "Hello!"},
        ASK,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "assistant", "content": [{"type": "text", "value": "It is "}, {"type": "text", "text": "here."}]},
    ],
    "tools": [{"type": "function", "function": {"name": "find"}}],
    "parallel_tool_calls": True,
}


def test_rows_for_fine_tuning_get_their_place_as_id() -> None:
    found = one(TUNING, "train set.jsonl")
    assert (found.external_id, found.line) == ("train set-1", 1)
    assert user_turns(found.messages) == (2,)
    assert calls(found) == [("c1", "find", '{"id":"7"}')]
    assert [c.response for c in couple(trace_of(found))] == ["found"]
    assert found.messages[-1].content == "It is \nhere."


def test_a_row_of_ours_without_an_id_stays_one() -> None:
    assert error({"messages": [ASK], "scenario": "s"}).field == "id"
    (insisted,) = read({"messages": [ASK]}, format="jsonl")
    assert isinstance(insisted, RowError)
    assert insisted.field == "id"


COMPLETION = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1_770_000_000, "model": "m-1",
    "choices": [{"index": 0, "message": {**TELL, "refusal": None}, "finish_reason": "stop"}],
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASK], "response": COMPLETION},
        {"request": {"messages": [ASK], "model": "m-1"}, "response": COMPLETION},
        {"request": json.dumps({"messages": [ASK]}), "response": json.dumps(COMPLETION)},
        {"messages": [ASK], **COMPLETION},
        {"messages": [ASK, TELL], "response": COMPLETION},
    ],
)
def test_a_completion_is_joined_to_its_request(row: Json) -> None:
    found = one(row)
    assert said(found) == [("user", "where is my parcel"), ("assistant", "On its way.")]
    assert found.external_id == "chatcmpl-1"


def test_an_answer_alone_has_no_customer() -> None:
    found = error(COMPLETION)
    assert found.field == "choices"
    assert "Join the request" in found.mend
    assert error({"id": "r", "object": "response", "output": []}).field == "output"
    failed = error({"messages": [ASK], "response": {"error": {"message": "quota"}}})
    assert failed.field == "response.error"


def test_responses_items_become_messages_calls_and_answers() -> None:
    row = {
        "object": "response", "id": "resp_1", "created_at": 1_770_000_000.0, "model": "m", "instructions": "be kind",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "k", "name": "weather", "arguments": '{"at":"X"}', "id": "fc"},
            {"type": "function_call_output", "call_id": "k", "output": "sunny"},
            {"type": "web_search_call", "id": "ws", "status": "completed"},
        ],
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]}],
    }  # fmt: skip
    found = one(row)
    assert said(found) == [
        ("system", "be kind"), ("user", "weather?"), ("assistant", ""), ("tool", "sunny"), ("assistant", "Sunny."),
    ]  # fmt: skip
    assert [c.response for c in couple(trace_of(found))] == ["sunny"]
    assert found.started_at is not None
    assert error(row | {"previous_response_id": "resp_0"}).field == "previous_response_id"
    assert error(row | {"input": [{"strange": 1}]}).field == "messages.input[0]"


# ---------------------------------------------------------------------------------------------------------- anthropic
BLOCKS = {
    "system": [{"type": "text", "text": "be kind"}],
    "model": "claude-x",
    "metadata": {"user_id": "u-9"},
    "messages": [
        {"role": "user", "content": "where is my parcel"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t1", "name": "find", "input": {"id": 7}},
            {"type": "tool_use", "id": "t2", "name": "who", "input": {}}]},
        {"content": [
            {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "you"}]},
            {"type": "tool_result", "tool_use_id": "t1", "content": "on its way", "is_error": False}], "role": "user"},
        {"role": "assistant", "content": [{"type": "text", "text": "On its way."}]},
        {"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "and this?"}]},
    ],
}  # fmt: skip


def test_a_tool_s_answer_in_the_user_s_message_is_the_tool_s() -> None:
    found = one(BLOCKS, "chat.json")
    assert said(found) == [
        ("system", "be kind"), ("user", "where is my parcel"), ("assistant", "Let me see."), ("tool", "you"),
        ("tool", "on its way"), ("assistant", "On its way."), ("user", "and this?"),
    ]  # fmt: skip
    assert user_turns(found.messages) == (1, 6)
    assert [c.response for c in couple(trace_of(found))] == ["on its way", "you"]
    assert (found.customer, found.config, found.external_id) == ("u-9", "claude-x", "chat-1")


def test_an_answer_of_the_api_follows_its_request() -> None:
    answer = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "Yes."}],
              "stop_reason": "end_turn"}  # fmt: skip
    assert said(one({"request": BLOCKS, "response": answer}))[-1] == ("assistant", "Yes.")
    refusal = answer | {"content": [], "stop_reason": "refusal"}
    assert said(one({"request": BLOCKS, "response": refusal}))[-1] == ("assistant", "")
    found = error(answer)
    assert (found.field, "without the request" in found.message) == ("content", True)
    assert error({**BLOCKS, "messages": [{"role": "user", "content": [{"type": "tool_result"}, 5]}]}).field == (
        "row.messages[0].content[1]"
    )


# ----------------------------------------------------------------------------------------------------------- langfuse
def trace(id_: str, observations: list[Json], **more: Any) -> Json:
    facts = {
        "id": id_,
        "timestamp": "2026-01-01T10:00:00.000Z",
        "sessionId": None,
        "userId": "u",
        "input": None,
        "output": None,
    }
    return {"trace": facts | more, "observations": observations}


def generation(given: Any, answer: Any, at: str = "2026-01-01T10:00:01.000Z") -> Json:
    return {"id": "o", "type": "GENERATION", "startTime": at, "input": given, "output": answer}


HUMAN = {"type": "human", "content": "where is my parcel", "additional_kwargs": {}}
AI = {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [CALL]}}
ANSWER = {"type": "tool", "content": "found", "tool_call_id": "c1", "name": "find"}
DONE = {"type": "ai", "content": "On its way.", "additional_kwargs": {}}
SHAPES: list[tuple[Any, Any]] = [
    (json.dumps({"messages": [HUMAN, AI, ANSWER]}), json.dumps({"messages": [HUMAN, AI, ANSWER, DONE]})),
    (json.dumps(json.dumps({"messages": [HUMAN, AI, ANSWER]})), json.dumps(json.dumps({"messages": [DONE]}))),
    ([HUMAN, AI, ANSWER], DONE),
    (
        [{"role": "user", "content": "where is my parcel"},
         {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [CALL]}},
         {"role": "tool", "tool_call_id": "c1", "content": "found"},
         {"role": "tool", "content": {"type": "function", "function": {"name": "find"}}}],
        {"role": "assistant", "content": "On its way.", "additional_kwargs": {}},
    ),
    (
        [{"role": "user", "content": "where is my parcel"},
         {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"id":"7"}'},
         {"type": "function_call_output", "call_id": "c1", "output": "found"}],
        {"object": "response", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On its way."}]}]},
    ),
    (
        {"model": "g", "contents": [
            {"role": "user", "parts": [{"text": "where is my parcel"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "find", "args": '{"id":"7"}'}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "response": "found"}}]}]},
        {"role": "model", "parts": [{"text": "On its way."}]},
    ),
    (
        [{"role": "user", "content": [{"type": "text", "text": "where is my parcel"}]},
         {"role": "assistant", "content": [
             {"type": "tool-call", "toolCallId": "c1", "toolName": "find", "input": '{"id":"7"}'}]},
         {"role": "tool", "content": [
             {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "found"}}]}],
        "On its way.",
    ),
    (
        [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"], "kwargs": {"content": HUMAN["content"]}},
         {"lc": 1, "type": "constructor", "id": ["x", "AIMessageChunk"], "kwargs": {
             "content": "", "tool_calls": [{"id": "c1", "name": "find", "args": {"id": "7"}}]}},
         {"lc": 1, "type": "constructor", "id": ["x", "ToolMessage"], "kwargs": {"content": "found", "tool_call_id": "c1"}}],
        {"content": "On its way."},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "answer"), SHAPES)
def test_every_framework_s_shape_in_a_trace_gives_the_same_conversation(given: Any, answer: Any) -> None:
    early = generation([{"role": "user", "content": "where is my parcel"}], None, "2026-01-01T09:00:00Z")
    found = one(trace("t-1", [generation(given, answer), early]))
    assert said(found) == [
        ("user", "where is my parcel"), ("assistant", ""), ("tool", "found"), ("assistant", "On its way."),
    ]  # fmt: skip
    assert calls(found) == [("c1", "find", '{"id":"7"}')]
    assert [c.response for c in couple(trace_of(found))] == ["found"]
    assert (found.external_id, found.customer) == ("t-1", "u")


def test_the_trace_speaks_where_no_generation_does() -> None:
    found = one(trace("t", [], input=json.dumps({"prompt": "hello"}), output=json.dumps("Hi!")))
    assert said(found) == [("user", "hello"), ("assistant", "Hi!")]
    broken = generation({"content": "role"}, None)
    assert said(one(trace("t", [broken], input="plain words")))[0] == ("user", "plain words")
    told = error(trace("t", [broken]))
    assert told.field == "observations[0].input[0]"
    assert error(trace("t", [])).field == "observations"


def test_traces_of_a_session_are_one_conversation_in_the_order_of_their_times() -> None:
    first = trace("a", [generation([ASK], TELL)], sessionId="s", timestamp="2026-01-01T10:00:00Z")
    more = [ASK, TELL, {"role": "user", "content": "and my refund"}]
    second = trace("b", [generation(more, {"role": "assistant", "content": "Tomorrow."})], sessionId="s",
                   timestamp="2026-01-01T11:00:00Z")  # fmt: skip
    alone = trace("c", [generation("only this", "Fine.")], sessionId="s", timestamp="2026-01-01T12:00:00Z")
    found = read(alone, second, first, trace("d", [generation([ASK], None)]))
    ids = [c.external_id for c in found if isinstance(c, Conversation)]
    assert ids == ["d", "s"]
    (session,) = (c for c in found if isinstance(c, Conversation) and c.external_id == "s")
    assert [text for _, text in said(session)] == [
        "where is my parcel", "On its way.", "and my refund", "Tomorrow.", "only this", "Fine.",
    ]  # fmt: skip


def test_sessions_are_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MOST_HELD", 1_200)
    rows = [trace(str(n), [generation([ASK], TELL)], sessionId=f"s{n % 2}") for n in range(6)]
    told, alone = read(*rows, trace("d", [generation([ASK], TELL)]))
    assert isinstance(told, RowError)
    assert (told.line, told.field) == (5, "sessionId")
    assert isinstance(alone, Conversation)  # no session might lack a message; what stands alone is given


# ---------------------------------------------------------------------------------------------------------- langsmith
def run(id_: str, **more: Any) -> Json:
    return {
        "id": id_,
        "trace_id": "tr",
        "dotted_order": f"20260101T100000Z{id_}",
        "run_type": "llm",
        "name": "Chat",
    } | more


def test_both_halves_of_a_run_are_joined_by_id_or_order() -> None:
    post = run("r1", inputs={"messages": [ASK]}, start_time=1_770_000_000_000)
    outputs = {"choices": [{"message": {**TELL, "function_call": None, "tool_calls": None}}]}
    with_id = one({"post": [post], "patch": [{"id": "r1", "outputs": outputs}]})
    by_order = one(
        {"post": [post], "patch": [{"dotted_order": post["dotted_order"], "trace_id": "tr", "outputs": outputs}]}
    )
    for found in (with_id, by_order):
        assert said(found) == [("user", "where is my parcel"), ("assistant", "On its way.")]
        assert found.external_id == "tr"
    assert with_id.started_at is not None


def test_of_a_thread_s_runs_the_fullest_is_read() -> None:
    facts = {"extra": {"metadata": {"thread_id": "th-1", "user_id": "u", "ls_model_name": "m"}}}
    short = run("a", inputs={"messages": [[HUMAN]]}, outputs={"generations": [[{"message": DONE}]]}, **facts)
    full = run("b", inputs={"messages": [HUMAN, DONE, HUMAN]}, outputs={"output": "Again."}, **facts)
    tool = run("c", run_type="tool", inputs={"query": "x"}, outputs={"output": "y"}, **facts)
    found = one({"post": [full, short, tool], "patch": []})
    assert (found.external_id, found.customer, found.config, len(found.messages)) == ("th-1", "u", "m", 4)
    lines_ = read(short, tool, full)
    assert [len(c.messages) for c in lines_ if isinstance(c, Conversation)] == [2, 4]
    assert error({"post": [tool], "patch": []}).field == "post"
    assert error({"post": [run("x")], "patch": []}).field == "post[0].inputs"
    assert error({"post": [full], "patch": 5}).field == "patch"


def test_a_bad_thread_of_a_batch_leaves_the_others() -> None:
    bad = run("r1", trace_id="one", inputs={"messages": [{"role": "boss", "content": "x"}]})
    good = run("r2", trace_id="two", inputs={"messages": [ASK]})
    told, kept = read({"post": [bad, good], "patch": []})
    assert isinstance(told, RowError)
    assert told.field == "messages[0].role"
    assert isinstance(kept, Conversation)


# -------------------------------------------------------------------------------------------------- sharegpt, chatgpt
def test_sharegpt_calls_are_coupled_with_what_follows() -> None:
    row = {"conversations": [
        {"from": "system", "value": "be kind"}, {"from": "human", "value": "我的包裹在哪里"},
        {"from": "function_call", "value": '{"name": "find", "arguments": {"id": 7}}'},
        {"from": "observation", "value": '{"at": "X"}'}, {"from": "gpt", "value": "在路上"}], "tools": "[]"}  # fmt: skip
    found = one(row)
    assert [role for role, _ in said(found)] == ["system", "user", "assistant", "tool", "assistant"]
    assert calls(found) == [(None, "find", '{"id":7}')]
    assert [c.response for c in couple(trace_of(found))] == ['{"at": "X"}']
    bad = error({"conversations": [{"from": "human", "value": "x"}, {"from": "boss", "value": "y"}]})
    assert bad.field == "conversations[1].from"
    broken = error({"conversations": [{"from": "function_call", "value": "find()"}]})
    assert broken.field == "conversations[0].value"


def node(id_: str, parent: str | None, role: str | None, text: str) -> Json:
    content = {"content_type": "text", "parts": [text, {"image": 1}]}
    message = {"author": {"role": role}, "content": content, "create_time": 1_704_067_200} if role else None
    return {"id": id_, "parent": parent, "children": [], "message": message}


def test_the_branch_that_is_shown_is_read_of_a_chatgpt_export() -> None:
    nodes = [node("0", None, None, ""), node("1", "0", "system", ""), node("2", "1", "user", "hi"),
             node("3", "2", "assistant", "hello"), node("4", "3", "user", "left"), node("5", "3", "user", "kept")]  # fmt: skip
    row = {"id": "c-1", "title": "t", "current_node": "5", "mapping": {n["id"]: n for n in nodes}}
    assert [text for _, text in said(one(row))] == ["hi", "hello", "kept"]
    row["mapping"]["2"]["parent"] = "5"
    assert error(row).field == "mapping.5"
    row["current_node"] = "gone"
    assert error(row).field == "mapping.gone"


# --------------------------------------------------------------------------------------------------------------- rasa
def test_rasa_trackers_and_test_stories_give_what_was_said() -> None:
    tracker = {"sender_id": "s-1", "events": [
        {"event": "action", "name": "action_listen"}, {"event": "user", "text": "hi", "timestamp": 1_704_067_200.5},
        {"event": "bot", "text": "Hello!"}, {"event": "slot", "name": "x"}, {"event": "user", "text": "/restart"}]}  # fmt: skip
    assert said(one(tracker)) == [("user", "hi"), ("assistant", "Hello!")]
    stories = """
version: "3.1"
stories:
- story: pay
  steps:
  - intent: greet
    user: |-
      hi
  - action: utter_greet
  - intent: pay
    user: |-
      pay my [emblm]{"entity": "card", "value": "emblem"} with [5](amount)
- story: intents alone
  steps:
  - intent: greet
"""
    good, bad = read_conversations([*stories.splitlines()], filename="test_stories.yml")
    assert isinstance(good, Conversation)
    assert [text for _, text in said(good)] == ["hi", "pay my emblm with 5"]
    assert isinstance(bad, RowError)
    assert (bad.line, bad.field) == (13, "steps")


NLU = """
version: "3.1"
nlu:
- intent: check_balance
  examples: |
    - what is my [balance](amount-of-money)?
    - how much do i have
    - how much do i have
- synonym: credit
  examples: |
    - credit card
- intent: faq/ask_name
  examples:
  - text: your name?
- intent: empty
  examples: ""
- intent: check_balance
  examples: |
    - again
"""


def test_rasa_intents_become_policies_with_suggested_examples() -> None:
    found = list(read_policies(NLU.splitlines(), "nlu.yml"))
    first, second, empty, twice = found
    assert isinstance(first, ArtifactText)
    assert (first.key, first.name, first.text, first.line) == (
        "check-balance",
        "Check balance",
        "Intent: check balance",
        4,
    )
    assert first.signals == ("what is my balance?", "how much do i have")
    assert isinstance(second, ArtifactText)
    assert (second.key, second.signals) == ("faq-ask-name", ("your name?",))
    assert isinstance(empty, RowError)
    assert (empty.line, empty.field) == (15, "examples")
    assert isinstance(twice, RowError)
    assert (twice.line, twice.field) == (17, "id")


def test_marks_are_taken_off_in_linear_time() -> None:
    assert rasa.unmarked('[a](b) [c]{"d": 1} [e] (f)') == "a c [e] (f)"
    assert rasa.unmarked("[" * 200_000).count("[") == 200_000


# ------------------------------------------------------------------------------------------ routes, guidelines, YAML
ROUTES = """
encoder_type: openai
routes:
- name: chit_chat
  description: Small talk about the weather.
  utterances: ["how are you", "lovely day", 5]
- name: refunds
  utterances:
  - where is my money
- name: "!!"
  utterances: []
"""


def test_routes_of_semantic_router_as_yaml_and_json() -> None:
    bad, good, nameless = read_policies(ROUTES.splitlines(), "routes.yaml")
    assert isinstance(bad, RowError)
    assert (bad.line, bad.field) == (4, "utterances[2]")
    assert good == ArtifactText("refunds", "Refunds", "Route: refunds", "policy", ("where is my money",))
    assert isinstance(nameless, RowError)
    as_json = {
        "encoder_name": "x",
        "routes": [{"name": "chit_chat", "description": "Small talk.", "utterances": ["hey"]}, 7],
    }
    found = list(read_policies([json.dumps(as_json)], "routes.json"))
    assert found[0] == ArtifactText("chit-chat", "Chit chat", "Small talk.", "policy", ("hey",))
    assert isinstance(found[1], RowError)
    assert (found[1].line, found[1].field) == (2, "routes[1]")


def test_guidelines_of_parlant() -> None:
    rows = [
        {
            "id": "g_1",
            "condition": "When the customer is angry.",
            "action": "apologise first",
            "enabled": True,
            "tags": [],
        },
        {"id": "g_2", "condition": "the customer mentions a dog", "action": None, "enabled": True},
        {"id": "g_3", "condition": "never", "action": "x", "enabled": False},
        {"condition": " ", "action": "x"},
    ]
    found = list(read_policies(json.dumps(rows).encode(), "guidelines.json"))
    assert found[0] == ArtifactText(
        "g-1", "The customer is angry", "When the customer is angry, then apologise first", "policy"
    )
    assert found[1] == ArtifactText("g-2", "The customer mentions a dog", "the customer mentions a dog", "observation")
    assert [(e.line, e.field) for e in found[2:] if isinstance(e, RowError)] == [(3, "enabled"), (4, "condition")]
    whole = list(read_policies([json.dumps({"guidelines": rows})], "g.json"))
    assert [(e.line, e.field) for e in whole[2:] if isinstance(e, RowError)] == [
        (3, "guidelines[2].enabled"), (4, "guidelines[3].condition"),
    ]  # fmt: skip


BOMB = "nlu:\n- &a [x, x]\n- &b [*a, *a]\n- [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (BOMB, "anchors and aliases"),
        ("nlu: [", "not valid YAML"),
        ("nlu: !!python/object/apply:os.system ['x']", "not valid YAML"),
        ("- a\n- b", "a list, not names with lists"),
        ("other: 1", "has other, and none of nlu"),
        ("nlu: " + "[" * 120 + "]" * 120, "deep"),
        ("nlu: " + "[" * 20_000, "nested too deeply"),
        ("a: \x01", "not valid YAML"),
        ("", "null, not names"),
    ],
)
def test_yaml_that_is_none_is_one_error(text: str, part: str) -> None:
    (found,) = read_policies(text.split("\n") if text else [""], "x.yml")
    assert isinstance(found, RowError)
    assert part in found.message


def test_a_long_yaml_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_file, "MOST_BYTES", 100)
    (found,) = read_policies(NLU.splitlines(), "nlu.yml")
    assert isinstance(found, RowError)
    assert "Split the file" in found.mend


# --------------------------------------------------------------------------------------------------- what all share
SAMPLES: dict[str, Json] = {
    "openai": TUNING, "anthropic": BLOCKS, "langfuse": trace("t", [generation([ASK], TELL)]),
    "langsmith": {"post": [run("r", inputs={"messages": [ASK]})], "patch": []},
    "sharegpt": {"conversations": [{"from": "human", "value": "x"}]},
    "chatgpt": {"id": "c", "current_node": "1", "mapping": {"1": node("1", None, "user", "hi")}},
    "rasa": {"sender_id": "s", "events": [{"event": "user", "text": "hi"}]},
    "tau": {"task_id": 1, "trial": 0, "traj": [ASK]},
    "jsonl": {"id": "a", "messages": [ASK]},
    **{name: reader_samples.FORMS[form][1]([("user", "hi")])[0] for name, form in (
        ("openinference", "otlp"), ("intercom", "intercom"), ("zendesk", "zendesk"), ("label-studio", "label_studio"),
        ("inspect", "inspect"),
    )},
}  # fmt: skip


def test_each_format_is_recognised_and_may_be_insisted_on() -> None:
    assert sorted(SAMPLES) == sorted(CONVERSATION_FORMATS)
    for name, row in SAMPLES.items():
        assert conversation_format(row) == name
        assert (recognise([row]).what, recognise([row]).format) == ("conversations", name)
        assert isinstance(read(row, format=name)[0], Conversation), name
        other = "tau" if name != "tau" else "rasa"
        assert isinstance(read(row, format=other)[0], RowError), name
    mixed = read(*SAMPLES.values())
    assert sum(isinstance(each, Conversation) for each in mixed) == len(SAMPLES)


def test_kinds_of_policies_are_recognised() -> None:
    for text, name, form in ((NLU, "nlu.yml", "rasa"), (ROUTES, "r.yaml", "semantic-router")):
        found = recognise(rows_of(text.encode(), 20, name), name)
        assert (found.what, found.format) == ("artifacts", form)
    assert recognise([{"condition": "x", "action": "y"}]).format == "parlant"
    assert recognise(rows_of(b"stories:\n- story: a\n  steps: []\n", 5, "s.yml")).format == "rasa"


def test_a_folder_of_stories_is_read_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "test_stories.yml").write_text("stories:\n- story: a\n  steps:\n  - user: hi\n")
    assert isinstance(next(read_conversations(tmp_path)), RowError)
    assert isinstance(next(read_conversations(tmp_path, "rasa")), Conversation)


def test_text_in_a_string_is_not_unpacked_without_end() -> None:
    deep = "[" * 200 + "]" * 200
    assert error(trace("t", [generation(deep, None)])).field == "observations[0].input"
    assert error({"messages": [ASK] * (chat.MOST_MESSAGES + 1)}).field.endswith("messages")
    assert chat.decoded("{not json", "x") == "{not json"


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5)
    | st.sampled_from(["user", "human", "message", "tool_use", "tool_result", "GENERATION", "llm", "LLM",
                        "conversations", "tickets", "chatmessage", "llm.input_messages", '{"a": 1}', "[1]"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            "id role content type messages tool_calls input output from value conversations events event text sender_id "
            "trace observations timestamp sessionId post patch run_type inputs outputs mapping current_node parent message "
            "author parts request response choices name arguments kwargs story steps condition action routes utterances "
            "intent examples guidelines system object generations stream data emitted_at source author body created_at "
            "record conversation_id part_type description requester_id ticket_id author_id public resourceSpans scopeSpans "
            "spans traceId attributes key stringValue context trace_id llm input_messages span_kind annotations result "
            "chatmessage eval samples attachments subflows instructions qnas questions answers contexts".split()
        ),
        inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(rows=st.lists(_json, max_size=4))
def test_whatever_a_file_holds_every_row_is_a_record_or_an_error(rows: list[Any]) -> None:
    readers: list[Callable[[Any, str], Iterator[Any]]] = [
        lambda lines, name: read_conversations(lines, None, name), read_policies,
    ]  # fmt: skip
    lines = [json.dumps(row) for row in rows]
    for reader in readers:
        for found in reader(lines, "any.jsonl"):
            assert isinstance(found, Conversation | ArtifactText | RowError)
            if isinstance(found, RowError):
                assert found.message
                assert found.mend


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="nlu:-[]{}&*!|>\n \"'ab1stories", max_size=60))
def test_whatever_a_yaml_file_holds_it_is_read_or_told(text: str) -> None:
    for found in read_policies([*text.split("\n")], "any.yml"):
        assert isinstance(found, ArtifactText | RowError)
