"""Classifier versions: one artifact's fitted weights and bias, immutable."""

from django.db import models
from django.db.models import Q

from console.models.artifact import Artifact, FitSet
from console.models.base import Carried, CarriedQuerySet
from console.models.inventory import Centre


class ClassifierVersion(Carried):
    """All but ``to_release`` is fixed by a database trigger; the active version is the one valid at the newest release."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    parent = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="children")
    exemplars = (
        models.JSONField()
    )  # [{"id", "public_id", "polarity", "view_kind", "digest", "source", "weight"}], in fit order
    weights = models.BinaryField()  # little-endian float32 (d,)
    bias = models.FloatField()
    alphas = models.BinaryField()  # little-endian float64 (n,)
    offset = models.FloatField(default=0.0)
    offset_rule = models.CharField(
        max_length=40, default="first"
    )  # first, share, recall, copied: how the offset was chosen
    inverse_penalty = models.FloatField()  # C
    class_weight = models.CharField(max_length=16)
    stop = models.JSONField()  # {"iterations", "relative_gradient", "reason"}
    libraries = models.JSONField()  # {"numpy": "2.4.6", …}
    encoder_id = models.CharField(max_length=300)
    centre = models.ForeignKey(Centre, on_delete=models.PROTECT)
    fit_set = models.CharField(max_length=16, choices=FitSet.choices)
    counts = models.JSONField()  # {"signal": {"generated": 10, …}, "anti_signal": {…}}
    metrics = (
        models.JSONField()
    )  # {"n", "tp", "fp", "fn", "fired", "states", "left_out", "judge", "split"}; {} without labels
    weight_hash = models.CharField(max_length=64)
    reason = models.TextField(blank=True)
    actor = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = CarriedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["artifact", "number"], name="classifierversion_number"),
            models.UniqueConstraint(
                fields=["artifact"], condition=Q(to_release__isnull=True), name="classifierversion_one_current"
            ),
        ]
        indexes = [models.Index(fields=["artifact", "-number"])]
