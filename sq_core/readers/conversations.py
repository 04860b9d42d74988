"""Conversations of a file or folder, whatever the format: each row is recognised by its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sq_core.conversation import Conversation
from sq_core.readers import (
    anthropic,
    chatgpt,
    inspect_log,
    label_studio,
    langsmith,
    openai,
    rasa,
    sharegpt,
    tau,
)
from sq_core.readers.inspect_packed import is_packed, packed_conversations
from sq_core.readers.intercom import Intercom, is_intercom
from sq_core.readers.jsonl import BadRowError, RowError, Source, json_rows, name_of, records
from sq_core.readers.langfuse import Langfuse, is_langfuse
from sq_core.readers.openinference import OpenInference, is_openinference
from sq_core.readers.own import conversation_of
from sq_core.readers.yaml_file import is_yaml, yaml_rows
from sq_core.readers.zendesk import Zendesk, is_zendesk

Knows = Callable[[Mapping[str, Any]], bool]
Read = Callable[[Mapping[str, Any], int, str], Iterable[Conversation | RowError]]


class Joining(Protocol):
    """A format whose conversations stand in several rows: they are given when the file, or the folder, ends."""

    def conversations_of(self, row: Mapping[str, Any], line: int, filename: str) -> Iterable[Conversation | RowError]:
        """What a row gives at once."""

    def ended(self) -> Iterable[Conversation | RowError]:
        """What all of them gave together."""


_JOINING: dict[str, tuple[Knows, Callable[[], Joining]]] = {
    "langfuse": (is_langfuse, Langfuse),
    "openinference": (is_openinference, OpenInference),
    "intercom": (is_intercom, Intercom),
    "zendesk": (is_zendesk, Zendesk),
}
JOINED_FORMATS = tuple(_JOINING)
_FORMATS: dict[str, tuple[Knows, Read]] = {
    "tau": (tau.is_tau, tau.conversations_of),
    "langsmith": (langsmith.is_langsmith, langsmith.conversations_of),
    "sharegpt": (sharegpt.is_sharegpt, sharegpt.conversations_of),
    "chatgpt": (chatgpt.is_chatgpt, chatgpt.conversations_of),
    "rasa": (rasa.is_rasa, rasa.conversations_of),
    "label-studio": (label_studio.is_label_studio, label_studio.conversations_of),
    "inspect": (inspect_log.is_inspect, inspect_log.conversations_of),
    "anthropic": (anthropic.is_anthropic, anthropic.conversations_of),
    "openai": (openai.is_openai, openai.conversations_of),
}
# In the order in which a row is tried: the first that knows it reads it; a row that none knows is one of ours.
_KNOWS: dict[str, Knows] = {name: knows for name, (knows, _) in [*_JOINING.items(), *_FORMATS.items()]}
CONVERSATION_FORMATS = (
    "jsonl", "tau", "openai", "anthropic", "langfuse", "langsmith", "openinference", "intercom", "zendesk", "sharegpt",
    "chatgpt", "rasa", "label-studio", "inspect",
)  # fmt: skip


def conversation_format(row: Mapping[str, Any]) -> str:
    """The format of a row; ``jsonl`` for one of ours, and for what no other format knows."""
    return next((name for name, knows in _KNOWS.items() if knows(row)), "jsonl")


def read_conversations(
    source: Source,
    format: str | None = None,  # noqa: A002
    filename: str = "",
) -> Iterator[Conversation | RowError]:
    """Conversations of a file, a stream, lines, or a folder of ``*.json``, ``*.jsonl`` and ``*.eval`` files (where the
    format ``rasa`` is given, ``*.yml`` in place of the last).

    Each row is recognised by its fields; `format` makes rows of other formats errors. Raises ValueError at once for a
    format that is not known.
    """
    if format is not None and format not in CONVERSATION_FORMATS:
        raise ValueError(f"unknown format {format!r}; expected one of {', '.join(CONVERSATION_FORMATS)}")
    return _conversations(source, format, filename)


def _conversations(source: Source, wanted: str | None, filename: str) -> Iterator[Conversation | RowError]:
    joining: dict[str, Joining] = {}
    if isinstance(source, Path) and source.is_dir():
        kinds = (".json", ".jsonl", *((".yml", ".yaml") if wanted == "rasa" else (".eval",)))
        paths = sorted(path for path in source.rglob("*") if path.suffix in kinds and path.is_file())
        if not paths:
            yield RowError(
                source.name, 0, "", "no .json or .jsonl file in this folder.", "Give the folder of saved runs."
            )
        for path in paths:
            yield from _file(path, wanted, path.relative_to(source).as_posix(), joining)
    else:
        yield from _file(source, wanted, filename or name_of(source), joining)
    for reader in joining.values():
        yield from reader.ended()


def _file(
    source: Source, wanted: str | None, named: str, joining: dict[str, Joining]
) -> Iterator[Conversation | RowError]:
    """What the rows of one file give at once; the readers in `joining` hold the rest."""

    def read(row: Mapping[str, Any], line: int) -> Iterable[Conversation | RowError]:
        # A row that the wanted format knows is read by it, even where another format would have taken it first.
        found = wanted if wanted in _KNOWS and _KNOWS[wanted](row) else conversation_format(row)
        if wanted is not None and found != wanted and not (wanted == "jsonl" and _may_be_ours(row)):
            raise BadRowError(
                "", f"this row is not of the format {wanted!r}.", "Leave the format out to have it recognised."
            )
        if wanted == "jsonl" or found not in _KNOWS:
            return [conversation_of(row, line)]
        if found in _JOINING:
            if found not in joining:
                joining[found] = _JOINING[found][1]()
            return joining[found].conversations_of(row, line, named)
        return _FORMATS[found][1](row, line, named)

    if is_packed(named) and wanted in (None, "inspect"):
        if isinstance(source, Path):
            yield from packed_conversations(source, named)
        else:
            yield RowError(named, 1, "", "a packed log is read from a path alone.", inspect_log.MEND)
        return
    rows = yaml_rows(source, named) if is_yaml(named) else json_rows(source, named)
    yield from records(rows, named, read)


def _may_be_ours(row: Mapping[str, Any]) -> bool:
    return "messages" in row and not tau.is_tau(row)
