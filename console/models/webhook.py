"""Webhooks: addresses that are told of events, and what became of telling them: the outbox."""

from django.db import models
from django.db.models import Q

from console.models.base import one_of, public_id_field
from console.models.inventory import Inventory


class WebhookState(models.TextChoices):
    ACTIVE = "active"
    PAUSED = "paused"
    DELETED = "deleted"  # its row stays, without the address, until its deliveries are pruned


class Webhook(models.Model):
    """Its secret is not stored (`services.webhooks.secret_of`). ``wanted_events`` of the inventory repeats the events of the
    active ones."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="webhooks")
    public_id = public_id_field()
    address = models.CharField(max_length=500, blank=True)
    events = models.JSONField(default=list)  # names of the catalogue
    state = models.CharField(max_length=16, choices=WebhookState.choices, default=WebhookState.ACTIVE)
    note = models.CharField(max_length=300, blank=True)  # why it was paused, where no person did
    rotation = models.PositiveIntegerField(default=1)  # of the secret
    actor = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)  # tries in a row that failed
    failing_since = models.DateTimeField(null=True)  # when the first of them did
    not_before = models.DateTimeField(null=True)  # after a failure: nothing is sent until then
    tried_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            one_of("state", WebhookState, "webhook_state"),
            models.CheckConstraint(
                condition=~Q(state="deleted") | Q(deleted_at__isnull=False, address=""), name="webhook_deleted"
            ),
        ]


class DeliveryState(models.TextChoices):
    WAITING = "waiting"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"  # given up


class WebhookDelivery(models.Model):
    """One event for one webhook, written with what it tells of. ``body`` is what is signed and sent at every try."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    public_id = public_id_field()
    event = models.CharField(max_length=40)
    event_id = models.CharField(max_length=12)  # the same for every webhook that is told
    body = models.TextField()
    state = models.CharField(max_length=16, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    created_at = models.DateTimeField()
    queued_at = models.DateTimeField()  # given up a day after this; moved by "send again"
    due_at = models.DateTimeField()
    tries = models.PositiveIntegerField(default=0)
    claim = models.CharField(max_length=32, blank=True)  # who sends it: an outcome under another one is not taken
    lease_until = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)  # of the last HTTP answer
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["webhook", "event_id"], name="webhookdelivery_once"),
            one_of("state", DeliveryState, "webhookdelivery_state"),
            models.CheckConstraint(
                condition=~Q(state="sending") | (Q(lease_until__isnull=False) & ~Q(claim="")),
                name="webhookdelivery_claim",
            ),
        ]
        indexes = [
            models.Index(fields=["webhook", "-id"], name="webhookdelivery_newest"),
            models.Index(fields=["webhook", "due_at"], condition=Q(state="waiting"), name="webhookdelivery_due"),
            models.Index(fields=["lease_until"], condition=Q(state="sending"), name="webhookdelivery_held"),
            models.Index(fields=["created_at"], name="webhookdelivery_age"),
        ]


class AlertName(models.TextChoices):
    RECALL = "recall"
    FIRING = "firing"


class RaisedAlert(models.Model):
    """An alert of Home that a webhook was told of, until it is told that it has cleared."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="raised_alerts")
    name = models.CharField(max_length=16, choices=AlertName.choices)
    key = models.CharField(max_length=64, blank=True)  # the policy's, where it is about one
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "name", "key"], name="raisedalert_once"),
            one_of("name", AlertName, "raisedalert_name"),
        ]
