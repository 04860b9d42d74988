"""One file of one kind through its importer: the same for commands, runs and previews."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from console.models import Inventory
from console.services import tables, uploads
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.ingest import Progress, Report
from console.services.ingest_artifacts import import_artifacts
from console.services.ingest_conversations import import_conversations
from console.services.ingest_exemplars import import_exemplars
from console.services.ingest_judgements import import_judgements
from console.services.upload_text import ENCODINGS, looked_at
from sq_core.readers import read_conversations, read_exemplars, read_judgements, read_policies

WHATS = ("artifacts", "exemplars", "conversations", "judgements")
OPTIONS: dict[str, tuple[str, ...]] = {
    "artifacts": (), "exemplars": ("source",), "conversations": ("format",), "judgements": ("rubric",),
}  # fmt: skip
_GZIP = b"\x1f\x8b"


def import_rows(
    inventory: Inventory,
    what: str,
    source: Path | Iterable[Any],
    *,
    by: Actor,
    options: dict[str, Any],
    progress: Progress | None = None,
) -> Report:
    """``options``: source, format or rubric, as the kind takes them. Raises Invalid for an option that does not fit."""
    match what:
        case "artifacts":
            return import_artifacts(inventory, source, by=by, progress=progress)
        case "exemplars":
            return import_exemplars(inventory, source, by=by, exemplar_source=options.get("source"), progress=progress)
        case "conversations":
            return import_conversations(inventory, source, by=by, format=options.get("format"), progress=progress)
        case _:
            return import_judgements(inventory, source, by=by, rubric=options.get("rubric"), progress=progress)


def read_rows(what: str, source: Any, *, name: str, options: dict[str, Any]) -> Iterator[Any]:
    """Records and row errors of a stream or of lines."""
    match what:
        case "artifacts":
            return read_policies(source, name)
        case "exemplars":
            return read_exemplars(source, name)
        case "conversations":
            return read_conversations(source, options.get("format"), name)
        case _:
            return read_judgements(source, name)


@contextmanager
def readable(path: Path, encoding: str | None = None) -> Iterator[Path]:
    """A file of a command as the readers take it: itself, or for gzip and Latin-1 a plain copy that is removed again.

    Raises Invalid for a file that cannot be read.
    """
    if encoding not in (None, *ENCODINGS):
        raise Invalid(f"encoding is {encoding!r}.", field="encoding", hint=f"Choose one of {', '.join(ENCODINGS)}.")
    if path.is_dir() or not path.exists():  # the readers say what is wrong
        yield path
        return
    if tables.is_ours(path, path.name):
        with tables.as_lines(path, name=path.name, most=uploads.unpacked_limit()) as lines:
            yield lines
        return
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        if not packed and encoding != "latin-1":
            yield path
            return
        most = uploads.unpacked_limit()
        found = encoding or looked_at(_pieces(path), most=most).encoding
        with uploads.plain_copy(_pieces(path), name=path.name, encoding=found, most=most) as plain:
            yield plain
    except OSError as error:
        raise Invalid(f"{path.name} cannot be read: {error.strerror}.", field="file", hint="Give another.") from error


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(uploads.PART):
            yield piece
