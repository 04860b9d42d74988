"""Vectors that mean nothing, for load tests: each word has a fixed random direction, a text is their normalised sum.

Made to be told apart from a real encoder by its identity, and to be fast: hundreds of thousands of texts in a minute.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sq_core.embedding import Vectors

VERSION = 1  # 1: words of letters, float64 sums in the words' order
DIMENSION = 384
_WORD = re.compile(r"[^\W\d_]+")  # digits carry no meaning: a reference number must not move a vector
_KEPT = 60_000  # directions held; the words of one inventory are far fewer


class Synthetic:
    """Deterministic over processes and machines, and row by row: a vector does not depend on its batch neighbours."""

    def __init__(self, seed: int, dimension: int = DIMENSION) -> None:
        if seed < 0 or not 2 <= dimension <= 4_096:
            raise ValueError(f"seed {seed}, dimension {dimension}; expected 0 or more, and 2 to 4096")
        self._seed, self._dimension = seed, dimension
        self._rows: dict[str, NDArray[np.float32]] = {}

    @property
    def id(self) -> str:
        return f"synthetic:unit-vectors/{VERSION}:seed={self._seed}:dim={self._dimension}"

    @property
    def dimension(self) -> int:
        return self._dimension

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            words = _WORD.findall(text.casefold()) or [""]
            total = np.array([self._direction(word) for word in words]).sum(axis=0, dtype=np.float64)
            norm = float(np.sqrt(np.vecdot(total, total)))
            rows[row] = total / norm if norm else self._direction("")
        return rows

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)

    def _direction(self, word: str) -> NDArray[np.float32]:
        found = self._rows.get(word)
        if found is None:
            digest = hashlib.sha256(f"{self._seed}\0{word}".encode()).digest()
            numbers = np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(self._dimension)
            found = (numbers / np.sqrt(np.vecdot(numbers, numbers))).astype(np.float32)
            if len(self._rows) < _KEPT:
                self._rows[word] = found
        return found
