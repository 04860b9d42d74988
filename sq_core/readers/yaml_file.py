"""YAML files as rows: of a file of Rasa or of semantic-router each entry of its lists, with the line it begins on.

Anchors and aliases are refused (nobody needs them here, and a few of them make a document without end), so are tags. A
file may have 4 MB: it is held whole, and parsed to many times its size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.nesting import MOST, deeper_than
from sq_core.readers.jsonl import RowError, Source, kind_of, text_lines

MOST_BYTES = 4 * 1024 * 1024
LISTS = ("nlu", "routes", "stories", "guidelines")
_SKIPPED = (
    "version",
    "rules",
    "intents",
    "entities",
    "slots",
    "responses",
    "forms",
    "actions",
    "session_config",
    "e2e_actions",
)
_MEND = "Give a file of Rasa (nlu, stories), of semantic-router (routes), or JSON lines."


def is_yaml(filename: str) -> bool:
    """By its name: YAML cannot be told from a list of notes."""
    return filename.lower().endswith((".yml", ".yaml"))


def yaml_rows(source: Source, filename: str) -> Iterator[tuple[int, Any] | RowError]:
    """The entries of the lists this file has; what it is not, as one error. Needs PyYAML (extra `console`)."""
    lines: list[str] = []
    size = 0
    for item in text_lines(source, filename):
        if isinstance(item, RowError):
            yield item
            return
        lines += [""] * (item[0] - 1 - len(lines)) + [item[1].rstrip("\n")]
        size += len(item[1])
        if size > MOST_BYTES:
            yield RowError(filename, item[0], "", f"a YAML file of more than {MOST_BYTES >> 20} MB.", "Split the file.")
            return
    document = _document("\n".join(lines), filename)
    if isinstance(document, RowError):
        yield document
        return
    if not isinstance(document, dict):
        yield RowError(filename, 1, "", f"the file is {kind_of(document)}, not names with lists.", _MEND)
        return
    found = [name for name in LISTS if isinstance(document.get(name), list)]
    if not found:
        names = ", ".join(str(name) for name in document if name != _LINE)[:120] or "nothing"
        yield RowError(filename, 1, "", f"has {names}, and none of {', '.join(LISTS)}.", _MEND)
    for name in found:
        for entry in document[name]:
            yield _line_of(entry), _bare(entry)


_LINE = "\x00line"  # no key of a YAML file holds a NUL


def _line_of(entry: Any) -> int:
    return int(entry[_LINE]) if isinstance(entry, dict) else 1


def _bare(value: Any) -> Any:
    """Without the marks of lines, and with keys and dates as text: what JSON could say."""
    if isinstance(value, Mapping):
        return {str(key): _bare(member) for key, member in value.items() if key != _LINE}
    if isinstance(value, list):
        return [_bare(member) for member in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _document(text: str, filename: str) -> Any:
    """The whole file, every mapping with its line; or what is wrong with it."""
    import yaml

    class Lined(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.events.AliasEvent) or getattr(event, "anchor", None):
                raise yaml.YAMLError(f"line {event.start_mark.line + 1}: anchors and aliases are not read")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            found: dict[Any, Any] = super().construct_mapping(node, deep=True)
            found[_LINE] = node.start_mark.line + 1
            return found

    def mapping(loader: Lined, node: Any) -> Any:
        return loader.construct_mapping(node)

    Lined.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        document = yaml.load(text, Loader=Lined)  # noqa: S506 - a SafeLoader
    except RecursionError:
        return RowError(filename, 1, "", "nested too deeply.", "Flatten it.")
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or (str(error) or type(error).__name__).splitlines()[0][:160]
        return RowError(filename, mark.line + 1 if mark else 1, "", f"not valid YAML: {problem}.", "Correct the YAML.")
    if deeper_than(document):
        return RowError(filename, 1, "", f"lists and objects more than {MOST} deep.", "Flatten it.")
    return document


def as_json(row: Any) -> str:
    """A row as a line that the JSON readers take."""
    return json.dumps(row, ensure_ascii=False)
