"""Pins compare like with like, on centred unit vectors."""

from __future__ import annotations

import numpy as np
import pytest

from sq_core.classifier import ViewKind
from sq_core.pins import PinState, pin_cosines, pin_match
from sq_core.scoring import ScoringError, Views

CUM, TURN = ViewKind.CUMULATIVE, ViewKind.USER_TURN
A, B = np.array([1, 0], dtype=np.float32), np.array([0, 1], dtype=np.float32)
NEAR_A = np.array([0.95, np.sqrt(1 - 0.95**2)], dtype=np.float32)


def state(*views: tuple[ViewKind, int, np.ndarray]) -> Views:
    return Views(np.array([v[2] for v in views]), tuple(v[0] for v in views), tuple(v[1] for v in views))


def test_a_turn_matches_any_user_turn_and_the_latest_of_equals_is_named() -> None:
    pin = PinState("p", None, A)
    assert pin_match(pin, state((TURN, 0, A), (TURN, 1, A), (TURN, 2, B), (CUM, 2, A))) == (True, 1.0, TURN, 1)


def test_a_prefix_matches_the_prefix_of_the_state_alone() -> None:
    pin = PinState("p", A, None)
    assert pin_match(pin, state((TURN, 0, A), (CUM, 0, A), (TURN, 1, B), (CUM, 1, B))) == (False, 0.0, CUM, 1)
    assert pin_match(pin, state((TURN, 0, B), (CUM, 0, NEAR_A))) == (True, 0.95, CUM, 0)


def test_the_bound_is_reached_by_being_equal() -> None:
    match = state((TURN, 0, NEAR_A))
    assert pin_match(PinState("p", None, A, bound=0.95), match)[0]
    assert not pin_match(PinState("p", None, A, bound=0.950001), match)[0]
    third = np.full(3, 1 / np.sqrt(3), dtype=np.float32)  # its float32 square is not quite 1
    assert pin_match(PinState("p", None, third, bound=1.0), state((TURN, 0, third)))[0]


def test_the_best_of_both_sides_is_told() -> None:
    pin = PinState("p", A, B)
    assert pin_match(pin, state((TURN, 0, B), (CUM, 0, A))) == (True, 1.0, TURN, 0)
    assert pin_match(pin, state((TURN, 0, A), (CUM, 0, NEAR_A))) == (True, 0.95, CUM, 0)


def test_nothing_to_compare() -> None:
    assert pin_match(PinState("p", A, None), state((TURN, 0, A))) == (False, -1.0, None, None)


def test_cosines_of_many_views() -> None:
    whole, turns = pin_cosines(PinState("p", A, None), np.array([A, B]), np.array([A]))
    assert whole.tolist() == [1.0, 0.0]
    assert turns.tolist() == [-1.0]
    assert pin_cosines(PinState("p", A, None), None, np.array([A]))[0].shape == (0,)


def test_bad_pins() -> None:
    with pytest.raises(ScoringError, match="no vector"):
        PinState("p", None, None)
    for bound in (0.0, 1.1, float("nan")):
        with pytest.raises(ScoringError, match="bound"):
            PinState("p", A, None, bound=bound)
