"""What is to be retrieved: policies, skills, tools and the rest, with their text revisions and settings over releases."""

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from console.models.base import Carried, CarriedQuerySet, one_of
from console.models.inventory import KEY, Inventory


class Kind(models.TextChoices):
    POLICY = "policy"
    SKILL = "skill"
    TOOL = "tool"
    GLOSSARY = "glossary"
    OBSERVATION = "observation"


class Mode(models.TextChoices):
    AUTO = "auto"
    ALWAYS = "always"
    OFF = "off"


class FitSet(models.TextChoices):
    GENERATED = "generated"
    MINED = "mined"
    MIXED = "mixed"


class Status(models.TextChoices):
    ACTIVE = "active"
    ARCHIVED = "archived"


class Artifact(models.Model):
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="artifacts")
    key = models.CharField(max_length=64, validators=[KEY])
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.POLICY)
    position = models.PositiveIntegerField(default=0)  # the order of import: the order on pages and of prompt blocks
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "key"], name="artifact_key"),
            one_of("kind", Kind, "artifact_kind"),
        ]
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return self.key


class ArtifactSetting(Carried):
    """Mode, fit set and status of an artifact over a range of releases."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="settings")
    mode = models.CharField(max_length=16, choices=Mode.choices, default=Mode.AUTO)
    fit_set = models.CharField(max_length=16, choices=FitSet.choices, default=FitSet.GENERATED)
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.ACTIVE)

    objects = CarriedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["artifact"], condition=Q(to_release__isnull=True), name="artifactsetting_one_current"
            ),
            one_of("mode", Mode, "artifactsetting_mode"),
            one_of("fit_set", FitSet, "artifactsetting_fit_set"),
            one_of("status", Status, "artifactsetting_status"),
        ]


class ArtifactTextQuerySet(CarriedQuerySet["ArtifactText"]):
    def as_now(self) -> "ArtifactTextQuerySet":
        """Revisions that read as the current one: of an edit that was taken back also the one before it."""
        now = ArtifactText.objects.filter(
            artifact=OuterRef("artifact"), digest=OuterRef("digest"), to_release__isnull=True
        )
        return self.filter(Exists(now))


class ArtifactText(Carried):
    """A revision of an artifact's name and text; judgements and generated exemplars point to one."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="texts")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    text = models.TextField()
    digest = models.CharField(max_length=64)  # sha256 of name, NUL, text
    by = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    objects = ArtifactTextQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["artifact", "number"], name="artifacttext_number"),
            models.UniqueConstraint(
                fields=["artifact"], condition=Q(to_release__isnull=True), name="artifacttext_one_current"
            ),
        ]


class DependencyKind(models.TextChoices):
    REQUIRES = "requires"
    ENTAILS = "entails"


class Dependency(Carried):
    """``artifact`` selected brings ``target`` along; acts after retrieval, never in a margin."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="dependencies")
    target = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16, choices=DependencyKind.choices)

    objects = CarriedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["artifact", "target", "kind"],
                condition=Q(to_release__isnull=True),
                name="dependency_one_current",
            ),
            models.CheckConstraint(condition=~Q(artifact=F("target")), name="dependency_not_itself"),
            one_of("kind", DependencyKind, "dependency_kind"),
        ]
