"""What hides an address from a search and not from a reader: characters that are not seen, and escapes in kept JSON."""

from itertools import pairwise

import pytest

from sq_core.redaction import BUILT_IN, Rules, find_spans, redact

RULES = Rules(frozenset(BUILT_IN), ("Jane Roe", "acme"))
MAIL = "jane.roe@example.org"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write to jane\u200b.roe@exam\u200bple.org now", "write to [e-mail] now"),
        ("jane.roe\u00ad@example.org", "[e-mail]"),
        ("jane.roe@\u2060example.org", "[e-mail]"),
        ("4111\u200b1111\u200b11111111", "[card]"),
        ("J\u200bane Ro\u00ade", "[private]"),
        ("DE89 3704\u200b 0044 0532 0130 00", "[IBAN]"),
        ("https://example.com/?to=jane.roe%40example.org&x=1", "https:[e-mail]&x=1"),
        (r'{"a":"so\n4111 1111 1111 1111\tacme"}', r'{"a":"so\n[card]\t[private]"}'),
        (r'{"to":"jane.roe\u0040example.org"}', '{"to":"[e-mail]"}'),
        (r'{"name":"J\u0061ne Roe"}', '{"name":"[private]"}'),
        (r"tel\n0170 1234567", r"tel\n[phone]"),
        ("\u200bacme\u200b", "\u200b[private]\u200b"),
        ("a\u200bb \\n %40 \\u00e9", "a\u200bb \\n %40 \\u00e9"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_what_a_reader_sees_is_hidden_and_the_rest_is_as_it_was(text: str, shown: str) -> None:
    assert redact(text, RULES) == shown
    assert redact(shown, RULES) == shown


def test_what_is_found_as_written_stays_found() -> None:
    text = f"\u200bacme\u200bs {MAIL}\u200b{MAIL}"
    assert redact(text, RULES) == "\u200b[private]\u200bs [e-mail]"
    spans = find_spans(text, RULES)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert spans[-1].end == len(text)
