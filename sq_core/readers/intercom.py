"""Intercom: a connector's streams ``conversations`` and ``conversation_parts``, or conversations as its API gives them.

A conversation holds its first message alone (``source``); the others are parts, joined by the conversation's id, a
number there and text here. HTML becomes text. Of admins and bots only comments are read, for their other parts (notes,
assignments, closes) never reached the customer; what a customer wrote is read whatever the part is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sq_core.conversation import Conversation, MessageError
from sq_core.readers.chat import conversation
from sq_core.readers.connector import Said, body_of, id_field, in_order, record_of, time_of
from sq_core.readers.held import Held
from sq_core.readers.html_text import text_of_html
from sq_core.readers.jsonl import BadRowError, RowError, id_text, kind_of, or_error

_STREAMS = frozenset(
    "conversations conversation_parts contacts companies company_segments company_attributes contact_attributes admins "
    "segments teams activity_logs".split()
)
_ROLES = {
    "lead": "user", "user": "user", "contact": "user", "customer": "user",
    "admin": "assistant", "bot": "assistant", "team": "assistant",
}  # fmt: skip
_SHOWN = ("comment", "open")  # parts of an admin or a bot that the customer sees
_MEND = "Export the streams conversations and conversation_parts together."


@dataclass(frozen=True, slots=True)
class _Talk:
    """A conversation's own record: its first message and its facts."""

    first: Said | None
    file: str
    line: int
    began: str
    facts: Mapping[str, Any]


def is_intercom(row: Mapping[str, Any]) -> bool:
    """True for a line of Intercom's connector, of whatever stream, or a conversation of its API."""
    found = record_of(row)
    if found is None:
        return row.get("type") == "conversation" and isinstance(row.get("source"), Mapping) and "messages" not in row
    return found[0] in _STREAMS or (found[0] in ("tickets", "tags") and found[1].get("type") in ("ticket", "tag"))


class Intercom:
    """Joins the rows of one source; `ended` gives its conversations."""

    def __init__(self) -> None:
        self._held = Held("data")
        self._talks: dict[str, _Talk] = {}
        self._parts: dict[str, dict[str, Said]] = {}
        self._broken: set[str] = set()  # of these a message could not be read

    def conversations_of(self, row: Mapping[str, Any], line: int, filename: str) -> Iterable[Conversation | RowError]:
        """Nothing yet: the row is held. Streams without messages are passed over."""
        if self._held.full:
            return []
        stream, data = record_of(row) or ("conversations", row)
        if stream == "conversations":
            id_ = id_field(data, "id")
            self._kept(id_, self._talk, data, line, filename)
        elif stream == "conversation_parts":
            self._kept(id_field(data, "conversation_id"), self._part, data, line, filename)
        return []

    def _kept(self, id_: str, keep: Any, data: Mapping[str, Any], line: int, filename: str) -> None:
        try:
            keep(id_, data, line, filename)
        except (BadRowError, MessageError):
            self._broken.add(id_)
            raise

    def _talk(self, id_: str, data: Mapping[str, Any], line: int, filename: str) -> None:
        source, began = data.get("source"), time_of(data, "created_at")
        if not isinstance(source, Mapping):
            raise BadRowError("data.source", f"expected an object, got {kind_of(source)}.", "Export it again.")
        text = text_of_html(body_of(source, "body", "data.source") or body_of(source, "subject", "data.source"))
        role, author = _author(source, "data.source") if text else ("", "")
        customer = author if role == "user" else _contact(data)
        facts = {"customer": customer, "channel": source.get("type"), "metadata": _facts(source)}
        self._held.add(text)
        first = Said(began, filename, line, role, text) if text else None
        self._talks[id_] = _Talk(first, filename, line, began, facts)
        inner = data.get("conversation_parts")
        inline = inner.get("conversation_parts") if isinstance(inner, Mapping) else None
        for at, part in enumerate(inline if isinstance(inline, list) else []):
            where = f"data.conversation_parts[{at}]"
            if not isinstance(part, Mapping):
                raise BadRowError(where, f"expected an object, got {kind_of(part)}.", "Export it again.")
            self._part(id_, part, line, filename, where)

    def _part(self, id_: str, data: Mapping[str, Any], line: int, filename: str, where: str = "data") -> None:
        kind = data.get("part_type")
        text = "" if data.get("redacted") is True or kind == "note" else text_of_html(body_of(data, "body", where))
        part = id_field(data, "id", where)
        role = _author(data, where)[0] if text else ""
        self._held.add(text or part)
        parts = self._parts.setdefault(id_, {})
        parts.pop(part, None)  # brought again: the later one counts
        if text and (role == "user" or kind in _SHOWN):
            parts[part] = Said(time_of(data, "created_at", where), filename, line, role, text)

    def ended(self) -> Iterator[Conversation | RowError]:
        """The conversations in the order in which their records came; parts without one are an error each."""
        if self._held.full:
            return
        for id_, talk in self._talks.items():
            if id_ not in self._broken:
                yield or_error(partial(self._joined, id_, talk), talk.file, talk.line)
        for id_, parts in self._parts.items():
            lone = next(iter(parts.values()), None)
            if lone is not None and id_ not in self._talks:
                message = f"conversation {id_} has parts and no record of its own."
                yield RowError(lone.file, lone.line, "data.conversation_id", message, _MEND)

    def _joined(self, id_: str, talk: _Talk) -> Conversation:
        said = [*([talk.first] if talk.first else []), *in_order(self._parts.get(id_, {}).values())]
        if not said:
            raise BadRowError("data.source.body", f"conversation {id_} has no message with text.", _MEND)
        items = [{"role": each.who, "content": each.text, "at": each.at} for each in said]
        return conversation(items, id_=(id_,), line=talk.line, filename=talk.file, started_at=talk.began, **talk.facts)


def _author(holder: Mapping[str, Any], where: str) -> tuple[str, str]:
    """Role and id of who wrote it."""
    author = holder.get("author")
    kind = author.get("type") if isinstance(author, Mapping) else None
    role = _ROLES.get(kind) if isinstance(kind, str) else None
    if role is None or not isinstance(author, Mapping):
        shown = f"{kind!r}"[:60] if isinstance(kind, str) else kind_of(kind)
        raise BadRowError(f"{where}.author.type", f"is {shown}.", f"It is one of {', '.join(_ROLES)}.")
    return role, id_text(author.get("id"))


def _contact(data: Mapping[str, Any]) -> str:
    inner = data.get("contacts")
    listed = inner.get("contacts") if isinstance(inner, Mapping) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return id_text(first.get("id")) if isinstance(first, Mapping) else ""


def _facts(source: Mapping[str, Any]) -> dict[str, Any]:
    delivered = source.get("delivered_as")
    return {"delivered_as": delivered[:40]} if isinstance(delivered, str) else {}
