"""Why, in words: triage, one sentence, and files for a ticket; and when a version decided."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from console.models import Artifact, Judgement, Release
from console.presenters import why as words
from console.services import artifacts, curate, human_labels, inventories, refitting, score, why, why_record
from console.services.actor import SYSTEM, person
from console.services.plan import Step
from console.services.why import Why
from tests import make

pytestmark = pytest.mark.django_db


def explain(world: make.World, talk: str, turn: int, artifact: Artifact, **more: object) -> Why:
    return why.explain(world.inventory, world.talks[talk], turn, artifact, **more)  # type: ignore[arg-type]


def test_the_sentence_of_a_selected_turn_names_all_of_it(world: make.World) -> None:
    found = explain(world, "talk-1", 1, world.cancel)
    assert found.outcome == "fired"
    assert words.lead(found) == "Selected"
    text = words.sentence(found, span=why_record.span_of(world.inventory, world.cancel.versions.get()))
    today = datetime.now(UTC).date().isoformat()
    assert text.startswith("at message 2: match strength +")
    assert f"over its cut-off {words.signed(found.cutoff)}, because of" in text
    assert text.endswith(f", scored by version 1 (active since {today}).")
    assert words.triage(found).title == "Selected"


def test_a_miss_says_so_first(world: make.World) -> None:
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=5.0)
    found = explain(world, "talk-1", 1, world.cancel)
    assert (found.outcome, words.triage(found).title, words.triage(found).tone) == (
        "not_fired",
        "Not selected: a miss",
        "warn",
    )
    assert "under its cut-off +5.00, nearest by" in words.sentence(found)
    calm = explain(world, "talk-1", 0, world.cancel)
    assert words.triage(calm).title == "Not selected"
    human_labels.give_label(world.inventory, world.talks["talk-1"], 0, world.cancel, 5, by=person(world.reviewer))
    assert words.triage(explain(world, "talk-1", 0, world.cancel)).title == "Not selected: a miss"


def test_carried_over_pinned_always_unfitted_off_and_along(world: make.World) -> None:
    inv = world.inventory
    carried = explain(world, "talk-5", 1, world.cancel)
    if carried.outcome == "carried_over":
        assert words.sentence(carried).startswith("at message 2, since message 1: match strength")
    make.artifact(inv, "bare")
    make.artifact(inv, "ever", mode="always")
    make.artifact(inv, "never", mode="off")
    get = artifacts.get_artifact
    assert "never silently missing" in words.sentence(explain(world, "talk-1", 0, get(inv, "bare")))
    assert "always on" in words.sentence(explain(world, "talk-1", 0, get(inv, "ever")))
    never = explain(world, "talk-1", 0, get(inv, "never"))
    assert (never.outcome, words.triage(never).title) == ("off", "Off")
    artifacts.set_dependencies(get(inv, "ever"), by=SYSTEM, requires=["refund-status"], entails=[])
    inventories.update_inventory(inv, by=SYSTEM, theta=5.0)
    along = explain(world, "talk-4", 0, world.refund)
    assert along.outcome == "dependency"
    assert "with Ever, which brings it along" in words.sentence(along, names={"ever": "Ever"})
    curate.apply(world.refund, [Step("pin", state=world.state("talk-3", 0).pk)], by=world.by, base_version=1)
    artifacts.set_dependencies(get(inv, "ever"), by=SYSTEM, requires=[], entails=[])
    pinned = explain(world, "talk-3", 0, world.refund)
    assert pinned.outcome == "fired_by_pin"
    assert "near-identical to a turn that must be selected" in words.sentence(pinned)


def test_not_scored_is_no_decision(world: make.World) -> None:
    make.conversation(world.inventory, "fresh", ["cancel it"])
    row = world.inventory.conversations.get(external_id="fresh")
    found = why.explain(world.inventory, row, 0, world.cancel)
    assert (words.lead(found), words.sentence(found), words.triage(found).title) == (
        "Not scored",
        "at message 1.",
        "Not scored",
    )
    assert "match strength" not in words.to_text(found, name="Cancel order")


def test_live_and_recomputed_are_told_apart(world: make.World) -> None:
    found = explain(world, "talk-3", 1, world.change)
    assert "Production recorded nothing" in words.origin_text(found)
    assert not words.differs(found)
    messages = [{"role": m.role, "content": m.content} for m in world.talks["talk-3"].messages.order_by("index")]
    fired = [] if found.fired else [{"artifact": "change-order"}]
    row = {"conversation": "talk-3", "user_turn": 1, "release": world.inventory.live_release, "messages": messages}
    score.record_decisions(world.inventory, [row | {"fired": fired}], by=SYSTEM, agent="shop-bot")
    found = explain(world, "talk-3", 1, world.change)
    assert words.differs(found)
    assert "shop-bot" in words.origin_text(found)


def test_text_and_json_hold_the_service_s_numbers(world: make.World) -> None:
    found = explain(world, "talk-1", 1, world.cancel)
    text = words.to_text(found, name="Cancel order")
    assert repr(found.total) in text
    for row in found.terms:
        assert f"{row.value!r}  " in text
    data = json.loads(words.to_json(found))
    assert (data["margin"], data["total"], data["distance"]) == (found.margin, found.total, found.distance)
    assert [t["value"] for t in data["terms"]] == [t.value for t in found.terms]
    assert data["version_made_at"].endswith("Z")
    lines = text.splitlines()
    assert len(lines) == len([line for line in lines if "\r" not in line])


def test_a_hostile_reason_stays_on_its_line(world: make.World) -> None:
    found = explain(world, "talk-1", 1, world.cancel)
    first = replace(found.witnesses[0], reason="fine\n\nSelected at message 9\r\nby nobody")
    found.witnesses[0] = first
    assert not any(line.startswith("Selected at message 9") for line in words.to_text(found, name="x").splitlines())


def test_the_span_of_a_version(world: make.World) -> None:
    steps = [Step("add", text="stop the order", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    first, second = (why_record.span_of(world.inventory, each) for each in world.cancel.versions.order_by("number"))
    newest = Release.objects.get(inventory=world.inventory, number=second.from_release)
    assert (first.until, second.since, second.until) == (newest.at, newest.at, None)
    assert " to " in words.span_text(first)


def test_the_prior_is_the_policy_s_own_base_rate_beside_the_margin(world: make.World) -> None:
    """X48 and X49 on stored rows: counts of other scenarios, no other policy's, never a part of the margin."""
    found = explain(world, "talk-1", 1, world.cancel)
    rows = [
        (row.state.conversation.scenario, row.score >= 4)
        for row in Judgement.objects.filter(artifact_text__artifact=world.cancel).select_related("state__conversation")
    ]
    training = [relevant for scenario, relevant in rows if scenario != world.talks["talk-1"].scenario]
    n, total = sum(training), len(training)
    assert 0 < n < total < len(rows)
    assert found.prior == why.Prior(math.log((n + 1) / (total - n + 1)), n, total)
    assert (found.prior.weight, found.with_prior) == (0.0, found.margin)
    assert found.total is not None
    assert found.show + found.dont_show + found.bias == pytest.approx(found.total)  # type: ignore[operator]
    text = words.to_text(found, name="Cancel order")
    assert f"n = {n} of N = {total} judged messages of other scenarios" in text
    assert f"{found.margin!r} + 0 x {found.prior.value!r} = {found.margin!r}" in text
    make.artifact(world.inventory, "gift-wrap", signals=["wrap it please", "as a gift"], anti_signals=["no", "thanks"])
    make.judge(world.inventory, "talk-2", 0, {"gift-wrap": 5})
    refitting.refit(world.inventory, by=world.by)
    again = explain(world, "talk-1", 1, world.cancel)
    assert (again.prior, again.margin, again.terms) == (found.prior, found.margin, found.terms)
    none = explain(world, "talk-2", 0, Artifact.objects.select_related("inventory").get(key="gift-wrap"))
    assert none.prior == why.Prior(0.0, 0, 0)


def test_another_weight_is_told_and_added_beside_the_margin(world: make.World) -> None:
    found = explain(world, "talk-1", 1, world.cancel)
    assert found.prior is not None
    assert found.margin is not None
    other = replace(found, prior=replace(found.prior, weight=0.5))
    assert other.with_prior == found.margin + 0.5 * found.prior.value
    assert other.margin == found.margin
