"""Pins: a conversation state that must select its artifact, as a test beside the margin (paper 6).

Like is compared with like: the pinned prefix with the state's own cumulative view, the pinned user turn with every
user turn so far. A pin matches where the cosine of the centred unit vectors reaches its bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sq_core.classifier import ViewKind
from sq_core.scoring import Float, ScoringError, Vectors, Views, dot_table, round_margin

DEFAULT_BOUND = 0.90


@dataclass(frozen=True, slots=True, eq=False)
class PinState:
    """A pinned state: the centred unit vectors (d,) of its cumulative view and its latest user turn, either may be
    absent.
    """

    id: str
    cumulative: Vectors | None
    turn: Vectors | None
    bound: float = DEFAULT_BOUND

    def __post_init__(self) -> None:
        if self.cumulative is None and self.turn is None:
            raise ScoringError(f"pin {self.id} has no vector; give its cumulative view, its user turn, or both")
        if not 0.0 < self.bound <= 1.0:
            raise ScoringError(f"pin {self.id} has the bound {self.bound!r}; expected a cosine above 0 and at most 1")


def pin_cosines(pin: PinState, cumulative: Vectors | None, turns: Vectors) -> tuple[Float, Float]:
    """Cosines, rounded to 1e-6, of the pin with cumulative views (s, d) and with user turns (t, d): (s,) and (t,).

    A side the pin lacks gives -1, which no bound reaches.
    """
    return _cosines(pin.cumulative, cumulative), _cosines(pin.turn, turns)


def _cosines(pinned: Vectors | None, rows: Vectors | None) -> Float:
    if rows is None:
        return np.empty(0)
    if pinned is None:
        return np.full(len(rows), -1.0)
    return round_margin(dot_table(pinned[None, :], rows)[0])


def pin_match(pin: PinState, views: Views) -> tuple[bool, float, ViewKind | None, int | None]:
    """Whether `pin` matches the state, its best cosine, and the view that gave it.

    Of equal cosines the latest user turn counts, then the cumulative view. (False, -1.0, None, None) when nothing of
    the state can be compared with it. Only the cumulative view of the state's own turn is compared.
    """
    best: tuple[float, bool, int] | None = None
    for row, (kind, turn) in enumerate(zip(views.kind, views.user_turn, strict=True)):
        is_turn = kind is ViewKind.USER_TURN
        pinned = pin.turn if is_turn else pin.cumulative if turn == views.turn else None
        if pinned is not None:
            cosine = float(_cosines(pinned, views.vectors[row : row + 1])[0])
            best = max(best or (-2.0, False, -1), (cosine, is_turn, turn))
    if best is None:
        return False, -1.0, None, None
    cosine, is_turn, turn = best
    return cosine >= pin.bound, cosine, ViewKind.USER_TURN if is_turn else ViewKind.CUMULATIVE, turn
