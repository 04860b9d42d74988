"""Evaluate and calibrate on an inventory's own judgements."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from console.management.commands.evaluate import table_lines
from console.models import ArtifactSetting, Change, ClassifierVersion, Exemplar, Inventory, OperatingPoint, Release
from console.services import calibrate as service
from console.services import curate, embed, evaluate, fit, log_figures, refitting, table
from console.services.actor import SYSTEM, Actor
from console.services.artifacts import archive_artifact, edit_artifact, set_dependencies
from console.services.calibrate import calibrate
from console.services.errors import Invalid
from console.services.inventories import current_point, update_inventory
from console.services.plan import Step
from sq_core.scoring import cut_off
from tests import make
from tests.fakes import FakeEncoder
from tests.make import World

pytestmark = pytest.mark.django_db
ANA = Actor("ana")


# ------------------------------------------------------------------------------------------------------------ evaluate
def test_the_operating_point_table_has_the_rows_that_the_contract_names(world: World) -> None:
    answer = evaluate.evaluate(world.inventory, protocol="operating-point")
    assert (answer["protocol"], answer["inventory"], answer["labels"]) == ("operating-point", "tiny", "as-judged")
    assert (answer["states"], answer["artifacts"], answer["scenarios"]) == (12, 3, 5)
    assert (answer["judge"], answer["rubric"], answer["not_embedded"]) == ("tiny-judge", "current-need", 0)
    assert [row["method"] for row in answer["rows"]] == [
        "cosine-text", "cosine-signals", "topk-text", "topk-signals", "sq-generated",
    ]  # fmt: skip
    for row in answer["rows"]:
        assert {"method", "world", "precision_at_r90", "recall", "auprc", "theta", "kept", "coverage"} <= set(row)
        assert 0 <= row["recall"] <= 1
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_the_mined_table_names_world_and_coverage(world: World) -> None:
    update_inventory(world.inventory, by=ANA, minimum_material=1)
    answer = evaluate.evaluate(world.inventory, protocol="mined")
    assert {"sq-generated", "sq-mined-paper", "sq-mined", "sq-mixed"} <= {row["method"] for row in answer["rows"]}
    assert {row["world"] for row in answer["rows"]} == {"fitted", "with-generated-fallback", "unfitted-is-miss"}
    json.dumps(answer, allow_nan=False)


def test_running_maximum_labels_need_more(world: World) -> None:
    once = evaluate.evaluate(world.inventory, protocol="operating-point")
    running = evaluate.evaluate(world.inventory, protocol="operating-point", labels="running-max")
    assert running["labels"] == "running-max"
    assert running["rows"] != once["rows"]


def test_the_set_holds_the_turns_own_texts_and_no_exemplar_of_the_log(world: World) -> None:
    state = world.state("talk-2", 0)
    text = "the size of my shoes is wrong, change it please"
    Exemplar.objects.create(
        artifact=world.change,
        polarity="signal",
        text=text,
        text_digest="d",
        source="written",
        status="promoted",
        origin=state,
    )
    data = evaluate.evaluation_set(world.inventory)
    turns = [text for turns in make.TALKS.values() for text, _ in turns]
    assert sorted(data.turn_texts) == sorted(turns)
    point = current_point(world.inventory)
    assert point.centre is not None
    position = table.state_table(world.inventory, point.centre).positions[state.pk]
    assert data.turn_texts[position] == text
    assert data.scores[position].tolist() == [1, 5, 1]
    assert data.artifacts == ("cancel-order", "change-order", "refund-status")
    generated = data.generated[1]
    assert generated is not None
    assert len(generated.signals) == 4


def test_an_artifact_without_examples_is_a_miss_and_archived_ones_are_out(world: World) -> None:
    make.artifact(world.inventory, "unfitted")
    archive_artifact(world.cancel, by=ANA)
    data = evaluate.evaluation_set(world.inventory)
    assert data.artifacts == ("change-order", "refund-status", "unfitted")
    assert data.generated[2] is None


def test_an_inventory_without_any_example_can_be_compared_by_cosine_only(world: World) -> None:
    Exemplar.objects.all().delete()
    answer = evaluate.evaluate(world.inventory, protocol="operating-point")
    rows = {row["method"]: row for row in answer["rows"]}
    assert rows["sq-generated"]["coverage"] == 0
    assert rows["sq-generated"]["precision_at_r90"] is None
    assert rows["cosine-text"]["coverage"] == 1


def test_one_artifact_alone_has_no_text_baseline_and_every_other_figure(db: None) -> None:
    inventory = make.inventory("alone")
    make.artifact(inventory, "pets", signals=["my dog"], anti_signals=["my bag"])
    for name, text, score_given in (("c1", "can my dog come", 5), ("c2", "where is my bag", 1)):
        make.conversation(inventory, name, [text])
        make.judge(inventory, name, 0, {"pets": score_given})
    embed.embed_states(inventory)
    refitting.refit(inventory, by=SYSTEM)
    answer = evaluate.evaluate(inventory, protocol="operating-point")
    assert answer["text_without_direction"] == ["pets"]
    assert {row["method"]: row["precision_at_r90"] for row in answer["rows"]}["sq-generated"] == 1.0


@pytest.mark.parametrize("protocol", evaluate.PROTOCOLS)
def test_every_protocol_runs_on_an_inventory_or_says_what_it_misses(world: World, protocol: str) -> None:
    update_inventory(world.inventory, by=ANA, minimum_material=1)
    if protocol == "near-synonyms":  # the three policies are apart
        with pytest.raises(Invalid, match="nothing to measure"):
            evaluate.evaluate(world.inventory, protocol=protocol)
        return
    answer = evaluate.evaluate(world.inventory, protocol=protocol)
    assert answer["protocol"] == protocol
    assert answer["rows"]
    for row in answer["rows"]:
        assert row["method"]
        assert row["world"] in {"fitted", "with-generated-fallback", "unfitted-is-miss"}
    json.dumps(answer, allow_nan=False)
    lines = table_lines(answer)
    assert len(lines) >= 3 + len(answer["rows"])


def test_two_encoders_stand_side_by_side(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = FakeEncoder(128, name="other")
    real = embed.named_encoder
    monkeypatch.setattr(embed, "named_encoder", lambda name: other if name == "openai:other" else real(name))
    answer = evaluate.evaluate(world.inventory, protocol="operating-point", encoders=["minilm", "openai:other"])
    alone = evaluate.evaluate(world.inventory, protocol="operating-point")
    half = len(alone["rows"])
    assert [row["encoder"] for row in answer["rows"]] == [world.inventory.encoder_id] * half + [other.id] * half
    assert [{k: v for k, v in row.items() if k != "encoder"} for row in answer["rows"][:half]] == alone["rows"]
    assert answer["rows"][half:] != answer["rows"][:half]
    assert f"encoder {other.id}" in table_lines(answer)
    only = evaluate.evaluate(world.inventory, protocol="operating-point", encoders=["openai:other"])
    assert {row["encoder"] for row in only["rows"]} == {other.id}


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"protocol": "guess"}, "guess", "operating-point, ablations"),
        ({"protocol": "cost", "encoders": ["minilm", "openai:x"]}, "own encoder", "operating-point and mined"),
        ({"protocol": "mined", "labels": "max"}, "labels is 'max'", "running-max"),
    ],
)
def test_what_is_not_here_is_said(world: World, given: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        evaluate.evaluate(world.inventory, **{"protocol": "mined"} | given)
    assert hint in refused.value.hint


def test_without_a_fit_turns_or_labels_the_mend_is_named(db: None) -> None:
    inventory = make.inventory("new")
    with pytest.raises(Invalid, match="no centre yet"):
        evaluate.evaluate(inventory, protocol="mined")
    make.artifact(inventory, "pets", signals=["my dog"], anti_signals=["my bag"])
    refitting.refit(inventory, by=SYSTEM)
    with pytest.raises(Invalid, match="nothing to evaluate"):
        evaluate.evaluate(inventory, protocol="mined")
    make.conversation(inventory, "c1", ["can my dog come"])
    embed.embed_states(inventory)
    with pytest.raises(Invalid, match="No judgement"):
        evaluate.evaluate(inventory, protocol="mined")
    with pytest.raises(Invalid, match="No judgement"):
        calibrate(inventory, by=ANA)


# ----------------------------------------------------------------------------------------------------------- calibrate
def fired(inventory: Inventory) -> dict[tuple[str, int], bool]:
    """(artifact, state) -> whether it fires at the newest release, one pair at a time by the stored numbers."""
    point = current_point(inventory)
    assert point.centre is not None
    states = table.state_table(inventory, point.centre)
    result = {}
    for version in ClassifierVersion.objects.current().filter(artifact__inventory=inventory):
        margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(point))
        for pk, position in states.positions.items():
            result[version.artifact.key, pk] = margins[position] > cut_off(point.theta, version.offset)
    return result


def macro_recall(world: World) -> float:
    outcome, shares = fired(world.inventory), []
    for key in make.TEXTS:
        needed = [
            outcome[key, world.state(name, turn).pk]
            for name, turns in make.TALKS.items()
            for turn, (_, relevant) in enumerate(turns)
            if key in relevant
        ]
        shares.append(sum(needed) / len(needed))
    return sum(shares) / len(shares)


@pytest.mark.parametrize("target", [0.3, 0.6, 0.9, 1.0])
def test_theta_reaches_the_target_by_the_rule_that_decides(world: World, target: float) -> None:
    release = world.inventory.release
    point = calibrate(world.inventory, by=ANA, target=target, reason="first")
    assert (point.number, point.from_release, world.inventory.release) == (3, release + 1, release + 1)
    record = point.calibration
    assert record is not None
    assert macro_recall(world) == pytest.approx(record["recall"])
    assert record["recall"] >= target
    assert (record["target"], record["reached"], record["theta"]) == (target, True, point.theta)
    assert (record["states"], record["scenarios"], record["artifacts"], record["relevant_pairs"]) == (12, 5, 3, 7)
    assert record["split"] == "chosen and measured on the same states"
    assert (record["judge"], record["rubric"]) == ("tiny-judge", "current-need")
    assert record["crc"]["enough"] is (target < 0.9)  # five scenarios promise a miss rate of 40 %, not of 10 %
    assert record["crc"]["note"]
    assert record["cross_fitted"] is None
    change = Change.objects.get(action="calibrate")
    assert (change.before["theta"], change.after["theta"], change.reason) == (0.0, point.theta, "first")


def test_a_theta_at_the_lowest_needed_margin_would_miss_it(world: World) -> None:
    """Strictly above fires: the turn that θ was lowered for is lost when θ is its own margin."""
    theta = calibrate(world.inventory, by=ANA, target=1.0).theta
    point = current_point(world.inventory)
    data = service._judged(world.inventory, point, service.fitted_now(world.inventory, point))
    lowest = float(data.scores[data.relevant].min())
    assert theta < lowest
    assert not ((data.scores > theta) & (data.scores < lowest)).any()
    update_inventory(world.inventory, by=ANA, theta=lowest)
    assert macro_recall(world) < 1.0
    assert current_point(world.inventory).calibration is None


def test_the_same_again_makes_no_release(world: World) -> None:
    first = calibrate(world.inventory, by=ANA)
    count = Release.objects.count()
    assert calibrate(world.inventory, by=ANA) == first
    assert Release.objects.count() == count


def test_offsets_shift_with_the_cut_off(world: World) -> None:
    """θ serves margin − offset: an offset of half a unit for every version moves θ by as much the other way."""
    plain = calibrate(world.inventory, by=ANA, target=0.9).theta
    point = current_point(world.inventory)
    data = service._judged(world.inventory, point, service.fitted_now(world.inventory, point))
    shifted = service._Judged(
        data.margins, data.offsets + 0.5, data.relevant, data.judged, data.scenarios, data.left_out
    )
    found = service.calibrate_theta(shifted.scores, shifted.relevant, 0.9)
    assert found.theta == pytest.approx(plain - 0.5)
    assert shifted.at(found.theta).recall == pytest.approx(data.at(plain).recall)


def test_always_off_and_unfitted_artifacts_are_outside(world: World) -> None:
    make.artifact(world.inventory, "unfitted")
    edit_artifact(world.refund, by=ANA, mode="always")
    record = calibrate(world.inventory, by=ANA).calibration
    assert record is not None
    assert record["artifacts"] == 2
    assert record["left_out"] == {"unfitted": 1, "always_or_off": 1, "leaking_pairs": 0}


def test_a_scenario_that_gave_an_example_does_not_count_for_its_artifact(world: World) -> None:
    step = Step("add", state=world.state("talk-5", 0).pk, polarity="signal")
    curate.apply(world.cancel, [step], by=world.by, base_version=1)
    record = calibrate(world.inventory, by=ANA).calibration
    assert record is not None
    assert record["left_out"]["leaking_pairs"] == 2  # both turns of talk-5, for this one artifact
    assert (record["relevant_pairs"], record["states"]) == (6, 12)  # the others are still judged there


def test_calibration_says_so_where_nothing_is_left_behind_the_fence(world: World) -> None:
    edit_artifact(world.refund, by=ANA, mode="always")
    edit_artifact(world.change, by=ANA, mode="always")
    needed = [
        (talk, turn)
        for talk, turns in make.TALKS.items()
        for turn, (_, keys) in enumerate(turns)
        if "cancel-order" in keys
    ]
    steps = [Step("add", state=world.state(*place).pk, polarity="signal") for place in needed]
    curate.apply(world.cancel, steps, by=world.by, base_version=1, reason="all of them")
    with pytest.raises(Invalid, match="gave it an example"):
        calibrate(world.inventory, by=ANA)


# ------------------------------------------------------------------------------------------- beside people who decide
@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``meanwhile(acts)``: each act happens after the next working out has read its figures, before they are written."""

    def install(acts: Iterable[Callable[[], object]]) -> list[int]:
        judged, waiting, calls = service._judged, iter(acts), []

        def slow(*args: Any) -> Any:
            data = judged(*args)
            calls.append(1)
            if (act := next(waiting, None)) is not None:
                act()
            return data

        monkeypatch.setattr(service, "_judged", slow)
        return calls

    return install


def test_a_change_of_what_it_stands_on_is_taken_in(world: World, meanwhile: Any) -> None:
    calls = meanwhile([lambda: edit_artifact(world.cancel, by=Actor("ben"), mode="off")])
    point = calibrate(world.inventory, by=ANA)
    assert len(calls) == 2
    assert point.calibration is not None
    assert (point.calibration["artifacts"], point.calibration["left_out"]["always_or_off"]) == (2, 1)
    assert ArtifactSetting.objects.current().get(artifact=world.cancel).mode == "off"
    assert point.from_release == world.inventory.release


def test_a_release_that_changes_nothing_it_stands_on_does_not_matter(world: World, meanwhile: Any) -> None:
    wanted = {"by": Actor("ben"), "requires": ["refund-status"], "entails": []}
    calls = meanwhile([lambda: set_dependencies(world.cancel, **wanted)])
    release = world.inventory.release
    point = calibrate(world.inventory, by=ANA)
    assert (len(calls), point.from_release) == (1, release + 2)


@pytest.mark.parametrize("what", ["a version", "a label", "the cut-off", "a logged turn"])
def test_versions_labels_point_and_log_are_what_it_stands_on(world: World, meanwhile: Any, what: str) -> None:
    def log_a_turn() -> None:
        make.conversation(world.inventory, "new", ["hello"])
        embed.embed_states(Inventory.objects.get(pk=world.inventory.pk))

    step = Step("add", text="call the whole thing off", polarity="signal")
    acts: dict[str, Callable[[], object]] = {
        "a version": lambda: curate.apply(world.cancel, [step], by=world.by, base_version=1),
        "a label": lambda: make.judge(world.inventory, "talk-5", 1, {"cancel-order": 5}, name="human:rob"),
        "the cut-off": lambda: update_inventory(Inventory.objects.get(pk=world.inventory.pk), by=ANA, theta=0.3),
        "a logged turn": log_a_turn,
    }
    calls = meanwhile([acts[what]])
    before = OperatingPoint.objects.filter(inventory=world.inventory).count()
    calibrate(world.inventory, by=ANA)
    assert len(calls) == 2
    assert OperatingPoint.objects.filter(inventory=world.inventory).count() == before + 1 + (what == "the cut-off")


def test_authors_who_never_stop_do_not_keep_it_from_ending(world: World, meanwhile: Any) -> None:
    def add(number: int) -> object:
        step = Step("add", text=f"call order {number} off", polarity="signal")
        return curate.apply(world.cancel, [step], by=world.by, base_version=1 + number, reason="so")

    calls = meanwhile([lambda n=n: add(n) for n in range(service.UNLOCKED_TRIES)])
    point = calibrate(world.inventory, by=ANA)
    assert len(calls) == service.UNLOCKED_TRIES + 1
    assert point.from_release == world.inventory.release
    assert fit.active_version(world.cancel).number == 1 + service.UNLOCKED_TRIES  # type: ignore[union-attr]


@pytest.mark.parametrize("target", [0, 1.2, float("nan")])
def test_a_target_outside_its_range_is_refused(world: World, target: float) -> None:
    with pytest.raises(Invalid, match="target"):
        calibrate(world.inventory, by=ANA, target=target)


def test_before_the_first_fit_there_is_nothing_to_calibrate(db: None) -> None:
    with pytest.raises(Invalid, match="no centre yet"):
        calibrate(make.inventory("new"), by=ANA)


def test_with_ten_scenarios_the_figures_are_cross_fitted_too(world: World) -> None:
    for number in range(6):
        turns = [f"cancel my order number {number}", f"change the address of order {number}"]
        make.conversation(world.inventory, f"more-{number}", turns)
        make.judge(world.inventory, f"more-{number}", 0, {"cancel-order": 5, "change-order": 1, "refund-status": 1})
        make.judge(world.inventory, f"more-{number}", 1, {"cancel-order": 1, "change-order": 5, "refund-status": 1})
    embed.embed_states(world.inventory)
    record = calibrate(world.inventory, by=ANA).calibration
    assert record is not None
    crossed = record["cross_fitted"]
    assert crossed["folds"] == 5
    assert 0 < crossed["recall"] <= 1
    assert 0 < crossed["kept"] <= 1
    assert record["crc"]["enough"] is True
    headline = log_figures.headline(world.inventory)
    assert headline.calibrated
    assert headline.theta == record["theta"]
