"""The one filter language: what an address asks for, as a query, as a test of a row, and back as an address."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

import pytest
from django.db.models import Q
from hypothesis import given
from hypothesis import strategies as st

from console.services.filters import LONGEST, MOST, Field, extent, parse

FIELDS = [
    Field("channel", "Channel", get=lambda row: row.channel),
    Field("mode", "Mode", "choice", get=lambda row: row.mode, choices={"auto": "Auto", "off": "Off"}),
    Field("turns", "Turns", "number", column="user_turn_count", get=lambda row: row.turns),
    Field("open", "Open", "flag", q=lambda op, value: Q(closed_at__isnull=value), get=lambda row: row.open),
    Field("start", "Start", "time", column="started_at"),
]


@dataclass
class Row:
    channel: str = "voice"
    mode: str = "auto"
    turns: int | None = 3
    open: bool = True


@pytest.mark.parametrize(
    ("raw", "row", "kept"),
    [
        ([], Row(), True),
        (["channel:is:voice"], Row(), True),
        (["channel:is:chat", "or.channel:is:voice"], Row(), True),
        (["channel:is:chat", "channel:is:voice"], Row(), False),
        (["channel:is:chat", "or.channel:is:voice", "turns:gt:3"], Row(), False),  # (chat or voice) and more than 3
        (["not.mode:is:off", "open:is:yes"], Row(), True),
        (["or.channel:has:OI"], Row(), True),  # "or" with nothing before it
        (["turns:lt:5"], Row(turns=None), False),
        (["not.turns:lt:5"], Row(turns=None), True),
    ],
)
def test_and_or_not(raw: list[str], row: Row, kept: bool) -> None:
    assert parse(raw, FIELDS).keeps(row) is kept


def test_the_same_as_a_query() -> None:
    found = parse(["channel:is:chat", "or.not.channel:has:oi", "turns:gte:4", "open:is:no"], FIELDS).q()
    wanted = Q(channel="chat") | ~Q(channel__icontains="oi")
    assert found == wanted & Q(user_turn_count__gte=4) & Q(closed_at__isnull=False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("channel", "form"),
        ("colour:is:red", "no field colour"),
        ("channel:gt:a", "takes is, has"),
        ("turns:gt:many", "could not convert"),
        ("turns:gt:nan", "finite"),
        ("turns:gt:1e400", "finite"),
        ("mode:is:on", "auto, off"),
        ("open:is:1", "yes or no"),
        ("start:gte:yesterday", "2026-11-30"),
        ("start:gte:2026-02-31", "day is out of range"),
        ("start:gte:0001-01-01T00:00:00+14:00", "out of range"),  # a time, but none that UTC has
        ("start:lt:9999-12-31T23:59:59-14:00", "out of range"),
        ("channel:is:", "1 to 500"),
        ("channel:is:" + "x" * (LONGEST + 1), "1 to 500"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_rest_holds(text: str, why: str) -> None:
    asked = parse([text, "turns:gt:2"], FIELDS)
    assert [c.encode() for c in asked.conditions] == ["turns:gt:2"]
    assert why in asked.ignored[0].why


def test_no_address_is_too_long() -> None:
    asked = parse(["turns:gt:2"] * (MOST + 5), FIELDS)
    assert (len(asked.conditions), len(asked.ignored)) == (MOST, 5)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.text(min_size=1, max_size=40)), max_size=6))
def test_an_address_reproduces_the_view_whatever_the_value(parts: list[tuple[bool, bool, str]]) -> None:
    raw = [f"{'or.' * other}{'not.' * negated}channel:is:{text}" for other, negated, text in parts]
    asked = parse(raw, FIELDS)
    assert not asked.ignored
    address = urlencode({"f": asked.encode()}, doseq=True, errors="surrogatepass")
    again = parse(parse_qs(address, errors="surrogatepass").get("f", []), FIELDS)
    assert again.conditions == asked.conditions


def test_the_extent_knows_which_rows() -> None:
    assert extent([3, 1, 2]) == extent([1, 2, 3])
    assert extent([1, 2]).count == extent([1, 3]).count == 2
    assert extent([1, 2]).digest != extent([1, 3]).digest
