"""Anthropic's Messages API: a request with its answer, or the messages of a conversation in blocks.

``{"system"?, "messages": […], "response"?}``, ``{"request": {…}, "response": {…}}``. A tool's answer stands there in a
message of the user's role (``tool_result``) and is read as the tool's; an answer without its request is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers.chat import conversation, decoded, item_of, messages_of
from sq_core.readers.jsonl import BadRowError, RowError

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")


def is_anthropic(row: Mapping[str, Any]) -> bool:
    """True for an answer of the API, a request beside one, or messages that hold its blocks."""
    if row.get("type") == "message" and isinstance(row.get("content"), list) and "stop_reason" in row:
        return True
    request, response = row.get("request"), row.get("response")
    if isinstance(response, Mapping) and response.get("type") == "message" and "stop_reason" in response:
        return True
    asked = request if isinstance(request, Mapping) else row
    messages = asked.get("messages")
    if not isinstance(messages, list):
        return False
    if "system" in asked and "id" not in asked:
        return True
    return any(
        isinstance(part, Mapping) and part.get("type") in _BLOCKS
        for message in messages[:50]
        if isinstance(message, Mapping) and isinstance(message.get("content"), list)
        for part in message["content"][:50]
    )


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The one conversation of a row."""
    request, response = decoded(row.get("request"), "request"), decoded(row.get("response"), "response")
    asked = request if isinstance(request, Mapping) else row
    if not isinstance(asked.get("messages"), list):
        raise BadRowError(
            "content",
            "is an answer without the request: no customer speaks in it.",
            'Join the request: {"system": "…", "messages": […], "response": {…}}.',
        )
    items = messages_of(asked, "request" if asked is not row else "row")
    if isinstance(response, Mapping):
        if response.get("type") == "error":
            raise BadRowError("response", "is an error and no answer.", "Leave this row out.")
        items += item_of({"role": "assistant", **response, "type": None}, "response")
    facts = asked.get("metadata")
    yield conversation(
        items,
        id_=(row.get("id"), row.get("conversation_id"), row.get("session_id")),
        line=line,
        filename=filename,
        scenario=row.get("scenario"),
        customer=facts.get("user_id") if isinstance(facts, Mapping) else None,
        config=asked.get("model"),
        started_at=row.get("started_at", row.get("created_at")),
    )
