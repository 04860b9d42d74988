"""Schedules: their times in words, what became of the last ones, what is done to them; the standing loop in one click."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from console.models import AuditEvent, Run, RunState, Schedule, ScheduledStart, StartOutcome
from console.presenters import schedules as shown
from console.services import heartbeat, models_setting, run_kinds, schedules, standing_loop
from console.services.errors import Invalid
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
LIST = "/i/tiny/schedules/"


def text(response: Any) -> str:
    found: str = response.content.decode()
    return found


def made(world: make.World, **more: Any) -> Schedule:
    values: dict[str, Any] = {
        "name": "Nightly table",
        "kind": "evaluate",
        "cron": "30 2 * * *",
        "time_zone": "Europe/Berlin",
    }
    return schedules.save_schedule(world.inventory, by=world.by, **values | more)


def form(**more: str) -> dict[str, str]:
    values = {
        "name": "Weekly table", "cron": "0 5 * * 1", "time_zone": "Europe/Berlin", "overlap": "skip", "enabled": "on",
        "protocol": "operating-point", "labels": "as-judged",
    }  # fmt: skip
    return values | more


# ------------------------------------------------------------------------------------------------------------- the list
def test_without_one_the_standing_loop_is_offered(world: make.World, signed_in: Any) -> None:
    page = text(signed_in(world.author).get(LIST))
    assert "No schedule yet" in page
    assert f'href="{LIST}loop/"' in page
    theirs = text(signed_in(world.viewer).get(LIST))
    assert "New schedule" not in theirs
    assert f'href="{LIST}loop/"' not in theirs


def test_a_row_has_words_times_outcomes_and_acts(world: make.World, signed_in: Any) -> None:
    row = made(world, cap_tokens=None)
    due = datetime(2026, 3, 2, 1, 30, tzinfo=UTC)
    run = schedules.run_now(row, by=world.by)
    refusal = "No judgement says that."
    notes = [(outcome, refusal if outcome == "refused" else "") for outcome in
             ("started", "skipped", "missed", "refused", "started", "missed")]  # fmt: skip
    for number, (outcome, note) in enumerate(notes):
        ScheduledStart.objects.create(
            schedule=row, due_at=due + timedelta(days=number), outcome=outcome, note=note,
            run=run if outcome == "started" else None,
        )  # fmt: skip
    page = text(signed_in(world.reviewer).get(LIST))
    for words in ("Nightly table", "At 02:30", "30 2 * * *", "Europe/Berlin", "methods compared",
                  "skipped", "missed", "Nobody was there to start it.", "refused",
                  "No judgement says that.", "Run now", "Switch off"):  # fmt: skip
        assert words in page, words
    assert page.count("02:30</time>") == 3 + 5  # the next three and the last five, in its own zone
    assert "03-02 02:30" not in page  # the sixth-last is not there
    assert f'href="/i/tiny/runs/{run.public_id}/"' in page
    assert "Run now" not in text(signed_in(world.viewer).get(LIST))


def test_times_are_right_where_the_clocks_change(world: make.World) -> None:
    clock = shown.clock("30 2 * * *", "Europe/Berlin")
    assert [f"{at:%H:%M}" for at in clock.times] == ["02:30"] * 3
    assert shown.clock("61 * * * *", "UTC").error is not None
    assert shown.clock("0 2 * * *", "Middle/Earth").error is not None
    assert schedules.described("0 5 * * 1") == "At 05:00, only on Monday"
    assert schedules.described("no cron") == ""


# ------------------------------------------------------------------------------------------------------------- new, edit
def test_a_new_one_shows_its_times_before_it_is_saved(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    kinds = text(client.get(f"{LIST}new/"))
    assert f'href="{LIST}new/?kind=evaluate"' in kinds
    assert "takes the role Author" in kinds
    address = f"{LIST}new/?kind=evaluate"
    page = text(client.get(address))
    assert "At 02:00" in page
    assert "Dry run: if it ran now" in page
    assert "nothing: no model is called" in page
    part = text(client.post(address, form(), headers=HTMX))  # as typed, with a script
    assert "<html" not in part
    assert "At 05:00, only on Monday" in part
    assert part.count("Mon 20") == 3
    assert "At 05:00, only on Monday" in text(client.post(address, form(look="1")))  # and without one
    assert Schedule.objects.count() == 0
    assert "cannot be read" in text(client.post(address, form(cron="61 * * * *"), headers=HTMX))
    saved = client.post(address, form(save="1"), follow=True)
    assert "The schedule is saved." in text(saved)
    row = Schedule.objects.get()
    assert (row.name, row.cron, row.kind, row.params["labels"]) == (
        "Weekly table",
        "0 5 * * 1",
        "evaluate",
        "as-judged",
    )
    assert row.user == world.reviewer
    assert PeriodicTask.objects.get(pk=row.periodic_id).enabled


def test_what_is_wrong_stands_under_its_field(world: make.World, signed_in: Any) -> None:
    made(world, name="Weekly table")
    client, address = signed_in(world.reviewer), f"{LIST}new/?kind=evaluate"
    for values, words in (
        (form(cron="0 5"), "has 2 fields"),
        (form(time_zone="Middle/Earth"), "Select a valid choice"),
        (form(), "There is a schedule"),
        (form(name=""), "This field is required"),
    ):
        response = client.post(address, {**values, "save": "1"})
        assert response.status_code == 422, words
        assert words in text(response)
    assert Schedule.objects.count() == 1


def test_editing_keeps_what_was_asked_for(world: make.World, signed_in: Any) -> None:
    row = made(world)
    client, address = signed_in(world.reviewer), f"{LIST}{row.public_id}/"
    page = text(client.get(address))
    assert 'value="30 2 * * *"' in page
    assert '<option value="Europe/Berlin" selected>' in page
    client.post(address, form(name="Later", labels="running-max", overlap="queue", save="1"))
    row.refresh_from_db()
    assert (row.name, row.params["labels"], row.overlap, row.enabled) == ("Later", "running-max", "queue", True)
    assert AuditEvent.objects.filter(action="schedule.save", object_id=row.public_id).count() == 2
    read_only = text(signed_in(world.viewer).get(address))
    assert "Changing it takes the role Reviewer." in read_only
    assert "the next starts beside one that has not ended" in read_only
    assert signed_in(world.viewer).post(address, form(save="1")).status_code == 403


def test_a_schedule_takes_the_newest_release_each_time(world: make.World) -> None:
    """What a run works out for itself is not frozen in the schedule."""
    row = made(world, name="Selections", kind="score")
    assert row.params == {}
    first = schedules.run_now(row, by=world.by)
    make.artifact(world.inventory, "gift-wrap", signals=["wrap it as a gift"], anti_signals=["no gift"])
    world.inventory.refresh_from_db()
    row.inventory.refresh_from_db()
    second = schedules.run_now(row, by=world.by)
    assert second.params["release"] > first.params["release"]


# ------------------------------------------------------------------------------------------------------ what is done to it
def act(client: Any, row: Schedule, do: str) -> Any:
    return client.post(f"{LIST}{row.public_id}/do/", {"do": do}, follow=True)


def test_off_on_run_now_and_delete(world: make.World, signed_in: Any, woken: list[int]) -> None:
    row, client = made(world), signed_in(world.reviewer)
    assert "is switched off; its runs stay." in text(act(client, row, "off"))
    assert not PeriodicTask.objects.get(pk=row.periodic_id).enabled
    page = text(client.get(LIST))
    assert "none: switched off" in page
    assert "Switch on" in page
    assert "is switched on." in text(act(client, row, "on"))
    assert PeriodicTask.objects.get(pk=row.periodic_id).enabled
    assert "Measure" in text(act(client, row, "run"))
    run = Run.objects.get()
    assert (run.schedule, woken) == (row, [run.pk])
    assert act(client, row, "dance").status_code == 404
    assert "is deleted; its runs stay." in text(act(client, row, "delete"))
    run.refresh_from_db()
    assert (run.schedule, Schedule.objects.count(), PeriodicTask.objects.filter(name__startswith="schedule").count()) == (
        None, 0, 0,
    )  # fmt: skip


def test_switching_off_works_when_its_run_would_be_refused(world: make.World, signed_in: Any) -> None:
    row = made(world)
    Schedule.objects.filter(pk=row.pk).update(params={"protocol": "gone with an update"})
    act(signed_in(world.reviewer), row, "off")
    row.refresh_from_db()
    assert row.enabled is False
    refused = act(signed_in(world.reviewer), row, "run")
    assert refused.status_code == 422
    assert "gone with an update" in text(refused)


def test_acts_take_the_kind_s_role_and_others_schedules_are_not_there(world: make.World, signed_in: Any) -> None:
    row = made(world, name="Cut-off", kind="calibrate")
    assert act(signed_in(world.author), row, "off").status_code == 403
    assert act(signed_in(world.publisher), row, "off").status_code == 200
    client = signed_in(world.stranger)
    assert client.get(f"/i/others/schedules/{row.public_id}/").status_code == 404
    assert client.post(f"/i/others/schedules/{row.public_id}/do/", {"do": "delete"}).status_code == 404
    assert Schedule.objects.count() == 1


# ----------------------------------------------------------------------------------------------------- the standing loop
@pytest.fixture
def judged_by_a_model(world: make.World) -> make.World:
    models_setting.set_model(
        world.inventory, "judge", by=world.by, provider="openai", model="m", base_url="http://127.0.0.1:9/v1",
        price_in="1", price_out="2",
    )  # fmt: skip
    return world


def test_the_loop_is_shown_before_it_is_set(judged_by_a_model: make.World, signed_in: Any) -> None:
    client = signed_in(judged_by_a_model.author)
    page = text(client.get(f"{LIST}loop/"))
    for words in ("Daily random part", "Nightly reviews", "Weekly examples", "At 01:00", "At 02:00",
                  "At 05:00, only on Monday", "what is not reviewed yet", "random chats"):  # fmt: skip
        assert words in page, words
    assert Schedule.objects.count() == 0
    values = {"steps": ["judge", "mine"], "time_zone": "Europe/Berlin", "cap_tokens": "500000", "cap_money": ""}
    assert "2 schedules are set." in text(client.post(f"{LIST}loop/", values, follow=True))
    judge, mine = Schedule.objects.order_by("kind")
    assert (judge.scope, judge.cap_tokens, judge.time_zone) == ({"unjudged_only": True}, 500_000, "Europe/Berlin")
    assert (mine.kind, mine.cron, mine.cap_tokens) == ("mine", "0 5 * * 1", None)
    again = text(client.get(f"{LIST}loop/"))
    assert again.count("there already") == 2
    assert again.count('name="steps"') == 1
    client.post(f"{LIST}loop/", values | {"steps": ["sample"]})
    assert "All of it is set." in text(client.get(f"{LIST}loop/"))
    assert Schedule.objects.count() == 3


def test_the_loop_is_all_or_nothing(world: make.World, signed_in: Any) -> None:
    """Without a model for the reviewer, no schedule is made, and the page says what is wanting."""
    client = signed_in(world.author)
    values = {"steps": ["mine", "judge"], "time_zone": "UTC", "cap_tokens": "1000", "cap_money": ""}
    response = client.post(f"{LIST}loop/", values)
    assert response.status_code == 422
    assert "No model judges here yet." in text(response)
    assert Schedule.objects.count() == 0
    empty = client.post(f"{LIST}loop/", {"time_zone": "UTC"})
    assert empty.status_code == 422
    assert "Tick at least one." in text(empty)
    with pytest.raises(Invalid):
        standing_loop.set_loop(world.inventory, by=world.by, time_zone="UTC")


def test_only_kinds_that_are_there_take_part(
    world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(run_kinds.KINDS, "judge")
    assert [step.key for step in standing_loop.steps(world.inventory)] == ["mine"]
    monkeypatch.delitem(run_kinds.KINDS, "mine")
    assert shown.loop(world.inventory) is None
    assert signed_in(world.author).get(f"{LIST}loop/").status_code == 404
    assert f'href="{LIST}loop/"' not in text(signed_in(world.author).get(LIST))


def test_the_random_part_holds_about_a_hundred_turns(world: make.World) -> None:
    sample = standing_loop.steps(world.inventory)[0].scope["sample"]
    assert sample == {"unit": "conversation", "n": round(100 / 2.4)}  # 12 turns in 5 chats


def test_how_the_loop_stands(judged_by_a_model: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = judged_by_a_model
    loop = shown.loop(world.inventory)
    assert loop is not None
    assert not loop.set
    assert [(part.name, part.words) for part in loop.wanting] == [
        ("Daily random part", "not set"), ("Nightly reviews", "not set"), ("Weekly examples", "not set"),
        ("Worker", "none is there"),
    ]  # fmt: skip
    home = text(signed_in(world.author).get("/i/tiny/?card=runs", headers=HTMX))
    assert "The standing loop is not set." in home
    rows = standing_loop.set_loop(world.inventory, by=world.by, time_zone="UTC", cap_tokens=1_000)
    heartbeat.beat(heartbeat.WORKER)
    loop = shown.loop(world.inventory)
    assert loop is not None
    assert loop.ready
    assert "The standing loop is set." in text(signed_in(world.author).get("/i/tiny/?card=runs", headers=HTMX))
    ScheduledStart.objects.create(schedule=rows[1], due_at=timezone.now(), outcome=StartOutcome.MISSED)
    schedules.switch_schedule(rows[2], by=world.by, enabled=False)
    models_setting.set_model(world.inventory, "judge", by=world.by, key_name="SIGNALBOX_KEY_NOWHERE")
    loop = shown.loop(world.inventory)
    assert loop is not None
    said = {part.name: part.words for part in loop.wanting}
    assert said["Nightly reviews"].startswith("missed (")
    assert said["Weekly examples"] == "switched off"
    assert said["AI reviewer"] == "the server has no SIGNALBOX_KEY_NOWHERE"
    page = text(signed_in(world.admin).get(LIST))
    assert "Mend" in page
    assert 'href="/i/tiny/settings/models/"' in page


def test_home_names_runs_at_work_and_those_that_want_somebody(world: make.World, signed_in: Any) -> None:
    from console.services import runs

    first = runs.create_run(world.inventory, "evaluate", by=world.by)
    gaps = runs.create_run(world.inventory, "score", by=world.by)
    old = runs.create_run(world.inventory, "score", by=world.by)
    Run.objects.filter(pk=first.pk).update(state=RunState.RUNNING, started_at=timezone.now())
    Run.objects.filter(pk=gaps.pk).update(state=RunState.GAPS, finished_at=timezone.now())
    Run.objects.filter(pk=old.pk).update(state=RunState.FAILED, finished_at=timezone.now() - timedelta(days=8))
    client = signed_in(world.viewer)
    card = text(client.get("/i/tiny/?card=runs", headers=HTMX))
    assert f'href="/i/tiny/runs/{first.public_id}/"' in card
    assert "complete with 0 gaps" in card
    assert old.public_id not in card
    assert "every 5s" in card
    page = text(client.get("/i/tiny/policies/"))
    assert "live-runs" in page
    assert "1 run" in page
