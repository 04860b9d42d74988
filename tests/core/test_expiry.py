"""Expiry solved by hand, and against a plain reading of its rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sq_core.expiry import NEVER, Expiry, ExpiryError, replay


def flags(*rows: str) -> np.ndarray:
    """One row per artifact as text, "1" where set; as (turns, artifacts)."""
    return np.array([[mark == "1" for mark in row] for row in rows]).T


def marks(array: np.ndarray) -> list[str]:
    return ["".join("1" if flag else "." for flag in column) for column in array.T]


def test_an_artifact_expires_once_k_others_have_newly_fired_and_returns_on_its_own_turn() -> None:
    # a's turn is 0 and 4, b's 1, c's 2; each holds from its first turn on
    run = replay(flags("11111", "01111", "00111"), flags("10001", "01000", "00100"), Expiry(others=2))
    # at turn 4 a's return is the second other for b, after c
    assert marks(run.active) == ["11..1", ".111.", "..111"]
    assert marks(run.expired) == ["..11.", "....1", "....."]
    assert run.since.T.tolist() == [[0, 0, NEVER, NEVER, 4], [NEVER, 1, 1, 1, NEVER], [NEVER, NEVER, 2, 2, 2]]


def test_a_return_counts_as_newly_fired_for_the_others() -> None:
    run = replay(flags("1111", "0111"), flags("1001", "0100"), Expiry(others=1))
    assert marks(run.active) == ["1..1", ".11."]


def test_both_firing_at_once_do_not_expire_each_other() -> None:
    run = replay(flags("11", "11"), flags("10", "10"), Expiry(others=1))
    assert marks(run.active) == ["11", "11"]


def test_turns_without_evidence() -> None:
    run = replay(flags("111111"), flags("100100"), Expiry(turns=2))
    assert marks(run.active) == ["11.11."]


def test_the_prefix_admits_once_but_never_again() -> None:
    # holds by its cumulative view alone, at every turn
    run = replay(flags("01111"), flags("00000"), Expiry(turns=2))
    assert marks(run.active) == [".11.."]
    assert marks(run.expired) == ["...11"]


def test_what_stops_holding_is_not_fired_and_not_expired() -> None:
    run = replay(flags("1011"), flags("0000"), Expiry(turns=2))
    assert marks(run.active) == ["1.11"]
    assert marks(run.expired) == ["...."]
    assert run.since.T.tolist() == [[0, NEVER, 2, 2]]


def test_without_a_rule_what_holds_is_active() -> None:
    holds = flags("1011", "0111")
    run = replay(holds, ~holds, Expiry())
    assert (run.active == holds).all()
    assert not Expiry().on
    assert Expiry(turns=1).on


def naive(holds: np.ndarray, evidence: np.ndarray, expiry: Expiry) -> np.ndarray:
    """The rules of the module's docstring, one artifact and one turn at a time, from lists of events."""
    turns, count = holds.shape
    active = np.zeros_like(holds)
    fired_at: list[tuple[int, int]] = []
    last = [-1] * count
    expired = [False] * count
    for turn in range(turns):
        for a in range(count):
            fresh = holds[turn, a] and evidence[turn, a]
            on = holds[turn, a] and (fresh or not expired[a])
            if on and not (turn > 0 and active[turn - 1, a]):
                fired_at.append((turn, a))
                last[a] = turn
            if fresh:
                last[a], expired[a] = turn, False
            active[turn, a] = on
        for a in range(count):
            if not active[turn, a]:
                continue
            others = sum(1 for when, who in fired_at if who != a and when > last[a])
            by_others = expiry.others is not None and others >= expiry.others
            if by_others or (expiry.turns is not None and turn - last[a] >= expiry.turns):
                expired[a], active[turn, a] = True, False
    return active


SHAPES = st.tuples(st.integers(1, 8), st.integers(1, 5))
LIMITS = st.none() | st.integers(1, 3)


@given(SHAPES.flatmap(lambda s: st.tuples(arrays(bool, s), arrays(bool, s))), LIMITS, LIMITS)
def test_replay_is_the_plain_reading(
    both: tuple[np.ndarray, np.ndarray], others: int | None, turns: int | None
) -> None:
    holds, evidence = both
    expiry = Expiry(others, turns)
    run = replay(holds, evidence, expiry)
    assert (run.active == naive(holds, evidence, expiry)).all()
    assert not (run.active & ~holds).any()
    assert not (run.expired & run.active).any()
    assert ((run.since == NEVER) == ~run.active).all()
    # never drops what has new evidence
    assert (run.active | ~(holds & evidence)).all()
    # causal: later turns change nothing earlier
    half = max(1, len(holds) // 2)
    assert (replay(holds[:half], evidence[:half], expiry).active == run.active[:half]).all()


def test_json_round_trip_and_bad_rules() -> None:
    assert Expiry.from_json(Expiry(3, None).to_json()) == Expiry(3, None)
    assert Expiry.from_json({}) == Expiry()
    for bad in ({"others": 0}, {"turns": 1.5}, {"others": True}, {"k": 3}):
        with pytest.raises(ExpiryError, match="expect"):
            Expiry.from_json(bad)


def test_shapes_must_match() -> None:
    with pytest.raises(ExpiryError, match="turns, artifacts"):
        replay(np.zeros((2, 1), bool), np.zeros((1, 1), bool), Expiry())
