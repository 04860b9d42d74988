"""Vectors and the centre: the one place where a text's vector becomes a unit vector around an inventory's centre.

Every vector used anywhere is `(E(x) - c) / ||E(x) - c||`, E(x) l2-normalised on entry, c the mean of the artifact texts'
vectors, not re-normalised. Everything here works row by row: a row's result is the same to the last bit whether it is
computed alone or among others, because vectors are cached by content and answers are compared byte by byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""Shape (n, d), one text per row."""

# Float32 rounding moves a unit vector by about 3e-8; a difference of two that is shorter than this has no direction.
NO_DIRECTION = 1e-6


class EncoderUnavailable(RuntimeError):
    """The encoder cannot answer: files or packages are missing, or its server is away. Says what, where and the mend."""


class DimensionMismatch(ValueError):
    """Vectors of another dimension than expected; the message names both."""


class ZeroVector(ValueError):
    """A vector without direction: E(x) = 0, or E(x) - c = 0 (a text that is alone in its inventory, say).

    `row` is the 0-based row of the first such vector.
    """

    def __init__(self, message: str, *, row: int) -> None:
        super().__init__(message)
        self.row = row


@runtime_checkable
class SelfChecking(Protocol):
    """An encoder that can tell, at little cost and without encoding, whether what it reads is whole."""

    def check(self) -> None:
        """Raise EncoderUnavailable if not."""
        ...


class Encoder(Protocol):
    """What turns texts into vectors. Implementations are safe to share between threads."""

    @property
    def id(self) -> str:
        """Stable identity; vectors, centres and versions of different ids are never mixed.

        Names the model and revision, pooling, window, truncation side and cumulative mode; for a hosted model the base
        URL's host and a digest of a probe, whose computation may need the network.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length d of every vector."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of `texts`, float32 (n, d), each row of l2 norm 1; (0, d) for no texts.

        Raises:
            EncoderUnavailable: the encoder cannot answer now.
        """
        ...

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        """For each text, whether `encode` cuts it to the encoder's window."""
        ...


def vector_key(encoder_id: str, text: str) -> str:
    """Cache key of a text's vector: hex sha256 of the encoder id, a NUL and the text, in UTF-8.

    Raises:
        UnicodeEncodeError: the text holds a lone surrogate (ingest replaces those with U+FFFD).
    """
    return hashlib.sha256(f"{encoder_id}\0{text}".encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Centre:
    """The frozen mean of an inventory's artifact-text vectors.

    `vector` is float64 (d,), read-only; `digest` is the hex sha256 of `to_bytes()`, so a stored centre can be checked
    against it without decoding. Two centres are equal when their digests are.

    Raises:
        ValueError: the vector is not one finite, non-empty row, or the digest is not that of the vector.
    """

    vector: NDArray[np.float64]
    digest: str

    def __post_init__(self) -> None:
        vector = np.array(self.vector, dtype=np.float64)  # a copy: nobody else can write to it
        if vector.ndim != 1 or vector.size == 0 or not np.isfinite(vector).all():
            raise ValueError(f"a centre is one row of finite numbers, got shape {vector.shape}")
        vector.flags.writeable = False
        object.__setattr__(self, "vector", vector)
        if self.digest != (found := hashlib.sha256(self.to_bytes()).hexdigest()):
            raise ValueError(f"the centre's digest is {found}, {self.digest} was given")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Centre) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def dimension(self) -> int:
        """Length d of the centre."""
        return int(self.vector.size)

    def to_bytes(self) -> bytes:
        """The vector as 8·d bytes, little-endian float64."""
        return self.vector.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Centre:
        """Inverse of `to_bytes`, to the last bit. ValueError for an empty or truncated string of bytes."""
        if len(data) % 8:
            raise ValueError(f"a centre has 8 bytes per dimension, got {len(data)} bytes")
        return cls(np.frombuffer(data, dtype="<f8").astype(np.float64), hashlib.sha256(data).hexdigest())


def make_centre(text_vectors: Vectors) -> Centre:
    """Mean over the rows (n, d) of l2-normalised artifact-text vectors, in float64, not re-normalised.

    Rows are l2-normalised on entry, as in `centre_and_normalise`, so that E - c is exactly 0 for the only text.

    Raises:
        ValueError: no rows, or a number that is not finite.
        ZeroVector: a row is 0.
    """
    rows = _unit_rows(text_vectors, what="E(text)")
    if len(rows) == 0:
        raise ValueError("a centre needs the vector of at least one artifact text, got none")
    mean = rows.mean(axis=0)
    return Centre(mean, hashlib.sha256(mean.astype("<f8").tobytes()).hexdigest())


def centre_and_normalise(vectors: Vectors, centre: Centre) -> Vectors:
    """(E - c) / ||E - c|| for each row E of `vectors` (n, d), float32 (n, d); computed in float64.

    Raises:
        DimensionMismatch: the rows do not have the centre's dimension.
        ZeroVector: E or E - c is 0 in a row (shorter than 1e-6, where only rounding noise is left).
        ValueError: a number that is not finite.
    """
    rows = _unit_rows(vectors, what="E")
    if rows.shape[1] != centre.dimension:
        raise DimensionMismatch(f"vectors have {rows.shape[1]} dimensions, the centre has {centre.dimension}")
    return _divide_by_norm(rows - centre.vector, what="E - c").astype(np.float32)


def _unit_rows(vectors: NDArray[np.floating], *, what: str) -> NDArray[np.float64]:
    """Finite rows of l2 norm 1 in float64, C-contiguous."""
    rows = np.ascontiguousarray(vectors, dtype=np.float64)
    if rows.ndim != 2:
        raise DimensionMismatch(f"vectors have shape (n, d), got {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"row {int(np.argmin(np.isfinite(rows).all(axis=1)))}: {what} is not finite")
    return _divide_by_norm(rows, what=what)


def _divide_by_norm(rows: NDArray[np.float64], *, what: str) -> NDArray[np.float64]:
    # Not np.linalg.norm or a product: BLAS may sum one row in another order than many.
    norms = np.sqrt((rows * rows).sum(axis=1))
    short = np.flatnonzero(norms < NO_DIRECTION)
    if short.size:
        row = int(short[0])
        raise ZeroVector(f"row {row} of {len(rows)}: {what} is 0, it has no direction", row=row)
    divided: NDArray[np.float64] = rows / norms[:, np.newaxis]
    return divided
