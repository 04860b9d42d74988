"""Texts encoded once and gathered by index; histories as rows of a sparse table (TRACES 2.3).

Candidates and histories live in two stores, so that a count of one never leaks into the other. Memory is d·H + nnz for
H distinct history texts, not rows × length × d.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sq_core.causal.prefix import HistoryItem, PrefixRow
from sq_core.embedding import Encoder, Vectors, vector_key

Ints = NDArray[np.int64]
Cache = MutableMapping[str, NDArray[np.float32]]
"""vector_key(encoder id, text) -> vector (d,)."""

NORM = 1e-4
RESPONSE_CHARS = 300


class VectorError(ValueError):
    """A text without a usable vector; the message shows its first 60 characters."""


class VectorStore:
    """Distinct texts of one kind with their vectors; the encoder sees each text once, also over runs with one cache."""

    def __init__(self, encoder: Encoder, cache: Cache | None = None) -> None:
        self.encoder = encoder
        self.cut = 0  # texts longer than the encoder's window, among those it was given
        self._cache: Cache = {} if cache is None else cache
        self._place: dict[str, int] = {}
        self._rows: list[NDArray[np.float32]] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._place)

    @property
    def matrix(self) -> Vectors:
        """All vectors, float32 (n, d)."""
        return np.stack(self._rows) if self._rows else np.zeros((0, self.encoder.dimension), dtype=np.float32)

    def index(self, texts: Sequence[str]) -> Ints:
        """The row of each text, int64 (n,); new texts get the next rows in order of appearance.

        Raises:
            VectorError: a blank text, or a vector that is zero, not finite or not of length one.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._place]
        if any(not text.strip() for text in new):
            raise VectorError("a blank text has no vector")
        keys = {text: vector_key(self.encoder.id, text) for text in new}
        missing = [text for text in new if keys[text] not in self._cache]
        if missing:
            self.cut += sum(self.encoder.overflows(missing))
            for text, vector in zip(missing, self.encoder.encode(missing), strict=True):
                self._cache[keys[text]] = _checked(text, vector)
        for text in new:
            self._place[text] = len(self._rows)
            self._rows.append(_checked(text, self._cache[keys[text]]))
        return np.array([self._place[text] for text in texts], dtype=np.int64)

    def gather(self, index: Ints) -> Vectors:
        """Vectors (n, d) by row."""
        taken: Vectors = self.matrix[index]
        return taken

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Vectors (n, d) of these texts."""
        return self.gather(self.index(texts))


def _checked(text: str, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    norm = float(np.sqrt(np.sum(np.square(vector, dtype=np.float64))))
    if not np.isfinite(norm) or abs(norm - 1) > NORM:
        raise VectorError(f"the vector of {text[:60]!r} has length {norm:.6g}, expected 1")
    return vector


@dataclass(frozen=True, slots=True, eq=False)
class HistoryIndex:
    """Sparse rows: row t holds `indices[indptr[t]:indptr[t+1]]`, places in a store's matrix, oldest first.

    `ages` (nnz,) counts calls back from the action, 0 for the most recent one.
    """

    indptr: Ints
    indices: Ints
    ages: Ints

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, rows: Sequence[int] | Ints) -> HistoryIndex:
        """The histories of these rows in this order; a row may come again."""
        spans = [slice(int(self.indptr[row]), int(self.indptr[row + 1])) for row in rows]
        lengths = np.array([span.stop - span.start for span in spans], dtype=np.int64)
        empty = np.zeros(0, dtype=np.int64)
        return HistoryIndex(
            np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            np.concatenate([empty, *(self.indices[span] for span in spans)]),
            np.concatenate([empty, *(self.ages[span] for span in spans)]),
        )

    def without(self, dropped: NDArray[np.bool_]) -> HistoryIndex:
        """Without the entries marked in `dropped` (nnz,); ages stay those of the real order."""
        row = np.repeat(np.arange(len(self)), np.diff(self.indptr))[~dropped]
        counts = np.bincount(row, minlength=len(self))
        return HistoryIndex(
            np.concatenate(([0], np.cumsum(counts))).astype(np.int64), self.indices[~dropped], self.ages[~dropped]
        )


def history_text(item: HistoryItem, response_chars: int = RESPONSE_CHARS) -> str:
    """``tool arguments -> answer``, the answer's beginning; before and after its answer a call is two texts."""
    asked = f"{item.tool} {item.arguments}"
    return asked if item.response is None else f"{asked} -> {item.response[:response_chars]}"


def history_index(
    rows: Sequence[PrefixRow], store: VectorStore, *, response_chars: int = RESPONSE_CHARS
) -> HistoryIndex:
    """The rows' histories over `store`, which encodes each distinct text once."""
    texts: dict[HistoryItem, str] = {}
    for row in rows:
        for item in row.history:
            if item not in texts:
                texts[item] = history_text(item, response_chars)
    place: Mapping[HistoryItem, int] = dict(zip(texts, store.index(list(texts.values())).tolist(), strict=True))
    lengths = np.array([len(row.history) for row in rows], dtype=np.int64)
    return HistoryIndex(
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        np.array([place[item] for row in rows for item in row.history], dtype=np.int64),
        np.array([age for row in rows for age in range(len(row.history) - 1, -1, -1)], dtype=np.int64),
    )
