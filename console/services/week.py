"""The last seven days that have data: what production selected, and what the AI reviewer found needed, per policy.

Read at most every five minutes per process: a list need not count a log of decisions at every look.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from console.models import ArtifactText, Decision, Discovery, Inventory, Judgement, Origin
from console.services import caches

DAYS, FRESH_S = 7, 300
_weeks = caches.Cache(64)


@dataclass(frozen=True)
class Week:
    """``turns`` production asked about on ``days`` different days; counts by artifact id. Empty where nothing was recorded."""

    days: int = 0
    turns: int = 0
    since: datetime | None = None
    at: datetime | None = None  # when it was counted
    fired: Mapping[int, int] = field(default_factory=dict)
    judged: Mapping[int, int] = field(default_factory=dict)
    relevant: Mapping[int, int] = field(default_factory=dict)


def week(inventory: Inventory) -> Week:
    key = (inventory.pk, inventory.judge_id, int(time.time() / FRESH_S))
    found: Week = _weeks.get(key, lambda: _read(inventory))
    return found


def _read(inventory: Inventory) -> Week:
    asked = Discovery.objects.filter(inventory=inventory, origin=Origin.LIVE)
    since, days = _since(asked)
    fired: dict[int, int] = {}
    turns = 0
    if since is not None:
        asked = asked.filter(at__gte=since)
        turns = asked.count()
        rows = Decision.objects.filter(discovery__in=asked, fired=True).order_by().values_list("artifact_id")
        fired = dict(rows.annotate(n=Count("pk")).values_list("artifact_id", "n"))
    judged, relevant = _judged(inventory)
    return Week(days, turns, since, timezone.now(), fired, judged, relevant)


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _since(rows: QuerySet[Discovery]) -> tuple[datetime | None, int]:
    """The midnight (UTC) that begins the seventh newest day with a row, and how many such days there are."""
    since, days = None, 0
    while days < DAYS:
        left = rows if since is None else rows.filter(at__lt=since)
        newest = left.order_by("-at").values_list("at", flat=True).first()
        if newest is None:
            break
        since, days = _midnight(newest), days + 1
    return since, days


def _after(rows: QuerySet[Judgement]) -> int:
    """The row behind which the seven newest days lie: judgements are numbered as they come, so the number is halved in on."""
    last = rows.order_by("-pk").values_list("pk", "at").first()
    for _day in range(DAYS):
        if last is None:
            return 0
        low, high, bound = 0, last[0], _midnight(last[1])
        while low < high:
            middle = (low + high + 1) // 2
            found = rows.filter(pk__lte=middle).order_by("-pk").values_list("pk", "at").first()
            if found is None or found[1] < bound:
                low = middle
            else:
                high = min(middle - 1, found[0] - 1)
        last = rows.filter(pk__lte=low).order_by("-pk").values_list("pk", "at").first()
    return last[0] if last else 0


def _judged(inventory: Inventory) -> tuple[dict[int, int], dict[int, int]]:
    if inventory.judge is None:
        return {}, {}
    rows = Judgement.objects.filter(judge=inventory.judge)
    texts = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
    counted = (
        rows.filter(pk__gt=_after(rows), repeat=0, artifact_text__in=texts)
        .order_by()
        .values("artifact_text__artifact_id")
        .annotate(n=Count("pk"), needed=Count("pk", filter=Q(score__gte=inventory.judge.pass_mark)))
    )
    judged, relevant = {}, {}
    for row in counted:
        judged[row["artifact_text__artifact_id"]] = row["n"]
        relevant[row["artifact_text__artifact_id"]] = row["needed"]
    return judged, relevant
