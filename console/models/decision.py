"""What production did: one discovery per answered turn, one decision per artifact of it."""

from django.db import models

from console.models.artifact import Artifact
from console.models.base import one_of, public_id_field
from console.models.conversation import QueryState
from console.models.inventory import Inventory


class Origin(models.TextChoices):
    LIVE = "live"  # recorded by discover, or posted by an agent that runs a bundle
    RECOMPUTED = "recomputed"


class Discovery(models.Model):
    """One answer of discover at one turn of a conversation."""

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="discoveries")
    state = models.ForeignKey(
        QueryState, null=True, on_delete=models.SET_NULL, related_name="discoveries"
    )  # null = text not sent
    conversation = models.CharField(max_length=200)  # the external id, whether or not its text was sent
    user_turn = models.PositiveIntegerField()
    prefix_digest = models.CharField(max_length=64, blank=True)
    release = models.PositiveIntegerField()
    theta = models.FloatField()
    encoder_id = models.CharField(max_length=300)
    origin = models.CharField(max_length=16, choices=Origin.choices)
    agent = models.CharField(max_length=150, blank=True)  # the token's name
    at = models.DateTimeField()
    recorded_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            one_of("origin", Origin, "discovery_origin"),
            # A retry of the same turn at the same release is the same discovery, not a second one.
            models.UniqueConstraint(
                fields=["inventory", "conversation", "user_turn", "release", "origin", "theta", "prefix_digest"],
                name="discovery_once",
            ),
        ]
        indexes = [models.Index(fields=["inventory", "-at"])]


class Decision(models.Model):
    """An artifact's outcome in a discovery: selected ones, and judged ones of score runs."""

    discovery = models.ForeignKey(Discovery, on_delete=models.CASCADE, related_name="decisions")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="decisions")
    version = models.PositiveIntegerField(null=True)
    margin = models.FloatField(null=True)
    cutoff = models.FloatField(null=True)
    fired = models.BooleanField()
    reason = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["discovery", "artifact"], name="decision_once")]
        indexes = [models.Index(fields=["artifact", "-id"])]
