"""A trace: one session's messages with what it is a repetition of and what produced it (TRACES 2.1).

There is no second message model and no second set of readers: a trace holds the messages of a `Conversation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sq_core.conversation import Conversation, Message

GroupBy = Literal["scenario", "customer", "session"]


class TraceError(ValueError):
    """A trace that cannot be read; always names the trace and the message."""

    def __init__(self, trace_id: str, message_index: int, what: str) -> None:
        super().__init__(f"trace {trace_id}, message {message_index}: {what}")
        self.trace_id, self.message_index, self.what = trace_id, message_index, what


class CausalityError(TraceError):
    """Something would be known before it was observed. There is no way to switch this off."""


@dataclass(frozen=True, slots=True)
class Trace:
    """`session_id` is the unit of inference, `group_id` the task it repeats, `config_id` what produced it.

    Message indices are places in the original list; nothing renumbers them, and they must rise.
    """

    trace_id: str
    session_id: str
    group_id: str
    config_id: str
    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        last = -1
        for message in self.messages:
            if message.index <= last:
                raise TraceError(self.trace_id, message.index, f"follows message {last}; indices must rise")
            last = message.index

    def upto(self, index: int) -> Trace:
        """The same trace as it was when only messages with an index below `index` had been written."""
        kept = tuple(message for message in self.messages if message.index < index)
        return Trace(self.trace_id, self.session_id, self.group_id, self.config_id, kept)


def trace_of(conversation: Conversation, *, group_by: GroupBy = "scenario", config: str = "") -> Trace:
    """The trace of a conversation. Without a scenario (or customer) the session is its own group.

    `config` is used where the log itself names none; reports print which grouping was taken.
    """
    session = conversation.external_id
    named = {"scenario": conversation.scenario, "customer": conversation.customer, "session": None}
    if group_by not in named:
        raise ValueError(f"group_by is {group_by!r}; expected one of {', '.join(named)}")
    return Trace(
        trace_id=session,
        session_id=session,
        group_id=named[group_by] or session,
        config_id=conversation.config or config or "unknown",
        messages=conversation.messages,
    )


def agent_saw(message: Message) -> bool:
    """False for tool traffic on the user's side (τ²): a user's call and its answer reach the user, not the agent."""
    if not message.visible_to_agent or message.requestor == "user":
        return False
    return not (message.role == "user" and message.tool_calls)


def is_query(message: Message) -> bool:
    """A user message with text that the agent saw."""
    return message.role == "user" and message.has_text and agent_saw(message)


def is_action(message: Message) -> bool:
    """A message in which the agent calls tools."""
    return message.role == "assistant" and bool(message.tool_calls) and agent_saw(message)


def observed_text(messages: tuple[Message, ...], before: int) -> str:
    """The texts the agent had read or written before message `before`, oldest first, joined by newlines.

    Arguments of its own calls are not among them: repeating those is not reading.
    """
    seen = (m for m in messages if m.index < before and m.has_text and agent_saw(m))
    return "\n".join(message.content for message in seen)
