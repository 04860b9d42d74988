"""Guidelines of ABCD: ``{flow: {description, subflows: {name: {instructions, actions}}}}``, one policy for each subflow.

The policy's text is what an agent reads there: the flow's description, the instructions, then the actions in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import clean_text
from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, kind_of, slug
from sq_core.readers.own import ArtifactText

_MEND = 'Write {"flow": {"description": "…", "subflows": {"name": {"instructions": ["…"], "actions": []}}}}.'


def is_abcd(row: Mapping[str, Any]) -> bool:
    """True for an object of flows with their subflows."""
    flows = [flow for flow in row.values() if isinstance(flow, Mapping) and isinstance(flow.get("subflows"), Mapping)]
    return bool(flows) and 2 * len(flows) > len(row)


def guidelines_of(row: Mapping[str, Any], filename: str) -> Iterator[ArtifactText | RowError]:
    """A policy for each subflow, numbered through the file; what is wrong with one leaves the others."""
    number = 0
    for flow, body in row.items():
        subflows = body.get("subflows") if isinstance(body, Mapping) else None
        if not isinstance(subflows, Mapping):
            number += 1
            yield RowError(
                filename, number, f"{flow[:80]}.subflows", f"expected an object, got {kind_of(subflows)}.", _MEND
            )
            continue
        for name, subflow in subflows.items():
            number += 1
            try:
                yield _policy(flow, name, body.get("description"), subflow, number)
            except BadRowError as problem:
                where = f"{flow[:80]}.subflows.{name[:80]}.{problem.field}".rstrip(".")
                yield RowError(filename, number, where, problem.message, problem.mend)


def _policy(flow: str, name: str, description: Any, subflow: Any, number: int) -> ArtifactText:
    if not isinstance(subflow, Mapping):
        raise BadRowError("", f"expected an object, got {kind_of(subflow)}.", _MEND)
    key = slug(f"{flow} {name}")
    if not key:
        raise BadRowError("", f"{name[:80]!r} gives no key.", "Use letters a-z or digits in the name.")
    lines = [*_texts(subflow, "instructions"), *_actions(subflow)]
    if not lines:
        raise BadRowError("instructions", "hold no text, and there are no actions.", _MEND)
    about = [description] if isinstance(description, str) and description.strip() else []
    text, replaced = clean_text("\n".join(line.strip() for line in [*about, *lines]))
    title = clean_text(f"{flow.strip()}: {name.strip()}")[0][:LIMIT]
    return ArtifactText(key, title, text, "policy", line=number, replaced=replaced)


def _actions(subflow: Mapping[str, Any]) -> Iterator[str]:
    """Each action as a line, the points below it indented by a dash."""
    actions = subflow.get("actions")
    if actions is None:
        return
    if not isinstance(actions, list):
        raise BadRowError("actions", f"expected a list, got {kind_of(actions)}.", _MEND)
    for at, action in enumerate(actions):
        if not isinstance(action, Mapping):
            raise BadRowError(f"actions[{at}]", f"expected an object, got {kind_of(action)}.", _MEND)
        named = [action[part].strip() for part in ("button", "text") if isinstance(action.get(part), str)]
        words = ": ".join(part for part in named if part)
        if words:
            yield f"{at + 1}. {words}"
        yield from (f"- {point}" for point in _texts(action, "subtext", f"actions[{at}]."))


def _texts(holder: Mapping[str, Any], name: str, where: str = "") -> list[str]:
    """A text or a list of them; empty ones are left out."""
    value = holder.get(name)
    given = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BadRowError(f"{where}{name}", "expected a text or a list of texts.", _MEND)
    return [each for each in given if each.strip()]
