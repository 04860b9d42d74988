"""Opening a bundle file (format and history: `sq_core.bundle_file`): mapped into memory, checked whole, read lazily.

What decides is arrays straight from the file; the record of an artifact is parsed when that artifact is asked for.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sq_core.artifact import Artifact, ArtifactTable, Columns, ExemplarTerm, Mode
from sq_core.bundle import Bundle, BundleError, OperatingPoint
from sq_core.bundle_file import DIGEST_BYTES, FORMAT_VERSION, HEADER, MAGIC
from sq_core.classifier import Classifier, Polarity
from sq_core.conversation import RENDERER_VERSION
from sq_core.embedding import Centre
from sq_core.expiry import Expiry
from sq_core.pins import PinState
from sq_core.scoring import Pooling, Vectors
from sq_core.session import Rendering


def read_bundle(path: Path) -> Bundle:
    """Map and check a file that `write_bundle` wrote. Raises `BundleError` saying what is wrong with it; OSError when
    it is away.
    """
    with path.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:  # nothing cannot be mapped
            return bundle_from_bytes(b"", str(path))
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return bundle_from_bytes(mapped, str(path))


def bundle_from_bytes(data: bytes | mmap.mmap, name: str) -> Bundle:
    """The bundle in `data`, whose arrays it keeps using; `name` is for messages. Raises `BundleError`."""
    manifest, body = _opened(memoryview(data), name)
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)  # the checksum touched every page; only those that are read again need to stay
    try:
        if manifest["renderer"]["version"] != RENDERER_VERSION:
            version = manifest["renderer"]["version"]
            raise BundleError(f"{name}: made for renderer {version}, this program has {RENDERER_VERSION}; update it")
        return _bundle(manifest, _Body(manifest, body, name), name)
    except BundleError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BundleError(
            f"{name}: its manifest cannot be read ({type(error).__name__}: {error}); export it again"
        ) from error


def _opened(data: memoryview, name: str) -> tuple[dict[str, Any], memoryview]:
    """Manifest and body of a file that is whole and unaltered."""
    if bytes(data[: len(MAGIC)]) != MAGIC[: len(data)] or not data:
        raise BundleError(f"{name}: not a bundle; it does not begin with {MAGIC.decode()}")
    if len(data) < HEADER.size:
        raise BundleError(f"{name}: truncated after {len(data)} bytes; copy or export it again")
    _, version, length = HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        mend = "export it again" if version < FORMAT_VERSION else "update this program"
        raise BundleError(f"{name}: format {version}, this program reads format {FORMAT_VERSION}; {mend}")
    if len(data) < HEADER.size + length + DIGEST_BYTES:
        raise BundleError(f"{name}: truncated after {len(data)} bytes; copy or export it again")
    if hashlib.sha256(data[:-DIGEST_BYTES]).digest() != data[-DIGEST_BYTES:]:
        raise BundleError(f"{name}: truncated or altered, its checksum does not match; copy or export it again")
    manifest = json.loads(bytes(data[HEADER.size : HEADER.size + length]))
    return manifest, data[HEADER.size + length : -DIGEST_BYTES]


class _Body:
    """The arrays after the manifest, views of the file, and its records by place."""

    def __init__(self, manifest: Mapping[str, Any], body: memoryview, name: str) -> None:
        self._body, self._at, self.name = body, 0, name
        dimension, fitted = int(manifest["encoder"]["dimension"]), len(manifest["fitted"])
        self.centre = self._take("<f8", dimension).astype(np.float64)
        self.biases, self.offsets = self._take("<f8", fitted), self._take("<f8", fitted)
        self._ends = self._take("<u8", len(manifest["keys"]))
        self.weights = self._take("<f4", fitted, dimension)
        self.vectors = self._take("<f4", int(manifest["vectors"]), dimension)
        self._records = body[self._at :]
        if (int(self._ends[-1]) if len(self._ends) else 0) != len(self._records):
            raise self._disagree()

    def _take(self, kind: str, *shape: int) -> NDArray[Any]:
        count = int(np.prod(shape))
        size = count * np.dtype(kind).itemsize
        if min(shape) < 0 or self._at + size > len(self._body):
            raise self._disagree()
        taken = np.frombuffer(self._body, dtype=kind, count=count, offset=self._at).reshape(shape)
        self._at += size
        return taken

    def _disagree(self) -> BundleError:
        return BundleError(
            f"{self.name}: its manifest and its {len(self._body)} bytes of content disagree; export it again"
        )

    def record(self, place: int) -> dict[str, Any]:
        """The JSON of the artifact at `place`."""
        start = int(self._ends[place - 1]) if place else 0
        found: dict[str, Any] = json.loads(bytes(self._records[start : int(self._ends[place])]))
        return found


def _bundle(manifest: Mapping[str, Any], body: _Body, name: str) -> Bundle:
    point, renderer = manifest["operating_point"], manifest["renderer"]
    centre = Centre.from_bytes(body.centre.astype("<f8").tobytes())
    if centre.digest != manifest["centre"]["digest"]:
        raise BundleError(f"{name}: its centre is {centre.digest}, not the one its weights were fitted around")
    return Bundle(
        encoder_id=manifest["encoder"]["id"],
        centre=centre,
        operating_point=OperatingPoint(
            theta=point["theta"],
            pooling=Pooling.from_json(point["pooling"]),
            expiry=Expiry.from_json(point["expiry"]),
            target_recall=point["target_recall"],
            calibrated=point["calibrated"],
        ),
        artifacts=_table(manifest, body),
        release=manifest["release"],
        inventory=manifest["inventory"],
        rendering=Rendering(renderer["tool_results"], renderer["user_only"]),
        metadata=manifest["metadata"],
    )


def _table(manifest: Mapping[str, Any], body: _Body) -> ArtifactTable:
    keys: list[str] = manifest["keys"]
    fitted: list[int] = manifest["fitted"]
    if not len(keys) == len(manifest["modes"]) == len(manifest["versions"]):
        raise ValueError(f"{len(keys)} keys, {len(manifest['modes'])} modes, {len(manifest['versions'])} versions")
    if fitted and not (fitted[0] >= 0 and fitted[-1] < len(keys) and all(a < b for a, b in pairwise(fitted))):
        raise ValueError("the places of its classifiers are not ascending places of artifacts")
    bad = np.flatnonzero(~_finite_rows(body))
    if bad.size:
        raise BundleError(
            f"{body.name}: weights of artifact {keys[fitted[int(bad[0])]]} hold NaN or infinity; refit it"
        )
    modes = {mode.value: mode for mode in Mode}
    first = {place: body.record(place) for place in manifest["read_first"]}
    places = np.array(fitted, dtype=np.intp)
    columns = Columns(
        keys=tuple(keys),
        modes=tuple(modes[mode] for mode in manifest["modes"]),
        versions=tuple(manifest["versions"]),
        fitted=places,
        weights=body.weights,
        biases=body.biases,
        offsets=body.offsets,
        pins={c: pins for p, r in first.items() if (c := _column(places, p)) >= 0 and (pins := _pins(r, body.vectors))},
        links={keys[p]: links for p, r in first.items() if (links := (*r["requires"], *r["entails"]))},
    )
    return ArtifactTable(columns, partial(_artifact, columns, body))


def _column(fitted: NDArray[np.intp], place: int) -> int:
    """Which of the ascending places `fitted` this one is; -1 when it is none of them."""
    column = int(np.searchsorted(fitted, place))
    return column if column < len(fitted) and fitted[column] == place else -1


def _finite_rows(body: _Body) -> NDArray[np.bool_]:
    """Which classifiers (F,) have finite numbers only."""
    # Float64 sums of float32 squares cannot overflow: the norm is finite exactly where every weight is.
    norms = np.einsum("nd,nd->n", body.weights, body.weights, dtype=np.float64)
    finite: NDArray[np.bool_] = np.isfinite(norms) & np.isfinite(body.biases) & np.isfinite(body.offsets)
    return finite


def _artifact(columns: Columns, body: _Body, place: int) -> Artifact:
    """The whole record of the artifact at `place`. Raises `BundleError` when its weights are not those it names."""
    key, column = columns.keys[place], _column(columns.fitted, place)
    try:
        record = body.record(place)
        classifier = None
        if column >= 0:
            numbers = float(columns.biases[column]), float(columns.offsets[column])
            classifier = Classifier(columns.weights[column], *numbers)
            if classifier.weight_hash != record["weight_hash"]:
                raise BundleError(f"artifact {key}: its weights are not those its record names; export it again")
        return Artifact(
            key=key,
            name=record["name"],
            text=record["text"],
            kind=record["kind"],
            mode=columns.modes[place],
            classifier=classifier,
            version=columns.versions[place],
            pins=_pins(record, body.vectors),
            requires=tuple(record["requires"]),
            entails=tuple(record["entails"]),
            metadata=record["metadata"],
            exemplars=_exemplars(record.get("exemplars"), body.vectors),
        )
    except BundleError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise BundleError(f"{body.name}: the record of {key} cannot be read ({what}); export it again") from error


def _pins(record: Mapping[str, Any], vectors: Vectors) -> tuple[PinState, ...]:
    return tuple(
        PinState(pin["id"], _row(vectors, pin["cumulative"]), _row(vectors, pin["turn"]), pin["bound"])
        for pin in record["pins"]
    )


def _exemplars(records: Sequence[Mapping[str, Any]] | None, vectors: Vectors) -> tuple[ExemplarTerm, ...] | None:
    if records is None:
        return None
    return tuple(
        ExemplarTerm(e["id"], e["text"], Polarity(e["polarity"]), e["alpha"], vectors[e["vector"]]) for e in records
    )


def _row(vectors: Vectors, number: int | None) -> Vectors | None:
    return None if number is None else vectors[number]
