"""A release as one file to keep: the four kinds as JSON lines and a manifest with the digest of each, zipped as a stream."""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from console.models import Artifact, OperatingPoint
from console.services import export
from console.services.releases import get_release

FORMAT = "signalbox-freeze/1"
CHUNK = 64 * 1024


class _Sink:
    """What the archive is written to: keeps what came until it is taken. It cannot go back, so the archive does not."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += data
        return len(data)

    def flush(self) -> None:
        """Nothing is behind it."""

    def take(self, least: int = 0) -> bytes:
        if len(self._held) <= least:
            return b""
        data, self._held = bytes(self._held), bytearray()
        return data


def frozen(found: export.Source) -> Iterator[bytes]:
    """The zip file, in pieces. Policies, examples and versions are those of the release; conversations and judgements,
    which belong to none, those there are."""
    sink, files = _Sink(), {}
    made = get_release(found.inventory, found.release).at
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]

        def info(name: str) -> zipfile.ZipInfo:
            entry = zipfile.ZipInfo(name, made.timetuple()[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            return entry

        for kind in export.KINDS:
            digest, rows, size = hashlib.sha256(), 0, 0
            with archive.open(info(f"{kind}.jsonl"), "w", force_zip64=True) as file:
                for line in export.lines(found, kind, "jsonl"):
                    file.write(line)
                    digest.update(line)
                    rows, size = rows + 1, size + len(line)
                    if piece := sink.take(CHUNK):
                        yield piece
            files[f"{kind}.jsonl"] = {"rows": rows, "bytes": size, "sha256": digest.hexdigest()}
        archive.writestr(
            info("manifest.json"), json.dumps(_manifest(found, files), ensure_ascii=False, indent=2) + "\n"
        )
    yield sink.take()


def _manifest(found: export.Source, files: dict[str, Any]) -> dict[str, Any]:
    inventory = found.inventory
    point = OperatingPoint.objects.at(found.release).filter(inventory=inventory).select_related("centre").first()
    keys = dict(Artifact.objects.filter(inventory=inventory, pk__in=found.versions).values_list("pk", "key"))
    decides = point and {
        "number": point.number, "encoder": point.encoder_id, "theta": point.theta, "pooling": point.pooling,
        "expiry": {"others": point.expiry_others, "turns": point.expiry_turns}, "target_recall": point.target_recall,
        "centre": point.centre and point.centre.digest,
    }  # fmt: skip
    return {
        "format": FORMAT,
        "inventory": inventory.slug,
        "release": found.release,
        **found.told(),
        "made_at": get_release(inventory, found.release).at.isoformat(),
        "exported_at": timezone.now().isoformat(),
        "operating_point": decides,
        "versions": {
            keys[pk]: {"number": version.number, "weights_sha256": version.weight_hash}
            for pk, version in sorted(found.versions.items(), key=lambda pair: keys[pair[0]])
        },
        "files": files,
    }
