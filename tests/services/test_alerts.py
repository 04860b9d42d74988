"""What Home warns of: recall under the target on recent turns, and policies that fire otherwise than their preview."""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.models import Conversation, Decision, Discovery, Inventory, Judgement, Origin
from console.services import alerts, embed, fit, log_figures
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db


def many(world: World, count: int) -> None:
    """More conversations, each with one turn that needs cancelling and one miss for it."""
    for number in range(count):
        name = f"late-{number}"
        make.conversation(world.inventory, name, ["thank you, goodbye", "please cancel my order"])
        make.judge(world.inventory, name, 0, {"cancel-order": 5 if number % 2 else 1})
        make.judge(world.inventory, name, 1, {"cancel-order": 5})
    embed.embed_states(world.inventory)
    world.inventory.refresh_from_db()


def test_recall_of_the_last_week_with_its_interval(world: World) -> None:
    assert alerts.recall_estimate(world.inventory) is None  # fewer than 20 needed pairs
    many(world, 24)
    Conversation.objects.exclude(external_id__startswith="late").update(created_at=timezone.now() - timedelta(days=30))
    found = alerts.recall_estimate(world.inventory)
    assert found is not None
    assert (found.needed, found.scenarios) == (36, 24)
    assert found.recall == pytest.approx(24 / 36)  # the second turn of each is caught, the goodbye never
    assert found.low < found.recall < found.high < 0.9
    assert found.under_target
    assert found.surely
    assert alerts.recall_estimate(world.inventory, now=timezone.now() + timedelta(days=8)) is None


def test_pairs_chosen_by_margin_do_not_count(world: World) -> None:
    many(world, 24)
    before = alerts.recall_estimate(world.inventory)
    Judgement.objects.filter(state__user_turn=0, score=5, state__conversation__external_id__startswith="late").update(
        chosen=True
    )
    Inventory.objects.update(label_revision=1_000)
    world.inventory.refresh_from_db()
    after = alerts.recall_estimate(world.inventory)
    assert before is not None
    assert after is not None
    assert after.recall > before.recall


def live(world: World, count: int, fired: int) -> None:
    version = fit.active_version(world.cancel)
    assert version is not None
    rows = [
        Discovery(
            inventory=world.inventory, conversation=f"agent-{n}", user_turn=0, release=world.inventory.live_release,
            theta=0.0, encoder_id=world.inventory.encoder_id, origin=Origin.LIVE, at=timezone.now(),
        )
        for n in range(count)
    ]  # fmt: skip
    Discovery.objects.bulk_create(rows)
    Decision.objects.bulk_create(
        Decision(discovery=row, artifact=world.cancel, version=version.number, fired=True, reason="classifier")
        for row in rows[:fired]
    )


def test_a_policy_that_fires_otherwise_than_its_preview_is_named(world: World) -> None:
    version = fit.active_version(world.cancel)
    assert version is not None
    preview = version.metrics["fired"] / version.metrics["states"]
    live(world, 99, 99)
    assert alerts.drifts(world.inventory) == []  # too few turns to say anything
    live_more = 101
    for n in range(99, 99 + live_more):
        Discovery.objects.create(
            inventory=world.inventory, conversation=f"more-{n}", user_turn=0, release=world.inventory.live_release,
            theta=0.0, encoder_id=world.inventory.encoder_id, origin=Origin.LIVE, at=timezone.now(),
        )  # fmt: skip
    found = {row.key: row for row in alerts.drifts(world.inventory)}
    assert found["cancel-order"].turns == 200
    assert found["cancel-order"].live == pytest.approx(99 / 200)
    assert found["cancel-order"].preview == pytest.approx(preview)
    assert alerts.drifts(world.inventory, now=timezone.now() + timedelta(days=8)) == []


def test_a_share_within_five_points_is_no_drift(world: World) -> None:
    version = fit.active_version(world.cancel)
    assert version is not None
    preview = version.metrics["fired"] / version.metrics["states"]
    live(world, 400, round(400 * preview) + 10)
    assert "cancel-order" not in {row.key for row in alerts.drifts(world.inventory)}


def test_the_headline_is_the_same_reading(world: World) -> None:
    many(world, 24)
    head = log_figures.headline(world.inventory, "live")
    estimate = alerts.recall_estimate(world.inventory)
    assert estimate is not None
    assert head.missed == pytest.approx(1 - estimate.recall)  # every conversation here is of this week
