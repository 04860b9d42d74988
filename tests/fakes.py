"""Stand-ins for what a test must not depend on; each is held against the real thing's protocol in test_fakes.py."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sq_core.embedding import EncoderUnavailable, Vectors

_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    "a an and any are at be but by can could do for from get got have hello hi how i in is it me my of on or our please so "
    "that the them then there this to us user assistant want was we what when will with would you your".split()
)


@lru_cache(maxsize=10_000)
def _direction(word: str, dimension: int) -> Vectors:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)


class FakeEncoder:
    """Texts that share words are near: each word has a fixed random direction, a text is their normalised sum.

    Deterministic over processes and machines, and row by row: a vector does not depend on its batch neighbours.
    ``fail_next`` makes the next calls fail as a real encoder does that is away; ``calls`` lists what was asked.
    """

    def __init__(self, dimension: int = 64, *, name: str = "fake", window: int = 256) -> None:
        self._dimension, self._name, self._window = dimension, name, window
        self.fail_next = 0
        self.calls: list[tuple[str, ...]] = []

    @property
    def id(self) -> str:
        return f"{self._name}:bag-of-words:{self._dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        if self.fail_next:
            self.fail_next -= 1
            raise EncoderUnavailable("the fake encoder was told to be away")
        self.calls.append(tuple(texts))
        rows = np.empty((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            rows[row] = self._vector(text)
        return rows

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        return [len(_WORD.findall(text)) > self._window for text in texts]

    def _vector(self, text: str) -> Vectors:
        words = _WORD.findall(text.lower())[-self._window :]  # the tail, as the product keeps it
        kept = [word for word in words if word not in _COMMON] or words or [""]
        # float64 in the words' order: the same bits on every machine
        total = np.zeros(self._dimension, dtype=np.float64)
        for word in kept:
            total += _direction(word, self._dimension)
        norm = float(np.sqrt((total * total).sum()))
        return (total / norm).astype(np.float32) if norm else _direction("", self._dimension)
