"""The copy rule (TRACES 2.8): candidates that stand verbatim in what the agent has read, the latest first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NOT_FOUND = -1.0


def copy_scores(observed: Sequence[str], words: Sequence[str]) -> Floats:
    """(N, n): where each candidate last begins in each row's text, case ignored; −1 where it does not occur.

    Of two that begin at the same place the longer is better, by less than one place.
    """
    small = [word.casefold() for word in words]
    longest = max(map(len, small), default=0) + 1
    known: dict[str, Floats] = {}
    for text in observed:
        if text not in known:
            low = text.casefold()
            starts = [low.rfind(word) for word in small]
            known[text] = np.array(
                [NOT_FOUND if at < 0 else at + len(w) / longest for at, w in zip(starts, small, strict=True)]
            )
    return np.stack([known[text] for text in observed]) if len(observed) else np.zeros((0, len(words)))


def copied_first(copied: Floats, others: Floats) -> Floats:
    """Copied candidates in their order, above all others; those in the order of `others` (cosines, at most 1)."""
    found: Floats = np.where(copied > NOT_FOUND, 2.0 + copied, others)
    return found
