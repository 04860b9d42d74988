"""The texts that classifiers are fitted on, and the conversation states that must fire."""

from django.db import models
from django.db.models import Q

from console.models.artifact import Artifact, ArtifactText
from console.models.base import Carried, CarriedQuerySet, one_of, public_id_field
from console.models.conversation import QueryState


class Polarity(models.TextChoices):
    SIGNAL = "signal"
    ANTI_SIGNAL = "anti_signal"


class ViewKind(models.TextChoices):
    USER_TURN = "user_turn"
    CUMULATIVE = "cumulative"


class Source(models.TextChoices):
    GENERATED = "generated"
    MINED = "mined"
    WRITTEN = "written"
    IMPORTED = "imported"


class ExemplarStatus(models.TextChoices):
    CANDIDATE = "candidate"
    PROMOTED = "promoted"
    REJECTED = "rejected"
    RETIRED = "retired"


class ExemplarQuerySet(models.QuerySet["Exemplar"]):
    def promoted(self) -> "ExemplarQuerySet":
        return self.filter(status=ExemplarStatus.PROMOTED)


class Exemplar(models.Model):
    public_id = public_id_field()
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="exemplars")
    artifact_text = models.ForeignKey(
        ArtifactText, null=True, on_delete=models.SET_NULL
    )  # the text it was generated from
    polarity = models.CharField(max_length=16, choices=Polarity.choices)
    text = models.TextField()
    text_digest = models.CharField(max_length=64)  # sha256 of the text
    view_kind = models.CharField(max_length=16, choices=ViewKind.choices, default=ViewKind.USER_TURN)
    source = models.CharField(max_length=16, choices=Source.choices)
    status = models.CharField(max_length=16, choices=ExemplarStatus.choices, default=ExemplarStatus.CANDIDATE)
    kept = models.BooleanField(default=False)  # a pinned exemplar keeps its place when mining runs again
    origin = models.ForeignKey(QueryState, null=True, on_delete=models.SET_NULL, related_name="exemplars")
    decided_by = models.ForeignKey("User", null=True, on_delete=models.SET_NULL, related_name="+")
    decided_by_person = models.BooleanField(default=False)  # stays true when the person's account is removed
    decided_at = models.DateTimeField(null=True)
    run = models.ForeignKey("Run", null=True, on_delete=models.SET_NULL, related_name="exemplars")  # that proposed it
    mining_rule = models.CharField(max_length=40, blank=True)  # "whole_conversation/1": the rule and its version
    label_horizon = models.PositiveIntegerField(null=True)  # the last user turn whose label the mining rule read
    replaces = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="replaced_by")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ExemplarQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["artifact", "text_digest"], name="exemplar_text_once"
            ),  # hence never on both sides
            one_of("polarity", Polarity, "exemplar_polarity"),
            one_of("view_kind", ViewKind, "exemplar_view_kind"),
            one_of("source", Source, "exemplar_source"),
            one_of("status", ExemplarStatus, "exemplar_status"),
        ]
        indexes = [models.Index(fields=["artifact", "status", "polarity"])]


class Pin(Carried):
    """A conversation state that must fire, with the vectors of its views at the time it was pinned."""

    public_id = public_id_field()
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="pins")
    exemplar = models.ForeignKey(Exemplar, null=True, on_delete=models.SET_NULL, related_name="pins")
    state = models.ForeignKey(QueryState, null=True, on_delete=models.SET_NULL, related_name="pins")
    text = models.TextField(blank=True)  # the pinned message, readable when the state is gone
    encoder_id = models.CharField(max_length=300)
    cumulative = models.BinaryField(null=True)  # raw (uncentred) unit float32
    turn = models.BinaryField(null=True)
    bound = models.FloatField(default=0.9)
    by = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    reason = models.TextField(blank=True)

    objects = CarriedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(bound__gt=0) & Q(bound__lte=1), name="pin_bound"),
            models.CheckConstraint(
                condition=Q(cumulative__isnull=False) | Q(turn__isnull=False), name="pin_has_a_view"
            ),
            models.UniqueConstraint(
                fields=["artifact", "state"], condition=Q(to_release__isnull=True), name="pin_state_once"
            ),
        ]
