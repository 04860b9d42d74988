"""JSON lines of artifacts, conversations, judgements and exemplars (docs/formats.md).

Every reader yields records and `RowError`s one by one, in the file's order; a bad row never stops the rest, and a file
of lines is never held whole. One JSON array of the same objects is read too. UTF-8, with or without a byte order mark,
and UTF-16.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

from sq_core.classifier import Polarity
from sq_core.conversation import Conversation, MessageError, clean_text, parse_time, read_messages
from sq_core.nesting import MOST, deeper_than

Source = Path | bytes | IO[bytes] | IO[str] | Iterable[str] | Iterable[bytes]
KEY = re.compile(r"[a-z0-9-]{1,64}")
KINDS = ("policy", "skill", "tool", "glossary", "observation")
SOURCES = ("generated", "mined", "written", "imported")
RUBRICS = ("current-need", "sticky")
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


@dataclass(frozen=True, slots=True)
class ArtifactText:
    """An artifact as written. `text` is without the name; `signals` are phrases the file offers as signals."""

    key: str
    name: str
    text: str
    kind: str = "policy"
    signals: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)
    replaced: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class JudgementRow:
    """The scores 1..5 one judge gave the artifacts at one query state. `judge` "human" or "human:NAME" is a person."""

    conversation: str
    user_turn: int
    judge: str
    scores: Mapping[str, int]
    visible_upto: int | None = None
    prefix_digest: str | None = None
    prompt_version: str | None = None
    pass_mark: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    chosen: bool = False  # judged because it was likely to be relevant: no figure may rest on it
    rubric: str | None = None  # how the judge scored; None = as the importer is told
    line: int = field(default=0, compare=False)

    @property
    def human(self) -> str | None:
        """The person's name, "" when not named; None when a model judged."""
        return self.judge.partition(":")[2] if self.judge == "human" or self.judge.startswith("human:") else None


@dataclass(frozen=True, slots=True)
class ExemplarRow:
    """One exemplar. `source` None = not said: the importer's default (lists: generated; single rows: written)."""

    artifact: str
    polarity: Polarity
    text: str
    source: str | None = None
    listed: bool = False
    line: int = field(default=0, compare=False)
    replaced: int = field(default=0, compare=False)


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


def slug(text: str) -> str:
    """The nearest key of a name, maybe empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-")


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


# --------------------------------------------------------------------------------------------------------- the kinds
def read_policies(source: Source, filename: str = "") -> Iterator[ArtifactText | RowError]:
    """Lines ``{"id", "name", "text", "kind"?}``; an id given twice in one file is an error in the later row."""
    filename = filename or name_of(source)
    seen: dict[str, int] = {}

    def read(row: Mapping[str, Any], line: int) -> Iterator[ArtifactText]:
        key = key_field(row, "id")
        if key in seen:
            raise BadRowError("id", f"{key!r} was given in row {seen[key]} already.", "Give each artifact one row.")
        kind = row.get("kind", "policy")
        if kind not in KINDS:
            raise BadRowError("kind", f"{kind!r:.40} is none of {', '.join(KINDS)}.", "Leave it out for a policy.")
        text = needed_text(row, "text", "Write what the artifact says.")
        name = text_field(row, "name", "Write a short name.", needed=False, limit=LIMIT) or key
        seen[key] = line
        yield ArtifactText(key, name, text, kind, line=line, replaced=clean_text(f"{row.get('name')}{row['text']}")[1])

    yield from records(json_rows(source, filename), filename, read)


def conversation_of(row: Mapping[str, Any], line: int) -> Conversation:
    """``{"id", "scenario"?, "started_at"?, "channel"?, "customer"?, "config"?, "metadata"?, "messages"}`` as a
    conversation.

    Further plain values beside them are kept in the metadata.
    """
    known = {"id", "scenario", "customer", "config", "channel", "started_at", "metadata", "messages"}
    if row.get("messages") is None:
        found = ", ".join(sorted(row)[:8])[:120] or "nothing"
        raise BadRowError(
            "messages", f"is missing; this row has {found}.", 'Write {"id": "…", "messages": [{"role", "content"}]}.'
        )
    messages, replaced = read_messages(row["messages"])
    extra = {k: v for k, v in row.items() if k not in known and isinstance(v, str | int | float)}
    return Conversation(
        external_id=needed_text(row, "id", "Give every conversation an id.", limit=LIMIT),
        messages=messages,
        scenario=text_field(row, "scenario", needed=False, limit=LIMIT),
        customer=text_field(row, "customer", needed=False, limit=LIMIT),
        config=text_field(row, "config", needed=False, limit=LIMIT),
        channel=text_field(row, "channel", needed=False, limit=40) or "",
        started_at=parse_time(row.get("started_at"), "started_at"),
        metadata=cleaned({**extra, **object_field(row, "metadata", needed=False)}),
        replaced=replaced,
        line=line,
    )


def cleaned(value: Any) -> Any:
    """A JSON value with every text in it cleaned."""
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, dict):
        return {clean_text(key)[0]: cleaned(member) for key, member in value.items()}
    return [cleaned(member) for member in value] if isinstance(value, list) else value


def read_judgements(source: Source, filename: str = "") -> Iterator[JudgementRow | RowError]:
    """Lines ``{"conversation", "user_turn", "judge", "scores": {artifact: 1..5}}`` with the optional fields of
    `JudgementRow`.
    """
    filename = filename or name_of(source)

    def read(row: Mapping[str, Any], line: int) -> Iterator[JudgementRow]:
        scores = object_field(row, "scores", needed=True)
        reasons = object_field(row, "reasons", needed=False)
        digest = text_field(row, "prefix_digest", needed=False)
        if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
            raise BadRowError("prefix_digest", "expected 64 hexadecimal digits.", "Leave it out and it is computed.")
        for key in scores:
            checked_key(key, f"scores.{key[:64]}")
        rubric = row.get("rubric")
        if rubric is not None and rubric not in RUBRICS:
            raise BadRowError("rubric", f"{rubric!r:.40} is none of {', '.join(RUBRICS)}.", "Leave it out.")
        yield JudgementRow(
            conversation=needed_text(row, "conversation", "Give the conversation's id.", limit=LIMIT),
            user_turn=whole_field(row, "user_turn", 0) or 0,
            judge=needed_text(row, "judge", "Name the judge, or write human.", limit=120),
            scores={key: _score(scores, key) for key in scores},
            visible_upto=whole_field(row, "visible_upto", 0, needed=False),
            prefix_digest=digest,
            prompt_version=text_field(row, "prompt_version", needed=False, limit=40),
            pass_mark=whole_field(row, "pass_mark", 1, 5, needed=False),
            reasons={clean_text(key)[0]: text_field(reasons, key) or "" for key in reasons},
            chosen=_flag(row, "chosen"),
            rubric=rubric,
            line=line,
        )

    yield from records(json_rows(source, filename), filename, read)


def _flag(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise BadRowError(name, f"expected true or false, got {kind_of(value)}.", "Leave it out.")


def _score(scores: Mapping[str, Any], key: str) -> int:
    try:
        return whole_field(scores, key, 1, 5) or 0
    except BadRowError as problem:
        raise BadRowError(f"scores.{key}", problem.message, problem.mend) from None


def read_exemplars(source: Source, filename: str = "") -> Iterator[ExemplarRow | RowError]:
    """Lines ``{"artifact", "signals": […], "anti_signals": […]}`` or ``{"artifact", "polarity", "text", "source"?}``.

    One record per text; a bad text in a list is an error of its own and the others are kept.
    """
    filename = filename or name_of(source)

    def read(row: Mapping[str, Any], line: int) -> Iterator[ExemplarRow | RowError]:
        artifact = key_field(row, "artifact")
        source_of = row.get("source")
        if source_of is not None and source_of not in SOURCES:
            raise BadRowError("source", f"{source_of!r:.40} is none of {', '.join(SOURCES)}.", "Leave it out.")
        if "signals" in row or "anti_signals" in row:
            for side, polarity in (("signals", Polarity.SIGNAL), ("anti_signals", Polarity.ANTI_SIGNAL)):
                for place, text in enumerate(_listed(row, side)):
                    try:
                        yield _exemplar(artifact, polarity, {"text": text}, source_of, line, listed=True)
                    except BadRowError as problem:
                        yield RowError(filename, line, f"{side}[{place}]", problem.message, problem.mend)
            return
        given = row.get("polarity")
        if given not in (Polarity.SIGNAL, Polarity.ANTI_SIGNAL):
            raise BadRowError(
                "polarity", "expected signal or anti_signal.", 'Or give lists "signals" and "anti_signals".'
            )
        yield _exemplar(artifact, Polarity(given), row, source_of, line, listed=False)

    yield from records(json_rows(source, filename), filename, read)


def _listed(row: Mapping[str, Any], side: str) -> list[Any]:
    value = row.get(side)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRowError(side, f"expected a list of texts, got {kind_of(value)}.", 'Write ["…", "…"].')
    return value


def _exemplar(
    artifact: str, polarity: Polarity, row: Mapping[str, Any], source: str | None, line: int, *, listed: bool
) -> ExemplarRow:
    text = needed_text(row, "text", "Write what the customer says.")
    return ExemplarRow(artifact, polarity, text, source, listed, line, clean_text(str(row["text"]))[1])


def name_of(source: Source) -> str:
    """A file name for messages, from the path or the stream."""
    name = source.name if isinstance(source, Path) else getattr(source, "name", "")
    return name if isinstance(name, str) else ""
