"""Candidates: what is listed in which order and why, what each would change, and decisions on many as one step per policy."""

import math
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import (
    ClassifierVersion,
    Conversation,
    Exemplar,
    ExemplarStatus,
    Judgement,
    Polarity,
    Run,
    Source,
)
from console.services import (
    artifacts,
    candidates,
    candidates_decide,
    candidates_effect,
    curate,
    embed,
    fit,
    inventories,
    run_work,
    runs,
    table,
)
from console.services.actor import SYSTEM
from console.services.artifacts import exemplar_digest
from console.services.candidates import Filters
from console.services.candidates_rank import Candidate, Stage, ground_of, ranked, standing
from console.services.errors import Conflict, Invalid, Malformed
from console.services.fit import fresh_inventory
from console.services.plan import Step
from sq_core.embedding import centre_and_normalise
from sq_core.scoring import PRESETS, Pooling, cut_off, state_margins
from tests import make

pytestmark = pytest.mark.django_db


def mine(world: make.World, **params: Any) -> Run:
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM, params=params)
    run_work.work(run.pk)
    run.refresh_from_db()
    return run


ALL = Filters()


def page(world: make.World, filters: Filters = ALL, **more: Any) -> candidates.Page:
    return candidates.page(fresh_inventory(world.inventory.pk), filters, **more)


def suggest(world: make.World, text: str, polarity: str = "signal", **fields: Any) -> Exemplar:
    """A candidate written by an AI, with its vector."""
    embed.vectors(embed.encoder_for(world.inventory), [text])
    return Exemplar.objects.create(
        artifact=fields.pop("artifact", world.cancel),
        polarity=polarity,
        text=text,
        text_digest=exemplar_digest(text),
        source=fields.pop("source", Source.GENERATED),
        **fields,
    )


# -------------------------------------------------------------------------------------------------------- list and filters
def test_all_that_waits_is_listed_policy_by_policy(world: make.World) -> None:
    mine(world)
    found = page(world, size=100)
    assert [group.artifact.key for group in found.groups] == ["cancel-order", "change-order", "refund-status"]
    waiting = Exemplar.objects.filter(status=ExemplarStatus.CANDIDATE)
    assert found.total == waiting.count() == len(found.rows)
    assert (found.signals, found.anti_signals) == tuple(
        waiting.filter(polarity=side).count() for side in (Polarity.SIGNAL, Polarity.ANTI_SIGNAL)
    )
    assert found.policies == [(g.artifact.key, g.name, g.waiting) for g in found.groups]
    assert found.next is None
    assert all(list(group.rows) == sorted(group.rows, key=lambda c: c.key) for group in found.groups)


def test_filters_narrow_the_list(world: make.World) -> None:
    run = mine(world)
    written = suggest(world, "please stop that order of mine")
    assert {c.exemplar.artifact_id for c in page(world, Filters(policy="change-order")).rows} == {world.change.pk}
    assert {c.exemplar.polarity for c in page(world, Filters(kind="signal"), size=50).rows} == {"signal"}
    assert [c.exemplar for c in page(world, Filters(source="generated")).rows] == [written]
    assert written not in [c.exemplar for c in page(world, Filters(run=run.public_id), size=50).rows]
    assert page(world, Filters(run="nothing")).rows == []
    assert page(world, Filters(policy="nothing")).total == 0


def test_pages_hold_every_candidate_once(world: make.World) -> None:
    mine(world)
    whole = [c.exemplar.pk for c in page(world, size=100).rows]
    seen: list[int] = []
    after = ""
    for _ in range(20):
        found = page(world, size=4, after=after)
        assert len(found.rows) <= 4
        seen += [c.exemplar.pk for c in found.rows]
        if found.next is None:
            break
        after = found.next
    assert seen == whole


def test_a_cursor_holds_when_its_row_is_decided(world: make.World) -> None:
    mine(world)
    first = page(world, size=3)
    assert first.next is not None
    expected = [c.exemplar.pk for c in page(world, size=3, after=first.next).rows]
    last = first.rows[-1].exemplar
    curate.apply(world.cancel, [Step("reject", exemplar=last.public_id)], by=world.by, base_version=1)
    assert [c.exemplar.pk for c in page(world, size=3, after=first.next).rows] == expected
    for wrong in ("x", "1_2", "1_2_" + "_".join(["nan"] * 3), f"{'9' * 30}_1_" + "_".join(["0.0"] * 13)):
        with pytest.raises(Malformed):
            page(world, after=wrong)


@pytest.mark.django_db(transaction=True)  # inside a transaction nothing is kept
def test_the_number_of_questions_does_not_grow_with_policies(world: make.World) -> None:
    mine(world)
    page(world, size=100)  # caches

    def questions(filters: Filters) -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            page(world, filters, size=100)
        return len(asked)

    one, three = questions(Filters(policy="cancel-order")), questions(Filters())
    assert three <= one + 1
    assert three <= 20


def test_archived_policies_wait_with_theirs(world: make.World) -> None:
    mine(world)
    artifacts.archive_artifact(world.cancel, by=SYSTEM)
    assert {g.artifact.key for g in page(world, size=100).groups} == {"change-order", "refund-status"}


def test_before_the_first_fit_they_are_listed_without_numbers() -> None:
    inv = make.inventory("bare")
    art = make.artifact(inv, "cancel-order")
    row = Exemplar.objects.create(
        artifact=art, polarity="signal", text="stop it", text_digest=exemplar_digest("stop it"), source="generated"
    )
    [found] = candidates.page(fresh_inventory(inv.pk), Filters()).rows
    assert found.exemplar == row
    assert (found.margin, found.cutoff, found.effect, found.nearest, found.over) == (None, None, None, None, None)
    assert found.cluster_size == 1


# ------------------------------------------------------------------------------------------------------------ why and order
def row(world: make.World, text: str, artifact: Any = None) -> Candidate:
    return next(
        c
        for c in page(world, size=100).rows
        if c.exemplar.text == text and c.exemplar.artifact_id == (artifact or world.cancel).pk
    )


def test_a_show_example_tells_how_the_score_rose(world: make.World) -> None:
    mine(world)
    found = row(world, "no, cancel them then")
    assert (found.why.rule, found.why.before, found.why.score, found.why.contradicted) == (
        "whole_conversation", 1, 5, False,
    )  # fmt: skip
    first = row(world, "I do not want the parcel any more, stop it")
    assert (first.why.before, first.why.score) == (0, 5)  # nothing before its first message
    assert first.look_alike_of is None


def test_a_look_alike_tells_its_margin_and_which_show_example_it_is_near(world: make.World) -> None:
    mine(world)
    found = row(world, "and when do I get the money back")
    assert found.why.score == 1
    version = ClassifierVersion.objects.get(artifact=world.cancel)
    vector = embed.vectors(embed.encoder_for(world.inventory), [found.exemplar.text])
    point = inventories.current_point(world.inventory)
    assert point.centre is not None
    [centred] = centre_and_normalise(vector, table.core_centre(point.centre)).astype(np.float64)
    classifier = table.classifier_of(version)
    assert found.margin == pytest.approx(float(centred @ classifier.weights) + classifier.bias, abs=1e-6)
    assert found.cutoff == cut_off(point.theta, version.offset)
    assert found.over == pytest.approx(found.margin - found.cutoff)
    near = found.look_alike_of
    assert near is not None
    assert Exemplar.objects.get(public_id=near.public_id).source == Source.MINED
    assert near.used is False
    assert 0 < near.cosine < 1
    assert found.nearest is not None
    assert found.nearest.used


def test_scores_that_changed_since_contradict(world: make.World) -> None:
    mine(world)
    text = "no, cancel them then"
    Judgement.objects.filter(state=world.state("talk-2", 1), artifact_text__artifact=world.cancel).update(score=1)
    type(world.inventory).objects.filter(pk=world.inventory.pk).update(label_revision=10_000)
    found = row(world, text)
    assert found.why.contradicted
    assert not found.offered


def test_nearly_equal_ones_stand_together_the_best_first(world: make.World) -> None:
    for text in ("stop the parcel with shoes", "lamp oil", "stop the shoes parcel"):
        suggest(world, text)
    same = suggest(world, "cancel my order please", "anti_signal")  # says what an example in use says
    rows = page(world, size=50).rows
    pair = [c for c in rows if c.cluster_size == 2]
    assert {c.exemplar.text for c in pair} == {"stop the parcel with shoes", "stop the shoes parcel"}
    places = [rows.index(c) for c in pair]
    assert places[1] == places[0] + 1
    assert [c.leads for c in pair] == [True, False]
    assert len({c.cluster for c in pair}) == 1
    found = next(c for c in rows if c.exemplar == same)
    assert found.same
    assert not found.offered
    inventory = fresh_inventory(world.inventory.pk)
    assert set(candidates.cluster_of(inventory, pair[1].exemplar.public_id)) == {c.exemplar.public_id for c in pair}
    assert candidates.cluster_of(inventory, "nothing") == []


def test_the_effect_is_what_the_preview_says(world: make.World) -> None:
    """On a log as small as this one the estimate looks at every turn."""
    mine(world)
    inventory = fresh_inventory(world.inventory.pk)
    ground = fit.basis(world.cancel)
    margins = table.margins_of(fit.table.classifier_of(ground.base), ground.states, table.pooling_of(ground.point))  # type: ignore[arg-type]
    assert ground.base is not None
    before = margins > cut_off(ground.point.theta, ground.base.offset)
    checked = 0
    for found in page(world, Filters(policy="cancel-order"), size=50).rows:
        step = Step("promote", exemplar=found.exemplar.public_id)
        effect = curate.preview(world.cancel, [step], by=world.by)
        needed = effect.started_needed - sum(flip.needed is True for flip in effect.stopped)
        extra = effect.started_not_needed - sum(flip.needed is False for flip in effect.stopped)
        assert found.effect is not None
        assert (found.effect.caught, found.effect.extra) == (needed, extra), found.exemplar.text
        checked += 1
    assert checked == 12
    assert before.any()
    assert inventory.exemplar_revision


LATER = (
    "I would like to cancel my order", "cancel my order of yesterday please", "I would like to cancel the parcel",
    "cancel it then", "I do not want the parcel, stop it",
)  # fmt: skip


def later(world: make.World) -> None:
    """Five more conversations that need cancel-order, of scenarios that gave no candidate."""
    for number, text in enumerate(LATER):
        make.conversation(world.inventory, f"later-{number}", ["hello", text])
        for turn, score in ((0, 1), (1, 5)):
            make.judge(world.inventory, f"later-{number}", turn, {"cancel-order": score})
    embed.embed_states(world.inventory)


def test_misses_come_first_until_the_target_holds_then_look_alikes_the_risky_ones_before_the_harmless(
    world: make.World,
) -> None:
    mine(world)
    later(world)
    ground = ground_of(fresh_inventory(world.inventory.pk), [world.cancel.pk])
    version, labels = ground.versions[world.cancel.pk], ground.labels[world.cancel.pk]
    assert ground.states is not None
    margins = table.margins_of(table.classifier_of(version), ground.states, table.pooling_of(ground.point))
    middle = float(np.median(margins[labels.relevant])) + 1e-6
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=middle)  # half of what needs it is missed
    ground = ground_of(fresh_inventory(world.inventory.pk), [world.cancel.pk])
    caught, needed = standing(ground, world.cancel.pk)
    short = math.ceil(0.9 * needed) - caught
    rows = page(world, Filters(policy="cancel-order"), size=50).rows
    stages = [c.stage for c in rows if c.leads]
    assert stages == sorted(stages)
    for c in rows:
        assert c.effect is not None
        signal = c.exemplar.polarity == Polarity.SIGNAL
        assert signal == (c.stage in (Stage.MISSED, Stage.MORE)) or c.stage == Stage.REST
        assert (c.stage == Stage.RISKY) == (not signal and min(c.effect.caught, c.effect.fair_caught) < 0)
        assert not (c.stage == Stage.RISKY and c.offered)
    first = [c.effect.fair_caught for c in rows if c.stage == Stage.MISSED and c.effect]
    assert len(first) > 1
    assert sum(first[:-1]) < short <= sum(first)  # none once the target is reached
    assert any(c.stage == Stage.MORE for c in rows)


def test_no_miss_is_first_where_the_target_holds(world: make.World) -> None:
    mine(world)
    ground = ground_of(fresh_inventory(world.inventory.pk), [world.cancel.pk])
    caught, needed = standing(ground, world.cancel.pk)
    assert caught >= 0.9 * needed
    assert Stage.MISSED not in {c.stage for c in page(world, Filters(policy="cancel-order"), size=50).rows}


def test_the_order_counts_only_other_scenarios(world: make.World) -> None:
    """What it would catch of its own conversation speaks for nothing: the figure shown has it, the order has not."""
    mine(world)
    own = world.state("talk-2", 1)
    found = row(world, "no, cancel them then")
    assert found.exemplar.origin_id == own.pk
    assert found.effect is not None
    needed = {("talk-1", 1), ("talk-5", 0)}  # of cancel-order, but for talk-2
    assert found.effect.fair_caught <= len(needed)
    assert found.effect.fair_caught <= found.effect.caught


def test_together_they_keep_recall_and_pins(world: make.World) -> None:
    """Look-alikes that are harmless one by one and costly together are held back from the end."""
    mine(world)
    later(world)
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.2)
    inventory = fresh_inventory(world.inventory.pk)
    waiting = [c.exemplar for c in page(world, Filters(policy="cancel-order"), size=50).rows]
    wrong = {e.public_id: "anti_signal" for e in waiting}  # also what needed it
    [one], _gone = candidates_decide.decided(inventory, wrong)
    alone = curate.preview(one.artifact, one.steps, by=world.by)
    assert alone.needs_reason(0.9)
    impact, held = candidates_decide.within_target(one, by=world.by, target=0.9)
    assert held > 0
    assert len(one.rows) == len(one.steps) == len(waiting) - held
    assert len(one.rows) == 1 or not impact.needs_reason(0.9)


def test_what_a_strip_holds_is_in_the_order_of_the_list(world: make.World) -> None:
    mine(world)
    inventory = fresh_inventory(world.inventory.pk)
    listed = [c.exemplar.public_id for c in page(world, Filters(policy="cancel-order"), size=50).rows]
    decisions = {pk: "reject" if n == 2 else "anti_signal" for n, pk in enumerate(reversed(listed))}
    [one], _gone = candidates_decide.decided(inventory, decisions)
    candidates_decide.in_order(inventory, [one])
    told = [e.public_id for e, decision in one.rows if decision != "reject"]
    assert told == [pk for pk in listed if decisions[pk] != "reject"]
    assert one.rows[-1][1] == "reject"
    assert [step.exemplar for step in one.steps] == [e.public_id for e, _decision in one.rows]


def test_a_decision_on_all_is_refused_where_the_list_has_moved(
    world: make.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine(world)
    inventory = fresh_inventory(world.inventory.pk)
    asked = Filters(policy="cancel-order")
    shown = page(world, asked).extent
    assert shown.count == 12
    decisions = candidates_decide.of_all(inventory, asked, "suggested", shown)
    assert {Exemplar.objects.get(public_id=pk).polarity for pk in decisions} == {"signal", "anti_signal"}
    assert all(Exemplar.objects.get(public_id=pk).polarity == side for pk, side in decisions.items())
    gone = next(iter(decisions))
    curate.apply(world.cancel, [Step("reject", exemplar=gone)], by=world.by, base_version=1)
    with pytest.raises(Conflict, match="There are 11 now, not 12"):
        candidates_decide.of_all(inventory, asked, "reject", shown)
    suggest(world, "stop the shoes")  # as many as before, but others
    with pytest.raises(Conflict, match="Others are among these 12 now"):
        candidates_decide.of_all(inventory, asked, "reject", shown)
    with pytest.raises(Invalid, match="no decision"):
        candidates_decide.of_all(inventory, asked, "maybe", page(world, asked).extent)
    monkeypatch.setattr(candidates_decide, "MOST_AT_ONCE", 3)
    with pytest.raises(Invalid, match="are more than"):
        candidates_decide.of_all(inventory, asked, "reject", page(world, asked).extent)


def test_without_labels_there_is_no_effect(world: make.World) -> None:
    Judgement.objects.all().delete()
    type(world.inventory).objects.filter(pk=world.inventory.pk).update(label_revision=10_001)
    suggest(world, "stop the shoes")
    [found] = page(world).rows
    assert found.effect is None
    assert found.margin is not None


def test_without_the_version_s_own_examples_there_is_no_effect(world: make.World) -> None:
    mine(world)
    Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.PROMOTED).first().delete()  # type: ignore[union-attr]
    rows = page(world, Filters(policy="cancel-order"), size=50).rows
    assert {c.effect for c in rows} == {None}


@pytest.mark.parametrize(
    "pooling", [*PRESETS.values(), Pooling(mode="max", cumulative=False, last=2, age_discount=0.05)]
)
def test_pooled_products_are_the_margins(world: make.World, pooling: Pooling) -> None:
    ground = fit.basis(world.cancel)
    assert ground.base is not None
    classifier = table.classifier_of(ground.base)
    rows = candidates_effect.sample_rows(ground.states.conversation_ids)
    weights = np.stack([classifier.weights, -classifier.weights]).astype(np.float32)
    found = candidates_effect.pooled(ground.states, rows, weights, pooling)
    wanted = state_margins(classifier.weights, 0.0, ground.states.views, pooling)
    assert found[:, 0] == pytest.approx(wanted, abs=1e-5)


def test_a_long_log_is_sampled_by_whole_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_effect, "TURNS", 20)
    ids = np.repeat(np.arange(30), 4)
    rows = candidates_effect.sample_rows(ids)
    assert len(rows) == 20
    assert set(np.unique(ids[rows], return_counts=True)[1]) == {4}
    assert ids[rows].max() > 20  # not the beginning of the log


def test_a_sampled_effect_is_scaled_up(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    mine(world)
    monkeypatch.setattr(candidates_effect, "TURNS", 5)
    rows = page(world, Filters(policy="cancel-order"), size=50).rows
    assert any(c.effect is not None for c in rows)


def test_of_very_many_only_the_most_wrong_are_estimated(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    mine(world)
    monkeypatch.setattr(candidates_effect, "FITS", 3)
    rows = page(world, Filters(policy="cancel-order"), size=50).rows
    assert sum(c.effect is not None for c in rows) == 3


# ---------------------------------------------------------------------------------------------------------------- decisions
def test_decisions_become_steps_per_policy(world: make.World) -> None:
    mine(world)
    inventory = fresh_inventory(world.inventory.pk)
    rows = {
        c.exemplar.text: c.exemplar for c in page(world, size=100).rows if c.exemplar.artifact_id == world.cancel.pk
    }
    other = page(world, Filters(policy="refund-status")).rows[0].exemplar
    decisions = {
        rows["no, cancel them then"].public_id: "signal",
        rows["thanks"].public_id: "anti_signal",
        rows["hello there"].public_id: "reject",
        other.public_id: "signal" if other.polarity == "anti_signal" else "anti_signal",
        "nothing": "signal",
        rows["thank you"].public_id: "nonsense",
    }
    found, gone = candidates_decide.decided(inventory, decisions)
    assert [one.artifact.key for one in found] == ["cancel-order", "refund-status"]
    assert gone == ["nothing"]
    assert [(s.action, s.polarity) for s in found[0].steps] == [
        ("promote", "signal"), ("promote", "anti_signal"), ("reject", None),
    ]  # fmt: skip
    assert (found[0].used, len(found[0].rows), found[0].name) == (2, 3, "Cancel order")
    done = curate.apply(found[0].artifact, found[0].steps, by=world.by, base_version=1, reason="because")
    assert done.version is not None
    assert done.version.number == 2  # one version for all of it
    again, gone = candidates_decide.decided(inventory, decisions)
    assert [one.artifact.key for one in again] == ["refund-status"]
    assert len(gone) == 4


def test_the_best_of_each_policy(world: make.World) -> None:
    mine(world)
    for text in ("stop the parcel with shoes", "stop the shoes parcel"):
        suggest(world, text)
    inventory = fresh_inventory(world.inventory.pk)
    taken, left = candidates_decide.best(inventory, Filters(), 2)
    assert (len(taken), left) == (6, 0)
    listed = page(world, Filters(policy="cancel-order"), size=50).rows
    best = [c.exemplar.public_id for c in listed if c.offered][:2]
    assert [pk for pk in taken if pk in {c.exemplar.public_id for c in listed}] == best
    assert {taken[c.exemplar.public_id] for c in listed if c.exemplar.public_id in taken} <= {"signal", "anti_signal"}
    both, _ = candidates_decide.best(inventory, Filters(policy="cancel-order", source="generated"), 10)
    assert len(both) == 1  # of the two nearly equal ones one
    few, left = candidates_decide.best(inventory, Filters(), 2, most=1)
    assert (len(few), left) == (2, 2)
    assert candidates_decide.best(inventory, Filters(policy="nothing"), 2) == ({}, 0)


def test_what_speaks_to_the_judge_is_listed_and_never_offered(world: make.World) -> None:
    mine(world)
    Conversation.objects.filter(external_id="talk-2").update(addresses_judge=True)
    found = row(world, "no, cancel them then")
    assert not found.offered
    taken, _ = candidates_decide.best(fresh_inventory(world.inventory.pk), Filters(), 50)
    assert found.exemplar.public_id not in taken


# ------------------------------------------------------------------------------------------------------------ nothing there
def why(world: make.World, **filters: str) -> tuple[str, str]:
    found = candidates.why_nothing(fresh_inventory(world.inventory.pk), Filters(**filters))
    return found.reason, found.run


def test_an_empty_list_names_what_is_missing(world: make.World) -> None:
    assert why(world) == ("not_mined", "mine")
    new = make.artifact(world.inventory, "gift-wrap")
    assert why(world, policy="gift-wrap") == ("no_labels", "judge")
    for name, turns in make.TALKS.items():
        for turn, _ in enumerate(turns):
            make.judge(world.inventory, name, turn, {"gift-wrap": 1})
    assert why(world, policy="gift-wrap") == ("no_positives", "judge")
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    assert why(world) == ("running", "")
    assert why(world, run=run.public_id) == ("running", "")
    run_work.work(run.pk)
    assert why(world) == ("decided", "mine")
    again = mine(world)
    found = candidates.why_nothing(fresh_inventory(world.inventory.pk), Filters(policy="cancel-order"))
    assert (found.reason, found.words) == ("mined_none", "all 12 found are known already")
    found = candidates.why_nothing(fresh_inventory(world.inventory.pk), Filters(run=again.public_id))
    assert found.reason == "run_gave_none"
    assert why(world, run=run.public_id) == ("decided", "")
    assert why(world, run="nothing") == ("no_such_run", "")
    suggest(world, "stop the shoes")
    assert why(world, kind="anti_signal", policy="cancel-order") == ("filtered", "")
    assert why(world, source="mined") == ("filtered", "")
    Exemplar.objects.filter(source=Source.GENERATED, status=ExemplarStatus.CANDIDATE).update(source=Source.WRITTEN)
    assert why(world, source="generated") == ("filtered", "generate")
    assert new.key == "gift-wrap"


def test_without_conversations_an_ai_may_write_some() -> None:
    inv = make.inventory("bare")
    found = candidates.why_nothing(fresh_inventory(inv.pk), Filters())
    assert (found.reason, found.run) == ("no_conversations", "generate")


def test_the_standing_is_measured_now(world: make.World) -> None:
    mine(world)
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=50.0)
    [group] = page(world, Filters(policy="cancel-order")).groups
    assert (group.recall, group.needed, group.version) == (0.0, 3, 1)
    ground = ground_of(fresh_inventory(world.inventory.pk), [world.cancel.pk])
    assert ranked(ground, []) == {}
