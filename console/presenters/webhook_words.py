"""Webhooks in words: their events, and how their deliveries stand."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from console.models import DeliveryState, Webhook, WebhookState
from console.services import outbox

EVENTS: Mapping[str, str | Promise] = {
    outbox.RUN_ENDED: _("A run has ended: complete, with gaps, failed or cancelled"),
    outbox.RUN_STALLED: _("A run has stalled: its worker was lost"),
    outbox.RUN_CAPPED: _("A run waits at its cap"),
    outbox.RELEASE_LIVE: _("Another release is live"),
    outbox.VERSION_MADE: _("A policy has a new version"),
    outbox.PIN_BROKEN: _("A turn that must be selected is missed by a new version"),
    outbox.ALERT_RAISED: _("Home warns: too little caught, or a policy selected otherwise than expected"),
    outbox.ALERT_CLEARED: _("A warning of Home is over"),
}
DELIVERIES: Mapping[str, tuple[str | Promise, str]] = {  # in words, and the badge's tone
    DeliveryState.WAITING: (_("waiting"), ""),
    DeliveryState.SENDING: (_("being sent"), ""),
    DeliveryState.DELIVERED: (_("delivered"), "ok"),
    DeliveryState.FAILED: (_("given up"), "bad"),
}


def choices() -> list[tuple[str, str]]:
    return [(name, f"{line} ({name})") for name, line in EVENTS.items()]


def state(webhook: Webhook) -> tuple[str | Promise, str]:
    """How it stands, and the badge's tone."""
    if webhook.state == WebhookState.PAUSED:
        return _("paused"), "warn"
    if webhook.failures:
        return _("failing"), "bad"
    return _("active"), "ok"
