"""Finding and hiding personal data: what is found, what is not, and what holds of every text."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.redaction import BUILT_IN, PLACES, Piece, Rules, cut, find_spans, pieces, redact
from sq_core.redaction_find import mod_97
from sq_core.redaction_numbers import luhn

TERMS = ("Anna Schmidt", "王小明", "O'Brien & Sons", "Projekt Ähre")
RULES = Rules(terms=TERMS)
BUILT = Rules()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mail me at jo.doe+x@example.co.uk.", "mail me at [e-mail]."),
        ("我的邮箱是li@example.com谢谢", "我的邮箱是[e-mail]谢谢"),
        ("用户@例子.公司", "[e-mail]"),
        ('write "john doe"@example.com', "write [e-mail]"),
        ("jürgen@müller.de", "[e-mail]"),
        ("ｊｏ＠ｅｘａｍｐｌｅ．ｃｏｍ", "[e-mail]"),
        ("two: a@b.org,c@d.org", "two: [e-mail],[e-mail]"),
        ("call +49 170 1234567 now", "call [phone] now"),
        ("+1 (415) 555-2671", "[phone]"),
        ("(415) 555-2671", "[phone]"),
        ("415-555-2671 or 1-800-555-2671", "[phone] or [phone]"),
        ("tel: 4155552671", "tel: [phone]"),
        ("01 23 45 67 89", "[phone]"),
        ("0170 1234567, 030/1234567", "[phone], [phone]"),
        ("0049 170 1234567", "[phone]"),
        ("电话13812345678。", "电话[phone]。"),
        ("手机：１３８１２３４５６７８", "手机：[phone]"),
        ("我的号码是138 1234 5678谢谢", "我的号码是[phone]谢谢"),
        ("هاتف \u200f+972 50-123-4567\u200f", "هاتف \u200f[phone]\u200f"),
        ("هاتف ٠٥٠١٢٣٤٥٦٧", "هاتف [phone]"),
        ("card 4111 1111 1111 1111 exp 12/25", "card [card] exp 12/25"),
        ("4111111111111111", "[card]"),
        ("卡号４１１１１１１１１１１１１１１１。", "卡号[card]。"),
        ("amex 3782-822463-10005", "amex [card]"),
        ("DE89 3704 0044 0532 0130 00 is mine", "[IBAN] is mine"),
        ("gb29nwbk60161331926819", "[IBAN]"),
        ("from 192.168.1.1:80", "from [IP address]:80"),
        ("at 2001:db8::1.", "at [IP address]."),
        ("https://u:p@example.com/x?token=abc&x=1", "https://[secret]/x?token=[secret]&x=1"),
        ("https://example.com/?page=2&API_KEY=s3cret#top", "https://example.com/?page=2&API_KEY=[secret]#top"),
        ("Hello anna\n SCHMIDT! o'brien & sons", "Hello [private]! [private]"),
        ("我是王小明。", "我是[private]。"),
        ("projekt ähre, PROJEKT A\u0308HRE", "[private], [private]"),
    ],
)
def test_found(text: str, shown: str) -> None:
    assert redact(text, RULES) == shown


@pytest.mark.parametrize(
    "text",
    [
        "order 123456789012",
        "SK118 was three hours late and nobody came",  # the remainder is an IBAN's, the digits are not
        "HB-2931-5567 and #4155552671",
        "order number 4155552671",
        "order number: 415-555-2671",
        "on 2026-11-30 10:30, again 2026-11-30T10:30:00Z",
        "01.02.2026 13:30",
        "01/12/2024 10 30",
        "12-12-2025 18 45 00",
        "$415.555.2671",
        "1,234,567.89 or 12 345 678,90 EUR",
        "EUR 1 200 300 400",
        "LH 1234 at 12:30:45",
        "PNR X7K2PQ, booking 0123 456 789",
        "1234567890123456",
        "4111111111111112",
        "4111 1111 1111 1112",
        "seat 12A, rows 14 15 16 17",
        "AA100 on 12-12-2025",
        "ISBN 0-306-40615-2",
        "version 1.2.3.4",
        "1.2.3",
        "52.520008, 13.404954",
        "订单号13812345678",
        "invoice 2024 0012 3456",
        "00123456789",
        "open 8:00-17:30",
        "ticket 001-2345678901",
        "20251130 133245",
        "DE89370400440532013001",
        "std::vector<int> a::b",
        "@anna at example dot com, a@b",
        "call in 100000 of them",
        "Annaschmidt, anna-schmidt",
        "?page=2&sort=name",
        "0.1234567890",
        "[e-mail] was written by a customer",
    ],
)
def test_left_as_it_is(text: str) -> None:
    assert redact(text, Rules(terms=("Anna Schmidt",))) == text


def test_kinds_that_are_off_are_not_looked_for() -> None:
    text = "jo@example.com 192.168.1.1"
    assert redact(text, Rules(frozenset({"ip"}))) == "jo@example.com [IP address]"
    assert redact(text, Rules(frozenset())) == text
    assert set(BUILT_IN) | {"term"} == set(PLACES)


def test_overlapping_kinds_are_one_span_of_the_first() -> None:
    text = "ftp://jo:pw@example.com"
    assert [(text[s.start : s.end], s.kind) for s in find_spans(text, BUILT)] == [("jo:pw@example.com", "credentials")]


def test_check_digits() -> None:
    assert luhn("4111111111111111")
    assert not luhn("4111111111111121")
    assert mod_97("GB29NWBK60161331926819")
    assert not mod_97("GB29NWBK60161331926891")


def test_cutting_never_cuts_a_place() -> None:
    found = pieces("write to jo@example.com or so", BUILT)
    assert "".join(p.text for p in cut(found, 14)) == "write to …"
    assert "".join(p.text for p in cut(found, 18)) == "write to [e-mail]…"
    assert "".join(p.text for p in cut(found, 19)) == "write to [e-mail] …"
    assert cut(found, 100) == found
    assert cut([Piece("abc")], 3) == [Piece("abc")]


SIGNS = st.sampled_from(
    [*"0123456789 .-/()+@:?&=_#,\n王明é١４\u200f\0x", "jo@b.org", "4111 1111 1111 1111", "+49 170 1234567", "://", "?token=",
     "[e-mail]", "[phone]", "tel ", "order ", "DE89370400440532013000", "10.0.0.1", "Anna Schmidt", "private", "415-555-2671"]
)  # fmt: skip
TEXTS = st.text(max_size=60) | st.lists(SIGNS, max_size=40).map("".join)
RULE = st.builds(
    Rules,
    kinds=st.frozensets(st.sampled_from(BUILT_IN)),
    terms=st.lists(st.sampled_from([*TERMS, "mail", "private", "[", "e", "-", "12"]), max_size=3).map(tuple),
)


@settings(max_examples=600, deadline=None)
@given(TEXTS, RULE)
def test_what_holds_of_every_text(text: str, rules: Rules) -> None:
    spans = find_spans(text, rules)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    shown = redact(text, rules)
    assert redact(shown, rules) == shown
    left, last = [], 0
    for span in spans:
        left += [text[last : span.start], PLACES[span.kind]]
        last = span.end
    assert "".join([*left, text[last:]]) == shown


HOSTILE = ("1", "@", ".", "1 ", "01 ", "a@", "a.", "://", ":", "?token=", " DE12", "a@b.", "4111 ", "call 1 ", "1.1.1.1 ", "(",
           "+", "+1", "a", '"@', "1@b.co ", "anna ", "王", "１", "-0")  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length(piece: str) -> None:
    """Eight times the text takes about eight times as long; quadratic work would take sixty-four times."""

    def took(length: int) -> float:
        text = (piece * (length // len(piece) + 1))[:length]
        best = float("inf")
        for _ in range(3):
            begun = time.thread_time()
            find_spans(text, RULES)
            best = min(best, time.thread_time() - begun)
        return best

    assert took(64_000) < 24 * took(8_000) + 0.02


def test_a_megabyte_of_digits() -> None:
    begun = time.thread_time()
    assert find_spans("7" * 1_000_000, RULES) == []
    assert time.thread_time() - begun < 5
