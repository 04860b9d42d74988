"""HTML as people read it: text with line breaks where blocks end, entities decoded, scripts and comments left out.

Not `html.parser`: on tags that never end its time grows with the square of the text and more (60 kB of ``<a `` take
minutes), and these bodies are written by strangers. Every character is looked at a fixed number of times here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

# A ">" within quotes does not end a tag; where the quotes never close, the next one does.
_TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9]*)(?:(?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|[^<>]*>)|<[!?][^<>]*>""")
_BLOCKS = frozenset(
    "address article aside blockquote dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p "
    "pre section table td th tr ul".split()
)
_PARAGRAPHS = frozenset("p h1 h2 h3 h4 h5 h6 blockquote pre table ul ol".split())
_UNREAD = ("script", "style", "head", "title", "template")
_LONG_ENTITY = re.compile(r"&#(?:[0-9]{8,}|[xX][0-9a-fA-F]{8,});?")  # no character, and more than int() takes
_SPACES = re.compile(r"[^\S\n\xa0]+")


def text_of_html(value: str) -> str:
    """The words of a body of HTML; of plain text the same text, its entities decoded. Linear in its length."""
    if "<" not in value and "&" not in value:
        return value.strip()
    pieces = "".join(_pieces(_without_comments(value)))
    lines = [_SPACES.sub(" ", line).strip() for line in pieces.replace("\xa0", " ").split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _pieces(text: str) -> Iterator[str]:
    """Words and line breaks in turn."""
    at, closing = 0, ""  # `closing`: the unread element that is open
    for tag in _TAG.finditer(text):
        if not closing:
            yield _words(text[at : tag.start()])
        at = tag.end()
        end, name = bool(tag[1]), (tag[2] or "").lower()
        if closing:
            closing = "" if end and name == closing else closing
        elif name in _UNREAD and not end:
            closing = name
        elif name == "br":
            yield "\n"
        elif name == "li":
            yield "" if end else "\n- "
        elif name in _PARAGRAPHS:
            yield "\n\n"
        elif name in _BLOCKS:
            yield "\n"
    if not closing:
        yield _words(text[at:])


def _words(text: str) -> str:
    """A run of text between two tags: its own line breaks are spaces."""
    return html.unescape(_LONG_ENTITY.sub("\ufffd", re.sub(r"[\t\n\r\f]", " ", text)))


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while (begin := text.find("<!--", at)) >= 0:
        end = text.find("-->", begin + 4)
        if end < 0:
            break
        kept.append(text[at:begin])
        at = end + 3
    return "".join([*kept, text[at:]])
