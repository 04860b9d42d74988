"""One new label reads one row; what is removed, or comes in late among others, is seen all the same."""

from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import Inventory, Judgement
from console.services import artifacts, human_labels, table
from console.services.actor import person
from console.services.ingest_judgements import import_judgements
from console.services.inventories import current_point
from sq_core.readers import JudgementRow
from tests import make
from tests.make import World


def states_of(world: World) -> table.StateTable:
    centre = current_point(world.inventory).centre
    assert centre is not None
    return table.state_table(world.inventory, centre)


def labels(world: World) -> dict[int, table.Labels]:
    return table.all_labels(world.inventory, states_of(world))


def afresh(world: World) -> dict[int, table.Labels]:
    """The same, read from the database as a process does that has just begun."""
    table._labels.clear()
    return labels(world)


def same(a: dict[int, table.Labels], b: dict[int, table.Labels]) -> bool:
    return a.keys() == b.keys() and all(
        np.array_equal(a[pk].score, b[pk].score) and np.array_equal(a[pk].human, b[pk].human) for pk in a
    )


@pytest.fixture
def rows_read(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many judgements each reading has gone through, from nothing held."""
    table._labels.clear()
    real, counts = table._read_labels, []

    def told(inventory: Inventory, states: table.StateTable, texts: dict[int, int], held: Any) -> Any:
        read = real(inventory, states, texts, held)
        if read is not held:
            kept = held is not None and any(read.labels[pk] is held.labels[pk] for pk in read.labels)
            counts.append(read.count - (held.count if kept else 0))
        return read

    monkeypatch.setattr(table, "_read_labels", told)
    return counts


def label(world: World, score: int, turn: int = 0) -> Judgement:
    return human_labels.give_label(
        world.inventory, world.talks["talk-1"], turn, world.cancel, score, by=person(world.reviewer)
    )


def test_a_new_label_reads_itself_only(world: World, rows_read: list[int]) -> None:
    before = labels(world)
    everything = rows_read[0]
    assert everything == Judgement.objects.count()
    label(world, 4)
    after = labels(world)
    assert rows_read == [everything, 1]
    position = states_of(world).positions[world.state("talk-1", 0).pk]
    assert (before[world.cancel.pk].human[position], after[world.cancel.pk].human[position]) == (0, 4)
    assert after[world.refund.pk] is before[world.refund.pk], "what has no new label is not copied"
    assert labels(world) is after
    label(world, 2)  # the newest of several answers counts
    assert labels(world)[world.cancel.pk].human[position] == 2
    assert same(labels(world), afresh(world))


def test_scores_of_the_judge_are_added_and_another_judge_s_not_even_read(world: World, rows_read: list[int]) -> None:
    labels(world)
    make.judge(world.inventory, "talk-5", 1, {"cancel-order": 5}, name="another judge")
    labels(world)
    assert rows_read[1] == 0
    row = JudgementRow("talk-5", 1, make.JUDGE, {"cancel-order": 5}, prompt_version="2")
    import_judgements(world.inventory, [row], by=world.by)
    position = states_of(world).positions[world.state("talk-5", 1).pk]
    assert labels(world)[world.cancel.pk].score[position] == 5
    assert rows_read[2] == 1
    assert same(labels(world), afresh(world))


def test_what_was_taken_away_is_gone(world: World, rows_read: list[int]) -> None:
    given = label(world, 5)
    seen = labels(world)
    position = states_of(world).positions[given.state_id]
    assert seen[world.cancel.pk].human[position] == 5
    given.delete()
    label(world, 1, turn=1)
    assert labels(world)[world.cancel.pk].human[position] == 0
    assert rows_read == [Judgement.objects.count()] * 2, "all of them again"
    assert same(labels(world), afresh(world))


def test_a_row_that_came_in_late_among_those_read_is_not_missed(world: World) -> None:
    """On PostgreSQL numbers are given before a transaction commits."""
    early = Judgement.objects.get(state=world.state("talk-1", 1), artifact_text__artifact=world.cancel)
    kept = {f.attname: getattr(early, f.attname) for f in Judgement._meta.concrete_fields}
    early.delete()
    position = states_of(world).positions[early.state_id]
    assert afresh(world)[world.cancel.pk].score[position] == 0
    Judgement.objects.create(**kept)
    Inventory.objects.filter(pk=world.inventory.pk).update(label_revision=1_000)
    assert labels(world)[world.cancel.pk].score[position] == 5
    assert same(labels(world), afresh(world))


def test_a_text_that_changes_leaves_its_labels_behind(world: World) -> None:
    labels(world)
    artifacts.edit_artifact(world.cancel, by=world.by, text="Never.")
    world.inventory.refresh_from_db()
    assert not labels(world)[world.cancel.pk].judged.any()
    assert labels(world)[world.refund.pk].judged.any()
    label(world, 3)
    assert same(labels(world), afresh(world))


def test_while_nothing_is_labelled_no_judgement_is_read(world: World) -> None:
    labels(world)
    with CaptureQueriesContext(connection) as asked:
        labels(world)
    assert not any("console_judgement" in query["sql"] for query in asked)
