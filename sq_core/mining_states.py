"""Exemplars from every judged state of real conversations (docs/adr/0010).

The paper mines one transition turn per conversation. Where the judge scores the present need, every state it scored is
an exemplar by itself: relevant states are signals, the nearest irrelevant ones anti-signals. A state's vector is the
mean of its two views, its user message and its prefix: the pooling ``mean-latest`` then scores w·(that mean) + b, so
that what is fitted is exactly what is scored. A score of 4 or 2 counts less than one of 5 or 1. One artifact at a time,
from conversations of the mining half only, as in ``sq_core.mining``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sq_core.mining import RELEVANT, Conflict, JudgedConversation, MiningError, nearest_of

# 1: relevant from 4 on, irrelevant up to 2, the 6 nearest irrelevant states for each relevant one, mean of both views.
MINING_STATES_VERSION = 1
RATIO = 6
MAX_IRRELEVANT = 2
# How much a state counts whose score is not at the end of the scale, and the C it is fitted with.
UNSURE = 0.25
STATES_C = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class StateConversation:
    """A judged conversation with its prefixes' vectors: ``cumulative`` (T, d), one per user turn."""

    judged: JudgedConversation
    cumulative: NDArray[np.floating]

    def __post_init__(self) -> None:
        if len(self.cumulative) != len(self.judged.scores):
            raise MiningError(
                f"conversation {self.judged.id}: {len(self.cumulative)} prefixes and {len(self.judged.scores)} user "
                "turns; expected one each"
            )


@dataclass(frozen=True, slots=True, eq=False)
class MinedState:
    """A judged state with both of its views. similarity: highest cosine to a signal's message, anti-signals only."""

    text: str
    user_turn_vector: NDArray[np.floating]
    cumulative_vector: NDArray[np.floating]
    conversation: str
    scenario: str
    user_turn: int
    score: int
    similarity: float | None = None

    @property
    def vector(self) -> NDArray[np.float64]:
        """Mean of both views (d,), what ``mean-latest`` pools; not of length 1."""
        mean: NDArray[np.float64] = (
            self.user_turn_vector.astype(np.float64) + self.cumulative_vector.astype(np.float64)
        ) / 2
        return mean

    @property
    def weight(self) -> float:
        """How much the state counts in the fit: 1 where the judge was sure (1 or 5), else ``UNSURE``."""
        return 1.0 if self.score in (1, 5) else UNSURE

    @property
    def label_horizon(self) -> int:
        """The last user turn whose label was read to choose it: its own, so the rule is causal."""
        return self.user_turn


@dataclass(frozen=True, slots=True, eq=False)
class MinedStates:
    """One artifact's states: signals in reading order, anti-signals nearest first; ``unjudged`` turns were left out."""

    signals: tuple[MinedState, ...]
    anti_signals: tuple[MinedState, ...]
    conflicts: tuple[Conflict, ...]
    unjudged: int

    def enough(self, signals: int = 3, anti_signals: int = 3) -> bool:
        """Whether there is the minimum material."""
        return len(self.signals) >= signals and len(self.anti_signals) >= anti_signals


def mine_states(
    conversations: Iterable[StateConversation],
    *,
    relevant: int = RELEVANT,
    max_irrelevant: int = MAX_IRRELEVANT,
    ratio: int = RATIO,
) -> MinedStates:
    """Mine one artifact: every relevant state, and ``ratio`` times as many irrelevant states by nearness.

    A state scored in between says neither. A message that is a signal is no anti-signal: such states are listed as
    conflicts and left out. Of anti-signals with the same message the first is kept. Turns that are not judged are
    counted and skipped; the others of their conversation stay, for each state is judged by itself.
    """
    if not 1 <= max_irrelevant < relevant:
        raise MiningError(f"max_irrelevant is {max_irrelevant}; expected at least 1 and below relevant ({relevant})")
    if ratio < 1:
        raise MiningError(f"ratio is {ratio}; expected at least 1 anti-signal a signal")
    given = list(conversations)
    states = [state for each in given for state in _states(each)]
    signals = [state for state in states if state.score >= relevant]
    first: dict[str, MinedState] = {}
    for state in signals:
        first.setdefault(state.text, state)
    candidates: dict[str, MinedState] = {}
    for state in states:
        if state.score <= max_irrelevant:
            candidates.setdefault(state.text, state)
    conflicts = tuple(
        Conflict(text, (first[text].conversation, first[text].user_turn), (each.conversation, each.user_turn))
        for text, each in candidates.items()
        if text in first
    )
    free = [each for text, each in candidates.items() if text not in first]
    unjudged = sum(each.judged.scores.count(None) for each in given)
    return MinedStates(tuple(signals), tuple(_nearest(free, signals, ratio * len(signals))), conflicts, unjudged)


def _states(conversation: StateConversation) -> list[MinedState]:
    judged = conversation.judged
    return [
        MinedState(
            text=judged.texts[turn],
            user_turn_vector=judged.vectors[turn],
            cumulative_vector=conversation.cumulative[turn],
            conversation=judged.id,
            scenario=judged.scenario,
            user_turn=turn,
            score=score,
        )
        for turn, score in enumerate(judged.scores)
        if score is not None
    ]


def _nearest(candidates: Sequence[MinedState], signals: Sequence[MinedState], budget: int) -> list[MinedState]:
    """The nearest by their user messages alone, not by their prefixes."""
    near = nearest_of(
        [each.user_turn_vector for each in candidates], [each.user_turn_vector for each in signals], budget
    )
    return [replace(candidates[i], similarity=cosine) for i, cosine in near]
