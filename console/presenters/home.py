"""The cards of the home page, each worked out by itself so that one that fails does not take the others along."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import get_language

from console.models import Change, Heartbeat, Inventory, Note, Run, RunState, User
from console.presenters import run_words, runs, schedules
from console.presenters.changes import ChangeGroup, change_rows, grouped
from console.services import alerts, caches, heartbeat, notes
from console.services.alerts import Drift, RecallEstimate
from console.services.policy_rows import Row

SHOWN, READ = 6, 100
WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Needs:
    """What waits for a person: what has drifted, suggested examples per policy, a draft that agents do not get yet."""

    candidates: list[tuple[Row, int]]
    draft: int | None
    live: int
    unfitted: list[Row]
    recall: RecallEstimate | None  # where it is under the target
    drifts: list[tuple[Drift, str]]  # with the policy's name
    mentions: list[Note]  # that name the reader and were not looked at
    flags: list[Note]  # open ones, newest first
    flags_n: int

    @property
    def nothing(self) -> bool:
        return not (
            self.mentions or self.flags or self.candidates or self.draft or self.unfitted or self.recall or self.drifts
        )


def needs(inventory: Inventory, rows: Iterable[Row], reader: User) -> Needs:
    listed = [row for row in rows if not row.archived]
    names = {row.key: row.name for row in listed}
    estimate = alerts.recall_estimate(inventory)
    waiting = sorted(((row, row.candidates) for row in listed if row.candidates), key=lambda pair: -pair[1])
    return Needs(
        candidates=waiting[:SHOWN],
        draft=inventory.release if inventory.release != inventory.live_release else None,
        live=inventory.live_release,
        unfitted=[row for row in listed if "unfitted" in row.states][:SHOWN],
        recall=estimate if estimate and estimate.under_target else None,
        drifts=[(drift, names[drift.key]) for drift in alerts.drifts(inventory) if drift.key in names][:SHOWN],
        mentions=notes.unseen(inventory, reader, size=SHOWN),
        flags=(flags := list(notes.open_flags(inventory)[: SHOWN + 1]))[:SHOWN],
        flags_n=len(flags) if len(flags) <= SHOWN else notes.open_flags(inventory).count(),
    )


def watch(rows: Iterable[Row]) -> list[Row]:
    """Policies under their recall target, or with a turn that must be selected and is missed; worst first."""
    found = [row for row in rows if not row.archived and row.states & {"under_target", "failing_pin"}]
    return sorted(found, key=lambda row: (not row.failing_pins, row.recall if row.recall is not None else 1.0))


@dataclass(frozen=True)
class Activity:
    """What others changed since the reader was last here, or the newest changes where there are none."""

    groups: list[ChangeGroup]
    since: datetime | None
    count: int


_activities = caches.Cache(64)


def activity(inventory: Inventory, reader: User, since: datetime | None) -> Activity:
    """What others changed since the reader signed in the time before; every change makes a release, so it is kept for one."""
    key = (inventory.pk, inventory.release, reader.pk, reader.technical_terms, since, get_language())
    return caches.committed(_activities, key, lambda: _read_activity(inventory, reader, since))


def _read_activity(inventory: Inventory, reader: User, since: datetime | None) -> Activity:
    changes = Change.objects.filter(inventory=inventory).select_related("artifact", "release").order_by("-pk")
    fresh = changes.filter(at__gt=since).exclude(user=reader) if since else changes.none()
    count = fresh.count()
    read = change_rows(inventory, (fresh if count else changes)[:READ], technical=reader.technical_terms)
    return Activity(grouped(read)[:SHOWN], since, count)


@dataclass(frozen=True)
class Runs:
    """What is at work, what ended badly or waits for somebody since the reader was last here, and how the loop stands."""

    moving: list[runs.Row]
    wanting: list[runs.Row]
    some: bool
    loop: schedules.Loop | None
    last_worker: datetime | None
    nobody_works: bool


def runs_card(inventory: Inventory, since: datetime | None, *, technical: bool = False) -> Runs:
    """Without a last visit: of the last week."""
    every = Run.objects.filter(inventory=inventory).select_related("schedule").order_by("-pk")
    stopped = Q(state__in=[RunState.GAPS, RunState.FAILED], finished_at__gt=since or timezone.now() - WEEK)
    wanted = stopped | Q(state__in=[RunState.CAPPED, RunState.PAUSED])
    found = list(every.filter(wanted | Q(state__in=run_words.MOVING))[: 10 * SHOWN])
    moving = [run for run in found if run.state in run_words.MOVING][:SHOWN]
    wanting = [run for run in found if run.state not in run_words.MOVING][:SHOWN]
    beats = dict(Heartbeat.objects.values_list("name", "at"))
    worker = heartbeat.WORKER in beats and timezone.now() - beats[heartbeat.WORKER] <= heartbeat.FRESH
    rows = {row.run.pk: row for row in runs.rows(inventory, [*moving, *wanting], technical=technical)}
    return Runs(
        moving=[rows[run.pk] for run in moving],
        wanting=[rows[run.pk] for run in wanting],
        some=bool(rows) or every.exists(),
        loop=schedules.loop(inventory, worker=worker),
        last_worker=max(beats.values(), default=None),
        nobody_works=not worker,
    )
