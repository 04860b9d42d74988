"""Review queues: what each kind finds, frozen and counted; places held by one person; answers, revisions, undo, drafts."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.models import (
    AuditEvent,
    Inventory,
    Judgement,
    QueueKind,
    Reservation,
    ReviewAnswer,
    ReviewItem,
    ReviewQueue,
)
from console.services import (
    artifacts,
    curate,
    embed,
    fit,
    human_labels,
    inventories,
    review_build,
    review_items,
    review_queues,
    table,
    table_sample,
)
from console.services.actor import SYSTEM, Actor, person
from console.services.errors import Conflict, Invalid, NotFound
from console.services.fit import fresh_inventory
from console.services.inventories import current_point
from console.services.plan import Step
from console.services.review_build import Asked
from tests import make

pytestmark = pytest.mark.django_db


def queue(world: make.World, kind: str = QueueKind.AUDIT, **options: object) -> ReviewQueue:
    asked = Asked(kind, **{k: options.pop(k) for k in list(options) if k in Asked.__dataclass_fields__})  # type: ignore[arg-type]
    return review_queues.create_queue(fresh_inventory(world.inventory.pk), asked, by=world.by, **options)  # type: ignore[arg-type]


def rob(world: make.World) -> Actor:
    return person(world.reviewer)


def taken(world: make.World, made: ReviewQueue, by: Actor | None = None) -> ReviewItem:
    found = review_items.claim(made, by=by or rob(world))
    assert found is not None
    return review_items.get_item(world.inventory, made.public_id, found.public_id)


# -------------------------------------------------------------------------------------------------------------- the kinds
def test_misses_are_what_the_judge_needs_and_nobody_selected(world: make.World) -> None:
    made = queue(world, QueueKind.MISSES, size=30)
    items = list(made.items.order_by("position"))
    assert items
    assert made.size == len(items) == made.population
    for item in items:
        assert item.why["score"] >= 4
        assert item.why["margin"] <= item.why["cutoff"]
        assert not item.why["fired"]
    gaps = [item.why["margin"] - item.why["cutoff"] for item in items]
    assert gaps == sorted(gaps)  # the farthest first


def test_nearest_to_the_cut_off_first(world: make.World) -> None:
    made = queue(world, QueueKind.NEAR, size=8)
    gaps = [abs(item.why["margin"] - item.why["cutoff"]) for item in made.items.order_by("position")]
    assert len(gaps) == 8
    assert gaps == sorted(gaps)
    assert made.population == 36  # 12 turns, 3 policies


def test_judge_against_model_both_ways_misses_first(world: make.World) -> None:
    made = queue(world, QueueKind.MODEL, size=40)
    needed = [item.why["score"] >= 4 for item in made.items.order_by("position")]
    assert needed == sorted(needed, reverse=True)
    assert all(item.why["fired"] != (item.why["score"] >= 4) for item in made.items.all())


def test_what_a_person_has_answered_is_asked_again_only_as_a_difference(world: make.World) -> None:
    first = queue(world, QueueKind.MISSES, size=1).items.get()
    human_labels.give_label(
        world.inventory, first.state.conversation, first.state.user_turn, first.artifact, 1, by=world.by
    )
    assert not queue_pairs(world, QueueKind.MISSES) & {(first.state_id, first.artifact_id)}
    assert queue_pairs(world, QueueKind.HUMAN) == {(first.state_id, first.artifact_id)}


def queue_pairs(world: make.World, kind: str) -> set[tuple[int, int]]:
    chosen = review_build.choose(fresh_inventory(world.inventory.pk), Asked(kind, size=500))
    return {(pair.state, pair.artifact) for pair in chosen.pairs}


def test_the_audit_sample_is_drawn_from_everything_and_repeats_with_its_seed(world: make.World) -> None:
    inventory = fresh_inventory(world.inventory.pk)

    def draw(seed: int, size: int = 6) -> list[tuple[int, int]]:
        return [
            (p.state, p.artifact) for p in review_build.choose(inventory, Asked("audit", size=size, seed=seed)).pairs
        ]

    assert draw(1) == draw(1) != draw(2)
    assert len(set(draw(3, 500))) == 36  # every pair once, no pair twice
    seen = np.zeros(36)
    pairs = sorted(draw(3, 500))
    for seed in range(400):
        for pair in draw(seed):
            seen[pairs.index(pair)] += 1
    # 400 draws of 6 in 36: each about 67 times, whatever its margin, label or policy
    assert seen.min() > 35
    assert seen.max() < 105


def test_an_audit_queue_is_always_blind(world: make.World) -> None:
    assert queue(world, QueueKind.AUDIT, blind=False).blind
    assert not queue(world, QueueKind.NEAR).blind


def test_conversations_that_begin_alike_are_asked_once(world: make.World) -> None:
    make.conversation(world.inventory, "twin", [text for text, _ in make.TALKS["talk-4"]])
    embed.embed_states(world.inventory)
    assert queue(world, QueueKind.NEAR, size=100).size == 36
    assert queue(world, QueueKind.AUDIT, size=100).size == 42  # an audit sample leaves nothing out


def test_custom_filters_and_policies(world: make.World) -> None:
    made = queue(world, QueueKind.CUSTOM, policies=("refund-status",), judged="needed", size=100)
    assert {item.artifact.key for item in made.items.all()} == {"refund-status"}
    assert made.size == 2
    assert made.params == {"policies": ["refund-status"], "size": 100, "seed": 1, "fired": "", "judged": "needed"}


def test_conversations_can_be_narrowed_down_in_the_language_of_every_list(world: make.World) -> None:
    make.conversation(world.inventory, "by-voice", ["cancel my order please"], channel="voice")
    embed.embed_states(world.inventory)
    made = queue(world, QueueKind.CUSTOM, where=("channel:is:voice",), size=100)
    assert {item.state.conversation.external_id for item in made.items.all()} == {"by-voice"}
    assert made.params["where"] == ["channel:is:voice"]
    both = queue(world, QueueKind.NEAR, where=("channel:is:voice", "or.scenario:is:talk-1"), size=100)
    assert {item.state.conversation.external_id for item in both.items.all()} == {"by-voice", "talk-1"}
    with pytest.raises(Invalid, match="no field colour") as error:
        queue(world, QueueKind.CUSTOM, where=("colour:is:red",))
    assert error.value.field == "where"


def test_pins_that_fail_are_due_and_then_those_of_another_text(world: make.World) -> None:
    assert not queue_pairs(world, QueueKind.PINS)
    caught, missed = world.state("talk-1", 1), world.state("talk-4", 0)
    for state in (caught, missed):
        version = fit.active_version(world.cancel)
        assert version is not None
        step = Step("pin", state=state.pk)
        curate.apply(world.cancel, [step], by=world.by, base_version=version.number, reason="must hold")
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.5)  # nothing is selected any more
    made = queue(world, QueueKind.PINS)
    assert [item.why["pin"] for item in made.items.order_by("position")] == ["failing", "failing"]
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=-5.0)  # everything is
    assert not queue_pairs(world, QueueKind.PINS)
    artifacts.edit_artifact(world.cancel, by=world.by, text="Quite another text.")
    made = queue(world, QueueKind.PINS)
    assert [item.why["pin"] for item in made.items.all()] == ["stale", "stale"]


def test_a_kind_with_nothing_is_refused_by_name(world: make.World) -> None:
    with pytest.raises(Invalid, match="nothing to review"):
        queue(world, QueueKind.HUMAN)
    with pytest.raises(Invalid) as error:
        queue(world, reviewers=4)
    assert error.value.field == "reviewers"
    for wrong in ({"size": 0}, {"kind": "best"}, {"order": "alphabet"}, {"fired": "maybe"}, {"minutes": 0}):
        with pytest.raises(Invalid) as error:
            queue(world, **wrong)
        assert error.value.field in wrong


def test_without_a_fit_there_is_nothing(db: None) -> None:
    chosen = review_build.choose(make.inventory("empty"), Asked("misses"))
    assert (chosen.pairs, chosen.population) == ([], 0)


def test_the_database_keeps_an_item_once_and_a_person_in_one_place(world: make.World) -> None:
    made = queue(world, reviewers=2)
    item = made.items.first()
    assert item is not None
    with pytest.raises(IntegrityError), transaction.atomic():
        ReviewItem.objects.create(queue=made, state=item.state, artifact=item.artifact, position=999)
    with pytest.raises(IntegrityError), transaction.atomic():
        item.places.update(user=world.reviewer)


# --------------------------------------------------------------------------------------------------------------- reserving
def test_two_reviewers_never_hold_one_item(world: make.World) -> None:
    made = queue(world, size=3)
    ada, ben = person(world.author), person(world.publisher)
    held = {review_items.claim(made, by=who).position for who in (rob(world), ada, ben)}  # type: ignore[union-attr]
    assert held == {0, 1, 2}
    assert review_items.claim(made, by=person(world.admin)) is None
    assert review_items.claim(made, by=rob(world)).position == 0  # type: ignore[union-attr]  # the one they hold


def test_a_lapsed_reservation_goes_to_the_next_who_asks(world: make.World) -> None:
    made = queue(world, size=1)
    item = taken(world, made)
    Reservation.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert review_items.claim(made, by=world.by) == item
    assert item.places.get().user == world.author


def test_two_answers_are_of_two_people(world: make.World) -> None:
    made = queue(world, size=1, reviewers=2)
    item = taken(world, made)
    review_items.answer(item, "yes", by=rob(world))
    assert review_items.claim(made, by=rob(world)) is None
    assert review_items.claim(made, by=world.by) == item
    assert review_queues.progress(made).done == 1


def test_a_closed_queue_gives_nothing(world: make.World) -> None:
    made = queue(world, closes_at=timezone.now() - timedelta(minutes=1))
    assert review_items.claim(made, by=rob(world)) is None
    item = review_items.get_item(world.inventory, made.public_id, made.items.all()[0].public_id)
    with pytest.raises(Conflict, match="closed"):
        review_items.answer(item, "yes", by=rob(world))


def test_skipped_items_come_last_and_only_for_the_one_who_skipped(world: make.World) -> None:
    made = queue(world, size=3)
    first = taken(world, made)
    review_items.skip(first, by=rob(world))
    assert taken(world, made).position == 1
    assert taken(world, made, world.by).position == 0
    review_items.release(first, world.author)
    for position in (1, 2, 0):
        item = taken(world, made)
        assert item.position == position
        review_items.answer(item, "no", by=rob(world))


# --------------------------------------------------------------------------------------------------------------- answering
@pytest.mark.parametrize(("word", "score"), [("yes", 5), ("no", 1)])
def test_an_answer_is_a_human_judgement(world: make.World, word: str, score: int) -> None:
    item = taken(world, queue(world))
    given = review_items.answer(item, word, by=rob(world), note="as asked")
    row = given.answer.judgement
    assert given.kept
    assert row is not None
    assert (row.score, row.judge.name, row.prompt_version, row.reason) == (
        score,
        "human:rob",
        "review-blind",
        "as asked",
    )
    assert given.answer.blind
    inventory = Inventory.objects.get(pk=world.inventory.pk)
    states = table.state_table(inventory, current_point(inventory).centre)  # type: ignore[arg-type]
    assert table.labels_of(inventory, states, item.artifact).human[states.positions[item.state_id]] == score


def test_unsure_is_kept_apart(world: make.World) -> None:
    item = taken(world, queue(world))
    review_items.answer(item, "yes", by=rob(world))
    given = review_items.answer(item, "unsure", by=rob(world))
    assert given.answer.judgement is None
    assert not Judgement.objects.filter(judge__name="human:rob").exists()  # the yes before counts no more
    assert review_queues.standing(item.queue).words == {"unsure": 1}


def test_another_answer_is_a_new_row_and_no_longer_blind(world: make.World) -> None:
    item = taken(world, queue(world))
    review_items.answer(item, "yes", by=rob(world))
    second = review_items.answer(item, "no", by=rob(world)).answer
    assert not second.blind
    assert second.judgement is not None
    scores = Judgement.objects.filter(judge__name="human:rob").order_by("id").values_list("score", flat=True)
    assert list(scores) == [5, 1]
    assert item.answers.count() == 2
    assert review_queues.standing(item.queue).words == {"no": 1}


def test_undo_takes_the_answer_before_or_opens_the_item(world: make.World) -> None:
    item = taken(world, queue(world))
    first = review_items.answer(item, "yes", by=rob(world)).answer
    review_items.answer(item, "unsure", by=rob(world))
    latest = review_items.last_answers(world.inventory, world.reviewer)
    assert [row.word for row in latest] == ["unsure", "yes"]
    review_items.undo(world.inventory, latest[0].public_id, by=rob(world))
    assert Judgement.objects.get(judge__name="human:rob").score == 5  # the yes counts again
    first.refresh_from_db()
    review_items.undo(world.inventory, first.public_id, by=rob(world))
    assert not Judgement.objects.filter(judge__name="human:rob").exists()
    place = item.places.get()
    assert (place.done, place.user) == (False, world.reviewer)
    assert ReviewAnswer.objects.count() == 2  # on record
    with pytest.raises(Conflict, match="already"):
        review_items.undo(world.inventory, first.public_id, by=rob(world))
    assert AuditEvent.objects.filter(action="judgement.withdraw").count() == 2


def test_what_is_taken_back_leaves_the_tables_too(world: make.World) -> None:
    item = taken(world, queue(world))

    def human() -> int:
        inventory = Inventory.objects.get(pk=world.inventory.pk)
        states = table.state_table(inventory, current_point(inventory).centre)  # type: ignore[arg-type]
        return int(table.labels_of(inventory, states, item.artifact).human[states.positions[item.state_id]])

    row = review_items.answer(item, "yes", by=rob(world)).answer
    assert human() == 5
    review_items.undo(world.inventory, row.public_id, by=rob(world))
    assert human() == 0
    review_items.answer(item, "no", by=rob(world))
    assert human() == 1


def test_undo_is_of_ones_own_answers_alone(world: make.World) -> None:
    item = taken(world, queue(world))
    row = review_items.answer(item, "yes", by=rob(world)).answer
    with pytest.raises(NotFound):
        review_items.undo(world.inventory, row.public_id, by=world.by)
    with pytest.raises(NotFound):
        review_items.undo(world.others, row.public_id, by=rob(world))


def test_a_lost_place_keeps_the_answer_as_a_draft(world: make.World) -> None:
    made = queue(world, size=1)
    item = taken(world, made)
    Reservation.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert review_items.claim(made, by=world.by) == item
    review_items.answer(item, "no", by=world.by)
    given = review_items.answer(item, "yes", by=rob(world), note="mine")
    assert not given.kept
    assert given.answer.draft
    assert given.answer.judgement is None
    assert review_queues.standing(made).words == {"no": 1}
    added = review_items.answer(item, "yes", by=rob(world), note="mine", second=True)
    assert added.kept
    assert added.answer.judgement is not None
    given.answer.refresh_from_db()
    assert given.answer.undone_at is not None  # the draft has become the answer
    assert review_queues.standing(made).words == {"no": 1, "yes": 1}
    assert item.places.count() == 2


def test_a_flag_sets_aside_until_put_back(world: make.World) -> None:
    made = queue(world, size=1)
    item = taken(world, made)
    with pytest.raises(Invalid, match="what is wrong"):
        review_items.flag(item, " ", by=rob(world))
    review_items.flag(item, "the log is cut off", by=rob(world))
    assert review_items.claim(made, by=rob(world)) is None
    assert review_queues.progress(made).left == 0
    with pytest.raises(Conflict, match="set aside"):
        review_items.answer(
            review_items.get_item(world.inventory, made.public_id, item.public_id), "yes", by=rob(world)
        )
    assert [flag.reason for flag in review_queues.open_flags(made)] == ["the log is cut off"]
    review_queues.put_back(made, item, by=world.by)
    assert taken(world, made) == item
    assert not review_queues.open_flags(made)


def test_only_people_answer_and_only_with_three_words(world: make.World) -> None:
    item = taken(world, queue(world))
    with pytest.raises(Invalid, match="Only a person"):
        review_items.answer(item, "yes", by=SYSTEM)
    with pytest.raises(Invalid, match="yes, no or unsure"):
        review_items.answer(item, "perhaps", by=rob(world))


def test_progress_people_and_where_to_go_on(world: make.World) -> None:
    made, other = queue(world, size=2), queue(world, QueueKind.NEAR, size=2)
    review_items.answer(taken(world, made), "yes", by=rob(world))
    taken(world, made)
    now = review_queues.progress(made)
    assert (now.places, now.done, now.held, now.left, now.share) == (2, 1, 1, 1, 0.5)
    (who,) = review_queues.standing(made).people
    assert (who.name, who.answers, who.held) == ("rob", 1, 1)
    assert review_queues.sooner(world.inventory, made) == review_queues.Next(other, 2)
    rows, following = review_queues.rows(world.inventory, size=1)
    assert rows[0].queue == other
    assert following == other.pk
    rows, following = review_queues.rows(world.inventory, before=following)
    assert [row.queue for row in rows] == [made]
    assert following is None


# --------------------------------------------------------------------------------------------------------------- long logs
def test_a_queue_of_a_long_log_is_chosen_from_chats_drawn_by_chance_over_all_policies(
    world: make.World, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = review_build.choose(world.inventory, Asked("audit", size=2_000))
    settings.WHOLE_LOG_TURNS = whole.states - 1
    monkeypatch.setattr(review_build, "FEW", 2)
    point = current_point(world.inventory)
    drawn = table_sample.drawn_table(world.inventory, point)
    assert 0 < len(drawn) < whole.states
    found = review_build.choose(world.inventory, Asked("audit", size=2_000))
    assert found.states == len(drawn)
    assert {pair.state for pair in found.pairs} == set(drawn.state_ids.tolist())
    assert {pair.artifact for pair in found.pairs} == {a.pk for a in (world.cancel, world.change, world.refund)}
    one = review_build.choose(world.inventory, Asked("audit", policies=("cancel-order",), size=2_000))
    assert one.states == len(drawn)  # by chance, not among what was judged
    few = review_build.choose(world.inventory, Asked("misses", policies=("cancel-order",), size=2_000))
    sample = table_sample.page_table(world.inventory, point, [world.cancel.pk])
    assert few.states == len(sample)
    assert set(review_build.kinds_found(world.inventory)) == set(QueueKind.values)


def test_pins_due_are_found_wherever_they_are_in_a_long_log(world: make.World, settings: Any) -> None:
    state = world.state("talk-1", 2)
    curate.apply(world.refund, [Step("pin", state=state.pk)], by=world.by, base_version=1)
    artifacts.edit_artifact(world.refund, by=world.by, text="Something else altogether.")
    settings.WHOLE_LOG_TURNS = 1
    found = review_build.choose(world.inventory, Asked("pins"))
    assert [(pair.state, pair.why["pin"]) for pair in found.pairs] == [(state.pk, "stale")]
    assert review_build.kinds_found(world.inventory)["pins"] == 1
