"""A change of encoder or centre: everything is made anew beside what decides today, looked at, and only then switched to."""

from django.db import models
from django.db.models import Q

from console.models.base import one_of, public_id_field
from console.models.inventory import Centre, Inventory


class MigrationState(models.TextChoices):
    EMBEDDING = "embedding"  # texts are read under the new encoder, then everything is fitted anew
    READY = "ready"  # ``report`` says what would change
    SWITCHED = "switched"
    BACKED_OUT = "backed_out"
    CANCELLED = "cancelled"
    FAILED = "failed"  # ``error`` says why; it can be tried again


OPEN = (MigrationState.EMBEDDING, MigrationState.READY, MigrationState.FAILED)


class EncoderMigration(models.Model):
    """From one (encoder, centre) to another. At most one of an inventory is open; what was there before is kept whole.

    ``encoder`` and ``from_encoder`` are the names an encoder is built by, the ids are those of vectors and versions.
    """

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="migrations")
    encoder = models.CharField(max_length=200)
    encoder_id = models.CharField(max_length=300)
    centre = models.ForeignKey(
        Centre, null=True, on_delete=models.PROTECT, related_name="+"
    )  # null until texts are read
    from_encoder = models.CharField(max_length=200)
    from_encoder_id = models.CharField(max_length=300)
    from_centre = models.ForeignKey(Centre, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=16, choices=MigrationState.choices, default=MigrationState.EMBEDDING)
    texts = models.PositiveIntegerField(default=0)  # to embed, when it was begun
    report = models.JSONField(null=True)  # services.migrate_shadow.Worked.report
    error = models.TextField(blank=True)
    touched_at = models.DateTimeField(auto_now_add=True)  # when a worker last began a slice of it
    served_days = models.PositiveSmallIntegerField(
        default=14
    )  # how long older releases go on answering after the switch
    by = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    from_release = models.PositiveIntegerField(null=True)  # the last release before the switch
    to_release = models.PositiveIntegerField(null=True)  # the release the switch made
    switched_at = models.DateTimeField(null=True)
    back_release = models.PositiveIntegerField(null=True)  # the release the way back made

    class Meta:
        constraints = [
            one_of("state", MigrationState, "migration_state"),
            models.UniqueConstraint(fields=["inventory"], condition=Q(state__in=OPEN), name="migration_one_open"),
            models.CheckConstraint(condition=~Q(state=MigrationState.READY) | Q(report__isnull=False), name="migration_ready"),
            models.CheckConstraint(
                condition=~Q(state__in=["switched", "backed_out"]) | Q(to_release__isnull=False, switched_at__isnull=False),
                name="migration_switched",
            ),
        ]  # fmt: skip
        indexes = [models.Index(fields=["inventory", "-id"])]

    @property
    def changes_encoder(self) -> bool:
        return self.encoder_id != self.from_encoder_id
