"""What the evaluation, metrics and neighbours pages ask for beside the common tags."""

from collections.abc import Mapping
from typing import Any

from django import template

from console.templatetags.console import signed

register = template.Library()


@register.filter
def get(found: Mapping[str, Any], key: str) -> Any:
    """``found[key]``, or None."""
    return found.get(key)


@register.filter
def points(value: float | None) -> str:
    """A difference of two shares in points of per cent: ``+3.1``."""
    return "–" if value is None else signed(100 * float(value), 1)
