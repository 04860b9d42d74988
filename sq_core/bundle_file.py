"""The bundle file, format 2 (docs/adr/0005), and writing it; `sq_core.bundle_open` reads it.

One file, no pickle, readable with a few lines of any language.

``SQBUNDLE`` · format version (uint32) · manifest length (uint64) · manifest (UTF-8 JSON, padded with spaces so that what
follows starts at a multiple of 64) · centre (d float64) · biases (F float64) · offsets (F float64) · end of every
record (N uint64) · weights (F × d float32) · vectors of pins and exemplars (V × d float32) · records (UTF-8 JSON, one
per artifact) · sha256 of everything before (32 bytes). All numbers little-endian; N artifacts, F of them fitted.

Format history: 1, one JSON record per artifact inside the manifest, refused since 2; 2, columns and separate records.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sq_core.artifact import Artifact
from sq_core.bundle import Bundle, BundleError
from sq_core.conversation import RENDERER_VERSION
from sq_core.scoring import Vectors

MAGIC = b"SQBUNDLE"
FORMAT_VERSION = 2
HEADER = struct.Struct("<8sIQ")
DIGEST_BYTES, ALIGNMENT = 32, 64


class _Rows:
    """The vectors of pins and exemplars, handed out as row numbers."""

    def __init__(self) -> None:
        self.rows: list[Vectors] = []

    def add(self, vector: Vectors | None) -> int | None:
        """The row of `vector`; None for none."""
        if vector is None:
            return None
        self.rows.append(vector)
        return len(self.rows) - 1

    def to_bytes(self) -> bytes:
        """All rows as little-endian float32."""
        return b"".join(np.asarray(row, dtype="<f4").tobytes() for row in self.rows)


def write_bundle(bundle: Bundle, path: Path, *, with_exemplars: bool = False) -> None:
    """Write `bundle` to `path`, replacing what is there only once the whole file is on disk.

    A program that has the old file open keeps reading the old one: a new file takes its name, its bytes are untouched.
    """
    data = bundle_bytes(bundle, with_exemplars=with_exemplars)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)  # mkstemp's 0600 is for secrets; a bundle is read by other processes
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def bundle_bytes(bundle: Bundle, *, with_exemplars: bool = False) -> bytes:
    """The file's bytes: the same for the same bundle, so its hash can serve as an ETag."""
    rows = _Rows()
    artifacts, columns, point = tuple(bundle.artifacts), bundle.columns, bundle.operating_point
    manifest = {
        "format": FORMAT_VERSION,
        "inventory": bundle.inventory,
        "release": bundle.release,
        "encoder": {"id": bundle.encoder_id, "dimension": bundle.dimension},
        "centre": {"digest": bundle.centre.digest},
        "renderer": {
            "version": RENDERER_VERSION,
            "tool_results": bundle.rendering.tool_results,
            "user_only": bundle.rendering.user_only,
        },
        "operating_point": {
            "theta": point.theta,
            "pooling": point.pooling.to_json(),
            "expiry": point.expiry.to_json(),
            "target_recall": point.target_recall,
            "calibrated": point.calibrated,
        },
        "keys": columns.keys,
        "modes": columns.modes,
        "versions": columns.versions,
        "fitted": columns.fitted.tolist(),
        # Pins and dependencies take part in every decision: these records are read on opening.
        "read_first": [place for place, artifact in enumerate(artifacts) if artifact.pins or artifact.links],
        "metadata": bundle.metadata,
    }
    records = [_json(_artifact_record(artifact, rows, with_exemplars)) for artifact in artifacts]
    encoded = _json(manifest | {"vectors": len(rows.rows)})
    encoded += b" " * (-(HEADER.size + len(encoded)) % ALIGNMENT)
    body = b"".join(
        (
            HEADER.pack(MAGIC, FORMAT_VERSION, len(encoded)),
            encoded,
            bundle.centre.to_bytes(),
            columns.biases.astype("<f8").tobytes(),
            columns.offsets.astype("<f8").tobytes(),
            np.cumsum([len(record) for record in records], dtype="<u8").tobytes(),
            np.asarray(columns.weights, dtype="<f4").tobytes(),
            rows.to_bytes(),
            *records,
        )
    )
    return body + hashlib.sha256(body).digest()


def _json(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError) as error:
        raise BundleError(f"this bundle cannot be written as JSON: {error}; check its metadata") from None


def _artifact_record(artifact: Artifact, rows: _Rows, with_exemplars: bool) -> dict[str, Any]:
    """What no decision needs, and pins and dependencies."""
    record: dict[str, Any] = {
        "name": artifact.name,
        "text": artifact.text,
        "kind": artifact.kind,
        "requires": artifact.requires,
        "entails": artifact.entails,
        "metadata": dict(artifact.metadata),
        "pins": [
            {"id": pin.id, "bound": pin.bound, "cumulative": rows.add(pin.cumulative), "turn": rows.add(pin.turn)}
            for pin in artifact.pins
        ],
    }
    if artifact.classifier is not None:
        record["weight_hash"] = artifact.classifier.weight_hash
    if with_exemplars and artifact.exemplars is not None:
        record["exemplars"] = [
            {"id": e.id, "text": e.text, "polarity": e.polarity.value, "alpha": e.alpha, "vector": rows.add(e.vector)}
            for e in artifact.exemplars
        ]
    return record
