"""What of a call is to be ranked: its whole arguments, every scalar field, or one named argument (TRACES 2.2, rule 1)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

TargetMode = Literal["whole", "field"] | Mapping[str, str]
"""``whole``, ``field``, or a mapping tool -> path for one named argument per tool."""


class UnparsedArguments(ValueError):
    """Arguments that are no JSON."""


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def parse_arguments(text: str) -> Any:
    """The arguments as a value; none at all count as ``{}``. Raises UnparsedArguments (NaN and infinities too)."""
    if not text.strip():
        return {}
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as problem:
        raise UnparsedArguments(str(problem)) from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def targets_of(arguments: Any, tool: str, mode: TargetMode) -> list[tuple[str, str]]:
    """(path, target) of every target of one call, in the order of the arguments; a list's places share one path.

    A target is the canonical string: JSON, except that a scalar string with text stands for itself.
    """
    if mode == "whole":
        return [("", canonical(arguments))]
    leaves = [(path, _leaf(value)) for path, value in _leaves(arguments, "")]
    if mode == "field":
        return leaves
    return [(path, target) for path, target in leaves if path == mode.get(tool)]


def describe_mode(mode: TargetMode) -> str:
    """``whole``, ``field`` or ``named`` with its mapping, for reports."""
    return mode if isinstance(mode, str) else "named " + canonical(dict(mode))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for member in value:
            yield from _leaves(member, f"{path}[]")
    else:
        yield path, value


def _leaf(value: Any) -> str:
    return value if isinstance(value, str) and value.strip() else canonical(value)
