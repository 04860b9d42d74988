"""Policies, skills and tools of a file, whatever its format: each row is recognised by its fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sq_core.readers import abcd, botpress, parlant, rasa, semantic_router
from sq_core.readers.jsonl import RowError, Source, json_rows, name_of, records
from sq_core.readers.own import ArtifactText, artifact_of
from sq_core.readers.yaml_file import is_yaml, yaml_rows


def artifact_format(row: Mapping[str, Any]) -> str | None:
    """parlant, botpress, abcd, semantic-router or rasa; None for a row of ours, or of nothing known."""
    if parlant.is_guideline(row):
        return "parlant"
    if botpress.is_botpress(row):
        return "botpress"
    if abcd.is_abcd(row):
        return "abcd"
    if semantic_router.is_route(row):
        return "semantic-router"
    return "rasa" if rasa.is_intent(row) else None


def read_policies(source: Source, filename: str = "") -> Iterator[ArtifactText | RowError]:
    """Lines ``{"id", "name", "text", "kind"?}``, guidelines of Parlant and ABCD, routes of semantic-router, intents of
    Rasa and Botpress, questions of Botpress; JSON, and YAML by the file's name. An id given twice in one file is an error
    in the later row.
    """
    filename = filename or name_of(source)
    seen: dict[str, int] = {}

    def read(row: Mapping[str, Any], line: int) -> Iterator[ArtifactText | RowError]:
        for found in _artifacts(row, line, filename):
            if isinstance(found, ArtifactText) and found.key in seen:
                message = f"{found.key!r} was given in row {seen[found.key]} already."
                yield RowError(filename, found.line, "id", message, "Give each artifact one row.")
                continue
            if isinstance(found, ArtifactText):
                seen[found.key] = found.line
            yield found

    rows = yaml_rows(source, filename) if is_yaml(filename) else json_rows(source, filename)
    yield from records(rows, filename, read)


def _artifacts(row: Mapping[str, Any], line: int, filename: str) -> Iterable[ArtifactText | RowError]:
    match artifact_format(row):
        case "parlant":
            return parlant.guidelines_of(row, line, filename)
        case "botpress":
            return botpress.artifacts_of(row, line, filename)
        case "abcd":
            return abcd.guidelines_of(row, filename)
        case "semantic-router":
            return semantic_router.routes_of(row, line, filename)
        case "rasa":
            return rasa.intents_of(row, line)
        case _:
            return [artifact_of(row, line)]
