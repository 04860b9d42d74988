"""The workbench's Metrics tab: by day from decisions or from what the version would do, the curve, scores by judgement; and
the header that says whose opinion the rates are."""

import zoneinfo
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from console.models import Conversation, Decision, Discovery, Judgement, Origin, QueryState
from console.presenters import figures_metrics
from console.services import curate, metrics, workbench
from console.services.plan import Step
from console.services.witness import witness
from tests.make import World

pytestmark = pytest.mark.django_db
TAB, FIGURES = "/i/tiny/policies/cancel-order/metrics/", "/i/tiny/policies/cancel-order/metrics/figures.json"
UTC_ZONE = zoneinfo.ZoneInfo("UTC")


def dated(world: World, days: dict[str, str]) -> None:
    for name, day in days.items():
        Conversation.objects.filter(pk=world.talks[name].pk).update(
            started_at=datetime.fromisoformat(day).replace(tzinfo=UTC)
        )


def decided(world: World, talk: str, turn: int, at: str, *, fired: bool, origin: str = Origin.LIVE) -> None:
    state = QueryState.objects.get(conversation=world.talks[talk], user_turn=turn)
    row = Discovery.objects.create(
        inventory=world.inventory, state=state, conversation=talk, user_turn=turn, release=1, theta=0.0, encoder_id="x",
        origin=origin, at=datetime.fromisoformat(at).replace(tzinfo=UTC),
    )  # fmt: skip
    if fired:
        Decision.objects.create(
            discovery=row, artifact=world.cancel, fired=True, reason="classifier", margin=1.0, cutoff=0.0
        )


def test_without_decisions_the_version_in_use_is_asked_by_the_day_of_the_chat(world: World) -> None:
    dated(world, {"talk-1": "2026-03-01T10:00", "talk-2": "2026-03-04T23:30", "talk-5": "2026-03-04T08:00"})
    ground = workbench.ground(world.inventory, "cancel-order")
    found = metrics.daily(ground, UTC_ZONE)
    assert (found.basis, found.undated) == ("now", 4)
    assert [(row.day, row.turns, row.judged, row.needed) for row in found.days] == [
        (date(2026, 3, 1), 3, 3, 1), (date(2026, 3, 4), 5, 5, 2),
    ]  # fmt: skip
    assert ground.basis is not None
    positions = [ground.basis.states.positions[s.pk] for s in world.talks["talk-1"].states.all()]
    assert found.days[0].fired == int(ground.fired[positions].sum())
    berlin = metrics.daily(ground, zoneinfo.ZoneInfo("Europe/Berlin"))
    assert [row.day for row in berlin.days] == [date(2026, 3, 1), date(2026, 3, 4), date(2026, 3, 5)]


def test_live_decisions_make_the_days_and_what_was_not_selected_is_missed(world: World) -> None:
    decided(world, "talk-1", 0, "2026-03-01T10:00", fired=True)  # not needed
    decided(world, "talk-1", 1, "2026-03-01T10:01", fired=True)  # needed
    decided(world, "talk-2", 1, "2026-03-01T10:02", fired=False)  # needed
    decided(world, "talk-5", 0, "2026-03-03T10:00", fired=False)  # needed
    decided(world, "talk-5", 1, "2026-02-01T10:00", fired=True, origin=Origin.RECOMPUTED)
    found = metrics.daily(workbench.ground(world.inventory, "cancel-order"), UTC_ZONE)
    assert found.basis == "live"
    first, third = found.days
    assert (first.day, first.turns, first.fired, first.judged, first.needed, first.caught, first.shown) == (
        date(2026, 3, 1), 3, 2, 3, 2, 1, 2,
    )  # fmt: skip
    assert (first.recall, first.precision, first.firing, first.positive) == (0.5, 0.5, 2 / 3, 2 / 3)
    assert (third.recall, third.precision) == (0.0, None)
    drawn = figures_metrics.daily_figure(found, technical=False)
    recall = drawn["data"][0]
    assert recall["x"] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert recall["y"] == [50.0, None, 0.0]  # a gap, not a zero
    assert recall["connectgaps"] is False


def test_recomputed_decisions_are_of_the_day_of_their_chat(world: World) -> None:
    dated(world, {"talk-1": "2026-03-01T10:00"})
    decided(world, "talk-1", 1, "2026-04-20T10:00", fired=True, origin=Origin.RECOMPUTED)
    found = metrics.daily(workbench.ground(world.inventory, "cancel-order"), UTC_ZONE)
    assert (found.basis, [row.day for row in found.days]) == ("recomputed", [date(2026, 3, 1)])
    assert (found.days[0].fired, found.days[0].caught) == (1, 1)


def test_the_curve_leaves_out_what_gave_an_example_and_the_histogram_counts_every_turn(world: World) -> None:
    before = metrics.metrics(workbench.ground(world.inventory, "cancel-order"), UTC_ZONE)
    state = world.state("talk-5", 0)
    curate.apply(world.cancel, [Step("add", state=state.pk, polarity="signal")], by=world.by, base_version=1)
    world.inventory.refresh_from_db()
    ground = workbench.ground(world.inventory, "cancel-order")
    after = metrics.metrics(ground, UTC_ZONE)
    assert (before.left_out, before.counted_needed) == (0, 3)
    assert (after.left_out, after.counted_needed, after.judged) == (2, 2, 12)
    assert after.few
    assert after.curve is not None
    head = workbench.head(ground)
    assert (after.curve.recall_at, after.curve.precision_at) == (head.recall, head.precision)
    assert np.all(np.diff(after.curve.recall) >= 0)
    assert sum(map(sum, after.histogram.counts.values())) == 12
    over = [sum(n) for n in zip(*after.histogram.counts.values(), strict=True)]
    right = sum(n for n, edge in zip(over, after.histogram.edges[:-1], strict=True) if edge >= -1e-12)
    assert right == int(ground.fired.sum())


def test_the_tab_as_a_page_a_part_and_figures(world: World, signed_in: Any, django_assert_max_num_queries: Any) -> None:
    dated(world, {"talk-1": "2026-03-01T10:00"})
    client = signed_in(world.viewer)
    client.get(TAB)
    with django_assert_max_num_queries(
        17
    ):  # inside a transaction nothing is kept; a server takes at most 12 (test_page_queries)
        page = client.get(TAB).content.decode()
    for words in ("Fewer than 20 positives: do not act on this.", "Day by day", "Where turns land", "tiny-judge"):
        assert words in page
    assert "style=" not in page
    part = client.get(TAB, headers={"HX-Request": "true"}).content.decode()
    assert part.strip().startswith('<div id="tab-body"')
    found = client.get(FIGURES).json()
    assert set(found) == {"daily", "curve", "histogram"}
    assert sum(len(trace["x"]) for figure in found.values() for trace in figure["data"]) < 5_000
    assert signed_in(world.stranger).get(TAB).status_code == 404
    assert signed_in(world.stranger).get(FIGURES).status_code == 404


def test_a_policy_without_a_version_says_what_is_missing(world: World, signed_in: Any) -> None:
    from tests import make

    make.artifact(world.inventory, "bare")
    client = signed_in(world.viewer)
    assert "No version yet" in client.get("/i/tiny/policies/bare/metrics/").content.decode()
    assert client.get("/i/tiny/policies/bare/metrics/figures.json").json() == {}


def test_the_witness_names_judge_version_and_human_check(world: World, django_assert_num_queries: Any) -> None:
    found = witness(world.inventory)
    assert found is not None
    assert (found.judge, found.checked, found.agreed) == ("tiny-judge", 0, None)
    assert found.prompt_version == Judgement.objects.order_by("-pk")[0].prompt_version
    world.inventory.judge = None
    assert witness(world.inventory) is None
