"""An exported table (CSV or Parquet) back as the JSON lines that the importers read: the same data again.

Which kind it is, its columns say. What a table holds beside what is in use (rejected examples, repeated scores, scores of an
earlier text) is left out, as JSON lines leave it out.
"""

import csv
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import IO, Any

from console.models import ExemplarStatus, JudgeKind
from console.services.csv_lines import read_cell
from console.services.errors import Invalid, TooLarge
from console.services.parquet import TRUTHS, WHOLE, parquet_columns, parquet_rows

ENDINGS = (".csv", ".parquet")
csv.field_size_limit(64 * 1024 * 1024)  # a message may be long; the csv module stops at 128 kB
Json = dict[str, Any]
_NEEDED: dict[str, frozenset[str]] = {  # in this order: the first whose columns are all there
    "judgements": frozenset({"conversation", "user_turn", "artifact", "score", "judge"}),
    "exemplars": frozenset({"artifact", "polarity", "text", "source"}),
    "conversations": frozenset({"conversation", "message", "role", "content"}),
    "policies": frozenset({"id", "name", "text", "kind"}),
}


def is_table(name: str) -> bool:
    return Path(name).suffix.lower() in ENDINGS


def is_ours(path: Path, name: str) -> bool:
    """Whether its columns are those of an export; a table of another kind is left to those who read the file as it is."""
    if not is_table(name):
        return False
    try:
        return _kind(parquet_columns(path) if name.lower().endswith(".parquet") else _csv_columns(path)) is not None
    except (ValueError, csv.Error, OSError):
        return False


def _csv_columns(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader(file, strict=True), [])


def _kind(columns: Iterable[str]) -> str | None:
    there = set(columns)
    return next((kind for kind, needed in _NEEDED.items() if needed <= there), None)


@contextmanager
def as_lines(path: Path, *, name: str, most: int) -> Iterator[Path]:
    """The table as a temporary file of JSON lines, named "<name>.jsonl". Raises Invalid for a file that is no such table,
    TooLarge beyond ``most`` bytes."""
    with tempfile.TemporaryDirectory(prefix="signalbox-table-") as folder:
        plain = Path(folder) / f"{Path(name).name}.jsonl"
        with plain.open("wb") as file:
            _write(path, name, file, most)
        yield plain


def _write(path: Path, name: str, file: IO[bytes], most: int) -> None:
    rows = parquet_rows(path) if name.lower().endswith(".parquet") else csv_rows(path)
    size = 0
    try:
        for row in json_rows(rows, name):
            line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
            size += len(line)
            if size > most:
                raise TooLarge(f"{name} holds more than {most // 1024 // 1024} MB.", field="file")
            file.write(line)
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise Invalid(
            f"{name} cannot be read as a table: {str(error)[:200] or type(error).__name__}.",
            field="file",
            hint="Give a file as “Export” writes it, or JSON lines.",
        ) from error


def csv_rows(path: Path) -> Iterator[Json]:
    """Raises ValueError for what is no UTF-8, or a cell that is no number where one belongs."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file, strict=True):
            yield {name: _typed(name, value) for name, value in row.items() if name is not None}


def _typed(name: str, value: Any) -> Any:
    if value is None or value == "":
        return None
    if name in WHOLE:
        return int(value)
    if name in TRUTHS:
        if value not in ("True", "False"):
            raise ValueError(f"{name} is {value[:40]!r}, not True or False")
        return value == "True"
    return read_cell(value)


def json_rows(rows: Iterable[Json], name: str) -> Iterator[Json]:
    """The importers' rows of a table's. Raises ValueError for columns of no known kind."""
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    if (kind := _kind(first)) is None:
        raise ValueError("its columns are those of no export")
    yield from _BACK[kind](chain([first], rows))


def _given(row: Mapping[str, Any], *names: str) -> Json:
    return {name: row[name] for name in names if row.get(name) not in (None, "")}


def _policies(rows: Iterable[Json]) -> Iterator[Json]:
    for row in rows:
        if row.get("status") in (None, "active"):
            yield _given(row, "id", "name", "text", "kind")


def _exemplars(rows: Iterable[Json]) -> Iterator[Json]:
    for row in rows:
        if row.get("status") in (None, ExemplarStatus.PROMOTED):
            yield _given(row, "artifact", "polarity", "text", "source")


def _conversations(rows: Iterable[Json]) -> Iterator[Json]:
    for name, messages in groupby(rows, key=lambda row: row["conversation"]):
        whole = list(messages)
        first = whole[0]
        found: Json = {"id": name, **_given(first, "scenario", "customer", "config", "channel", "started_at")}
        if first.get("metadata"):
            found["metadata"] = json.loads(first["metadata"])
        yield found | {"messages": [_message(row) for row in whole if row.get("role") is not None]}


def _message(row: Json) -> Json:
    found: Json = {
        "role": row["role"],
        "content": row.get("content") or "",
        **_given(row, "at", "call_id", "requestor"),
    }
    if row.get("tool_calls"):
        found["tool_calls"] = json.loads(row["tool_calls"])
    if row.get("visible_to_agent") is False:
        found["visible_to_agent"] = False
    return found


def _judgements(rows: Iterable[Json]) -> Iterator[Json]:
    for row in rows:
        if row.get("current_text") is False or (row.get("repeat") and row.get("kind") != JudgeKind.HUMAN):
            continue
        found = _given(
            row, "conversation", "user_turn", "judge", "prompt_version", "pass_mark", "rubric", "visible_upto"
        )
        found["scores"] = {row["artifact"]: row["score"]}
        if row.get("reason"):
            found["reasons"] = {row["artifact"]: row["reason"]}
        if row.get("chosen"):
            found["chosen"] = True
        if row.get("digest_given"):
            found["prefix_digest"] = row["digest_given"]
        yield found


_BACK: dict[str, Callable[[Iterable[Json]], Iterator[Json]]] = {
    "judgements": _judgements, "exemplars": _exemplars, "conversations": _conversations, "policies": _policies,
}  # fmt: skip
