"""One agent's set of artifacts: its encoder, centre, operating points, releases and changes."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from console.models.account import Role
from console.models.base import Carried, CarriedQuerySet, one_of, public_id_field

KEY = RegexValidator(r"\A[a-z0-9-]{1,64}\Z", "Use 1 to 64 of a-z, 0-9 and the hyphen.")


class GoLive(models.TextChoices):
    AT_ONCE = "at_once"
    AFTER_REVIEW = "after_review"


class ClassWeight(models.TextChoices):
    BALANCED = "balanced"  # the product's default
    NONE = "none"  # the paper's recipe


class Inventory(models.Model):
    slug = models.CharField(max_length=64, unique=True, validators=[KEY])
    name = models.CharField(max_length=200)
    encoder = models.CharField(max_length=200)  # the name it was made with: "minilm" or "openai:MODEL[:DIM]"
    encoder_id = models.CharField(max_length=300)  # the identity every vector and version is tied to
    release = models.PositiveIntegerField(default=0)  # the newest release: the draft
    live_release = models.PositiveIntegerField(default=0)  # what agents get
    go_live = models.CharField(max_length=16, choices=GoLive.choices, default=GoLive.AT_ONCE)
    target_recall = models.FloatField(default=0.9)
    class_weight = models.CharField(max_length=16, choices=ClassWeight.choices, default=ClassWeight.BALANCED)
    inverse_penalty = models.FloatField(default=1.0)  # C of the logistic regression
    minimum_material = models.PositiveSmallIntegerField(
        default=3
    )  # mined signals and anti-signals before mined may be chosen
    log_revision = models.PositiveIntegerField(default=0)  # bumped by every new view of a query state: cache key
    label_revision = models.PositiveIntegerField(default=0)  # bumped by every write to judgements: cache key
    exemplar_revision = models.PositiveIntegerField(
        default=0
    )  # bumped by every write to exemplars that makes no release
    judge = models.ForeignKey(
        "Judge", null=True, on_delete=models.PROTECT, related_name="+"
    )  # whose scores the metrics read
    override_needed = models.BooleanField(default=False)  # a change that breaks a pin or the target takes a publisher
    keep_days = models.PositiveIntegerField(null=True)  # conversations older than this are erased; null = never
    wanted_events = models.JSONField(default=dict)  # event -> row ids of the active webhooks to be told
    redaction = models.BooleanField(default=False)  # spans of personal data are shown to people as their kind
    redaction_kinds = models.JSONField(default=list)  # names of sq_core.redaction.KINDS that are looked for
    redaction_terms = models.JSONField(default=list)  # its own words and phrases that are shown as their kind
    reveal_role = models.CharField(
        max_length=16, choices=Role.choices, default=Role.AUTHOR
    )  # from which one may reveal
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            one_of("go_live", GoLive, "inventory_go_live"),
            one_of("class_weight", ClassWeight, "inventory_class_weight"),
            models.CheckConstraint(
                condition=Q(target_recall__gt=0) & Q(target_recall__lte=1), name="inventory_target_recall"
            ),
            models.CheckConstraint(condition=Q(inverse_penalty__gt=0), name="inventory_inverse_penalty"),
            models.CheckConstraint(
                condition=Q(keep_days__isnull=True) | Q(keep_days__gte=1), name="inventory_keep_days"
            ),
            one_of("reveal_role", Role, "inventory_reveal_role"),
            models.CheckConstraint(condition=Q(live_release__lte=models.F("release")), name="inventory_live_not_ahead"),
        ]

    def __str__(self) -> str:
        return self.slug


class Centre(models.Model):
    """The mean of the artifacts' text vectors, frozen: number 1 is fixed by the first fit, only re-centring makes another."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="centres")
    number = models.PositiveIntegerField()
    encoder_id = models.CharField(max_length=300)
    vector = models.BinaryField()  # sq_core.embedding.Centre.to_bytes
    digest = models.CharField(max_length=64)
    artifact_count = models.PositiveIntegerField()
    texts = models.JSONField(null=True)  # ids of the artifact texts it is the mean of, in order; null = not recorded
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["inventory", "number"], name="centre_number")]


class OperatingPoint(Carried):
    """θ, pooling, expiry and the centre they hold for; immutable but for ``to_release``."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="operating_points")
    number = models.PositiveIntegerField()
    encoder_id = models.CharField(max_length=300)
    centre = models.ForeignKey(Centre, null=True, on_delete=models.PROTECT)  # null until the first fit
    theta = models.FloatField(default=0.0)
    pooling = models.JSONField()  # sq_core.scoring.Pooling.to_json
    expiry_others = models.PositiveIntegerField(null=True)  # K
    expiry_turns = models.PositiveIntegerField(null=True)  # T
    target_recall = models.FloatField(default=0.9)
    background = models.JSONField(default=list)  # ids of up to 500 query states, drawn once
    calibration = models.JSONField(null=True)  # null = uncalibrated, said on every page
    created_at = models.DateTimeField(auto_now_add=True)

    objects = CarriedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "number"], name="operatingpoint_number"),
            models.UniqueConstraint(
                fields=["inventory"], condition=Q(to_release__isnull=True), name="operatingpoint_one_current"
            ),
        ]


class Release(models.Model):
    """The inventory's numbered revision; what it holds are the rows valid at its number, nothing is copied."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="releases")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150, blank=True)  # "" = the system
    summary = models.CharField(max_length=300)
    reason = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["inventory", "number"], name="release_number")]


class ReleaseActivation(models.Model):
    """Which release agents got from when on (append-only): what ``as_of`` and reviews ask for."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="activations")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150, blank=True)
    reason = models.TextField(blank=True)


class Change(models.Model):
    """One write to what a release carries: what revert and undo point to."""

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="changes")
    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="changes")
    artifact = models.ForeignKey("Artifact", null=True, on_delete=models.CASCADE, related_name="changes")
    action = models.CharField(
        max_length=40
    )  # promote, reject, restore, pin, unpin, edit, move, retire, rollback, undo, ...
    object_type = models.CharField(max_length=40)
    object_id = models.CharField(max_length=200)  # a key, or "key/12" for a version of it
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    actor = models.CharField(max_length=150, blank=True)
    user = models.ForeignKey("User", null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.TextField(blank=True)
    reverts = models.OneToOneField("self", null=True, on_delete=models.SET_NULL, related_name="reverted_by")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["inventory", "-id"]), models.Index(fields=["artifact", "-id"])]
