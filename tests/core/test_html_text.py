"""HTML bodies as text: blocks, lists, entities, what is not read, and no text that takes long."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.readers.html_text import text_of_html


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("plain, a < b", "plain, a < b"),
        ("<p>hey there</p>", "hey there"),
        ('<p class="no-margin">One &amp; two<br>three</p>\n<p>four</p>', "One & two\nthree\n\nfour"),
        ("<div>a</div><div>b<br></div>", "a\n\nb"),
        ("<ul><li>one</li><li><b>t</b>wo</li></ul>after", "- one\n- two\n\nafter"),
        ("line\nbroken in   the source", "line\nbroken in   the source"),
        ("<p>line\nbroken in   the source</p>", "line broken in the source"),
        ("<script>if (a < b) {}</script><style>p {}</style>seen<!-- <b>not</b> -->", "seen"),
        ("<head><title>t</title></head><body>seen</body>", "seen"),
        ("<a title=\"5 > 4\" href='x>y'>link</a>", "link"),
        ('<a title="never closed>link</a>', "link"),
        ("&lt;b&gt; stays text&nbsp;&#128512;", "<b> stays text 😀"),
        ("a<!DOCTYPE html><?php x?>b<![CDATA[c]]>", "ab"),
        ("2 < 3 and <b>4</b> <", "2 < 3 and 4 <"),
        ("&#99999999999; &#x" + "f" * 9_000 + ";", "\ufffd \ufffd"),
        ("<!-- never closed", "<!-- never closed"),
        ("<p>“curly” – 中文</p>", "“curly” – 中文"),
        ("<img src=x onerror=alert(1)>", ""),
        ("", ""),
    ],
)
def test_words_of_html(given: str, text: str) -> None:
    assert text_of_html(given) == text


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", "<a b='", '<a b="', "<![CDATA[", "<", "</", "<!", "<script>", "&#", "&", "<p>"]
)
def test_no_text_takes_longer_than_its_length(piece: str) -> None:
    def seconds(times: int) -> float:
        began = time.perf_counter()
        text_of_html(piece * times)
        return time.perf_counter() - began

    assert seconds(40_000) < 20 * seconds(10_000) + 0.5  # the standard library's parser: 16 times, and 64 times


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="<>/!-?&#;x9'\"= abp\n[", max_size=60))
def test_any_text_gives_text(text: str) -> None:
    assert isinstance(text_of_html(text), str)
