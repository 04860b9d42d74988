"""Inspect's packed logs (``.eval``): a zip archive with ``header.json`` and a file for each sample, read one by one.

Nothing is written to disk, and names within the archive are only compared. An entry may unpack to `LARGEST_LINE` bytes, the
samples together to `MOST_BYTES`, whatever the archive says of itself.
"""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sq_core.conversation import Conversation
from sq_core.nesting import MOST, deeper_than
from sq_core.readers.inspect_log import MEND, sample_of
from sq_core.readers.jsonl import LARGEST_LINE, BadRowError, RowError, kind_of, parse

MOST_SAMPLES = 100_000
MOST_BYTES = 16 * LARGEST_LINE
_PIECE = 1 << 20
_SAMPLE = re.compile(r"samples/[^/]+\.json")
_HEADERS = ("header.json", "_journal/start.json")  # the second where a run has not ended
# What zipfile raises for an archive that is damaged, encrypted, or packed in a way that it does not know.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
)


def is_packed(filename: str) -> bool:
    """By its name."""
    return filename.lower().endswith(".eval")


def packed_conversations(path: Path, filename: str) -> Iterator[Conversation | RowError]:
    """The samples in the order of their names, numbered from 1. What is wrong with one leaves the others."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        yield RowError(filename, 1, "", f"is no archive of a log: {error}.", MEND)
        return
    with archive:
        names = sorted(name for name in {each.filename for each in archive.infolist()} if _SAMPLE.fullmatch(name))
        if not names or len(names) > MOST_SAMPLES:
            what = f"has {len(names):,} samples; {MOST_SAMPLES:,} is the most." if names else "has no samples."
            yield RowError(filename, 1, "samples", what, MEND)
            return
        left = _Left(MOST_BYTES)
        try:
            facts = _header(archive)
        except BadRowError as problem:
            yield problem.at(filename, 1)
            return
        for number, name in enumerate(names, start=1):
            try:
                sample = _member(archive, name, left)
            except BadRowError as problem:
                yield problem.at(filename, number)
                continue
            yield sample_of(sample, facts, number, filename, name)


def _header(archive: zipfile.ZipFile) -> Mapping[str, Any]:
    """What the log says of its run; nothing where it says nothing."""
    name = next((each for each in _HEADERS if each in archive.NameToInfo), None)
    facts = _member(archive, name, _Left(LARGEST_LINE)).get("eval") if name else None
    return facts if isinstance(facts, Mapping) else {}


@dataclass
class _Left:
    """Bytes that may still be unpacked; what came to nothing has cost the same."""

    size: int


def _member(archive: zipfile.ZipFile, name: str, left: _Left) -> dict[str, Any]:
    """The object of an entry. BadRowError for what is too large, damaged, or no JSON."""
    most = min(LARGEST_LINE, left.size)
    data = bytearray()
    try:
        with archive.open(name) as stream:
            while len(data) <= most and (piece := stream.read(min(_PIECE, most + 1 - len(data)))):
                data += piece
                left.size -= len(piece)
        if len(data) > most:
            raise BadRowError(name[:120], f"unpacks to more than {max(most, 0):,} bytes.", "Split the log.")
        value = parse(data.decode())
    except BadRowError:
        raise
    except _DAMAGED as error:
        raise BadRowError(name[:120], f"cannot be unpacked: {str(error)[:120]}.", MEND) from None
    if deeper_than(value):
        raise BadRowError(name[:120], f"lists and objects more than {MOST} deep.", "Flatten it, or give it as text.")
    if not isinstance(value, dict):
        raise BadRowError(name[:120], f"expected an object, got {kind_of(value)}.", MEND)
    return value
