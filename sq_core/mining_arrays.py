"""Mining over a whole log as arrays: the rules of `mining`, `mining_states` and `hunt_anti_signals` for hundreds of
thousands of judged user turns, in time and memory linear in their number.

A log is read once (`JudgedTurns`); each artifact adds its scores, one small integer per turn. Nothing here makes an object
per turn. Without a cap the rows are those that the object forms choose (tests/core/test_mining_arrays.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.fitting import ClassWeight, fit_classifier
from sq_core.mining import RELEVANT, MiningError, Rule
from sq_core.mining_states import MAX_IRRELEVANT, RATIO

Rows = NDArray[np.intp]
Scores = NDArray[np.int8]
Vectors = NDArray[np.floating]
CHUNK = 8_192  # rows whose similarities are held at once
# Two texts so similar say the same; the product's bound of "nearly the same".
NEARLY_THE_SAME = 0.95
# What float32 similarities may be off by before they are worked out again in float64, well above their error.
UNSURE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class JudgedTurns:
    """The user turns of a log (S rows) in conversations (C), each conversation's rows together in the order of its turns.

    group (S,) is the row's conversation 0..C-1; text (S,) a code that two rows share iff their messages are equal;
    vectors (S, d) the messages' centred unit vectors. Per conversation: starts (C,) its first row; missing (C,) how many
    of its user turns have no row here; finished (C,) whether no later turn can come.
    """

    group: Rows
    starts: Rows
    turn: NDArray[np.int64]
    text: Rows
    vectors: Vectors
    missing: NDArray[np.int64]
    finished: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        conversation: ArrayLike,
        turn: ArrayLike,
        text: ArrayLike,
        vectors: Vectors,
        *,
        expected: ArrayLike | None = None,
        finished: ArrayLike | None = None,
    ) -> Self:
        """``conversation`` (S,) any ids, equal ones next to each other; ``text`` (S,) anything that can be compared.

        ``expected`` (C,) are the user turns a conversation really has, ``finished`` (C,), both in the order of the rows.
        """
        ids = np.asarray(conversation)
        if len({len(ids), len(np.asarray(turn)), len(np.asarray(text)), len(vectors)}) != 1:
            raise MiningError(
                "conversation, turn, text and vectors differ in length; expected one of each per user turn"
            )
        new = np.append(True, ids[1:] != ids[:-1]) if len(ids) else np.zeros(0, dtype=bool)
        starts = np.flatnonzero(new)
        if len(np.unique(ids[starts])) != len(starts):
            raise MiningError("the rows of a conversation are apart; expected each conversation's rows together")
        sizes = np.diff(np.append(starts, len(ids)))
        wanted = sizes if expected is None else np.asarray(expected, dtype=np.int64)
        done = np.ones(len(starts), dtype=bool) if finished is None else np.asarray(finished, dtype=bool)
        if not len(wanted) == len(done) == len(starts):
            raise MiningError(f"{len(wanted)} expected and {len(done)} finished for {len(starts)} conversations")
        return cls(
            group=np.cumsum(new) - 1,
            starts=starts,
            turn=np.asarray(turn, dtype=np.int64),
            text=np.unique(np.asarray(text), return_inverse=True)[1].astype(np.intp),
            vectors=vectors,
            missing=np.maximum(wanted - sizes, 0),
            finished=done,
        )

    def __len__(self) -> int:
        return len(self.group)

    @property
    def last(self) -> Rows:
        """(C,) each conversation's last row."""
        ends = np.append(self.starts[1:], len(self))
        return np.asarray(ends - 1, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Counts:
    """What was read, and why some of it was not. ``partly``: some turns judged, some not; ``unjudged``: none of them."""

    conversations: int
    mined: int
    partly: int
    unjudged: int
    missing: int  # judgements to ask for in the partly judged ones
    unfinished: int
    relevant: int  # turns scored relevant, in all conversations
    duplicate_signals: int
    irrelevant: int
    duplicate_anti_signals: int


@dataclass(frozen=True, slots=True, eq=False)
class MinedRows:
    """One artifact's mined turns as rows: signals in reading order, anti_signals nearest first, beside each its
    ``similarity`` to the ``nearest`` signal's row. conflicts (n, 2): a signal's row, the row of the same text that was
    judged irrelevant. ``left``: how many signals the cap left out.
    """

    signals: Rows
    anti_signals: Rows
    similarity: NDArray[np.float64]
    nearest: Rows
    conflicts: Rows
    left: int
    counts: Counts


# ------------------------------------------------------------------------------------------------------- the paper's rules
def mine_rows(
    turns: JudgedTurns,
    scores: Scores,
    *,
    rule: Rule = "whole_conversation",
    relevant: int = RELEVANT,
    max_irrelevant: int = 1,
    ratio: int = 4,
    most: int | None = None,
    order: NDArray[np.int8] | None = None,
) -> MinedRows:
    """`mining.mine` on rows: ``scores`` (S,) of one artifact by one judge version, 0 where that judge has not judged.

    ``most`` caps the signals, and with them the anti-signals, which keeps the work linear; kept are those lowest in
    ``order`` (S,), and of equal ones some spread evenly over the log.
    """
    if rule not in ("whole_conversation", "running"):
        raise MiningError(f"rule is {rule!r}; expected whole_conversation or running")
    _check(turns, scores, relevant, max_irrelevant)
    judged = scores > 0
    full = _per_group(turns, judged, np.add) == np.diff(np.append(turns.starts, len(turns)))
    complete = full & (turns.missing == 0)
    usable = complete & turns.finished if rule == "whole_conversation" else complete
    wanted = scores >= relevant
    if rule == "whole_conversation":
        wanted = wanted & (scores == _per_group(turns, scores, np.maximum)[turns.group])
    every = _first_of_group(turns, wanted & usable[turns.group])
    signals = _distinct(turns, every)
    irrelevant = np.flatnonzero(judged & (scores <= max_irrelevant) & usable[turns.group])
    return _mined(
        turns,
        scores,
        every,
        signals,
        irrelevant,
        complete,
        usable,
        relevant=relevant,
        ratio=ratio,
        most=most,
        order=order,
    )


def label_horizon(turns: JudgedTurns, rows: Rows, rule: Rule) -> NDArray[np.int64]:
    """The last user turn whose label was read to choose each row: its own, or its conversation's last."""
    if rule == "running":
        return turns.turn[rows]
    return turns.turn[turns.last[turns.group[rows]]]


# --------------------------------------------------------------------------------------------------- every state (ADR 10)
def mine_state_rows(
    turns: JudgedTurns,
    scores: Scores,
    *,
    relevant: int = RELEVANT,
    max_irrelevant: int = MAX_IRRELEVANT,
    ratio: int = RATIO,
    most: int | None = None,
    order: NDArray[np.int8] | None = None,
) -> MinedRows:
    """`mining_states.mine_states` on rows; with a cap, of signals with the same message the first is kept."""
    _check(turns, scores, relevant, max_irrelevant)
    judged = scores > 0
    every = np.flatnonzero(scores >= relevant)
    signals = every if most is None else _distinct(turns, every)
    irrelevant = np.flatnonzero(judged & (scores <= max_irrelevant))
    some = _per_group(turns, judged, np.add) > 0
    full = _per_group(turns, judged, np.add) == np.diff(np.append(turns.starts, len(turns)))
    return _mined(
        turns,
        scores,
        every,
        signals,
        irrelevant,
        full & (turns.missing == 0),
        some,
        relevant=relevant,
        ratio=ratio,
        most=most,
        order=order,
    )


# ------------------------------------------------------------------------------------------------ against the current version
@dataclass(frozen=True, slots=True, eq=False)
class HuntedRows:
    """Turns judged irrelevant that fire, hardest first in each round, with the margin they had when they were chosen.

    ``firing``: how many fired at the start. ``reason``: ``quiet`` when nothing judged irrelevant fires any more, else
    ``budget``.
    """

    rows: Rows
    margins: NDArray[np.float64]
    rounds: int
    firing: int
    reason: Literal["quiet", "budget"]


def hunt_rows(
    turns: JudgedTurns,
    scores: Scores,
    signals: Vectors,
    anti_signals: Vectors,
    *,
    cutoff: float = 0.0,
    budget: int = 40,
    batch: int = 10,
    relevant: int = RELEVANT,
    max_irrelevant: int = 1,
    known: NDArray[np.bool_] | None = None,
    C: float = 1.0,
    class_weight: ClassWeight = "balanced",
) -> HuntedRows:
    """`hunt_anti_signals` on turns that are judged already, so without a judge: take what fires hardest and was judged
    irrelevant, refit, and look again.

    A message is taken by the margin of its own view. One that was judged relevant anywhere is no anti-signal; ``known``
    (S,) rows are passed over.
    """
    _check(turns, scores, relevant, max_irrelevant)
    if budget < 1 or batch < 1:
        raise ValueError(f"budget {budget} and batch {batch}; expected at least 1 each")
    needed = np.zeros(_texts(turns), dtype=bool)
    needed[turns.text[scores >= relevant]] = True
    open_rows = (scores > 0) & (scores <= max_irrelevant) & ~needed[turns.text]
    if known is not None:
        open_rows &= ~known
    left = _distinct(turns, np.flatnonzero(open_rows))
    near = np.asarray(anti_signals, dtype=np.float64)
    found: list[Rows] = []
    margins: list[NDArray[np.float64]] = []
    taken, firing = 0, 0
    reason: Literal["quiet", "budget"] = "budget"
    while taken < budget:
        fit = fit_classifier(signals, near, C, class_weight)
        chosen, values, over = _hardest(turns.vectors, left, fit.weights, fit.bias, cutoff, min(batch, budget - taken))
        firing = firing or over
        if not len(chosen):
            reason = "quiet"
            break
        found.append(chosen)
        margins.append(values)
        taken += len(chosen)
        left = left[~np.isin(left, chosen)]
        near = np.concatenate((near, turns.vectors[chosen].astype(np.float64)))
    empty_rows, empty = np.zeros(0, dtype=np.intp), np.zeros(0)
    return HuntedRows(
        rows=np.concatenate(found) if found else empty_rows,
        margins=np.concatenate(margins) if margins else empty,
        rounds=len(found),
        firing=firing,
        reason=reason,
    )


def _hardest(
    vectors: Vectors, rows: Rows, weights: NDArray[np.float64], bias: float, cutoff: float, size: int
) -> tuple[Rows, NDArray[np.float64], int]:
    """The ``size`` rows with the highest margins over ``cutoff``, those margins, and how many rows are over it."""
    if not len(rows):
        return rows, np.zeros(0), 0
    rough = (vectors @ weights.astype(np.float32))[rows] + np.float32(bias)  # one pass over the log, nothing copied
    over = int((rough > cutoff).sum())
    near = np.flatnonzero(rough > cutoff - UNSURE)
    if len(near) > size:
        bound = np.partition(rough[near], -size)[-size] - UNSURE
        near = near[rough[near] >= bound]
    exact = vectors[rows[near]].astype(np.float64) @ weights + bias
    order = np.argsort(-exact, kind="stable")
    order = order[exact[order] > cutoff][:size]
    return rows[near[order]], exact[order], over


# ----------------------------------------------------------------------------------------------------------- near-duplicates
def near_duplicates(vectors: Vectors, *, bound: float = NEARLY_THE_SAME) -> NDArray[np.intp]:
    """Cluster numbers (n,), from 0 in the order of first members: rows that a chain of cosines ≥ ``bound`` connects.

    For a page's or an artifact's candidates (n² cosines), not for a log.
    """
    n = len(vectors)
    if n == 0:
        return np.zeros(0, dtype=np.intp)
    raw = np.asarray(vectors, dtype=np.float64)
    alike = raw @ raw.T >= bound
    np.fill_diagonal(alike, True)
    labels = np.arange(n)
    while True:
        lowest = np.where(alike, labels[None, :], n).min(axis=1)
        if np.array_equal(lowest, labels):
            break
        labels = lowest
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


# ------------------------------------------------------------------------------------------------------------------- pieces
def _check(turns: JudgedTurns, scores: Scores, relevant: int, max_irrelevant: int) -> None:
    if len(scores) != len(turns):
        raise MiningError(f"{len(scores)} scores for {len(turns)} user turns; expected one each, 0 = not judged")
    if not 1 <= max_irrelevant < relevant:
        raise MiningError(f"max_irrelevant is {max_irrelevant}; expected at least 1 and below relevant ({relevant})")


def _per_group(turns: JudgedTurns, values: NDArray[np.generic], add: np.ufunc) -> NDArray[np.int64]:
    """(C,) the values of each conversation's rows put together."""
    if not len(turns):
        return np.zeros(0, dtype=np.int64)
    return np.asarray(add.reduceat(values.astype(np.int64), turns.starts), dtype=np.int64)


def _first_of_group(turns: JudgedTurns, mask: NDArray[np.bool_]) -> Rows:
    """The first row of each conversation that is in ``mask``."""
    rows = np.flatnonzero(mask)
    groups = turns.group[rows]
    return rows[np.append(True, groups[1:] != groups[:-1])] if len(rows) else rows


def _texts(turns: JudgedTurns) -> int:
    return int(turns.text.max()) + 1 if len(turns) else 0


def _distinct(turns: JudgedTurns, rows: Rows) -> Rows:
    """Of rows with the same message the first."""
    first = np.empty(_texts(turns), dtype=np.intp)
    first[turns.text[rows[::-1]]] = rows[::-1]  # of several the last assignment stays, which is the first row
    kept: Rows = rows[first[turns.text[rows]] == rows]
    return kept


def _mined(
    turns: JudgedTurns,
    scores: Scores,
    every: Rows,
    signals: Rows,
    irrelevant: Rows,
    complete: NDArray[np.bool_],
    usable: NDArray[np.bool_],
    *,
    relevant: int,
    ratio: int,
    most: int | None,
    order: NDArray[np.int8] | None,
) -> MinedRows:
    if ratio < 1:
        raise MiningError(f"ratio is {ratio}; expected at least 1 anti-signal a signal")
    candidates = _distinct(turns, irrelevant)
    signal_of = np.full(_texts(turns), -1, dtype=np.intp)
    signal_of[turns.text[signals[::-1]]] = signals[::-1]
    clash = signal_of[turns.text[candidates]] >= 0
    conflicts = np.stack((signal_of[turns.text[candidates[clash]]], candidates[clash]), axis=1)
    free = candidates[~clash]
    kept = _capped(signals, most, order)
    near, similarity, nearest = _nearest(turns.vectors, free, kept, ratio * len(kept))
    judged = _per_group(turns, scores > 0, np.add)
    sizes = np.diff(np.append(turns.starts, len(turns)))
    partly = ~complete & (judged > 0)
    counts = Counts(
        conversations=len(turns.starts),
        mined=int(usable.sum()),
        partly=int(partly.sum()),
        unjudged=int((judged == 0).sum()),
        missing=int((sizes - judged + turns.missing)[partly].sum()),
        unfinished=int((complete & ~usable).sum()),
        relevant=int((scores >= relevant).sum()),
        duplicate_signals=len(every) - len(_distinct(turns, every)),
        irrelevant=len(irrelevant),
        duplicate_anti_signals=len(irrelevant) - len(candidates),
    )
    return MinedRows(
        signals=kept,
        anti_signals=near,
        similarity=similarity,
        nearest=nearest,
        conflicts=conflicts[np.argsort(conflicts[:, 0], kind="stable")],
        left=len(signals) - len(kept),
        counts=counts,
    )


def _capped(signals: Rows, most: int | None, order: NDArray[np.int8] | None) -> Rows:
    """At most ``most`` of the signals: the lowest ``order`` first, those of the same spread evenly; in reading order."""
    if most is None or len(signals) <= most:
        return signals
    level = order[signals] if order is not None else np.zeros(len(signals), dtype=np.int8)
    kept: list[Rows] = []
    left = most
    for value in np.unique(level):
        kept.append(_spread(signals[level == value], left))
        left -= len(kept[-1])
    return np.sort(np.concatenate(kept))


def _spread(rows: Rows, size: int) -> Rows:
    if len(rows) <= size:
        return rows
    return rows[(np.arange(size) * len(rows)) // size] if size else rows[:0]


def _nearest(vectors: Vectors, rows: Rows, signals: Rows, budget: int) -> tuple[Rows, NDArray[np.float64], Rows]:
    """The ``budget`` rows with the highest cosine to any signal, that cosine, and the signal's row; equal cosines keep
    reading order. One pass of float32 products over the rows; those that may be among the nearest again in float64.
    """
    if not len(rows) or not len(signals) or budget < 1:
        none = np.zeros(0, dtype=np.intp)
        return none, np.zeros(0), none
    own = np.ascontiguousarray(vectors[signals], dtype=np.float32)
    rough = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), CHUNK):
        piece = rows[start : start + CHUNK]
        span = slice(piece[0], piece[-1] + 1)
        if 4 * len(piece) >= 3 * (span.stop - span.start):  # nearly all rows of the span: take it as it lies in memory
            best = (vectors[span] @ own.T).max(axis=1)[piece - piece[0]]
        else:
            best = (vectors[piece] @ own.T).max(axis=1)
        rough[start : start + len(piece)] = best
    close = np.arange(len(rows))
    if len(rows) > budget:
        close = np.flatnonzero(rough >= np.partition(rough, -budget)[-budget] - UNSURE)
    exact = vectors[rows[close]].astype(np.float64) @ vectors[signals].astype(np.float64).T
    similarity = exact.max(axis=1)
    order = np.argsort(-np.round(similarity, 9), kind="stable")[:budget]
    return rows[close[order]], similarity[order], signals[exact.argmax(axis=1)[order]]
