"""Attributes of spans as one nested object, however they were written: flat keys, nested ones, lists, OTLP's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sq_core.nesting import MOST, deeper_than
from sq_core.readers.chat import decoded
from sq_core.readers.jsonl import BadRowError, kind_of

_ROOTS = ("llm", "input", "output", "session", "user", "openinference")  # the others hold no words of a chat
_MOST_PARTS = 16  # of a dotted key; the longest of OpenInference has 10
_MEND = "Export the spans with their attributes."


def attributes_of(span: Mapping[str, Any]) -> dict[str, Any]:
    """Of a span of Phoenix: ``attributes`` flat or nested, or one column for each (``attributes.llm.model_name``)."""
    given = decoded(span.get("attributes"), "attributes")
    if given is None:
        prefix = "attributes."
        given = {key.removeprefix(prefix): value for key, value in span.items() if key.startswith(prefix)}
    if not isinstance(given, Mapping):
        raise BadRowError("attributes", f"expected an object, got {kind_of(given)}.", _MEND)
    return _wanted(given)


def otlp_attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Of a span of OTLP: ``[{key, value: {stringValue | intValue | …}}]``."""
    given = span.get("attributes", [])
    if not isinstance(given, list):
        raise BadRowError("attributes", f"expected a list, got {kind_of(given)}.", _MEND)
    return _wanted(_pairs(given))


def child(value: Any, *path: str) -> Any:
    """The member of nested objects, None where the path ends."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def listed(value: Any) -> list[Any]:
    """A list that was written as one, or by numbered keys (``0``, ``1``, …); empty for anything else."""
    if isinstance(value, str):
        value = _nested(decoded(value, "attributes"))
        if deeper_than(value):
            raise BadRowError("attributes", f"lists and objects more than {MOST} deep.", "Flatten them.")
    if isinstance(value, list):
        return value
    if not isinstance(value, Mapping):
        return []
    numbered = [(int(key), member) for key, member in value.items() if key.isascii() and key.isdigit() and len(key) < 8]
    return [member for _, member in sorted(numbered, key=lambda each: each[0])]


def _wanted(given: Mapping[str, Any]) -> dict[str, Any]:
    nested = _nested({key: value for key, value in given.items() if key.partition(".")[0] in _ROOTS})
    return nested if isinstance(nested, dict) else {}


def _nested(value: Any) -> Any:
    """Dotted keys as objects within objects. As deep as the row, and `_MOST_PARTS` for every key."""
    if isinstance(value, list):
        return [_nested(member) for member in value]
    if not isinstance(value, Mapping):
        return value
    root: dict[str, Any] = {}
    for key, member in value.items():
        parts = str(key).split(".", _MOST_PARTS)
        node = root
        for part in parts[:-1]:
            inner = node.get(part)
            if not isinstance(inner, dict):
                inner = node[part] = {}
            node = inner
        known, fresh = node.get(parts[-1]), _nested(member)
        if isinstance(known, dict) and isinstance(fresh, dict):
            known.update(fresh)
        else:
            node[parts[-1]] = fresh
    return root


def _pairs(given: list[Any]) -> dict[str, Any]:
    pairs = [each for each in given if isinstance(each, Mapping) and isinstance(each.get("key"), str)]
    return {each["key"]: _value(each.get("value")) for each in pairs}


def _value(value: Any) -> Any:
    """A value of OTLP as the JSON that it stands for."""
    if not isinstance(value, Mapping):
        return None
    for name in ("stringValue", "intValue", "doubleValue", "boolValue"):
        if name in value:
            return value[name]
    inner = child(value, "arrayValue", "values")
    if isinstance(inner, list):
        return [_value(each) for each in inner]
    inner = child(value, "kvlistValue", "values")
    return _pairs(inner) if isinstance(inner, list) else None
