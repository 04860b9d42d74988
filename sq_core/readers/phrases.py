"""What the readers of intents, routes and questions share: a policy that is named, and phrases that are suggested for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sq_core.conversation import clean_text
from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, kind_of, needed_text, slug
from sq_core.readers.own import ArtifactText

MOST_PHRASES = 10_000  # of one policy


def each_of(
    entries: Iterable[Any], place: str, filename: str, read: Callable[[Any, int], ArtifactText]
) -> Iterator[ArtifactText | RowError]:
    """The policies of a whole file in one object, numbered from 1; what is wrong with one leaves the others."""
    for number, entry in enumerate(entries, start=1):
        try:
            yield read(entry, number)
        except BadRowError as problem:
            where = f"{place}[{number - 1}].{problem.field}".rstrip(".")
            yield RowError(filename, number, where, problem.message, problem.mend)


def named_policy(
    row: Mapping[str, Any], field: str, what: str, phrases: Iterable[str], *, line: int, text: str = ""
) -> ArtifactText:
    """A policy that is known by its name, ``what`` (intent, route) it was there; without a text it says no more than that."""
    name = needed_text(row, field, f"Name the {what}.", limit=LIMIT)
    key = slug(name)
    if not key:
        raise BadRowError(field, f"{name[:80]!r} gives no key.", "Use letters a-z or digits in the name.")
    words = re.sub(r"[_\-/\s]+", " ", name).strip()
    title = words[:1].upper() + words[1:]
    signals = tuple(dict.fromkeys(phrases))
    return ArtifactText(key, title, text or f"{what.capitalize()}: {words}", "policy", signals, line=line)


def phrases_of(given: Any, place: str, bare: Callable[[str], str] = str.strip) -> Iterator[str]:
    """The texts of a list, without what ``bare`` takes off; empty ones are left out."""
    if not isinstance(given, list):
        raise BadRowError(place, f"expected a list, got {kind_of(given)}.", 'Write ["…", "…"].')
    if len(given) > MOST_PHRASES:
        raise BadRowError(place, f"has {len(given):,}; {MOST_PHRASES:,} is the most.", "Split it.")
    for at, text in enumerate(given):
        if not isinstance(text, str):
            raise BadRowError(f"{place}[{at}]", f"expected text, got {kind_of(text)}.", "Write it as text.")
        if cleaned := clean_text(bare(text))[0].strip():
            yield cleaned
