"""The contract laid over Signals and Queries (TRACES 3.1): what a judgement or a view of a user turn may have seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sq_core.causal.trace import CausalityError
from sq_core.conversation import Conversation, Message, prefix_digests, user_turns


@dataclass(frozen=True, slots=True)
class QueryState:
    """A prefix ending at a user turn (from 0): messages up to index `visible_upto`, and their digest."""

    conversation: str
    user_turn: int
    visible_upto: int
    digest: str


def query_states(conversation: Conversation) -> list[QueryState]:
    """Every query state; later messages change none of them."""
    digests = {m.index: d for m, d in zip(conversation.messages, prefix_digests(conversation.messages), strict=True)}
    return [
        QueryState(conversation.external_id, turn, index, digests[index])
        for turn, index in enumerate(user_turns(conversation.messages))
    ]


def check_view(state: QueryState, shown: Sequence[Message]) -> None:
    """CausalityError naming the conversation when a view or a prompt holds anything later than the state."""
    late = [message.index for message in shown if message.index > state.visible_upto]
    if late:
        what = f"is shown at user turn {state.user_turn}, which sees messages up to {state.visible_upto}"
        raise CausalityError(state.conversation, late[0], what)


class JudgementError(CausalityError):
    """A judgement made on another prefix than the state's; `field` is what differs: visible_upto or prefix_digest."""

    def __init__(self, state: QueryState, message_index: int, field: str, what: str) -> None:
        super().__init__(state.conversation, message_index, what)
        self.field = field


def check_judgement(state: QueryState, visible_upto: int | None, prefix_digest: str | None) -> None:
    """JudgementError unless a judgement was made on exactly this prefix; None stands for what its file does not say."""
    if visible_upto is not None and visible_upto != state.visible_upto:
        what = f"the judgement of user turn {state.user_turn} saw up to here, the state sees up to {state.visible_upto}"
        raise JudgementError(state, visible_upto, "visible_upto", what)
    if prefix_digest is not None and prefix_digest != state.digest:
        what = (
            f"the judgement of user turn {state.user_turn} was made on another prefix: "
            f"its digest is {prefix_digest}, this prefix has {state.digest}"
        )
        raise JudgementError(state, state.visible_upto, "prefix_digest", what)
