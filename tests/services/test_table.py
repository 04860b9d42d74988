"""The score table's caches: what renews them, and how much they hold."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from console.models import Exemplar, Inventory, Judgement
from console.services import artifacts, conversations, embed, score, table, why_record, workbench
from console.services import policy_rows as policies
from console.services.actor import SYSTEM
from console.services.errors import Unavailable
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
    assert score.headline(world.inventory).states == len(after)


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


def test_threads_that_want_one_value_wait_for_the_one_that_builds_it() -> None:
    cache, built, begun = table.Cache(4), [], threading.Event()

    def build() -> str:
        begun.set()
        time.sleep(0.2)
        built.append(1)
        return "value"

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(cache.get, "key", build)
        assert begun.wait(5)
        others = [pool.submit(cache.get, "key", build) for _ in range(6)]
        assert pool.submit(cache.get, "another", lambda: "at once").result(5) == "at once"
        assert [f.result(5) for f in (first, *others)] == ["value"] * 7
    assert len(built) == 1
    assert not cache._builders


def test_a_build_that_fails_is_tried_by_the_next() -> None:
    cache, tries = table.Cache(4), []

    def build() -> str:
        tries.append(1)
        time.sleep(0.05)
        if len(tries) == 1:
            raise Unavailable("away")
        return "value"

    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(cache.get, "key", build) for _ in range(2)]
        assert sorted(str(f.exception(5) or f.result(5)) for f in found) == ["away", "value"]


def test_inside_a_transaction_nobody_waits_for_another_thread() -> None:
    """This test's own transaction: a builder elsewhere may need what it has locked."""
    cache, go_on = table.Cache(4), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(cache.get, "key", lambda: go_on.wait(5) and "theirs")
        assert cache.get("key", lambda: "own") == "own"
        go_on.set()
        assert other.result(5) == "theirs"


def test_a_cache_holds_so_many_values_and_bytes_and_always_the_newest() -> None:
    cache = table.Cache(3, most=100, bytes_of=len)
    for name, size in (("a", 40), ("b", 40), ("c", 10)):
        cache.get(name, partial(bytes, size))
    assert len(cache) == 3
    assert cache.get("a", lambda: b"never built") == bytes(40)  # and is the newest used now
    cache.get("d", lambda: b"x" * 30)  # one value and 20 bytes too many: b goes
    assert len(cache) == 3
    assert cache.get("b", lambda: b"again") == b"again"
    assert cache.get("e", lambda: b"x" * 500) == b"x" * 500
    assert len(cache) == 1
    cache.clear()
    assert len(cache) == 0


def test_the_caches_weigh_what_they_hold(world: World) -> None:
    table.clear_caches()
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
    table.clear_caches()
    point = current_point(world.inventory)
    assert point.centre is not None
    states = table.state_table(world.inventory, point.centre)
    labels = table.labels_of(world.inventory, states, world.cancel)
    assert labels.score[states.positions[state.pk]] == 0
    Judgement.objects.create(**shared, prompt_version="3", prefix_digest=state.prefix_digest)
    table.clear_caches()
    assert table.labels_of(world.inventory, states, world.cancel).score[states.positions[state.pk]] == 5
