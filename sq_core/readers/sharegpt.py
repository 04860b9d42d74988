"""ShareGPT: ``{"conversations": [{"from": "human" | "gpt" | "system" | "function_call" | "observation", "value"}]}``.

A call has no id: it is coupled with the observation that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers.chat import MOST_MESSAGES, Json, conversation, decoded, text_of
from sq_core.readers.jsonl import BadRowError, RowError, kind_of

_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "bot": "assistant", "model": "assistant",
    "chatgpt": "assistant", "system": "system", "observation": "tool", "tool": "tool", "function": "tool",
}  # fmt: skip
_CALLS = ("function_call", "tool_call", "function-call")


def is_sharegpt(row: Mapping[str, Any]) -> bool:
    """True for a row whose ``conversations`` are messages with ``from``."""
    said = row.get("conversations")
    return isinstance(said, list) and any(isinstance(each, Mapping) and "from" in each for each in said[:5])


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The one conversation of a row."""
    said = row["conversations"]
    if len(said) > MOST_MESSAGES:
        raise BadRowError("conversations", f"has {len(said):,} messages; {MOST_MESSAGES:,} is the most.", "Split it.")
    system = row.get("system")
    items: list[Json] = [{"role": "system", "content": system}] if isinstance(system, str) and system.strip() else []
    items += [_message(each, f"conversations[{at}]") for at, each in enumerate(said)]
    yield conversation(items, id_=(row.get("id"),), line=line, filename=filename, config=row.get("model"))


def _message(item: Any, where: str) -> Json:
    if not isinstance(item, Mapping):
        raise BadRowError(where, f"expected an object, got {kind_of(item)}.", 'Write {"from": "human", "value": "…"}.')
    who, value = item.get("from"), item.get("value")
    if who in _CALLS:
        found = decoded(value, f"{where}.value")
        calls = found if isinstance(found, list) else [found]
        if not calls or not all(isinstance(c, Mapping) and isinstance(c.get("name"), str) for c in calls):
            raise BadRowError(f"{where}.value", "is no call with a name.", 'Write {"name": "…", "arguments": {…}}.')
        named = [{"name": c["name"], "arguments": c.get("arguments")} for c in calls]
        return {"role": "assistant", "content": None, "tool_calls": named}
    role = _ROLES.get(who) if isinstance(who, str) else None
    if role is None:
        shown = f"{who!r}"[:60]
        raise BadRowError(f"{where}.from", f"is {shown}.", f"Write one of {', '.join([*_ROLES, _CALLS[0]])}.")
    if value is not None and not isinstance(value, str):
        value = text_of(value)
    return {"role": role, "content": value}
