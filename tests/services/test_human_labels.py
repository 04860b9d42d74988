"""People's labels: a row per answer, the newest counts, nothing is overwritten."""

from typing import Any

import pytest

from console.models import AuditEvent, Inventory, Judge, Judgement
from console.services import table
from console.services.actor import Actor, person
from console.services.errors import Conflict, Invalid, NotFound
from console.services.human_labels import give_label
from tests import make

pytestmark = pytest.mark.django_db


def test_a_label_is_a_judgement_of_a_person(world: make.World) -> None:
    before = world.inventory.label_revision
    row = give_label(
        world.inventory, world.talks["talk-1"], 1, world.cancel, 5, by=person(world.reviewer), reason="asks to"
    )
    state = world.state("talk-1", 1)
    assert (row.judge.name, row.judge.kind, row.score, row.repeat) == ("human:rob", "human", 5, 0)
    assert (row.visible_upto, row.prefix_digest) == (state.message_index, state.prefix_digest)
    assert world.inventory.label_revision == before + 1
    event = AuditEvent.objects.get(action="judgement.label")
    assert (event.actor, event.before, event.reason) == ("rob", None, "asks to")
    assert event.after["score"] == 5


def test_another_answer_is_a_new_row_and_the_newest_counts(world: make.World) -> None:
    by = person(world.reviewer)
    first = give_label(world.inventory, world.talks["talk-1"], 0, world.cancel, 5, by=by)
    second = give_label(world.inventory, world.talks["talk-1"], 0, world.cancel, 2, by=by)
    first.refresh_from_db()
    assert (first.score, first.repeat, second.score, second.repeat) == (5, 0, 2, 1)
    assert AuditEvent.objects.filter(action="judgement.label").last().before == {"score": 5}  # type: ignore[union-attr]
    point = world.inventory.operating_points.select_related("centre").get(to_release=None)
    assert point.centre is not None
    states = table.state_table(world.inventory, point.centre)
    human = table.labels_of(world.inventory, states, world.cancel).human
    assert human[states.positions[world.state("talk-1", 0).pk]] == 2


def test_two_people_stand_side_by_side(world: make.World) -> None:
    for user, score in ((world.reviewer, 5), (world.author, 1)):
        give_label(world.inventory, world.talks["talk-1"], 0, world.cancel, score, by=person(user))
    rows = Judgement.objects.by_people().order_by("judge__name").values_list("judge__name", "score", "repeat")
    assert list(rows) == [("human:ada", 1, 0), ("human:rob", 5, 0)]
    assert Inventory.objects.get(pk=world.inventory.pk).judge.name == make.JUDGE  # type: ignore[union-attr]


@pytest.mark.parametrize("score", [0, 6, -1, True, "5", 4.5, None])
def test_other_scores_are_refused_and_nothing_is_written(world: make.World, score: Any) -> None:
    with pytest.raises(Invalid, match="score is"):
        give_label(world.inventory, world.talks["talk-1"], 0, world.cancel, score, by=person(world.reviewer))
    assert not Judge.objects.filter(kind="human").exists()
    assert not AuditEvent.objects.filter(action="judgement.label").exists()


def test_no_such_turn_no_person_no_borrowed_name(world: make.World) -> None:
    talk, by = world.talks["talk-1"], person(world.reviewer)
    with pytest.raises(NotFound):
        give_label(world.inventory, talk, 9, world.cancel, 3, by=by)
    with pytest.raises(Invalid, match="person"):
        give_label(world.inventory, talk, 0, world.cancel, 3, by=Actor("token:agent"))
    Judge.objects.create(inventory=world.inventory, name="human:rob", kind="model")
    with pytest.raises(Conflict, match="AI reviewer"):
        give_label(world.inventory, talk, 0, world.cancel, 3, by=by)
    assert not Judgement.objects.by_people().exists()
