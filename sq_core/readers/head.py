"""The beginning of a file: its first rows without the rest, and what the rows seem to be.

A file of lines is cut at a line's end. Of an array, or of a saved run with its simulations, the members that are there
whole are taken: such a file need not be read to its end, or held, to be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from sq_core.readers.artifacts import artifact_format
from sq_core.readers.conversations import conversation_format
from sq_core.readers.jsonl import RowError, json_rows, parse, text_lines
from sq_core.readers.yaml_file import is_yaml, yaml_rows

What = Literal["artifacts", "exemplars", "conversations", "judgements"]
_SPACE = " \t\r\n"
# One document with everything that ran, by the list that holds it; and what else of it the readers need.
SAVED_RUNS = {"simulations": "info", "samples": "eval"}


@dataclass(frozen=True, slots=True)
class Recognised:
    """What the rows look like; `what` None = none of ours, then `fields` of the first row say what was found."""

    what: What | None
    format: (
        str  # "jsonl", one of CONVERSATION_FORMATS, "parlant", "botpress", "abcd", "semantic-router", "rasa", "skill"
    )
    fields: tuple[str, ...]


def head(data: bytes, *, whole: bool, most: int) -> bytes | list[str]:
    """What a reader takes for the first `most` rows (at least) of a file of which `data` is the beginning.

    `data` itself when it is the `whole` file. Else lines: those that ended within it, empty ones kept so that the numbers
    stay; or the members of an array, which the readers number from 1; or the saved run with its first simulations or samples.
    """
    if whole:
        return data
    lines = _lines(data)
    first = next((line for line in lines if line.strip()), "")
    value = _value(first)
    if not isinstance(value, dict) or any(isinstance(value.get(name), list) for name in SAVED_RUNS):
        members = _members("\n".join(lines), most)
        if members:
            return [json.dumps(member, ensure_ascii=False) for member in members]
    if len(lines) > 1:
        lines.pop()  # it is cut
    return _cut(lines, most)


def recognise(rows: Iterable[Any], filename: str = "") -> Recognised:
    """By the fields of the first rows, each row's own kind counted."""
    if filename.lower().endswith(".md"):
        return Recognised("artifacts", "skill", ())
    votes: dict[tuple[What, str], int] = {}
    fields: tuple[str, ...] = ()
    for row in rows:
        if not isinstance(row, dict):
            continue
        fields = fields or tuple(str(name) for name in row)[:20]
        kind = _kind(row)
        if kind is not None:
            votes[kind] = votes.get(kind, 0) + 1
    if not votes:
        return Recognised(None, "jsonl", fields)
    what, form = max(votes, key=lambda kind: votes[kind])
    return Recognised(what, form, fields)


def rows_of(source: bytes | list[str], most: int, filename: str = "") -> list[Any]:
    """The first values of `head` that are JSON; of a file of YAML, by its name, its first entries."""
    read = yaml_rows(source, filename) if is_yaml(filename) else json_rows(source, "")
    rows = (row[1] for row in read if not isinstance(row, RowError))
    return list(islice(rows, most))


def _kind(row: Mapping[str, Any]) -> tuple[What, str] | None:
    foreign = conversation_format(row)
    if foreign != "jsonl":
        return "conversations", foreign
    if "messages" in row:
        return "conversations", "jsonl"
    if "scores" in row or {"judge", "user_turn"} <= row.keys():
        return "judgements", "jsonl"
    if "artifact" in row and row.keys() & {"signals", "anti_signals", "polarity", "text"}:
        return "exemplars", "jsonl"
    if row.keys() & {"signals", "anti_signals"}:
        return "exemplars", "jsonl"
    if isinstance(row.get("text"), str) and row.keys() & {"id", "name", "kind"}:
        return "artifacts", "jsonl"
    known = artifact_format(row)
    return ("artifacts", known) if known else None


# ------------------------------------------------------------------------------------------------------ bytes to lines
def _lines(data: bytes) -> list[str]:
    """Decoded, empty lines too; what cannot be decoded is kept with a mark in its place, so that the numbers stay."""
    lines: list[str] = []
    for item in text_lines(data, ""):
        number, text = (item.line, "\ufffd") if isinstance(item, RowError) else item
        lines += [""] * (number - 1 - len(lines)) + [text]
    return lines


def _cut(lines: Sequence[str], most: int) -> list[str]:
    """Up to the line that holds the last wanted row."""
    kept: list[str] = []
    for line in lines:
        kept.append(line)
        most -= bool(line.strip())
        if not most:
            break
    return kept


def _value(text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        return None


# -------------------------------------------------------------------------------------------- members of a cut document
def _members(text: str, most: int) -> list[Any]:
    """Of an array, or one saved run with its first simulations; whole ones only. Empty for a text that is neither."""
    at = _skip(text, 0)
    if text.startswith("[", at):
        return list(islice(_array(text, at + 1), most))
    return _saved_run(text, at + 1, most) if text.startswith("{", at) else []


def _array(text: str, at: int) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    while True:
        try:
            value, at = decoder.raw_decode(text, _skip(text, at))
        except (ValueError, RecursionError):
            return
        yield value
        at = _skip(text, at)
        if not text.startswith(",", at):
            return
        at += 1


def _saved_run(text: str, at: int, most: int) -> list[Any]:
    decoder = json.JSONDecoder()
    found: dict[str, Any] = {}
    while True:
        try:
            name, at = decoder.raw_decode(text, _skip(text, at))
            at = _skip(text, at)
            if not isinstance(name, str) or not text.startswith(":", at):
                return []
            at = _skip(text, at + 1)
            if name in SAVED_RUNS and text.startswith("[", at):
                facts = SAVED_RUNS[name]
                return [{facts: found.get(facts), name: list(islice(_array(text, at + 1), most))}]
            found[name], at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        at = _skip(text, at)
        if not text.startswith(",", at):
            return []
        at += 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
