"""Exemplars from judged conversations: transition turns and hard negatives (paper §5; PRODUCT, Mining; TRACES 3.1).

One artifact at a time, from conversations of the mining half only: the caller passes no others, and every mined
exemplar names its scenario so that a metric can leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# 1: transition turn and nearest turns scored 1, duplicates by text removed first. Stored on every mined exemplar.
MINING_VERSION = 1

Rule = Literal["whole_conversation", "running"]
RELEVANT = 4


class MiningError(ValueError):
    """Conversations or settings that cannot be mined."""


def transition_turn(scores: Sequence[int], *, relevant: int = RELEVANT) -> int | None:
    """The user turn (from 0) at which the score first reaches its maximum, if that is relevant (paper §5).

    This rule knows the maximum only at the end: for finished conversations, never for a live feed.
    """
    best = max(scores, default=0)
    return list(scores).index(best) if best >= relevant else None


def running_turn(scores: Sequence[int], *, relevant: int = RELEVANT) -> int | None:
    """The first relevant user turn (from 0): every earlier score is lower. Later turns never change it."""
    return next((turn for turn, score in enumerate(scores) if score >= relevant), None)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedConversation:
    """One conversation as one artifact sees it; all of the same length T, one entry per user turn.

    texts: the user messages; vectors (T, d): their centred unit vectors; scores: 1..5 by one judge version, None where
    that judge has not judged the turn for this artifact. finished: no later turn can come.
    """

    id: str
    scenario: str
    texts: tuple[str, ...]
    vectors: NDArray[np.floating]
    scores: tuple[int | None, ...]
    finished: bool = True

    def __post_init__(self) -> None:
        lengths = {len(self.texts), len(self.vectors), len(self.scores)}
        if len(lengths) != 1:
            raise MiningError(
                f"conversation {self.id}: {len(self.texts)} texts, {len(self.vectors)} vectors and {len(self.scores)} "
                "scores; expected one of each per user turn"
            )


@dataclass(frozen=True, slots=True, eq=False)
class MinedExemplar:
    """A user message with its origin. label_horizon: the last user turn whose label was read to choose it.

    similarity: highest cosine to any of the artifact's mined signals, for anti-signals only.
    """

    text: str
    vector: NDArray[np.floating]
    conversation: str
    scenario: str
    user_turn: int
    score: int
    label_horizon: int
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A text that is a signal in one place and was judged irrelevant in another."""

    text: str
    signal: tuple[str, int]
    anti_signal: tuple[str, int]


@dataclass(frozen=True, slots=True)
class MiningReport:
    """What was read, what could not be mined and why; ``missing`` counts the judgements to ask for."""

    conversations: int
    mined: int
    partly_judged: tuple[tuple[str, int], ...]
    unfinished: tuple[str, ...]
    without_transition: int
    duplicate_signals: int
    irrelevant_turns: int
    duplicate_anti_signals: int
    reasons: tuple[str, ...]

    @property
    def missing(self) -> int:
        return sum(count for _, count in self.partly_judged)


@dataclass(frozen=True, slots=True, eq=False)
class Mined:
    """One artifact's mined exemplars: signals in reading order, anti-signals nearest first."""

    signals: tuple[MinedExemplar, ...]
    anti_signals: tuple[MinedExemplar, ...]
    conflicts: tuple[Conflict, ...]
    report: MiningReport
    rule: Rule

    def enough(self, signals: int = 3, anti_signals: int = 3) -> bool:
        """Whether there is the minimum material for a classifier of its own (an inventory setting)."""
        return len(self.signals) >= signals and len(self.anti_signals) >= anti_signals


def mine(
    conversations: Iterable[JudgedConversation],
    *,
    rule: Rule = "whole_conversation",
    relevant: int = RELEVANT,
    max_irrelevant: int = 1,
    ratio: int = 4,
    remove_conflicts: bool = True,
) -> Mined:
    """Mine one artifact: its transition turns as signals, and as anti-signals the irrelevant turns nearest to them.

    Anti-signals are user turns scored at most ``max_irrelevant``, ``ratio`` times the number of signals, by highest
    cosine to any signal. Duplicate texts are removed first. A text that is a signal is no anti-signal; conflicts are
    listed either way (``remove_conflicts=False`` keeps them in, as the reference run of the paper's recipe did).
    """
    if rule not in ("whole_conversation", "running"):
        raise MiningError(f"rule is {rule!r}; expected whole_conversation or running")
    if not 1 <= max_irrelevant < relevant:
        raise MiningError(f"max_irrelevant is {max_irrelevant}; expected at least 1 and below relevant ({relevant})")
    given = list(conversations)
    usable, partly, unfinished = _usable(given, rule)
    transitions = [_signal(each, rule, relevant) for each in usable]
    all_signals = [each for each in transitions if each is not None]
    all_irrelevant = [turn for each in usable for turn in _irrelevant(each, rule, max_irrelevant)]
    signals, candidates = _distinct(all_signals), _distinct(all_irrelevant)
    conflicts = _conflicts(signals, candidates)
    if remove_conflicts:
        signal_texts = {each.text for each in signals}
        candidates = [each for each in candidates if each.text not in signal_texts]
    anti_signals = _nearest(candidates, signals, ratio * len(signals))
    report = MiningReport(
        conversations=len(given),
        mined=len(usable),
        partly_judged=partly,
        unfinished=unfinished,
        without_transition=len(usable) - len(all_signals),
        duplicate_signals=len(all_signals) - len(signals),
        irrelevant_turns=len(all_irrelevant),
        duplicate_anti_signals=len(all_irrelevant) - len(_distinct(all_irrelevant)),
        reasons=_reasons(usable, partly, unfinished, signals, anti_signals, relevant, max_irrelevant),
    )
    return Mined(tuple(signals), tuple(anti_signals), conflicts, report, rule)


def _usable(
    given: Sequence[JudgedConversation], rule: Rule
) -> tuple[list[JudgedConversation], tuple[tuple[str, int], ...], tuple[str, ...]]:
    """The conversations the rule may read, the partly judged with their missing counts, the unfinished ones."""
    partly = tuple((each.id, each.scores.count(None)) for each in given if None in each.scores)
    judged = [each for each in given if None not in each.scores]
    # whole_conversation looks ahead through the labels: in an open conversation its answer could still change.
    unfinished = tuple(each.id for each in judged if rule == "whole_conversation" and not each.finished)
    return [each for each in judged if each.id not in set(unfinished)], partly, unfinished


def _scores(conversation: JudgedConversation) -> list[int]:
    return [score for score in conversation.scores if score is not None]


def _signal(conversation: JudgedConversation, rule: Rule, relevant: int) -> MinedExemplar | None:
    choose = transition_turn if rule == "whole_conversation" else running_turn
    turn = choose(_scores(conversation), relevant=relevant)
    return None if turn is None else _exemplar(conversation, turn, rule)


def _irrelevant(conversation: JudgedConversation, rule: Rule, max_irrelevant: int) -> list[MinedExemplar]:
    scores = _scores(conversation)
    return [_exemplar(conversation, turn, rule) for turn, score in enumerate(scores) if score <= max_irrelevant]


def _exemplar(conversation: JudgedConversation, turn: int, rule: Rule) -> MinedExemplar:
    return MinedExemplar(
        text=conversation.texts[turn],
        vector=conversation.vectors[turn],
        conversation=conversation.id,
        scenario=conversation.scenario,
        user_turn=turn,
        score=_scores(conversation)[turn],
        label_horizon=turn if rule == "running" else len(conversation.scores) - 1,
    )


def _distinct(exemplars: Iterable[MinedExemplar]) -> list[MinedExemplar]:
    first: dict[str, MinedExemplar] = {}
    for each in exemplars:
        first.setdefault(each.text, each)
    return list(first.values())


def _conflicts(signals: Sequence[MinedExemplar], candidates: Sequence[MinedExemplar]) -> tuple[Conflict, ...]:
    irrelevant = {each.text: each for each in candidates}
    return tuple(
        Conflict(each.text, (each.conversation, each.user_turn), (other.conversation, other.user_turn))
        for each in signals
        if (other := irrelevant.get(each.text)) is not None
    )


def _nearest(candidates: Sequence[MinedExemplar], signals: Sequence[MinedExemplar], budget: int) -> list[MinedExemplar]:
    near = nearest_of([each.vector for each in candidates], [each.vector for each in signals], budget)
    return [replace(candidates[i], similarity=cosine) for i, cosine in near]


def nearest_of(
    candidates: Sequence[NDArray[np.floating]], signals: Sequence[NDArray[np.floating]], budget: int
) -> list[tuple[int, float]]:
    """The ``budget`` candidates, by their place, with the highest cosine to any signal; equal cosines keep reading order."""
    if not candidates or not signals:
        return []
    similarity = (np.stack(candidates).astype(np.float64) @ np.stack(signals).astype(np.float64).T).max(axis=1)
    order = np.argsort(-np.round(similarity, 9), kind="stable")[:budget]
    return [(int(i), float(similarity[i])) for i in order]


def _reasons(
    usable: Sequence[JudgedConversation],
    partly: Sequence[tuple[str, int]],
    unfinished: Sequence[str],
    signals: Sequence[MinedExemplar],
    anti_signals: Sequence[MinedExemplar],
    relevant: int,
    max_irrelevant: int,
) -> tuple[str, ...]:
    """In words, what was not mined and what would mend it."""
    reasons = []
    if partly:
        missing = sum(count for _, count in partly)
        reasons.append(f"{len(partly)} conversations partly judged: {missing} turns to judge")
    if unfinished:
        reasons.append(f"{len(unfinished)} open conversations left out: use the running rule or wait until they end")
    if not usable:
        reasons.append("no fully judged conversation")
    elif not signals:
        reasons.append(f"no turn scored {relevant} or more: never relevant in the {len(usable)} conversations read")
    elif not anti_signals:
        reasons.append(f"no turn scored {max_irrelevant} or less beside the signals: nothing to tell them from")
    return tuple(reasons)
