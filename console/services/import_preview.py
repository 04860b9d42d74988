"""The first rows of an upload and what an import would make of each, found by importing them and taking it all back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import transaction

from console.models import Inventory, Upload
from console.services import upload_text, uploads
from console.services.actor import Actor
from console.services.import_file import import_rows, read_rows
from console.services.ingest import Report
from console.services.upload_guess import beginning
from sq_core.conversation import Conversation
from sq_core.readers import JOINED_FORMATS, RowError, read_skills
from sq_core.readers.head import head

SHOWN = 10
LONGEST = 2_000  # messages of a conversation that is tried


@dataclass(frozen=True)
class Tried:
    """One row: its record (None where it cannot be read), and what would come of it.

    ``outcome``: new, changed, grown, used (a suggested example taken), known, partly (some scores are refused), rejected,
    or "" where it was not tried.
    """

    line: int
    record: Any
    outcome: str
    errors: tuple[RowError, ...] = ()


@dataclass(frozen=True)
class Preview:
    rows: tuple[Tried, ...]
    more: bool  # the file goes on

    def count(self, *outcomes: str) -> int:
        return sum(row.outcome in outcomes for row in self.rows)


def preview(upload: Upload, *, what: str, encoding: str, options: dict[str, Any], by: Actor) -> Preview:
    """Reads the beginning of the file alone and stores nothing. Raises Invalid where the file is gone."""
    name = upload.name.removesuffix(".gz") or upload.name
    found = list(islice(_records(upload, what, name, encoding, options), SHOWN + 1))
    tried = _tried(upload.inventory, what, found[:SHOWN], name, options, by)
    return Preview(tuple(tried), len(found) > SHOWN)


def _records(upload: Upload, what: str, name: str, encoding: str, options: dict[str, Any]) -> Iterator[Any]:
    if what == "artifacts" and name.endswith(".md"):
        with uploads.plain_file(upload, encoding=encoding) as path:
            yield from read_skills(path)
        return
    pieces = upload_text.plain(uploads.pieces_of(upload), encoding=encoding, most=uploads.unpacked_limit())
    data, whole = beginning(pieces)
    joined = what == "conversations" and upload.guess.get("format") in JOINED_FORMATS
    # Where a conversation stands in many rows, all that was read of the file is tried.
    rows = head(data, whole=whole, most=len(data) if joined else 2 * SHOWN)
    yield from read_rows(what, rows, name=name, options=options)


def _tried(
    inventory: Inventory, what: str, found: Sequence[Any], name: str, options: dict[str, Any], by: Actor
) -> list[Tried]:
    """Every record through the importer, one after another, in a transaction that is rolled back."""
    tried = []
    with transaction.atomic():
        fresh = Inventory.objects.get(pk=inventory.pk)  # what an import writes into it must not stay in a caller's
        for record in found:
            if isinstance(record, RowError):
                tried.append(Tried(record.line, None, "rejected", (record,)))
            elif isinstance(record, Conversation) and len(record.messages) > LONGEST:
                tried.append(Tried(record.line, record, ""))
            else:
                report = import_rows(fresh, what, [record], by=by, options=options)
                errors = tuple(RowError(name, record.line, e.field, e.message, e.mend) for e in report.errors)
                tried.append(Tried(record.line, record, _outcome(what, report), errors))
        transaction.set_rollback(True)
    return tried


def _outcome(what: str, report: Report) -> str:
    if report.rejected:
        return "partly" if report.changed or report.duplicates else "rejected"
    if report.stored:
        return "new"
    if report.updated:
        return "used" if what == "exemplars" else "changed"
    return "grown" if report.grown else "known"
