"""Audit rows in words: who, what, on which object, what it was and became. Readable after the object is gone."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.models import AuditEvent, Inventory, Run
from console.presenters import changes, labels
from console.presenters.names import policy_names
from console.services.audit_read import OF_A_POLICY, run_of
from console.services.redaction import masked_json

NONE = "–"
OF_A_CHANGE = {*OF_A_POLICY, "operating_point", "release"}  # rows that a change wrote
SHORT, LONG, FIELDS_SHOWN = 120, 4_000, 8  # characters of a value in the line and of a side opened; fields in the line


@dataclass(frozen=True)
class Item:
    label: str
    a: str  # "" of what was not there before
    b: str


@dataclass(frozen=True)
class Row:
    event: AuditEvent
    what: str
    items: list[Item]  # what it was and became, field by field
    detail: str  # the same in words, where the change has some
    quote: str
    name: str  # the object's, as people know it
    url: str  # its page, where there still is one
    run: str
    before: str  # both sides whole, as JSON cut to LONG characters; "" where there is nothing
    after: str


def rows(inventory: Inventory, events: Iterable[AuditEvent], *, technical: bool = False) -> list[Row]:
    """At most two queries for all of them: the names of the policies, and which runs there are."""
    listed = list(events)
    names = policy_names(inventory) if any(event.object_type in OF_A_POLICY for event in listed) else {}
    asked = {run_of(event) for event in listed} - {""}
    runs = set(Run.objects.filter(inventory=inventory, public_id__in=asked).values_list("public_id", flat=True))
    return [_row(inventory, event, names, runs if asked else set(), technical=technical) for event in listed]


def _row(inventory: Inventory, event: AuditEvent, names: Mapping[str, str], runs: set[str], *, technical: bool) -> Row:
    detail = quote = ""
    if event.object_type in OF_A_CHANGE and event.action.partition(".")[0] == event.object_type:
        what, detail, quote, version = changes.told_of_event(event, names, technical=technical)
        detail = detail or _of_examples(event, technical=technical)
        before = event.before.get("version") if isinstance(event.before, dict) else None
        if version is not None and version != before:
            became = _("version %(n)s") % {"n": version}
            detail = f"{detail} · {became}" if detail else became
    else:
        first, _dot, second = event.action.partition(".")
        what = labels.action(second or first, first, technical=technical)
    run = run_of(event)
    sides = [masked_json(inventory, side) for side in (event.before, event.after)]
    return Row(
        event=event,
        what=what,
        items=[] if detail or quote else _items(*sides, technical=technical),
        detail=detail,
        quote=quote,
        name=names.get(event.label, event.label) if event.object_type in OF_A_POLICY else event.label,
        url=_url(inventory, event, names, runs),
        run=run if run in runs else "",
        before=_whole(sides[0]),
        after=_whole(sides[1]),
    )


def _of_examples(event: AuditEvent, *, technical: bool) -> str:
    """What became of one example, or how many there were."""
    sides = [side.get("exemplars") if isinstance(side, dict) else None for side in (event.before, event.after)]
    was, now = ({} if not isinstance(side, dict) else side for side in sides)
    if len(now) > 1:
        n = len(now)
        return ngettext("%(n)s example", "%(n)s examples", n) % {"n": n}
    found = []
    for side in (was, now):
        one = next(iter(side.values()), None)
        status = one.get("status") if isinstance(one, dict) else None
        found.append(labels.term(status, technical=technical) if status in labels.TERMS else NONE)
    return f"{found[0]} → {found[1]}" if now and found[0] != found[1] else ""


def _items(before: Any, after: Any, *, technical: bool) -> list[Item]:
    """Fields that differ. Of what was made, its first ones; of what is not a record, nothing."""
    was, now = ({} if not isinstance(side, dict) else side for side in (before, after))
    made = all(value is None for value in was.values())
    differing = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return [
        Item(_label(name, technical), "" if made else _short(name, was.get(name)), _short(name, now.get(name)))
        for name in differing[:FIELDS_SHOWN]
    ]


def _label(name: str, technical: bool) -> str:
    if name in labels.TERMS:
        return labels.term(name, technical=technical)
    return labels.run_option(name)


def _short(name: str, value: Any) -> str:
    if name == "role" and value in labels.ROLES:
        return str(labels.role(value).plain)
    match value:
        case None | "":
            return NONE
        case bool():
            return _("yes") if value else _("no")
        case float():
            return f"{value:g}"
        case str():
            return _cut(value, SHORT)
        case _:
            return _cut(json.dumps(value, ensure_ascii=False), SHORT)


def _whole(value: Any) -> str:
    return "" if value is None else _cut(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True), LONG)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


# --------------------------------------------------------------------------------------------------------- where it leads
ROUTES = {
    "schedule": "schedule",
    "run": "run",
    "review_queue": "review-queue",
    "conversation": "conversation",
}


def _url(inventory: Inventory, event: AuditEvent, names: Mapping[str, str], runs: set[str]) -> str:
    """The object's page. A policy's and a run's are known to be there; another may answer that it is gone."""
    kind, identity = event.object_type, event.object_id
    try:
        if kind in OF_A_POLICY:
            return reverse("policy", args=[inventory.slug, event.label]) if event.label in names else ""
        if kind == "run" and identity not in runs:
            return ""
        if kind == "turn":
            conversation, user_turn = identity.split("/")
            return reverse("conversation", args=[inventory.slug, conversation]) + f"?t={user_turn}"
        if kind == "release" and int(identity) > 1:
            return reverse("release-diff", args=[inventory.slug, int(identity) - 1, int(identity)])
        if kind == "operating_point":
            return reverse("releases", args=[inventory.slug])
        return reverse(ROUTES[kind], args=[inventory.slug, identity]) if kind in ROUTES else ""
    except (NoReverseMatch, ValueError):
        return ""
