"""Guidelines of Parlant as its REST API lists them: a condition, and mostly an action.

The policy's text is ``When CONDITION, then ACTION``; a guideline without an action is an observation. One that is
switched off there is refused, for it would come to life here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, kind_of, needed_text, slug, text_field
from sq_core.readers.own import ArtifactText
from sq_core.readers.phrases import each_of


def is_guideline(row: Mapping[str, Any]) -> bool:
    """True for a guideline, or for a file of them in one object."""
    if isinstance(row.get("guidelines"), list):
        return True
    inner = row.get("guideline")
    return isinstance(row.get("condition"), str) or (isinstance(inner, Mapping) and "condition" in inner)


def guidelines_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[ArtifactText | RowError]:
    """The guidelines of a row; of a whole file each on its own, so that a bad one leaves the others."""
    if not isinstance(row.get("guidelines"), list):
        yield _guideline(row.get("guideline", row), line)
        return
    yield from each_of(row["guidelines"], "guidelines", filename, _guideline)


def _guideline(row: Any, line: int) -> ArtifactText:
    if not isinstance(row, Mapping):
        raise BadRowError("", f"expected an object, got {kind_of(row)}.", "Correct the guideline.")
    condition = needed_text(row, "condition", "Say when it holds.").strip()
    action = (text_field(row, "action", needed=False) or "").strip() if row.get("action") != "" else ""
    enabled = row.get("enabled", True)
    if not isinstance(enabled, bool):
        raise BadRowError("enabled", f"expected true or false, got {kind_of(enabled)}.", "Leave it out.")
    if not enabled:
        raise BadRowError("enabled", "is false: it is switched off there.", "Leave it out, or switch it on first.")
    key = slug(str(row.get("id") or "")) or slug(condition)
    if not key:
        raise BadRowError("condition", f"{condition[:80]!r} gives no key.", "Give the guideline an id.")
    when = re.sub(r"^(when|if)\s+", "", condition.rstrip(" .,;"), flags=re.IGNORECASE)
    name = (when[:1].upper() + when[1:])[:LIMIT]
    if not action:
        return ArtifactText(key, name, condition, "observation", line=line)
    return ArtifactText(key, name, f"When {when}, then {action}", "policy", line=line)
