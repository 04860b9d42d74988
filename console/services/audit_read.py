"""The audit as lists, pages and files read it: one filter for all of them, newest first by row number. Writes nothing."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from console.models import AuditEvent, Inventory
from console.services.actor import RUN_REQUEST
from console.services.csv_lines import csv_lines
from console.services.errors import NotFound
from console.services.filters import Asked, Field, parse
from console.services.redaction import masked_json

PAGE = 50
PUBLIC_ID = re.compile(r"[2-9a-z]{12}")
COUNTED = 10_000  # rows of a filter that are counted; beyond it the page says "more than"
SYSTEM = "system"  # how an address names the system, whose rows have no actor
OF_A_POLICY = ("artifact", "exemplar", "policy", "version")  # their rows have the policy's key as label
COLUMNS = (
    "id", "at", "actor", "action", "object_type", "object_id", "label", "before", "after", "reason", "request_id", "run",
    "release",
)  # fmt: skip
FORMS = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


def _text(column: str, op: str, value: str) -> Q:
    return Q(**{f"{column}{'__icontains' if op == 'has' else ''}": value})


def _actor(op: str, value: str) -> Q:
    if op == "is" and value == SYSTEM:
        return Q(actor="") | Q(actor=SYSTEM)
    return _text("actor", op, value)


def _action(op: str, value: str) -> Q:
    """One action (exemplar.promote) or its first part."""
    return _text("action", op, value) if op == "has" else Q(action=value) | Q(action__startswith=f"{value}.")


def _object(op: str, value: str) -> Q:
    """By its id or its kind; an example also where several were decided on at once."""
    if op == "has":
        return _text("object_id", op, value)
    found = Q(object_id=value) | Q(object_type=value)
    if PUBLIC_ID.fullmatch(value):
        found |= Q(object_type="exemplar", after__exemplars__has_key=value)
    return found


def _policy(op: str, value: str) -> Q:
    return Q(object_type__in=OF_A_POLICY) & _text("label", op, value)


def _run(op: str, value: str) -> Q:
    """What was done to a run, and what the run wrote."""
    if op == "has":
        return Q(request_id__startswith=RUN_REQUEST, request_id__icontains=value)
    return Q(object_type="run", object_id=value) | Q(request_id=RUN_REQUEST + value)


FIELDS = (
    Field("actor", _("Who"), q=_actor),
    Field("action", _("Action"), q=_action),
    Field("object", _("Object"), q=_object),
    Field("policy", _("Policy"), q=_policy),
    Field("label", _("Name of the object"), column="label"),
    Field("run", _("Run"), q=_run),
    Field("request", _("Request"), column="request_id"),
    Field("reason", _("Why"), column="reason"),
    Field("release", _("Release"), "number"),
    Field("at", _("When"), "time"),
)
PLAIN = (
    ("actor", "actor:is:"),
    ("object", "object:is:"),
    ("action", "action:is:"),
    ("from", "at:gte:"),
    ("to", "at:lt:"),
)


def asked(plain: Mapping[str, str], conditions: list[str]) -> Asked:
    """``?actor=&object=&action=&from=&to=`` and ``f=``, all of which must hold."""
    short = [start + plain[name].strip() for name, start in PLAIN if plain.get(name, "").strip()]
    return parse([*short, *conditions], FIELDS)


def events(inventory: Inventory, wanted: Asked) -> "QuerySet[AuditEvent]":
    return AuditEvent.objects.filter(wanted.q(), inventory=inventory.slug).order_by("-id")


@dataclass(frozen=True)
class Page:
    rows: list[AuditEvent]
    next: int | None
    total: int  # at most COUNTED + 1

    @property
    def more(self) -> bool:
        """There are more than were counted."""
        return self.total > COUNTED


def page(inventory: Inventory, wanted: Asked, *, before: int | None = None, size: int = PAGE) -> Page:
    """``before``: the row number after which the page before ended. Two queries."""
    rows = events(inventory, wanted)
    found = list((rows.filter(id__lt=before) if before is not None else rows)[: size + 1])
    total = rows.order_by()[: COUNTED + 1].count()
    return Page(found[:size], found[size - 1].pk if len(found) > size else None, total)


def run_of(event: AuditEvent) -> str:
    """The public id of the run that a row is about, or that wrote it; "" for none."""
    if event.object_type == "run":
        return event.object_id
    return event.request_id.removeprefix(RUN_REQUEST) if event.request_id.startswith(RUN_REQUEST) else ""


# --------------------------------------------------------------------------------------------------------------- as a file
def lines(inventory: Inventory, wanted: Asked, form: str) -> Iterator[bytes]:
    """All rows of the filter, newest first. Raises NotFound for a form that there is not."""
    if form not in FORMS:
        raise NotFound(f"The audit is not written as {form[:20]!r}.", field="form")
    rows = (_record(inventory, event) for event in events(inventory, wanted).iterator(2_000))
    if form == "jsonl":
        return (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
    return (line.encode() for line in csv_lines(COLUMNS, (_cells(row) for row in rows)))


def _record(inventory: Inventory, event: AuditEvent) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in COLUMNS if name != "run"}
    values |= {side: masked_json(inventory, values[side]) for side in ("before", "after")}
    return values | {"at": event.at.astimezone(UTC).isoformat(), "run": run_of(event)}


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """What changed as JSON in its cell; nothing where there is nothing."""
    sides = {
        name: "" if row[name] is None else json.dumps(row[name], ensure_ascii=False, sort_keys=True)
        for name in ("before", "after")
    }
    return row | sides
