"""Label Studio: tasks whose annotations hold a chat (``type: "chatmessage"``), each annotation a conversation of its own.

``data`` may hold the messages with which a chat began (``input_chat``): they come first. A cancelled annotation is
passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import Conversation, MessageError
from sq_core.readers.chat import MOST_MESSAGES, Json, conversation, item_of, merged, messages_of
from sq_core.readers.jsonl import BadRowError, RowError, id_text, kind_of

_MEND = "Export the tasks with their annotations as JSON."


def is_label_studio(row: Mapping[str, Any]) -> bool:
    """True for a task with its data and annotations, whatever was annotated."""
    return isinstance(row.get("annotations"), list) and isinstance(row.get("data"), Mapping) and "messages" not in row


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The conversations of a task. What is wrong with one annotation leaves the others."""
    task = id_text(row.get("id"))
    given = row["data"].get("input_chat")
    began = messages_of(given, "data.input_chat") if isinstance(given, list) and given else []
    found = 0
    for at, annotation in enumerate(row["annotations"]):
        where = f"annotations[{at}]"
        if isinstance(annotation, Mapping) and annotation.get("was_cancelled") is True:
            continue
        try:
            if not isinstance(annotation, Mapping):
                raise BadRowError(where, f"expected an object, got {kind_of(annotation)}.", _MEND)
            said = _chat(annotation, where)
            if not said:
                continue
            found += 1
            number = id_text(annotation.get("id")) or str(at)
            yield conversation(
                merged(began, said),
                id_=(f"{task}-{number}" if task else None,),
                line=line,
                filename=filename,
                scenario=task,
                started_at=said[0].get("at") or annotation.get("created_at"),
            )
        except BadRowError as problem:
            found += 1
            yield problem.at(filename, line)
        except MessageError as error:
            yield RowError(filename, line, f"{where}.{error.field}", error.message, error.hint)
    if not found:
        raise BadRowError("annotations", "hold no chat messages.", _MEND)


def _chat(annotation: Mapping[str, Any], where: str) -> list[Json]:
    """The messages of an annotation, in its order."""
    result = annotation.get("result")
    if not isinstance(result, list):
        raise BadRowError(f"{where}.result", f"expected a list, got {kind_of(result)}.", _MEND)
    if len(result) > MOST_MESSAGES:
        raise BadRowError(f"{where}.result", f"has {len(result):,} parts; {MOST_MESSAGES:,} is the most.", "Split it.")
    said: list[Json] = []
    for at, part in enumerate(result):
        if not isinstance(part, Mapping) or part.get("type") != "chatmessage":
            continue
        value = part.get("value")
        message = value.get("chatmessage") if isinstance(value, Mapping) else None
        place = f"{where}.result[{at}].value.chatmessage"
        if not isinstance(message, Mapping):
            raise BadRowError(place, f"expected an object, got {kind_of(message)}.", _MEND)
        said += [{**item, "at": message.get("createdAt")} for item in item_of(message, place)]
    return said
