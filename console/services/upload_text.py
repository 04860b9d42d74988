"""What an uploaded file holds, as the readers take it: unpacked, and UTF-8 or UTF-16; and the guess which encoding it has.

A file is never held whole: bytes go through in pieces.
"""

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from console.services.errors import Invalid, TooLarge

ENCODINGS = ("utf-8", "utf-16", "latin-1")
PIECE = 64 * 1024
UNPACKED_TIMES = 10  # a gzip file may grow to so many times the limit for uploads
LOOKED_AT = 256 * 1024 * 1024  # bytes read for the guess of an encoding, about 1 s; longer ones are guessed from these
_GZIP = b"\x1f\x8b"
_SURROGATE = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte that is no UTF-8
_ASCII = re.compile("[\x00-\x7f]+")


def _rest_of_latin_1(error: UnicodeError) -> tuple[str, int]:
    """The five bytes that Windows-1252 leaves open are what Latin-1 says."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("latin-1-rest", _rest_of_latin_1)


@dataclass(frozen=True)
class Text:
    """The guess: ``invalid`` bytes are no UTF-8, ``lines`` are counted in what was looked at (``whole``: all of it)."""

    encoding: str
    gzip: bool
    invalid: int
    lines: int
    whole: bool


def unpacked(pieces: Iterable[bytes], *, most: int) -> Iterator[bytes]:
    """The bytes themselves, or what a gzip file holds (of several members, too).

    Raises Invalid for a damaged or cut archive, TooLarge for one that holds more than ``most`` bytes.
    """
    given = iter(pieces)
    first = b""
    for piece in given:
        first += piece
        if len(first) > 1:
            break
    if first[:2] != _GZIP:
        yield from chain([first] if first else [], given)
        return
    total = 0
    for piece in _members(chain([first], given)):
        total += len(piece)
        if total > most:
            raise TooLarge(
                f"The gzip file holds more than {most >> 20} MB.", field="file", hint="Send it in several files."
            )
        yield piece


def _members(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer, inside = zlib.decompressobj(wbits=31), True
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if packer.eof:
                    rest = rest.lstrip(b"\0")  # padding after a member
                    if not rest:
                        break
                    packer = zlib.decompressobj(wbits=31)
                if out := packer.decompress(rest, PIECE):
                    yield out
                rest = packer.unused_data if packer.eof else packer.unconsumed_tail
                inside = not packer.eof
        while inside and (out := packer.decompress(packer.unconsumed_tail, PIECE)):
            yield out
            inside = not packer.eof
    except zlib.error as error:
        raise Invalid(f"The gzip file is damaged: {error}.", field="file", hint="Pack it again.") from error
    if inside:
        raise Invalid("The gzip file ends early.", field="file", hint="Pack or send it again.")


def plain(pieces: Iterable[bytes], *, encoding: str, most: int) -> Iterator[bytes]:
    """As the readers take it: unpacked; Latin-1 (Windows-1252) becomes UTF-8, the others are read as they are."""
    found = unpacked(pieces, most=most)
    if encoding != "latin-1":
        yield from found
        return
    for piece in found:
        yield piece.decode("cp1252", "latin-1-rest").encode()


def looked_at(pieces: Iterable[bytes], *, most: int) -> Text:
    """Which encoding a file seems to have, and how many lines. Raises Invalid for a damaged gzip file.

    UTF-16 by its mark or by the zero bytes of its ASCII half. Else UTF-8, unless more of its bytes beyond ASCII are no
    UTF-8 than are: then Latin-1. One broken row does not make a file Latin-1.
    """
    given = iter(pieces)
    first = next(given, b"")
    gzip = first[:2] == _GZIP
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    encoding, invalid, beyond, lines, seen, last = "utf-8", 0, 0, 0, 0, b""
    for number, piece in enumerate(unpacked(chain([first] if first else [], given), most=most)):
        if number == 0 and _utf_16(piece):
            encoding = "utf-16"
        if encoding == "utf-8":
            text = decoder.decode(piece)
            wrong = len(_SURROGATE.findall(text))
            invalid, beyond = invalid + wrong, beyond + sum(map(len, _ASCII.split(text))) - wrong
        lines += piece.count(b"\n")
        seen, last = seen + len(piece), piece[-1:] or last
        if seen >= LOOKED_AT:
            return Text(_decided(encoding, invalid, beyond), gzip, invalid, lines, whole=False)
    if encoding == "utf-8":
        invalid += len(_SURROGATE.findall(decoder.decode(b"", final=True)))
    lines += bool(seen) and last not in (b"\n", b"\0")
    return Text(_decided(encoding, invalid, beyond), gzip, invalid, lines, whole=True)


def _utf_16(start: bytes) -> bool:
    return start[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(start) > 1 and (not start[0]) != (not start[1]))


def _decided(encoding: str, invalid: int, beyond: int) -> str:
    return "latin-1" if encoding == "utf-8" and invalid > beyond else encoding
