"""What a file seems to be, told from its bytes before anything is imported: kind, format, encoding, number of lines."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from console.services import upload_text
from sq_core.readers.head import head, recognise, rows_of

HEAD = 4 * 1024 * 1024  # bytes of the plain file that a guess and a preview read
LOOKED_AT = 20  # rows


@dataclass(frozen=True)
class Guess:
    """``what`` "" = none of the kinds that can be imported; ``fields`` are those of the first row."""

    what: str
    format: str
    encoding: str
    gzip: bool
    lines: int
    lines_exact: bool
    invalid: int  # bytes that are no UTF-8, where the encoding is UTF-8 all the same
    fields: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def guess(again: Callable[[], Iterator[bytes]], *, name: str, most: int) -> Guess:
    """``again`` gives the file's bytes from the start. Raises Invalid for a damaged gzip file, TooLarge for a bomb."""
    text = upload_text.looked_at(again(), most=most)
    data, whole = beginning(upload_text.plain(again(), encoding=text.encoding, most=most))
    plain_name = name.removesuffix(".gz") or name
    found = recognise(rows_of(head(data, whole=whole, most=LOOKED_AT), LOOKED_AT, plain_name), plain_name)
    return Guess(
        what=found.what or "",
        format=found.format,
        encoding=text.encoding,
        gzip=text.gzip,
        lines=text.lines,
        lines_exact=text.whole,
        invalid=text.invalid if text.encoding == "utf-8" else 0,
        fields=tuple(field[:60] for field in found.fields),
    )


def beginning(pieces: Iterable[bytes]) -> tuple[bytes, bool]:
    """The first bytes, and whether they are all."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > HEAD:
            return bytes(data[:HEAD]), False
    return bytes(data), True
