"""Logs of Inspect as JSON: ``{version, status, eval, samples: [{id, epoch, input, messages, output, target}]}``.

Every sample of every epoch is a conversation, the sample its scenario. Texts that Inspect keeps once, as
``attachment://…``, are put in their places. The packed form (``.eval``) is unpacked by `inspect_packed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from sq_core.conversation import Conversation, MessageError
from sq_core.readers.chat import MOST_MESSAGES, Json, conversation, item_of, messages_of
from sq_core.readers.jsonl import BadRowError, RowError, id_text, kind_of, shortened

_ATTACHED = "attachment://"
MEND = "Export the log with its samples: inspect log convert --to json."


def is_inspect(row: Mapping[str, Any]) -> bool:
    """True for a log, also one without samples."""
    facts = row.get("eval")
    return isinstance(facts, Mapping) and ("samples" in row or "task" in facts) and "messages" not in row


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The conversations of a log. What is wrong with one sample leaves the others."""
    samples = row.get("samples")
    if not isinstance(samples, list) or not samples:
        what = "has no samples" if samples in (None, []) else f"expected a list, got {kind_of(samples)}"
        raise BadRowError("samples", f"{what}.", MEND)
    for number, sample in enumerate(samples, start=1):
        yield sample_of(sample, row["eval"], number, filename, f"samples[{number - 1}]")


def sample_of(sample: Any, facts: Mapping[str, Any], number: int, filename: str, where: str) -> Conversation | RowError:
    """The conversation of a sample, or what is wrong with it; ``facts`` are the log's ``eval``."""
    try:
        if not isinstance(sample, Mapping):
            raise BadRowError("", f"expected an object, got {kind_of(sample)}.", "Correct the sample.")
        return _conversation(sample, facts, number, filename)
    except BadRowError as problem:
        return RowError(filename, number, f"{where}.{problem.field}".rstrip("."), problem.message, problem.mend)
    except MessageError as error:
        return RowError(filename, number, f"{where}.{error.field}", error.message, error.hint)


def _conversation(sample: Mapping[str, Any], facts: Mapping[str, Any], number: int, filename: str) -> Conversation:
    name, epoch = id_text(sample.get("id")) or str(number), id_text(sample.get("epoch")) or "1"
    run = id_text(facts.get("run_id")) or PurePath(filename).stem or "inspect"
    metadata = {"task": facts["task"]} if isinstance(facts.get("task"), str) else {}
    return conversation(
        _items(sample),
        id_=(shortened(f"{run}-{name}-{epoch}"),),
        line=number,
        filename=filename,
        scenario=name,
        config=facts.get("model"),
        started_at=sample.get("started_at") or facts.get("created"),
        metadata=metadata,
    )


def _items(sample: Mapping[str, Any]) -> list[Json]:
    """The messages of a sample; without them its input and what was answered."""
    attachments = sample.get("attachments")
    kept = attachments if isinstance(attachments, Mapping) else {}
    messages = sample.get("messages")
    if messages:
        if not isinstance(messages, list):
            raise BadRowError("messages", f"expected a list, got {kind_of(messages)}.", MEND)
        if len(messages) > MOST_MESSAGES:
            raise BadRowError("messages", f"has {len(messages):,}; {MOST_MESSAGES:,} is the most.", "Split it.")
        return [part for at, item in enumerate(messages) for part in _message(item, f"messages[{at}]", kept)]
    items = messages_of(_restored(sample.get("input"), kept), "input")
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        items += _message(choices[0].get("message"), "output.choices[0].message", kept)
    return items


def _message(item: Any, where: str, kept: Mapping[str, Any]) -> list[Json]:
    """One message: a call names its tool in ``function``, an answer that failed says so in ``error``."""
    if not isinstance(item, Mapping):
        raise BadRowError(where, f"expected a message object, got {kind_of(item)}.", MEND)
    plain = dict(item)
    plain["content"] = _restored(item.get("content"), kept)
    calls = item.get("tool_calls")
    if isinstance(calls, list):
        plain["tool_calls"] = [_call(call, kept) for call in calls]
    error = item.get("error")
    if item.get("role") == "tool" and not plain["content"] and isinstance(error, Mapping):
        plain["content"] = error.get("message") if isinstance(error.get("message"), str) else ""
    return item_of(plain, where)


def _call(call: Any, kept: Mapping[str, Any]) -> Any:
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), str):
        return call
    arguments = call.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = {name: _restored(value, kept) for name, value in arguments.items()}
    return {"id": call.get("id"), "name": call["function"], "arguments": arguments}


def _restored(value: Any, kept: Mapping[str, Any]) -> Any:
    """A text, or the parts of a message, with what was kept apart in its place."""
    if isinstance(value, str):
        found = kept.get(value.removeprefix(_ATTACHED)) if value.startswith(_ATTACHED) else None
        return found if isinstance(found, str) else value
    if isinstance(value, list):
        return [_restored(part, kept) for part in value]
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return {**value, "text": _restored(value["text"], kept)}
    if isinstance(value, Mapping) and isinstance(value.get("content"), str | list):
        return {**value, "content": _restored(value["content"], kept)}
    return value
