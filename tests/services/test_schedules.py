"""Runs started by the clock: every due time is served once, skipped, missed or refused, and said so."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from console.models import AuditEvent, Run, RunState, Schedule, ScheduledStart
from console.services import run_work, schedules
from console.services.errors import Conflict, Invalid, NotFound
from tests.make import World

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def made(world: World, **more: Any) -> Schedule:
    asked: dict[str, Any] = {
        "name": "nightly", "kind": "evaluate", "cron": "30 2 * * *", "time_zone": "Europe/Berlin",
    } | more  # fmt: skip
    return schedules.save_schedule(world.inventory, by=world.by, **asked)


def seen_until(schedule: Schedule, at: datetime) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(due_seen=at)


def local(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=BERLIN)  # type: ignore[arg-type, misc]


def test_the_next_times_are_those_of_the_owners_clock() -> None:
    found = schedules.next_times("30 2 * * *", "Europe/Berlin", 3, after=datetime(2026, 11, 30, 12, tzinfo=UTC))
    assert [at.astimezone(BERLIN).strftime("%d %H:%M") for at in found] == ["01 02:30", "02 02:30", "03 02:30"]
    weekly = schedules.next_times("0 6 * * 1", "UTC", 2, after=datetime(2026, 11, 30, 12, tzinfo=UTC))
    assert [at.isoformat() for at in weekly] == ["2026-12-07T06:00:00+00:00", "2026-12-14T06:00:00+00:00"]
    exactly = schedules.next_times("0 6 * * *", "UTC", 1, after=datetime(2026, 11, 30, 6, tzinfo=UTC))
    assert exactly[0].day == 1  # a time that is now has been


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # The hour from 2 to 3 does not exist on 28 March 2027; the clock of 2:30 is the one of 3:30 then.
        (local(2027, 3, 27, 12), ["2027-03-28", "2027-03-29", "2027-03-30"]),
        # It comes twice on 25 October 2026: one run all the same.
        (local(2026, 10, 24, 12), ["2026-10-25", "2026-10-26", "2026-10-27"]),
    ],
)
def test_a_change_of_the_clock_neither_loses_nor_doubles_a_night(after: datetime, expected: list[str]) -> None:
    found = schedules.next_times("30 2 * * *", "Europe/Berlin", 3, after=after)
    assert [at.astimezone(BERLIN).strftime("%Y-%m-%d") for at in found] == expected
    assert all(b - a > timedelta(hours=20) for a, b in pairwise(found))


@pytest.mark.django_db
def test_a_schedule_is_kept_with_its_row_in_the_scheduler(world: World) -> None:
    schedule = made(world, cap_money=Decimal("2.5"))
    task = PeriodicTask.objects.get(pk=schedule.periodic_id)
    assert (task.task, task.args, task.enabled) == ("console.start_scheduled", f"[{schedule.pk}]", True)
    assert str(task.crontab.timezone) == "Europe/Berlin"
    assert (task.crontab.minute, task.crontab.hour) == ("30", "2")
    assert AuditEvent.objects.filter(action="schedule.save", object_id=schedule.public_id).exists()
    made(world, cron="0 4 * * *", enabled=False, schedule=schedule)
    task.refresh_from_db()
    assert (task.crontab.hour, task.enabled) == ("4", False)
    with pytest.raises(Conflict, match="already"):
        made(world)
    assert schedules.get_schedule(world.inventory, schedule.public_id) == schedule
    with pytest.raises(NotFound):
        schedules.get_schedule(world.others, schedule.public_id)
    schedules.delete_schedule(schedule, by=world.by)
    assert not PeriodicTask.objects.filter(pk=task.pk).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cron": "every night"}, "cron"),
        ({"cron": "61 2 * * *"}, "cron"),
        ({"cron": "* * * *"}, "cron"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"name": " "}, "name"),
        ({"kind": "dance"}, "kind"),
        ({"overlap": "hope"}, "overlap"),
        ({"params": {"protocol": "tea leaves"}}, "params.protocol"),
    ],
)
def test_what_cannot_be_scheduled_names_its_field(world: World, given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        made(world, **given)
    assert refused.value.field == field
    assert not Schedule.objects.exists()


@pytest.mark.django_db
def test_a_due_time_starts_one_run_however_often_it_is_told(world: World) -> None:
    schedule = made(world, cron="*/5 * * * *", time_zone="UTC")
    now = timezone.now().replace(minute=10, second=20)
    seen_until(schedule, now - timedelta(minutes=4))
    run = schedules.start_due(schedule.pk, now=now)
    assert run is not None
    assert (run.kind, run.schedule, run.actor) == ("evaluate", schedule, "schedule:nightly")
    assert schedules.start_due(schedule.pk, now=now + timedelta(seconds=1)) is None
    assert Run.objects.count() == 1
    # five minutes later the run is still going on: the rule skips, or queues
    later = now + timedelta(minutes=5)
    assert schedules.start_due(schedule.pk, now=later) is None
    skipped = ScheduledStart.objects.latest("due_at")
    assert (skipped.outcome, skipped.run) == ("skipped", run)
    Schedule.objects.update(overlap="queue")
    assert schedules.start_due(schedule.pk, now=later + timedelta(minutes=5)) is not None
    run_work.work(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.COMPLETE


@pytest.mark.django_db
def test_times_that_nobody_served_are_missed_once_and_not_run_late(world: World) -> None:
    schedule = made(world, cron="0 * * * *", time_zone="UTC")
    now = timezone.now().replace(minute=30, second=0, microsecond=0)
    seen_until(schedule, now - timedelta(hours=3))
    assert schedules.catch_up(now=now) == 3
    assert schedules.catch_up(now=now) == 0
    assert set(ScheduledStart.objects.values_list("outcome", flat=True)) == {"missed"}
    assert not Run.objects.exists()
    assert schedules.run_now(schedule, by=world.by).actor == "ada"
    seen_until(schedule, now - timedelta(days=365))
    ScheduledStart.objects.all().delete()
    assert schedules.catch_up(now=now) == schedules.LOOKED_BACK  # a long silence is not a thousand lines


@pytest.mark.django_db
def test_a_run_that_cannot_be_planned_is_refused_with_its_reason(world: World) -> None:
    schedule = made(world, kind="score", cron="* * * * *", time_zone="UTC")
    Schedule.objects.update(params={"release": 10**6})
    seen_until(schedule, timezone.now() - timedelta(minutes=2))
    assert schedules.start_due(schedule.pk) is None
    start = ScheduledStart.objects.latest("due_at")
    assert start.outcome == "refused"
    assert "no release" in start.note
    Schedule.objects.update(enabled=False)
    assert schedules.start_due(schedule.pk, now=timezone.now() + timedelta(minutes=2)) is None


def test_a_cron_line_is_read_out() -> None:
    assert schedules.described("30 2 * * *") == "At 02:30"
