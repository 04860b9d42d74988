"""Routes of semantic-router: a name, maybe a description, and utterances, which are suggested as show examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import clean_text
from sq_core.readers.jsonl import BadRowError, RowError, kind_of
from sq_core.readers.own import ArtifactText
from sq_core.readers.phrases import each_of, named_policy, phrases_of


def is_route(row: Mapping[str, Any]) -> bool:
    """True for one route, or for a file of them as JSON."""
    if isinstance(row.get("routes"), list):
        return True
    return "utterances" in row and "name" in row and "text" not in row


def routes_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[ArtifactText | RowError]:
    """The routes of a row; of a whole file each on its own, so that a bad one leaves the others."""
    if not isinstance(row.get("routes"), list):
        yield _route(row, line)
        return
    yield from each_of(row["routes"], "routes", filename, _route)


def _route(route: Any, line: int) -> ArtifactText:
    if not isinstance(route, Mapping):
        raise BadRowError("", f"expected an object, got {kind_of(route)}.", "Correct the route.")
    given, description = route.get("utterances"), route.get("description")
    phrases = phrases_of([given] if isinstance(given, str) else given, "utterances")
    text = clean_text(description.strip())[0] if isinstance(description, str) else ""
    return named_policy(route, "name", "route", phrases, line=line, text=text)
