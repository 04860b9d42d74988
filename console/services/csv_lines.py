"""CSV as it leaves the house: UTF-8, one line at a time, and no cell that a spreadsheet takes for a formula."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # with the apostrophe, so that one can be taken off again


def safe_cell(value: object) -> object:
    """A text cell that a spreadsheet would take for a formula begins with an apostrophe; numbers stay numbers."""
    if isinstance(value, str) and value[:1] in FORMULA:
        return f"'{value}"
    return value


def read_cell(text: str) -> str:
    """What `safe_cell` was given."""
    return text[1:] if text[:1] == "'" and text[1:2] in FORMULA else text


class _Echo:
    """What csv writes to: gives the line back."""

    def write(self, line: str) -> str:
        return line


def csv_lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The header, then a line per row; what a row lacks is an empty cell."""
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([safe_cell(row.get(name)) for name in columns])
