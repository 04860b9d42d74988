"""One policy's figures over time and over the cut-off: by day from recorded decisions and judgements, the recall–precision
curve with the cut-off on it, and where scores land by judgement. Reads only.
"""

import zoneinfo
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.db.models.functions import Coalesce, TruncDate
from django.utils import timezone
from numpy.typing import NDArray

from console.models import ClassifierVersion, Conversation, Decision, Discovery, Judgement, Origin
from console.services import caches
from console.services.policy_rows import FEW
from console.services.table_sample import is_long
from console.services.workbench import Ground
from sq_core.evaluation.metrics import Sweep, auprc

WINDOW = 90  # days
CURVE_POINTS, BINS = 500, 40
NOW = "now"  # no decision was recorded: what the version in use decides, by the day of the conversation
GROUPS = ("relevant", "irrelevant", "unjudged")


@dataclass(frozen=True)
class Day:
    """``turns`` decided that day and how many of them were selected; of the judged ones, counts by outcome."""

    day: date
    turns: int = 0
    fired: int = 0
    judged: int = 0
    needed: int = 0
    caught: int = 0
    shown: int = 0  # judged and selected

    @property
    def recall(self) -> float | None:
        return self.caught / self.needed if self.needed else None

    @property
    def precision(self) -> float | None:
        return self.caught / self.shown if self.shown else None

    @property
    def firing(self) -> float | None:
        return self.fired / self.turns if self.turns else None

    @property
    def positive(self) -> float | None:
        return self.needed / self.judged if self.judged else None


@dataclass(frozen=True)
class Daily:
    """``basis``: live, recomputed or now. Days without data are not in ``days``: a gap, never a zero."""

    basis: str
    days: list[Day]
    versions: list[tuple[date, int]]  # when each version was made, inside the window
    undated: int  # judged turns of conversations without a start: in no day


@dataclass(frozen=True)
class Curve:
    """Points of falling cut-off; ``at`` is the index of the cut-off in use. Fenced: leaking scenarios are left out."""

    cutoff: NDArray[np.float64]
    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    area: float
    recall_at: float
    precision_at: float
    total: int  # distinct cut-offs, of which these are drawn


@dataclass(frozen=True)
class Histogram:
    """Counts per bin of margin − cut-off, by what the judge said; ``edges`` (bins + 1,), 0 is one of them."""

    edges: NDArray[np.float64]
    counts: dict[str, list[int]]


@dataclass(frozen=True)
class Metrics:
    daily: Daily
    curve: Curve | None
    histogram: Histogram
    judged: int
    needed: int
    counted: int
    counted_needed: int
    left_out: int
    people: int

    @property
    def few(self) -> bool:
        return self.counted_needed < FEW


def metrics(ground: Ground, zone: zoneinfo.ZoneInfo) -> Metrics:
    """Everything the tab shows; callers ask ``ground.scored`` first."""
    labels = ground.labels
    counted = labels.judged & ~ground.left_out
    return Metrics(
        daily=daily(ground, zone),
        curve=curve(ground),
        histogram=histogram(ground),
        judged=int(labels.judged.sum()),
        needed=int(labels.relevant.sum()),
        counted=int(counted.sum()),
        counted_needed=int((counted & labels.relevant).sum()),
        left_out=int((labels.judged & ground.left_out).sum()),
        people=int((labels.human > 0).sum()),
    )


# --------------------------------------------------------------------------------------------------------------- by cut-off
def curve(ground: Ground) -> Curve | None:
    """None where no judged turn outside the version's own scenarios needs the policy."""
    labels, cutoff = ground.labels, ground.cutoff
    counted = labels.judged & ~ground.left_out
    relevant = counted & labels.relevant
    if not relevant.any() or cutoff is None:
        return None
    found = Sweep(ground.margins[:, None], relevant[:, None], counted[:, None]).curve()
    places = np.arange(len(found.recall))
    if len(places) > CURVE_POINTS:
        places = np.unique(np.linspace(0, len(places) - 1, CURVE_POINTS).round().astype(int))
    fired = ground.fired & counted
    caught = int((fired & relevant).sum())
    return Curve(
        cutoff=found.theta[places], recall=found.recall[places], precision=found.precision[places], area=auprc(found),
        recall_at=caught / int(relevant.sum()), precision_at=caught / int(fired.sum()) if fired.any() else 0.0,
        total=len(found.recall),
    )  # fmt: skip


def histogram(ground: Ground) -> Histogram:
    cutoff = ground.cutoff or 0.0
    x = ground.margins - cutoff
    low, high = min(float(x.min()), -0.1), max(float(x.max()), 0.1)
    width = (high - low) / BINS
    below, above = int(np.ceil(-low / width)), int(np.ceil(high / width))
    edges: NDArray[np.float64] = np.arange(-below, above + 1, dtype=np.float64) * width
    labels = ground.labels
    masks = (labels.relevant, labels.judged & ~labels.relevant, ~labels.judged)
    counts = {
        name: np.histogram(x[mask], bins=edges)[0].tolist() for name, mask in zip(GROUPS, masks, strict=True)
    }  # fmt: skip
    return Histogram(edges, counts)


# ------------------------------------------------------------------------------------------------------------------ by day
def daily(ground: Ground, zone: zoneinfo.ZoneInfo) -> Daily:
    """From live decisions where there are any, else recomputed ones, else what the version in use would have done."""
    basis, newest = _newest(ground)
    if newest is None:
        days, undated = _as_now(ground, zone)
    else:
        days, undated = _recorded(ground, zone, basis, newest), 0
    if ground.past is not None:
        days = [day for day in days if day.day <= ground.past.moment.astimezone(zone).date()]
    versions: list[tuple[date, int]] = []
    if days and basis != NOW:  # else one version decides on every day
        first = datetime.combine(days[0].day, datetime.min.time(), tzinfo=zone)
        made = ClassifierVersion.objects.filter(artifact=ground.artifact, created_at__gte=first).order_by("number")
        if ground.past is not None:
            made = made.filter(from_release__lte=ground.past.release)
        versions = [(at.astimezone(zone).date(), n) for at, n in made.values_list("created_at", "number")[:200]]
    return Daily(str(basis), days, versions, undated)


def _newest(ground: Ground) -> tuple[str, datetime | None]:
    """What was recorded, and when last; nothing was: `NOW` and None."""
    for origin in (Origin.LIVE, Origin.RECOMPUTED):
        rows = Discovery.objects.filter(inventory=ground.inventory, origin=origin).order_by("-at")
        at = rows.values_list("at", flat=True).first()
        if at is not None:
            return str(origin), at
    return NOW, None


_turns = caches.Cache(64)


def _recorded(ground: Ground, zone: zoneinfo.ZoneInfo, basis: str, newest: datetime) -> list[Day]:
    """A recomputed decision is of the day of its conversation, a live one of its own. The turns of a day are the same for
    every policy; of a long log they are counted once an hour.
    """
    since = newest - timedelta(days=WINDOW)
    rows = Discovery.objects.filter(inventory=ground.inventory, origin=basis, at__gte=since)
    at = "at" if basis == Origin.LIVE else Coalesce("state__conversation__started_at", "at")
    rows = rows.annotate(day=TruncDate(at, tzinfo=zone))
    upto = timezone.now().replace(minute=0, second=0, microsecond=0) if is_long(ground.inventory) else newest
    key = (ground.inventory.pk, basis, zone.key, upto)
    turns: dict[date, int] = caches.committed(
        _turns, key, lambda: dict(rows.values_list("day").order_by().annotate(n=Count("pk")))
    )
    selected = Decision.objects.filter(artifact=ground.artifact, fired=True, discovery__in=rows.values("pk"))
    fired_at = (
        "discovery__at"
        if basis == Origin.LIVE
        else Coalesce("discovery__state__conversation__started_at", "discovery__at")
    )
    fired = dict(
        selected.annotate(day=TruncDate(fired_at, tzinfo=zone)).values_list("day").order_by().annotate(n=Count("pk"))
    )
    here = Exists(Decision.objects.filter(discovery=OuterRef("pk"), artifact=ground.artifact, fired=True))
    judged = rows.filter(state__in=_judged_states(ground)).annotate(hit=here).values_list("state_id", "day", "hit")
    sums: dict[date, Counter[str]] = {}
    positions = ground.basis.states.positions if ground.basis else {}
    for state, day, hit in judged.iterator(chunk_size=5_000):
        position = positions.get(state)
        if position is None or not ground.labels.judged[position]:
            continue
        needed = bool(ground.labels.relevant[position])
        sums.setdefault(day, Counter()).update(judged=1, needed=needed, caught=needed and hit, shown=hit)
    nothing: Counter[str] = Counter()
    return [Day(day, turns.get(day, 0), fired.get(day, 0), **sums.get(day, nothing)) for day in sorted(turns)]


def _judged_states(ground: Ground) -> "QuerySet[Judgement, Any]":
    """The judge's pairs of this policy, as a subquery of state ids."""
    rows = Judgement.objects.filter(artifact_text__artifact=ground.artifact, judge=ground.inventory.judge, repeat=0)
    return rows.values("state_id")


def _as_now(ground: Ground, zone: zoneinfo.ZoneInfo) -> tuple[list[Day], int]:
    """Every stored turn by its conversation's day, as the version in use decides; and judged turns without a day."""
    states = ground.states
    dated_rows = Conversation.objects.filter(inventory=ground.inventory, started_at__isnull=False)
    starts = {pk: at for pk, at in dated_rows.values_list("pk", "started_at") if at is not None}
    newest = max(starts.values(), default=datetime.now(tz=UTC))
    days = {pk: at.astimezone(zone).date() for pk, at in starts.items() if at > newest - timedelta(days=WINDOW)}
    ids, inverse = np.unique(states.conversation_ids, return_inverse=True)
    ordinal = np.array([days[pk].toordinal() if pk in days else 0 for pk in ids.tolist()], dtype=np.int64)[inverse]
    dated = np.array([pk in starts for pk in ids.tolist()], dtype=bool)[inverse]
    labels, fired = ground.labels, ground.fired
    counted = labels.judged & ~ground.left_out
    found = []
    for number in np.unique(ordinal[ordinal > 0]).tolist():
        here = ordinal == number
        needed, shown = here & counted & labels.relevant, here & counted & fired
        found.append(
            Day(
                date.fromordinal(number), int(here.sum()), int((here & fired).sum()), int((here & counted).sum()),
                int(needed.sum()), int((needed & fired).sum()), int(shown.sum()),
            )
        )  # fmt: skip
    return found, int((counted & ~dated).sum())
