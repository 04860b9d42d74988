"""Which alerts of Home have come and gone since the last look, told to the webhooks that want it. Where none does, nothing is
worked out and nothing is kept."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.models import AlertName, Inventory, RaisedAlert
from console.services import alerts, outbox
from console.services.outbox import ALERT_CLEARED, ALERT_RAISED, Event

Found = Mapping[tuple[str, str], dict[str, Any]]  # (name, policy's key or "") -> its numbers


def watch_all(*, now: datetime | None = None) -> int:
    """Look at every inventory that has a webhook for it; how many alerts came or went."""
    now = now or timezone.now()
    told, unwatched = 0, []
    for inventory in Inventory.objects.order_by("pk"):
        if inventory.wanted_events.keys() & {ALERT_RAISED, ALERT_CLEARED}:
            told += watch(inventory, now=now)
        else:
            unwatched.append(inventory.pk)
    RaisedAlert.objects.filter(inventory__in=unwatched).delete()
    return told


def watch(inventory: Inventory, *, now: datetime) -> int:
    """Compare with what was told. Of two watchers at once one is refused by the constraint, and tells nothing."""
    found = standing(inventory, now)
    try:
        return _tell(inventory, found, now)
    except IntegrityError:
        return 0


def _tell(inventory: Inventory, found: Found, now: datetime) -> int:
    with transaction.atomic():
        known = {(row.name, row.key): row for row in RaisedAlert.objects.filter(inventory=inventory)}
        raised = sorted(found.keys() - known.keys())
        cleared = sorted(known.keys() - found.keys())
        RaisedAlert.objects.bulk_create(
            RaisedAlert(inventory=inventory, name=name, key=key, since=now) for name, key in raised
        )
        gone = [pair for pair in cleared if RaisedAlert.objects.filter(pk=known[pair].pk).delete()[0]]
        events = [_event(ALERT_RAISED, inventory, pair, found[pair]) for pair in raised]
        events += [_event(ALERT_CLEARED, inventory, pair, {"since": outbox.iso(known[pair].since)}) for pair in gone]
        outbox.tell(Inventory.objects.get(pk=inventory.pk), events, now=now)
    return len(raised) + len(gone)


def standing(inventory: Inventory, now: datetime) -> Found:
    """The alerts that hold now, as Home shows them."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    estimate = alerts.recall_estimate(inventory, now=now)
    if estimate is not None and estimate.under_target:
        found[AlertName.RECALL, ""] = {
            "recall": estimate.recall, "low": estimate.low, "high": estimate.high, "needed": estimate.needed,
            "target": estimate.target,
        }  # fmt: skip
    for drift in alerts.drifts(inventory, now=now):
        found[AlertName.FIRING, drift.key] = {"version": drift.version, "preview": drift.preview, "live": drift.live}
    return found


def _event(name: str, inventory: Inventory, pair: tuple[str, str], numbers: Mapping[str, Any]) -> Event:
    alert, key = pair
    data = {"alert": alert, "policy": key or None, **numbers}
    return Event(name, data, release=inventory.live_release, link=f"policies/{key}/" if key else "")
