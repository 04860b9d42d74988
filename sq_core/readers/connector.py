"""Lines of a data pipeline's connector, ``{stream, data, emitted_at}``: what the readers of Intercom and Zendesk share.

The records of one conversation stand in several streams, in any order, and in a folder in several files; so what was
said is held until the source ends (`held`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sq_core.conversation import parse_time
from sq_core.readers.jsonl import LIMIT, BadRowError, id_text, kind_of


@dataclass(frozen=True, slots=True)
class Said:
    """One message as it is held: `at` ISO 8601, `file` and `line` its place, `who` a role or, until that is known, an id."""

    at: str
    file: str
    line: int
    who: str
    text: str
    public: bool = True


def record_of(row: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Stream and data of a connector's line, also in its envelope ``{type: "RECORD", record}``; None for another row."""
    inner = row.get("record") if row.get("type") == "RECORD" else row
    if not isinstance(inner, Mapping) or "emitted_at" not in inner:
        return None
    stream, data = inner.get("stream"), inner.get("data")
    return (stream, data) if isinstance(stream, str) and isinstance(data, Mapping) else None


def id_field(data: Mapping[str, Any], name: str, where: str = "data") -> str:
    """An id as text, whether it was written as text, as a number or as 12.0. BadRowError when there is none."""
    found = id_text(data.get(name))
    if not found:
        raise BadRowError(
            f"{where}.{name}", f"expected an id, got {kind_of(data.get(name))}.", "Export it with its ids."
        )
    if len(found) > LIMIT:
        raise BadRowError(f"{where}.{name}", f"has {len(found)} characters; {LIMIT} is the most.", "Shorten it.")
    return found


def body_of(data: Mapping[str, Any], name: str, where: str = "data") -> str:
    """A text that may be absent: then empty. BadRowError for what is no text."""
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRowError(f"{where}.{name}", f"expected text, got {kind_of(value)}.", "Export it again.")
    return value


def time_of(data: Mapping[str, Any], name: str, where: str = "data") -> str:
    """A time that must be there, as ISO 8601 in UTC. MessageError for what is none."""
    found = parse_time(data.get(name), f"{where}.{name}")
    if found is None:
        raise BadRowError(f"{where}.{name}", "is missing: messages are put in the order of it.", "Export it again.")
    return found.isoformat()


def in_order(said: Iterable[Said]) -> Iterator[Said]:
    """By time, of equals as they came."""
    return iter(sorted(said, key=lambda each: each.at))
