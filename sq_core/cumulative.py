"""Cumulative modes: what becomes of a prefix that is longer than the encoder's window (paper 2.1, Algorithm 2).

* ``tail``: only the last window counts.
* ``whole``: the mean of the normalised vectors of all windows, normalised again; nothing is left out.
* ``user-cumulative``: the prefix holds the user's messages alone, as Algorithm 2 may be read, and its tail counts.

The mode is the part ``cumulative-MODE`` of an encoder's id, so vectors, centres and classifiers of two modes never meet.
A text that fits into one window has the same vector in all three.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sq_core.embedding import NO_DIRECTION

CumulativeMode = Literal["tail", "whole", "user-cumulative"]
MODES: tuple[CumulativeMode, ...] = get_args(CumulativeMode)
_IN_ID = re.compile(r":cumulative-([a-z-]+)(?::|$)")

Item = TypeVar("Item")


def checked_mode(mode: str) -> CumulativeMode:
    """`mode` itself. Raises ValueError for another word."""
    for known in MODES:
        if mode == known:
            return known
    raise ValueError(f"cumulative is one of {', '.join(MODES)}, got {mode!r}")


def cumulative_mode(encoder_id: str) -> CumulativeMode:
    """The mode an encoder's id names; ``tail`` for one that names none, and for one that keeps the head."""
    found = _IN_ID.search(encoder_id)
    return next((mode for mode in MODES if found and found.group(1) == mode), "tail")


def windows(items: Sequence[Item], size: int, *, from_end: bool = True) -> list[Sequence[Item]]:
    """`items` in order, cut into windows of `size`; the odd one is the first, or without `from_end` the last.

    From the end, the last window is what ``tail`` keeps. No items give one empty window.
    """
    if not items:
        return [items]
    if not from_end:
        return [items[start : start + size] for start in range(0, len(items), size)]
    return [items[max(0, end - size) : end] for end in range(len(items), 0, -size)][::-1]


def byte_windows(data: bytes, size: int) -> list[bytes]:
    """UTF-8 `data` cut from its end into windows of at most `size` bytes, characters whole (as far as one fits)."""
    parts: list[bytes] = []
    end = len(data)
    while end > size:
        start = end - size
        while start < end - 1 and data[start] & 0xC0 == 0x80:  # inside a character: begin with the next
            start += 1
        parts.append(data[start:end])
        end = start
    return [data[:end], *parts[::-1]]


def mean_of_windows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the unit vectors (w, d) of a text's windows, normalised again (d,); of one window that vector itself.

    Windows that cancel out have no direction; then the last counts alone, as under ``tail``.
    """
    if len(vectors) > 1:
        mean = vectors.mean(axis=0)
        norm = float(np.sqrt((mean * mean).sum()))
        if norm > NO_DIRECTION:
            return np.asarray(mean / norm)
    last: NDArray[np.float64] = vectors[-1]
    return last
