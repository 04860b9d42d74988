"""LangSmith runs: an ingestion batch ``{post, patch}``, or one run a line as the SDK lists them.

Inputs and outputs of a run may stand in two halves, joined by id or by trace and order. A conversation is what a run of
a model was asked and answered; of the runs of one thread (or trace) the one with the longest history is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers.chat import Json, conversation, item_of, messages_of
from sq_core.readers.jsonl import BadRowError, RowError, kind_of, or_error

_THREAD = ("session_id", "thread_id", "conversation_id")
_MEND = "Export the runs with their inputs and outputs."


def is_langsmith(row: Mapping[str, Any]) -> bool:
    """True for a batch of runs or one run."""
    if isinstance(row.get("post"), list) or isinstance(row.get("patch"), list):
        return "post" in row or "patch" in row
    return isinstance(row.get("run_type"), str) and isinstance(row.get("inputs"), Mapping)


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The conversations of a batch, or the one of a run. What is wrong with one run leaves the others."""
    if "run_type" in row and "post" not in row:
        if row["run_type"] == "llm" or isinstance(row["inputs"].get("messages"), list):
            yield _conversation(row, _exchange(row, "run"), line, filename)
        return  # a tool's or a chain's own run holds no chat
    best: dict[str, tuple[Mapping[str, Any], list[Json]]] = {}
    runs = _joined(row)
    for where, run in runs:
        try:
            items = _exchange(run, where)
        except BadRowError as problem:
            if run.get("run_type") == "llm":
                yield problem.at(filename, line)
            continue
        thread = _thread(run)
        if thread not in best or len(items) >= len(best[thread][1]):
            best[thread] = (run, items)
    if not best and not any(each.get("run_type") == "llm" for _, each in runs):
        raise BadRowError("post", "no run of a model is in it.", _MEND)
    for chosen, said in best.values():
        yield or_error(partial(_conversation, chosen, said, line, filename), filename, line)


def _joined(batch: Mapping[str, Any]) -> list[tuple[str, Json]]:
    """The runs, both halves together, each with its place."""
    runs: dict[str, tuple[str, Json]] = {}
    for half in ("post", "patch"):
        parts = batch.get(half) or []
        if not isinstance(parts, list):
            raise BadRowError(half, f"expected a list of runs, got {kind_of(parts)}.", "Leave it out when empty.")
        for at, part in enumerate(parts):
            if not isinstance(part, Mapping):
                raise BadRowError(f"{half}[{at}]", "is no run.", "Give each run as an object.")
            order = part.get("dotted_order")
            # A patch of the JavaScript client has no id: the order ends with it.
            key = str(part.get("id") or (order.rpartition("Z")[2] if isinstance(order, str) else f"{half}[{at}]"))
            where, known = runs.get(key, (f"{half}[{at}]", {}))
            runs[key] = (where, {**known, "id": key, **{k: v for k, v in part.items() if v not in (None, {}, [])}})
    return list(runs.values())


def _exchange(run: Mapping[str, Any], where: str) -> list[Json]:
    inputs, outputs = run.get("inputs"), run.get("outputs")
    if not isinstance(inputs, Mapping) or not inputs:
        raise BadRowError(f"{where}.inputs", "are missing.", _MEND)
    items = messages_of(inputs, f"{where}.inputs")
    if not isinstance(outputs, Mapping) or not outputs:
        return items
    if isinstance(outputs.get("messages"), list):
        told = messages_of(outputs["messages"], f"{where}.outputs.messages")
        return told if told[: len(items)] == items else items + told
    if isinstance(outputs.get("output"), str):
        return [*items, {"role": "assistant", "content": outputs["output"]}]
    return items + item_of(outputs.get("output", outputs), f"{where}.outputs")


def _thread(run: Mapping[str, Any]) -> str:
    facts = _metadata(run)
    named = next((facts[name] for name in _THREAD if isinstance(facts.get(name), str) and facts[name].strip()), None)
    return str(named or run.get("trace_id") or run.get("id") or "")


def _metadata(run: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = run.get("extra")
    facts = extra.get("metadata") if isinstance(extra, Mapping) else None
    return facts if isinstance(facts, Mapping) else {}


def _conversation(run: Mapping[str, Any], items: list[Json], line: int, filename: str) -> Conversation:
    facts = _metadata(run)
    return conversation(
        items,
        id_=(_thread(run),),
        line=line,
        filename=filename,
        customer=facts.get("user_id"),
        config=facts.get("ls_model_name") or run.get("name"),
        started_at=run.get("start_time"),
    )
