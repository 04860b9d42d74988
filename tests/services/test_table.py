"""The score table's caches: what renews them, and how much they hold."""

import numpy as np
import pytest

from console.models import Exemplar, Inventory, Judgement, StateView, Vector
from console.services import (
    artifacts,
    caches,
    conversations,
    embed,
    log_figures,
    table,
    table_sample,
    why_record,
    workbench,
)
from console.services import policy_rows as policies
from console.services.actor import SYSTEM
from console.services.ingest_conversations import grow_conversation
from console.services.inventories import current_point
from sq_core.conversation import messages_from_json
from tests.make import TEXTS, World

pytestmark = pytest.mark.django_db


def test_a_live_turn_leaves_the_table_alone_until_it_is_embedded(world: World) -> None:
    centre = current_point(world.inventory).centre
    assert centre is not None
    before = table.state_table(world.inventory, centre)
    said = messages_from_json([{"role": "user", "content": "please stop the parcel"}])
    grow_conversation(world.inventory, "live-1", said, by=SYSTEM)
    assert table.state_table(world.inventory, centre) is before
    assert embed.embed_states(world.inventory) == 1
    after = table.state_table(Inventory.objects.get(pk=world.inventory.pk), centre)
    assert len(after) == len(before) + 1
    assert log_figures.headline(world.inventory).states == len(after)


def test_an_edit_taken_back_brings_the_judgements_of_the_text_back(world: World) -> None:
    state, turn = world.state("talk-1", 1), world.talks["talk-1"]

    def seen() -> tuple[bool, ...]:
        head = workbench.head(workbench.ground(Inventory.objects.get(pk=world.inventory.pk), "cancel-order"))
        listed = next(row for row in policies.rows(world.inventory) if row.key == "cancel-order")
        return (
            head.needed > 0,
            listed.relevant > 0,
            not why_record.witnesses(state, world.cancel)[0].text_changed,
            why_record.first_maximum_turn(world.inventory, turn, world.cancel) is not None,
            "cancel-order" in conversations.talk(world.inventory, "talk-1").turns[1].needed,
            not head.text_changed and "text_changed" not in listed.states,
        )

    Exemplar.objects.filter(artifact=world.cancel).update(
        source="generated", artifact_text=artifacts.current_text(world.cancel)
    )
    world.inventory = Inventory.objects.select_related("judge").get(pk=world.inventory.pk)
    assert seen() == (True,) * 6
    artifacts.edit_artifact(world.cancel, by=world.by, text="Never.")
    assert seen() == (False,) * 6
    artifacts.edit_artifact(world.cancel, by=world.by, text=TEXTS["cancel-order"])
    assert artifacts.current_text(world.cancel).number == 3
    assert seen() == (True,) * 6


def test_the_caches_weigh_what_they_hold(world: World) -> None:
    caches.clear_all()
    centre = current_point(world.inventory).centre
    assert centre is not None
    states = table.state_table(world.inventory, centre)
    labels = table.all_labels(world.inventory, states)
    assert table._tables._bytes == states.views.cumulative.nbytes + states.views.turns.nbytes
    assert table._labels._bytes == sum(mine.score.nbytes + mine.human.nbytes for mine in labels.values())
    assert np.array_equal(labels[world.cancel.pk].score, table.labels_of(world.inventory, states, world.cancel).score)


def test_no_figure_rests_on_chosen_pairs_or_second_judgings(world: World) -> None:
    """A planner's columns of high margin would lift recall and precision; a repeat is compared, not counted."""
    judge, state = world.inventory.judge, world.state("talk-1", 0)
    assert judge is not None
    text = world.cancel.texts.get(to_release__isnull=True)
    shared = {"judge": judge, "state": state, "artifact_text": text, "visible_upto": state.message_index, "score": 5}
    Judgement.objects.filter(state=state, artifact_text=text).delete()
    Judgement.objects.create(**shared, prompt_version="2", chosen=True, prefix_digest=state.prefix_digest)
    Judgement.objects.create(**shared, prompt_version="1", repeat=1, prefix_digest=state.prefix_digest)
    caches.clear_all()
    point = current_point(world.inventory)
    assert point.centre is not None
    states = table.state_table(world.inventory, point.centre)
    labels = table.labels_of(world.inventory, states, world.cancel)
    assert labels.score[states.positions[state.pk]] == 0
    Judgement.objects.create(**shared, prompt_version="3", prefix_digest=state.prefix_digest)
    caches.clear_all()
    assert table.labels_of(world.inventory, states, world.cancel).score[states.positions[state.pk]] == 5


def test_a_turn_without_its_vector_is_absent_and_the_others_are_there(world: World) -> None:
    """As it is while a conversation is being erased: its rows were read, its vectors are gone."""
    centre = current_point(world.inventory).centre
    assert centre is not None
    before = table.state_table(world.inventory, centre)
    lost = StateView.objects.get(state=world.state("talk-4", 1))
    Vector.objects.filter(key=lost.turn_key).delete()
    caches.clear_all()
    after = table.state_table(world.inventory, centre)
    assert set(before.state_ids.tolist()) - set(after.state_ids.tolist()) == {lost.state_id}
    assert len(after) == len(before) - 1


def test_a_conversation_is_read_up_to_the_turn_that_lost_its_vector(world: World) -> None:
    centre = current_point(world.inventory).centre
    assert centre is not None
    talk = world.talks["talk-1"]
    Vector.objects.filter(key=StateView.objects.get(state=world.state("talk-1", 1)).turn_key).delete()
    assert len(table_sample.conversation_vectors(world.inventory, centre, [talk.pk])[talk.pk].turns) == 1
    Vector.objects.filter(key=StateView.objects.get(state=world.state("talk-1", 0)).cumulative_key).delete()
    assert table_sample.conversation_vectors(world.inventory, centre, [talk.pk]) == {}
