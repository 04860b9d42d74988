"""One reader per file format; all give the same records, one by one, with `RowError`s between them.

| kind | reader | formats |
|---|---|---|
| policies, skills, tools | `read_policies`, `read_skills` | JSON lines; a folder of SKILL.md |
| conversations | `read_conversations` | JSON lines; τ-bench 1 and τ² saved runs (detected) |
| judgements, exemplars | `read_judgements`, `read_exemplars` | JSON lines |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers import tau
from sq_core.readers.jsonl import BadRowError, RowError, Source, json_rows, name_of, records
from sq_core.readers.own import (
    ArtifactText,
    ExemplarRow,
    JudgementRow,
    conversation_of,
    read_exemplars,
    read_judgements,
    read_policies,
)
from sq_core.readers.skills import read_skills

__all__ = [
    "CONVERSATION_FORMATS",
    "ArtifactText",
    "ExemplarRow",
    "JudgementRow",
    "RowError",
    "read_conversations",
    "read_exemplars",
    "read_judgements",
    "read_policies",
    "read_skills",
]

CONVERSATION_FORMATS = ("jsonl", "tau")


def read_conversations(
    source: Source,
    format: str | None = None,  # noqa: A002
    filename: str = "",
) -> Iterator[Conversation | RowError]:
    """Conversations of a file, a stream, lines, or a folder of ``*.json`` and ``*.jsonl`` files.

    Each row is recognised by its fields; `format` ("jsonl" or "tau") makes rows of the other format errors. Raises
    ValueError at once for a format that is not known.
    """
    if format is not None and format not in CONVERSATION_FORMATS:
        raise ValueError(f"unknown format {format!r}; expected one of {', '.join(CONVERSATION_FORMATS)}")
    return _conversations(source, format, filename)


def _conversations(source: Source, wanted: str | None, filename: str) -> Iterator[Conversation | RowError]:
    if isinstance(source, Path) and source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.suffix in (".json", ".jsonl") and path.is_file())
        if not paths:
            yield RowError(
                source.name, 0, "", "no .json or .jsonl file in this folder.", "Give the folder of saved runs."
            )
        for path in paths:
            yield from _conversations(path, wanted, path.relative_to(source).as_posix())
        return
    named = filename or name_of(source)

    def read(row: Mapping[str, Any], line: int) -> Iterable[Conversation | RowError]:
        is_tau = tau.is_tau(row)
        if wanted is not None and is_tau != (wanted == "tau"):
            raise BadRowError(
                "", f"this row is not of the format {wanted!r}.", "Leave the format out to have it recognised."
            )
        return tau.conversations_of(row, line, named) if is_tau else [conversation_of(row, line)]

    yield from records(json_rows(source, named), named, read)
