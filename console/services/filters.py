"""One filter language for pages, API, exports and bulk acts: an address is parsed here, by one function, once.

    f=channel:is:voice&f=or.channel:is:chat&f=not.scenario:is:sky-001     (voice or chat) and not sky-001

Conditions follow each other as they stand in the address: each is joined to what came before by *and*; one that begins
with ``or.`` is an alternative to the one before it, so that a list is "all of (any of …)", which any and/or/not can be
written as. ``not.`` turns a condition round. What cannot be read is kept as *ignored*, with the reason, and never an error.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from sq_core.conversation import clean_text

MOST = 20  # conditions in one address
LONGEST = 500  # characters of a value
_CONDITION = re.compile(
    r"(?P<alternative>or\.)?(?P<negated>not\.)?(?P<name>[a-z][a-z_]*):(?P<op>[a-z]+):(?P<value>.*)", re.DOTALL
)
OPS = {"text": ("is", "has"), "choice": ("is",), "flag": ("is",), "number": ("is", "gt", "gte", "lt", "lte"),
       "time": ("gte", "lt")}  # fmt: skip
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "is": lambda found, asked: asked in found if isinstance(found, frozenset) else bool(found == asked),
    "has": lambda found, asked: asked.casefold() in found.casefold(),
    "gt": lambda found, asked: bool(found > asked),
    "gte": lambda found, asked: bool(found >= asked),
    "lt": lambda found, asked: bool(found < asked),
    "lte": lambda found, asked: bool(found <= asked),
}
_LOOKUP = {"is": "", "has": "__icontains", "gt": "__gt", "gte": "__gte", "lt": "__lt", "lte": "__lte"}


@dataclass(frozen=True)
class Field:
    """What a list can be filtered by. ``column`` is the lookup path of a plain column, ``q`` builds anything else from
    (operator, value), ``get`` reads a row of a list that is worked out in Python (a frozenset: one of it is enough); a list
    needs one of them. ``choices`` are value → label; a flag's are yes and no.
    """

    name: str
    label: Any
    kind: str = "text"  # text, choice, flag, number, time
    column: str = ""
    q: Callable[[str, Any], Q] | None = None
    get: Callable[[Any], Any] | None = None
    choices: Mapping[str, Any] | None = None
    hint: Any = ""  # what a value looks like, for the form

    @property
    def ops(self) -> tuple[str, ...]:
        return OPS[self.kind]

    def read(self, value: str) -> Any:
        """The value as the field's kind has it. Raises ValueError with the mend."""
        if self.kind == "number":
            number = float(value)
            if not abs(number) < 1e15:
                raise ValueError(_("not a finite number"))
            return int(number) if number.is_integer() else number
        if self.kind == "time":
            return time_of(value)
        if self.kind == "flag":
            if value not in ("yes", "no"):
                raise ValueError(_("yes or no"))
            return value == "yes"
        if self.kind == "choice" and self.choices is not None and value not in self.choices:
            raise ValueError(_("one of %(names)s") % {"names": ", ".join(list(self.choices)[:12])})
        return clean_text(value)[0]  # what a database can hold

    def as_q(self, op: str, value: Any) -> Q:
        return self.q(op, value) if self.q else Q(**{f"{self.column or self.name}{_LOOKUP[op]}": value})


def time_of(value: str) -> datetime:
    """A time of an address, in UTC (which it is unless it names its zone), or a day, which is its midnight. Raises
    ValueError, and OverflowError where UTC has no such year.
    """
    day = parse_date(value)
    found = datetime(day.year, day.month, day.day, tzinfo=UTC) if day else parse_datetime(value)
    if found is None:
        raise ValueError(_("a day such as 2026-11-30 or a time such as 2026-11-30T12:00:00Z"))
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Condition:
    field: Field
    op: str
    text: str  # the value as the address has it
    value: Any
    negated: bool = False
    alternative: bool = False  # joined by "or" to the condition before it

    def encode(self) -> str:
        marks = ("or." if self.alternative else "") + ("not." if self.negated else "")
        return f"{marks}{self.field.name}:{self.op}:{self.text}"

    def as_q(self) -> Q:
        found = self.field.as_q(self.op, self.value)
        return ~found if self.negated else found

    def keeps(self, row: Any) -> bool:
        if self.field.get is None:
            raise TypeError(f"the field {self.field.name} has no way to read a row")
        found = self.field.get(row)
        return self.negated != (found is not None and _COMPARE[self.op](found, self.value))


@dataclass(frozen=True)
class Ignored:
    """A condition that was not used: as it stood, and why."""

    text: str
    why: str


@dataclass(frozen=True)
class Asked:
    """What an address asks of a list. Empty: everything."""

    conditions: tuple[Condition, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def groups(self) -> list[list[Condition]]:
        """All of the groups must hold, any condition inside one is enough."""
        found: list[list[Condition]] = []
        for condition in self.conditions:
            if condition.alternative and found:
                found[-1].append(condition)
            else:
                found.append([condition])
        return found

    def q(self) -> Q:
        whole = Q()
        for group in self.groups():
            any_of = Q()
            for condition in group:
                any_of |= condition.as_q()
            whole &= any_of
        return whole

    def keeps(self, row: Any) -> bool:
        return all(any(condition.keeps(row) for condition in group) for group in self.groups())

    def encode(self) -> list[str]:
        """The ``f`` values that parse to the same again."""
        return [condition.encode() for condition in self.conditions]

    def without(self, place: int) -> list[str]:
        """The ``f`` values without one condition; an alternative to it becomes a condition of its own."""
        left = list(self.conditions)
        gone = left.pop(place)
        if not gone.alternative and place < len(left):
            left[place] = replace(left[place], alternative=False)
        return [condition.encode() for condition in left]

    def value(self, name: str) -> str:
        """The value of the first plain condition on a field (neither turned round nor an alternative), or nothing."""
        plain = (c for c in self.conditions if c.field.name == name and not c.negated and not c.alternative)
        return next((c.text for c in plain), "")


def parse(raw: Iterable[str], fields: Sequence[Field]) -> Asked:
    """``raw``: the ``f`` values of an address, in order. Never raises for what somebody typed."""
    known = {field.name: field for field in fields}
    conditions: list[Condition] = []
    ignored: list[Ignored] = []
    for text in raw:
        try:
            if len(conditions) == MOST:
                raise ValueError(_("at most %(n)s conditions") % {"n": MOST})
            conditions.append(_condition(text, known))
        except (ValueError, OverflowError) as error:
            ignored.append(Ignored(text[:100], str(error)))
    return Asked(tuple(conditions), tuple(ignored))


def _condition(text: str, known: Mapping[str, Field]) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(_("not of the form field:operator:value"))
    field = known.get(found["name"])
    if field is None:
        raise ValueError(_("this list has no field %(name)s") % {"name": found["name"]})
    if found["op"] not in field.ops:
        raise ValueError(_("%(name)s takes %(ops)s") % {"name": field.name, "ops": ", ".join(field.ops)})
    if not 0 < len(found["value"]) <= LONGEST:
        raise ValueError(_("a value of 1 to %(n)s characters") % {"n": LONGEST})
    value = field.read(found["value"])
    return Condition(field, found["op"], found["value"], value, bool(found["negated"]), bool(found["alternative"]))


# -------------------------------------------------------------------------------------------------------------- bulk
@dataclass(frozen=True)
class Extent:
    """How many rows a filter matches and which: what a bulk act was previewed on."""

    count: int
    digest: str


def extent(rows: QuerySet[Any] | Iterable[int]) -> Extent:
    """``rows``: a query set, or the ids of a list worked out in Python. The digest covers the ids in their order of id."""
    ids = rows.order_by("pk").values_list("pk", flat=True).iterator() if isinstance(rows, QuerySet) else sorted(rows)
    whole, n = hashlib.sha256(), 0
    for pk in ids:
        whole.update(b"%d\n" % pk)
        n += 1
    return Extent(n, whole.hexdigest()[:32])
