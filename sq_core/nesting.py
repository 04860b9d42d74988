"""How deeply a JSON value may be nested: beyond what any log holds, well within what recursive code can walk."""

from __future__ import annotations

from typing import Any

MOST = 100  # lists and objects within each other, the outermost counted


def deeper_than(value: Any, levels: int = MOST) -> bool:
    """Whether lists and objects lie more than `levels` within each other. Walks level by level, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not level:
            return False
        level = [
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
            if isinstance(member, dict | list)
        ]
    return bool(level)
