"""Windows by hand, and the mode as part of an encoder's id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.cumulative import MODES, byte_windows, checked_mode, cumulative_mode, mean_of_windows, windows
from sq_core.session import Rendering
from tests.core.toy import ToyEncoder, bundle


def test_windows_by_hand() -> None:
    assert windows([1, 2, 3, 4, 5], 2) == [[1], [2, 3], [4, 5]]
    assert windows([1, 2, 3, 4, 5], 2, from_end=False) == [[1, 2], [3, 4], [5]]
    assert windows([1, 2], 2) == [[1, 2]]
    assert windows([], 2) == [[]]


@given(st.lists(st.integers(), max_size=30), st.integers(1, 7), st.booleans())
def test_windows_lose_nothing_and_the_last_is_the_tail(items: list[int], size: int, from_end: bool) -> None:
    parts = windows(items, size, from_end=from_end)
    assert [item for part in parts for item in part] == items
    assert all(len(part) <= size for part in parts)
    if from_end:
        assert parts[-1] == items[-size:]


@given(st.text(max_size=40), st.integers(4, 9))
def test_byte_windows_lose_no_character(text: str, size: int) -> None:
    parts = byte_windows(text.encode(), size)
    assert "".join(part.decode() for part in parts) == text
    assert all(len(part) <= size for part in parts)


def test_byte_windows_smaller_than_a_character_end() -> None:
    assert b"".join(byte_windows("€€".encode(), 1)) == "€€".encode()


def test_the_mean_of_windows_by_hand() -> None:
    one = np.array([[0.6, 0.8]])
    assert mean_of_windows(one) is not None
    assert mean_of_windows(one).tolist() == [0.6, 0.8]
    assert mean_of_windows(np.array([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx([0.5**0.5] * 2)
    assert mean_of_windows(np.array([[1.0, 0.0], [-1.0, 0.0]])).tolist() == [-1.0, 0.0]  # no direction: the tail


@pytest.mark.parametrize(
    ("identity", "mode"),
    [
        ("minilm:x:keep-tail:cumulative-tail", "tail"),
        ("minilm:x:keep-head:cumulative-head", "tail"),
        ("openai:m:8:host:keep-tail:cumulative-whole:probe-1", "whole"),
        ("minilm:x:cumulative-user-cumulative", "user-cumulative"),
        ("toy", "tail"),
    ],
)
def test_the_mode_is_read_from_the_id(identity: str, mode: str) -> None:
    assert cumulative_mode(identity) == mode


def test_modes_are_named() -> None:
    assert [checked_mode(mode) for mode in MODES] == ["tail", "whole", "user-cumulative"]
    with pytest.raises(ValueError, match="cumulative is one of tail, whole, user-cumulative, got 'all'"):
        checked_mode("all")


@pytest.mark.parametrize("more", [{"id": "toy:cumulative-user-cumulative"}, {"rendering": Rendering(user_only=True)}])
def test_user_cumulative_renders_the_user_alone(more: dict[str, Any]) -> None:
    encoder = ToyEncoder(id=more.pop("id", "toy"))
    one = bundle(encoder=encoder, **more)
    one.encoder_id = encoder.id
    one.discover(
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "y"}]
    )
    assert encoder.encoded[-1] == "user: x\nuser: y"
