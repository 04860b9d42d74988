"""The rows that an import rejected, as they stand in the file: to be mended there and brought again."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from console.models import Upload
from console.services import uploads
from sq_core.readers import RowError
from sq_core.readers.head import SAVED_RUNS
from sq_core.readers.jsonl import json_rows, parse, text_lines
from sq_core.readers.yaml_file import is_yaml, yaml_rows


def rejected_rows(upload: Upload, *, encoding: str, lines: Collection[int]) -> Iterator[bytes]:
    """JSON lines. Of a file of lines its own lines, broken ones too; of an array, a saved run or a file of YAML the
    members.

    Raises Invalid where the file is no longer kept.
    """
    wanted = set(lines)
    name = upload.name.removesuffix(".gz")
    with uploads.plain_file(upload, encoding=encoding) as path:
        if not is_yaml(name) and _is_lines(path):
            for item in text_lines(path, upload.name):
                if not isinstance(item, RowError) and item[0] in wanted:
                    yield item[1].strip().encode() + b"\n"
            return
        for number, value in _members(path, name):
            if number in wanted:
                yield json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _is_lines(path: Path) -> bool:
    """Whether rows stand in lines of their own, and not in one document of all."""
    items = text_lines(path, "")
    first = next((item for item in items if isinstance(item, RowError) or item[1].strip()), None)
    if first is None or isinstance(first, RowError):
        return True
    try:
        value = parse(first[1])
    except ValueError:  # a document of many lines, or a line that is broken
        return isinstance(next(json_rows(path, ""), None), RowError)
    return isinstance(value, dict) and _runs(value) is None


def _members(path: Path, name: str) -> Iterator[tuple[int, Any]]:
    for item in yaml_rows(path, name) if is_yaml(name) else json_rows(path, name):
        if isinstance(item, RowError):
            continue
        number, value = item
        runs = _runs(value) if isinstance(value, dict) else None
        if runs is None:
            yield number, value
        else:
            yield from enumerate(runs, start=1)


def _runs(value: dict[str, Any]) -> list[Any] | None:
    """The runs of a document that holds all of them."""
    return next((value[name] for name in SAVED_RUNS if isinstance(value.get(name), list)), None)
