"""Who agrees with whom: on blind audit answers alone, a decided answer in their place, repeats of the AI reviewer."""

import pytest

from console.models import Judge, Judgement, QueueKind, ReviewDecision, ReviewItem, ReviewQueue, User
from console.services import agreement, human_labels, review_items, review_queues
from console.services.actor import person
from console.services.agreement import Comparison, Filters
from console.services.fit import fresh_inventory
from console.services.review_build import Asked
from tests import make

pytestmark = pytest.mark.django_db


def queue(world: make.World, kind: str = QueueKind.AUDIT, reviewers: int = 1) -> ReviewQueue:
    return review_queues.create_queue(
        fresh_inventory(world.inventory.pk), Asked(kind, size=36), by=world.by, reviewers=reviewers
    )


def answer(world: make.World, made: ReviewQueue, position: int, word: str, who: User) -> ReviewItem:
    public_id = made.items.get(position=position).public_id
    item = review_items.get_item(world.inventory, made.public_id, public_id)
    assert review_items.answer(item, word, by=person(who)).kept
    return item


def of(world: make.World, name: str, filters: Filters | None = None) -> Comparison:
    found = agreement.audit_sample(fresh_inventory(world.inventory.pk), filters or Filters())
    return next(c for c in found.comparisons if c.name == name)


def test_nothing_yet_has_no_figures(world: make.World) -> None:
    for name in ("judge-people", "model-people", "model-judge", "people-people"):
        result = of(world, name).result
        assert (result.n, result.percent, result.kappa, result.low) == (0, None, None, None)


def test_judge_against_people_by_hand(world: make.World) -> None:
    made = queue(world)
    needed = list(made.items.filter(why__score=5).order_by("position"))
    others = list(made.items.filter(why__score=1).order_by("position"))
    for item in needed[:3]:
        answer(world, made, item.position, "yes", world.reviewer)
    answer(world, made, needed[3].position, "no", world.reviewer)
    for item in others[:4]:
        answer(world, made, item.position, "no", world.reviewer)
    answer(world, made, others[4].position, "unsure", world.reviewer)
    found = of(world, "judge-people")
    assert found.result.table == ((3, 1), (0, 4))  # rows: judge yes, no; columns: people
    assert found.result.percent == pytest.approx(7 / 8)
    assert found.result.kappa == pytest.approx((7 / 8 - 1 / 2) / (1 / 2))
    (pair,) = found.cell(1, 0)
    assert (pair.conversation, pair.policy) == (needed[3].state.conversation.external_id, needed[3].artifact.key)
    whole = agreement.audit_sample(fresh_inventory(world.inventory.pk), Filters())
    assert (whole.answers, whole.unsure, whole.unblind) == (8, 1, 0)


def test_only_audit_queues_and_only_blind_answers_count(world: make.World) -> None:
    answer(world, queue(world, QueueKind.NEAR), 0, "yes", world.reviewer)
    assert of(world, "judge-people").result.n == 0
    made = queue(world)
    answer(world, made, 0, "yes", world.reviewer)
    answer(world, made, 0, "no", world.reviewer)  # after the reveal
    found = agreement.audit_sample(fresh_inventory(world.inventory.pk), Filters())
    assert (found.answers, found.unblind) == (0, 1)


def test_people_against_people_and_what_others_still_answer_is_not_listed(world: make.World) -> None:
    made = queue(world, reviewers=2)
    answer(world, made, 0, "yes", world.reviewer)
    first = of(world, "model-people")
    assert first.result.n == 1
    assert not [pair for cell in ((1, 1), (0, 1)) for pair in first.cell(*cell)]  # the second has not answered
    answer(world, made, 0, "no", world.author)
    found = of(world, "people-people")
    assert found.result.n == 1
    assert found.result.percent == 0
    assert found.pairs[0].who == "ada, rob"
    assert of(world, "judge-people").result.n == 2


def test_a_decided_answer_stands_for_peoples(world: make.World) -> None:
    made = queue(world, reviewers=2)
    answer(world, made, 0, "yes", world.reviewer)
    item = answer(world, made, 0, "no", world.author)
    ReviewDecision.objects.create(item=item, needed=True, reason="as the policy says", by="paul")
    found = of(world, "model-people")
    assert [pair.second for pair in found.pairs] == [1]
    assert of(world, "people-people").result.n == 1  # what they said stays what they said


def test_selection_is_as_it_was_when_the_sample_was_drawn(world: make.World) -> None:
    made = queue(world)
    item = answer(world, made, 0, "yes", world.reviewer)
    assert of(world, "model-people").pairs[0].first == int(item.why["fired"])


def test_the_judge_against_itself(world: make.World) -> None:
    for turn, score in enumerate((1, 4, 1)):
        first = Judgement.objects.get(state=world.state("talk-1", turn), artifact_text__artifact=world.cancel)
        first.pk, first.repeat, first.score = None, 1, score
        first.save()
    found = agreement.repeats(fresh_inventory(world.inventory.pk), Filters())
    assert found.result.n == 3
    assert found.result.weights == "quadratic"
    assert found.result.table[4][3] == 1  # 5 at first, then 4
    assert found.result.table[0][0] == 2


def test_all_labels_are_counted_without_kappa(world: make.World) -> None:
    human_labels.give_label(world.inventory, world.talks["talk-1"], 1, world.cancel, 2, by=world.by)
    human_labels.give_label(world.inventory, world.talks["talk-1"], 1, world.cancel, 4, by=world.by)
    found = agreement.all_labels(fresh_inventory(world.inventory.pk), Filters())
    assert not found.audit
    assert found.result.table[4][3] == 1
    assert found.result.n == 1
    assert found.result.low is None


def test_by_policy_and_by_another_judge(world: make.World) -> None:
    made = queue(world)
    for position in range(36):
        answer(world, made, position, "no", world.reviewer)
    assert of(world, "judge-people", Filters(policy="refund-status")).result.n == 12
    other = Judge.objects.create(inventory=world.inventory, name="other-judge", kind="model")
    assert of(world, "judge-people", Filters(judge=other)).result.n == 0
    assert of(world, "model-people").result.n == 36
    assert [judge.name for judge in agreement.judges(world.inventory)] == ["other-judge", make.JUDGE]
    result = agreement.queue_kappa(fresh_inventory(world.inventory.pk), made).result
    assert (result.n, result.kappa) == (36, 0.0)
    assert result.clusters == 5  # too few for an interval
    assert result.low is None
