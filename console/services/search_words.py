"""How text is split into words for search, in one place: what is stored, what is asked for and what is marked agree.

A word is a run of letters and digits, folded (NFKC, case); scripts that put no spaces between words (Chinese, Japanese,
Thai …) give a word per character. Version 1; another splitting means that `services.search.rebuild` must run.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 40  # characters of a word that are kept
MOST = 12  # words, and phrases, of one question
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_PART = re.compile(r"\S+")
_CHARACTER = re.compile(f"[{_UNSPACED}]")
_IOTA = "\u0345"  # the one mark that folds to a letter
_QUOTED = re.compile(r'"([^"]{1,200})"?')


def fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def words(text: str) -> set[str]:
    """The different words of a text."""
    return {found[:LONGEST] for found in _WORD.findall(fold(text))}


@dataclass(frozen=True)
class Sought:
    """What a question asks for: all of ``whole``, something that begins with ``start`` (the word still being typed), and
    all of ``phrases``, as they stand."""

    whole: tuple[str, ...] = ()
    start: str = ""
    phrases: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.whole or self.start)

    def means(self, word: str) -> bool:
        return word in self.whole or bool(self.start and word.startswith(self.start))


def sought(question: str) -> Sought:
    """Words in any order, all of them; the last one may be the beginning of one; "in quotes" as it stands."""
    phrases = tuple(_QUOTED.findall(question))[:MOST]
    rest = _QUOTED.sub(" ", question)
    plain = [found[:LONGEST] for found in _WORD.findall(fold(rest))]
    quoted = [found[:LONGEST] for phrase in phrases for found in _WORD.findall(fold(phrase))]
    open_end = bool(plain) and not rest.rstrip(" ").endswith(('"', ".", "!", "?")) and not rest.endswith(" ")
    start = plain.pop() if open_end else ""
    return Sought(tuple(dict.fromkeys(plain + quoted))[:MOST], start, tuple(p for p in phrases if words(p)))


def marks(text: str, wanted: Sought) -> Iterator[tuple[int, int, str]]:
    """Where a text has what is sought: (start, end, which word)."""
    for start, end in _runs(text):
        for piece in _WORD.findall(fold(text[start:end])):
            if wanted.means(piece[:LONGEST]):
                yield start, end, piece if piece in wanted.whole else wanted.start
                break


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text as it was written that fold into words without their neighbours."""
    if _is_plain(text):
        yield from (found.span() for found in _WORD.finditer(text))
        return
    for part in _PART.finditer(text):
        runs = (found.span() for found in _WORD.finditer(part[0])) if _is_plain(part[0]) else _odd_runs(part[0])
        yield from ((part.start() + start, part.start() + end) for start, end in runs)


def _is_plain(text: str) -> bool:
    return unicodedata.is_normalized("NFKC", text) and _IOTA not in text


def _odd_runs(text: str) -> Iterator[tuple[int, int]]:
    """As `_runs`, sign by sign: an accent of its own, and signs such as ™ and ㉠, are written in words."""
    start = None
    for place, sign in enumerate(text):
        mark = unicodedata.category(sign)[0] == "M"
        if start is not None and not mark and (_CHARACTER.match(sign) or _CHARACTER.match(text[start])):
            yield start, place
            start = None
        if mark or _WORD.search(fold(sign)):
            start = place if start is None else start
        elif start is not None:
            yield start, place
            start = None
    if start is not None:
        yield start, len(text)
