"""Ingest: one message model for both systems, user turns, prefix digests and the renderer.

Nothing here knows a file format beyond OpenAI-like message objects; `sq_core.readers` turns files into these records.

Versions kept with what they shape:

* `RENDERER_VERSION` 1: lines ``role: content`` of user and assistant messages that have text and that the agent saw,
  joined by a newline. Part of a view's key.
* `DIGEST_VERSION` 1: what `canonical_json` writes. Independent of the renderer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sq_core.nesting import MOST, deeper_than

RENDERER_VERSION = 1
DIGEST_VERSION = 1
ROLES = ("user", "assistant", "tool", "system")
_ROLE_ALIASES = {"developer": "system", "function": "tool"}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TEXT_KEYS = ("text", "value", "input_text", "output_text", "refusal")


class MessageError(ValueError):
    """A message that cannot be read: `field` says where, `message` what is wrong, `hint` how to mend it."""

    def __init__(self, field: str, message: str, hint: str) -> None:
        super().__init__(f"{field}: {message} {hint}")
        self.field, self.message, self.hint = field, message, hint


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool; `arguments` is the text as received (an object becomes compact JSON in its own key order)."""

    id: str | None
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `index` is its 0-based place among all roles and never changes."""

    index: int
    role: str
    content: str
    at: datetime | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    requestor: str | None = None
    visible_to_agent: bool = True

    @property
    def has_text(self) -> bool:
        """True when somebody could read something in it."""
        return bool(self.content.strip())


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole log as read from row `line` of its file; `replaced` counts the characters that became U+FFFD."""

    external_id: str
    messages: tuple[Message, ...]
    scenario: str | None = None
    customer: str | None = None
    config: str | None = None
    channel: str = ""
    started_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    replaced: int = field(default=0, compare=False)
    line: int = field(default=0, compare=False)


def clean_text(text: str) -> tuple[str, int]:
    """`text` with NUL and lone surrogates as U+FFFD, and how many there were. Everything else is kept whole."""
    return _UNSTORABLE.subn("\ufffd", text)


# --------------------------------------------------------------------------------------------- reading message objects
def messages_from_json(items: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """OpenAI-like message objects as messages; see `read_messages`."""
    return read_messages(items)[0]


def read_messages(items: Sequence[Mapping[str, Any]]) -> tuple[tuple[Message, ...], int]:
    """Messages and the number of characters replaced by `clean_text`.

    `content` may be a string, null, absent, or a list of parts (``text``, ``value``, ``input_text``, ``output_text``,
    ``parts``), joined by newlines; parts that carry no text (images, tool blocks) leave no text. `tool_calls` are in
    OpenAI's form or ``{id, name, arguments}`` with arguments as a string or an object. Also read: `at` or `timestamp`,
    `call_id` or `tool_call_id`, `requestor`, `visible_to_agent`. Other keys are ignored.

    Raises `MessageError` naming the field, such as ``messages[3].content``.
    """
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Sequence):
        raise MessageError(
            "messages", f"expected a list of messages, got {_kind(items)}.", "Give a JSON array of objects."
        )
    if not items:
        raise MessageError("messages", "the list is empty.", "Give at least one message.")
    reader = _MessageReader()
    messages = tuple(reader.message(index, item) for index, item in enumerate(items))
    return messages, reader.replaced


class _MessageReader:
    """Reads message objects and counts the characters it had to replace."""

    def __init__(self) -> None:
        self.replaced = 0

    def message(self, index: int, item: object) -> Message:
        where = f"messages[{index}]"
        if not isinstance(item, Mapping):
            raise MessageError(
                where, f"expected an object, got {_kind(item)}.", 'Write {"role": "user", "content": "…"}.'
            )
        role = self._role(where, item.get("role"))
        visible = item.get("visible_to_agent", True)
        if not isinstance(visible, bool):
            raise MessageError(
                f"{where}.visible_to_agent", f"expected true or false, got {_kind(visible)}.", "Leave it out."
            )
        call_id = item.get("tool_call_id") if item.get("call_id") in (None, "") else item.get("call_id")
        at = item.get("at") if item.get("at") is not None else item.get("timestamp")
        return Message(
            index=index,
            role=role,
            content=self._clean(self._content(f"{where}.content", item.get("content"), role)),
            at=parse_time(at, f"{where}.at"),
            tool_calls=self._calls(where, item.get("tool_calls")),
            call_id=self._optional(f"{where}.call_id", call_id, 200),
            requestor=self._optional(f"{where}.requestor", item.get("requestor"), 40),
            visible_to_agent=visible,
        )

    def _clean(self, text: str) -> str:
        cleaned, count = clean_text(text)
        self.replaced += count
        return cleaned

    def _role(self, where: str, role: object) -> str:
        if isinstance(role, str):
            role = _ROLE_ALIASES.get(role, role)
            if role in ROLES:
                return str(role)
        shown = f"{role!r}"[:80] if isinstance(role, str) else _kind(role)
        raise MessageError(
            f"{where}.role", f"expected one of {', '.join(ROLES)}, got {shown}.", "Name who wrote the message."
        )

    def _content(self, where: str, content: object, role: str) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if deeper_than(content):
            raise MessageError(where, f"lists and objects more than {MOST} deep.", "Write the text as a string.")
        if isinstance(content, list):
            return self._parts(where, content)
        if role == "tool" and isinstance(content, Mapping):
            return _compact(content)
        raise MessageError(
            where, f"expected text or a list of parts, got {_kind(content)}.", "Write the message's text as a string."
        )

    def _parts(self, where: str, parts: Sequence[object]) -> str:
        texts = [self._part(f"{where}[{number}]", part) for number, part in enumerate(parts)]
        return "\n".join(text for text in texts if text)

    def _part(self, where: str, part: object) -> str:
        if isinstance(part, str):
            return part
        if not isinstance(part, Mapping):
            raise MessageError(
                where, f"expected text or an object, got {_kind(part)}.", 'Write {"type": "text", "text": "…"}.'
            )
        for key in _TEXT_KEYS:
            value = part.get(key)
            if isinstance(value, Mapping):  # {"text": {"value": "…"}} of assistants' threads
                value = value.get("value")
            if isinstance(value, str):
                return value
        nested = part.get("parts")
        return self._parts(where, nested) if isinstance(nested, list) else ""

    def _calls(self, where: str, calls: object) -> tuple[ToolCall, ...]:
        if calls is None:
            return ()
        if not isinstance(calls, list):
            raise MessageError(
                f"{where}.tool_calls", f"expected a list, got {_kind(calls)}.", "Leave it out when empty."
            )
        return tuple(self._call(f"{where}.tool_calls[{number}]", call) for number, call in enumerate(calls))

    def _call(self, where: str, call: object) -> ToolCall:
        body = call.get("function", call) if isinstance(call, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
            raise MessageError(where, "no tool name found.", 'Write {"id": "…", "name": "…", "arguments": {…}}.')
        arguments = body.get("arguments")
        if deeper_than(arguments):
            raise MessageError(f"{where}.arguments", f"lists and objects more than {MOST} deep.", "Give them as text.")
        text = arguments if isinstance(arguments, str) else "" if arguments is None else _compact(arguments)
        return ToolCall(
            self._optional(f"{where}.id", call.get("id"), 200), self._clean(body["name"]), self._clean(text)
        )

    def _optional(self, where: str, value: object, limit: int) -> str | None:
        """A short identifier as text; numbers are accepted because exports write ids both ways.

        An empty one is none: a store that keeps no difference between the two must not change a digest.
        """
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise MessageError(where, f"expected text, got {_kind(value)}.", "Write it as a string.")
        if len(str(value)) > limit:
            raise MessageError(where, f"has {len(str(value))} characters; {limit} is the most.", "Shorten it.")
        return self._clean(str(value))


def parse_time(value: object, where: str) -> datetime | None:
    """An aware UTC time from ISO 8601 (no zone = UTC) or from Unix seconds, milli-, micro- or nanoseconds; None stays
    None.

    Numbers may be strings of digits. Raises `MessageError` for anything else.
    """
    if value is None or value == "":
        return None
    hint = "Write ISO 8601 such as 2026-03-02T16:04:11Z, or Unix seconds."
    try:
        if isinstance(value, str) and not re.fullmatch(r"\d{9,19}(\.\d+)?", value):
            time = datetime.fromisoformat(value)
            return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).astimezone(UTC)
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not math.isfinite(float(value)):
            raise ValueError
        seconds = float(value)
        while abs(seconds) >= 1e11:  # seconds reach 1e11 in the year 5138; larger numbers are thousandths, and so on
            seconds /= 1000
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        shown = repr(value)[:60] if isinstance(value, str | int | float) else _kind(value)
        raise MessageError(where, f"{shown} is not a time.", hint) from None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _kind(value: object) -> str:
    """What a JSON value is, in the reader's words."""
    names = {bool: "true or false", dict: "an object", list: "a list", str: "text", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


# ------------------------------------------------------------------------------------------- turns, digests, rendering
def user_turns(messages: Sequence[Message]) -> tuple[int, ...]:
    """Message index of every user turn: `user_turns(m)[u]` belongs to user turn u, counted from 0.

    A user turn is a user message with text that the agent saw; tool calls made on the user's side are none.
    """
    return tuple(message.index for message in messages if is_user_turn(message))


def is_user_turn(message: Message) -> bool:
    """True for a user message with text that the agent saw."""
    return message.role == "user" and message.visible_to_agent and message.has_text


def prefix(messages: Sequence[Message], user_turn: int) -> tuple[Message, ...]:
    """The messages up to and including user turn `user_turn`: what the query state sees. IndexError beyond."""
    if user_turn < 0:
        raise IndexError(f"user turn {user_turn}: user turns count from 0")
    last = user_turns(messages)[user_turn]
    return tuple(message for message in messages if message.index <= last)


def canonical_json(message: Message) -> str:
    """The text of a message that its digest covers (`DIGEST_VERSION` 1).

    JSON with sorted keys, no spaces and no escapes of non-ASCII: `role` and `content` always; `tool_calls` (as
    ``{arguments, id, name}``), `call_id`, `requestor` and `visible_to_agent` only where they differ from their
    defaults. The time and the index are left out: a log exported again with times is the same conversation, and the
    chain fixes the order.
    """
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        record["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    if message.call_id is not None:
        record["call_id"] = message.call_id
    if message.requestor is not None:
        record["requestor"] = message.requestor
    if not message.visible_to_agent:
        record["visible_to_agent"] = False
    return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def prefix_digests(messages: Sequence[Message], *, after: str = "") -> tuple[str, ...]:
    """Per message, sha256 in hex of (previous digest in hex ‖ canonical JSON), UTF-8; the first previous is empty.

    `after`: the digest of what came before these messages, to take a chain up in its middle.
    """
    digests: list[str] = []
    previous = after
    for message in messages:
        previous = hashlib.sha256((previous + canonical_json(message)).encode("utf-8", "surrogatepass")).hexdigest()
        digests.append(previous)
    return tuple(digests)


def render(messages: Sequence[Message], *, tool_results: bool = False, user_only: bool = False) -> str:
    """The text of the cumulative view (paper 2.1; `RENDERER_VERSION` 1): lines ``role: content`` joined by newlines.

    User and assistant messages with text that the agent saw; `tool_results` adds tool messages, `user_only` keeps the
    user's alone (Algorithm 2 read literally). System messages are never rendered.
    """
    roles = {"user"} if user_only else {"user", "assistant", "tool"} if tool_results else {"user", "assistant"}
    shown = (m for m in messages if m.role in roles and m.visible_to_agent and m.has_text)
    return "\n".join(f"{m.role}: {m.content}" for m in shown)
