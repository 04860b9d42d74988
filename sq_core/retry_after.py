"""How long a server asks to be left alone: the header Retry-After, as encoders, model providers and webhooks read it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 30 * 86_400.0
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,9})?")


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Seconds, 0 to ``LONGEST_S``, from a number or from a date by the server's own clock; None if absent or unreadable.

    ``headers`` have lower-case names or do not tell case; ``retry-after-ms`` is OpenAI's, and the more exact one.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    seconds = milliseconds / 1_000 if milliseconds is not None else _number(headers.get("retry-after", ""))
    if seconds is None:
        until = _date(headers.get("retry-after", ""))
        if until is None:
            return None
        seconds = (until - (_date(headers.get("date", "")) or now or datetime.now(UTC))).total_seconds()
    return min(LONGEST_S, max(0.0, seconds))


def _number(value: str) -> float | None:
    return float(value) if _NUMBER.fullmatch(value.strip()) else None


def _date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):  # the last of numbers that no clock has
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
