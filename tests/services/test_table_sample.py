"""A log longer than `WHOLE_LOG_TURNS` is not scored whole by pages: what they score instead, and that it is bounded."""

from typing import Any

import numpy as np
import pytest

from console.models import Conversation, Inventory, OperatingPoint, Polarity
from console.services import curate, fit, impact, table, table_sample, workbench, workbench_turns
from console.services.inventories import current_point
from console.services.plan import Step
from tests import make


@pytest.fixture
def long_log(world: make.World, settings: Any, monkeypatch: pytest.MonkeyPatch) -> make.World:
    """The tiny world as a long log: a background sample of three turns, and room for two judged turns."""
    settings.WHOLE_LOG_TURNS = 5
    for name, value in (("JUDGED", 2), ("LEAST", 2)):
        monkeypatch.setattr(table_sample, name, value)
    point = current_point(world.inventory)
    OperatingPoint.objects.filter(pk=point.pk).update(background=point.background[:3])
    monkeypatch.setattr(table, "state_table", _refuse)
    return world


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("a page asked for the whole log's table")


def test_a_log_is_long_above_the_setting(world: make.World, settings: Any) -> None:
    turns = sum(len(talk) for talk in make.TALKS.values())
    settings.WHOLE_LOG_TURNS = turns
    assert not table_sample.is_long(world.inventory)
    settings.WHOLE_LOG_TURNS = turns - 1
    assert table_sample.is_long(world.inventory)


def test_a_short_log_is_scored_whole(world: make.World) -> None:
    states = table_sample.page_table(world.inventory, current_point(world.inventory), [world.cancel.pk])
    assert states.sample is None
    assert states.counted.all()


def test_the_sample_holds_the_background_and_the_newest_judged_turns_with_their_conversations(
    long_log: make.World,
) -> None:
    inventory, point = long_log.inventory, current_point(long_log.inventory)
    states = table_sample.page_table(inventory, point, [long_log.cancel.pk])
    newest = table_sample.judged_of(inventory, long_log.cancel.pk)["state"][-2:]
    assert set(point.background) | set(newest.tolist()) <= set(states.state_ids.tolist())
    assert states.sample is not None
    assert (states.sample.background, states.sample.judged) == (3, 2)
    assert set(states.state_ids[states.counted].tolist()) == set(point.background)
    for pk in set(states.conversation_ids.tolist()):  # whole conversations: a margin is a maximum over their turns
        assert (states.conversation_ids == pk).sum() == Conversation.objects.get(pk=pk).user_turn_count
    labels = table.labels_of(inventory, states, long_log.cancel)
    judged = set(states.state_ids[labels.judged].tolist())
    assert set(newest.tolist()) <= judged <= set(states.state_ids.tolist())


def test_scores_of_the_sample_are_those_of_the_whole_log(world: make.World, settings: Any) -> None:
    inventory, point = world.inventory, current_point(world.inventory)
    whole = fit.basis(world.cancel)
    settings.WHOLE_LOG_TURNS = 5
    part = fit.basis(world.cancel)
    assert part.states.sample is not None
    classifier = table.classifier_of(whole.base)  # type: ignore[arg-type]
    pooling = table.pooling_of(point)
    every, some = (table.margins_of(classifier, b.states, pooling) for b in (whole, part))
    at = [whole.states.positions[pk] for pk in part.states.state_ids.tolist()]
    assert (every[at] == some).all()
    assert (whole.labels.score[at] == part.labels.score).all()
    assert table.labels_of(inventory, part.states, world.refund).judged.sum() == 0  # not asked for


def test_a_turn_that_somebody_points_at_is_in_the_sample(long_log: make.World) -> None:
    state = long_log.state("talk-1", 1)
    point = current_point(long_log.inventory)
    states = table_sample.page_table(long_log.inventory, point, [long_log.refund.pk], also=[state.pk])
    assert state.pk in states.positions


def test_a_decision_is_previewed_and_written_on_the_sample(long_log: make.World) -> None:
    step = Step("add", state=long_log.state("talk-1", 0).pk, polarity=Polarity.ANTI_SIGNAL.value)
    seen = curate.preview(long_log.cancel, [step], by=long_log.by)
    assert seen.sample is not None
    assert impact.impact_json(seen)["counts"]["sampled"] is True
    done = curate.apply(long_log.cancel, [step], by=long_log.by, base_version=1)
    assert done.version is not None
    assert done.version.metrics["states"] == 3  # of all turns, the background sample speaks
    assert done.version.metrics["sampled"] >= 3


def test_a_vector_that_comes_later_is_looked_for_again(long_log: make.World) -> None:
    inventory = long_log.inventory
    talk = make.conversation(inventory, "talk-6", ["I want to cancel", "and my money back"])
    make.judge(inventory, "talk-6", 0, {"cancel-order": 5})
    inventory.refresh_from_db()
    pk = talk.states.get(user_turn=0).pk
    assert pk not in table_sample.page_table(inventory, current_point(inventory), [long_log.cancel.pk]).positions
    from console.services import embed

    embed.embed_states(inventory)
    assert pk in table_sample.page_table(inventory, current_point(inventory), [long_log.cancel.pk]).positions


def test_the_workbench_counts_shares_on_the_background_alone(long_log: make.World) -> None:
    found = workbench_turns.shown_and_missed(workbench.ground(long_log.inventory, "cancel-order"))
    assert found.states == 3
    assert found.shown <= 3


def test_stored_views_of_conversations_stop_at_the_first_turn_without(world: make.World) -> None:
    inventory = world.inventory
    centre = current_point(inventory).centre
    assert centre is not None
    talk = world.talks["talk-1"]
    world.state("talk-1", 1).views.all().delete()
    found = table_sample.conversation_vectors(inventory, centre, [talk.pk, world.talks["talk-2"].pk])
    assert len(found[talk.pk].turns) == 1
    assert len(found[world.talks["talk-2"].pk].turns) == 3
    assert np.allclose(np.linalg.norm(found[talk.pk].cumulative, axis=1), 1)


@pytest.mark.parametrize(
    "page",
    ["", "policies/", "policies/cancel-order/", "policies/cancel-order/map/", "policies/cancel-order/map/points.json",
     "policies/cancel-order/exemplars/", "policies/cancel-order/versions/", "conversations/", "candidates/",
     "releases/1...2/", "review/", "review/new/", "playground/"],
)  # fmt: skip
def test_no_page_asks_for_the_whole_log(long_log: make.World, signed_in: Any, page: str) -> None:
    answer = signed_in(long_log.author).get(f"/i/tiny/{page}")
    assert answer.status_code == 200


def test_conversation_and_why_ask_for_no_table(long_log: make.World, signed_in: Any) -> None:
    base = f"/i/tiny/conversations/{long_log.talks['talk-1'].public_id}/"
    for page in (base, f"{base}turns/1/why/cancel-order/"):
        assert signed_in(long_log.author).get(page).status_code == 200


def test_pages_say_that_they_look_at_a_part(long_log: make.World, signed_in: Any) -> None:
    client = signed_in(long_log.author)
    for page in ("", "policies/cancel-order/"):
        assert "The log is long" in client.get(f"/i/tiny/{page}").content.decode()


def test_inventories_do_not_share_their_length(world: make.World, settings: Any) -> None:
    settings.WHOLE_LOG_TURNS = 5
    assert table_sample.is_long(world.inventory)
    assert not table_sample.is_long(Inventory.objects.get(slug="others"))
