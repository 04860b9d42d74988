"""Vectors are made before anybody waits for them; views come a slice at a time, with the number that renews the tables."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from console import tasks
from console.models import Exemplar, Inventory, StateView, Vector
from console.services import authoring, curate, embed, fit, table
from console.services.errors import Unavailable
from console.services.ingest_exemplars import import_exemplars
from console.services.inventories import current_point
from console.services.plan import Step
from sq_core.embedding import vector_key
from sq_core.readers import ExemplarRow
from tests import make
from tests.fakes import FakeEncoder
from tests.make import World


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
    fit.refit(world.inventory, by=world.by)
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


def test_the_worker_embeds_examples_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    monkeypatch.setattr(tasks.embed_pending, "delay", woken.append)
    assert tasks.embed_pending() == 0
    brought(world, 3)
    assert (tasks.embed_pending(), woken) == (1, [world.inventory.pk])
    make.conversation(world.inventory, "new", ["one more lamp", "and another"])
    monkeypatch.setattr(tasks, "STATES_PER_RUN", 3)
    assert tasks.embed_pending(world.inventory.pk) == 3
    assert (embed.pending_examples(world.inventory), embed.pending_states(world.inventory).count()) == ([], 2)
    assert tasks.embed_pending(world.inventory.pk) == 2
    assert tasks.embed_pending() == 0


def test_the_command_embeds_what_it_imports(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "exemplars.jsonl"
    path.write_text('{"artifact": "cancel-order", "signals": ["call it off", "no more of it"]}\n')
    key = vector_key(world.inventory.encoder_id, "call it off")
    call_command("import_exemplars", "tiny", path, "--no-embed")
    assert not Vector.objects.filter(key=key).exists()
    call_command("import_exemplars", "tiny", path)
    assert Vector.objects.filter(key=key).exists()
    assert "embedding examples: 2/2" in capsys.readouterr().err
