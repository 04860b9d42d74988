"""Settings and operating points in the reader's words: the field, and its value before and after."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.presenters import labels
from console.services.release_diff import FieldChange
from sq_core.scoring import PRESETS

NONE = "–"


@dataclass(frozen=True)
class Item:
    """A field that differs: its label and both values as they are printed."""

    label: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.label}: {self.a} → {self.b}"


def items(rows: Iterable[FieldChange], *, technical: bool, names: Mapping[str, str] | None = None) -> list[Item]:
    """``names`` are the artifacts' by key, for what comes along."""

    def said(field: str, value: Any) -> str:
        return value_words(field, value, technical=technical, names=names or {})

    return [
        Item(labels.term(row.field, technical=technical), said(row.field, row.a), said(row.field, row.b))
        for row in rows
    ]


def value_words(field: str, value: Any, *, technical: bool, names: Mapping[str, str] | None = None) -> str:
    """A value of ``status``, ``mode``, ``fit_set``, ``requires``, ``entails`` or of an operating point's record."""
    match field:
        case "theta":
            return signed(value)
        case "pooling":
            return _pooling(value, technical=technical)
        case "expiry":
            return _expiry(value)
        case "target_recall":
            return f"{100 * value:.0f}\u00a0%"
        case "calibrated":
            return _("yes") if value else _("no")
        case "requires" | "entails":
            return ", ".join((names or {}).get(key, key) for key in value) or _("nothing")
        case "status" if value is None:
            return labels.term("absent", technical=technical)
        case "status" | "mode" | "fit_set" if value is not None:
            return labels.term(value, technical=technical)
        case _:
            return NONE if value is None else str(value)


def signed(value: float, digits: int = 3) -> str:
    """With a true minus; a cut-off has as many digits as the fields that set it show."""
    rounded = round(float(value), digits)
    return f"{'−' if rounded < 0 else '+' if rounded > 0 else ''}{abs(rounded):.{digits}f}"


def _pooling(record: Mapping[str, Any], *, technical: bool) -> str:
    if technical:
        preset = next((name for name, pooling in PRESETS.items() if pooling.to_json() == record), None)
        return preset or json.dumps(record, sort_keys=True)
    views = [_view(view) for view in record["views"]]
    said = _(" and ").join(views)
    if len(views) > 1 or "user_turns" in record["views"]:
        said = (_("the mean of %(views)s") if record["mode"] == "mean" else _("the strongest of %(views)s")) % {
            "views": said
        }
    return said + (_(", older messages counting less") if record["age_discount"] else "")


def _view(view: str | Mapping[str, int]) -> str:
    if isinstance(view, Mapping):
        return ngettext("the newest message", "the newest %(n)s messages", view["last"]) % {"n": view["last"]}
    return _("the whole chat so far") if view == "cumulative" else _("all messages")


def _expiry(record: Mapping[str, int | None]) -> str:
    parts = []
    if record["others"] is not None:
        n = record["others"]
        parts.append(
            ngettext("after %(n)s other was newly selected", "after %(n)s others were newly selected", n) % {"n": n}
        )
    if record["turns"] is not None:
        n = record["turns"]
        parts.append(ngettext("after %(n)s message", "after %(n)s messages", n) % {"n": n})
    return _(" or ").join(parts) or _("never")
