"""Webhooks as an inventory's admin sets them: made, paused, tried, deleted; what became of the last deliveries."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import salted_hmac

from console.models import DeliveryState, Inventory, Webhook, WebhookDelivery, WebhookState
from console.providers import webhook as provider
from console.services import audit, outbox
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.revision import lock_inventory

MOST = 20  # of an inventory
ADDRESS_LENGTH = 500
SHOWN = 50  # deliveries that a page lists
SALT = "console.webhook"


def secret_of(webhook: Webhook) -> str:
    """What signs its deliveries: derived from Django's SECRET_KEY, the webhook's public id and its rotation number, and
    stored nowhere. Whoever changes the server's SECRET_KEY changes the secret of every webhook."""
    return "whsec_" + salted_hmac(SALT, f"{webhook.public_id}:{webhook.rotation}", algorithm="sha256").hexdigest()


@dataclass(frozen=True)
class Made:
    """A webhook and its secret, which is shown this once."""

    webhook: Webhook
    secret: str


# ------------------------------------------------------------------------------------------------------------------ reading
def webhooks(inventory: Inventory) -> list[Webhook]:
    """In the order in which they were made."""
    rows = Webhook.objects.filter(inventory=inventory).exclude(state=WebhookState.DELETED)
    return list(rows.order_by("pk")[:MOST])


def get_webhook(inventory: Inventory, public_id: str) -> Webhook:
    rows = Webhook.objects.filter(inventory=inventory).exclude(state=WebhookState.DELETED)
    found = rows.filter(public_id=public_id[:12]).first()
    if found is None:
        raise NotFound(f"{inventory.slug} has no webhook {public_id[:40]!r}.", field="webhook")
    return found


def last_deliveries(webhook: Webhook, n: int = SHOWN) -> list[WebhookDelivery]:
    """Newest first."""
    return list(WebhookDelivery.objects.filter(webhook=webhook).defer("body").order_by("-pk")[:n])


def host_of(webhook: Webhook) -> str:
    """What the audit may say of the address: its path may hold a key of the receiver's."""
    parts = urlsplit(webhook.address)
    return parts.netloc[:200]


# ------------------------------------------------------------------------------------------------------------------ setting
def create_webhook(inventory: Inventory, *, by: Actor, address: str, events: Sequence[str], reason: str = "") -> Made:
    """An active webhook and its secret. Raises Invalid for an address that nothing is sent to, or an unknown event; no
    name server is asked: every try checks where the name leads then."""
    address, events = _checked_address(address), _checked_events(events)
    with transaction.atomic():
        locked = lock_inventory(inventory)
        if Webhook.objects.filter(inventory=locked).exclude(state=WebhookState.DELETED).count() >= MOST:
            raise Conflict(f"This inventory has {MOST} webhooks.", hint="Delete one that is no longer needed.")
        webhook = Webhook.objects.create(inventory=locked, address=address, events=events, actor=by.name)
        _remember(locked)
        _record(webhook, "create", by=by, after={"events": events}, reason=reason)
    return Made(webhook, secret_of(webhook))


def set_events(webhook: Webhook, events: Sequence[str], *, by: Actor, reason: str = "") -> Webhook:
    """What it is told from now on."""
    events = _checked_events(events)
    with _changing(webhook) as row:
        before = row.events
        if before != events:
            row.events = events
            row.save(update_fields=["events"])
            _remember(row.inventory)
            _record(row, "edit", by=by, before={"events": before}, after={"events": events}, reason=reason)
    return row


def pause_webhook(webhook: Webhook, *, by: Actor, reason: str = "", note: str = "") -> Webhook:
    """Nothing is sent and no event is kept for it until it goes on; what waits, waits."""
    with _changing(webhook) as row:
        if row.state == WebhookState.ACTIVE:
            row.state, row.note = WebhookState.PAUSED, note[:300]
            row.save(update_fields=["state", "note"])
            _remember(row.inventory)
            _record(row, "pause", by=by, after={"note": note} if note else None, reason=reason)
    return row


def resume_webhook(webhook: Webhook, *, by: Actor, reason: str = "") -> Webhook:
    """It is told again, first of what waits; what happened while it was paused it is not told."""
    with _changing(webhook) as row:
        if row.state == WebhookState.PAUSED:
            row.state, row.note = WebhookState.ACTIVE, ""
            row.failures, row.failing_since, row.not_before = 0, None, None
            row.save(update_fields=["state", "note", "failures", "failing_since", "not_before"])
            now = timezone.now()
            waiting = WebhookDelivery.objects.filter(webhook=row, state=DeliveryState.WAITING)
            waiting.update(due_at=now, queued_at=now)
            _remember(row.inventory)
            _record(row, "resume", by=by, reason=reason)
    return row


def rotate_secret(webhook: Webhook, *, by: Actor, reason: str = "") -> Made:
    """Another secret; the old one signs nothing any more, from the next try on."""
    with _changing(webhook) as row:
        row.rotation += 1
        row.save(update_fields=["rotation"])
        _record(row, "rotate", by=by, after={"rotation": row.rotation}, reason=reason)
    return Made(row, secret_of(row))


def delete_webhook(webhook: Webhook, *, by: Actor, reason: str = "") -> None:
    """It is told nothing more and its address is forgotten; its deliveries go when they are pruned."""
    with _changing(webhook) as row:
        host = host_of(row)
        row.state, row.address, row.deleted_at = WebhookState.DELETED, "", timezone.now()
        row.save(update_fields=["state", "address", "deleted_at"])
        _remember(row.inventory)
        _record(row, "delete", by=by, before={"events": row.events}, reason=reason, host=host)


# ------------------------------------------------------------------------------------------------------------------ sending
def send_test(webhook: Webhook, *, by: Actor, now: datetime | None = None) -> WebhookDelivery:
    """Queue an event ``test`` for it; the caller wakes a worker after the commit. Raises Conflict while it is paused."""
    now = now or timezone.now()
    with _changing(webhook) as row:
        _refuse_paused(row)
        event = outbox.Event(outbox.TEST, {"webhook": row.public_id}, by.name, link="settings/webhooks/")
        (delivery,) = outbox.deliveries(row.inventory.slug, event, [row.pk], now=now)
        delivery.save()
        _again_now(row)
        _record(row, "test", by=by, after={"delivery": delivery.public_id})
    return delivery


def send_again(webhook: Webhook, delivery_id: str, *, by: Actor, now: datetime | None = None) -> WebhookDelivery:
    """Queue a delivery once more, with the id and body it had; it has a day for it again. Raises NotFound, or Conflict for
    one that is on its way."""
    now = now or timezone.now()
    with _changing(webhook) as row:
        _refuse_paused(row)
        rows = WebhookDelivery.objects.filter(webhook=row, public_id=delivery_id[:12])
        delivery = rows.first()
        if delivery is None:
            raise NotFound(f"There is no delivery {delivery_id[:40]!r} of this webhook.", field="delivery")
        changed = rows.exclude(state=DeliveryState.SENDING).update(
            state=DeliveryState.WAITING, due_at=now, queued_at=now, tries=0, status=None, error=""
        )
        if not changed:
            raise Conflict("This delivery is being sent.", hint="Look again in a moment.")
        _again_now(row)
        _record(row, "send_again", by=by, after={"delivery": delivery.public_id, "event": delivery.event})
    delivery.refresh_from_db()
    return delivery


def _again_now(row: Webhook) -> None:
    """A person asked: the pause after a failure is over."""
    Webhook.objects.filter(pk=row.pk).update(not_before=None)


def _refuse_paused(row: Webhook) -> None:
    if row.state != WebhookState.ACTIVE:
        raise Conflict("This webhook is paused.", hint="Let it go on first.")


# ------------------------------------------------------------------------------------------------------------------- pieces
@contextmanager
def _changing(webhook: Webhook) -> Iterator[Webhook]:
    """The webhook's row as it is now, under its inventory's lock, in one transaction. Raises NotFound once deleted."""
    with transaction.atomic():
        locked = lock_inventory(webhook.inventory_id)
        row = get_webhook(locked, webhook.public_id)
        row.inventory = locked
        yield row


def _remember(locked: Inventory) -> None:
    """Who wants what, on the inventory's own row: writers of events ask nobody else."""
    wanted: dict[str, list[int]] = {}
    rows = Webhook.objects.filter(inventory=locked, state=WebhookState.ACTIVE).order_by("pk")
    for pk, events in rows.values_list("pk", "events"):
        for name in events:
            wanted.setdefault(name, []).append(pk)
    Inventory.objects.filter(pk=locked.pk).update(wanted_events=wanted)


def _record(row: Webhook, action: str, *, by: Actor, host: str = "", **what: Any) -> None:
    audit.record(
        by=by, inventory=row.inventory.slug, action=f"webhook.{action}", object_type="webhook", object_id=row.public_id,
        label=host or host_of(row), **what,
    )  # fmt: skip


def _checked_address(address: str) -> str:
    address = address.strip()
    if not 1 <= len(address) <= ADDRESS_LENGTH:
        raise Invalid(f"An address has 1 to {ADDRESS_LENGTH} characters.", field="address")
    try:
        provider.parsed(address)
    except provider.Refused as error:
        raise Invalid("Nothing can be sent to this address.", field="address", hint=str(error)) from error
    return address


def _checked_events(events: Sequence[str]) -> list[str]:
    unknown = sorted(set(events) - set(outbox.EVENTS))
    if unknown:
        raise Invalid(
            f"There is no event {unknown[0][:40]!r}.", field="events", hint=f"There are {', '.join(outbox.EVENTS)}."
        )
    if not events:
        raise Invalid("Choose at least one event.", field="events")
    return [name for name in outbox.EVENTS if name in events]
