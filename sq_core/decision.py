"""The decision about every artifact at every user turn: its records, and the replay that makes them.

What fires, and why (the first that applies): `off` never · `always` · `unfitted` (no classifier yet: shown, never
silently missing) · by its margin: `classifier` where a view of this very turn (its user turn, or its prefix) is above
the cut-off, `carried_over` where only an earlier user turn is · `pin` where only a pin matches · `dependency` where
another fired artifact pulls it in. Under mean pooling the margin has no turn of its own: what fires by it is
`classifier`.

`since_turn`: with expiry, the user turn at which the present activation began. Without, the first user turn whose own
view crosses the cut-off or matches a pin; the present turn where only its prefix does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sq_core.artifact import Artifact, Columns, ExemplarTerm, Mode
from sq_core.attribution import Attribution
from sq_core.classifier import ViewKind
from sq_core.dependencies import pulled_in
from sq_core.expiry import Expiry, Flags, replay
from sq_core.pins import pin_cosines
from sq_core.scoring import (
    Float,
    Margin,
    Pooling,
    ScoringError,
    ViewTerm,
    cut_offs,
    dot_table,
    pool,
    round_margin,
)
from sq_core.second_stage import StageAnswer
from sq_core.session import ConversationVectors

__all__ = [
    "Artifact",
    "Decider",
    "Discovery",
    "ExemplarTerm",
    "Explanation",
    "Fired",
    "Label",
    "Mode",
    "OperatingPoint",
    "Outcome",
    "Reason",
    "Replayed",
    "StageAnswer",
    "ordered",
]


class Reason(StrEnum):
    """Why an artifact fired."""

    CLASSIFIER = "classifier"
    PIN = "pin"
    ALWAYS = "always"
    UNFITTED = "unfitted"
    CARRIED_OVER = "carried_over"
    DEPENDENCY = "dependency"


class Label(StrEnum):
    """What became of an artifact at a user turn, fired or not."""

    FIRED = "fired"
    FIRED_BY_PIN = "fired_by_pin"
    ALWAYS_ON = "always_on"
    UNFITTED = "unfitted"
    DEPENDENCY = "dependency"
    CARRIED_OVER = "carried_over"
    EXPIRED = "expired"
    NOT_FIRED = "not_fired"
    FILTERED_LATER = "filtered_later"
    OFF = "off"


_LABELS = {
    Reason.ALWAYS: Label.ALWAYS_ON,
    Reason.CLASSIFIER: Label.FIRED,
    Reason.PIN: Label.FIRED_BY_PIN,
    Reason.CARRIED_OVER: Label.CARRIED_OVER,
    Reason.DEPENDENCY: Label.DEPENDENCY,
    Reason.UNFITTED: Label.UNFITTED,
}
_ORDER = {reason: place for place, reason in enumerate(_LABELS)}  # of `Discovery.fired`


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """θ, pooling and expiry of the whole inventory, and whether θ was calibrated on labels."""

    theta: float = 0.0
    pooling: Pooling = field(default_factory=Pooling)
    expiry: Expiry = field(default_factory=Expiry)
    target_recall: float = 0.9
    calibrated: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One artifact at one user turn. Without a classifier or a user turn there is no margin, cut-off or view."""

    artifact: str
    margin: float | None
    cutoff: float | None
    fired: bool
    reason: Reason | None
    outcome: Label
    views: tuple[ViewTerm, ...] = ()
    version: int | None = None
    since_turn: int | None = None
    pin: str | None = None
    via: str | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """A fired artifact: `views` make the margin (Σ weight·value + b); `pin` and `via` name what fired it instead."""

    artifact: str
    margin: float | None
    cutoff: float | None
    reason: Reason
    views: tuple[ViewTerm, ...] = ()
    version: int | None = None
    pin: str | None = None
    since_turn: int | None = None
    via: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry of `fired` in the API's answer; `pin`, `since_turn` and `via` only where they say something."""
        views = [
            {"kind": v.kind.value, "user_turn": v.user_turn, "weight": v.weight, "value": v.value} for v in self.views
        ]
        record = {"artifact": self.artifact, "margin": self.margin, "cutoff": self.cutoff, "reason": self.reason.value}
        more = {"pin": self.pin, "since_turn": self.since_turn, "via": self.via}
        return record | {"views": views, "version": self.version} | {k: v for k, v in more.items() if v is not None}


@dataclass(frozen=True, slots=True)
class Discovery:
    """The active set at the last user turn (`user_turn`, None without one), by reason, margin descending, then key.

    `expired` names what the margin would fire and expiry has switched off. `not_fired` is filled when asked for.
    `second_stage` is what an optional second stage took away, or why it took nothing. A degraded answer selects every
    artifact that is not off, because the encoder was away: `error` says why. Times are not compared.
    """

    fired: tuple[Fired, ...]
    expired: tuple[str, ...] = ()
    not_fired: tuple[Outcome, ...] = ()
    user_turn: int | None = None
    degraded: bool = False
    error: str | None = None
    second_stage: StageAnswer | None = None
    embed_ms: float = field(default=0.0, compare=False)
    score_ms: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One margin taken apart: every view's value, and exact terms per exemplar in the order of `exemplars`."""

    outcome: Outcome
    margin: Margin
    attribution: Attribution
    exemplars: tuple[ExemplarTerm, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """One conversation decided: arrays over the user turns from `vectors.first` on (rows) and the fitted artifacts
    (columns).

    `winners` are places in the order of preference of `scoring.preference`, -1 under mean pooling. `pins` names the
    pin that matches, by (row, column).
    """

    vectors: ConversationVectors
    pooling: Pooling
    dots_turns: Float
    dots_whole: Float
    cutoffs: Float
    margins: Float
    winners: NDArray[np.intp]
    above: Flags
    current: Flags
    active: Flags
    expired: Flags
    since: NDArray[np.int64]
    pins: Mapping[tuple[int, int], str]


class Decider:
    """The rules of this module over the columns of a release."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        count, modes = len(columns.keys), columns.modes
        self.place = {key: place for place, key in enumerate(columns.keys)}
        self._column = np.full(count, -1, dtype=np.intp)
        self._column[columns.fitted] = np.arange(len(columns.fitted))
        auto = np.fromiter((mode is Mode.AUTO for mode in modes), dtype=bool, count=count)
        always = np.fromiter((mode is Mode.ALWAYS for mode in modes), dtype=bool, count=count)
        self._filtered = auto[columns.fitted]
        self._without_margin = np.flatnonzero(always | (auto & (self._column < 0)))
        targets = {key for keys in columns.links.values() for key in keys if key in self.place}
        self._allowed = {key for key in targets if modes[self.place[key]] is not Mode.OFF}

    def replay(self, vectors: ConversationVectors, point: OperatingPoint) -> Replayed:
        """Score every user turn that has its prefix; with expiry that must be every one, from the first."""
        if point.expiry.on and vectors.first:
            raise ScoringError(f"expiry needs every prefix, the first given is that of user turn {vectors.first}")
        columns = self.columns
        turns, whole = dot_table(columns.weights, vectors.turns), dot_table(columns.weights, vectors.cumulative)
        cutoffs = cut_offs(point.theta, columns.offsets)
        shape = (len(vectors.cumulative), len(columns.fitted))
        margins, winners = np.empty(shape), np.empty(shape, dtype=np.intp)
        current, since = np.empty(shape, dtype=bool), np.empty(shape, dtype=np.int64)
        for row in range(len(margins)):
            turn = vectors.first + row
            margins[row], winners[row], current[row], since[row] = self._state(
                turns[:, : turn + 1], whole[:, row], cutoffs, point.pooling
            )
        above = margins > cutoffs
        pinned_now, pinned, since, pins = self._pins(vectors, since)
        active = (above | pinned) & self._filtered
        expired = np.zeros_like(active)
        if point.expiry.on:
            own = (round_margin(turns + columns.biases[:, None]) > cutoffs[:, None]).T
            rule = replay(active, own | pinned_now, point.expiry)
            active, expired, since = rule.active, rule.expired, rule.since
        return Replayed(
            vectors=vectors,
            pooling=point.pooling,
            dots_turns=turns,
            dots_whole=whole,
            cutoffs=cutoffs,
            margins=margins,
            winners=winners,
            above=above,
            current=current,
            active=active,
            expired=expired,
            since=since,
            pins=pins,
        )

    def _state(
        self, turns: Float, whole: Float, cutoffs: Float, pooling: Pooling
    ) -> tuple[Float, NDArray[np.intp], Flags, NDArray[np.int64]]:
        """Margins, winners, whether this turn's own views cross, and the first user turn that does, of one state (n,).

        `turns` (n, t + 1) and `whole` (n,) are the dot products of its user turns and its prefix.
        """
        turn = turns.shape[1] - 1
        discounts = pooling.age_discount * np.arange(_counted(pooling, turn), dtype=np.float64)
        counted = turns[:, ::-1][:, : len(discounts)]  # the latest first
        columns = np.column_stack([counted, whole]) if pooling.cumulative else counted
        pooled, winners = pool(columns, np.append(discounts, 0.0)[: columns.shape[1]], pooling.mode)
        margins = round_margin(pooled + self.columns.biases)
        if pooling.mode == "mean":
            return margins, winners, margins > cutoffs, np.full(len(margins), turn, dtype=np.int64)
        crossing = round_margin(counted - discounts + self.columns.biases[:, None]) > cutoffs[:, None]
        current = np.any(crossing[:, :1], axis=1, keepdims=True)
        if pooling.cumulative:
            current = current | (round_margin(whole + self.columns.biases) > cutoffs)[:, None]
        since = np.full(len(margins), turn, dtype=np.int64)
        for age in range(len(discounts)):  # the earliest that crosses is written last
            since[crossing[:, age]] = turn - age
        return margins, winners, current[:, 0], since

    def _pins(
        self, vectors: ConversationVectors, since: NDArray[np.int64]
    ) -> tuple[Flags, Flags, NDArray[np.int64], dict[tuple[int, int], str]]:
        """Where a pin matches a view of the turn itself, any view so far, the earlier of `since` and the match, and
        its id.
        """
        now, ever = np.zeros(since.shape, dtype=bool), np.zeros(since.shape, dtype=bool)
        since = since.copy()
        names: dict[tuple[int, int], str] = {}
        for column, own_pins in self.columns.pins.items():
            for pin in own_pins:
                whole, own = (cosines >= pin.bound for cosines in pin_cosines(pin, vectors.cumulative, vectors.turns))
                so_far = np.logical_or.accumulate(own)[vectors.first :]
                now[:, column] |= own[vectors.first :] | whole
                ever[:, column] |= so_far | whole
                since[so_far, column] = np.minimum(since[so_far, column], int(own.argmax()))
                for row in np.flatnonzero(so_far | whole):
                    names.setdefault((int(row), column), pin.id)
        return now, ever, since, names

    def outcomes(
        self, found: Replayed | None, row: int, *, everything: bool = True, dropped: Collection[str] = ()
    ) -> tuple[Outcome, ...]:
        """Outcomes of every artifact at one row of `found` (None: no user turn yet); without `everything` only those
        that fired, expired or were `dropped` by a second stage. A dropped one that another requires is a dependency.
        """
        keys = self.columns.keys
        places: Iterable[int] = range(len(keys)) if everything else self._telling(found, row)
        labels = {place: self._label(place, found, row) for place in places}
        labels |= {self.place[key]: (Label.FILTERED_LATER, None) for key in dropped}
        fired = [keys[place] for place, (_, reason) in labels.items() if reason is not None]
        via = pulled_in(fired, self.columns.links, self._allowed)
        labels |= {self.place[key]: (Label.DEPENDENCY, Reason.DEPENDENCY) for key in via}
        return tuple(self._outcome(place, *labels[place], via.get(keys[place]), found, row) for place in sorted(labels))

    def _telling(self, found: Replayed | None, row: int) -> list[int]:
        """Places of the artifacts that fire or have expired at `row`, dependencies aside."""
        if found is None:
            return list(map(int, self._without_margin))
        by_margin = self.columns.fitted[found.active[row] | found.expired[row]]
        return list(map(int, np.union1d(self._without_margin, by_margin)))

    def _label(self, place: int, found: Replayed | None, row: int) -> tuple[Label, Reason | None]:
        """The outcome before dependencies."""
        mode, column = self.columns.modes[place], int(self._column[place])
        reason: Reason | None = None
        if mode is Mode.OFF:
            return Label.OFF, None
        if mode is Mode.ALWAYS:
            reason = Reason.ALWAYS
        elif column < 0:
            reason = Reason.UNFITTED
        elif found is not None:
            at = row, column
            if found.expired[at]:
                return Label.EXPIRED, None
            if found.active[at]:
                by_margin = Reason.CLASSIFIER if found.current[at] else Reason.CARRIED_OVER
                reason = by_margin if found.above[at] else Reason.PIN
        return (Label.NOT_FIRED, None) if reason is None else (_LABELS[reason], reason)

    def _outcome(
        self, place: int, label: Label, reason: Reason | None, via: str | None, found: Replayed | None, row: int
    ) -> Outcome:
        key, version, at = self.columns.keys[place], self.columns.versions[place], (row, int(self._column[place]))
        fired = reason is not None
        if found is None or at[1] < 0:
            return Outcome(key, None, None, fired, reason, label, version=version, via=via)
        since = int(found.since[at])
        by_itself = reason in (Reason.CLASSIFIER, Reason.CARRIED_OVER, Reason.PIN)
        return Outcome(
            artifact=key,
            margin=float(found.margins[at]),
            cutoff=float(found.cutoffs[at[1]]),
            fired=fired,
            reason=reason,
            outcome=label,
            views=_terms(found, *at),
            version=version,
            since_turn=since if by_itself else None,
            pin=found.pins.get(at) if reason is Reason.PIN else None,
            via=via,
        )


def _counted(pooling: Pooling, turn: int) -> int:
    """How many user turns count at user turn `turn`."""
    return turn + 1 - pooling.first_turn(turn) if pooling.user_turns else 0


def _terms(found: Replayed, row: int, column: int) -> tuple[ViewTerm, ...]:
    """The terms that make the margin at (row, column): the winner, or under mean pooling every view that counts."""
    turn, pooling = found.vectors.first + row, found.pooling
    count = _counted(pooling, turn)
    places = range(count + pooling.cumulative) if pooling.mode == "mean" else (int(found.winners[row, column]),)
    terms = []
    for place in places:
        if place < count:
            less = pooling.age_discount * float(place)
            value = float(found.dots_turns[column, turn - place]) - less
            terms.append(ViewTerm(ViewKind.USER_TURN, turn - place, 1.0 / len(places), value, less))
        else:
            terms.append(ViewTerm(ViewKind.CUMULATIVE, turn, 1.0 / len(places), float(found.dots_whole[column, row])))
    return tuple(terms)


def ordered(outcomes: Sequence[Outcome]) -> tuple[Fired, ...]:
    """What fired, by reason (always, classifier, pin, carried over, dependency, unfitted), margin descending, then
    key.
    """
    fired = [
        Fired(o.artifact, o.margin, o.cutoff, o.reason, o.views, o.version, o.pin, o.since_turn, o.via)
        for o in outcomes
        if o.reason is not None
    ]
    return tuple(
        sorted(fired, key=lambda f: (_ORDER[f.reason], math.inf if f.margin is None else -f.margin, f.artifact))
    )
