"""Spans of personal data in a text, and the text with each shown as its kind. Pure, and linear in the length of the text.

A span is found by shape and check digits (`redaction_find`), never by an expression that a user wrote. What has no check
digit, a phone number, is found by how people write one; an order's number, a date or a price is left as it is.
"""

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sq_core import redaction_find as find

# By precedence where two overlap; the value is what stands in place of a span, and what is never looked into again.
PLACES = {
    "credentials": "[secret]",
    "email": "[e-mail]",
    "card": "[card]",
    "iban": "[IBAN]",
    "phone": "[phone]",
    "ip": "[IP address]",
    "term": "[private]",
}
BUILT_IN = tuple(kind for kind in PLACES if kind != "term")
MOST_TERMS, LONGEST_TERM = 500, 100
_PASSES = 8  # what is hidden may leave something to be found beside it
_KEPT = re.compile("|".join(re.escape(place) for place in PLACES.values()))
# What is written and not seen, the @ of an address in an address, and JSON's escapes in arguments kept as they came.
_WRITTEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]+"
    r"|%40|\\u[0-9A-Fa-f]{4}|\\[nrtbf]"
)
_RANK = {kind: rank for rank, kind in enumerate(PLACES)}


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (excluded) of the text; ``kind`` is a key of PLACES."""

    start: int
    end: int
    kind: str


class Piece(NamedTuple):
    """A part of a text as it is shown; ``kind`` is empty for what is shown as it was written."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Rules:
    """What is looked for: built-in kinds, and an inventory's own words and phrases, whole and in either case."""

    kinds: frozenset[str] = frozenset(BUILT_IN)
    terms: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.kinds or self.terms)


def find_spans(text: str, rules: Rules) -> list[Span]:
    """Sorted and disjoint; those that overlap are one, of the kind that comes first in PLACES."""
    if not text or not rules:
        return []
    folded = _KEPT.sub(lambda kept: find.BARRIER * len(kept[0]), text)
    folded = find.fold(folded)
    spans: list[Span] = []
    for _ in range(_PASSES):
        fresh = _scan(folded, rules)
        if not fresh:
            break
        spans += fresh
        folded = _barred(folded, fresh)
    return sorted(spans)


def pieces(text: str, rules: Rules) -> list[Piece]:
    """The text cut at its spans, each span as its place; joined they are `redact`."""
    found: list[Piece] = []
    last = 0
    for start, end, kind in find_spans(text, rules):
        if start > last:
            found.append(Piece(text[last:start]))
        found.append(Piece(PLACES[kind], kind))
        last = end
    if last < len(text):
        found.append(Piece(text[last:]))
    return found


def redact(text: str, rules: Rules) -> str:
    """Each span as its place. What lies outside of spans is unchanged; done twice it changes nothing more."""
    return "".join(piece.text for piece in pieces(text, rules))


def cut(found: Iterable[Piece], length: int) -> list[Piece]:
    """At most ``length`` characters as shown, the last an ellipsis where something was left out; a place is never cut."""
    whole = list(found)
    if sum(len(piece.text) for piece in whole) <= length:
        return whole
    kept: list[Piece] = []
    left = length - 1
    for piece in whole:
        if len(piece.text) > left:
            kept += [Piece(piece.text[:left])] if left > 0 and not piece.kind else []
            break
        kept.append(piece)
        left -= len(piece.text)
    return [*kept, Piece("…")]


def _barred(folded: str, spans: list[Span]) -> str:
    """The text with barriers in place of the spans, which are sorted."""
    parts, last = [], 0
    for start, end, _kind in spans:
        parts += [folded[last:start], find.BARRIER * (end - start)]
        last = end
    return "".join([*parts, folded[last:]])


def _scan(folded: str, rules: Rules) -> list[Span]:
    """What is found in it as it is written, and in it as it is read."""
    found = _found(folded, rules)
    if _WRITTEN.search(folded):
        text, places = _as_read(folded)
        found += [Span(_start(places, start), _end(places, end), kind) for start, end, kind in _found(text, rules)]
    return _merged(found)


def _as_read(folded: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without what is not seen and with escapes undone, and (place in it, place in the text) where the two part."""
    parts: list[str] = []
    places = [(0, 0)]
    size = last = 0
    for found in _WRITTEN.finditer(folded):
        sign = _sign(found[0])
        parts += [folded[last : found.start()], sign]
        size += found.start() - last
        places.append((size, found.start()))
        size += len(sign)
        last = found.end()
        places.append((size, last))
    return find.fold("".join([*parts, folded[last:]])), places


def _sign(written: str) -> str:
    if written == "%40":
        return "@"
    if written[0] != "\\":
        return ""
    return bytes.fromhex(written[2:]).decode("utf-16-be", "replace") if written[1] == "u" else " "


def _start(places: list[tuple[int, int]], at: int) -> int:
    """Of the places that are one as it is read, the last: what is not seen before a span stays outside of it."""
    read, written = places[bisect_right(places, (at, sys.maxsize)) - 1]
    return written + at - read


def _end(places: list[tuple[int, int]], at: int) -> int:
    """The first of them."""
    n = bisect_left(places, (at, 0))
    read, written = places[n] if n < len(places) and places[n][0] == at else places[n - 1]
    return written + at - read


def _found(folded: str, rules: Rules) -> list[Span]:
    found = [
        Span(start, end, kind)
        for kind, look in find.FINDERS.items()
        if kind in rules.kinds
        for start, end in look(folded)
    ]
    if rules.terms:
        found += [Span(start, end, "term") for start, end in find.terms(folded, rules.terms)]
    return found


def _merged(found: list[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in sorted(found):
        if kept and span.start < kept[-1].end:
            last = kept[-1]
            kind = min(last.kind, span.kind, key=_RANK.__getitem__)
            kept[-1] = Span(last.start, max(last.end, span.end), kind)
        else:
            kept.append(span)
    return kept
