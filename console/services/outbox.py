"""The outbox: what webhooks are to be told, written in the transaction of what it tells of. `webhook_send` sends it.

A change that is rolled back tells nobody; one that is committed is told, whoever is killed in between. Payloads carry ids,
keys, numbers and names, never a text of a conversation, an example or a reason.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from console.models import Inventory, Run, WebhookDelivery
from console.models.base import new_public_id

SCHEMA = 1  # of the payload; history: 1 = the first
RUN_ENDED, RUN_STALLED, RUN_CAPPED = "run.ended", "run.stalled", "run.capped"
RELEASE_LIVE, VERSION_MADE, PIN_BROKEN = "release.live", "version.made", "pin.broken"
ALERT_RAISED, ALERT_CLEARED = "alert.raised", "alert.cleared"
TEST = "test"  # sent by hand, to one webhook
EVENTS = (
    RUN_ENDED, RUN_STALLED, RUN_CAPPED, RELEASE_LIVE, VERSION_MADE, PIN_BROKEN, ALERT_RAISED, ALERT_CLEARED,
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """``link`` is a path below the inventory's own, "" for its Home."""

    name: str
    data: Mapping[str, Any]
    actor: str = ""
    release: int | None = None
    link: str = ""


def tell(inventory: Inventory, events: Sequence[Event], *, now: datetime | None = None) -> int:
    """Write the deliveries of ``events`` inside the caller's transaction: one statement, none where nobody wants them.

    ``inventory`` is its row as it is now (locked, or just read): it says who is to be told.
    """
    now = now or timezone.now()
    rows: list[WebhookDelivery] = []
    for event in events:
        if wanted := inventory.wanted_events.get(event.name):
            rows += deliveries(inventory.slug, event, wanted, now=now)
    WebhookDelivery.objects.bulk_create(rows, batch_size=200)
    return len(rows)


def iso(at: datetime) -> str:
    """A time as payloads write it: UTC, to the millisecond."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def deliveries(slug: str, event: Event, webhooks: Sequence[int], *, now: datetime) -> list[WebhookDelivery]:
    """One row per webhook (row ids), all with the same event id and body; not stored yet."""
    identity = new_public_id()
    body = json.dumps(
        {
            "schema": SCHEMA,
            "id": identity,
            "event": event.name,
            "at": iso(now),
            "inventory": slug,
            "actor": event.actor,
            "release": event.release,
            "link": f"/i/{slug}/{event.link}",
            "data": dict(event.data),
        }
    )
    return [
        WebhookDelivery(
            webhook_id=pk, event=event.name, event_id=identity, body=body, created_at=now, queued_at=now, due_at=now
        )
        for pk in webhooks
    ]


def tell_of_run(run: Run, name: str) -> None:
    """The run's row as it is now, to those who want ``name``; in the transaction that brought it there."""
    inventory = Inventory.objects.only("slug", "wanted_events").get(pk=run.inventory_id)
    if name not in inventory.wanted_events:
        return
    run.refresh_from_db()
    data = {
        "run": run.public_id,
        "kind": run.kind,
        "state": run.state,
        "total": run.total,
        "done": run.done,
        "failed": run.failed,
        "tokens_in": run.tokens_in,
        "tokens_out": run.tokens_out,
    }
    tell(inventory, [Event(name, data, actor=run.actor, link=f"runs/{run.public_id}/")])
