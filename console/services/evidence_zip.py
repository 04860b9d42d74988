"""A bundle as one file: out byte for byte as it was stored but for the time stamp, in only after everything was checked."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from console.models import Evidence, EvidenceOrigin, Inventory
from console.services import audit, evidence
from console.services.actor import Actor
from console.services.errors import Invalid, TooLarge
from sq_core.evidence.bundle import HEAD, NAMES, STAMP

MEGABYTE = 1024 * 1024
PACKED_LIMIT = 64 * MEGABYTE
UNPACKED_LIMIT = 256 * MEGABYTE
ENTRIES = 100  # a folder with other files beside the bundle's own; more is no bundle
EARLIEST = (1980, 1, 1, 0, 0, 0)  # a zip's entries carry no time of ours: the same evidence is the same file


def as_zip(found: Evidence, *, by: Actor) -> Iterator[bytes]:
    """The bundle's folder as a zip; noted in the audit."""
    audit.record(
        by=by, action="evidence.export", object_type="evidence", object_id=found.public_id,
        inventory=found.inventory.slug, label=found.name,
    )  # fmt: skip
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in {**evidence.files_of(found), STAMP: stamp(found.written_at)}.items():
            info = zipfile.ZipInfo(f"{folder_name(found)}/{name}", EARLIEST)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            file.writestr(info, data)
    out.seek(0)
    while piece := out.read(MEGABYTE):
        yield piece


def folder_name(found: Evidence) -> str:
    """What the folder and its zip are called: letters, digits and hyphens alone."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in found.name)[:60].strip("-")
    return f"evidence-{kept or 'plan'}-{found.digest[:12]}"


def stamp(at: datetime) -> bytes:
    return (at.astimezone(UTC).isoformat(timespec="seconds") + "\n").encode()


def import_zip(inventory: Inventory, file: IO[bytes], *, by: Actor) -> tuple[Evidence, bool]:
    """Store the bundle in a zip, whether its files stand in a folder or not; whether it is new. Raises Invalid, TooLarge."""
    files = _files(file)
    written = _time(files.pop(STAMP, b""))
    return evidence.store_files(inventory, files, by=by, origin=EvidenceOrigin.FILE, written_at=written)


def _files(file: IO[bytes]) -> dict[str, bytes]:
    """The bundle's files by name. Nothing is unpacked to disk, and no more is read than the limit, whatever a head says."""
    file.seek(0, io.SEEK_END)
    if file.tell() > PACKED_LIMIT:
        raise TooLarge(f"The file is larger than {PACKED_LIMIT // MEGABYTE} MB.", field="file")
    file.seek(0)
    found: dict[str, bytes] = {}
    left = UNPACKED_LIMIT
    try:
        with zipfile.ZipFile(file) as packed:
            entries = packed.infolist()
            if len(entries) > ENTRIES:
                raise Invalid(f"The zip holds {len(entries):,} files.", field="file", hint=evidence.HINT)
            for entry in entries:
                name = entry.filename.rpartition("/")[2]
                if name not in (HEAD, STAMP, *NAMES):
                    continue
                if name in found:
                    raise Invalid(f"{name} is there twice.", field="file", hint="Bring one bundle at a time.")
                with packed.open(entry) as one:
                    found[name] = one.read(left + 1)
                left -= len(found[name])
                if left < 0:
                    raise TooLarge(f"Unpacked it is larger than {UNPACKED_LIMIT // MEGABYTE} MB.", field="file")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError):
        raise Invalid("This is no zip that can be read.", field="file", hint=evidence.HINT) from None
    return found


def _time(text: bytes) -> datetime:
    """When it was measured, as its stamp says; now where it does not."""
    try:
        at = parse_datetime(text.decode("ascii").strip())
    except ValueError:
        at = None
    if at is None or timezone.is_naive(at) or at > timezone.now() or at.year < 2000:
        return timezone.now()
    return at
