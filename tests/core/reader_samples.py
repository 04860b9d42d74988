"""One chat written in every format that is read, and rows with all that they may hold: what the tests of readers share."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
Said = Sequence[tuple[str, str]]
BEGAN = 1_770_000_000  # Unix seconds of the first message; each later one a minute after


def iso(number: int) -> str:
    return datetime.fromtimestamp(BEGAN + 60 * number, UTC).isoformat().replace("+00:00", "Z")


def plain(said: Said) -> list[Json]:
    return [{"role": role, "content": text} for role, text in said]


def line(stream: str, **data: Any) -> Json:
    return {"stream": stream, "data": data, "emitted_at": 1_780_000_000_000}


def without_system(said: Said) -> list[tuple[str, str]]:
    return [(role, text) for role, text in said if role != "system"]


# --------------------------------------------------------------------------------------------------------- the formats
def jsonl(said: Said) -> list[Json]:
    return [{"id": "c-1", "messages": plain(said)}]


def tau(said: Said) -> list[Json]:
    return [{"id": "c-1", "task_id": "t", "trial": 0, "termination_reason": "user_stop", "messages": plain(said)}]


def tau_1(said: Said) -> list[Json]:
    return [{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": plain(said)}]


def openai(said: Said) -> list[Json]:
    return [{"messages": plain(said), "tools": []}]


def responses(said: Said) -> list[Json]:
    parts = {"user": "input_text", "system": "input_text", "assistant": "output_text"}
    items = [{"type": "message", "role": role, "content": [{"type": parts[role], "text": text}]} for role, text in said]
    return [{"id": "c-1", "object": "response", "created_at": BEGAN, "input": items, "output": []}]


def anthropic(said: Said) -> list[Json]:
    policy = [{"type": "text", "text": text} for role, text in said if role == "system"]
    messages = [
        {"content": [{"type": "text", "text": text}, {"type": "thinking", "thinking": "hm"}], "role": role}
        for role, text in said if role != "system"
    ]  # fmt: skip
    return [{**({"system": policy} if policy else {}), "metadata": {"user_id": "u"}, "messages": messages}]


def langfuse(said: Said) -> list[Json]:
    given = json.dumps(json.dumps(plain(said)))  # twice encoded
    seen = {"id": "o", "type": "GENERATION", "startTime": iso(0), "input": given, "output": None}
    return [{"trace": {"id": "c-1", "timestamp": iso(0), "sessionId": None}, "observations": [seen]}]


def langsmith(said: Said) -> list[Json]:
    run = {
        "id": "r", "trace_id": "c-1", "dotted_order": "20260101Zr", "run_type": "llm", "start_time": BEGAN * 1000,
        "inputs": {"messages": plain(said)},
    }  # fmt: skip
    return [{"post": [run], "patch": []}]


def span(said: Said, **more: Any) -> Json:
    """A span of OTLP with flat attributes."""
    flat = {"openinference.span.kind": "LLM", "llm.model_name": "m-1", **more}
    for at, (role, text) in enumerate(said):
        flat[f"llm.input_messages.{at}.message.role"] = role
        flat[f"llm.input_messages.{at}.message.content"] = text
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in flat.items()]
    return {"traceId": "c-1", "spanId": "s", "startTimeUnixNano": str(BEGAN * 10**9), "attributes": attributes}


def otlp(said: Said) -> list[Json]:
    return [{"resourceSpans": [{"scopeSpans": [{"spans": [span(said)]}]}]}]


def phoenix(said: Said) -> list[Json]:
    messages = [{"message": {"role": role, "contents": [{"message_content": {"type": "text",
        "text": text}}]}} for role, text in said]  # fmt: skip
    attributes = {"openinference": {"span": {"kind": "LLM"}}, "llm": {"input_messages": messages}}
    return [
        {
            "name": "chat", "context": {"trace_id": "c-1", "span_id": "s"}, "span_kind": "LLM", "parent_id": None,
            "start_time": iso(0), "attributes": attributes,
        }
    ]  # fmt: skip


def intercom(said: Said) -> list[Json]:
    authors = {"user": {"type": "lead", "id": "u-1"}, "assistant": {"type": "admin", "id": 5}}
    html = [(role, f"<p>{text.replace('&', '&amp;').replace('<', '&lt;')}</p>") for role, text in without_system(said)]
    first, *others = html
    source = {"type": "conversation", "delivered_as": "customer_initiated", "subject": "", "body": first[1],
        "author": authors[first[0]]}  # fmt: skip
    parts = [
        line("conversation_parts", id=str(100 + at), part_type="comment", body=body, author=authors[role],
             created_at=BEGAN + 60 * at, conversation_id=7)
        for at, (role, body) in enumerate(others, start=1)
    ]  # fmt: skip
    return [*parts[::-1], line("conversations", type="conversation", id="7", created_at=BEGAN, source=source)]


def zendesk(said: Said) -> list[Json]:
    ids = {"user": 11, "assistant": 12}
    first, *others = without_system(said)
    users = [line("users", id=11.0, role="end-user"), line("users", id="12", role="agent")]
    ticket = line("tickets", id=7, description=first[1], submitter_id=ids[first[0]], requester_id=11, created_at=iso(0),
                  type=None, subject="s", via={"channel": "web"})  # fmt: skip
    comments = [
        line("ticket_comments", id=at, ticket_id="7", author_id=ids[role], body=text, public=True, created_at=iso(at))
        for at, (role, text) in enumerate(others, start=1)
    ]
    return [*comments[::-1], ticket, *users]


def sharegpt(said: Said) -> list[Json]:
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    return [{"conversations": [{"from": names[role], "value": text} for role, text in said]}]


def chatgpt(said: Said) -> list[Json]:
    nodes = {
        str(at): {
            "id": str(at), "parent": str(at - 1) if at else None, "children": [],
            "message": {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]},
                "create_time": BEGAN},
        }
        for at, (role, text) in enumerate(said)
    }  # fmt: skip
    return [{"id": "c-1", "title": "t", "create_time": BEGAN, "current_node": str(len(said) - 1), "mapping": nodes}]


def rasa(said: Said) -> list[Json]:
    names = {"user": "user", "assistant": "bot"}
    events = [{"event": names[role], "text": text, "timestamp": BEGAN + 0.5} for role, text in without_system(said)]
    return [{"sender_id": "c-1", "events": events}]


def label_studio(said: Said) -> list[Json]:
    result = [
        {
            "id": f"r{at}", "type": "chatmessage", "from_name": "chat", "to_name": "chat",
            "value": {"chatmessage": {"role": role, "content": text, "createdAt": (BEGAN + at) * 1000, "tool_calls": None}},
        }
        for at, (role, text) in enumerate(said)
    ]  # fmt: skip
    return [{"id": 7, "data": {"input_chat": []}, "annotations": [{"id": 8, "result": result}]}]


def inspect(said: Said) -> list[Json]:
    sample = {"id": 1, "epoch": 1, "input": "x", "target": "y", "messages": plain(said)}
    facts = {"run_id": "run", "created": iso(0), "task": "t", "model": "m-1"}
    return [{"version": 2, "status": "success", "eval": facts, "samples": [sample]}]


Write = Callable[[Said], list[Json]]
FORMS: dict[str, tuple[str, Write]] = {
    "jsonl": ("jsonl", jsonl), "tau": ("tau", tau), "tau_1": ("tau", tau_1), "openai": ("openai", openai),
    "responses": ("openai", responses), "anthropic": ("anthropic", anthropic), "langfuse": ("langfuse", langfuse),
    "langsmith": ("langsmith", langsmith), "otlp": ("openinference", otlp), "phoenix": ("openinference", phoenix),
    "intercom": ("intercom", intercom), "zendesk": ("zendesk", zendesk), "sharegpt": ("sharegpt", sharegpt),
    "chatgpt": ("chatgpt", chatgpt), "rasa": ("rasa", rasa), "label_studio": ("label-studio", label_studio),
    "inspect": ("inspect", inspect),
}  # fmt: skip
NO_SYSTEM = ("intercom", "zendesk", "rasa")  # formats that cannot hold a prompt


# -------------------------------------------------------------------------------------------- rows with all that they may hold
_CALL = {"id": "k", "type": "function", "function": {"name": "find", "arguments": '{"id":7}'}}
_TALK = [
    {"role": "system", "content": "the policy"},
    {"role": "user", "content": [{"type": "text", "text": "where is it"}], "timestamp": iso(1)},
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "k", "content": "found"},
    {"role": "assistant", "content": "On its way."},
]
RICH: dict[str, list[Json]] = {
    "openai": [{"request": {"messages": _TALK, "model": "m"}, "response": {"id": "x",
        "choices": [{"message": _TALK[-1]}]}}],
    "responses": [{
        "id": "r", "object": "response", "instructions": "be kind", "created_at": BEGAN,
        "input": [{"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "k", "name": "find",
            "arguments": "{}"},
                  {"type": "function_call_output", "call_id": "k", "output": [{"text": "found"}]}],
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}]}],
    "anthropic": [{"request": {"system": "x", "metadata": {"user_id": "u"}, "messages": [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "k",
            "name": "find", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "k", "content": [{"type": "text",
            "text": "found"}]}]}]},
        "response": {"type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text",
            "text": "x"}]}}],
    "google": [{"trace": {"id": "t", "timestamp": iso(0), "sessionId": "s", "userId": "u"}, "observations": [
        {"type": "GENERATION", "startTime": iso(0), "input": {"contents": [
            {"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [{"functionCall": {"name": "find",
                "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "k", "response": {"a": 1}}}]}]}, "output": "Hi."}]}],
    "langchain": [{"trace": {"id": "t", "timestamp": iso(0), "sessionId": "s"}, "observations": [
        {"type": "GENERATION", "startTime": iso(0), "output": {"messages": [{"type": "ai", "content": "x"}]},
            "input": {"messages": [
            {"type": "human", "content": "hi"}, {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [_CALL]}},
            {"lc": 1, "id": ["x", "AIMessage"], "kwargs": {"content": "", "tool_calls": [{"id": "k", "name": "find",
                "args": {}}]}}]}}]}],
    "langsmith": [{
        "post": [{"id": "r", "trace_id": "t", "run_type": "llm", "start_time": iso(0), "inputs": {"messages": [_TALK]},
                  "extra": {"metadata": {"thread_id": "th", "user_id": "u", "ls_model_name": "m"}}}],
        "patch": [{"dotted_order": "Zr", "outputs": {"generations": [[{"message": {"role": "assistant",
            "content": "x"}}]]}}]}],
    "otlp": [{"resourceSpans": [{"scopeSpans": [{"spans": [{
        "traceId": "t", "startTimeUnixNano": "1770000000000000000", "attributes": [
            {"key": "openinference.span.kind", "value": {"stringValue": "LLM"}}, {"key": "session.id",
                "value": {"intValue": "5"}},
            {"key": "llm.input_messages", "value": {"arrayValue": {"values": [{"kvlistValue": {"values": [
                {"key": "message.role", "value": {"stringValue": "user"}}, {"key": "message.content",
                    "value": {"stringValue": "hi"}},
            ]}}]}}},
            {"key": "llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "value": {"stringValue": "find"}},
        ]}]}]}]}],
    "phoenix": [{"context": {"trace_id": "t"}, "span_kind": "LLM", "start_time": iso(0), "attributes": {
        "session.id": "s", "user": {"id": 5}, "llm": {
            "model_name": "m", "output_messages": [{"message": {"contents": [{"message_content": {"type": "text",
                "text": "x"}}]}}],
            "input_messages": [{"message": {"role": "user", "tool_call_id": "k", "contents": [
                {"message_content": {"type": "tool_result", "text": "found"}},
                    {"message_content": {"type": "tool_use", "name": "f"}}]}},
                {"message.role": "assistant", "message.tool_calls": [{"tool_call": {"id": "k",
                    "function": {"name": "f", "arguments": "{}"}}}]}]}}},
        {"context": {"trace_id": "u"}, "span_kind": "CHAIN", "attributes": {
            "input": {"value": '{"messages": [{"role": "user", "content": "hi"}]}'},
                "output": {"value": {"messages": [{"type": "ai"}]}}}}],
    "columns": [{"context.trace_id": "t", "attributes.openinference.span.kind": "LLM", "attributes.llm.input_messages": [
        {"message.role": "user", "message.content": "hi", "message.function_call_name": "f"}]}],
    "intercom": [{
        "type": "conversation", "id": "7", "created_at": BEGAN, "contacts": {"contacts": [{"id": "c"}]},
        "source": {"type": "email", "subject": "s", "body": None, "delivered_as": "automated",
            "author": {"type": "bot", "id": 1}},
        "conversation_parts": {"conversation_parts": [
            {"id": 1, "part_type": "comment", "body": "<p>x</p>", "created_at": BEGAN, "author": {"type": "user",
                "id": "u"}, "redacted": False}]}}],
    "zendesk": [
        line("users", id=1, role="admin"),
        line("tickets", id=7, description=None, requester_id=2, created_at=iso(0), is_public=True, via={"channel": "web"}),
        line("ticket_comments", id=1, ticket_id=7, author_id=1, html_body="<p>x</p>", public=True, created_at=iso(0))],
    "tau": [{"info": {"agent_info": {"llm": "m"}}, "simulations": [{"id": "r", "task_id": "t", "trial": 0,
        "start_time": iso(0), "messages": [
        {"role": "user", "content": "hi", "tool_calls": [{"id": "k", "name": "f", "arguments": {}, "requestor": "user"}]},
        {"role": "tool", "tool_messages": [{"role": "tool", "id": "k", "content": "x", "requestor": "user",
            "error": False}]}]}]}],
    "sharegpt": [{"id": 5, "system": "x", "model": "m", "conversations": [
        {"from": "human", "value": "hi"}, {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
        {"from": "observation", "value": {"a": 1}}, {"from": "gpt", "value": "x"}]}],
    "chatgpt": [{"conversation_id": "c", "default_model_slug": "m", "create_time": 1.5, "current_node": "b", "mapping": {
        "a": {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["hi", {"text": "x"}]},
            "create_time": 1.5}},
        "b": {"parent": "a", "message": {"author": {"role": "assistant"}, "content": {"text": "x"}}}}}],
    "rasa": [{"story": "s", "steps": [{"user": "hi", "intent": "greet"}, {"bot": "x"}]}],
    "label_studio": [{"id": 7, "data": {"input_chat": [{"role": "user", "content": "hi"}]}, "annotations": [
        {"id": 8, "created_at": iso(0), "was_cancelled": False, "result": [
            {"type": "chatmessage", "value": {"chatmessage": {"role": "assistant", "content": "x", "createdAt": 1,
                "tool_calls": [_CALL]}}}]}]}],
    "inspect": [{"eval": {"run_id": "r", "task": "t", "model": "m", "created": iso(0)}, "samples": [
        {"id": 1, "epoch": 1, "attachments": {"abc": "x"}, "messages": [
            {"role": "user", "content": "attachment://abc"},
            {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [{"id": "k",
                "function": "f", "arguments": {"a": "x"}}]},
            {"role": "tool", "content": "", "tool_call_id": "k", "error": {"message": "x"}}]},
        {"id": 2, "input": [{"role": "user", "content": "hi"}],
            "output": {"choices": [{"message": {"role": "assistant", "content": "x"}}]}}]}],
    "abcd": [{"Flow": {"description": "d", "subflows": {"Sub": {"instructions": ["x"], "actions": [
        {"button": "b", "text": "t", "subtext": ["s"]}]}}}}],
    "botpress": [{"qnas": [{"id": "a", "data": {"enabled": True, "questions": {"en": ["q"]}, "answers": {"en": ["a"]}}}]},
                 {"id": "b", "data": {"questions": ["q"], "answers": ["a"]}}, {"name": "i", "contexts": [],
                     "utterances": {"en": ["u"]}}],
    "parlant": [{"guidelines": [{"id": "g", "condition": "c", "action": "a", "enabled": True}]}],
    "routes": [{"routes": [{"name": "r", "description": "d", "utterances": ["u"]}]}, {"intent": "i",
        "examples": [{"text": "x"}]}],
}  # fmt: skip
