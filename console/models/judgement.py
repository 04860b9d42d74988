"""What judges and people say of (query state, artifact): opinions with their source, never the truth."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from console.models.artifact import ArtifactText
from console.models.base import one_of
from console.models.conversation import QueryState
from console.models.inventory import Inventory


class Rubric(models.TextChoices):
    CURRENT_NEED = "current-need"  # a finished topic scores low again
    STICKY = "sticky"  # once relevant, stays


class JudgeKind(models.TextChoices):
    MODEL = "model"
    HUMAN = "human"


class Judge(models.Model):
    """A judge or a person, with the rubric and pass mark its scores follow."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="judges")
    name = models.CharField(max_length=120)  # "reading-judge-1", "human", "human:ana"
    kind = models.CharField(max_length=16, choices=JudgeKind.choices)
    rubric = models.CharField(max_length=16, choices=Rubric.choices, default=Rubric.CURRENT_NEED)
    pass_mark = models.PositiveSmallIntegerField(default=4)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "name"], name="judge_name"),
            one_of("kind", JudgeKind, "judge_kind"),
            one_of("rubric", Rubric, "judge_rubric"),
            models.CheckConstraint(condition=Q(pass_mark__gte=2) & Q(pass_mark__lte=5), name="judge_pass_mark"),
        ]


class JudgementQuerySet(models.QuerySet["Judgement"]):
    def by_people(self) -> "JudgementQuerySet":
        return self.filter(judge__kind=JudgeKind.HUMAN)


class Judgement(models.Model):
    """A score and the prefix it was made on: every path stores both, and they are those of its query state."""

    state = models.ForeignKey(QueryState, on_delete=models.CASCADE, related_name="judgements")
    artifact_text = models.ForeignKey(ArtifactText, on_delete=models.CASCADE, related_name="judgements")
    judge = models.ForeignKey(Judge, on_delete=models.PROTECT, related_name="judgements")
    prompt_version = models.CharField(max_length=40, default="1")
    repeat = models.PositiveSmallIntegerField(default=0)
    score = models.PositiveSmallIntegerField()
    reason = models.TextField(blank=True)
    visible_upto = models.PositiveIntegerField()  # index of the last message the judge saw: the state's own
    prefix_digest = models.CharField(max_length=64)
    digest_computed = models.BooleanField(default=False)  # the file brought none: computed here, so it proves nothing
    by = models.CharField(max_length=150, blank=True)
    chosen = models.BooleanField(default=False)  # judged because it was likely to be relevant: no figure may rest on it
    at = models.DateTimeField(auto_now_add=True)

    objects = JudgementQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["state", "artifact_text", "judge", "prompt_version", "repeat"], name="judgement_once"
            ),
            models.CheckConstraint(condition=Q(score__gte=1) & Q(score__lte=5), name="judgement_score"),
            models.CheckConstraint(condition=Exact(Length("prefix_digest"), 64), name="judgement_prefix_digest"),
        ]
        indexes = [
            models.Index(fields=["artifact_text", "judge", "score"]),
            models.Index(fields=["artifact_text", "-id"], name="judgement_newest_of_text"),
            models.Index(fields=["judge", "-id"], name="judgement_newest_of_judge"),
        ]
