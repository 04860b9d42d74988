"""A ChatGPT export: a tree of messages, of which the branch that ends in `current_node` is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers.chat import MOST_MESSAGES, Json, conversation
from sq_core.readers.jsonl import BadRowError, RowError

_ROLES = ("user", "assistant", "system", "tool")


def is_chatgpt(row: Mapping[str, Any]) -> bool:
    """True for a conversation with its tree of nodes."""
    return isinstance(row.get("mapping"), Mapping) and "current_node" in row


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The one conversation of a row; branches that were left are not read."""
    items = [item for node, where in _branch(row) if (item := _message(node, where)) is not None]
    id_ = (row.get("conversation_id"), row.get("id"))
    began = row.get("create_time")
    yield conversation(
        items, id_=id_, line=line, filename=filename, started_at=began, config=row.get("default_model_slug")
    )


def _branch(row: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    nodes, at = row["mapping"], row.get("current_node")
    found: list[tuple[Mapping[str, Any], str]] = []
    seen: set[str] = set()
    while at is not None:
        where = f"mapping.{str(at)[:40]}"
        node = nodes.get(at) if isinstance(at, str) else None
        if not isinstance(node, Mapping):
            raise BadRowError(where, "is named as a node and is not there.", "Export the conversation again.")
        if at in seen or len(seen) > MOST_MESSAGES:
            raise BadRowError(
                where, "leads back to itself, or the branch is too long.", "Export the conversation again."
            )
        seen.add(at)
        found.append((node, where))
        at = node.get("parent")
    return found[::-1]


def _message(node: Mapping[str, Any], where: str) -> Json | None:
    """None for a node without a message, as the root is."""
    message = node.get("message")
    if not isinstance(message, Mapping):
        return None
    author, content = message.get("author"), message.get("content")
    role = author.get("role") if isinstance(author, Mapping) else None
    if role not in _ROLES:
        raise BadRowError(f"{where}.message.author.role", f"is {role!r:.40}.", f"It is one of {', '.join(_ROLES)}.")
    parts = content.get("parts", content.get("text")) if isinstance(content, Mapping) else content
    texts = (
        [part if isinstance(part, str) else part.get("text") for part in parts or [] if isinstance(part, str | Mapping)]
        if (isinstance(parts, list))
        else [parts]
    )
    text = "\n".join(each for each in texts if isinstance(each, str) and each)
    if role == "system" and not text.strip():
        return None
    return {"role": role, "content": text, "at": message.get("create_time")}
