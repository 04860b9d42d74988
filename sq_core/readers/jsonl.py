"""What every reader of files shares: bytes to JSON rows, the fields of a row, errors with their place (docs/formats.md).

Every reader yields records and `RowError`s one by one, in the file's order; a bad row never stops the rest, and a file
of lines is never held whole. One JSON array of the same objects is read too. UTF-8, with or without a byte order mark,
and UTF-16.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

from sq_core.conversation import MessageError, clean_text
from sq_core.nesting import MOST, deeper_than

Source = Path | bytes | IO[bytes] | IO[str] | Iterable[str] | Iterable[bytes]
KEY = re.compile(r"[a-z0-9-]{1,64}")
LIMIT = 200  # characters of an id or a name, as the console stores them
# Bytes of one line, or characters of one value over many lines: it is held whole, and parsed to several times its size.
LARGEST_LINE = 128 * 1024 * 1024
_TOO_MUCH = f"more than {LARGEST_LINE >> 20} MB is more than can be held at once"
_ON_LINES = "Write one JSON object on each line."
_CHUNK = 1 << 16
_LARGEST = 2**31 - 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowError:
    """One row that could not be read: where, what is wrong, and how to mend it. `line` counts from 1 (rows of an array
    too).
    """

    file: str
    line: int
    field: str
    message: str
    mend: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" + (f" {self.field}" if self.field else "")
        return f"{where}: {self.message} {self.mend}"


class BadRowError(ValueError):
    """What is wrong with the row at hand; becomes a `RowError` where file and line are known."""

    def __init__(self, field: str, message: str, mend: str) -> None:
        super().__init__(message)
        self.field, self.message, self.mend = field, message, mend

    def at(self, file: str, line: int) -> RowError:
        """The same with its place."""
        return RowError(file, line, self.field, self.message, self.mend)


# ----------------------------------------------------------------------------------------------------- bytes to rows
def text_lines(source: Source, filename: str) -> Iterator[tuple[int, str] | RowError]:
    """Lines with their numbers from 1, decoded; a line that cannot be decoded is a `RowError`."""
    if isinstance(source, Path):
        with source.open("rb") as stream:
            yield from _decoded(_pieces(stream), filename)
    else:
        yield from _decoded(_pieces(source), filename)


def _pieces(source: bytes | IO[bytes] | IO[str] | Iterable[str] | Iterable[bytes]) -> Iterator[bytes | str]:
    """Chunks of a stream, or the given lines each closed by a newline."""
    read = getattr(source, "read", None)
    if read is not None:
        while piece := read(_CHUNK):
            yield piece
    elif isinstance(source, bytes):
        yield source
    else:
        for line in source:
            if isinstance(line, str):
                yield line if line.endswith("\n") else line + "\n"
            else:
                yield line if line.endswith(b"\n") else line + b"\n"


def _decoded(pieces: Iterator[bytes | str], filename: str) -> Iterator[tuple[int, str] | RowError]:
    first = next(pieces, b"")
    encoding = "text" if isinstance(first, str) else _encoding(first)
    width = 2 if encoding.startswith("utf-16") else 1
    newline: Any = "\n" if encoding == "text" else "\n".encode(encoding) if width == 2 else b"\n"
    for number, line in enumerate(_split(chain([first], pieces), newline, width), start=1):
        if line is None:
            yield RowError(filename, number, "", f"a line of {_TOO_MUCH}.", _ON_LINES)
            continue
        try:
            text = line if isinstance(line, str) else line.decode(encoding)
        except UnicodeDecodeError as error:
            yield RowError(
                filename, number, "", f"byte {error.start + 1} of this line is not UTF-8.", "Save the file as UTF-8."
            )
        else:
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def _encoding(start: bytes) -> str:
    """UTF-16 by its mark or by the zero bytes of its ASCII half, else UTF-8."""
    if start[:2] == b"\xff\xfe" or (len(start) > 1 and start[0] and not start[1]):
        return "utf-16-le"
    if start[:2] == b"\xfe\xff" or (len(start) > 1 and not start[0] and start[1]):
        return "utf-16-be"
    return "utf-8"


def _split(pieces: Iterable[Any], newline: Any, width: int) -> Iterator[Any]:
    """Split at newlines that start at a multiple of `width`; the last line may lack one. None for a line over
    `LARGEST_LINE`.

    Every piece is looked through once and every line joined once, however many pieces a line spans.
    """
    held: list[Any] = []  # the line at hand, as far as it has come
    size = 0
    half = newline[:0]  # the first byte of a character of two, at a piece's end
    for piece in pieces:
        if width > 1:
            piece = half + piece
            whole = len(piece) - len(piece) % width
            piece, half = piece[:whole], piece[whole:]
        start = search = 0
        while (at := piece.find(newline, search)) >= 0:
            if at % width:
                search = at + 1
                continue
            size += at - start
            yield newline[:0].join((*held, piece[start:at])) if size <= LARGEST_LINE else None
            held, size = [], 0
            start = search = at + len(newline)
        size += len(piece) - start
        if size > LARGEST_LINE:
            held = []
        elif start < len(piece):
            held.append(piece[start:])
    if size + len(half):
        yield newline[:0].join((*held, half)) if size <= LARGEST_LINE else None


def json_rows(source: Source, filename: str) -> Iterator[tuple[int, Any] | RowError]:
    """Values of a JSON-lines file, or the members of one JSON array; an object that spans lines is one row.

    Only a file whose first line is no JSON by itself is held whole, to see whether all of it is; at most
    `LARGEST_LINE` characters of it.
    """
    lines = (item for item in text_lines(source, filename) if isinstance(item, RowError) or item[1].strip())
    first = next(lines, None)
    if first is None:
        return
    rest: Iterable[tuple[int, str] | RowError] = chain([first], lines)
    if not isinstance(first, RowError):
        try:
            value = parse(first[1])
        except ValueError:
            held, ended = _held(rest)
            document = _whole(held) if ended else None
            if document is not None:
                yield from document
                return
            if not ended and not any(map(_is_object, held[:1_000])):
                yield RowError(filename, first[0], "", f"one JSON value of {_TOO_MUCH}.", _ON_LINES)
                return
            rest = held if ended else chain(held, lines)
        else:
            yield from enumerate(value, start=1) if isinstance(value, list) else [(first[0], value)]
            rest = lines
    for item in rest:
        if isinstance(item, RowError):
            yield item
            continue
        try:
            yield item[0], parse(item[1])
        except ValueError as error:
            yield RowError(filename, item[0], "", f"not valid JSON: {error}.", _ON_LINES)


def _held(rows: Iterable[tuple[int, str] | RowError]) -> tuple[list[tuple[int, str] | RowError], bool]:
    """The rows up to `LARGEST_LINE` characters, and whether these are all of them."""
    held: list[tuple[int, str] | RowError] = []
    size = 0
    for row in rows:
        held.append(row)
        size += 0 if isinstance(row, RowError) else len(row[1])
        if size > LARGEST_LINE:
            return held, False
    return held, True


def _is_object(row: tuple[int, str] | RowError) -> bool:
    """A line of JSON lines, and not one of a value that spans lines."""
    try:
        return not isinstance(row, RowError) and isinstance(parse(row[1]), dict)
    except ValueError:
        return False


def _whole(lines: list[tuple[int, str] | RowError]) -> list[tuple[int, Any]] | None:
    """All lines as one JSON value, as rows; None when they are not."""
    texts = [item[1] for item in lines if not isinstance(item, RowError)]
    if len(texts) < len(lines):
        return None
    try:
        value = parse("\n".join(texts))
    except ValueError:
        return None
    return list(enumerate(value, start=1)) if isinstance(value, list) else [(1, value)]


def parse(text: str) -> Any:
    """JSON without NaN and Infinity. ValueError also for nesting too deep to read."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def records(
    rows: Iterable[tuple[int, Any] | RowError],
    filename: str,
    read: Callable[[Mapping[str, Any], int], Iterable[T | RowError]],
) -> Iterator[T | RowError]:
    """Run `read` over every row that is an object, turning its `BadRowError`s and `MessageError`s into `RowError`s."""
    for row in rows:
        if isinstance(row, RowError):
            yield row
            continue
        number, value = row
        if not isinstance(value, dict):
            yield RowError(
                filename, number, "", f"expected an object, got {kind_of(value)}.", "Write one {…} on each line."
            )
            continue
        if deeper_than(value):
            deep = next((name for name, member in value.items() if deeper_than(member, MOST - 1)), "")
            mend = "Flatten it, or give it as text."
            yield RowError(filename, number, deep[:80], f"lists and objects more than {MOST} deep.", mend)
            continue
        try:
            yield from read(value, number)
        except BadRowError as problem:
            yield problem.at(filename, number)
        except MessageError as error:
            yield RowError(filename, number, error.field, error.message, error.hint)


def or_error(make: Callable[[], T], filename: str, line: int) -> T | RowError:
    """What `make` gives, or its `BadRowError` or `MessageError` with its place."""
    try:
        return make()
    except BadRowError as problem:
        return problem.at(filename, line)
    except MessageError as error:
        return RowError(filename, line, error.field, error.message, error.hint)


# ----------------------------------------------------------------------------------------------------- fields of a row
def kind_of(value: object) -> str:
    """What a JSON value is, in the reader's words."""
    kinds = ((bool, "true or false"), (dict, "an object"), (list, "a list"), (str, "text"), (int | float, "a number"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def text_field(
    row: Mapping[str, Any], name: str, mend: str = "Add it.", *, needed: bool = True, limit: int | None = None
) -> str | None:
    """A text that is not blank, cleaned, of at most `limit` characters; None when absent and not `needed`.

    Whole numbers are taken as text, for ids that exports write either way.
    """
    value = row.get(name)
    if value is None and not needed:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadRowError(name, "is missing." if value is None else f"expected text, got {kind_of(value)}.", mend)
    if not value.strip():
        raise BadRowError(name, "is empty.", mend)
    if limit is not None and len(value) > limit:
        raise BadRowError(name, f"has {len(value)} characters; {limit} is the most.", "Shorten it.")
    return clean_text(value)[0]


def needed_text(row: Mapping[str, Any], name: str, mend: str = "Add it.", *, limit: int | None = None) -> str:
    """`text_field` of a field that must be there."""
    return text_field(row, name, mend, limit=limit) or ""


def key_field(row: Mapping[str, Any], name: str) -> str:
    """An artifact key. The mend offers the nearest allowed one."""
    return checked_key(needed_text(row, name, "Give the artifact's key, such as cancel-flight."), name)


def checked_key(value: str, name: str) -> str:
    """`value` when it is a key."""
    if KEY.fullmatch(value):
        return value
    offer = slug(value) or "cancel-flight"
    raise BadRowError(name, f"{value[:80]!r} is no key: up to 64 of a-z, 0-9 and '-'.", f"Write {offer!r}, say.")


def id_text(value: Any) -> str:
    """An id as text; empty for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def slug(text: str) -> str:
    """The nearest key of a name, maybe empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-")


def shortened(identifier: str) -> str:
    """An id of at most `LIMIT` characters: of a longer one the beginning, and a digest in place of what does not fit."""
    if len(identifier) <= LIMIT:
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{identifier[: LIMIT - 17]}-{digest}"


def whole_field(
    row: Mapping[str, Any], name: str, low: int, high: int = _LARGEST, *, needed: bool = True
) -> int | None:
    """A whole number from `low` to `high`; None when absent and not `needed`."""
    value = row.get(name)
    if value is None and not needed:
        return None
    if type(value) is not int or not low <= value <= high:
        shown = "nothing" if value is None else f"{value!r}"[:40]
        raise BadRowError(name, f"expected a whole number from {low} to {high}, got {shown}.", "Correct the number.")
    return value


def object_field(row: Mapping[str, Any], name: str, *, needed: bool) -> Mapping[str, Any]:
    """An object; empty when absent and not `needed`."""
    value = row.get(name)
    if value is None and not needed:
        return {}
    if not isinstance(value, dict) or (needed and not value):
        raise BadRowError(
            name, f"expected an object with entries, got {kind_of(value)}.", 'Write {"cancel-flight": …}.'
        )
    return value


def cleaned(value: Any) -> Any:
    """A JSON value with every text in it cleaned."""
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, dict):
        return {clean_text(key)[0]: cleaned(member) for key, member in value.items()}
    return [cleaned(member) for member in value] if isinstance(value, list) else value


def name_of(source: Source) -> str:
    """A file name for messages, from the path or the stream."""
    name = source.name if isinstance(source, Path) else getattr(source, "name", "")
    return name if isinstance(name, str) else ""
