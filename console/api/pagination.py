"""Lists in pieces: ``{"items", "next"}``, each piece starting after the last row of the one before (keyset)."""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import IntegerField, Model, Q, QuerySet

from console.services.errors import Invalid

M = TypeVar("M", bound=Model)
LIMIT, MOST = 50, 200
CURSOR_LENGTH = 600
_LARGEST = 2**63


def page(
    rows: QuerySet[M], *order: str, after: str | None, limit: int, shape: Callable[[list[M]], list[Any]]
) -> dict[str, Any]:
    """One piece. ``order`` are field names, "-" for descending; the last one is unique, so that the order is total.

    Raises Invalid for a cursor that is not one of this list.
    """
    rows = rows.order_by(*order)
    if after is not None:
        rows = rows.filter(_beyond(order, _read(after, rows.model, order)))
    found = list(rows[: limit + 1])
    more = found[limit:]
    found = found[:limit]
    return {"items": shape(found), "next": _write(found[-1], order) if more else None}


def _write(row: Model, order: tuple[str, ...]) -> str:
    values = [getattr(row, name.lstrip("-")) for name in order]
    text = json.dumps([",".join(order), *values], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str, model: type[Model], order: tuple[str, ...]) -> list[Any]:
    try:
        if not cursor.isascii() or len(cursor) > CURSOR_LENGTH:
            raise ValueError
        data = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if not isinstance(data, list) or len(data) != len(order) + 1 or data[0] != ",".join(order):
            raise ValueError
        fields = [model._meta.get_field(name.lstrip("-")) for name in order]
        if not all(_fits(field, value) for field, value in zip(fields, data[1:], strict=True)):
            raise ValueError
    except (ValueError, RecursionError, binascii.Error):
        hint = "Use “next” of the piece before, unchanged, with the same filters."
        raise Invalid("This is no cursor of this list.", field="after", hint=hint) from None
    return data[1:]


def _fits(field: Any, value: Any) -> bool:
    if isinstance(field, IntegerField):  # the automatic ids are such fields too
        return type(value) is int and -_LARGEST <= value < _LARGEST
    return isinstance(value, str) and "\0" not in value and value.isprintable()


def _beyond(order: tuple[str, ...], values: list[Any]) -> Q:
    """(a, b) > (x, y) spelled out: a > x, or a = x and b > y; "<" where descending."""
    result, equal = Q(), Q()
    for name, value in zip(order, values, strict=True):
        field = name.lstrip("-")
        side = "lt" if name.startswith("-") else "gt"
        result |= equal & Q(**{f"{field}__{side}": value})
        equal &= Q(**{field: value})
    return result
