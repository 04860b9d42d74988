"""Generate runs against a scripted server: candidates from a text alone, repetition refused, first fits only where nothing is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from console.models import (
    Artifact,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    ItemState,
    Polarity,
    Run,
    RunState,
    Source,
    Spend,
)
from console.providers import content_digest, recorded
from console.services import artifacts, generate, limits, models_setting, refitting, run_kinds, run_work, runs
from console.services.actor import SYSTEM
from console.services.errors import Conflict, Invalid
from console.services.ingest_artifacts import import_artifacts
from tests import make, scripted
from tests.fakes import FakeEncoder
from tests.make import TEXTS, World

NEW = "A parcel that arrived broken is replaced within a week if a photograph is sent."


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_work, "FIRST_BACKOFF_S", 0.0)
    monkeypatch.setitem(run_kinds.KINDS, "generate", generate.KIND)
    limits.forget()


@pytest.fixture
def server(world: World, quick: None) -> Iterator[scripted.Server]:
    with scripted.serve() as found:
        models_setting.set_model(
            world.inventory,
            "generator",
            by=SYSTEM,
            provider="openai",
            model="g-1",
            base_url=found.base_url,
            timeout_s=5.0,
        )
        yield found


def run_generate(inventory: Any, scope: dict[str, Any] | None = None, **params: Any) -> Run:
    run = runs.create_run(inventory, "generate", by=SYSTEM, scope=scope or {}, params=params, unpriced_ok=True)
    run_work.work(run.pk, seconds=60)
    run.refresh_from_db()
    return run


def keys(inventory: Any, scope: dict[str, Any] | None = None, **params: Any) -> list[str]:
    checked = generate.KIND.check(inventory, scope or {}, params)
    return [draft.key for draft in generate.KIND.plan(inventory, scope or {}, checked)]


def results(run: Run) -> dict[str, dict[str, Any]]:
    return {item.key: item.result or {} for item in run.items.all()}


def of(artifact: Artifact, **more: Any) -> Any:
    return Exemplar.objects.filter(artifact=artifact, **more)


def saying(*texts: str) -> scripted.Script:
    return scripted.saying(json.dumps({"messages": list(texts)}))


# ------------------------------------------------------------------------------------------------------------ candidates
def test_two_calls_per_artifact_give_candidates_that_point_to_text_and_run(
    world: World, server: scripted.Server
) -> None:
    revision = world.inventory.exemplar_revision
    run = run_generate(world.inventory)
    assert (run.state, run.total, server.count) == (RunState.COMPLETE, 6, 6)
    assert sorted(ask.wanted for ask in server.asks) == [(10, "anti_signal")] * 3 + [(10, "signal")] * 3
    fresh = of(world.cancel, run=run)
    assert fresh.filter(polarity=Polarity.SIGNAL).count() == fresh.filter(polarity=Polarity.ANTI_SIGNAL).count() == 10
    row = fresh.first()
    assert (row.source, row.status, row.decided_at) == (Source.GENERATED, ExemplarStatus.CANDIDATE, None)
    assert row.artifact_text == artifacts.current_text(world.cancel)
    world.inventory.refresh_from_db()
    assert world.inventory.exemplar_revision > revision
    assert ClassifierVersion.objects.filter(artifact=world.cancel).count() == 1  # nothing was fitted
    assert run.result == {
        "asked": 60, "got": 60, "kept": 60, "repeated": 0, "near_duplicates": 0, "promoted": 0, "fitted": [],
    }  # fmt: skip
    assert set(Spend.objects.values_list("prompt_version", "source", "artifact__key")) == {
        ("1", "generate", key) for key in TEXTS
    }
    for ask in server.asks:
        assert "neighbour" not in ask.prompt
        assert sum(text in ask.prompt for text in TEXTS.values()) == 1  # from its own text alone


def test_an_unchanged_text_is_skipped_a_changed_one_is_not_and_again_insists(
    world: World, server: scripted.Server
) -> None:
    run_generate(world.inventory)
    assert keys(world.inventory) == []
    forecast = runs.forecast(world.inventory, "generate")
    assert (forecast.items, forecast.calls) == (0, 0)
    assert forecast.notes[0].startswith("3 unchanged since they were last generated: cancel-order, change-order")
    assert len(keys(world.inventory, again=True)) == 6
    artifacts.edit_artifact(world.cancel, by=world.by, name="Calling it off")  # a policy speaks by its text alone
    assert keys(world.inventory) == []
    artifacts.edit_artifact(world.cancel, by=world.by, text=NEW)
    assert keys(world.inventory) == ["cancel-order signals", "cancel-order anti-signals"]
    run_generate(world.inventory)
    assert keys(world.inventory) == []
    artifacts.edit_artifact(
        world.refund, by=world.by, text=TEXTS["cancel-order"]
    )  # a neighbour's edit is its own affair
    assert keys(world.inventory) == ["refund-status signals", "refund-status anti-signals"]


def test_a_text_that_only_gave_repetitions_counts_as_generated(world: World, server: scripted.Server) -> None:
    server.script = saying(*make.SIGNALS["cancel-order"][:2])
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, m=2)
    assert run.result is not None
    assert (run.result["kept"], run.result["repeated"]) == (0, 4)
    assert keys(world.inventory, {"artifacts": ["cancel-order"]}) == []


def test_a_side_that_failed_is_the_only_one_that_is_planned_again(world: World, server: scripted.Server) -> None:
    server.script = lambda ask: scripted.refusal(400) if ask.wanted[1] == "signal" else scripted.well(ask)
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]})
    assert run.state == RunState.GAPS
    assert keys(world.inventory, {"artifacts": ["cancel-order"]}) == ["cancel-order signals"]


# ---------------------------------------------------------------------------------------------------------- repetition
def test_exact_and_near_duplicates_are_refused_with_a_meter(
    world: World, server: scripted.Server, encoder: FakeEncoder
) -> None:
    old = make.SIGNALS["cancel-order"]
    Exemplar.objects.filter(artifact=world.cancel, text=make.ANTI_SIGNALS["cancel-order"][2]).update(status="rejected")
    said = [
        old[0],  # exact
        "Please, CANCEL my order!",  # the same words: cosine 1
        make.ANTI_SIGNALS["cancel-order"][0],  # exact, on the other side
        "do you sell lamps?",  # near one that somebody rejected
        "the courier lost my parcel, call it off",  # new
        "the courier lost my parcel, call it off",  # the same reply twice
        "call it off, courier lost parcel",  # repeats a new one
    ]
    server.script = lambda ask: scripted.completion(
        json.dumps({"messages": said if ask.wanted[1] == "signal" else ["zebra giraffe"]})
    )
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, m=7)
    found = results(run)["cancel-order signals"]
    assert {name: found[name] for name in ("asked", "got", "kept", "repeated", "near_duplicates", "promoted")} == {
        "asked": 7, "got": 7, "kept": 1, "repeated": 3, "near_duplicates": 3, "promoted": 0,
    }  # fmt: skip
    assert list(of(world.cancel, run=run, polarity=Polarity.SIGNAL).values_list("text", flat=True)) == [said[4]]
    meter = found["meters"]["signal"]
    assert 0 < meter["nearest"] < 0.95
    assert meter["diversity"] is None  # of one text there is none
    other = results(run)["cancel-order anti-signals"]["meters"]["anti_signal"]
    assert set(other) == {"nearest", "near", "diversity", "hardness"}
    assert -1 <= other["hardness"] < 0.6
    encoder.calls.clear()
    of(world.cancel, run=run).update(status="promoted", decided_by_person=True)
    refitting.refit(world.inventory, by=SYSTEM, artifacts=[world.cancel])
    assert said[4] not in {text for call in encoder.calls for text in call}  # its vector was stored beside it


def test_the_two_sides_of_an_artifact_never_share_a_text(world: World, server: scripted.Server) -> None:
    server.script = saying("a courier lost it", "the photograph shows scratches")
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, m=2)
    assert of(world.cancel, run=run).count() == 2
    assert run.result is not None
    assert (run.result["kept"], run.result["repeated"]) == (2, 2)


def test_fewer_messages_than_asked_for_are_taken_as_they_are_and_more_are_not(
    world: World, server: scripted.Server
) -> None:
    server.script = saying("alpha beta", "gamma delta", "epsilon zeta")
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, m=5)
    assert results(run)["cancel-order signals"]["got"] == 3
    run = run_generate(world.inventory, {"artifacts": ["change-order"]}, m=2)
    assert results(run)["change-order signals"]["got"] == 2


# ------------------------------------------------------------------------------------------------------------ first fit
def test_an_artifact_without_any_example_takes_them_as_its_own_and_is_fitted(
    world: World, server: scripted.Server
) -> None:
    broken = make.artifact(world.inventory, "broken-parcel", text=NEW)
    others = {v.artifact_id: v.weight_hash for v in ClassifierVersion.objects.current()}
    run = run_generate(world.inventory)
    assert set(of(broken).values_list("status", "decided_by_person")) == {(ExemplarStatus.PROMOTED, False)}
    assert of(broken).exclude(decided_at=None).count() == 20
    assert of(world.cancel, run=run).exclude(status=ExemplarStatus.CANDIDATE).count() == 0
    version = ClassifierVersion.objects.get(artifact=broken)
    assert (version.number, version.fit_set, version.counts["signal"]) == (1, "generated", {"generated": 10})
    assert run.result is not None
    assert (run.result["promoted"], run.result["fitted"]) == (20, ["broken-parcel"])
    assert {v.artifact_id: v.weight_hash for v in ClassifierVersion.objects.current() if v.artifact != broken} == others
    assert generate.KIND.settle(run)["fitted"] == []  # again: nothing more
    assert ClassifierVersion.objects.filter(artifact=broken).count() == 1


def test_what_a_person_wrote_meanwhile_makes_them_candidates(world: World, server: scripted.Server) -> None:
    broken = make.artifact(world.inventory, "broken-parcel", text=NEW)
    run = runs.create_run(
        world.inventory, "generate", by=SYSTEM, scope={"artifacts": ["broken-parcel"]}, unpriced_ok=True
    )
    Exemplar.objects.bulk_create(artifacts.written(broken, {"signal": ["it is broken"]}, by=world.by))
    run_work.work(run.pk, seconds=60)
    assert of(broken, run=run).exclude(status=ExemplarStatus.CANDIDATE).count() == 0
    assert not ClassifierVersion.objects.filter(artifact=broken).exists()


def test_a_first_generation_that_failed_on_one_side_is_completed_by_the_next(
    world: World, server: scripted.Server
) -> None:
    broken = make.artifact(world.inventory, "broken-parcel", text=NEW)
    server.script = lambda ask: scripted.refusal(400) if ask.wanted[1] == "anti_signal" else scripted.well(ask)
    first = run_generate(world.inventory, {"artifacts": ["broken-parcel"]})
    assert first.result is not None
    assert first.result["fitted"] == []
    server.script = scripted.well
    second = run_generate(world.inventory, {"artifacts": ["broken-parcel"]})
    assert second.total == 1
    assert second.result is not None
    assert second.result["fitted"] == ["broken-parcel"]
    assert of(broken, status=ExemplarStatus.PROMOTED).count() == 20


def test_a_first_fit_that_meets_another_release_is_tried_again(
    world: World, server: scripted.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.artifact(world.inventory, "broken-parcel", text=NEW)
    real, tries = refitting.refit, []

    def refit(*args: Any, **more: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise Conflict("Somebody was faster.")
        return real(*args, **more)

    monkeypatch.setattr(refitting, "refit", refit)
    run = run_generate(world.inventory, {"artifacts": ["broken-parcel"]})
    assert run.result is not None
    assert (len(tries), run.result["fitted"]) == (3, ["broken-parcel"])


def test_a_whole_inventory_may_begin_with_nothing(db: None, quick: None) -> None:
    inventory = make.inventory("fresh")
    for key, text in TEXTS.items():
        make.artifact(inventory, key, text=text)
    with scripted.serve() as server:
        models_setting.set_model(
            inventory, "generator", by=SYSTEM, provider="openai", model="g", base_url=server.base_url
        )
        run = run_generate(inventory)
    assert run.result is not None
    assert sorted(run.result["fitted"]) == sorted(TEXTS)
    assert ClassifierVersion.objects.filter(artifact__inventory=inventory).count() == 3


# -------------------------------------------------------------------------------------------------------------- covered
def test_covered_goes_round_by_round_until_a_batch_is_told_right_before_it_is_fitted(
    world: World, server: scripted.Server
) -> None:
    def script(ask: scripted.Ask) -> scripted.Answer:
        count, side = ask.wanted
        word = "cancel" if side == "signal" else "lamp"
        return scripted.completion(
            json.dumps({"messages": [f"{word} {ask.number}y{n} {ask.number}z{n}" for n in range(count)]})
        )

    server.script = script
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, mode="covered", m=4)
    assert (run.state, run.total) == (RunState.COMPLETE, 1)
    found = results(run)["cancel-order both sides"]
    assert found["reason"] == "covered"
    assert [each["new"] for each in found["rounds"]] == [8, 8]
    assert found["rounds"][0]["right"] is None
    assert found["rounds"][1]["right"] >= 0.9
    assert (found["asked"], found["got"], found["kept"]) == (16, 16, 16)
    assert server.count == Spend.objects.filter(run=run).count() == 4
    assert "already" not in server.asks[0].prompt  # the first round from the text alone
    assert '"cancel 1y0 1z0"' in server.asks[2].prompt
    assert keys(world.inventory, {"artifacts": ["cancel-order"]}, mode="covered") == []
    assert keys(world.inventory, {"artifacts": ["cancel-order"]}) == []


def test_covered_keeps_what_was_written_before_a_failing_call_and_stops_at_its_rounds(
    world: World, server: scripted.Server
) -> None:
    server.script = lambda ask: scripted.refusal(400, "quota of the day") if ask.number > 2 else scripted.well(ask)
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, mode="covered", m=3)
    found = results(run)["cancel-order both sides"]
    assert (run.state, found["reason"], found["kept"]) == (RunState.COMPLETE, "stopped: refused", 6)
    server.script = scripted.well
    run = run_generate(world.inventory, {"artifacts": ["change-order"]}, mode="covered", m=3, rounds=1)
    assert results(run)["change-order both sides"]["reason"] == "rounds"


def test_covered_fails_where_the_first_round_does_and_pays_for_what_it_got(
    world: World, server: scripted.Server
) -> None:
    server.script = lambda ask: scripted.well(ask) if ask.wanted[1] == "signal" else scripted.completion("sorry")
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, mode="covered", m=3)
    item = run.items.get()
    assert (run.state, item.error_code) == (RunState.FAILED, "bad_json")
    assert Spend.objects.filter(run=run).count() == server.count == 2 * generate.KIND.tries
    assert of(world.cancel, run=run).count() == 0


def test_covered_says_so_when_a_side_stays_empty_without_an_error(world: World, server: scripted.Server) -> None:
    server.script = saying("the same for both sides")
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, mode="covered", m=3)
    assert run.items.get().error_code == "empty"


# ----------------------------------------------------------------------------------------------------------- neighbours
def test_neighbours_are_named_only_where_asked_for_and_their_digests_are_kept(
    world: World, server: scripted.Server
) -> None:
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, neighbours=1)
    kept = results(run)["cancel-order signals"]["neighbours"]
    assert len(kept) == 1
    near = kept[0]["artifact"]
    assert near in ("change-order", "refund-status")
    assert kept[0]["digest"] == content_digest(TEXTS[near])
    assert all(TEXTS[near] in ask.prompt for ask in server.asks)
    more = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, neighbours=9, again=True)
    assert len(results(more)["cancel-order signals"]["neighbours"]) == 2


def test_an_artifact_on_its_own_has_no_neighbours_and_a_text_equal_to_the_centre_is_no_news(
    db: None, quick: None
) -> None:
    inventory = make.inventory("alone")
    make.artifact(inventory, "one", text=NEW)
    with scripted.serve(saying(NEW, "something else altogether")) as server:
        models_setting.set_model(
            inventory, "generator", by=SYSTEM, provider="openai", model="g", base_url=server.base_url
        )
        run = run_generate(inventory, neighbours=3)
    found = results(run)["one signals"]
    assert "neighbours" not in found
    assert (found["kept"], found["near_duplicates"]) == (1, 1)


# --------------------------------------------------------------------------------------------------------- going wrong
def test_failures_end_items_with_their_reason(world: World, server: scripted.Server) -> None:
    server.script = scripted.by_turns(
        scripted.refusal(429, retry_after="0"),
        scripted.RESET,
        scripted.completion('{"messages": ["a"'),
        scripted.EMPTY_BODY,
    )
    run = run_generate(world.inventory)
    assert run.state == RunState.COMPLETE
    server.script = scripted.saying('{"messages": []}')
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]}, again=True)
    assert run.state == RunState.FAILED
    assert set(run.items.values_list("error_code", flat=True)) == {"wrong_shape"}


def test_an_encoder_that_is_away_fails_nothing_for_good(
    world: World, server: scripted.Server, encoder: FakeEncoder
) -> None:
    encoder.fail_next = 1
    run = run_generate(world.inventory, {"artifacts": ["cancel-order"]})
    assert run.state == RunState.COMPLETE
    item = run.items.filter(tries__outcome="unavailable").first()
    assert item is not None
    assert item.state == ItemState.DONE
    assert Spend.objects.filter(run=run).count() == server.count == 3  # the call whose reply was lost is paid


def test_a_policy_that_was_erased_meanwhile_fails_alone(world: World, server: scripted.Server) -> None:
    gone = make.artifact(world.inventory, "broken-parcel", text=NEW)
    run = runs.create_run(world.inventory, "generate", by=SYSTEM, unpriced_ok=True)
    Artifact.objects.filter(pk=gone.pk).delete()
    run_work.work(run.pk, seconds=60)
    run.refresh_from_db()
    assert run.state == RunState.GAPS
    assert set(run.items.filter(state=ItemState.FAILED).values_list("error_code", flat=True)) == {"gone"}


@pytest.mark.parametrize(
    ("scope", "params", "field"),
    [
        ({"conversations": ["talk-1"]}, {}, "scope.conversations"), ({"artifacts": ["nothing"]}, {}, "scope.artifacts"),
        ({}, {"count": 5}, "params.count"), ({}, {"m": 0}, "params.m"), ({}, {"m": 51}, "params.m"),
        ({}, {"m": True}, "params.m"), ({}, {"mode": "fast"}, "params.mode"), ({}, {"again": 1}, "params.again"),
        ({}, {"rounds": 0}, "params.rounds"), ({}, {"neighbours": 11}, "params.neighbours"),
    ],
)  # fmt: skip
def test_bad_scope_and_params_name_their_field(
    world: World, server: scripted.Server, scope: dict[str, Any], params: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        generate.KIND.check(world.inventory, scope, params)
    assert caught.value.field == field


def test_without_a_generator_nothing_is_planned(world: World) -> None:
    with pytest.raises(Invalid, match="No model writes examples here yet"):
        generate.KIND.check(world.inventory, {}, {})


def test_a_forecast_adds_up_the_real_prompts(world: World, server: scripted.Server) -> None:
    forecast = runs.forecast(world.inventory, "generate")
    assert (forecast.items, forecast.calls, forecast.money) == (6, 6, None)
    run_generate(world.inventory)
    assert forecast.tokens_in == pytest.approx(sum(len(ask.prompt) for ask in server.asks) / 4, rel=0.05)
    covered = runs.forecast(world.inventory, "generate", params={"mode": "covered", "again": True})
    assert (covered.items, covered.calls) == (3, 18)
    assert any("8 at most" in note for note in covered.notes)
    models_setting.set_model(world.inventory, "generator", by=SYSTEM, price_in=1, price_out=10)
    assert runs.forecast(world.inventory, "generate", params={"again": True}).money == pytest.approx(
        (forecast.tokens_in + 10 * forecast.tokens_out) / 1e6
    )


# ------------------------------------------------------------------------------------------------------------- recorded
def test_the_samples_policies_are_generated_and_fitted_without_a_key(db: None, quick: None) -> None:
    inventory = make.inventory("copy")
    import_artifacts(inventory, recorded.FILES / "policies.jsonl", by=SYSTEM)
    scope = {"artifacts": ["book-flight", "pets"]}
    forecast = runs.forecast(inventory, "generate", scope=scope)
    assert (forecast.items, forecast.money, forecast.tokens_in) == (4, 0.0, 0)
    run = run_generate(inventory, scope)
    assert run.result is not None
    assert (run.result["kept"], run.result["fitted"]) == (40, ["book-flight", "pets"])
    assert set(Spend.objects.values_list("model", "recorded")) == {("recorded:sample", True)}
    pets = inventory.artifacts.get(key="pets")
    assert set(of(pets, polarity="signal").values_list("text", flat=True)) == set(
        recorded.stored().messages["pets", "signal"]
    )
    artifacts.edit_artifact(pets, by=SYSTEM, text="Another text.")
    run = run_generate(inventory, {"artifacts": ["pets"]})
    assert set(run.items.values_list("state", "error_code")) == {(ItemState.FAILED, "unknown_input")}


def test_recorded_texts_are_covered_round_by_round_as_far_as_they_go(db: None, quick: None) -> None:
    inventory = make.inventory("copy")
    import_artifacts(inventory, recorded.FILES / "policies.jsonl", by=SYSTEM)
    run = run_generate(inventory, {"artifacts": ["pets"]}, mode="covered", m=4)
    found = results(run)["pets both sides"]
    assert found["reason"] in ("covered", "stopped: unknown_input")
    assert 8 <= found["kept"] <= 20
