r"""Zendesk: a connector's streams ``tickets``, ``ticket_comments`` and ``users``, joined by their ids.

A ticket's description is its first comment, so it is there once; ``public: false`` is an internal note and left out.
Who wrote is known from the user's record (``end-user``: the customer); without one only the requester is known to be the
customer, and the ticket of another author is an error that names what is missing. A literal ``\n`` is a line break.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sq_core.conversation import Conversation, MessageError
from sq_core.readers.chat import conversation
from sq_core.readers.connector import Said, body_of, id_field, in_order, record_of, time_of
from sq_core.readers.held import Held
from sq_core.readers.html_text import text_of_html
from sq_core.readers.jsonl import BadRowError, RowError, cleaned, id_text, kind_of, or_error

_STREAMS = frozenset(
    "tickets ticket_comments users organizations organization_fields organization_memberships groups group_memberships "
    "tags macros brands schedules sla_policies ticket_fields ticket_forms ticket_audits ticket_metrics "
    "ticket_metric_events ticket_skips ticket_activities deleted_tickets satisfaction_ratings user_fields "
    "user_identities articles article_comments sections categories topics posts post_comments triggers automations "
    "audit_logs custom_roles account_attributes attribute_definitions".split()
)
_ROLES = {"end-user": "user", "agent": "assistant", "admin": "assistant"}
_SYSTEM = "-1"
_USERS = "Export the stream users with the tickets."


@dataclass(frozen=True, slots=True)
class _Ticket:
    """A ticket's own record; `first` is its description."""

    first: Said | None
    requester: str
    public: bool
    file: str
    line: int
    began: str
    facts: Mapping[str, Any]


def is_zendesk(row: Mapping[str, Any]) -> bool:
    """True for a line of Zendesk's connector, of whatever stream."""
    found = record_of(row)
    return found is not None and found[0] in _STREAMS and found[1].get("type") not in ("ticket", "tag")


class Zendesk:
    """Joins the rows of one source; `ended` gives its tickets."""

    def __init__(self) -> None:
        self._held = Held("data")
        self._tickets: dict[str, _Ticket] = {}
        self._comments: dict[str, dict[str, Said]] = {}
        self._users: dict[str, str] = {}
        self._broken: set[str] = set()  # of these a message could not be read

    def conversations_of(self, row: Mapping[str, Any], line: int, filename: str) -> Iterable[Conversation | RowError]:
        """Nothing yet: the row is held. Streams without messages are passed over."""
        found = record_of(row)
        if self._held.full or found is None:
            return []
        stream, data = found
        if stream == "users":
            self._user(data)
        elif stream in ("tickets", "ticket_comments"):
            ticket = id_field(data, "id" if stream == "tickets" else "ticket_id")
            try:
                (self._ticket if stream == "tickets" else self._comment)(ticket, data, line, filename)
            except (BadRowError, MessageError):
                self._broken.add(ticket)
                raise
        return []

    def _user(self, data: Mapping[str, Any]) -> None:
        role = data.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            shown = f"{role!r}"[:60] if isinstance(role, str) else kind_of(role)
            raise BadRowError("data.role", f"is {shown}.", f"It is one of {', '.join(_ROLES)}.")
        id_ = id_field(data, "id")
        self._held.add(id_)
        self._users[id_] = _ROLES[role]

    def _ticket(self, id_: str, data: Mapping[str, Any], line: int, filename: str) -> None:
        text, began = _lines(body_of(data, "description")), time_of(data, "created_at")
        requester = id_text(data.get("requester_id"))
        via = data.get("via")
        subject = data.get("subject")
        facts = {
            "customer": requester,
            "channel": via.get("channel") if isinstance(via, Mapping) else None,
            "metadata": cleaned({"subject": subject}) if isinstance(subject, str) and subject else {},
        }
        self._held.add(text)
        author = id_text(data.get("submitter_id")) or requester
        first = Said(began, filename, line, author, text) if text else None
        public = data.get("is_public") is not False
        self._tickets[id_] = _Ticket(first, requester, public, filename, line, began, facts)

    def _comment(self, ticket: str, data: Mapping[str, Any], line: int, filename: str) -> None:
        public = data.get("public", True)
        if not isinstance(public, bool):
            raise BadRowError("data.public", f"expected true or false, got {kind_of(public)}.", "Export it again.")
        text = _lines(body_of(data, "plain_body") or body_of(data, "body")) or text_of_html(body_of(data, "html_body"))
        said = Said(time_of(data, "created_at"), filename, line, id_text(data.get("author_id")), text, public)
        self._held.add(text)
        comments = self._comments.setdefault(ticket, {})
        comments.pop(id_field(data, "id"), None)  # brought again: the later one counts
        if text:
            comments[id_field(data, "id")] = said

    def ended(self) -> Iterator[Conversation | RowError]:
        """The tickets in the order in which their records came; comments without one are an error each."""
        if self._held.full:
            return
        for id_, ticket in self._tickets.items():
            if id_ not in self._broken:
                yield or_error(partial(self._joined, id_, ticket), ticket.file, ticket.line)
        for id_, comments in self._comments.items():
            lone = next(iter(comments.values()), None)
            if lone is not None and id_ not in self._tickets:
                message = f"ticket {id_} has comments and no record of its own."
                yield RowError(lone.file, lone.line, "data.ticket_id", message, "Export the stream tickets too.")

    def _joined(self, id_: str, ticket: _Ticket) -> Conversation:
        comments = list(in_order(self._comments.get(id_, {}).values()))
        first = ticket.first
        if first is not None and comments and not _same(comments[0], first):
            comments = [first, *comments] if ticket.public else comments
        elif first is not None and not comments and ticket.public:
            comments = [first]
        said = [each for each in comments if each.public]
        if not said:
            raise BadRowError("data.description", f"ticket {id_} has no public message with text.", "Leave it out.")
        items = [{"role": self._role(each, ticket), "content": each.text, "at": each.at} for each in said]
        return conversation(
            items, id_=(id_,), line=ticket.line, filename=ticket.file, started_at=ticket.began, **ticket.facts
        )

    def _role(self, said: Said, ticket: _Ticket) -> str:
        known = self._users.get(said.who)
        if known is None and said.who and said.who == ticket.requester:
            return "user"
        if known is None and said.who == _SYSTEM:
            return "assistant"
        if known is None:
            where = "" if self._users else "; the stream users is not there at all"
            message = f"user {said.who or 'without id'}, who wrote in line {said.line}, has no record{where}."
            raise BadRowError("data.author_id", message, _USERS)
        return known


def _same(comment: Said, description: Said) -> bool:
    """Whether a ticket's earliest comment is its description: the same moment, or the same words whatever the marks."""
    return comment.at == description.at or _bare(comment.text) == _bare(description.text)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _lines(text: str) -> str:
    r"""A note of a call is one line with the two characters ``\n`` in it; real line breaks say that these are meant."""
    return (text if "\n" in text else re.sub(r"(?:\\r)?\\n", "\n", text)).strip()
