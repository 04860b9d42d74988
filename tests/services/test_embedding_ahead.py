"""Vectors are made before anybody waits for them; views come a slice at a time, with the number that renews the tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from console import tasks
from console.models import Exemplar, Heartbeat, Inventory, StateView, Vector
from console.services import authoring, curate, embed, embed_turns, refitting, table
from console.services.errors import Unavailable
from console.services.ingest_exemplars import import_exemplars
from console.services.inventories import current_point
from console.services.plan import Step
from sq_core.embedding import vector_key
from sq_core.readers import ExemplarRow
from tests import make
from tests.fakes import FakeEncoder
from tests.make import World
from tests.web.api import Api


def revision() -> int:
    return Inventory.objects.values_list("log_revision", flat=True).get(slug="tiny")


# ---------------------------------------------------------------------------------------------------------- query states
@pytest.fixture
def logged(db: None, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    made = make.inventory()
    make.conversation(made, "talk", [f"turn number {n}" for n in range(10)])
    monkeypatch.setattr(embed, "BATCH", 2)
    return made


def test_many_batches_renew_the_tables_once(logged: Inventory) -> None:
    assert embed.embed_states(logged) == 10
    assert (logged.log_revision, revision(), StateView.objects.count()) == (1, 1, 10)


def test_a_long_log_is_written_a_slice_at_a_time(logged: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "SLICE", 4)
    seen: list[tuple[int, int]] = []
    embed.embed_states(logged, progress=lambda done, total: seen.append((StateView.objects.count(), revision())))
    assert seen == [(0, 0), (4, 1), (4, 1), (8, 2), (8, 2)]
    assert (StateView.objects.count(), revision()) == (10, 3)


def test_pieces_of_a_slice_are_small_transactions(logged: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "PIECE", 3)
    embed.embed_states(logged)
    assert (StateView.objects.count(), revision()) == (10, 4)


def test_an_encoder_that_goes_away_leaves_what_was_embedded(logged: Inventory, encoder: FakeEncoder) -> None:
    def away(done: int, total: int) -> None:
        encoder.fail_next = done == 6

    with pytest.raises(Unavailable):
        embed.embed_states(logged, progress=away)
    assert (StateView.objects.count(), revision()) == (6, 1)
    assert embed.embed_states(logged) == 4


def test_no_process_keeps_a_table_from_between_two_slices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever builds a table while a slice is being embedded builds it again when its views are there."""
    monkeypatch.setattr(embed, "BATCH", 1)
    make.conversation(world.inventory, "new", ["one more lamp", "and another"])
    point = current_point(world.inventory)
    assert point.centre is not None

    def states() -> int:
        assert point.centre is not None
        return len(table.state_table(Inventory.objects.get(pk=world.inventory.pk), point.centre))

    seen: list[int] = []
    embed.embed_states(world.inventory, progress=lambda done, total: seen.append(states()))
    assert (seen, states()) == ([12, 12], 14)


# -------------------------------------------------------------------------------------------------------------- examples
def brought(world: World, count: int, key: str = "cancel-order") -> None:
    """As a large import without its vectors leaves it."""
    rows = [ExemplarRow(key, "signal", f"imported text number {n} about order {n * 7}") for n in range(count)]
    assert import_exemplars(world.inventory, rows, by=world.by).stored == count


def decide(world: World, text: str = "call the whole thing off") -> curate.Applied:
    return curate.apply(world.cancel, [Step("add", text=text, polarity="signal")], by=world.by, base_version=1)


def test_examples_without_a_vector_are_found_and_embedded(world: World, encoder: FakeEncoder) -> None:
    assert embed.pending_examples(world.inventory) == []
    brought(world, 70)
    assert len(embed.pending_examples(world.inventory)) == 70
    seen: list[tuple[int, int]] = []
    assert embed.embed_examples(world.inventory, limit=66, progress=lambda *now: seen.append(now)) == 66
    assert seen == [(64, 66), (66, 66)]
    assert embed.embed_examples(world.inventory) == 4
    encoder.calls.clear()
    assert embed.embed_examples(world.inventory) == 0
    refitting.refit(world.inventory, by=world.by)
    assert encoder.calls == [], "a refit finds every vector"


def test_that_nothing_is_pending_is_known_until_examples_or_the_release_change(
    world: World, django_assert_num_queries: Any
) -> None:
    assert embed.pending_examples(world.inventory) == []
    with django_assert_num_queries(1):
        assert embed.pending_examples(world.inventory) == []
    brought(world, 1)
    assert len(embed.pending_examples(world.inventory)) == 1
    embed.embed_examples(world.inventory)
    make.artifact(world.inventory, "new", signals=["a text with its artifact"])
    assert embed.pending_examples(world.inventory) == ["a text with its artifact"]


def test_a_decision_does_not_wait_for_an_import_s_vectors(world: World, encoder: FakeEncoder) -> None:
    brought(world, embed.AT_ONCE + 1)
    encoder.calls.clear()
    releases, vectors = world.inventory.release, Vector.objects.count()
    for act in (
        lambda: decide(world),
        lambda: curate.preview(world.cancel, [Step("add", text="call it off", polarity="signal")], by=world.by),
    ):
        with pytest.raises(embed.StillEmbedding, match=r"51 examples .* being embedded") as refused:
            act()
        assert (refused.value.status, refused.value.retry_after) == (503, 20)
    assert (encoder.calls, Vector.objects.count()) == ([], vectors)
    world.inventory.refresh_from_db()
    assert world.inventory.release == releases
    assert not Exemplar.objects.filter(text="call the whole thing off").exists()
    assert embed.embed_examples(world.inventory) == embed.AT_ONCE + 1
    done = decide(world)
    assert done.version is not None
    assert len(done.version.exemplars) == 8 + embed.AT_ONCE + 1 + 1


def test_a_few_texts_are_embedded_on_the_way(world: World) -> None:
    brought(world, embed.AT_ONCE)
    assert decide(world).made_version


def test_the_decision_s_own_texts_are_nobody_else_s_to_embed(world: World) -> None:
    steps = [Step("add", text=f"written by hand {n}", polarity="signal") for n in range(embed.AT_ONCE + 1)]
    done = curate.apply(world.cancel, steps, by=world.by, base_version=1, reason="many")
    assert done.version is not None
    assert len(done.version.exemplars) == 8 + embed.AT_ONCE + 1


def test_other_policies_do_not_wait(world: World) -> None:
    brought(world, embed.AT_ONCE + 1, key="refund-status")
    assert decide(world).made_version


def test_a_policy_s_form_does_not_wait_either(world: World, encoder: FakeEncoder) -> None:
    brought(world, embed.AT_ONCE + 1, key="refund-status")
    encoder.calls.clear()
    written = authoring.Written(name="Money", text="about refunds", signals=("where is it",), artifact=world.refund)
    with pytest.raises(embed.StillEmbedding):
        authoring.try_out(world.inventory, written)
    other = authoring.Written(
        name="Lamps", text="refund for my lamp", signals=("where is it",), anti_signals=("hello",)
    )
    trial = authoring.try_out(world.inventory, other)
    assert any(near.look_alikes for near in trial.neighbours), "those that have vectors"
    asked = {text for call in encoder.calls for text in call}
    assert not any(text.startswith("imported text") for text in asked)


# ---------------------------------------------------------------------------------------------------- in the background
@dataclass
class Worker:
    """What is asked of the queue, done in its order; its clock goes on by a second with every batch."""

    queue: list[tuple[int, str | None]] = field(default_factory=list)
    clock: float = 0.0

    def delay(self, inventory: int, turn: str | None = None) -> None:
        self.queue.append((inventory, turn))

    def encode(self, inner: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> Any:
        self.clock += 1.0
        return inner(texts)

    def take(self) -> int:
        return int(tasks.embed_pending(*self.queue.pop(0)))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, encoder: FakeEncoder) -> Worker:
    made, real, slices = Worker(), encoder.encode, embed_turns.embed_slice
    monkeypatch.setattr(tasks.embed_pending, "delay", made.delay)
    monkeypatch.setattr(encoder, "encode", lambda texts: made.encode(real, texts))
    monkeypatch.setattr(embed_turns, "embed_slice", lambda *a, **k: slices(*a, **k, clock=lambda: made.clock))
    monkeypatch.setattr(embed, "BATCH", 2)
    monkeypatch.setattr(tasks, "SLICE_S", 3.0)
    return made


def test_the_worker_embeds_examples_first_and_a_slice_at_a_time(world: World, worker: Worker) -> None:
    assert (tasks.embed_pending(), worker.queue) == (0, [])
    brought(world, 4)
    make.conversation(world.inventory, "new", [f"one more lamp {n}" for n in range(6)])
    assert tasks.embed_pending() == 1
    assert worker.queue == [(world.inventory.pk, None)]
    assert worker.take() == 6  # two batches of examples and one of turns: three seconds
    assert (embed.pending_examples(world.inventory), embed.pending_states(world.inventory).count()) == ([], 4)
    ((inventory, turn),) = worker.queue
    assert (inventory, turn is None) == (world.inventory.pk, False), "the rest is asked for behind what else waits"
    assert worker.take() == 4
    assert (worker.queue, embed.is_pending(world.inventory), worker.clock) == ([], False, 5.0)
    assert not Heartbeat.objects.filter(name__startswith="embed:").exists()


def test_one_batch_is_done_however_long_it_takes(world: World, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SLICE_S", 0.5)
    brought(world, 5)
    worker.delay(world.inventory.pk)
    done = []
    while worker.queue:
        done.append(worker.take())
    assert done == [2, 2, 1]


def test_wake_ups_make_no_second_chain(world: World, worker: Worker) -> None:
    brought(world, 14)
    for _ in range(3):
        worker.delay(world.inventory.pk)
    assert worker.take() == 6
    assert [worker.take(), worker.take()] == [0, 0], "a chain is alive: its follower is in the queue"
    tasks.embed_pending()
    (_, turn), woken = worker.queue
    assert woken == (world.inventory.pk, None)
    worker.delay(world.inventory.pk, turn)  # given twice, as a broker may
    assert [worker.take(), worker.take(), worker.take()] == [6, 0, 0]
    assert worker.take() == 2
    assert worker.queue == []


def test_a_chain_whose_worker_was_lost_is_taken_over(world: World, worker: Worker) -> None:
    brought(world, 14)
    worker.delay(world.inventory.pk)
    assert worker.take() == 6
    follower = worker.queue.pop()
    worker.delay(world.inventory.pk)
    assert worker.take() == 0
    Heartbeat.objects.filter(name=f"embed:{world.inventory.pk}").update(at=timezone.now() - embed_turns.ALIVE * 2)
    worker.delay(world.inventory.pk)
    assert worker.take() == 6
    worker.delay(*follower)
    assert [worker.take(), worker.take()] == [2, 0], "the old follower comes too late"


def test_without_the_encoder_the_chain_ends_and_the_next_wake_up_begins_another(
    world: World, worker: Worker, encoder: FakeEncoder
) -> None:
    brought(world, 3)
    encoder.fail_next = True
    with pytest.raises(Unavailable):
        embed_turns.embed_slice(world.inventory, seconds=9.0)
    assert worker.queue == []
    worker.delay(world.inventory.pk)
    assert worker.take() == 3


def test_who_is_asked_to_come_back_wakes_the_worker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[dict[str, Any]] = []
    monkeypatch.setattr(tasks.embed_pending, "apply_async", lambda **options: woken.append(options))
    brought(world, embed.AT_ONCE + 1, key="refund-status")
    decide(world)
    assert woken == [], "another policy's"
    body = {"text": "where is it", "polarity": "signal", "base_version": 1}
    reply = Api(world.inventory)("POST", "/artifacts/refund-status/exemplars", body)
    assert reply.status == 503, reply.json
    assert reply.headers["Retry-After"] == "20"
    assert woken == [{"expires": 55, "retry": False}]

    def away(**_: Any) -> None:
        raise BrokerError("no broker")

    monkeypatch.setattr(tasks.embed_pending, "apply_async", away)
    assert Api(world.inventory)("POST", "/artifacts/refund-status/exemplars", body).status == 503


def test_the_command_embeds_what_it_imports(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "exemplars.jsonl"
    path.write_text('{"artifact": "cancel-order", "signals": ["call it off", "no more of it"]}\n')
    key = vector_key(world.inventory.encoder_id, "call it off")
    call_command("import_exemplars", "tiny", path, "--no-embed")
    assert not Vector.objects.filter(key=key).exists()
    call_command("import_exemplars", "tiny", path)
    assert Vector.objects.filter(key=key).exists()
    assert "embedding examples: 2/2" in capsys.readouterr().err
