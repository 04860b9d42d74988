"""One artifact's fitted classifier and the words for what it is fitted on and applied to (paper §2.1, §2.2)."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sq_core.fitting import Fit


class ViewKind(StrEnum):
    """What a query state is scored on: the whole rendered prefix, or one user message."""

    CUMULATIVE = "cumulative"
    USER_TURN = "user_turn"


class Polarity(StrEnum):
    """Whether an exemplar should activate its artifact or is a near-miss that should not."""

    SIGNAL = "signal"
    ANTI_SIGNAL = "anti_signal"


class ClassifierError(ValueError):
    """Weights, bias or offset that no classifier can have."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """Weights (d,) float32, bias and offset of one version; it fires where ``w·q + b > theta + offset``.

    The weights are copied, checked to be finite and made read-only: a version never changes.
    """

    weights: NDArray[np.float32]
    bias: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        # `<f4` whatever the machine, so that the bytes, and with them the hash, are the same everywhere.
        weights = np.array(self.weights, dtype="<f4", order="C")
        if weights.ndim != 1 or weights.size == 0:
            raise ClassifierError(f"weights have shape {weights.shape}; expected one row of at least one number (d,)")
        if not np.isfinite(weights).all():
            raise ClassifierError("weights hold NaN or infinity; refit the artifact")
        for name, value in (("bias", self.bias), ("offset", self.offset)):
            if not math.isfinite(value):
                raise ClassifierError(f"{name} is {value!r}; expected a finite number")
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "bias", float(self.bias))
        object.__setattr__(self, "offset", float(self.offset))

    @property
    def dimension(self) -> int:
        """Number of weights, d."""
        return int(self.weights.shape[0])

    @classmethod
    def from_fit(cls, fit: Fit, offset: float = 0.0) -> Self:
        """The stored form of a fit: its float64 weights rounded to float32, its bias kept whole."""
        return cls(weights=fit.weights.astype(np.float32), bias=fit.bias, offset=offset)

    def to_bytes(self) -> bytes:
        """The weights as little-endian float32; bias and offset are stored beside them."""
        return self.weights.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, bias: float, offset: float = 0.0) -> Self:
        """Read back what ``to_bytes`` wrote. Raises ClassifierError when the length is no multiple of four."""
        if len(data) == 0 or len(data) % 4:
            raise ClassifierError(f"{len(data)} bytes of weights; expected a positive multiple of 4 (float32)")
        return cls(weights=np.frombuffer(data, dtype="<f4"), bias=bias, offset=offset)

    @property
    def weight_hash(self) -> str:
        """sha256 (hex) over the weights' bytes and ``repr(bias)``: equal exactly when both are bit for bit equal."""
        return hashlib.sha256(self.to_bytes() + repr(self.bias).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Classifier):
            return NotImplemented
        return (self.to_bytes(), self.bias, self.offset) == (other.to_bytes(), other.bias, other.offset)

    def __hash__(self) -> int:
        return hash((self.to_bytes(), self.bias, self.offset))
