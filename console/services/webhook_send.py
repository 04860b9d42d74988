"""Sending what the outbox holds: at least once, in no promised order.

A delivery is claimed by a conditional UPDATE under a lease, sent outside any transaction, and its outcome is taken only
under that claim. A sender that dies leaves a lease that ends, and the delivery is sent again: receivers tell by its id.
A webhook that fails is left alone for a while and then tried with one delivery at a time, so that a receiver that is away
or slow costs a worker little.
"""

import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from console.models import DeliveryState, Webhook, WebhookDelivery, WebhookState
from console.providers import webhook as provider
from console.providers.webhook import Post, Told
from console.services import webhooks
from console.services.actor import SYSTEM
from console.services.errors import NotFound

LEASE = timedelta(seconds=60)  # a try takes at most ten
WEBHOOKS_AT_ONCE, EACH_AT_ONCE = 10, 4  # side by side in one task
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 30.0, 3 * 3_600.0
LONGEST_PAUSE_S = 900.0  # of a whole webhook after failures, unless its receiver asks for more
GIVEN_UP = timedelta(hours=24)
PAUSED_AFTER = timedelta(days=3)
KEPT = timedelta(days=30)
PIECE = 500  # rows a background transaction deletes at most

Send = Callable[[Sequence[Post]], Mapping[int, Told]]


def send_for(seconds: float) -> int:
    """Send what is due until there is no more, or ``seconds`` are over; how many were tried. One slow receiver holds it up
    for ten seconds more."""
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until and (n := send_due()):
        tried += n
    return tried


def send_due(*, now: datetime | None = None, send: Send = provider.send) -> int:
    """Send a handful of what is due, side by side; how many were tried. ``now`` is when it is tried."""
    now = now or timezone.now()
    take_back(now)
    held = claim(now)
    if not held:
        return 0
    told = send([_post(delivery, now) for delivery in held])
    for delivery in held:
        record(delivery, told[delivery.pk], now)
    return len(held)


# ----------------------------------------------------------------------------------------------------------------- claiming
def take_back(now: datetime) -> int:
    """What lost senders held is due again. A lease further ahead than any can be is one of a clock that was set back."""
    lost = Q(lease_until__lt=now) | Q(lease_until__gt=now + 2 * LEASE)
    return WebhookDelivery.objects.filter(lost, state=DeliveryState.SENDING).update(
        state=DeliveryState.WAITING,
        claim="",
        lease_until=None,
        error="The sender was lost; whether it arrived is not known.",
    )


def _ready(now: datetime) -> QuerySet[Webhook]:
    """Webhooks that may be sent to and for which something is due."""
    due = WebhookDelivery.objects.filter(webhook=OuterRef("pk"), state=DeliveryState.WAITING, due_at__lte=now)
    rows = Webhook.objects.filter(Exists(due), state=WebhookState.ACTIVE)
    return rows.filter(Q(not_before__isnull=True) | Q(not_before__lte=now))


def claim(now: datetime) -> list[WebhookDelivery]:
    """Some of what is due, under one new claim: the webhooks that were tried longest ago first, of each a few deliveries,
    of one that fails a single one."""
    token = uuid.uuid4().hex
    ids: list[int] = []
    for webhook in _ready(now).order_by(F("tried_at").asc(nulls_first=True), "pk")[:WEBHOOKS_AT_ONCE]:
        rows = WebhookDelivery.objects.filter(webhook=webhook, state=DeliveryState.WAITING, due_at__lte=now)
        most = 1 if webhook.failures else EACH_AT_ONCE
        ids += rows.order_by("due_at", "pk").values_list("pk", flat=True)[:most]
    mine = WebhookDelivery.objects.filter(pk__in=ids)
    waiting = mine.filter(state=DeliveryState.WAITING)  # no join: the row is looked at again
    if not ids or not waiting.update(
        state=DeliveryState.SENDING, claim=token, lease_until=now + LEASE, tries=F("tries") + 1, tried_at=now
    ):
        return []
    return list(mine.filter(claim=token).select_related("webhook").order_by("pk"))


# ------------------------------------------------------------------------------------------------------------------ sending
def signature(secret: str, body: bytes, at: int) -> str:
    """``t=<unix>,v1=<hex>``: HMAC-SHA256 of "t.body" under the whole secret, as the header carries it."""
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


def _post(delivery: WebhookDelivery, now: datetime) -> Post:
    body = delivery.body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Signalbox",
        "Signalbox-Event": delivery.event,
        "Signalbox-Delivery": delivery.public_id,
        "Signalbox-Signature": signature(webhooks.secret_of(delivery.webhook), body, int(now.timestamp())),
    }
    return Post(delivery.pk, delivery.webhook.address, body, headers)


# ---------------------------------------------------------------------------------------------------------------- recording
def record(delivery: WebhookDelivery, told: Told, now: datetime) -> bool:
    """What came of a try, if it is still this claim's to say; a webhook that has failed too long is paused."""
    with transaction.atomic():
        state, due = DeliveryState.DELIVERED, delivery.due_at
        if not told.ok:
            due = now + timedelta(seconds=pause_after(delivery.tries, told.retry_after))
            state = DeliveryState.FAILED if due > delivery.queued_at + GIVEN_UP else DeliveryState.WAITING
        changed = WebhookDelivery.objects.filter(
            pk=delivery.pk, claim=delivery.claim, state=DeliveryState.SENDING
        ).update(
            state=state, due_at=due, claim="", lease_until=None, status=told.status, error=told.error[: provider.SAID]
        )
        if changed:
            _count(delivery.webhook_id, told, now)
    if changed and state == DeliveryState.FAILED:
        _pause_failing(delivery.webhook, now)
    return bool(changed)


def pause_after(tries: int, retry_after: float | None, *, longest: float = LONGEST_BACKOFF_S) -> float:
    """Seconds until the next try: doubling up to ``longest``, or what the receiver asks for where that is more."""
    pause = min(longest, FIRST_BACKOFF_S * 2.0 ** min(max(tries, 1) - 1, 20))
    return max(pause, min(retry_after or 0.0, GIVEN_UP.total_seconds()))


def _count(pk: int, told: Told, now: datetime) -> None:
    """A success clears the webhook's failures; a failure leaves all of its deliveries alone for a while."""
    row = Webhook.objects.select_for_update(no_key=True).get(pk=pk)
    if told.ok:
        row.failures, row.failing_since, row.not_before = 0, None, None
    else:
        row.failures += row.tried_at != now or not row.failures  # several at once are one failure
        row.failing_since = row.failing_since or now
        pause = pause_after(row.failures, told.retry_after, longest=LONGEST_PAUSE_S)
        row.not_before = now + timedelta(seconds=pause)
    row.tried_at = now
    row.save(update_fields=["tried_at", "failures", "failing_since", "not_before"])


def _pause_failing(webhook: Webhook, now: datetime) -> None:
    """Three days without a success, and a delivery given up: nobody listens there."""
    since = Webhook.objects.filter(pk=webhook.pk).values_list("failing_since", flat=True).first()
    if since is None or now - since < PAUSED_AFTER:
        return
    note = f"Nothing has arrived since {since:%Y-%m-%d %H:%M} UTC. It goes on when you say so."
    try:
        webhooks.pause_webhook(webhook, by=SYSTEM, note=note)
    except NotFound:  # deleted meanwhile
        return


# ------------------------------------------------------------------------------------------------------------------ pruning
def prune(*, now: datetime | None = None) -> int:
    """Delete deliveries older than thirty days, and deleted webhooks that have none left."""
    now = now or timezone.now()
    gone = 0
    old = WebhookDelivery.objects.filter(created_at__lt=now - KEPT).exclude(state=DeliveryState.SENDING)
    while ids := list(old.order_by("created_at").values_list("pk", flat=True)[:PIECE]):  # as the index has them
        gone += old.filter(pk__in=ids).delete()[0]
    rows = Webhook.objects.filter(state=WebhookState.DELETED, deleted_at__lt=now - KEPT, deliveries__isnull=True)
    rows.delete()
    return gone
