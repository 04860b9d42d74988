"""Judging through the batch API: sent once, found again by anybody, read once, at half the price."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from console import providers
from console.models import Attempt, Judgement, ModelSetting, Run, RunItem, Spend
from console.providers import ProviderError, openai_batch, openai_chat
from console.providers.openai_batch import pack, unpacked
from console.services import judge, judge_batch, judge_plan, models_setting, run_kinds, run_work, runs
from console.services.actor import SYSTEM
from console.services.errors import Invalid
from console.services.run_kind import PENDING, Item, Outcome
from tests import scripted
from tests.make import World

SCOPE = {"artifacts": ["cancel-order"]}  # 12 calls


@pytest.fixture
def server(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[scripted.Server]:
    monkeypatch.setitem(run_kinds.KINDS, "judge", judge.KIND)
    with scripted.serve() as found:
        models_setting.set_model(
            world.inventory, "judge", by=SYSTEM, provider="openai", model="m-1", base_url=found.base_url, timeout_s=5.0,
            price_in=1, price_out=4,
        )  # fmt: skip
        openai_chat._ways[found.base_url + "/", "m-1"] = openai_chat.Way()  # it is known how to ask
        yield found


def new_run(world: World, scope: dict[str, Any] | None = None, **params: Any) -> Run:
    return runs.create_run(world.inventory, "judge", by=SYSTEM, scope=scope or SCOPE, params={"batch": True, **params})


def items_of(run: Run) -> list[Item]:
    rows = run.items.order_by("position").values_list("pk", "key", "payload", "attempts")
    return [Item(pk, key, payload, attempts + 1) for pk, key, payload, attempts in rows]


def turn(run: Run, items: list[Item] | None = None) -> dict[int, Outcome]:
    """What one claim gives, without the machinery around it."""
    items = items if items is not None else items_of(run)
    context = judge.KIND.prepare(run, items)
    outcomes = {item.pk: judge.KIND.perform(context, item) for item in items}
    judge.KIND.store(context, [(item, outcomes[item.pk]) for item in items if outcomes[item.pk].ok])
    return outcomes


def codes(outcomes: dict[int, Outcome]) -> set[str]:
    return {outcome.code for outcome in outcomes.values()}


def note_bad(outcomes: dict[int, Outcome]) -> None:
    """The machinery's attempt rows of replies that could not be used."""
    for pk, outcome in outcomes.items():
        if not outcome.ok and outcome.code != PENDING:
            n = Attempt.objects.filter(item=pk).count() + 1
            Attempt.objects.create(
                item=RunItem.objects.get(pk=pk), number=n, at=timezone.now(), outcome=outcome.code, raw=outcome.raw
            )


# ------------------------------------------------------------------------------------------------------------- all well
def test_a_claim_is_one_batch_and_its_answers_are_stored_when_it_has_ended(
    world: World, server: scripted.Server
) -> None:
    run = new_run(world)
    assert judge.KIND.claim_size(run) == judge_batch.CLAIM
    first = turn(run)
    assert codes(first) == {PENDING}
    assert all(outcome.again and outcome.retry_after == judge_batch.POLL_S for outcome in first.values())
    assert (server.count, len(server.desk.batches)) == (0, 1)
    line = server.desk.lines("batch-1")[0]
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert line["body"]["response_format"]["type"] == "json_schema"
    assert set(line["body"]["messages"][0]) == {"role", "content"}
    assert codes(turn(run)) == {PENDING}  # another look sends nothing again
    assert len(server.desk.batches) == 1
    server.desk.finish()
    done = turn(run)
    assert codes(done) == {""}
    assert Judgement.objects.filter(by=judge.provenance(run)).count() == 12
    usage = next(iter(done.values())).usage[0]
    assert (usage.tokens_in, usage.tokens_out, usage.discount) == (100, 20, 0.5)
    assert server.count == 0


def test_another_process_finds_what_was_sent_and_reads_it(world: World, server: scripted.Server) -> None:
    run = new_run(world)
    turn(run, items_of(run)[:5])
    openai_chat.forget()  # a worker that died right after sending
    openai_batch._batches.clear()
    openai_chat._ways[server.base_url + "/", "m-1"] = openai_chat.Way()
    assert codes(turn(run)) == {PENDING}
    assert [len(server.desk.lines(name)) for name in server.desk.batches] == [5, 7]
    server.desk.finish()
    assert codes(turn(run, items_of(run)[3:])) == {""}


def test_another_runs_batches_are_left_alone(world: World, server: scripted.Server) -> None:
    one, other = new_run(world), new_run(world)
    turn(one)
    turn(other)
    assert len(server.desk.batches) == 2
    server.desk.finish()
    assert codes(turn(other)) == {""}


def test_where_it_is_not_known_how_to_ask_one_ordinary_call_finds_out(world: World, server: scripted.Server) -> None:
    openai_chat.forget()
    server.script = lambda ask: (
        scripted.refusal(400, "no json_schema") if ask.form == "json_schema" else scripted.well(ask)
    )
    run = new_run(world)
    first = turn(run)
    assert sorted(codes(first)) == ["", PENDING]
    (good,) = [outcome for outcome in first.values() if outcome.ok]
    assert good.usage[0].discount == 1.0
    assert server.desk.lines("batch-1")[0]["body"]["response_format"] == {"type": "json_object"}
    assert len(server.desk.lines("batch-1")) == 11


def test_a_probe_that_fails_is_its_items_failure_alone(world: World, server: scripted.Server) -> None:
    openai_chat.forget()
    server.script = lambda ask: scripted.refusal(500)
    outcomes = turn(new_run(world))
    assert sorted(codes(outcomes)) == [PENDING, "server_error"]


# ---------------------------------------------------------------------------------------------------------- going wrong
def test_a_bad_reply_is_read_once_and_sent_again_as_another_try(world: World, server: scripted.Server) -> None:
    run = new_run(world)
    turn(run)
    bad = scripted.completion('{"judgements": []}')
    trouble = {1: bad, 2: scripted.refusal(500, "oops"), 3: scripted.EMPTY_BODY}
    server.desk.finish(lambda ask: trouble.get(ask.number) or scripted.well(ask))
    outcomes = turn(run)
    failed = {item.pk: outcomes[item.pk] for item in items_of(run) if not outcomes[item.pk].ok}
    assert [outcome.code for outcome in failed.values()] == ["wrong_ids", "server_error", "bad_answer"]
    assert all(outcome.again for outcome in failed.values())
    assert next(iter(failed.values())).usage[0].discount == 0.5  # paid all the same
    note_bad(failed)
    left = [item for item in items_of(run) if item.pk in failed]
    assert codes(turn(run, left)) == {PENDING}
    assert [line["custom_id"] for line in server.desk.lines("batch-2")] == [f"{pk}-1" for pk in failed]
    server.desk.finish()
    assert codes(turn(run, left)) == {""}
    assert Judgement.objects.filter(by=judge.provenance(run)).count() == 12


@pytest.mark.parametrize("status", ["expired", "cancelled", "failed"])
def test_what_an_ended_batch_does_not_hold_is_sent_again(world: World, server: scripted.Server, status: str) -> None:
    run = new_run(world)
    turn(run)
    server.desk.finish(status=status, most=4, message="enqueued token limit reached")
    outcomes = turn(run)
    assert sum(outcome.ok for outcome in outcomes.values()) == 4
    (code,) = codes({pk: outcome for pk, outcome in outcomes.items() if not outcome.ok})
    assert code == "server_error"
    said = next(outcome.message for outcome in outcomes.values() if not outcome.ok)
    assert f"ended ({status}) without it: enqueued token limit reached" in said
    note_bad(outcomes)
    left = [item for item in items_of(run) if not outcomes[item.pk].ok]
    assert codes(turn(run, left)) == {PENDING}
    assert len(server.desk.lines("batch-2")) == 8


def test_an_api_that_cannot_be_used_is_no_reply_and_nothing_is_sent_twice_for_it(
    world: World, server: scripted.Server
) -> None:
    run = new_run(world)
    turn(run)
    server.desk.refuse = scripted.refusal(503, "closed", retry_after="30")
    away = turn(run)
    assert codes(away) == {"unavailable"}
    assert all(outcome.again and outcome.retry_after == 30.0 for outcome in away.values())
    note_bad(away)
    server.desk.refuse = None
    server.desk.finish()
    assert codes(turn(run)) == {""}
    assert len(server.desk.batches) == 1
    server.desk.refuse = scripted.refusal(404, "no such page")
    gone = turn(new_run(world, {"artifacts": ["refund-status"]}))
    assert codes(gone) == {"unavailable"}
    assert not any(outcome.again for outcome in gone.values())


def test_what_was_erased_meanwhile_is_not_sent(world: World, server: scripted.Server) -> None:
    run = new_run(world)
    world.talks["talk-4"].delete()
    assert sorted(codes(turn(run))) == ["gone", PENDING]
    assert len(server.desk.lines("batch-1")) == 10


def test_a_cancelled_run_stops_what_it_has_at_the_provider(world: World, server: scripted.Server) -> None:
    run = new_run(world)
    turn(run)
    runs.cancel_run(run, by=world.by)
    judge.KIND.settle(run)
    assert server.desk.batches["batch-1"]["status"] == "cancelled"
    server.desk.refuse = scripted.refusal(500)
    judge.KIND.settle(run)  # a provider that is away does not keep a run from ending


# ------------------------------------------------------------------------------------------------------- sizes and keys
def test_large_claims_are_several_batches(
    world: World, server: scripted.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_batch, "MOST_BYTES", 20_000)
    run = new_run(world)
    assert codes(turn(run)) == {PENDING}
    sizes = [len(server.desk.lines(name)) for name in server.desk.batches]
    assert sum(sizes) == 12
    assert len(sizes) > 1


def test_keys_are_packed_into_a_batchs_label(
    world: World, server: scripted.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pack([(1, 0), (2, 0), (3, 1), (5, 1), (6, 1)]) == ["1+2.0,3+1.1,5+2.1"]
    keys = [(n, n % 3) for n in range(0, 2_000, 2)]
    values = pack(keys)
    assert max(map(len, values)) <= openai_batch.VALUE
    assert list(unpacked({f"k{n}": value for n, value in enumerate(values)})) == keys
    assert list(unpacked({"signalbox": "x", "kind": "y"})) == []
    with pytest.raises(ValueError, match="invalid literal"):
        list(unpacked({"k0": "nonsense"}))
    monkeypatch.setattr(openai_batch, "VALUES", 1)
    monkeypatch.setattr(openai_batch, "VALUE", 20)
    run = new_run(world)
    turn(run, items_of(run)[::2])  # every second row: no runs to pack
    assert sum(len(server.desk.lines(name)) for name in server.desk.batches) == 6
    assert len(server.desk.batches) > 1


def test_old_batches_and_spoilt_lines_are_not_read(world: World, server: scripted.Server) -> None:
    run = new_run(world)
    turn(run)
    server.desk.finish()
    batch = server.desk.batches["batch-1"]
    lines = server.desk.files[batch["output_file_id"]].splitlines()
    lines[0] = b"{broken"
    lines[1] = json.dumps({**json.loads(lines[1]), "response": None, "error": {"message": "batch_expired"}}).encode()
    lines[2] = json.dumps({**json.loads(lines[2]), "response": {"status_code": "x", "body": "y"}}).encode()
    server.desk.files[batch["output_file_id"]] = b"\n".join(lines)
    outcomes = turn(run)
    assert sum(outcome.ok for outcome in outcomes.values()) == 9
    messages = [outcome.message for outcome in outcomes.values() if not outcome.ok]
    assert any("without it" in said for said in messages)
    assert any("batch_expired" in said for said in messages)
    batch["created_at"] -= 10 * 86_400
    openai_batch._batches.clear()
    setting = models_setting.get_model(world.inventory, "judge")
    batches = models_setting.batches_of(setting)
    assert batches.find(run.public_id, {(items_of(run)[0].pk, 0)}) == []
    assert batches.cancel(run.public_id) == 0


# ---------------------------------------------------------------------------------------------------- price and refusals
def test_a_batch_is_forecast_and_planned_at_half_the_price(world: World, server: scripted.Server) -> None:
    plain = runs.forecast(world.inventory, "judge", scope=SCOPE).money
    half = runs.forecast(world.inventory, "judge", scope=SCOPE, params={"batch": True}).money
    assert plain is not None
    assert half == pytest.approx(plain / 2)
    plans = judge_plan.plans(world.inventory, money=1.0)
    assert any(plan.batch for plan in plans)
    assert plans[1].parts[0].params == {"per_call": 1, "batch": True}
    assert not any("not run by this server" in note for note in plans[1].notes)


def test_a_batch_is_refused_where_it_cannot_be(
    world: World, server: scripted.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**params: Any) -> str:
        with pytest.raises(Invalid) as caught:
            judge.KIND.check(world.inventory, {}, params)
        assert caught.value.field == "params.batch"
        return caught.value.message

    assert "batch is 'yes'" in refused(batch="yes")
    models_setting.set_model(world.inventory, "judge", by=SYSTEM, provider="recorded")
    assert "Recorded answers come at once" in refused(batch=True)
    with pytest.raises(ProviderError, match="there is no batch to send"):
        providers.get_batches(ModelSetting(role="judge", provider="recorded"))


def test_a_server_without_its_key_sends_nothing(world: World, server: scripted.Server) -> None:
    row = models_setting.get_model(world.inventory, "judge")
    with pytest.raises(Exception, match="The server has no SIGNALBOX_KEY_NONE"):
        models_setting.batches_of(replace_key(row, "SIGNALBOX_KEY_NONE"))


def replace_key(row: ModelSetting, name: str) -> ModelSetting:
    row.key_name = name
    return row


def test_what_was_answered_is_said_again_as_it_was() -> None:
    failed = ProviderError("server_error", "oops", passing=True)
    with pytest.raises(ProviderError, match="oops"):
        judge_batch.Replay("x", failed).complete([], schema={}, schema_name="")
    reply = providers.Reply("hi")
    assert judge_batch.Replay("x", reply).complete([], schema={}, schema_name="") is reply


def test_the_machinery_sends_waits_reads_and_pays_half(world: World, server: scripted.Server) -> None:
    run = new_run(world)
    run_work.work(run.pk)
    run.refresh_from_db()
    assert (run.state, len(server.desk.batches), Attempt.objects.count()) == ("running", 1, 0)
    waiting = run.items.filter(state="waiting", attempts=0, not_before__gt=timezone.now())
    assert waiting.count() == 12
    assert run_work.work(run.pk) is False  # nobody asks before its time
    assert len(server.desk.batches) == 1
    server.desk.finish()
    run.items.update(not_before=None)
    run_work.work(run.pk)
    run.refresh_from_db()
    assert (run.state, run.calls, server.count) == ("complete", 12, 0)
    assert run.money == Decimal("0.00108")  # 12 × (100 in at 1 and 20 out at 4 a million), at half the price
    assert set(Spend.objects.values_list("money", flat=True)) == {Decimal("0.00009")}
    assert not Judgement.objects.filter(by=judge.provenance(run), chosen=True).exists()
