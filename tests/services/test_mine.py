"""Mining as a run: what each rule proposes, what it leaves out and says, what is stored once, and promoting into a draft."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from console.models import (
    Artifact,
    Change,
    ClassifierVersion,
    Discovery,
    Exemplar,
    ExemplarStatus,
    Inventory,
    ItemState,
    Judge,
    Judgement,
    Mode,
    Origin,
    Polarity,
    Release,
    Rubric,
    Run,
    RunState,
    Source,
)
from console.services import artifacts, curate, embed, inventories, mine, mine_log, run_kinds, run_work, runs, table
from console.services.actor import SYSTEM
from console.services.artifacts import exemplar_digest
from console.services.errors import Invalid, Unavailable
from console.services.fit import fresh_inventory
from console.services.mine_scope import REASONS, words_of
from console.services.plan import Step
from sq_core.embedding import centre_and_normalise
from sq_core.mining import JudgedConversation
from sq_core.mining import mine as mine_objects
from tests import make
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def known_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(run_kinds.KINDS, "mine", mine.KIND)


def mined(world: make.World, **params: Any) -> Run:
    scope = params.pop("scope", None)
    return run_in(world.inventory, params, scope)


def run_in(inventory: Inventory, params: dict[str, Any], scope: dict[str, Any] | None = None) -> Run:
    run = runs.create_run(fresh_inventory(inventory.pk), "mine", by=SYSTEM, params=params, scope=scope)
    run_work.work(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.COMPLETE, (run.note, list(run.items.values_list("error", flat=True)))
    return run


def rescore(world: make.World, talk: str, user_turn: int, score: int, key: str = "cancel-order") -> None:
    state = world.state(talk, user_turn)
    assert Judgement.objects.filter(state=state, artifact_text__artifact__key=key).update(score=score) == 1


def item(run: Run, artifact: Artifact) -> dict[str, Any]:
    result = run.items.get(key=artifact.key).result
    assert result is not None
    return result


def candidates(artifact: Artifact, polarity: str = "", run: Run | None = None) -> list[str]:
    rows = Exemplar.objects.filter(artifact=artifact, status=ExemplarStatus.CANDIDATE).order_by("id")
    if polarity:
        rows = rows.filter(polarity=polarity)
    if run:
        rows = rows.filter(run=run)
    return list(rows.values_list("text", flat=True))


# ------------------------------------------------------------------------------------------------------- what is proposed
def test_it_proposes_what_the_core_mines(world: make.World, encoder: FakeEncoder) -> None:
    run = mined(world)
    vectors = {text: encoder.encode([text])[0] for turns in make.TALKS.values() for text, _ in turns}

    centre = inventories.current_point(world.inventory).centre
    assert centre is not None
    for artifact in (world.cancel, world.change, world.refund):
        talks = [
            JudgedConversation(
                name,
                name,
                tuple(text for text, _ in turns),
                centre_and_normalise(np.stack([vectors[text] for text, _ in turns]), table.core_centre(centre)),
                tuple(5 if artifact.key in relevant else 1 for _, relevant in turns),
            )
            for name, turns in make.TALKS.items()
        ]
        wanted = mine_objects(talks)
        assert candidates(artifact, "signal") == [e.text for e in wanted.signals]
        assert candidates(artifact, "anti_signal") == [e.text for e in wanted.anti_signals]
    assert run.result is not None
    assert (run.result["of"], run.result["mined"], run.result["cannot"]) == (3, 3, [])
    assert run.result["signals"] == 7
    assert run.tokens_in == 0


def test_a_candidate_names_its_turn_its_rule_and_its_run(world: make.World) -> None:
    before = world.inventory.exemplar_revision
    run = mined(world)
    found = world.exemplar(world.cancel, "I would like to cancel my order of yesterday")
    assert (found.source, found.status, found.polarity) == (Source.MINED, ExemplarStatus.CANDIDATE, Polarity.SIGNAL)
    assert found.origin == world.state("talk-1", 1)
    assert (found.mining_rule, found.label_horizon) == ("whole_conversation/1", 2)
    assert (found.run, found.view_kind, found.text_digest) == (run, "user_turn", exemplar_digest(found.text))
    assert found.decided_by_person is False
    world.inventory.refresh_from_db()
    assert world.inventory.exemplar_revision > before
    assert Release.objects.filter(inventory=world.inventory, summary__contains="mine").count() == 0


def test_the_running_rule_reads_no_later_label(world: make.World) -> None:
    rescore(world, "talk-2", 1, 4)
    rescore(world, "talk-2", 2, 5)  # it rises once more at the end
    whole = mined(world)
    assert "thank you" in candidates(world.cancel, "signal", whole)
    Exemplar.objects.filter(run=whole).delete()
    running = mined(world, rule="running")
    assert "no, cancel them then" in candidates(world.cancel, "signal", running)
    found = world.exemplar(world.cancel, "no, cancel them then")
    assert (found.mining_rule, found.label_horizon) == ("running/1", 1)


def test_every_state_is_mined_where_the_reviewer_scores_the_present_need(world: make.World) -> None:
    rescore(world, "talk-2", 2, 4)  # a second relevant turn of the same conversation
    rescore(world, "talk-3", 1, 2)
    run = mined(world, recipe="states")
    assert {"no, cancel them then", "thank you"} <= set(candidates(world.cancel, "signal", run))
    assert "fine, goodbye" in candidates(world.cancel, "anti_signal", run)
    found = world.exemplar(world.cancel, "thank you")
    assert (found.mining_rule, found.label_horizon) == ("states/1", 2)
    assert run.params["negatives_per_signal"] == 6
    Judge.objects.filter(inventory=world.inventory).update(rubric=Rubric.STICKY)
    with pytest.raises(Invalid, match="present need"):
        mined(world, recipe="states")


def test_adversarial_mining_asks_no_judge_and_takes_what_fires(world: make.World) -> None:
    low = ClassifierVersion.objects.get(artifact=world.cancel, to_release__isnull=True)

    run = mined(world, mode="adversarial", max_candidates=3)
    taken = Exemplar.objects.filter(artifact=world.cancel, run=run)
    result = item(run, world.cancel)
    assert result["signals"] == 0
    assert taken.count() == result["anti_signals"] <= 3
    if not taken:
        assert result["reason"] == "quiet"
    classifier = table.classifier_of(low)
    assert classifier is not None
    for found in taken:
        assert found.polarity == Polarity.ANTI_SIGNAL
        assert found.mining_rule == "adversarial/1"
        assert found.label_horizon == found.origin.user_turn  # type: ignore[union-attr]
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=-9.0)  # now everything fires
    again = mined(world, mode="adversarial", max_candidates=3)
    assert item(again, world.cancel)["anti_signals"] == 3
    needed = {text for turns in make.TALKS.values() for text, relevant in turns if "cancel-order" in relevant}
    assert not needed & set(candidates(world.cancel, "anti_signal", again))


# ------------------------------------------------------------------------------------------------------- what is left out
def test_it_is_stored_once_and_what_is_known_is_counted(world: make.World) -> None:
    first = mined(world)
    made = Exemplar.objects.filter(run=first).count()
    again = mined(world)
    assert Exemplar.objects.filter(run=again).count() == 0
    assert again.result is not None
    assert again.result["known"] == {"candidate": made}
    assert {row["reason"] for row in again.result["cannot"]} == {"all_known"}
    assert (
        f"all {item(again, world.cancel)['numbers']['known']} found are known already"
        in again.result["cannot"][0]["words"]
    )


def test_storing_twice_changes_nothing(world: make.World) -> None:
    run = mined(world)
    ground = mine_log.ground_of(run)
    found = mine.mine_artifact(ground, world.cancel)
    before = item(run, world.cancel)
    again = mine.store_found(ground, world.cancel, found)
    assert {k: v for k, v in again.items() if k != "clusters"} == {k: v for k, v in before.items() if k != "clusters"}
    assert Exemplar.objects.filter(artifact=world.cancel, run=run).count() == before["signals"] + before["anti_signals"]


def test_what_somebody_decided_on_is_not_proposed_again(world: make.World) -> None:
    mined(world)
    chosen = candidates(world.cancel, "signal")[0]
    curate.apply(
        world.cancel,
        [Step("reject", exemplar=world.exemplar(world.cancel, chosen).public_id)],
        by=world.by,
        base_version=1,
    )
    again = mined(world)
    assert world.exemplar(world.cancel, chosen).status == ExemplarStatus.REJECTED
    assert item(again, world.cancel)["known"]["rejected"] == 1


def test_a_text_is_never_on_both_sides(world: make.World) -> None:
    """A show example of the policy that a judge found irrelevant in a log is told of, not added."""
    make.conversation(world.inventory, "talk-6", ["please cancel my order", "please cancel my order", "a lamp"])
    for turn, score in enumerate((1, 5, 1)):
        make.judge(world.inventory, "talk-6", turn, dict.fromkeys(make.TEXTS, 1) | {"change-order": score})
    embed.embed_states(world.inventory)
    run = mined(world)
    cancel, change = item(run, world.cancel), item(run, world.change)
    assert cancel["conflicts"] == 1  # it is a show example of cancel-order, and was scored 1
    assert cancel["conflict_sample"] == [
        {"text": "please cancel my order", "mined": "anti_signal", "is": "signal", "status": "promoted"}
    ]
    assert change["conflict_sample"] == [
        {"text": "please cancel my order", "relevant": "talk-6/1", "irrelevant": "talk-6/0"}
    ]
    assert Exemplar.objects.filter(artifact=world.cancel, text="please cancel my order").count() == 1
    assert world.exemplar(world.cancel, "please cancel my order").polarity == Polarity.SIGNAL


def test_a_partly_judged_conversation_waits_with_its_missing_turns(world: make.World) -> None:
    make.conversation(world.inventory, "talk-6", ["cancel the lamp", "and the shoes", "thanks a lot"])
    make.judge(world.inventory, "talk-6", 0, {"cancel-order": 5})
    embed.embed_states(world.inventory)
    run = mined(world)
    assert "cancel the lamp" not in candidates(world.cancel)
    assert (item(run, world.cancel)["numbers"]["partly"], item(run, world.cancel)["numbers"]["missing"]) == (1, 2)
    assert run.result is not None
    assert (run.result["partly"], run.result["missing"]) == (1, 2)


def test_a_turn_without_a_vector_counts_as_missing(world: make.World) -> None:
    make.conversation(world.inventory, "talk-6", ["cancel the lamp"])
    embed.embed_states(world.inventory)
    make.conversation(world.inventory, "talk-6", ["cancel the lamp", "and the shoes"])
    for turn in (0, 1):
        make.judge(world.inventory, "talk-6", turn, {"cancel-order": 5})
    run = mined(world)
    assert item(run, world.cancel)["numbers"]["missing"] == 1
    plan = runs.forecast(fresh_inventory(world.inventory.pk), "mine")
    assert any("1 turns are not read by the encoder" in note for note in plan.notes)


def test_scores_of_another_prompt_are_another_judge(world: make.World) -> None:
    """One judge version: what an older prompt said of a conversation does not complete it."""

    newest = Judgement.objects.filter(artifact_text__artifact=world.cancel).order_by("-id").first()
    assert newest is not None
    newest.prompt_version = "2"
    newest.save()
    run = mined(world)
    result = item(run, world.cancel)
    assert result["reason"] == "partly_judged"
    assert result["numbers"]["missing"] == 1
    assert candidates(world.cancel) == []
    assert "1 turns to judge" in result["words"]


def test_a_run_reads_the_judgements_of_all_its_artifacts_in_one_pass(
    world: make.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[tuple[int, ...]] = []
    real = mine_log.read_scores

    def read(states: Any, group: Any, judge: Judge) -> Any:
        if not passes:  # others judge meanwhile
            make.judge(world.inventory, "talk-5", 0, {"change-order": 1}, name="human:ana")
        passes.append(group)
        return real(states, group, judge)

    monkeypatch.setattr(mine_log, "read_scores", read)
    first = mined(world)
    keys = {world.cancel.pk, world.change.pk, world.refund.pk}
    assert [set(group) for group in passes] == [keys]
    monkeypatch.setattr(mine_log, "SCORES_BYTES", 1)
    second = mined(world)
    assert [set(group) for group in passes[1:]] == [{world.cancel.pk}, {world.change.pk}, {world.refund.pk}]
    for artifact in (world.cancel, world.change, world.refund):
        a, b = item(first, artifact), item(second, artifact)
        assert (a["numbers"]["mined"], a["numbers"]["missing"]) == (b["numbers"]["mined"], b["numbers"]["missing"])


def test_scores_are_those_of_the_newest_prompt_and_the_last_row(world: make.World) -> None:
    inventory = fresh_inventory(world.inventory.pk)
    assert inventory.judge is not None
    centre = inventories.current_point(inventory).centre
    assert centre is not None
    states = table.state_table(inventory, centre)
    changed = Judgement.objects.filter(artifact_text__artifact=world.cancel, judge=inventory.judge).latest("pk")
    again = Judgement.objects.create(
        state=changed.state, artifact_text=changed.artifact_text, judge=inventory.judge, repeat=1, score=2,
        visible_upto=changed.visible_upto, prefix_digest=changed.prefix_digest,
    )  # fmt: skip
    lone = make.artifact(world.inventory, "lamp-care")
    found = mine_log.read_scores(states, [world.cancel.pk, world.refund.pk, lone.pk], inventory.judge)
    for artifact in (world.cancel, world.refund):
        rows = Judgement.objects.filter(artifact_text__artifact=artifact, judge=inventory.judge).order_by("pk")
        expected = np.zeros(len(states), dtype=np.int8)
        for row in rows:
            expected[states.positions[row.state_id]] = row.score
        assert found[artifact.pk].tolist() == expected.tolist()
    assert found[world.cancel.pk][states.positions[again.state_id]] == 2
    assert not found[lone.pk].any()
    Judgement.objects.filter(pk=again.pk).update(prompt_version="2")
    newest = mine_log.read_scores(states, [world.cancel.pk], inventory.judge)[world.cancel.pk]
    assert (int((newest > 0).sum()), int(newest[states.positions[again.state_id]])) == (1, 2)


def test_open_conversations_are_for_the_running_rule(world: make.World) -> None:
    Discovery.objects.create(
        inventory=world.inventory, state=world.state("talk-1", 1), conversation="talk-1", user_turn=1, release=1, theta=0.0,
        encoder_id="fake", origin=Origin.LIVE, at=timezone.now() - timedelta(hours=2),
    )  # fmt: skip
    text = "I would like to cancel my order of yesterday"
    whole = mined(world)
    assert text not in candidates(world.cancel)
    assert item(whole, world.cancel)["numbers"]["unfinished"] == 1
    running = mined(world, rule="running")
    assert text in candidates(world.cancel, run=running)
    Exemplar.objects.filter(run__in=[whole, running]).delete()
    mined(world, quiet_hours=1)
    assert text in candidates(world.cancel)


# -------------------------------------------------------------------------------------------------------- cannot be mined
def test_reasons_are_told_per_artifact(world: make.World) -> None:
    make.artifact(world.inventory, "gift-wrap")
    lamp = make.artifact(world.inventory, "lamp-care")
    for name, turns in make.TALKS.items():
        for turn, _ in enumerate(turns):
            make.judge(world.inventory, name, turn, {"lamp-care": 2})
    run = mined(world)
    assert run.result is not None
    told = {row["artifact"]: row for row in run.result["cannot"]}
    assert told["gift-wrap"]["reason"] == "no_labels"
    assert told["lamp-care"]["reason"] == "no_positives"
    assert told["lamp-care"]["words"] == "no turn scored 4 or more in the 5 conversations read"
    assert (run.result["of"], run.result["mined"], run.result["cannot_n"]) == (5, 3, 2)
    plan = runs.forecast(fresh_inventory(world.inventory.pk), "mine")
    assert plan.items == 5
    assert plan.calls == 0
    assert "Cannot mine: 2 of 5." in plan.notes
    assert "gift-wrap: no turn is judged for it." in plan.notes
    assert "lamp-care: no turn scored 4 or more." in plan.notes
    assert mine.mine_artifact(mine_log.ground_of(run), lamp).reason == "no_positives"


def test_without_a_contrast_or_a_version_it_says_so(world: make.World) -> None:
    new = make.artifact(world.inventory, "anything")
    for name, turns in make.TALKS.items():
        for turn, _ in enumerate(turns):
            make.judge(world.inventory, name, turn, {"anything": 5})
    assert item(mined(world), new)["reason"] == "no_negatives"
    assert item(mined(world, mode="adversarial"), new)["reason"] == "no_version"
    Exemplar.objects.filter(artifact=world.refund, polarity="signal").exclude(status="candidate").last().delete()  # type: ignore[union-attr]
    assert (
        item(mined(world, mode="adversarial"), world.refund)["reason"] == "no_version"
    )  # erased: it cannot be refitted


def test_too_little_material_is_proposed_and_said(world: make.World) -> None:
    run = mined(world)
    assert item(run, world.change)["reason"] == "under_minimum"  # two signals
    assert "2 show and 8 don't-show examples from real chats; 3 of each are needed" in item(run, world.change)["words"]
    assert item(run, world.cancel)["reason"] == ""
    assert run.result is not None
    assert [row["artifact"] for row in run.result["short"]] == ["change-order", "refund-status"]


def test_an_empty_inventory_has_nothing_to_mine(world: make.World) -> None:
    empty = make.inventory("bare")
    with pytest.raises(Invalid, match="No AI reviewer has scored a turn"):
        run_in(empty, {})


def test_policies_that_are_always_on_are_mined_only_by_name(world: make.World) -> None:
    artifacts.edit_artifact(world.refund, by=SYSTEM, mode=Mode.ALWAYS)
    run = mined(world)
    assert set(run.items.values_list("key", flat=True)) == {"cancel-order", "change-order"}
    named = mined(world, scope={"artifacts": ["refund-status"]})
    assert item(named, world.refund)["signals"] == 2


def test_the_scope_narrows_the_log(world: make.World) -> None:
    run = mined(world, scope={"conversations": ["talk-5", "talk-2"]})
    assert candidates(world.cancel, "signal") == ["no, cancel them then", "I do not want the parcel any more, stop it"]
    assert item(run, world.cancel)["numbers"]["mined"] == 2
    Exemplar.objects.filter(run=run).delete()
    part = {"share": 0.5, "seed": 3, "unit": "conversation"}
    one, other = mined(world, scope={"sample": part}), mined(world, scope={"but_not": part})
    sides = [item(each, world.cancel)["numbers"]["mined"] for each in (one, other)]
    assert sum(sides) == 5
    assert all(sides)
    with pytest.raises(Invalid, match="no scope 'by_margin'"):
        mined(world, scope={"by_margin": {"cancel-order": 2}})
    with pytest.raises(Invalid, match="no active artifact"):
        mined(world, scope={"artifacts": ["nothing"]})


def test_a_cap_keeps_new_ones_and_of_those_the_missed(world: make.World) -> None:
    known = [
        Step("add", state=world.state(talk, turn).pk, polarity="signal")
        for talk, turn in (("talk-1", 1), ("talk-2", 1))
    ]
    curate.apply(world.cancel, known, by=world.by, base_version=1)
    run = mined(world, max_candidates=5)
    result = item(run, world.cancel)
    assert (result["signals"], result["anti_signals"], result["numbers"]["left"]) == (1, 4, 2)
    assert candidates(world.cancel, "signal") == ["I do not want the parcel any more, stop it"]
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=9.0)  # everything is missed now: the first in order
    Exemplar.objects.filter(run=run).delete()
    curate.undo(Change.objects.filter(artifact=world.cancel, action="add").latest("id"), by=world.by)
    Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.RETIRED).delete()
    assert item(mined(world, max_candidates=10), world.cancel)["signals"] == 2


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"rule": "best"}, "params.rule"),
        ({"recipe": "best"}, "params.recipe"),
        ({"mode": "best"}, "params.mode"),
        ({"negatives_per_signal": 0}, "params.negatives_per_signal"),
        ({"negatives_per_signal": "4"}, "params.negatives_per_signal"),
        ({"max_irrelevant": 4}, "params.max_irrelevant"),
        ({"max_candidates": 501}, "params.max_candidates"),
        ({"judge": "nobody"}, "params.judge"),
        ({"auto_promote": 3}, "params.auto_promote"),  # releases go live at once here
        ({"auto_promote": True}, "params.auto_promote"),
        ({"best": 1}, "params"),
    ],
)
def test_impossible_params_name_their_field(world: make.World, params: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        mined(world, **params)
    assert refused.value.field == field


def test_defaults_are_frozen_on_the_run(world: make.World) -> None:
    run = mined(world)
    assert run.params == {
        "recipe": "paper", "rule": "whole_conversation", "mode": "plain", "negatives_per_signal": 4, "max_irrelevant": 1,
        "max_candidates": 200, "auto_promote": 0, "quiet_hours": 24, "judge": make.JUDGE,
    }  # fmt: skip


def test_every_reason_reads(world: make.World) -> None:
    numbers = dict.fromkeys(("missing", "relevant", "mined", "max_irrelevant", "known", "signals", "anti_signals"), 1)
    assert all("{" not in words_of(reason, numbers) for reason in REASONS)
    assert words_of("", {}) == ""


# ------------------------------------------------------------------------------------------------------------- before a fit
def test_mining_may_be_the_first_step_of_the_first_fit(encoder: FakeEncoder) -> None:
    inv = make.inventory("fresh")
    art = make.artifact(inv, "cancel-order", text=make.TEXTS["cancel-order"])
    make.artifact(inv, "other")
    for name, turns in make.TALKS.items():
        make.conversation(inv, name, [text for text, _ in turns])
        for turn, (_, relevant) in enumerate(turns):
            make.judge(inv, name, turn, {"cancel-order": 5 if "cancel-order" in relevant else 1})
    embed.embed_states(inv)
    run = run_in(inv, {})
    assert item(run, art)["signals"] == 3
    assert inventories.current_point(inv).centre is not None


def test_an_encoder_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch, world: make.World) -> None:
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    context = mine.KIND.prepare(run, [])
    assert "ground" in context.data

    def away(run: Run) -> None:
        raise Unavailable("The encoder is away.")

    monkeypatch.setattr(mine, "ground_of", away)
    run_work.work(run.pk, seconds=0.01)
    row = run.items.order_by("position").first()
    assert row is not None
    assert (row.state, row.error_code, row.attempts) == (ItemState.WAITING, "unavailable", 1)


def test_an_artifact_that_is_gone_fails_alone(world: make.World) -> None:
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    row = run.items.get(key="change-order")
    row.payload = {"artifact": 10**9}
    row.save()
    run_work.work(run.pk)
    run.refresh_from_db()
    assert run.state == RunState.GAPS
    assert run.result is not None
    assert run.result["mined"] == 2


# --------------------------------------------------------------------------------------------------------- promoting by itself
def reviewed(world: make.World) -> Inventory:
    Inventory.objects.filter(pk=world.inventory.pk).update(go_live="after_review")
    return fresh_inventory(world.inventory.pk)


def active(artifact: Artifact) -> ClassifierVersion:
    return ClassifierVersion.objects.get(artifact=artifact, to_release__isnull=True)


def test_it_promotes_into_a_draft_and_never_mixes(world: make.World) -> None:
    live = reviewed(world).live_release
    Inventory.objects.filter(pk=world.inventory.pk).update(target_recall=0.01)  # nothing is alarming
    run = mined(world, auto_promote=3)
    assert run.result is not None
    auto = run.result["auto"]
    told = {row["artifact"]: row for row in auto["versions"]}
    assert told["cancel-order"]["switched"] is True
    version = active(world.cancel)
    assert (version.number, version.fit_set) == (2, "mined")
    assert version.reason == f"promoted by mining run {run.public_id}"
    assert version.actor == ""
    assert set(version.counts["signal"]) <= {"mined", "written"}  # what people wrote is fitted under every setting
    assert {row["artifact"]: row["why"] for row in auto["left"]}["change-order"].startswith("under 3 examples")
    assert active(world.change).number == 1
    inventory = fresh_inventory(world.inventory.pk)
    assert inventory.live_release == live < inventory.release
    promoted = Exemplar.objects.filter(artifact=world.cancel, run=run, status=ExemplarStatus.PROMOTED)
    assert promoted.filter(polarity="signal").count() == 3
    assert promoted.filter(decided_by_person=True).count() == 0
    change = Change.objects.filter(artifact=world.cancel).latest("id")
    assert change.before["fit_set"] == "generated"
    assert change.after["fit_set"] == "mined"
    curate.undo(change, by=world.by)
    assert active(world.cancel).fit_set == "generated"
    assert promoted.count() == 0


def test_settling_again_promotes_no_more(world: make.World) -> None:
    reviewed(world)
    Inventory.objects.filter(pk=world.inventory.pk).update(target_recall=0.01)
    run = mined(world, auto_promote=2, negatives_per_signal=2, scope={"artifacts": ["cancel-order"]})
    numbers = [ClassifierVersion.objects.count(), Exemplar.objects.promoted().count()]
    mine.KIND.settle(run)
    assert numbers == [ClassifierVersion.objects.count(), Exemplar.objects.promoted().count()]


def test_what_would_alarm_a_person_is_left_to_one(world: make.World) -> None:
    reviewed(world)
    state = world.state("talk-1", 1)
    curate.apply(world.cancel, [Step("pin", state=state.pk)], by=world.by, base_version=1)
    run = mined(world, auto_promote=3)
    assert run.result is not None
    outcomes = {row["artifact"]: row for row in (*run.result["auto"]["left"], *run.result["auto"]["versions"])}
    whys = [row["why"] for row in run.result["auto"]["left"]]
    assert set(outcomes) == {"cancel-order", "change-order", "refund-status"}
    assert all(why.startswith(("under 3", "recall would fall", "a turn that must be")) for why in whys)


def test_a_mix_that_a_person_chose_stays_with_people(world: make.World) -> None:
    reviewed(world)
    curate.set_fit_set(world.cancel, "mixed", by=world.by, base_version=1)
    number = active(world.cancel).number
    run = mined(world, auto_promote=3, scope={"artifacts": ["cancel-order"]})
    assert run.result is not None
    assert run.result["auto"]["left"][0]["why"].startswith("it learns from both sources")
    assert active(world.cancel).number == number


def test_a_policy_that_learns_from_real_chats_gets_more_of_them(world: make.World) -> None:
    reviewed(world)
    Inventory.objects.filter(pk=world.inventory.pk).update(target_recall=0.01)
    mined(world, auto_promote=3, scope={"artifacts": ["cancel-order"]})
    make.conversation(world.inventory, "talk-6", ["stop the blue lamp, cancel it", "do you sell chairs"])
    for turn, score in enumerate((5, 1)):
        make.judge(world.inventory, "talk-6", turn, {"cancel-order": score})
    embed.embed_states(world.inventory)
    again = mined(world, auto_promote=3, scope={"artifacts": ["cancel-order"]})
    assert again.result is not None
    assert [row["switched"] for row in again.result["auto"]["versions"]] == [False]
    assert world.exemplar(world.cancel, "stop the blue lamp, cancel it").status == ExemplarStatus.PROMOTED


def test_where_releases_go_live_at_once_by_then_nothing_is_promoted(world: make.World) -> None:
    inventory = reviewed(world)
    run = runs.create_run(inventory, "mine", by=SYSTEM, params={"auto_promote": 3})
    Inventory.objects.filter(pk=inventory.pk).update(go_live="at_once")
    run_work.work(run.pk)
    run.refresh_from_db()
    assert run.result is not None
    assert run.result["auto"]["promoted"] == 0
    assert "go live at once" in run.result["auto"]["note"]


# -------------------------------------------------------------------------------------------------------- near-duplicates
def test_near_duplicates_are_named_together(world: make.World) -> None:
    for number, text in enumerate(("stop the parcel with shoes", "stop the shoes parcel", "lamp")):
        make.conversation(world.inventory, f"more-{number}", [text])
        make.judge(world.inventory, f"more-{number}", 0, {"cancel-order": 5 if "stop" in text else 1})
    embed.embed_states(world.inventory)
    run = mined(world, scope={"artifacts": ["cancel-order"]})
    [group] = item(run, world.cancel)["clusters"]
    rows = Exemplar.objects.filter(public_id__in=group)
    assert set(rows.values_list("text", flat=True)) == {"stop the parcel with shoes", "stop the shoes parcel"}


def test_a_message_that_is_no_example_is_counted(world: make.World) -> None:
    make.conversation(world.inventory, "long", ["cancel " * 30_000])
    make.judge(world.inventory, "long", 0, {"cancel-order": 5})
    embed.embed_states(world.inventory)
    run = mined(world, scope={"artifacts": ["cancel-order"]})
    assert item(run, world.cancel)["numbers"]["unusable"] == 1
