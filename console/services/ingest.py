"""Ingest: what every import shares: its report, its row errors, its pieces, its audit rows."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from django.db import DatabaseError

from console.models import Inventory
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Invalid
from sq_core.readers import RowError

PIECE = 500  # rows per transaction: a long import never holds SQLite's write lock for long, and a kill loses one piece
LISTED = 1_000  # row errors kept in a report; ``rejected`` counts them all
Place = tuple[str, int]  # file name and line
Progress = Callable[[int], None]  # called with the number of records read so far


class Record(Protocol):
    """A reader's record knows its line."""

    @property
    def line(self) -> int: ...


R = TypeVar("R", bound=Record)


@dataclass
class Report:
    """What an import did, in the same words for command, page and API.

    ``read`` counts what the file holds, good or bad: conversations, artifacts, exemplars, or single scores (a row that
    cannot be read at all counts as one).
    """

    kind: str
    read: int = 0
    stored: int = 0
    updated: int = 0  # artifacts with another text; suggested examples that the file promotes
    grown: int = 0  # conversations that got more messages
    duplicates: int = 0
    rejected: int = 0
    replaced_characters: int = 0
    errors: list[RowError] = field(default_factory=list)

    def reject(self, error: RowError, *, count: int = 1) -> None:
        self.rejected += count
        if len(self.errors) < LISTED:
            self.errors.append(error)

    def done(self) -> "Report":
        """The report with its errors in the order of the lines: pieces are stored after what follows them was read."""
        self.errors.sort(key=lambda error: error.line)
        return self

    @property
    def changed(self) -> int:
        return self.stored + self.updated + self.grown

    def counts(self) -> dict[str, int]:
        names = ("read", "stored", "updated", "grown", "duplicates", "rejected", "replaced_characters")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        errors = [
            {"file": e.file, "line": e.line, "field": e.field, "message": e.message, "mend": e.mend}
            for e in self.errors
        ]
        return {"kind": self.kind, **self.counts(), "errors": errors}

    def summary(self) -> str:
        """One line: ``51 conversations read: 50 stored, 0 duplicates, 1 rejected``."""
        parts = [f"{self.stored} stored", f"{self.duplicates} duplicates", f"{self.rejected} rejected"]
        parts += [f"{value} {name}" for name, value in (("updated", self.updated), ("grown", self.grown)) if value]
        if self.replaced_characters:
            parts.append(f"{self.replaced_characters} characters (NUL, lone surrogates) replaced by U+FFFD")
        return f"{self.read} {self.kind} read: " + ", ".join(parts)


class Trail:
    """The audit rows of one import: what a piece stores is covered by a row of its own transaction, or by one before it.

    An import of one piece leaves one row, ``KIND.import`` with its counts. A longer one opens with ``KIND.import_begun``
    beside the first rows it stores and closes with the counts, also when it is stopped; one that was killed has no close.
    """

    def __init__(self, inventory: Inventory, report: Report, *, by: Actor) -> None:
        self._inventory, self._report, self._by = inventory, report, by
        self._begun = self._ended = False
        self.more: dict[str, Any] = {}  # beside the counts

    def piece(self, *, last: bool) -> None:
        """At the end of a piece's transaction, after the report has its counts."""
        if last:
            self.end()
        elif self._report.changed and not self._begun:
            self._begun = True
            self._record("import_begun", None)

    def end(self, **more: Any) -> None:
        """The closing row, once, where anything was stored."""
        if self._report.changed and not self._ended:
            self._ended = True
            self._record("import", {**self._report.counts(), **self.more, **more})

    def _record(self, action: str, after: dict[str, Any] | None) -> None:
        audit.record(
            by=self._by,
            action=f"{self._report.kind}.{action}",
            object_type="inventory",
            object_id=self._inventory.slug,
            inventory=self._inventory.slug,
            after=after,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
            return
        with suppress(DatabaseError):  # what stopped it is the caller's to hear of
            self.end(stopped=True)


def records_of(
    source: Path | Iterable[R | RowError], reader: Callable[[Path], Iterable[R | RowError]], report: Report
) -> Iterator[tuple[Place, R]]:
    """The good records of a file or folder (through ``reader``) or of an iterable, each with its place.

    What cannot be read goes into the report. Raises Invalid when the file is not there or cannot be opened.
    """
    name = source.name if isinstance(source, Path) else ""
    try:
        for row in reader(source) if isinstance(source, Path) else source:
            if isinstance(row, RowError):
                report.read += 1
                report.reject(row)
            else:
                yield (name, row.line), row
    except OSError as error:
        raise Invalid(f"{name} cannot be read: {error.strerror}.", field="file", hint="Give another file.") from error
