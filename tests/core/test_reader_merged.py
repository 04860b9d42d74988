"""Histories of one session joined: what both end and begin with is there once, in a time that grows with the messages."""

import time

import hypothesis.strategies as st
from hypothesis import given

from sq_core.readers.chat import Json, merged


def said(words: str) -> list[Json]:
    return [{"role": "system" if word == "s" else "user", "content": word} for word in words]


def plainly(known: str, fresh: str) -> str:
    """The same on letters, told step by step; "s" is a message of the system."""
    if not known:
        return fresh
    old, new = known.replace("s", ""), fresh.replace("s", "")
    if old[: len(new)] == new:
        return known
    if new[: len(old)] == old:
        return known + new[len(old) :]
    overlap = next((n for n in range(min(len(old), len(new)), 0, -1) if old[-n:] == new[:n]), 0)
    return known + new[overlap:]


@given(st.text("abs", max_size=12), st.text("abs", max_size=12))
def test_merged(known: str, fresh: str) -> None:
    assert merged(said(known), said(fresh)) == said(plainly(known, fresh))


def test_long_sessions_and_messages_that_repeat_are_joined_at_once() -> None:
    began = time.process_time()
    items: list[Json] = []
    for n in range(4_000):
        items = merged(items, [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": "fine"}])
    assert len(items) == 8_000
    assert len(merged(said("a" * 9_000 + "b"), said("a" * 9_000 + "c"))) == 18_002
    assert time.process_time() - began < 5
