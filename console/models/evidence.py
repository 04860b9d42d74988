"""Evidence: what one plan measured on one day, with the checks and the claims that rest on them. Written once, never changed.

The files of a bundle are kept as they are, packed: what goes out again is what came in, byte for byte. Scorecards, checks and
claims stand in rows beside them, so that lists can ask for them and the database holds what a page must not do without.
"""

from django.db import models
from django.db.models import F, Q

from console.models.base import one_of, public_id_field
from console.models.conversation import Conversation
from console.models.inventory import Inventory

HAIR = 1e-9  # as in sq_core.ranking.metrics: equal figures differ in their last bits


class EvidenceSystem(models.TextChoices):
    TRACES = "traces"  # rankings of tool arguments in traces
    SQ = "sq"  # Signals and Queries on judged turns


class EvidenceOrigin(models.TextChoices):
    RUN = "run"  # measured here, by a run
    COMMAND = "command"  # measured here, by a command
    FILE = "file"  # brought as a bundle


class CheckOutcome(models.TextChoices):
    HOLDS = "holds"
    FAILS = "fails"
    NOT_RUN = "not run"


class ClaimVerdict(models.TextChoices):
    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    NOT_TESTED = "not tested"


class Evidence(models.Model):
    """One bundle; a newer one of the same plan name supersedes it. Nothing here points to a row that may go: the triggers
    allow no update, not even a database's own."""

    public_id = public_id_field()
    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="evidence")
    digest = models.CharField(max_length=64)  # of everything but the time
    name = models.CharField(max_length=120)  # the plan's
    system = models.CharField(max_length=16, choices=EvidenceSystem.choices)
    encoder_id = models.CharField(max_length=300)
    plan_digest = models.CharField(max_length=64)
    rows = models.PositiveIntegerField()  # tested rows, or judged turns
    groups = models.PositiveIntegerField()  # tasks or scenarios
    held = models.PositiveSmallIntegerField()  # claims by verdict
    failed = models.PositiveSmallIntegerField()
    untested = models.PositiveSmallIntegerField()
    origin = models.CharField(max_length=16, choices=EvidenceOrigin.choices)
    run = models.CharField(max_length=12, blank=True)  # the run's public id
    written_at = models.DateTimeField()  # when it was measured
    actor = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "digest"], name="evidence_once"),
            one_of("system", EvidenceSystem, "evidence_system"),
            one_of("origin", EvidenceOrigin, "evidence_origin"),
        ]
        indexes = [models.Index(fields=["inventory", "-id"]), models.Index(fields=["inventory", "name", "-id"])]

    def __str__(self) -> str:
        return self.name


class EvidenceFile(models.Model):
    """One file of the bundle, gzip without a time in it."""

    evidence = models.ForeignKey(Evidence, on_delete=models.CASCADE, related_name="files")
    name = models.CharField(max_length=40)
    size = models.PositiveBigIntegerField()  # unpacked
    digest = models.CharField(max_length=64)  # unpacked, as bundle.json has it
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["evidence", "name"], name="evidencefile_name")]


class EvidenceScorecard(models.Model):
    """One method in one world. There is none without a coverage, and no figure of ranks above it: the database says so."""

    evidence = models.ForeignKey(Evidence, on_delete=models.CASCADE, related_name="scorecards")
    position = models.PositiveSmallIntegerField()
    method = models.CharField(max_length=120)
    world = models.CharField(max_length=40)
    coverage = models.FloatField()
    mrr = models.FloatField(null=True)  # null: a card of S&Q, which ranks nothing
    figures = models.JSONField()  # the whole card

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evidence", "method", "world"], name="evidencescorecard_once"),
            models.CheckConstraint(
                condition=Q(coverage__gte=0) & Q(coverage__lte=1 + HAIR), name="evidencescorecard_coverage"
            ),
            models.CheckConstraint(
                condition=Q(mrr__isnull=True) | (Q(mrr__gte=0) & Q(mrr__lte=F("coverage") + HAIR)),
                name="evidencescorecard_mrr",
            ),
        ]


class EvidenceCheck(models.Model):
    """The outcome of one check; ``p`` is by task or scenario, there is none by row."""

    evidence = models.ForeignKey(Evidence, on_delete=models.CASCADE, related_name="checks")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=40)
    outcome = models.CharField(max_length=16, choices=CheckOutcome.choices)
    detail = models.TextField()
    p = models.FloatField(null=True)
    figures = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evidence", "name"], name="evidencecheck_once"),
            one_of("outcome", CheckOutcome, "evidencecheck_outcome"),
        ]


class EvidenceClaim(models.Model):
    """A sentence, the checks it names and what they make of it."""

    evidence = models.ForeignKey(Evidence, on_delete=models.CASCADE, related_name="claims")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=120)
    sentence = models.TextField()
    verdict = models.CharField(max_length=16, choices=ClaimVerdict.choices)
    reason = models.TextField()
    requires = models.JSONField()  # names of checks
    permits = models.JSONField()
    forbids = models.JSONField()
    family = models.CharField(max_length=120, blank=True)
    alpha = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evidence", "name"], name="evidenceclaim_once"),
            one_of("verdict", ClaimVerdict, "evidenceclaim_verdict"),
        ]


class Rewrite(models.Model):
    """What a model made of the messages before an action: one stand-alone request. Asked once per model, prompt and prefix;
    it goes with the conversation that it was made from."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="rewrites")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    model = models.CharField(max_length=200)  # services.evidence_rewrites.identity
    prompt_version = models.CharField(max_length=40)
    prefix_digest = models.CharField(max_length=64)
    text = models.TextField()
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_out = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["inventory", "model", "prompt_version", "prefix_digest"], name="rewrite_once"
            ),
            models.CheckConstraint(condition=~Q(text=""), name="rewrite_text"),
        ]
