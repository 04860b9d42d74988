"""Review queues: pairs of (query state, artifact) that people answer, who holds which, and what they said.

An answer yes or no makes a human judgement (5 or 1); what it said stays here even when it is taken back.
"""

from django.db import models
from django.db.models import F, Q

from console.models.account import User
from console.models.artifact import Artifact
from console.models.base import one_of, public_id_field
from console.models.conversation import QueryState
from console.models.inventory import Inventory
from console.models.judgement import Judgement


class QueueKind(models.TextChoices):
    MISSES = "misses"  # the AI reviewer says needed, not selected
    NEAR = "near"  # nearest to the cut-off
    MODEL = "model"  # classifier and AI reviewer differ, either way
    HUMAN = "human"  # AI reviewer and a person differ
    PINS = "pins"  # pinned turns that fail, or whose policy's text has changed since
    AUDIT = "audit"  # a random sample: the only kind that κ and recall may rest on
    EXTRAS = "extras"  # a random sample of what was selected though the AI reviewer says not needed: corrects precision
    CUSTOM = "custom"


class QueueOrder(models.TextChoices):
    WORST = "worst"  # as the kind ranks them
    NEWEST = "newest"
    RANDOM = "random"


class ReviewQueue(models.Model):
    """Frozen when it is made: its items, their order and why each is there never change afterwards."""

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="review_queues")
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=16, choices=QueueKind.choices)
    params = models.JSONField(default=dict)  # policies, size, seed, …: what the items were chosen by
    order = models.CharField(max_length=16, choices=QueueOrder.choices, default=QueueOrder.WORST)
    reviewers = models.PositiveSmallIntegerField(default=1)  # different people per item
    minutes = models.PositiveSmallIntegerField(default=15)  # how long a reservation lasts
    blind = models.BooleanField(default=False)  # classifier and AI reviewer are hidden until answered
    guideline = models.TextField(blank=True)
    population = models.PositiveIntegerField(default=0)  # pairs it was chosen from
    size = models.PositiveIntegerField(default=0)  # its items, counted once
    release = models.PositiveIntegerField()  # whose versions the margins are of
    closes_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            one_of("kind", QueueKind, "reviewqueue_kind"),
            one_of("order", QueueOrder, "reviewqueue_order"),
            models.CheckConstraint(condition=Q(reviewers__gte=1) & Q(reviewers__lte=3), name="reviewqueue_reviewers"),
            models.CheckConstraint(condition=Q(minutes__gte=1) & Q(minutes__lte=1440), name="reviewqueue_minutes"),
        ]
        indexes = [models.Index(fields=["inventory", "-id"])]

    def __str__(self) -> str:
        return self.name


class ReviewItem(models.Model):
    """One pair in a queue; ``why`` holds what it was chosen by: margin, cutoff, score, fired."""

    public_id = public_id_field()
    queue = models.ForeignKey(ReviewQueue, on_delete=models.CASCADE, related_name="items")
    state = models.ForeignKey(QueryState, on_delete=models.CASCADE, related_name="review_items")
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="review_items")
    position = models.PositiveIntegerField()
    why = models.JSONField(default=dict)
    set_aside = models.BooleanField(default=False)  # flagged: nobody is offered it until it is put back

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "state", "artifact"], name="reviewitem_once"),
            models.UniqueConstraint(fields=["queue", "position"], name="reviewitem_position"),
        ]


class Reservation(models.Model):
    """One reviewer's place at an item; there are as many as the queue wants reviewers, and each is somebody else's.

    Free: no user, or ``until`` has passed. Taken by a conditional UPDATE; ``done`` once answered.
    """

    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE, related_name="places")
    slot = models.PositiveSmallIntegerField()
    user = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="reservations")
    until = models.DateTimeField(null=True)
    done = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "slot"], name="reservation_slot"),
            models.UniqueConstraint(
                fields=["item", "user"], condition=Q(user__isnull=False), name="reservation_one_per_person"
            ),
        ]
        indexes = [models.Index(fields=["user", "until"], condition=Q(done=False), name="reservation_held")]


class ReviewWord(models.TextChoices):
    YES = "yes"
    NO = "no"
    UNSURE = "unsure"
    SKIP = "skip"  # to the end of my own line; no answer


class ReviewAnswerQuerySet(models.QuerySet["ReviewAnswer"]):
    def counted(self) -> "ReviewAnswerQuerySet":
        """Answers that stand: not taken back, no draft, no skip. A person's newest one of an item is what they say."""
        return self.filter(undone_at__isnull=True, draft=False).exclude(word=ReviewWord.SKIP)


class ReviewAnswer(models.Model):
    """What a person said of an item; another answer of theirs is a new row."""

    public_id = public_id_field()
    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE, related_name="answers")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="review_answers")
    word = models.CharField(max_length=8, choices=ReviewWord.choices)
    note = models.TextField(blank=True)
    blind = models.BooleanField(default=False)  # given before classifier and AI reviewer were shown
    draft = models.BooleanField(default=False)  # the place was lost: kept, not counted
    judgement = models.ForeignKey(Judgement, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(auto_now_add=True)
    undone_at = models.DateTimeField(null=True)

    objects = ReviewAnswerQuerySet.as_manager()

    class Meta:
        constraints = [one_of("word", ReviewWord, "reviewanswer_word")]
        indexes = [models.Index(fields=["user", "-id"]), models.Index(fields=["item", "user", "-id"])]


class ReviewFlag(models.Model):
    """Something is wrong with an item: why, by whom, and who put it back."""

    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE, related_name="flags")
    reason = models.TextField()
    by = models.CharField(max_length=150)
    at = models.DateTimeField(auto_now_add=True)
    cleared_at = models.DateTimeField(null=True)
    cleared_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="reviewflag_reason"),
            models.CheckConstraint(
                condition=Q(cleared_at__isnull=True) | Q(cleared_at__gte=F("at")), name="reviewflag_order"
            ),
        ]


class ReviewDecision(models.Model):
    """The answer that counts where answers differ, with its reason; another decision is a new row, the newest counts."""

    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE, related_name="decisions")
    needed = models.BooleanField()
    reason = models.TextField()
    by = models.CharField(max_length=150)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(reason=""), name="reviewdecision_reason")]
