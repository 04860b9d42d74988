"""The machinery of runs, driven by a toy kind whose items do what the test says: well, badly, slowly, or dying."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from console.models import Attempt, AuditEvent, Inventory, ItemState, Role, Run, RunKind, RunState, Spend
from console.services import limits, run_coordinator, run_kinds, run_work, runs
from console.services.errors import Conflict, Invalid
from console.services.run_kind import Context, Forecast, Item, ItemDraft, Ordinary, Outcome, Usage
from tests.make import World

Script = dict[str, list[Outcome]]


@dataclass
class Toy(Ordinary):
    """Item ``n`` answers with what ``script`` holds for its key, in order; else with its number, doubled."""

    kind: RunKind = RunKind.JUDGE
    role: Role = Role.AUTHOR
    calls_model: bool = False
    batch: int = 4
    lease_s: int = 30
    tries: int = 3
    script: Script = field(default_factory=dict)
    performed: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    settled: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        return {"n": 10} | params

    def plan(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> Iterable[ItemDraft]:
        return (ItemDraft(key=f"item-{number}", payload={"number": number}) for number in range(params["n"]))

    def forecast(self, inventory: Inventory, scope: dict[str, Any], params: dict[str, Any]) -> Forecast:
        return Forecast(items=params["n"], calls=params["n"], notes=("All is judged.",))

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        return Context(run, run.inventory)

    def perform(self, context: Context, item: Item) -> Outcome:
        with self.lock:
            self.performed.append(item.key)
            wanted = self.script.get(item.key, [])
            return wanted.pop(0) if wanted else Outcome(value=2 * item.payload["number"], usage=(Usage(100, 10),))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[dict[str, Any] | None]:
        self.stored += [item.key for item, _ in done]
        return [{"value": outcome.value} for _, outcome in done]

    def settle(self, run: Run) -> dict[str, Any]:
        self.settled += 1
        return {"sum": sum(r["value"] for r in run.items.exclude(result=None).values_list("result", flat=True) if r)}


PROVIDER = {"provider": "openai", "model": "m", "concurrency": 2, "price_in": "1", "price_out": "10"}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    monkeypatch.setitem(run_kinds.KINDS, "judge", made)
    monkeypatch.setattr(runs, "_provider", lambda inventory, kind: dict(PROVIDER))
    monkeypatch.setattr(run_work, "FIRST_BACKOFF_S", 0.0)
    limits.forget()
    return made


def start(world: World, **more: Any) -> Run:
    return runs.create_run(world.inventory, "judge", by=world.by, **more)


def work(run: Run) -> Run:
    run_work.work(run.pk)
    run.refresh_from_db()
    rows = {state: run.items.filter(state=state).count() for state in ItemState.values}
    assert (run.done, run.failed) == (rows["done"], rows["failed"]), "the counters say what the rows say"
    return run


def test_a_run_ends_with_every_item_done_once_and_its_sums(world: World, toy: Toy) -> None:
    run = start(world)
    assert (run.state, run.total) == (RunState.QUEUED, 10)
    work(run)
    assert (run.state, run.result, run.settled) == (RunState.COMPLETE, {"sum": 90}, True)
    assert sorted(toy.stored) == sorted(f"item-{n}" for n in range(10))
    assert (run.calls, run.tokens_in, run.tokens_out) == (10, 1_000, 100)
    assert run.money == Decimal("0.002")  # 1000 in at 1 a million, 100 out at 10 a million
    assert Spend.objects.filter(run=run).count() == 10
    shown = runs.progress(run)
    assert (shown.total, shown.done, shown.failed, shown.left, shown.in_flight, shown.share) == (10, 10, 0, 0, 0, 1.0)
    assert AuditEvent.objects.filter(action="run.create", object_id=run.public_id).exists()


def test_what_fails_is_tried_again_and_then_named(world: World, toy: Toy) -> None:
    again = Outcome(code="server_error", message="status 500", again=True, status=500, raw="<html>")
    toy.script = {
        "item-1": [again, again],  # the third try goes well
        "item-2": [again, again, again],
        "item-3": [Outcome(code="wrong_shape", message="no score", raw="{}")],
    }
    run = work(start(world))
    assert run.state == RunState.GAPS
    assert run.note == "2 of 10 failed."
    assert [(g.code, g.n) for g in runs.error_groups(run)] == [("server_error", 1), ("wrong_shape", 1)]
    assert runs.tried_again(run) == [("server_error", 5), ("wrong_shape", 1)]
    kept = Attempt.objects.get(item__key="item-3", item__run=run)
    assert (kept.number, kept.outcome, kept.raw) == (1, "wrong_shape", "{}")
    assert toy.performed.count("item-1") == 3
    toy.settled = 0
    assert runs.retry_failed(run, by=world.by) == 2
    work(run)
    assert (run.state, run.result, toy.settled) == (RunState.COMPLETE, {"sum": 90}, 1)
    with pytest.raises(Conflict, match="Nothing of this run has failed"):
        runs.retry_failed(run, by=world.by)


def test_all_failed_is_failed_and_nothing_to_do_is_said(world: World, toy: Toy) -> None:
    toy.script = {f"item-{n}": [Outcome(code="refused", message="status 401")] for n in range(10)}
    assert work(start(world)).state == RunState.FAILED
    empty = start(world, params={"n": 0})
    assert (empty.state, empty.note) == (RunState.COMPLETE, "There was nothing to do. All is judged.")


def test_a_raised_error_is_one_items_fault_and_a_refused_batch_goes_back(
    world: World, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perform(context: Context, item: Item) -> Outcome:
        if item.key == "item-5":
            raise ZeroDivisionError("by nought")
        return Outcome(value=1)

    monkeypatch.setattr(toy, "perform", perform)
    full = [OperationalError("database or disk is full")]

    def store(context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[dict[str, Any] | None]:
        if full:
            raise full.pop()
        return [{"value": 1} for _ in done]

    monkeypatch.setattr(toy, "store", store)
    run = work(start(world))
    assert run.state == RunState.GAPS
    (group,) = runs.error_groups(run)
    assert (group.code, group.n, group.sample[0].error) == ("error", 1, "ZeroDivisionError: by nought")
    assert runs.tried_again(run)[0] == ("unavailable", 4)  # the first batch, whose results could not be written


def test_a_cap_stops_before_the_call_and_raising_it_goes_on(world: World, toy: Toy) -> None:
    toy.calls_model = True
    run = work(start(world, cap_tokens=6_000))  # unknown calls count as 1,500: two at a time, then 110 as they are
    spent = run.tokens_in + run.tokens_out
    assert run.state == RunState.COMPLETE
    assert spent == 1_100
    run = work(start(world, cap_money=Decimal("0.0035")))  # one unknown call of at most .003, then known ones
    assert (run.state, run.money) == (RunState.COMPLETE, Decimal("0.002"))
    run = work(start(world, cap_money=Decimal("0.0025")))
    assert (run.state, run.calls) == (RunState.CAPPED, 0)
    run = start(world, cap_tokens=1_000)
    work(run)
    assert (run.state, run.calls) == (RunState.CAPPED, 0)
    with pytest.raises(Invalid, match="positive"):
        runs.raise_cap(run, by=world.by, cap_tokens=-1)
    runs.raise_cap(run, by=world.by, cap_tokens=None)
    assert work(run).state == RunState.COMPLETE


def test_an_unknown_price_needs_consent_and_stays_unknown(
    world: World, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_provider", lambda inventory, kind: {**PROVIDER, "price_out": None})
    with pytest.raises(Invalid) as refused:
        start(world, cap_money=Decimal(1))
    assert refused.value.field == "unpriced_ok"
    run = work(start(world, unpriced_ok=True))
    assert (run.state, run.money, run.unpriced_calls) == (RunState.COMPLETE, 0, 10)
    assert set(Spend.objects.filter(run=run).values_list("money", flat=True)) == {None}


def test_patience_asked_for_is_a_state_with_its_time(world: World, toy: Toy) -> None:
    toy.calls_model = True
    toy.script = {"item-0": [Outcome(code="rate_limited", again=True, retry_after=90.0, status=429)]}
    run = work(start(world))
    assert run.state == RunState.WAITING
    assert run.wait_until is not None
    assert 85 < (run.wait_until - timezone.now()).total_seconds() <= 90
    assert run_coordinator.coordinate() == []  # nobody is called before that
    assert run_coordinator.coordinate(timezone.now() + timedelta(seconds=91)) == [run.pk]
    Run.objects.filter(pk=run.pk).update(wait_until=timezone.now())
    run.items.update(not_before=None)
    assert work(run).state == RunState.COMPLETE
    assert runs.tried_again(run) == [("rate_limited", 1)]


def test_the_models_own_limit_is_kept(world: World, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.calls_model = True
    monkeypatch.setattr(
        runs, "_provider", lambda inventory, kind: {**PROVIDER, "model": "slow", "requests_per_minute": 3}
    )
    monkeypatch.setattr(run_work, "SHORT_WAIT_S", 0.0)
    run = work(start(world))
    assert run.state == RunState.WAITING
    assert run.calls == 3
    assert run.note.startswith("Waiting for quota")


def test_pause_cancel_and_resume(world: World, toy: Toy) -> None:
    run = start(world)
    runs.pause_run(run, by=world.by)
    assert run_work.work(run.pk) is False
    assert toy.performed == []
    runs.resume_run(run, by=world.by)
    runs.cancel_run(run, by=world.by)
    assert run.state == RunState.CANCELLED
    with pytest.raises(Conflict, match="cancelled"):
        runs.cancel_run(run, by=world.by)
    runs.resume_run(run, by=world.by)
    assert work(run).state == RunState.COMPLETE


def test_a_cancelled_run_waits_for_what_is_in_flight(world: World, toy: Toy) -> None:
    run = start(world)
    run.items.filter(position=0).update(
        state=ItemState.CLAIMED, claim="x", lease_until=timezone.now() + timedelta(seconds=30)
    )
    runs.cancel_run(run, by=world.by)
    assert run.state == RunState.CANCELLING
    run_coordinator.coordinate(timezone.now() + timedelta(seconds=31))
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED


def test_a_result_under_a_lost_claim_is_not_taken_but_its_money_is(world: World, toy: Toy) -> None:
    run = start(world)
    items = run_work.claim(run, toy, 2)
    token = items[0][0]
    later = timezone.now() + timedelta(seconds=31)
    run_coordinator.coordinate(later)
    run.refresh_from_db()
    assert (run.state, run.stalls) == (RunState.STALLED, 1)
    context = toy.prepare(run, [])
    done = [(item, Outcome(value=1, usage=(Usage(100, 10),))) for _, item in items]
    run_work.record(run, toy, context, token, done)
    assert toy.stored == []
    assert run.items.filter(state=ItemState.WAITING).count() == 10
    run.refresh_from_db()
    assert run.tokens_in == 200
    work(run)
    assert (run.state, run.stalls, sorted(toy.stored)) == (RunState.COMPLETE, 0, sorted(f"item-{n}" for n in range(10)))


def test_three_stalls_in_a_row_end_the_run_and_retry_mends_it(world: World, toy: Toy) -> None:
    toy.tries = 10
    run = start(world)
    now = timezone.now()
    for number in range(3):
        Run.objects.filter(pk=run.pk, state=RunState.STALLED).update(state=RunState.RUNNING)
        assert run_work.claim(run, toy, 1)
        run_coordinator.coordinate(now + timedelta(seconds=60 * (number + 1)))
    run.refresh_from_db()
    assert run.state == RunState.FAILED
    assert run.note.startswith("3 times a worker was lost")
    shown = runs.progress(run)
    assert shown.done + shown.failed + shown.left + shown.in_flight == shown.total == 10
    assert runs.retry_failed(run, by=world.by) == 10
    assert work(run).state == RunState.COMPLETE


def test_an_item_that_kills_its_worker_fails_alone(world: World, toy: Toy) -> None:
    toy.batch, toy.tries = 1, 2
    run = start(world, params={"n": 3})
    now = timezone.now()
    for number in range(2):
        assert run_work.claim(run, toy, 1)[0][1].key == "item-0"
        run_coordinator.coordinate(now + timedelta(seconds=60 * (number + 1)))
        run.refresh_from_db()
    work(run)
    assert (run.state, [g.code for g in runs.error_groups(run)]) == (RunState.GAPS, ["lost"])


def test_a_clock_set_back_does_not_hold_items_for_ever(world: World, toy: Toy) -> None:
    run = start(world)
    assert run_work.claim(run, toy, 3)
    run_coordinator.coordinate(timezone.now() - timedelta(days=2))  # the clock is right again: the leases lie far ahead
    assert run.items.filter(state=ItemState.CLAIMED).count() == 0


def test_a_run_that_died_before_settling_is_settled_once(
    world: World, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(world)
    real = run_work.settle
    monkeypatch.setattr(run_work, "settle", lambda run: None)  # the worker dies right after the terminal commit
    work(run)
    assert (run.state, run.settled, toy.settled) == (RunState.COMPLETE, False, 0)
    monkeypatch.setattr(run_work, "settle", real)
    assert run_coordinator.coordinate() == [run.pk]
    work(run)
    work(run)
    assert (run.settled, toy.settled, run.result) == (True, 1, {"sum": 90})


def test_two_coordinators_call_one_worker(world: World, toy: Toy) -> None:
    run = start(world)
    assert run_coordinator.coordinate() == [run.pk]
    assert run_coordinator.coordinate() == []
    assert run_coordinator.coordinate(timezone.now() + timedelta(seconds=30)) == [run.pk]


def test_a_large_plan_is_written_by_a_worker_and_taken_over(
    world: World, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", 5)
    monkeypatch.setattr(runs, "PIECE", 3)
    run = start(world)
    assert (run.state, run.items.count()) == (RunState.PLANNING, 0)
    runs._write_items(run, list(toy.plan(world.inventory, {}, {"n": 3})), start=0)  # a worker died after one piece
    Run.objects.filter(pk=run.pk).update(progressed_at=timezone.now() - timedelta(seconds=61))
    assert run_coordinator.coordinate() == [run.pk]
    work(run)
    assert (run.state, run.total, run.result) == (RunState.COMPLETE, 10, {"sum": 90})


def test_whom_nothing_of_another_inventory_is_shown(world: World, toy: Toy) -> None:
    run = start(world)
    with pytest.raises(Exception, match="has no run"):
        runs.get_run(world.others, run.public_id)
    assert runs.get_run(world.inventory, run.public_id) == run


def test_unknown_kinds_and_scopes_are_refused(world: World) -> None:
    with pytest.raises(Invalid, match="no run of kind"):
        runs.create_run(world.inventory, "dance", by=world.by)
    with pytest.raises(Invalid, match="no object"):
        runs.create_run(world.inventory, "evaluate", by=world.by, scope=[1])  # type: ignore[arg-type]
    with pytest.raises(Invalid) as refused:
        runs.create_run(world.inventory, "evaluate", by=world.by, params={"protocol": "tea leaves"})
    assert refused.value.field == "params.protocol"


def test_evaluate_score_and_calibrate_run_by_the_same_machinery(world: World) -> None:
    for kind, params in (("evaluate", {}), ("score", {}), ("calibrate", {"target": 0.9})):
        run = work(runs.create_run(world.inventory, kind, by=world.by, params=params))
        assert run.state == RunState.COMPLETE, (kind, runs.error_groups(run))
    scored = Run.objects.get(kind="score")
    assert scored.result is not None
    assert scored.result["turns"] == sum(len(t.states.all()) for t in world.talks.values())
    assert scored.result["fired"] > 0
    evaluated = Run.objects.get(kind="evaluate").result
    assert evaluated is not None
    assert evaluated["rows"]
