"""Langfuse traces: ``{trace, observations}`` as the pages export them, or a trace with its observations as the API gives it.

A trace's words are in its generations, in the shape of whatever framework wrote them; each later generation repeats the
history, so the last is read, with its answer. Where no generation can be read the trace's own input and output are.
Traces of one `sessionId` are one conversation, joined in the order of their times when the source ends; until then at
most `held.MOST_HELD` characters are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sq_core.conversation import Conversation, MessageError, parse_time
from sq_core.readers.chat import Json, conversation, decoded, item_of, merged, messages_of, texts_of
from sq_core.readers.held import Held
from sq_core.readers.jsonl import BadRowError, RowError, or_error

_MEND = "Export the trace with its observations, inputs and outputs included."


def is_langfuse(row: Mapping[str, Any]) -> bool:
    """True for an exported trace, whole or as the API gives it."""
    if isinstance(row.get("trace"), Mapping) and isinstance(row.get("observations"), list):
        return True
    return (
        isinstance(row.get("observations"), list) and "timestamp" in row and ("sessionId" in row or "projectId" in row)
    )


class Langfuse:
    """Reads the rows of one source; `ended` gives the sessions that several traces make."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[_Seen]] = {}
        self._held = Held("sessionId")

    def conversations_of(self, row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
        """The conversation of a trace without a session; of others nothing yet."""
        inner = row.get("trace")
        trace = inner if isinstance(inner, Mapping) else row
        items = _items(trace, row["observations"])
        session = trace.get("sessionId")
        if not isinstance(session, str) or not session.strip():
            yield _conversation(items, trace, line, filename, trace.get("id"))
            return
        if self._held.full:
            return
        self._held.add(*texts_of(items))
        seen = _Seen(str(trace.get("timestamp") or ""), filename, line, items, _facts(trace))
        self._sessions.setdefault(session, []).append(seen)

    def ended(self) -> Iterator[Conversation | RowError]:
        """The sessions, in the order they began in the source."""
        if self._held.full:
            return
        for session, traces in self._sessions.items():
            ordered = sorted(traces, key=lambda each: (each.at, each.file, each.line))
            items: list[Json] = []
            for each in ordered:
                items = merged(items, each.items)
            first = ordered[0]
            read = partial(_conversation, items, first.trace, first.line, first.file, session)
            yield or_error(read, first.file, first.line)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A trace of a session as it is held; `trace` is without its observations."""

    at: str
    file: str
    line: int
    items: list[Json]
    trace: Mapping[str, Any]


def _facts(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What a conversation says of the trace that it began with."""
    return {name: trace.get(name) for name in ("userId", "release", "version", "name", "timestamp")}


def _conversation(items: list[Json], trace: Mapping[str, Any], line: int, filename: str, id_: Any) -> Conversation:
    return conversation(
        items,
        id_=(id_,),
        line=line,
        filename=filename,
        customer=trace.get("userId"),
        config=trace.get("release") or trace.get("version") or trace.get("name"),
        started_at=trace.get("timestamp"),
    )


def _items(trace: Mapping[str, Any], observations: list[Any]) -> list[Json]:
    """The fullest history among the generations, the latest of equals; else what the trace itself says."""
    generations = [o for o in observations if isinstance(o, Mapping) and str(o.get("type")).upper() == "GENERATION"]
    best: list[Json] = []
    problem: BadRowError | None = None
    for observation in sorted(generations, key=_began):
        try:
            found = _exchange(observation, f"observations[{observations.index(observation)}]")
        except BadRowError as error:
            problem = error
            continue
        if len(found) >= len(best):
            best = found
    if not best:
        try:
            best = _exchange(trace, "trace")
        except BadRowError as error:
            problem = problem or error
    if not best:
        raise problem or BadRowError("observations", "no generation has an input.", _MEND)
    return best


def _began(observation: Mapping[str, Any]) -> str:
    try:
        began = parse_time(observation.get("startTime"), "startTime")
    except MessageError:
        began = None
    return began.isoformat() if began else ""


def _exchange(holder: Mapping[str, Any], where: str) -> list[Json]:
    """Input and output of a generation or a trace as one list; empty without an input."""
    given, answer = decoded(holder.get("input"), f"{where}.input"), decoded(holder.get("output"), f"{where}.output")
    if given is None or given == {} or given == []:
        return []
    asked = [item for item in messages_of(given, f"{where}.input") if not _declares(item)]
    if answer is None:
        return asked
    if isinstance(answer, str):
        return [*asked, {"role": "assistant", "content": answer}]
    if isinstance(answer, Mapping) and "role" not in answer and isinstance(answer.get("content"), str):
        return [*asked, {"role": "assistant", "content": answer["content"]}]
    told = (
        messages_of(answer, f"{where}.output") if isinstance(answer, list) or _many(answer) else item_of(answer, where)
    )
    return merged(asked, told) if told[: len(asked)] == asked else asked + told


def _many(answer: Any) -> bool:
    return isinstance(answer, Mapping) and isinstance(answer.get("messages"), list)


def _declares(item: Json) -> bool:
    """The declaration of a tool that LangChain's callback writes among the messages."""
    content = item.get("content")
    return item.get("role") == "tool" and isinstance(content, Mapping) and content.get("type") == "function"
