"""OpenAI's shapes: rows for fine-tuning, chat completions with their request, Responses with their input.

A row holds the request's messages (``messages``, ``input`` or ``request``) and may hold the answer beside them
(``response``, ``choices``, ``output``, ``completion``). An answer alone has no customer in it and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers.chat import conversation, decoded, item_of, messages_of
from sq_core.readers.jsonl import BadRowError, RowError

# What a row for fine-tuning, or a stored request, may hold beside its messages; other fields make it a row of ours.
_BESIDE = frozenset(
    "messages tools functions parallel_tool_calls tool_choice function_call model temperature top_p n stream stop seed "
    "max_tokens max_completion_tokens response_format weight loss_weight metadata user store logprobs choices response "
    "completion system_prompt source dataset".split()
)
_ANSWERS = ("chat.completion", "response", "chat.completion.chunk")
_JOIN = 'Join the request: {"messages": […], "response": {…}}, or {"request": {…}, "response": {…}}.'


def is_openai(row: Mapping[str, Any]) -> bool:
    """True for an answer, a request with its answer, Responses input and output, or a row for fine-tuning without id."""
    if row.get("object") in _ANSWERS or isinstance(row.get("choices"), list):
        return True
    if isinstance(row.get("request"), Mapping | str) and isinstance(row.get("response"), Mapping | str):
        return True
    if isinstance(row.get("input"), list | str) and isinstance(row.get("output"), list):
        return "run_type" not in row
    return isinstance(row.get("messages"), list) and "id" not in row and row.keys() <= _BESIDE


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The one conversation of a row."""
    request = decoded(row.get("request"), "request")
    asked, answered = request if isinstance(request, Mapping) else row, _answer(row)
    if not _has_request(asked):
        where = "output" if row.get("object") == "response" else "choices"
        raise BadRowError(where, "is an answer without the request: no customer speaks in it.", _JOIN)
    if row.get("previous_response_id") or asked.get("previous_response_id"):
        raise BadRowError(
            "previous_response_id",
            "the turns before this response are on OpenAI's server only.",
            "Export the conversation with all of its items, or the first response of it.",
        )
    items = messages_of(asked, "request" if asked is not row else "messages")
    if answered is not None:
        items += [item for item in answered if item not in items[-len(answered) :]]
    yield conversation(
        items,
        id_=(row.get("conversation_id"), asked.get("conversation_id"), row.get("session_id"), _id(row)),
        line=line,
        filename=filename,
        config=row.get("model") or asked.get("model"),
        started_at=row.get("created_at", row.get("created")),
    )


def _id(row: Mapping[str, Any]) -> Any:
    response = decoded(row.get("response"), "response")
    return row.get("id") or (response.get("id") if isinstance(response, Mapping) else None)


def _has_request(asked: Mapping[str, Any]) -> bool:
    return any(isinstance(asked.get(name), list | str) and asked[name] for name in ("messages", "input", "prompt"))


def _answer(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The messages of the answer beside a request; None without one."""
    response = decoded(row.get("response", row.get("completion")), "response")
    if isinstance(response, str) and response.strip():
        return [{"role": "assistant", "content": response}]
    source, where = (response, "response") if isinstance(response, Mapping) else (row, "row")
    if isinstance(source.get("error"), Mapping):
        raise BadRowError(f"{where}.error", "is an error and no answer.", "Leave this row out.")
    if isinstance(source.get("choices"), list) and source["choices"]:
        return item_of(source["choices"][0], f"{where}.choices[0]")
    if isinstance(source.get("output"), list):
        return messages_of(source["output"], f"{where}.output")
    return item_of(source, where) if source is response and isinstance(source, Mapping) and source else None
