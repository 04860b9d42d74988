"""Conversations of a file or folder, whatever the format: each row is recognised by its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers import anthropic, chatgpt, langsmith, openai, rasa, sharegpt, tau
from sq_core.readers.jsonl import BadRowError, RowError, Source, json_rows, name_of, records
from sq_core.readers.langfuse import Langfuse, is_langfuse
from sq_core.readers.own import conversation_of
from sq_core.readers.yaml_file import is_yaml, yaml_rows

Read = Callable[[Mapping[str, Any], int, str], Iterable[Conversation | RowError]]
# In the order in which a row is tried: the first that knows it reads it; a row that none knows is one of ours.
_FORMATS: dict[str, tuple[Callable[[Mapping[str, Any]], bool], Read]] = {
    "tau": (tau.is_tau, tau.conversations_of),
    "langsmith": (langsmith.is_langsmith, langsmith.conversations_of),
    "sharegpt": (sharegpt.is_sharegpt, sharegpt.conversations_of),
    "chatgpt": (chatgpt.is_chatgpt, chatgpt.conversations_of),
    "rasa": (rasa.is_rasa, rasa.conversations_of),
    "anthropic": (anthropic.is_anthropic, anthropic.conversations_of),
    "openai": (openai.is_openai, openai.conversations_of),
}
CONVERSATION_FORMATS = ("jsonl", "tau", "openai", "anthropic", "langfuse", "langsmith", "sharegpt", "chatgpt", "rasa")


def conversation_format(row: Mapping[str, Any]) -> str:
    """The format of a row; ``jsonl`` for one of ours, and for what no other format knows."""
    if is_langfuse(row):
        return "langfuse"
    return next((name for name, (knows, _) in _FORMATS.items() if knows(row)), "jsonl")


def read_conversations(
    source: Source,
    format: str | None = None,  # noqa: A002
    filename: str = "",
) -> Iterator[Conversation | RowError]:
    """Conversations of a file, a stream, lines, or a folder of ``*.json`` and ``*.jsonl`` files (and, where the format
    ``rasa`` is given, ``*.yml``).

    Each row is recognised by its fields; `format` makes rows of other formats errors. Raises ValueError at once for a
    format that is not known.
    """
    if format is not None and format not in CONVERSATION_FORMATS:
        raise ValueError(f"unknown format {format!r}; expected one of {', '.join(CONVERSATION_FORMATS)}")
    return _conversations(source, format, filename)


def _conversations(source: Source, wanted: str | None, filename: str) -> Iterator[Conversation | RowError]:
    if isinstance(source, Path) and source.is_dir():
        kinds = (".json", ".jsonl", ".yml", ".yaml") if wanted == "rasa" else (".json", ".jsonl")
        paths = sorted(path for path in source.rglob("*") if path.suffix in kinds and path.is_file())
        if not paths:
            yield RowError(
                source.name, 0, "", "no .json or .jsonl file in this folder.", "Give the folder of saved runs."
            )
        for path in paths:
            yield from _conversations(path, wanted, path.relative_to(source).as_posix())
        return
    named = filename or name_of(source)
    langfuse = Langfuse(named)

    def read(row: Mapping[str, Any], line: int) -> Iterable[Conversation | RowError]:
        # A row that the wanted format knows is read by it, even where another format would have taken it first.
        found = wanted if wanted in _FORMATS and _FORMATS[wanted][0](row) else conversation_format(row)
        if wanted is not None and found != wanted and not (wanted == "jsonl" and _may_be_ours(row)):
            raise BadRowError(
                "", f"this row is not of the format {wanted!r}.", "Leave the format out to have it recognised."
            )
        if found == "langfuse":
            return langfuse.conversations_of(row, line)
        if wanted == "jsonl" or found not in _FORMATS:
            return [conversation_of(row, line)]
        return _FORMATS[found][1](row, line, named)

    rows = yaml_rows(source, named) if is_yaml(named) else json_rows(source, named)
    yield from records(rows, named, read)
    yield from langfuse.ended()


def _may_be_ours(row: Mapping[str, Any]) -> bool:
    return "messages" in row and not tau.is_tau(row)
