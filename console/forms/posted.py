"""JSON that a form of ours carries along and posts back: what anybody may have put in its place is refused as one error."""

import json
import math
from typing import Any

from sq_core.nesting import deeper_than
from sq_core.readers.jsonl import cleaned

DEEP = 10  # no form of ours carries more


def posted_json(text: str) -> Any:
    """The value, its texts cleaned as those of plain fields are (escapes hide NUL and lone surrogates from a middleware).

    Raises ValueError for what is no JSON, nested deeply, or holds a number that is not finite.
    """
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if deeper_than(value, DEEP):
        raise ValueError("nested too deeply")
    return cleaned(value)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return value
