"""The append-only record of who did what, readable after its objects are gone; and the workers' heartbeat."""

from django.db import models


class AuditEvent(models.Model):
    """No foreign keys; a database trigger refuses changes, but for texts taken out of both sides by an erasure."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    inventory = models.CharField(max_length=64, blank=True, db_index=True)  # the slug
    actor = models.CharField(max_length=150, blank=True)  # user name, "token:NAME", "" = the system
    action = models.CharField(max_length=60, db_index=True)  # "exemplar.promote"
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=200)
    label = models.CharField(max_length=300, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    release = models.PositiveIntegerField(null=True)
    erased_at = models.DateTimeField(null=True)  # when texts of an erased conversation were last taken out of it

    class Meta:
        indexes = [
            models.Index(fields=["inventory", "-id"]),
            models.Index(fields=["object_type", "object_id"]),
            models.Index(fields=["inventory", "label", "-id"], name="auditevent_label"),
        ]


class Heartbeat(models.Model):
    """When a background process last said that it lives."""

    name = models.CharField(max_length=60, primary_key=True)
    at = models.DateTimeField()
