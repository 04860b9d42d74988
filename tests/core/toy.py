"""A world small enough to solve by hand: three axes, an encoder that looks texts up, artifacts that read one axis."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sq_core.bundle import Artifact, Bundle, ExemplarTerm, Mode, OperatingPoint
from sq_core.classifier import Classifier, Polarity
from sq_core.embedding import Centre, EncoderUnavailable

X, Y, NEUTRAL = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


class ToyEncoder:
    """Texts made of the words x and y get their axes, every other text and every prefix the neutral one, unless given."""

    dimension = 3

    def __init__(self, given: Mapping[str, Sequence[float]] | None = None, id: str = "toy") -> None:  # noqa: A002
        self.id, self.given = id, dict(given or {})
        self.encoded: list[str] = []
        self.away = False

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.away:
            raise EncoderUnavailable("toy encoder: away")
        self.encoded += texts
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 3)

    def vector(self, text: str) -> Sequence[float]:
        if text in self.given:
            return self.given[text]
        if ":" in text:
            return NEUTRAL
        axes = [axis for word, axis in (("x", X), ("y", Y)) if word in text.split()]
        total = np.sum(axes or [NEUTRAL], axis=0)
        return list(total / np.linalg.norm(total))

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        return [False] * len(texts)


def centre_at(vector: Sequence[float] = (0.0, 0.0, 0.0)) -> Centre:
    data = np.array(vector, dtype="<f8").tobytes()
    return Centre(np.array(vector), hashlib.sha256(data).hexdigest())


def artifact(
    key: str, weights: Sequence[float] | None = None, bias: float = -0.5, offset: float = 0.0, **more: object
) -> Artifact:
    classifier = None if weights is None else Classifier(np.array(weights, dtype=np.float32), bias, offset)
    version = None if weights is None else 1
    return Artifact(key, key.title(), f"The {key} text.", classifier=classifier, version=version, **more)  # type: ignore[arg-type]


ON_X, ON_Y = artifact("on-x", X), artifact("on-y", Y)


def bundle(
    *artifacts: Artifact, point: OperatingPoint | None = None, encoder: ToyEncoder | None = None, **more: object
) -> Bundle:
    return Bundle(
        encoder_id="toy",
        centre=centre_at(),
        operating_point=point or OperatingPoint(),
        artifacts=artifacts or (ON_X, ON_Y),
        encoder=encoder or ToyEncoder(),
        **more,  # type: ignore[arg-type]
    )


def said(*texts: str) -> list[dict[str, str]]:
    """User messages, each answered, the last one open."""
    messages = []
    for text in texts:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
    return messages[:-1]


def exemplars(*vectors: Sequence[float], alphas: Sequence[float]) -> tuple[ExemplarTerm, ...]:
    sides = (Polarity.SIGNAL if alpha > 0 else Polarity.ANTI_SIGNAL for alpha in alphas)
    return tuple(
        ExemplarTerm(f"e{i}", f"text {i}", side, alpha, np.array(vector, dtype=np.float32))
        for i, (vector, alpha, side) in enumerate(zip(vectors, alphas, sides, strict=True))
    )


__all__ = [
    "NEUTRAL",
    "ON_X",
    "ON_Y",
    "Mode",
    "ToyEncoder",
    "X",
    "Y",
    "artifact",
    "bundle",
    "centre_at",
    "exemplars",
    "said",
]
