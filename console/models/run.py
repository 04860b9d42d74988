"""Runs: a plan frozen at creation, its items with their attempts, and what they spent. Rows are the record of what is left
to do; messages only wake workers."""

from django.db import models
from django.db.models import Q

from console.models.account import User
from console.models.artifact import Artifact
from console.models.base import one_of, public_id_field
from console.models.inventory import Inventory


class RunKind(models.TextChoices):
    GENERATE = "generate"
    JUDGE = "judge"
    MINE = "mine"
    IMPORT = "import"
    SCORE = "score"
    EVALUATE = "evaluate"
    CALIBRATE = "calibrate"


class RunState(models.TextChoices):
    PLANNING = "planning"  # its items are being written down
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"  # for a provider's quota, until ``wait_until``
    PAUSED = "paused"  # by a person
    CAPPED = "capped"  # paused by its cap
    STALLED = "stalled"  # nothing has ended for longer than a lease
    CANCELLING = "cancelling"  # asked to stop; what is in flight ends first
    CANCELLED = "cancelled"
    COMPLETE = "complete"
    GAPS = "gaps"  # complete, but n items failed
    FAILED = "failed"


ENDED = (RunState.CANCELLED, RunState.COMPLETE, RunState.GAPS, RunState.FAILED)
# The coordinator moves these on.
WORKING = (RunState.PLANNING, RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.STALLED)


class RunQuerySet(models.QuerySet["Run"]):
    def unfinished(self) -> "RunQuerySet":
        return self.exclude(state__in=ENDED)

    def working(self) -> "RunQuerySet":
        return self.filter(state__in=WORKING)


class Run(models.Model):
    """``scope`` and ``params`` are as asked for; the items are the plan. The counters repeat what the ledger sums up."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="runs")
    public_id = public_id_field()
    kind = models.CharField(max_length=16, choices=RunKind.choices)
    state = models.CharField(max_length=16, choices=RunState.choices, default=RunState.PLANNING)
    scope = models.JSONField(default=dict)
    params = models.JSONField(default=dict)  # with their defaults filled in, frozen
    asked = models.JSONField(default=dict)  # the params as they were given: what "run again" asks for
    provider = models.JSONField(default=dict)  # the model setting as it was at creation; never a key
    total = models.PositiveIntegerField(default=0)  # items
    done = models.PositiveIntegerField(default=0)  # of them, moved in the transaction that ends an item
    failed = models.PositiveIntegerField(default=0)
    cap_tokens = models.PositiveBigIntegerField(null=True)
    cap_money = models.DecimalField(max_digits=12, decimal_places=4, null=True)
    tokens_in = models.PositiveBigIntegerField(default=0)
    tokens_out = models.PositiveBigIntegerField(default=0)
    money = models.DecimalField(max_digits=14, decimal_places=6, default=0)  # of the calls whose price is known
    calls = models.PositiveIntegerField(default=0)
    unpriced_calls = models.PositiveIntegerField(default=0)
    schedule = models.ForeignKey("Schedule", null=True, on_delete=models.SET_NULL, related_name="runs")
    actor = models.CharField(max_length=150, blank=True)
    user = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progressed_at = models.DateTimeField(null=True)  # when an item last ended
    woken_at = models.DateTimeField(null=True)  # when a worker was last called for it
    wait_until = models.DateTimeField(null=True)
    stalls = models.PositiveSmallIntegerField(default=0)
    settled = models.BooleanField(default=False)  # what follows the terminal state (first fits, say) is done
    settle_until = models.DateTimeField(null=True)  # the lease of whoever is settling it
    note = models.CharField(max_length=500, blank=True)  # why it is in this state
    result = models.JSONField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [one_of("kind", RunKind, "run_kind"), one_of("state", RunState, "run_state")]
        indexes = [models.Index(fields=["inventory", "-id"]), models.Index(fields=["state"])]

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class ItemState(models.TextChoices):
    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


class RunItem(models.Model):
    """One unit of work: one call, or one artifact's computation. ``payload`` is frozen with the plan."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    key = models.CharField(max_length=200)  # what the item is about, in words that a person can look up
    repeat = models.PositiveSmallIntegerField(default=0)
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=ItemState.choices, default=ItemState.WAITING)
    claim = models.CharField(max_length=32, blank=True)  # who holds it; a result under another claim is not taken
    lease_until = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    forgiven = models.PositiveSmallIntegerField(default=0)  # attempts before a person asked for another try
    error_code = models.CharField(max_length=40, blank=True)
    error = models.CharField(max_length=500, blank=True)
    result = models.JSONField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key", "repeat"], name="runitem_once"),
            one_of("state", ItemState, "runitem_state"),
            models.CheckConstraint(
                condition=~Q(state="claimed") | (Q(lease_until__isnull=False) & ~Q(claim="")), name="runitem_claim"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "state", "position"]),
            models.Index(fields=["run", "position"], name="runitem_in_order"),
            models.Index(fields=["run", "error_code"], condition=~Q(error_code=""), name="runitem_errors"),
        ]


class Attempt(models.Model):
    """One try at an item that did not end well, or was not the first; ``raw`` is the reply as it came, where it was unusable."""

    item = models.ForeignKey(RunItem, on_delete=models.CASCADE, related_name="tries")
    number = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    ms = models.PositiveIntegerField(default=0)
    outcome = models.CharField(max_length=40)  # "ok" or an error code
    status = models.PositiveSmallIntegerField(null=True)  # of the HTTP answer
    message = models.CharField(max_length=500, blank=True)
    retry_after = models.FloatField(null=True)  # seconds
    raw = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "number"], name="attempt_once")]


class Spend(models.Model):
    """The ledger: one row per model call. ``money`` null = the price is unknown, which is never zero."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="spends")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="spends")
    artifact = models.ForeignKey(Artifact, null=True, on_delete=models.SET_NULL, related_name="+")
    source = models.CharField(max_length=16)  # the run's kind, or "embed", "playground"
    model = models.CharField(max_length=200)
    prompt_version = models.CharField(max_length=40, blank=True)
    recorded = models.BooleanField(default=False)  # replayed: nothing was called
    tokens_in = models.PositiveIntegerField(default=0)
    tokens_cached = models.PositiveIntegerField(default=0)  # of tokens_in, from the provider's prefix cache
    tokens_out = models.PositiveIntegerField(default=0)
    money = models.DecimalField(max_digits=14, decimal_places=8, null=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["inventory", "-id"]), models.Index(fields=["run"])]


class ModelRole(models.TextChoices):
    GENERATOR = "generator"
    JUDGE = "judge"


class ModelProvider(models.TextChoices):
    OPENAI = "openai"  # any server that speaks its chat completions
    RECORDED = "recorded"  # replays the sample's stored answers


class ModelSetting(models.Model):
    """Which model an inventory's runs call. ``key_name`` names a secret of the server's environment, never holds one."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="models")
    role = models.CharField(max_length=16, choices=ModelRole.choices)
    provider = models.CharField(max_length=16, choices=ModelProvider.choices, default=ModelProvider.RECORDED)
    model = models.CharField(max_length=200, blank=True)
    base_url = models.CharField(max_length=500, blank=True)  # "" = OpenAI's, or OPENAI_BASE_URL
    key_name = models.CharField(max_length=100, blank=True)
    temperature = models.FloatField(default=0.0)
    max_output_tokens = models.PositiveIntegerField(default=1_000)
    timeout_s = models.FloatField(default=60.0)
    concurrency = models.PositiveSmallIntegerField(default=4)  # calls at once per worker
    requests_per_minute = models.PositiveIntegerField(null=True)
    tokens_per_minute = models.PositiveIntegerField(null=True)
    price_in = models.DecimalField(max_digits=10, decimal_places=4, null=True)  # per million tokens; null = unknown
    price_out = models.DecimalField(max_digits=10, decimal_places=4, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "role"], name="model_role"),
            one_of("role", ModelRole, "model_role_known"),
            one_of("provider", ModelProvider, "model_provider"),
            models.CheckConstraint(condition=Q(temperature__gte=0) & Q(temperature__lte=2), name="model_temperature"),
            models.CheckConstraint(condition=Q(concurrency__gte=1) & Q(concurrency__lte=64), name="model_concurrency"),
        ]


class Guideline(models.Model):
    """What a judge is told beside the scale: a numbered, immutable text per inventory; judgements name its number."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="guidelines")
    number = models.PositiveIntegerField()
    rubric = models.CharField(max_length=16)  # current-need or sticky
    text = models.TextField(blank=True)
    by = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["inventory", "number"], name="guideline_number")]


class Overlap(models.TextChoices):
    SKIP = "skip"  # while the last run of this schedule is unfinished, the next is skipped and said so
    QUEUE = "queue"  # it is started beside it


class Schedule(models.Model):
    """A run started by the clock. The cron lines live in django-celery-beat, whose scheduler wakes it."""

    inventory = models.ForeignKey(Inventory, on_delete=models.CASCADE, related_name="schedules")
    public_id = public_id_field()
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=16, choices=RunKind.choices)
    scope = models.JSONField(default=dict)
    params = models.JSONField(default=dict)
    cap_tokens = models.PositiveBigIntegerField(null=True)
    cap_money = models.DecimalField(max_digits=12, decimal_places=4, null=True)
    cron = models.CharField(max_length=100)  # five fields
    time_zone = models.CharField(max_length=64)
    enabled = models.BooleanField(default=True)
    overlap = models.CharField(max_length=16, choices=Overlap.choices, default=Overlap.SKIP)
    periodic_id = models.PositiveIntegerField(null=True)  # of the django-celery-beat task
    due_seen = models.DateTimeField(null=True)  # up to when due times have been accounted for
    user = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["inventory", "name"], name="schedule_name"),
            one_of("kind", RunKind, "schedule_kind"),
            one_of("overlap", Overlap, "schedule_overlap"),
        ]


class StartOutcome(models.TextChoices):
    STARTED = "started"
    SKIPPED = "skipped"  # by the overlap rule
    MISSED = "missed"  # nobody was there at the time
    REFUSED = "refused"  # the run could not be planned; ``note`` says why


class ScheduledStart(models.Model):
    """What became of one due time of a schedule."""

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="starts")
    due_at = models.DateTimeField()
    outcome = models.CharField(max_length=16, choices=StartOutcome.choices)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["schedule", "due_at"], name="scheduledstart_once"),
            one_of("outcome", StartOutcome, "scheduledstart_outcome"),
        ]
