"""What people decide counts in every figure in place of the AI reviewer, and each figure says how much of it that is."""

import numpy as np
import pytest

from console.models import Inventory, Judgement, QueueKind, ReviewItem, ReviewQueue
from console.services import (
    alerts,
    artifacts,
    curate,
    decide,
    evaluation_overview,
    fit,
    log_figures,
    review_items,
    review_queues,
    table,
)
from console.services.actor import person
from console.services.evaluation_data import evaluation_set
from console.services.fit import fresh_inventory
from console.services.inventories import current_point
from console.services.plan import Step
from console.services.precision import of_inventory, of_queue
from console.services.review_build import Asked
from sq_core.evaluation.corrected import corrected_precision
from tests import make

pytestmark = pytest.mark.django_db


def whole(world: make.World) -> ReviewQueue:
    """A queue of every pair."""
    inventory = fresh_inventory(world.inventory.pk)
    return review_queues.create_queue(inventory, Asked(QueueKind.AUDIT, size=36), by=world.by)


def item(made: ReviewQueue, key: str, talk: str, turn: int) -> ReviewItem:
    found = made.items.get(artifact__key=key, state__conversation__external_id=talk, state__user_turn=turn)
    return review_items.get_item(Inventory.objects.get(pk=made.inventory_id), made.public_id, found.public_id)


def labels(world: make.World) -> tuple[table.StateTable, dict[int, table.Labels]]:
    inventory = fresh_inventory(world.inventory.pk)
    centre = current_point(inventory).centre
    assert centre is not None
    states = table.state_table(inventory, centre)
    return states, table.all_labels(inventory, states)


def test_a_decision_counts_where_there_is_one_and_nobodys_score_is_touched(world: make.World) -> None:
    states, before = labels(world)
    place = states.positions[world.state("talk-1", 1).pk]
    assert before[world.cancel.pk].relevant[place]
    scores = sorted(Judgement.objects.values_list("pk", "score"))
    made = whole(world)
    decide.decide(item(made, "cancel-order", "talk-1", 1), False, "they only ask", by=world.by)
    states, after = labels(world)
    mine = after[world.cancel.pk]
    assert not mine.relevant[place]
    assert mine.judged[place]
    assert mine.score_relevant[place]  # what the AI reviewer says stays what it says
    assert mine.score[place] == 5
    assert mine.by_people.sum() == 1
    assert after[world.change.pk].decided is None
    assert sorted(Judgement.objects.values_list("pk", "score")) == scores
    decide.decide(item(made, "cancel-order", "talk-1", 1), True, "they do want it", by=world.by)
    assert labels(world)[1][world.cancel.pk].relevant[place]  # the newest counts


def test_an_evaluation_counts_what_was_decided_and_says_on_how_many_pairs(world: make.World) -> None:
    states, _labels = labels(world)
    row, column = states.positions[world.state("talk-1", 1).pk], 0
    before = evaluation_set(world.inventory)
    assert before.artifacts[column] == "cancel-order"
    assert before.scores[row, column] == 5
    decide.decide(item(whole(world), "cancel-order", "talk-1", 1), False, "they only ask", by=world.by)
    after = evaluation_set(fresh_inventory(world.inventory.pk))
    assert after.scores[row, column] == 1
    assert (after.scores != before.scores).sum() == 1
    ground = evaluation_overview.ground_of(world.inventory, world.inventory.release)
    assert evaluation_overview._decided(world.inventory, ground) == 1


def test_a_decision_on_another_text_does_not_count(world: make.World) -> None:
    decide.decide(item(whole(world), "cancel-order", "talk-1", 1), False, "they only ask", by=world.by)
    assert labels(world)[1][world.cancel.pk].by_people.any()
    artifacts.edit_artifact(world.cancel, by=world.by, text="Something else altogether.")
    assert not labels(world)[1][world.cancel.pk].by_people.any()


def test_recall_of_a_preview_a_version_and_home_say_how_much_people_decided(world: make.World) -> None:
    made = whole(world)
    before = fit.basis(world.refund)
    assert before.base is not None
    margins = table.margins_of(table.classifier_of(before.base), before.states, table.pooling_of(before.point))
    cutoff = before.point.theta + before.base.offset
    nothing = np.zeros(len(before.states), dtype=bool)
    plain = fit.metrics_of(before, margins, cutoff, nothing)
    assert plain["decided"] == 0
    decide.decide(item(made, "refund-status", "talk-2", 2), True, "they wait for money", by=world.by)
    decide.decide(item(made, "refund-status", "talk-3", 0), True, "as the reviewer says", by=world.by)
    ground = fit.basis(world.refund)
    told = fit.metrics_of(ground, margins, cutoff, nothing)
    assert told["decided"] == 2
    assert told["relevant"] == plain["relevant"] + 1
    assert told["tp"] + told["fn"] == told["relevant"]
    step = Step("add", text="money back where", polarity="signal")
    effect = curate.preview(world.refund, [step], by=world.by)
    assert effect.decided == 2
    head = log_figures.headline(fresh_inventory(world.inventory.pk))
    assert head.decided_pairs == 2
    estimate = alerts.recall_estimate(fresh_inventory(world.inventory.pk))
    assert estimate is None or estimate.decided == 2


# --------------------------------------------------------------------------------------------------- corrected precision
def test_a_blind_sample_of_what_seems_shown_for_nothing_corrects_precision(world: make.World) -> None:
    inventory = fresh_inventory(world.inventory.pk)
    made = review_queues.create_queue(inventory, Asked(QueueKind.EXTRAS, size=4), by=world.by)
    assert made.blind
    assert made.order == "random"
    assert all(row.why["fired"] and row.why["score"] < 4 for row in made.items.all())
    assert of_inventory(inventory) is None  # nobody has answered
    words = ["yes", "no", "no", "unsure"]
    for row, word in zip(made.items.order_by("position"), words, strict=True):
        found = review_items.get_item(inventory, made.public_id, row.public_id)
        review_items.answer(found, word, by=person(world.reviewer))
    sampled = of_inventory(inventory)
    assert sampled is not None
    assert (sampled.found, sampled.asked, sampled.open_items) == (1, 3, 1)
    assert sampled.not_needed == made.population
    assert sampled.needed == made.params["needed"] > 0
    assert sampled.result == corrected_precision(sampled.needed, sampled.not_needed, 1, 3)
    unsure = made.items.get(position=3)
    found = review_items.get_item(inventory, made.public_id, unsure.public_id)
    decide.decide(found, True, "it is", by=world.by)
    assert (of_queue(made).found, of_queue(made).asked) == (2, 4)


def test_an_answer_changed_after_the_reveal_is_left_out(world: make.World) -> None:
    inventory = fresh_inventory(world.inventory.pk)
    made = review_queues.create_queue(inventory, Asked(QueueKind.EXTRAS, size=1), by=world.by)
    found = review_items.get_item(inventory, made.public_id, made.items.get().public_id)
    review_items.answer(found, "yes", by=person(world.reviewer))
    review_items.answer(found, "no", by=person(world.reviewer))
    assert (of_queue(made).asked, of_queue(made).open_items) == (0, 1)
