"""The bundle file, format 1 (docs/adr/0005): one file, no pickle, readable with a few lines of any language.

``SQBUNDLE`` · format version (uint32) · manifest length (uint64) · manifest (UTF-8 JSON) · centre (d float64) ·
vectors (rows × d float32) · sha256 of everything before (32 bytes). All numbers little-endian. The manifest names
vectors by row.

Format history: 1, the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sq_core.bundle import Artifact, Bundle, BundleError, ExemplarTerm, Mode, OperatingPoint
from sq_core.classifier import Classifier, Polarity
from sq_core.conversation import RENDERER_VERSION
from sq_core.embedding import Centre
from sq_core.expiry import Expiry
from sq_core.pins import PinState
from sq_core.scoring import Pooling, Vectors
from sq_core.session import Rendering

MAGIC = b"SQBUNDLE"
FORMAT_VERSION = 1
_HEADER = struct.Struct("<8sIQ")
_DIGEST = 32


# --------------------------------------------------------------------------------------------------------------- write
class _Rows:
    """The vectors of a file, handed out as row numbers."""

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
    """Write `bundle` to `path`, replacing what is there only once the whole file is on disk."""
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
    artifacts = [_artifact_record(artifact, rows, with_exemplars) for artifact in bundle.artifacts]
    point = bundle.operating_point
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
        "artifacts": artifacts,
        "rows": len(rows.rows),
        "metadata": bundle.metadata,
    }
    try:
        text = json.dumps(manifest, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        encoded = text.encode()
    except (TypeError, ValueError) as error:
        raise BundleError(f"this bundle cannot be written as JSON: {error}; check its metadata") from None
    body = _HEADER.pack(MAGIC, FORMAT_VERSION, len(encoded)) + encoded + bundle.centre.to_bytes() + rows.to_bytes()
    return body + hashlib.sha256(body).digest()


def _artifact_record(artifact: Artifact, rows: _Rows, with_exemplars: bool) -> dict[str, Any]:
    classifier = artifact.classifier
    record: dict[str, Any] = {
        "key": artifact.key,
        "name": artifact.name,
        "text": artifact.text,
        "kind": artifact.kind,
        "mode": artifact.mode.value,
        "version": artifact.version,
        "requires": list(artifact.requires),
        "entails": list(artifact.entails),
        "metadata": dict(artifact.metadata),
        "pins": [
            {"id": pin.id, "bound": pin.bound, "cumulative": rows.add(pin.cumulative), "turn": rows.add(pin.turn)}
            for pin in artifact.pins
        ],
    }
    if classifier is not None:
        record["classifier"] = {
            "weights": rows.add(classifier.weights),
            "bias": classifier.bias,
            "offset": classifier.offset,
            "hash": classifier.weight_hash,
        }
    if with_exemplars and artifact.exemplars is not None:
        record["exemplars"] = [
            {"id": e.id, "text": e.text, "polarity": e.polarity.value, "alpha": e.alpha, "vector": rows.add(e.vector)}
            for e in artifact.exemplars
        ]
    return record


# ---------------------------------------------------------------------------------------------------------------- read
def read_bundle(path: Path) -> Bundle:
    """Open a file that `write_bundle` wrote. Raises `BundleError` saying what is wrong with it; OSError when it is
    away.
    """
    return bundle_from_bytes(path.read_bytes(), str(path))


def bundle_from_bytes(data: bytes, name: str) -> Bundle:
    """The bundle in `data`; `name` is for messages. Raises `BundleError`."""
    manifest, body = _opened(data, name)
    try:
        dimension, count = int(manifest["encoder"]["dimension"]), int(manifest["rows"])
        if len(body) != 8 * dimension + 4 * dimension * count:
            raise BundleError(f"{name}: its manifest and its {len(body)} bytes of vectors disagree; export it again")
        centre = Centre.from_bytes(body[: 8 * dimension])
        if centre.digest != manifest["centre"]["digest"]:
            raise BundleError(f"{name}: its centre is {centre.digest}, not the one its weights were fitted around")
        if manifest["renderer"]["version"] != RENDERER_VERSION:
            version = manifest["renderer"]["version"]
            raise BundleError(f"{name}: made for renderer {version}, this program has {RENDERER_VERSION}; update it")
        rows = np.frombuffer(body, dtype="<f4", offset=8 * dimension).reshape(count, dimension)
        return _bundle(manifest, centre, rows)
    except BundleError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BundleError(
            f"{name}: its manifest cannot be read ({type(error).__name__}: {error}); export it again"
        ) from error


def _opened(data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    """Manifest and vectors of a file that is whole and unaltered."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise BundleError(f"{name}: not a bundle; it does not begin with {MAGIC.decode()}")
    if len(data) < _HEADER.size:
        raise BundleError(f"{name}: truncated after {len(data)} bytes; copy or export it again")
    _, version, length = _HEADER.unpack_from(data)
    if version != FORMAT_VERSION:
        raise BundleError(f"{name}: format {version}, this program reads format {FORMAT_VERSION}; update it")
    if len(data) < _HEADER.size + length + _DIGEST:
        raise BundleError(f"{name}: truncated after {len(data)} bytes; copy or export it again")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise BundleError(f"{name}: truncated or altered, its checksum does not match; copy or export it again")
    manifest = json.loads(data[_HEADER.size : _HEADER.size + length])
    return manifest, data[_HEADER.size + length : -_DIGEST]


def _bundle(manifest: Mapping[str, Any], centre: Centre, rows: Vectors) -> Bundle:
    point, renderer = manifest["operating_point"], manifest["renderer"]
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
        artifacts=[_artifact(record, rows) for record in manifest["artifacts"]],
        release=manifest["release"],
        inventory=manifest["inventory"],
        rendering=Rendering(renderer["tool_results"], renderer["user_only"]),
        metadata=manifest["metadata"],
    )


def _artifact(record: Mapping[str, Any], rows: Vectors) -> Artifact:
    fitted, exemplars = record.get("classifier"), record.get("exemplars")
    classifier = None
    if fitted is not None:
        classifier = Classifier(rows[fitted["weights"]], fitted["bias"], fitted["offset"])
        if classifier.weight_hash != fitted["hash"]:
            raise BundleError(
                f"artifact {record['key']}: its weights are not those its manifest names; export it again"
            )
    return Artifact(
        key=record["key"],
        name=record["name"],
        text=record["text"],
        kind=record["kind"],
        mode=Mode(record["mode"]),
        classifier=classifier,
        version=record["version"],
        pins=tuple(
            PinState(pin["id"], _row(rows, pin["cumulative"]), _row(rows, pin["turn"]), pin["bound"])
            for pin in record["pins"]
        ),
        requires=tuple(record["requires"]),
        entails=tuple(record["entails"]),
        metadata=record["metadata"],
        exemplars=None
        if exemplars is None
        else tuple(
            ExemplarTerm(e["id"], e["text"], Polarity(e["polarity"]), e["alpha"], rows[e["vector"]]) for e in exemplars
        ),
    )


def _row(rows: Vectors, number: int | None) -> Vectors | None:
    return None if number is None else rows[number]
