"""Evaluation pages: what a run of the overview stores, the list, one measurement with its errors, and two compared."""

import json
import re
from typing import Any

import numpy as np
import pytest
from django.urls import reverse

from console.models import ClassifierVersion, Evaluation, Run
from console.presenters import evaluation as shown
from console.services import curate, evaluation_compare, evaluation_pages, evaluation_pairs, fit, run_work, runs, table
from console.services.errors import Invalid
from console.services.inventories import current_point, update_inventory
from console.services.plan import Step
from sq_core.evaluation.calibration import scenario_draws
from sq_core.evaluation.metrics import Sweep, auprc
from sq_core.evaluation.per_artifact import artifact_area, spread, upgrades
from sq_core.scoring import cut_off
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db
PAGE = "/i/tiny/evaluation/"
HTMX = {"HX-Request": "true"}


def measured(world: World, **params: Any) -> Evaluation:
    world.inventory.refresh_from_db()
    run = runs.create_run(world.inventory, "evaluate", by=world.by, params={"protocol": "overview", **params})
    run_work.work(run.pk)
    run.refresh_from_db()
    assert run.state == "complete", run.note
    return Evaluation.objects.get(run=run)


def text(response: Any) -> str:
    assert response.status_code == 200, response.content[:500]
    found: str = response.content.decode()
    return found


# ------------------------------------------------------------------------------------------------------------ the figures
@pytest.mark.parametrize("seed", range(4))
def test_the_area_of_one_policy_is_that_of_a_sweep_under_any_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=40), 1)  # ties
    scores[::7] = -np.inf
    relevant, judged = rng.random(40) < 0.3, rng.random(40) < 0.9
    weights = scenario_draws([str(i // 4) for i in range(40)], 30, seed)
    sweep = Sweep(scores[:, None], relevant[:, None], judged[:, None])
    found = artifact_area(scores, relevant, judged, weights)
    for row, area in zip(weights, found, strict=True):
        expected = auprc(sweep.curve(row)) if (row * (relevant & judged)).sum() else float("nan")
        assert area == pytest.approx(expected, nan_ok=True)


def test_a_figure_from_few_draws_has_no_interval() -> None:
    assert spread(float("nan"), [1.0] * 50) is None
    few = spread(0.5, [0.4] * 10 + [float("nan")] * 90)
    assert few is not None
    assert (few.estimate, few.low, few.high) == (0.5, None, None)
    enough = spread(0.5, np.linspace(0, 1, 201))
    assert enough is not None
    assert (enough.low, enough.high) == (pytest.approx(0.025), pytest.approx(0.975))


def test_what_a_run_stores_is_what_the_versions_do(world: World) -> None:
    found = measured(world)
    point = current_point(world.inventory)
    assert point.centre is not None
    states = table.state_table(world.inventory, point.centre)
    labels = table.all_labels(world.inventory, states)
    rows = {row["key"]: row for row in found.detail["readings"]["as-judged"]["policies"]}
    for artifact in (world.cancel, world.change, world.refund):
        version = ClassifierVersion.objects.current().get(artifact=artifact)
        margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(point))
        fired, own = margins > cut_off(point.theta, version.offset), labels[artifact.pk]
        row = rows[artifact.key]
        assert (row["caught"], row["missed"], row["extra"]) == (
            int((fired & own.relevant).sum()), int((~fired & own.relevant).sum()),
            int((fired & own.judged & ~own.relevant).sum()),
        )  # fmt: skip
        assert row["version"] == version.number
    head = found.summary["readings"]["as-judged"]
    assert head["recall"][0] == pytest.approx(np.mean([rows[k]["recall"][0] for k in rows]))
    assert [row["method"] for row in found.detail["readings"]["as-judged"]["methods"]] == [
        "sq-active", "sq-generated", "sq-generic-negatives", "cosine-signals", "cosine-text", "topk-signals", "topk-text",
    ]  # fmt: skip
    json.dumps([found.summary, found.detail], allow_nan=False)
    assert found.run.result is not None
    assert found.run.result["rows"]
    assert "detail" not in found.run.result


def test_a_turn_of_a_conversation_that_gave_an_example_counts_in_no_figure(world: World) -> None:
    before = measured(world)
    state = world.state("talk-5", 0)
    curate.apply(world.cancel, [Step("add", state=state.pk, polarity="signal")], by=world.by, base_version=1)
    after = measured(world)
    assert (before.summary["left_out"], after.summary["left_out"]) == (
        0,
        2,
    )  # both turns of talk-5, for cancel-order alone
    row = next(r for r in after.detail["readings"]["as-judged"]["policies"] if r["key"] == "cancel-order")
    assert (row["left_out"], row["judged"], row["needed"]) == (2, 10, 2)
    for side in evaluation_pages.errors(after, reading="as-judged", after={}):
        assert all((turn.conversation, turn.policy) != ("talk-5", "cancel-order") for turn in side.rows)


def test_pairs_come_back_from_their_bytes(world: World) -> None:
    found = evaluation_pairs.pairs_of(measured(world))
    again = evaluation_pairs.Pairs.from_bytes(found.to_bytes())
    assert (again.keys, again.scenarios) == (found.keys, found.scenarios)
    for name in ("state", "policy", "scenario", "x", "score", "flags"):
        assert np.array_equal(getattr(again, name), getattr(found, name))
    assert len(found.state) == 36
    running = found.has(evaluation_pairs.RELEVANT_RUNNING)
    assert running.sum() > found.has(evaluation_pairs.RELEVANT).sum()


def test_an_older_release_is_measured_with_its_own_versions_and_cut_off(world: World) -> None:
    first = world.inventory.release
    update_inventory(world.inventory, by=world.by, theta=5.0)
    world.inventory.refresh_from_db()
    now, then = measured(world), measured(world, release=first)
    assert (then.release, now.release) == (first, world.inventory.release)
    assert now.summary["readings"]["as-judged"]["recall"][0] == 0.0
    assert then.summary["readings"]["as-judged"]["recall"][0] > 0.5


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"protocol": "overview", "release": 99}, "params.release"),
        ({"protocol": "overview", "release": True}, "params.release"),
        ({"protocol": "overview", "encoders": ["openai:x"]}, "params.encoders"),
        ({"protocol": "mined", "release": 1}, "params.release"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_run(world: World, params: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        runs.create_run(world.inventory, "evaluate", by=world.by, params=params)
    assert refused.value.field == field


def test_an_upgrade_is_measured_on_the_half_that_gave_nothing(world: World) -> None:
    from console.services.evaluation_data import evaluation_set

    update_inventory(world.inventory, by=world.by, minimum_material=1)
    found = upgrades(evaluation_set(world.inventory), minimum=1)
    assert set(found) == {"sq", "cosine"}
    assert set(found["sq"].artifacts) == set(found["cosine"].artifacts)
    for family in found.values():
        for upgrade in family.artifacts.values():
            assert 0 <= upgrade.generated <= 1
            assert 0 <= upgrade.mined <= 1
            assert 1 <= upgrade.splits <= 5


# ------------------------------------------------------------------------------------------------------------------ pages
def test_nothing_measured_yet_says_so_and_a_reviewer_starts_one(world: World, signed_in: Any) -> None:
    assert "Nothing is measured yet" in text(signed_in(world.viewer).get(PAGE))
    assert 'id="measure"' not in text(signed_in(world.viewer).get(PAGE))
    assert signed_in(world.viewer).post(PAGE, {"release": "1"}).status_code == 403
    client = signed_in(world.reviewer)
    assert 'id="measure"' in text(client.get(PAGE))
    answer = client.post(PAGE, {"release": str(world.inventory.release)})
    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    run = Run.objects.get(kind="evaluate")
    assert run.params["release"] == world.inventory.release
    assert client.post(PAGE, {"release": "4000"}).status_code == 422
    run_work.work(run.pk)
    page = text(client.get(PAGE))
    assert f'href="{PAGE}{run.public_id}/"' in page
    assert text(client.get(PAGE, headers=HTMX)).strip().startswith('<div id="rows"')


def test_the_page_of_one_measurement(world: World, signed_in: Any, django_assert_max_num_queries: Any) -> None:
    found = measured(world)
    client = signed_in(world.viewer)
    address = f"{PAGE}{found.run.public_id}/"
    client.get(address)
    with django_assert_max_num_queries(12):
        page = text(client.get(address))
    for words in (
        "B1",
        "B4",
        "Versions in use",
        "Checked by people: 0 answers",
        "tiny-judge",
        "What these figures rest on",
    ):
        assert words in page
    assert page.index('id="missed-title"') < page.index('id="extra-title"')
    assert re.search(r"/i/tiny/conversations/\w+/turns/\d/why/", page)
    assert 'aria-current="true">as it was scored' in page
    running = text(client.get(address, {"labels": "running-max"}))
    assert running != page
    assert text(client.get(address, {"labels": "nonsense", "sort": "nonsense", "policy": "nonsense"}))
    assert client.get(address, {"missed": "x"}).status_code == 400
    assert client.get(f"{PAGE}nothere/").status_code == 404
    part = text(client.get(address, headers=HTMX))
    assert part.strip().startswith('<section aria-labelledby="policies-title"')
    figures = client.get(f"{address}figures.json").json()
    assert set(figures) == {"frontier", "slope"}
    drawn = sum(len(trace["x"]) for trace in figures["frontier"]["data"])
    assert 10 < drawn <= 5_000
    assert "style=" not in page
    assert "<script>" not in page


def test_a_stranger_finds_no_evaluation(world: World, signed_in: Any) -> None:
    found = measured(world)
    client = signed_in(world.stranger)
    for address in (PAGE, f"{PAGE}{found.run.public_id}/", f"{PAGE}{found.run.public_id}/figures.json"):
        assert client.get(address).status_code == 404
    theirs = reverse("evaluation-one", args=[world.others.slug, found.run.public_id])
    assert client.get(theirs).status_code == 404


def test_errors_of_one_policy_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    update_inventory(world.inventory, by=world.by, theta=-50.0)  # everything is shown
    found = measured(world)
    monkeypatch.setattr(evaluation_pages, "ERRORS", 10)
    seen: list[tuple[int, str]] = []
    after = ""
    while True:
        missed, extra = evaluation_pages.errors(found, reading="as-judged", after={"extra": after})
        assert missed.total == 0
        seen += [(turn.state_id, turn.policy) for turn in extra.rows]
        if extra.next is None:
            break
        after = str(extra.next)
    assert len(seen) == len(set(seen)) == extra.total == 36 - 7
    only = evaluation_pages.errors(found, reading="as-judged", policy="refund-status", after={})[1]
    assert {turn.policy for turn in only.rows} == {"refund-status"}


def test_policies_are_sorted_searched_and_paged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(world)
    reading = found.detail["readings"]["as-judged"]
    recalls = [row["recall"][0] for row in shown.policies(found, reading, sort="recall").rows]
    assert recalls == sorted(recalls)
    assert [r["key"] for r in shown.policies(found, reading, sort="-name").rows] == [
        "refund-status",
        "change-order",
        "cancel-order",
    ]
    assert [r["key"] for r in shown.policies(found, reading, sort="name", q="REFUND").rows] == ["refund-status"]
    monkeypatch.setattr(shown, "PAGE", 2)
    first = shown.policies(found, reading, sort="name")
    assert (len(first.rows), first.next) == (2, 2)
    assert len(shown.policies(found, reading, sort="name", after=2).rows) == 1


# -------------------------------------------------------------------------------------------------------------- comparing
def test_two_measurements_are_compared_on_the_same_turns(world: World, signed_in: Any) -> None:
    old = measured(world)
    state = world.state("talk-5", 0)
    curate.apply(world.cancel, [Step("add", state=state.pk, polarity="signal")], by=world.by, base_version=1)
    update_inventory(world.inventory, by=world.by, theta=0.4)
    new = measured(world)
    found = evaluation_compare.comparison(old, new, reading="as-judged")
    assert (found.pairs, found.only_a, found.only_b) == (34, 2, 0)
    left, right = evaluation_pairs.pairs_of(old), evaluation_pairs.pairs_of(new)
    fired = [
        {(int(s), p.keys[j]): bool(f) for s, j, f, c in zip(p.state, p.policy, p.has(1), p.counted, strict=True) if c}
        for p in (left, right)
    ]
    common = set(fired[0]) & set(fired[1])
    assert sum(found.flips.values()) == sum(fired[0][pair] != fired[1][pair] for pair in common)
    assert found.kept == (
        pytest.approx(np.mean([fired[0][pair] for pair in common])), pytest.approx(np.mean([fired[1][pair] for pair in common])),
    )  # fmt: skip
    cancel = next(row for row in found.policies if row.key == "cancel-order")
    assert (cancel.version_a, cancel.version_b, cancel.needed) == (1, 2, 2)
    told, _, total = evaluation_compare.flipped(new, found)
    assert total == sum(found.flips.values())
    assert len(told) == min(total, 25)
    client = signed_in(world.viewer)
    address = f"{PAGE}{old.run.public_id}...{new.run.public_id}/"
    picked = client.get(PAGE, {"v": [new.run.public_id, old.run.public_id]})
    assert (picked.status_code, picked["Location"]) == (302, address)
    assert client.get(PAGE, {"v": [new.run.public_id]}).status_code == 422
    page = text(client.get(address))
    assert "Policies that moved" in page
    assert text(client.get(address, {"kind": "now_missed", "labels": "running-max"}))
    assert len(client.get(f"{address}figures.json").json()["compared"]["data"]) == 4
    same = evaluation_compare.comparison(new, new, reading="as-judged")
    assert sum(same.flips.values()) == 0
    assert same.recall.difference == spread(0.0, np.zeros(200))
    assert not any(row.moved for row in same.policies)


def test_measurements_of_nothing_in_common_are_refused(world: World) -> None:
    old = measured(world)
    pairs = evaluation_pairs.pairs_of(old)
    new = measured(world)
    moved = evaluation_pairs.Pairs(
        pairs.keys,
        pairs.scenarios,
        pairs.state + 10_000,
        pairs.policy,
        pairs.scenario,
        pairs.x,
        pairs.score,
        pairs.flags,
    )
    Evaluation.objects.filter(pk=new.pk).update(pairs=moved.to_bytes())
    evaluation_pairs.clear()
    with pytest.raises(Invalid, match="share no judged turn"):
        evaluation_compare.comparison(old, new, reading="as-judged")


def test_a_policy_that_is_always_on_is_named_and_not_measured(world: World) -> None:
    from console.services.artifacts import edit_artifact

    edit_artifact(world.refund, by=world.by, mode="always")
    found = measured(world)
    assert found.detail["unmeasured"] == ["refund-status"]
    assert found.summary["artifacts"] == 2
    assert fit.active_version(world.refund) is not None
    assert found.summary["judge"] == make.JUDGE
