"""Saved runs of τ-bench: both generations, as conversations (docs/formats.md).

τ-bench 1: ``{task_id, trial, reward, traj: [OpenAI messages]}``. τ²: ``{info, tasks, simulations: [simulation]}``, a
bare list of simulations, or one simulation a file. Its tool traffic on the user's side (``requestor: "user"``) never
reached the agent: kept, marked not visible. Simulator tokens such as ``###STOP###`` are text like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from sq_core.conversation import Conversation, MessageError, parse_time, read_messages
from sq_core.readers.jsonl import BadRowError, RowError, cleaned, kind_of, shortened, text_field

_FACTS = ("task_id", "trial", "reward", "seed", "termination_reason")


def is_tau(row: Mapping[str, Any]) -> bool:
    """True for a τ-bench 1 row, a τ² file or a τ² simulation."""
    if "traj" in row or isinstance(row.get("simulations"), list):
        return True
    return "task_id" in row and any(name in row for name in ("trial", "termination_reason", "reward_info", "ticks"))


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The conversations of one row; a whole τ² file gives one for each simulation, or its error."""
    if "traj" in row:
        yield _first_generation(row, line, filename)
        return
    simulations = row.get("simulations")
    if not isinstance(simulations, list):
        yield _simulation(row, line, filename, None)
        return
    config = _agent(row.get("info"))
    for number, simulation in enumerate(simulations, start=1):
        try:
            if not isinstance(simulation, dict):
                raise BadRowError("", f"expected an object, got {kind_of(simulation)}.", "Correct the simulation.")
            yield _simulation(simulation, number, filename, config)
        except BadRowError as problem:
            yield RowError(
                filename, number, f"simulations[{number - 1}].{problem.field}", problem.message, problem.mend
            )
        except MessageError as error:
            yield RowError(filename, number, f"simulations[{number - 1}].{error.field}", error.message, error.hint)


def _first_generation(row: Mapping[str, Any], line: int, filename: str) -> Conversation:
    task = text_field(row, "task_id", needed=False) or str(line)
    trial = text_field(row, "trial", needed=False) or "0"
    messages, replaced = read_messages(row["traj"])
    return Conversation(
        external_id=shortened(f"{PurePath(filename).stem or 'tau'}-{task}-{trial}"),
        messages=messages,
        scenario=shortened(f"task-{task}"),
        metadata=_metadata(row),
        replaced=replaced,
        line=line,
    )


def _simulation(row: Mapping[str, Any], line: int, filename: str, config: str | None) -> Conversation:
    task = text_field(row, "task_id", needed=False) or str(line)
    trial = text_field(row, "trial", needed=False) or "0"
    items = row.get("messages")
    if not isinstance(items, list):
        what = (
            "a full-duplex run (ticks) has no messages"
            if row.get("ticks")
            else f"expected a list, got {kind_of(items)}"
        )
        raise BadRowError("messages", f"run {row.get('id')}: {what}.", "Export the run as messages.")
    messages, replaced = read_messages([part for item in items for part in _message(item)])
    began = row.get("start_time") if row.get("start_time") is not None else row.get("timestamp")
    return Conversation(
        external_id=shortened(
            text_field(row, "id", needed=False) or f"{PurePath(filename).stem or 'tau2'}-{task}-{trial}"
        ),
        messages=messages,
        scenario=shortened(f"task-{task}"),
        config=config,
        started_at=parse_time(began, "start_time"),
        metadata=_metadata(row),
        replaced=replaced,
        line=line,
    )


def _message(item: Any) -> list[Any]:
    """One τ² message as the objects that `read_messages` takes; a wrapper of several tool results becomes several."""
    if not isinstance(item, dict):
        return [item]
    if isinstance(item.get("tool_messages"), list):
        return [part for member in item["tool_messages"] for part in _message(member)]
    calls = item.get("tool_calls") or []
    own = [call.get("requestor") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    requestor = item.get("requestor") or ("user" if item.get("role") == "user" and "user" in own else None)
    kept = {name: item.get(name) for name in ("role", "content", "timestamp")}
    call_id = item.get("id") if item.get("role") == "tool" else None
    more = {
        "tool_calls": calls or None,
        "requestor": requestor,
        "visible_to_agent": requestor != "user",
        "call_id": call_id,
    }
    return [kept | more]


def _metadata(row: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = {name: row[name] for name in _FACTS if isinstance(row.get(name), str | int | float)}
    return dict(cleaned(facts))


def _agent(info: object) -> str | None:
    """The agent's model from a τ² file's info, if it says so."""
    agent = info.get("agent_info") if isinstance(info, dict) else None
    model = agent.get("llm") if isinstance(agent, dict) else None
    return model if isinstance(model, str) and model else None
