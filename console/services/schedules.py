"""Schedules: runs started by the clock, in their owner's time zone, with every due time accounted for.

django-celery-beat keeps the cron lines and wakes `start_due`; what became of each due time is a row of ours, unique per
time, so that a message that comes twice starts one run and a time that nobody served is seen as missed.
"""

import json
import zoneinfo
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from celery.schedules import ParseException, crontab
from cron_descriptor import ExpressionDescriptor, FormatException, MissingFieldException, WrongArgumentException
from django.db import IntegrityError, transaction
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from console.models import Inventory, Overlap, Run, Schedule, ScheduledStart, StartOutcome
from console.models.run import ENDED
from console.services import audit, runs
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound, ServiceError
from console.services.run_kinds import ONCE, kind_of

TASK = "console.start_scheduled"
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
GRACE = timedelta(minutes=5)  # a time is missed when nobody has served it by then
LOOKED_BACK = 200  # missed times written down at most; older ones of a long silence are one line


# --------------------------------------------------------------------------------------------------------------- the clock
def parsed(cron: str) -> dict[str, str]:
    """The five fields by name. Raises Invalid for what is no cron line."""
    parts = cron.split()
    if len(parts) != len(FIELDS):
        raise Invalid(
            f"{cron[:60]!r} has {len(parts)} fields.", field="cron",
            hint="Give five: minute, hour, day of month, month, day of week. “30 2 * * *” is every night at 2:30.",
        )  # fmt: skip
    fields = dict(zip(FIELDS, parts, strict=True))
    try:
        crontab(**fields)
    except (ParseException, ValueError) as error:
        raise Invalid(
            f"{cron[:60]!r} cannot be read: {error}", field="cron", hint="“30 2 * * *” is every night at 2:30."
        ) from error
    return fields


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(
            f"There is no time zone {name[:60]!r}.", field="time_zone", hint="Europe/Berlin, say, or UTC."
        ) from error


def next_times(cron: str, time_zone: str, n: int = 3, *, after: datetime | None = None) -> list[datetime]:
    """The next ``n`` due times after ``after`` (now), in UTC."""
    fields, zone = parsed(cron), zone_of(time_zone)
    at = (after or timezone.now()).astimezone(zone)
    found: list[datetime] = []
    while len(found) < n:
        clock = crontab(**fields, nowfun=lambda at=at: at)
        last, step, _ = clock.remaining_delta(at, tz=zone)
        following = (last + step).replace(second=0, microsecond=0)
        if following <= at:  # an hour that the clock repeats in autumn
            at += timedelta(minutes=1)
            continue
        found.append(following.astimezone(zoneinfo.ZoneInfo("UTC")))
        at = following
    return found


def described(cron: str) -> str:
    """ "At 02:30", as a reader says it; "" for a line that has no plain words."""
    try:
        return str(ExpressionDescriptor(cron, use_24hour_time_format=True).get_description())
    except (FormatException, MissingFieldException, WrongArgumentException, ValueError, IndexError):
        return ""


# ------------------------------------------------------------------------------------------------------------------ editing
def get_schedule(inventory: Inventory, public_id: str) -> Schedule:
    found = (
        Schedule.objects.select_related("inventory", "user").filter(inventory=inventory, public_id=public_id).first()
    )
    if found is None:
        raise NotFound(f"{inventory.slug} has no schedule {public_id[:40]!r}.", field="schedule")
    return found


def save_schedule(
    inventory: Inventory,
    *,
    by: Actor,
    name: str,
    kind: str,
    cron: str,
    time_zone: str,
    scope: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    cap_tokens: int | None = None,
    cap_money: Decimal | None = None,
    overlap: str = Overlap.SKIP,
    enabled: bool = True,
    schedule: Schedule | None = None,
) -> Schedule:
    """Make a schedule, or change the given one, with its row in the scheduler. Raises Invalid naming the field, Conflict
    for a name that is taken. What the run would refuse is refused now."""
    found = kind_of(kind, params)
    if found.kind in ONCE:
        raise Invalid("An import reads one file, once.", field="kind", hint="Send new files to the API when they come.")
    name = name.strip()
    if not 1 <= len(name) <= 120:
        raise Invalid("A schedule has a name of 1 to 120 characters.", field="name")
    if overlap not in Overlap.values:
        raise Invalid(f"{overlap[:20]!r} is no rule.", field="overlap", hint="skip, or queue.")
    fields, zone = parsed(cron), zone_of(time_zone)
    found.check(inventory, scope or {}, params or {})
    row = schedule or Schedule(inventory=inventory, user=by.user)
    before = _record(schedule) if schedule else None
    # The params as asked for: what a run works out for itself (the newest guideline, the newest release) it does each time.
    row.name, row.kind, row.scope, row.params = name, found.kind, scope or {}, params or {}
    row.cron = " ".join(cron.split())
    row.time_zone, row.overlap, row.enabled = time_zone, overlap, enabled
    row.cap_tokens, row.cap_money = cap_tokens, cap_money
    row.due_seen = timezone.now()  # times before the change are not missed
    try:
        with transaction.atomic():
            row.save()
            _schedule(row, fields, zone)
            audit.record(
                by=by, inventory=inventory.slug, action="schedule.save", object_type="schedule", object_id=row.public_id,
                label=name, before=before, after=_record(row),
            )  # fmt: skip
    except IntegrityError as error:
        raise Conflict(f"There is a schedule {name!r} already.", hint="Choose another name.") from error
    return row


def switch_schedule(schedule: Schedule, *, by: Actor, enabled: bool) -> Schedule:
    """On or off; times that passed while it was off are not missed. Always possible, whatever its run would refuse."""
    if schedule.enabled == enabled:
        return schedule
    schedule.enabled, schedule.due_seen = enabled, timezone.now()
    with transaction.atomic():
        schedule.save(update_fields=["enabled", "due_seen"])
        _schedule(schedule, parsed(schedule.cron), zone_of(schedule.time_zone))
        audit.record(
            by=by, inventory=schedule.inventory.slug, action="schedule.on" if enabled else "schedule.off",
            object_type="schedule", object_id=schedule.public_id, label=schedule.name,
        )  # fmt: skip
    return schedule


def list_schedules(inventory: Inventory) -> list[Schedule]:
    return list(Schedule.objects.filter(inventory=inventory).select_related("inventory").order_by("name", "id"))


def last_starts(schedule: Schedule, n: int = 5) -> list[ScheduledStart]:
    """What became of its newest due times, newest first."""
    return list(ScheduledStart.objects.filter(schedule=schedule).select_related("run").order_by("-due_at")[:n])


def _record(row: Schedule) -> dict[str, Any]:
    return {
        name: getattr(row, name)
        for name in ("name", "kind", "scope", "params", "cron", "time_zone", "enabled", "overlap")
    }


def _schedule(row: Schedule, fields: dict[str, str], zone: zoneinfo.ZoneInfo) -> None:
    """The row that beat reads."""
    when, _ = CrontabSchedule.objects.get_or_create(**fields, timezone=zone)
    task, _ = PeriodicTask.objects.update_or_create(
        name=f"schedule {row.public_id}",
        defaults={
            "task": TASK, "crontab": when, "args": json.dumps([row.pk]), "enabled": row.enabled, "expire_seconds": 240,
        },
    )  # fmt: skip
    if row.periodic_id != task.pk:
        row.periodic_id = task.pk
        row.save(update_fields=["periodic_id"])


def delete_schedule(schedule: Schedule, *, by: Actor) -> None:
    """Take it away; the runs it started stay."""
    with transaction.atomic():
        PeriodicTask.objects.filter(pk=schedule.periodic_id).delete()
        audit.record(
            by=by, inventory=schedule.inventory.slug, action="schedule.delete", object_type="schedule",
            object_id=schedule.public_id, label=schedule.name, before=_record(schedule),
        )  # fmt: skip
        schedule.delete()


# ----------------------------------------------------------------------------------------------------------------- starting
def actor_of(schedule: Schedule) -> Actor:
    return Actor(name=f"schedule:{schedule.name}"[:150])


def start_due(schedule_id: int, *, now: datetime | None = None) -> Run | None:
    """The run of the newest due time, if it is this call that serves it; the caller wakes a worker."""
    now = now or timezone.now()
    schedule = Schedule.objects.select_related("inventory").filter(pk=schedule_id, enabled=True).first()
    if schedule is None:
        return None
    times = [at for at in due_times(schedule, now) if at > now - GRACE]
    return _start(schedule, times[-1]) if times else None


def run_now(schedule: Schedule, *, by: Actor) -> Run:
    """A run of this schedule outside its times. Raises what planning raises."""
    return _planned(schedule, by)


def due_times(schedule: Schedule, now: datetime) -> list[datetime]:
    """The due times since the last one accounted for, up to now; of a long silence the newest ones."""
    at = schedule.due_seen or schedule.created_at
    found: list[datetime] = []
    while len(found) <= 10 * LOOKED_BACK:
        piece = next_times(schedule.cron, schedule.time_zone, 20, after=found[-1] if found else at)
        passed = [t for t in piece if t <= now]
        found += passed
        if len(passed) < len(piece):
            break
    return found[-LOOKED_BACK:]


def _start(schedule: Schedule, due: datetime) -> Run | None:
    try:
        with transaction.atomic():
            row = ScheduledStart.objects.create(schedule=schedule, due_at=due, outcome=StartOutcome.STARTED)
    except IntegrityError:
        return None  # served already
    running = Run.objects.filter(schedule=schedule).exclude(state__in=ENDED).first()
    if running is not None and schedule.overlap == Overlap.SKIP:
        row.outcome, row.run, row.note = StartOutcome.SKIPPED, running, "The run before it had not ended."
        row.save()
        return None
    try:
        row.run = _planned(schedule, actor_of(schedule))
    except ServiceError as error:
        row.outcome, row.note = StartOutcome.REFUSED, error.message[:500]
    row.save()
    return row.run


def _planned(schedule: Schedule, by: Actor) -> Run:
    return runs.create_run(
        schedule.inventory, schedule.kind, by=by, scope=schedule.scope, params=schedule.params,
        cap_tokens=schedule.cap_tokens, cap_money=schedule.cap_money, unpriced_ok=True, schedule=schedule,
    )  # fmt: skip


def catch_up(*, now: datetime | None = None) -> int:
    """Write down the due times that nobody served: beat or every worker was away. They are not run late by themselves."""
    now = now or timezone.now()
    missed = 0
    for schedule in Schedule.objects.filter(enabled=True):
        late = [at for at in due_times(schedule, now) if at <= now - GRACE]
        if not late:
            continue
        served = set(ScheduledStart.objects.filter(schedule=schedule, due_at__in=late).values_list("due_at", flat=True))
        rows = [
            ScheduledStart(
                schedule=schedule, due_at=at, outcome=StartOutcome.MISSED, note="Nobody was there to start it."
            )
            for at in late
            if at not in served
        ]
        ScheduledStart.objects.bulk_create(rows, ignore_conflicts=True)
        Schedule.objects.filter(pk=schedule.pk).update(due_seen=late[-1])
        missed += len(rows)
    return missed
