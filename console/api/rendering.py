"""JSON in and out: what is sent is finite and clean, and the same answer has the same bytes."""

import json
import math
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser as NinjaParser
from ninja.renderers import BaseRenderer
from ninja.responses import NinjaJSONEncoder

from console.services.errors import Invalid, Malformed
from sq_core.conversation import clean_text
from sq_core.nesting import MOST, deeper_than

LARGEST = 2**63 - 1
DIGITS = 300  # more are infinite to a float as well


def render(data: Any) -> bytes:
    """Compact UTF-8. Raises ValueError for NaN and infinity: no JSON reader has to take them."""
    text = json.dumps(data, cls=NinjaJSONEncoder, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


class Renderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return render(data)


class Parser(NinjaParser):
    """Strict JSON: no NaN, no infinity, no endless integers; NUL and lone surrogates become U+FFFD and are counted."""

    def parse_body(self, request: HttpRequest) -> Any:
        value, replaced = read_json(request.body)
        request.replaced_characters = replaced  # type: ignore[attr-defined]
        return value


def read_json(data: bytes) -> tuple[Any, int]:
    """The value and the number of characters replaced.

    Raises Malformed (400) for what is no JSON, Invalid (422) with the field for a number that is not finite or bounded.
    """
    counter = _Cleaner()
    try:
        value = json.loads(data, parse_int=_int)
        if deeper_than(value):
            raise RecursionError
        return counter.clean(value), counter.replaced
    except RecursionError:
        raise Malformed(f"Lists and objects more than {MOST} deep.", hint="Flatten the body.") from None
    except ValueError as error:
        raise Malformed(f"The body is not JSON: {error}.", hint="Send one JSON object, encoded as UTF-8.") from error


def _int(text: str) -> int | float:
    return int(text) if len(text) <= DIGITS else math.inf  # endless digits cost quadratic time: refused below


class _Cleaner:
    """Walks a value; ``path`` is where it stands, for the error."""

    def __init__(self) -> None:
        self.replaced = 0
        self.path: list[str | int] = []

    def clean(self, value: Any) -> Any:
        match value:
            case str():
                text, count = clean_text(value)
                self.replaced += count
                return text
            case dict():
                return {self.clean(key): self._at(key, item) for key, item in value.items()}
            case list():
                return [self._at(number, item) for number, item in enumerate(value)]
            case bool() | None:
                return value
            case _ if not math.isfinite(value):
                raise Invalid("This number is not finite.", field=self._place(), hint="Send finite numbers only.")
            case int() if not -LARGEST <= value <= LARGEST:
                raise Invalid("This number is too large.", field=self._place(), hint="Send a smaller number, or text.")
            case _:
                return value

    def _at(self, part: str | int, item: Any) -> Any:
        self.path.append(part)
        cleaned = self.clean(item)
        self.path.pop()
        return cleaned

    def _place(self) -> str:
        return dotted([clean_text(part)[0][:80] if isinstance(part, str) else part for part in self.path])


def dotted(path: Sequence[str | int]) -> str:
    """``messages[0].role``, as the services write the place of a field."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
