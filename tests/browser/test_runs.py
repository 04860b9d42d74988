"""A run in the browser: its price before it starts, its progress until it ends by itself, what failed; a schedule's times."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, Request, expect

from console.models import Heartbeat, Run, RunState, Schedule, Spend
from console.services import heartbeat, run_work, runs, schedules
from console.services.actor import person
from tests.browser.conftest import Sample
from tests.browser.test_pages import look

pytestmark = pytest.mark.minilm


def test_a_run_is_started_and_its_progress_ends_by_itself(sample: Sample, page_of: Callable[..., Page]) -> None:
    heartbeat.beat(heartbeat.WORKER)
    page = page_of(sample.by_role["reviewer"])
    page.goto(f"{sample.home}/runs/")
    expect(page.get_by_role("heading", name="No run yet")).to_be_visible()
    page.get_by_role("link", name="Plan: Measure").click()
    forecast = page.locator("#forecast")
    expect(forecast).to_contain_text("nothing: no model is called")
    before = forecast.locator("[name=seen]").input_value()
    page.get_by_label("Table").select_option("mined")
    expect(forecast.locator("[name=seen]")).not_to_have_value(before)  # worked out again by itself
    page.get_by_label("Table").select_option("operating-point")
    expect(forecast.locator("[name=seen]")).to_have_value(before)
    page.get_by_role("button", name="Start").click()

    progress = page.locator("#progress")
    expect(progress).to_contain_text("queued")
    expect(progress).to_have_attribute("hx-trigger", "every 2s")
    expect(page.locator(".live-runs")).to_contain_text("1 run")
    run = Run.objects.get()
    page.get_by_role("button", name="Pause").focus()
    assert run_work.work(run.pk) is False  # as a worker does it
    expect(progress).to_contain_text("complete")
    expect(page.get_by_role("status").filter(has_text="Measure: complete.")).to_be_visible()
    expect(page.get_by_role("table")).to_contain_text("Show and don't-show examples, written by AI")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    assert progress.get_attribute("hx-trigger") is None
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))  # a builtin cannot be a handler
    page.wait_for_timeout(5_000)
    assert asked == []  # it has stopped asking


def test_a_run_of_recorded_answers_is_paused_and_goes_on(sample: Sample, page_of: Callable[..., Page]) -> None:
    heartbeat.beat(heartbeat.WORKER)
    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/runs/new/?kind=judge")
    expect(page.locator("#forecast")).to_contain_text("There is nothing to do.")  # the sample comes judged
    page.get_by_label("Only what is not reviewed yet").uncheck()
    page.get_by_label("How many of them").select_option("n")
    page.get_by_label("Percent, or number").fill("1")
    page.get_by_label("Percent, or number").press("Tab")
    expect(page.locator("#forecast")).to_contain_text("nothing: stored answers are replayed")
    expect(page.locator("#forecast")).not_to_contain_text("There is nothing to do.")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("h1")).to_contain_text("recorded")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#progress")).to_contain_text("paused")
    run = Run.objects.get()
    assert run.total > 0
    assert page.locator("#progress").get_attribute("hx-trigger") is None
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#progress")).to_contain_text("queued")
    while run_work.work(run.pk):
        pass
    expect(page.locator("#progress")).to_contain_text("answers replayed; nothing called or spent")
    expect(page.locator("#beside")).to_contain_text("pairs of turn and policy scored")
    run.refresh_from_db()
    assert (run.state, run.money) == (RunState.COMPLETE, 0)


def test_the_next_times_follow_what_is_typed(sample: Sample, page_of: Callable[..., Page]) -> None:
    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/schedules/new/?kind=evaluate")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("At 02:00")
    page.get_by_label("When").fill("0 5 * * 1")
    page.get_by_label("When").press("Tab")
    expect(preview).to_contain_text("At 05:00, only on Monday")
    expect(preview.locator("ol li")).to_have_count(3)
    page.get_by_label("When").fill("61 * * * *")
    page.get_by_label("When").press("Tab")
    expect(preview).to_contain_text("cannot be read")
    page.get_by_label("When").fill("0 5 * * 1")
    page.get_by_role("button", name="Save schedule").click()
    expect(page.get_by_role("status").filter(has_text="The schedule is saved.")).to_be_visible()
    assert Schedule.objects.get().cron == "0 5 * * 1"


def test_the_standing_loop_is_set_in_one_click(sample: Sample, page_of: Callable[..., Page]) -> None:
    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/")
    page.locator("#runs").get_by_role("link", name="Set it").click()
    expect(page.get_by_label("Nightly reviews")).to_be_checked()
    assert Schedule.objects.count() == 0
    page.get_by_role("button", name="Make these schedules").click()
    expect(page.get_by_role("status").filter(has_text="3 schedules are set.")).to_be_visible()
    expect(page.get_by_role("table")).to_contain_text("At 05:00, only on Monday")
    assert Schedule.objects.count() == 3


# ------------------------------------------------------------------------------------------------------------- soundness
def lived_in(sample: Sample) -> tuple[Run, Run, Schedule]:
    """A measured table, a run with gaps whose price is known in part, a schedule with every outcome; the worker is gone."""
    by, inventory, now = person(sample.by_role["author"]), sample.inventory, timezone.now()
    measured = runs.create_run(inventory, "evaluate", by=by)
    run_work.work(measured.pk)
    gaps = Run.objects.create(
        inventory=inventory, kind="judge", state=RunState.GAPS, total=40, actor="ada", cap_money=2, calls=41,
        scope={"artifacts": ["cancel-flight"], "since": "7d"}, params={"per_call": 1}, money=1, unpriced_calls=1,
        provider={"provider": "openai", "model": "gpt-x", "base_url": "https://api.example.org/v1", "concurrency": 4},
        tokens_in=48_000, tokens_out=900, started_at=now, finished_at=now, progressed_at=now, settled=True,
        note="3 of 40 failed.", result={"judged": 37, "scores": {"1": 30, "5": 7}, "flagged": 2, "judge": "gpt-x"},
    )  # fmt: skip
    for number in range(40):
        code = "bad_json" if number < 3 else ""
        item = gaps.items.create(
            position=number, key=f"sky-112/{number} cancel-flight", state="failed" if code else "done", error_code=code,
            error="The reply is no JSON, or only a part of it." if code else "", attempts=4 if code else 1, ended_at=now,
        )  # fmt: skip
        if code:
            raw = 'Sure! {"judgements": [{"id": ' + "cancel-flight " * 40
            item.tries.create(number=4, at=now, ms=812, outcome=code, message=item.error, raw=raw)
    for money in (Decimal("0.9"), Decimal("0.1"), None):
        Spend.objects.create(
            inventory=inventory, run=gaps, artifact=sample.artifact("cancel-flight"), source="judge", at=now,
            model="gpt-x@api.example.org", tokens_in=16_000, tokens_cached=9_000, tokens_out=300, money=money,
        )  # fmt: skip
    schedule = schedules.save_schedule(
        inventory, by=by, name="Nightly table", kind="evaluate", cron="30 2 * * *", time_zone="Europe/Berlin"
    )
    for days, outcome in enumerate(("started", "skipped", "missed", "refused")):
        schedule.starts.create(
            due_at=now - timedelta(days=days), outcome=outcome, run=measured if outcome == "started" else None,
            note="No judgement says that a turn needs an artifact." if outcome == "refused" else "",
        )  # fmt: skip
    Heartbeat.objects.filter(name=heartbeat.WORKER).update(at=now - timedelta(hours=2))
    return measured, gaps, schedule


@pytest.mark.timeout(900)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_pages_of_runs_are_sound(
    sample: Sample, page_of: Callable[..., Page], axe: Callable[[Page], None], theme: str, width: int
) -> None:
    home = sample.home
    options: dict[str, Any] = {"viewport": {"width": width, "height": 800}, "color_scheme": theme}
    pages = {role: page_of(sample.by_role[role], **options) for role in ("viewer", "admin")}
    look_with = None if (theme, width) == ("dark", 360) else axe
    wrong: list[str] = []

    def see(role: str, name: str, address: str) -> None:
        response = pages[role].goto(f"{home}/{address}")
        assert response is not None
        if response.status != 200:
            wrong.append(f"{name}: {response.status}")
        wrong.extend(look(pages[role], f"{name}-{theme}-{width}", look_with))

    see("admin", "runs-none", "runs/")
    see("admin", "schedules-none", "schedules/")
    see("admin", "costs-none", "costs/")
    measured, gaps, schedule = lived_in(sample)
    for role, name, address in (
        ("admin", "runs", "runs/"),
        ("admin", "run-new", "runs/new/"),
        ("admin", "run-new-judge", "runs/new/?kind=judge"),
        ("admin", "run-new-mine", "runs/new/?kind=mine"),
        ("admin", "run-plan", "runs/plan/?money=2&measure=25&wanted=10"),
        ("admin", "run-like", f"runs/new/?like={gaps.public_id}"),
        ("viewer", "run-measured", f"runs/{measured.public_id}/"),
        ("admin", "run-gaps", f"runs/{gaps.public_id}/"),
        ("admin", "run-items", f"runs/{gaps.public_id}/items/?code=bad_json"),
        ("admin", "schedules", "schedules/"),
        ("admin", "schedule", f"schedules/{schedule.public_id}/"),
        ("viewer", "schedule-seen", f"schedules/{schedule.public_id}/"),
        ("admin", "schedule-new", "schedules/new/?kind=generate"),
        ("admin", "loop", "schedules/loop/"),
        ("admin", "costs", "costs/"),
        ("admin", "models", "settings/models/"),
        ("admin", "home-with-runs", ""),
    ):
        see(role, name, address)
    page = pages["admin"]
    for summary in page.locator("main details > summary").all():
        if summary.is_visible():
            summary.click()
    wrong.extend(look(page, f"home-open-{theme}-{width}", look_with))
    page.goto(f"{home}/settings/models/")
    for summary in page.locator("main details > summary").all():
        summary.click()
    page.get_by_role("button", name="Save and try it").first.click()
    expect(page.get_by_text("Recorded answers are replayed: nothing was called.")).to_be_visible()
    wrong.extend(look(page, f"models-tried-{theme}-{width}", look_with))
    assert not wrong, "\n".join(wrong)
