"""The artifacts of a release: the record of each, and all of them as the columns that scoring and deciding read.

An inventory of 10,000 is opened as columns; a record is built when somebody asks for that one artifact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from sq_core.classifier import Classifier, Polarity
from sq_core.pins import PinState
from sq_core.scoring import Float, Vectors


class Mode(StrEnum):
    """An artifact is filtered, never filtered, or never used."""

    AUTO = "auto"
    ALWAYS = "always"
    OFF = "off"


@dataclass(frozen=True, slots=True, eq=False)
class ExemplarTerm:
    """One exemplar a version was fitted on: its alpha and its centred unit vector (d,)."""

    id: str
    text: str
    polarity: Polarity
    alpha: float
    vector: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Artifact:
    """One artifact of a release: its text, its mode and what decides for it.

    `version` is the number of its classifier version; `metadata` (JSON) travels with it: C, tolerance, exemplar
    digests.
    """

    key: str
    name: str
    text: str
    kind: str = "policy"
    mode: Mode = Mode.AUTO
    classifier: Classifier | None = None
    version: int | None = None
    pins: tuple[PinState, ...] = ()
    requires: tuple[str, ...] = ()
    entails: tuple[str, ...] = ()
    exemplars: tuple[ExemplarTerm, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def links(self) -> tuple[str, ...]:
        """What it pulls in beside it when it fires."""
        return self.requires + self.entails


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What a decision reads of N artifacts, F of them with a classifier.

    keys, modes, versions (N,); fitted (F,): the places of those with a classifier, ascending; weights (F, d) float32,
    biases and offsets (F,) float64; pins by column (0 … F-1); links by key, only where there are any.
    """

    keys: tuple[str, ...]
    modes: tuple[Mode, ...]
    versions: tuple[int | None, ...]
    fitted: NDArray[np.intp]
    weights: Vectors
    biases: Float
    offsets: Float
    pins: Mapping[int, tuple[PinState, ...]]
    links: Mapping[str, tuple[str, ...]]


class ArtifactTable(Sequence[Artifact]):
    """The artifacts in order, each built by `record` when it is asked for, and their `columns`."""

    def __init__(self, columns: Columns, record: Callable[[int], Artifact]) -> None:
        self.columns, self._record = columns, record

    @classmethod
    def of(cls, artifacts: Sequence[Artifact], dimension: int) -> Self:
        """From records that are there already, vectors of `dimension`."""
        places = [place for place, artifact in enumerate(artifacts) if artifact.classifier is not None]
        fitted = [(artifacts[place], classifier) for place in places if (classifier := artifacts[place].classifier)]
        columns = Columns(
            keys=tuple(artifact.key for artifact in artifacts),
            modes=tuple(artifact.mode for artifact in artifacts),
            versions=tuple(artifact.version for artifact in artifacts),
            fitted=np.array(places, dtype=np.intp),
            weights=np.array([c.weights for _, c in fitted], dtype=np.float32).reshape(len(fitted), dimension),
            biases=np.array([c.bias for _, c in fitted], dtype=np.float64),
            offsets=np.array([c.offset for _, c in fitted], dtype=np.float64),
            pins={column: artifact.pins for column, (artifact, _) in enumerate(fitted) if artifact.pins},
            links={artifact.key: artifact.links for artifact in artifacts if artifact.links},
        )
        return cls(columns, artifacts.__getitem__)

    def __len__(self) -> int:
        return len(self.columns.keys)

    @overload
    def __getitem__(self, place: int) -> Artifact: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Artifact, ...]: ...

    def __getitem__(self, place: int | slice) -> Artifact | tuple[Artifact, ...]:
        if isinstance(place, slice):
            return tuple(self._record(each) for each in range(len(self))[place])
        return self._record(range(len(self))[place])

    def __iter__(self) -> Iterator[Artifact]:
        return map(self._record, range(len(self)))
