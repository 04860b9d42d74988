"""Retry-After as servers send it: seconds, OpenAI's milliseconds, a date by their own clock, and what is none of these."""

from datetime import UTC, datetime

import pytest

from sq_core.retry_after import LONGEST_S, retry_after

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("17", 17.0), (" 0.5 ", 0.5), ("-3", 0.0), ("9" * 20, LONGEST_S), ("", None), ("soon", None), ("inf", None),
     ("nan", None), ("١٢", None), ("Mon, 30 Nov 2026 12:00:30 GMT", 30.0), ("Mon, 30 Nov 2026 12:00:30 -0000", 30.0),
     ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0), ("Mon, 30 Nov 9999 12:00:00 GMT", LONGEST_S)],
)  # fmt: skip
def test_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, now=NOON) == seconds


def test_the_server_s_own_clock_counts_where_it_tells_it() -> None:
    headers = {"retry-after": "Mon, 30 Nov 2026 12:01:30 GMT", "date": "Mon, 30 Nov 2026 12:00:00 GMT"}
    assert retry_after(headers, now=NOON.replace(hour=18)) == 90.0


def test_milliseconds_are_the_more_exact_ones() -> None:
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after({"retry-after-ms": "often", "retry-after": "9"}) == 9.0
    assert retry_after({}) is None


@pytest.mark.parametrize("date", ["Mon, 01 Jan 2026 00:00:00 +" + "9" * 20, "Mon, " + "9" * 20 + " Jan 2026 00:00:00"])
def test_a_date_that_no_clock_has_is_none(date: str) -> None:
    assert retry_after({"retry-after": date}) is None
    assert retry_after({"retry-after": "Wed, 01 Jan 2098 00:00:00 GMT", "date": date}) is not None
