"""Uploads: files in the database, written in pieces, read as a stream by any worker, erased when they are no longer needed."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import IO

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from console.models import Inventory, Run, RunKind, Upload, UploadPart
from console.models.run import ENDED
from console.services import audit, tables, upload_guess, upload_text
from console.services.actor import SYSTEM, Actor
from console.services.errors import Conflict, Invalid, NotFound, TooLarge
from sq_core.conversation import clean_text

PART = 256 * 1024
PARTS_AT_ONCE = 16  # 4 MiB a transaction: SQLite's write lock is never held for long
NAME_LIMIT = 200
ABANDONED = timedelta(days=1)  # whoever was writing an upload that is still incomplete then is gone
MEGABYTE = 1024 * 1024


# ------------------------------------------------------------------------------------------------------------- bringing
@contextmanager
def spooled(pieces: Iterable[bytes]) -> Iterator[IO[bytes]]:
    """What a caller sends, on this machine's disk until it is stored. Raises TooLarge as soon as it is."""
    with tempfile.TemporaryFile(prefix="signalbox-upload-") as file:
        size = 0
        for piece in pieces:
            size += len(piece)
            check_size(size)
            file.write(piece)
        yield file


def check_size(size: int) -> None:
    """Raises TooLarge."""
    if size > settings.UPLOAD_LIMIT:
        raise TooLarge(
            f"The file is larger than {settings.UPLOAD_LIMIT // MEGABYTE} MB.", field="file",
            hint="Pack it with gzip, or send it in several files.",
        )  # fmt: skip


def store_upload(inventory: Inventory, file: IO[bytes], *, name: str, by: Actor) -> tuple[Upload, bool]:
    """Keep a file; whether it is new. The same content is the same upload, under the name it first had.

    Written in pieces: whoever dies in between leaves an incomplete upload that the same file completes. A table that an
    export wrote (CSV, Parquet) is kept as the JSON lines that it stands for. Raises Invalid for an empty file or a damaged
    one, TooLarge.
    """
    name = checked_name(name)
    if not tables.is_table(name):
        return _store(inventory, file, name=name, by=by)
    with tempfile.NamedTemporaryFile(prefix="signalbox-table-") as copy:
        for piece in _from_start(file):
            copy.write(piece)
        copy.flush()
        path = Path(copy.name)
        if not tables.is_ours(path, name):
            return _store(inventory, file, name=name, by=by)
        with tables.as_lines(path, name=name, most=unpacked_limit()) as lines, lines.open("rb") as plain:
            return _store(inventory, plain, name=lines.name, by=by)


def _store(inventory: Inventory, file: IO[bytes], *, name: str, by: Actor) -> tuple[Upload, bool]:
    size, digest = _measured(file)
    check_size(size)
    if not size:
        raise Invalid("The file is empty.", field="file", hint="Choose a file that holds rows.")
    known = Upload.objects.filter(inventory=inventory, sha256=digest).first()
    if known is not None and known.readable:
        return known, False
    file.seek(0)
    guess = upload_guess.guess(lambda: _from_start(file), name=known.name if known else name, most=unpacked_limit())
    upload = known or _made(inventory, name, size, digest, by)
    _write_parts(upload, file)
    with transaction.atomic():
        if UploadPart.objects.filter(upload=upload).count() != -(-size // PART):
            raise Conflict("The same file is just being erased here.", hint="Send it again.")
        changed = Upload.objects.filter(pk=upload.pk).exclude(complete=True, erased_at__isnull=True).update(
            complete=True, erased_at=None, guess=guess.to_json(), at=timezone.now(), by=by.name, user=by.user
        )  # fmt: skip
        if changed:  # else another request with the same file was faster
            audit.record(
                by=by, inventory=inventory.slug, action="upload.create", object_type="upload",
                object_id=upload.public_id, label=upload.name, after={"size": size, "sha256": digest},
            )  # fmt: skip
    upload.refresh_from_db()
    return upload, bool(changed)


def unpacked_limit() -> int:
    return int(settings.UPLOAD_LIMIT) * upload_text.UNPACKED_TIMES


def checked_name(name: str) -> str:
    """The last part of a path, clean and short enough, its ending kept."""
    text = PurePosixPath(clean_text(name)[0].replace("\\", "/")).name.strip()
    text = "".join(character if character.isprintable() else "_" for character in text)
    if not text or text in {".", ".."}:
        return "upload.jsonl"
    if len(text) > NAME_LIMIT:
        suffixes = "".join(PurePosixPath(text).suffixes[-2:])[-20:]
        text = text[: NAME_LIMIT - len(suffixes)] + suffixes
    return text


def _measured(file: IO[bytes]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for piece in _from_start(file):
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def _from_start(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PART):
        yield piece


def _made(inventory: Inventory, name: str, size: int, digest: str, by: Actor) -> Upload:
    try:
        with transaction.atomic():
            return Upload.objects.create(
                inventory=inventory, name=name, size=size, sha256=digest, by=by.name, user=by.user
            )
    except IntegrityError:  # the same file came twice at once: both write the same parts
        return Upload.objects.get(inventory=inventory, sha256=digest)


def _write_parts(upload: Upload, file: IO[bytes]) -> None:
    batch: list[UploadPart] = []
    for number, piece in enumerate(_from_start(file)):
        batch.append(UploadPart(upload=upload, number=number, data=piece))
        if len(batch) == PARTS_AT_ONCE:
            UploadPart.objects.bulk_create(batch, ignore_conflicts=True)
            batch = []
    UploadPart.objects.bulk_create(batch, ignore_conflicts=True)


# -------------------------------------------------------------------------------------------------------------- reading
def get_upload(inventory: Inventory, public_id: str) -> Upload:
    """Raises NotFound, of one that is not complete, too."""
    found = Upload.objects.filter(inventory=inventory, public_id=public_id, complete=True).first()
    if found is None:
        raise NotFound(f"{inventory.slug} has no upload {public_id[:40]!r}.", field="upload")
    return found


def list_uploads(inventory: Inventory) -> QuerySet[Upload]:
    """Newest first."""
    return Upload.objects.filter(inventory=inventory, complete=True).order_by("-at", "-id")


def pieces_of(upload: Upload) -> Iterator[bytes]:
    """The file's bytes, part by part. Raises Invalid when it was erased or is not what was stored."""
    digest, number = hashlib.sha256(), 0
    while (data := _part(upload, number)) is not None:
        digest.update(data)
        yield data
        number += 1
    if digest.hexdigest() != upload.sha256:
        raise gone(upload)


def _part(upload: Upload, number: int) -> bytes | None:
    found = UploadPart.objects.filter(upload=upload, number=number).values_list("data", flat=True).first()
    return None if found is None else bytes(found)


def gone(upload: Upload) -> Invalid:
    return Invalid(f"The file {upload.name} is no longer kept.", field="params.upload", hint="Upload it again.")


@contextmanager
def plain_file(upload: Upload, *, encoding: str) -> Iterator[Path]:
    """The upload as a temporary file under its own name: unpacked, and in an encoding that the readers take."""
    with plain_copy(pieces_of(upload), name=upload.name, encoding=encoding, most=unpacked_limit()) as path:
        yield path


@contextmanager
def plain_copy(pieces: Iterable[bytes], *, name: str, encoding: str, most: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="signalbox-import-") as folder:
        path = Path(folder) / (name.removesuffix(".gz") or name)
        with path.open("wb") as file:
            for piece in upload_text.plain(pieces, encoding=encoding, most=most):
                file.write(piece)
        yield path


# -------------------------------------------------------------------------------------------------------------- erasing
def runs_of(upload: Upload) -> QuerySet[Run]:
    """The imports of this file, newest first."""
    return Run.objects.filter(
        inventory=upload.inventory_id, kind=RunKind.IMPORT, params__upload=upload.public_id
    ).order_by("-id")


def erase_upload(upload: Upload, *, by: Actor) -> None:
    """Drop what it holds; its name, digest and imports stay. Raises Conflict while an import of it has not ended."""
    if runs_of(upload).exclude(state__in=ENDED).exists():
        raise Conflict(f"{upload.name} is being imported.", hint="Wait for its end, or cancel the run.")
    with transaction.atomic():
        changed = Upload.objects.filter(pk=upload.pk, erased_at__isnull=True).update(erased_at=timezone.now())
        if changed:
            audit.record(
                by=by, inventory=upload.inventory.slug, action="upload.erase", object_type="upload",
                object_id=upload.public_id, label=upload.name,
            )  # fmt: skip
    _drop_parts(upload)
    upload.refresh_from_db()


def _drop_parts(upload: Upload) -> None:
    while ids := list(UploadPart.objects.filter(upload=upload).values_list("pk", flat=True)[: 4 * PARTS_AT_ONCE]):
        UploadPart.objects.filter(pk__in=ids).delete()


def erase_old(now: datetime | None = None) -> int:
    """The rule of how long files are kept: `UPLOAD_KEPT_DAYS` after their last import ended, or after they came where none
    was started; what was never completed goes after a day. How many were erased.
    """
    now = now or timezone.now()
    for upload in Upload.objects.filter(complete=False, at__lt=now - ABANDONED):
        _drop_parts(upload)
        upload.delete()
    kept = now - timedelta(days=settings.UPLOAD_KEPT_DAYS)
    erased = 0
    for upload in Upload.objects.select_related("inventory").filter(complete=True, erased_at__isnull=True, at__lt=kept):
        last = runs_of(upload).order_by(F("finished_at").desc(nulls_first=True)).first()
        if last is None or (last.ended and last.finished_at is not None and last.finished_at < kept):
            erase_upload(upload, by=SYSTEM)
            erased += 1
    for upload in Upload.objects.filter(erased_at__isnull=False, parts__isnull=False).distinct():  # a death in between
        _drop_parts(upload)
    return erased
