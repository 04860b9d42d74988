"""The filter bar above every list: its conditions as chips, the form that adds one, what was ignored, count and orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.services.filters import Asked, Condition, Field

LISTED = 40  # choices of a field that the form lists; beyond, the value is typed
OPS: dict[str, Any] = {
    "is": gettext_lazy("is"),
    "has": gettext_lazy("contains"),
    "gt": gettext_lazy("more than"),
    "gte": gettext_lazy("at least"),
    "lt": gettext_lazy("less than"),
    "lte": gettext_lazy("at most"),
}
TIMES: dict[str, Any] = {"gte": gettext_lazy("from"), "lt": gettext_lazy("before")}
FORM = ("where", "value", "join", "not")  # of the form that adds a condition


@dataclass(frozen=True)
class Chip:
    """One condition. ``joined`` is "", "and" or "or"; ``query`` the address without it."""

    joined: str
    negated: bool
    label: str
    op: str
    value: str
    query: str


@dataclass(frozen=True)
class Switch:
    """A condition that is often wanted, with what it would leave; ``query`` switches it."""

    label: Any
    n: int | None
    on: bool
    query: str


@dataclass
class Bar:
    q: str
    chips: list[Chip]
    ignored: list[tuple[str, str]]  # as it stood, and why
    options: list[tuple[Any, list[tuple[str, Any]]]]  # per field: (value of ``where``, words)
    kept: list[tuple[str, str]]  # of the address, for forms: f, sort, q
    shown: int = 0
    total: int | None = None  # None = not counted
    more: bool = False  # more than ``total``
    switches: list[Switch] = field(default_factory=list)
    anything: bool = False  # the address narrows the list

    def kept_but(self, *names: str) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.kept if name not in names]

    @property
    def for_search(self) -> list[tuple[str, str]]:
        return self.kept_but("q")


def bar(
    query: QueryDict,
    asked: Asked,
    fields: Sequence[Field],
    *,
    ignored: Sequence[tuple[str, str]] = (),
    switches: Mapping[str, tuple[Any, int | None]] | None = None,
    shown: int = 0,
    total: int | None = None,
    more: bool = False,
) -> Bar:
    """``switches``: conditions ("flag:is:judge") with their words and how many rows they would leave (None = not counted)."""
    chips = [
        Chip(
            joined="" if not n else "or" if c.alternative else "and",
            negated=c.negated,
            label=str(c.field.label),
            op=_op(c.field, c.op),
            value=_value(c),
            query=_address(query, asked.without(n)),
        )
        for n, c in enumerate(asked.conditions)
    ]
    present = asked.encode()
    return Bar(
        q=query.get("q", ""),
        chips=chips,
        ignored=[(one.text, one.why) for one in asked.ignored] + list(ignored),
        options=[(f.label, _options(f)) for f in fields],
        kept=[(name, value) for name in ("q", "f", "sort") for value in query.getlist(name) if value],
        shown=shown,
        total=total,
        more=more,
        switches=[
            Switch(label, n, text in present, _switched(query, asked, text))
            for text, (label, n) in (switches or {}).items()
            if n != 0 or text in present
        ],
        anything=bool(asked or query.get("q")),
    )


def _op(f: Field, op: str) -> str:
    return str(TIMES[op] if f.kind == "time" else OPS[op])


def _value(c: Condition) -> str:
    if c.field.kind == "flag":
        return _("yes") if c.value else _("no")
    if c.field.choices and c.text in c.field.choices:
        return str(c.field.choices[c.text])
    return c.text


def _options(f: Field) -> list[tuple[str, Any]]:
    if f.kind == "flag":
        return [(f"{f.name}:is:yes", _("%(name)s: yes") % {"name": f.label}),
                (f"{f.name}:is:no", _("%(name)s: no") % {"name": f.label})]  # fmt: skip
    if f.choices and len(f.choices) <= LISTED:
        return [(f"{f.name}:is:{value}", f"{f.label}: {label}") for value, label in f.choices.items()]
    hint = f" ({f.hint})" if f.hint else ""
    return [(f"{f.name}:{op}", f"{f.label} {_op(f, op)} …{hint}") for op in f.ops]


def _address(query: QueryDict, f: Sequence[str]) -> str:
    changed = query.copy()
    changed.setlist("f", list(f))
    for name in ("after", "view", *FORM):
        changed.pop(name, None)
    return "?" + changed.urlencode()


def _switched(query: QueryDict, asked: Asked, text: str) -> str:
    present = asked.encode()
    return _address(query, asked.without(present.index(text)) if text in present else [*present, text])


def added(query: QueryDict) -> str | None:
    """Where the form that adds a condition leads: the address with it; None where the form was not sent."""
    where = query.get("where")
    if where is None:
        return None
    kept = [f for f in query.getlist("f") if f]
    value = query.get("value", "").strip()
    text = where if where.count(":") > 1 else f"{where}:{value}"
    if where:
        marks = ("or." if query.get("join") == "or" and kept else "") + ("not." if query.get("not") else "")
        kept.append(f"{marks}{text}")
    return _address(query, kept)
