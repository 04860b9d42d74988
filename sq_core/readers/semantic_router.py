"""Routes of semantic-router: a name, maybe a description, and utterances, which are suggested as show examples."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import clean_text
from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, kind_of, needed_text, slug
from sq_core.readers.own import ArtifactText

_MOST_UTTERANCES = 10_000


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
    for at, route in enumerate(row["routes"]):
        try:
            if not isinstance(route, Mapping):
                raise BadRowError("", f"expected an object, got {kind_of(route)}.", "Correct the route.")
            yield _route(route, at + 1)
        except BadRowError as problem:
            yield RowError(filename, at + 1, f"routes[{at}].{problem.field}".rstrip("."), problem.message, problem.mend)


def _route(route: Mapping[str, Any], line: int) -> ArtifactText:
    name = needed_text(route, "name", "Name the route.", limit=LIMIT)
    key = slug(name)
    if not key:
        raise BadRowError("name", f"{name[:80]!r} gives no key.", "Use letters a-z or digits in the name.")
    given = route.get("utterances")
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list) or len(given) > _MOST_UTTERANCES:
        what = f"has {len(given):,}; {_MOST_UTTERANCES:,} is the most." if isinstance(given, list) else "is no list."
        raise BadRowError("utterances", what, 'Write ["…", "…"].')
    texts: dict[str, None] = {}
    for at, text in enumerate(given):
        if not isinstance(text, str):
            raise BadRowError(f"utterances[{at}]", f"expected text, got {kind_of(text)}.", "Write it as text.")
        if cleaned := clean_text(text.strip())[0]:
            texts[cleaned] = None
    words = re.sub(r"[_\-/\s]+", " ", name).strip()
    description = route.get("description")
    text = clean_text(description.strip())[0] if isinstance(description, str) and description.strip() else ""
    return ArtifactText(
        key, words[:1].upper() + words[1:], text or f"Route: {words}", "policy", tuple(texts), line=line
    )
