"""What an amount buys: plans whose runs, planned for real, are what was reckoned with; unknown prices stay unknown."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from console.models import Judgement
from console.providers import recorded
from console.services import judge, judge_plan_log, limits, models_setting, run_kinds, run_work, runs
from console.services.actor import SYSTEM
from console.services.errors import Invalid
from console.services.ingest_artifacts import import_artifacts
from console.services.ingest_conversations import import_conversations
from console.services.judge_plan import LEARN, MEASURE, LabelPlan, Part, plans
from console.services.judge_scope import read_scope
from sq_core.conversation import Conversation
from tests import make, scripted
from tests.make import TALKS, World

PAIRS = 36


@pytest.fixture
def priced(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A judge at 1 a million tokens in and 4 out, 60 requests and 100,000 tokens a minute."""
    monkeypatch.setitem(run_kinds.KINDS, "judge", judge.KIND)
    limits.forget()
    with scripted.serve() as server:
        models_setting.set_model(
            world.inventory, "judge", by=SYSTEM, provider="openai", model="m-1", base_url=server.base_url,
            price_in=1, price_out=4, requests_per_minute=60, tokens_per_minute=100_000,
        )  # fmt: skip
        yield world


def part(plan: LabelPlan, purpose: str) -> Part:
    (found,) = [each for each in plan.parts if each.purpose == purpose]
    return found


def columns(world: World, each: Part) -> set[tuple[str, str]]:
    params = judge.KIND.check(world.inventory, each.scope, each.params)
    drafts = list(judge.KIND.plan(world.inventory, each.scope, params))
    return {(draft.key.split("/")[0], draft.key.split(" ")[1]) for draft in drafts}


def test_ample_money_judges_everything_in_the_random_part(priced: World) -> None:
    plan, in_batch, *_ = plans(priced.inventory, money=1_000.0, measure=1.0, wanted=3)
    assert [each.purpose for each in plan.parts] == [MEASURE]
    measure = part(plan, MEASURE)
    assert (measure.conversations, measure.columns, measure.pairs, measure.calls) == (5, 15, PAIRS, PAIRS)
    assert plan.money is not None
    assert in_batch.money == pytest.approx(plan.money / 2)
    assert (in_batch.batch, in_batch.hours) == (True, 24.0)
    assert plan.hours == pytest.approx(max(PAIRS / 60, plan.tokens / 100_000) / 60)


def test_several_artifacts_a_call_need_fewer_calls_and_less_money(priced: World) -> None:
    one, _, three, _ = plans(priced.inventory, money=1_000.0, measure=1.0, per_call=(1, 3))
    assert (three.per_call, three.calls, three.pairs) == (3, 12, PAIRS)
    assert one.money is not None
    assert three.money is not None
    assert three.money < one.money / 2


def test_what_is_reckoned_with_is_what_the_runs_plan(priced: World) -> None:
    for plan in plans(priced.inventory, money=0.02, measure=0.4, wanted=4, per_call=(1, 2)):
        assert plan.parts
        seen: set[tuple[str, str]] = set()
        for each in plan.parts:
            forecast = runs.forecast(priced.inventory, "judge", scope=each.scope, params=each.params)
            assert forecast.calls == each.calls
            assert forecast.tokens_in == pytest.approx(each.tokens_in, rel=0.1)
            assert forecast.tokens_out == each.tokens_out
            if each.params["per_call"] == 1:
                taken = columns(priced, each)
                assert len(taken) == each.columns
                assert not taken & seen  # nothing is paid twice
                seen |= taken
        assert plan.money is not None
        assert plan.money <= 0.02


def test_a_little_money_measures_first_and_then_takes_the_highest_margins(priced: World) -> None:
    plan = plans(priced.inventory, money=0.018, measure=0.5, wanted=5)[0]
    measure, learn = part(plan, MEASURE), part(plan, LEARN)
    assert measure.scope["sample"]["unit"] == "conversation"
    assert measure.scope["sample"]["n"] == measure.conversations < 5
    assert learn.scope["but_not"] == measure.scope["sample"]
    assert set(learn.scope["by_margin"]) <= {"cancel-order", "change-order", "refund-status"}
    assert sum(learn.scope["by_margin"].values()) == learn.columns
    assert learn.money is not None
    assert learn.money + (measure.money or 0) <= 0.018


def test_what_is_judged_costs_nothing_again_and_the_random_part_goes_on_where_it_was(priced: World) -> None:
    first = part(plans(priced.inventory, money=0.008, measure=1.0)[0], MEASURE)
    run = runs.create_run(priced.inventory, "judge", by=SYSTEM, scope=first.scope, params=first.params)
    run_work.work(run.pk, seconds=60)
    assert Judgement.objects.filter(by=judge.provenance(run)).count() == first.pairs
    second = part(plans(priced.inventory, money=0.008, measure=1.0)[0], MEASURE)
    assert second.scope["sample"]["n"] > first.scope["sample"]["n"]
    assert second.scope["sample"]["seed"] == first.scope["sample"]["seed"]
    assert second.conversations == second.scope["sample"]["n"] - first.scope["sample"]["n"]


def test_an_artifact_with_enough_signals_gets_no_more(priced: World) -> None:
    run = runs.create_run(priced.inventory, "judge", by=SYSTEM, scope={"artifacts": ["cancel-order"]})
    run_work.work(run.pk, seconds=60)
    plan = plans(priced.inventory, money=1_000.0, measure=0.0, wanted=2)[0]
    assert "cancel-order" not in part(plan, LEARN).scope["by_margin"]
    assert plan.reached >= 1
    assert "but_not" not in part(plan, LEARN).scope


def test_signals_are_expected_from_what_judged_columns_held(priced: World) -> None:
    scope = read_scope(priced.inventory, {})
    log = judge_plan_log.read_log(priced.inventory, models_setting.get_model(priced.inventory, "judge"))
    held = {
        (name, key) for name, turns in TALKS.items() for _, relevant in turns for key in relevant
    }  # the world's judge scores 5 there
    assert sum(log.rates.hits.values()) == len(held) == 7
    assert sum(log.rates.seen.values()) == 15
    assert log.rates.overall("above") > log.rates.overall("below")
    target = next(t for t in scope.targets if t.key == "cancel-order")
    for talk in log.talks.values():
        assert 0 < log.rates.of(talk.pk, target.artifact) < 1
    plan = plans(priced.inventory, money=1_000.0, measure=1.0)[0]
    assert plan.signals == pytest.approx(7, abs=1.5)
    assert plan.notes[-1].startswith("Signals are estimated from the 15 columns judged so far")
    assert plan.artifacts == 3


def test_an_unknown_price_leaves_tokens_only(priced: World) -> None:
    models_setting.set_model(
        priced.inventory, "judge", by=SYSTEM, price_out=None, requests_per_minute=None, tokens_per_minute=None
    )
    with pytest.raises(Invalid, match="The price of m-1 is not known") as caught:
        plans(priced.inventory, money=1.0)
    assert caught.value.field == "money"
    plan = plans(priced.inventory, tokens=10_000, measure=0.5)[0]
    assert 0 < plan.tokens <= 10_000
    assert plan.money is None
    assert plan.hours is None  # no limit says how fast it may go


def test_too_little_says_so(priced: World) -> None:
    plan = plans(priced.inventory, tokens=10)[0]
    assert (plan.parts, plan.pairs, plan.money, plan.hours) == ((), 0, 0, 0)
    assert "does not cover one whole conversation" in plan.notes[0]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "money"), ({"money": 1.0, "tokens": 5}, "money"), ({"money": 0.0}, "money"), ({"money": float("inf")}, "money"),
        ({"tokens": 0}, "tokens"), ({"money": 1.0, "wanted": 0}, "wanted"), ({"money": 1.0, "measure": 2.0}, "measure"),
    ],
)  # fmt: skip
def test_impossible_amounts_name_their_field(priced: World, given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        plans(priced.inventory, **given)
    assert caught.value.field == field


def test_before_the_first_fit_only_the_random_part_looks_at_policies(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = make.inventory("bare")
    make.artifact(inventory, "one")
    for number in range(4):
        make.conversation(inventory, f"talk-{number}", ["hi", "今天天气很好" * 20])
    models_setting.set_model(
        inventory,
        "judge",
        by=SYSTEM,
        provider="openai",
        model="m",
        base_url="http://127.0.0.1:9",
        price_in=1,
        price_out=1,
    )
    plan = plans(inventory, money=1_000.0, measure=0.5)[0]
    assert [each.purpose for each in plan.parts] == [MEASURE]
    assert plan.pairs == 8
    assert any("1 without a version or vectors yet" in note for note in plan.notes)
    judge_plan_tokens = plan.parts[0].tokens_in
    monkeypatch.setitem(run_kinds.KINDS, "judge", judge.KIND)
    real = runs.forecast(inventory, "judge", scope=plan.parts[0].scope, params=plan.parts[0].params).tokens_in
    assert judge_plan_tokens == pytest.approx(real, rel=0.05)


def test_recorded_answers_are_free(db: None) -> None:
    inventory = make.inventory("copy")
    import_artifacts(inventory, recorded.FILES / "policies.jsonl", by=SYSTEM)
    known = list(recorded.read_conversations(recorded.FILES / "conversations.jsonl"))[:2]
    import_conversations(inventory, known, by=SYSTEM)
    found = plans(inventory, money=1.0)
    assert [each.batch for each in found] == [False, False]
    assert (found[0].money, found[0].tokens, found[0].hours) == (0, 0, 0)
    assert found[0].pairs > 0


def test_thousands_of_conversations_are_planned_from_lengths(priced: World, django_assert_max_num_queries: Any) -> None:
    import_conversations(
        priced.inventory,
        [Conversation(f"long-{n}", make.messages(["one", "two", "three"])) for n in range(400)],
        by=SYSTEM,
    )
    with django_assert_max_num_queries(60):
        plan = plans(priced.inventory, money=0.5, measure=0.9)[0]
    assert plan.money is not None
    assert Decimal("0.4") < Decimal(str(plan.money)) <= Decimal("0.5")
