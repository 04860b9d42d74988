"""The first-run tour as a newcomer takes it: a firing, why, the missed message promoted, version 2, undo, one's own policy."""

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from console.models import Change, ClassifierVersion
from tests.browser.conftest import Sample

pytestmark = pytest.mark.minilm


def test_the_first_steps_from_the_front_page_to_a_policy_of_ones_own(
    sample: Sample, page_of: Callable[..., Page]
) -> None:
    page = page_of(sample.by_role["author"])
    policy = sample.artifact("modify-flight")
    page.goto("/")
    page.get_by_role("link", name="See the main job in three minutes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("First steps")
    expect(page.get_by_text("0 of 5 done · sample Sky Airline loaded")).to_be_visible()

    page.get_by_role("link", name="Open the conversation").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("sky-112")
    assert page.locator("#transcript .chip.fired").count() > 0  # something is selected here for the first time
    page.goto("/start/")
    expect(page.locator("#step-firing")).to_have_class("done")

    page.get_by_role("link", name="Why was it not selected?").click()
    expect(page.get_by_role("heading", name="Not selected: a miss")).to_be_visible()
    assert abs(float(page.locator("#n-residual data").get_attribute("value") or "nan")) < 1e-5  # float32 weights
    page.goto("/start/")

    page.get_by_role("link", name="Open the policy").click()
    state = sample.conversation("sky-112").states.get(user_turn=0)
    row = page.locator(f"#turn-{state.pk}:target")
    expect(row.get_by_role("link", name="sky-112")).to_be_focused()
    row = page.locator("[data-row]").first  # of the whole page: what the tour speaks of comes first
    expect(row).to_have_id(f"turn-{state.pk}")
    row.get_by_role("button", name="Show example").first.click()
    strip = row.locator("[data-strip]")
    expect(strip).to_contain_text("on version 1")
    expect(strip).to_contain_text("The turn it is about is selected afterwards.")
    assert ClassifierVersion.objects.filter(artifact=policy).count() == 1  # shown, not written
    strip.get_by_role("button", name="Apply").click()
    status = page.get_by_role("status").filter(has_text="v2 live")
    expect(status).to_be_visible()
    expect(page.locator("#policy-head")).to_contain_text("Version 2")
    expect(row.get_by_text("now selected")).to_be_visible()

    page.goto("/start/")
    expect(page.locator("#step-promote")).to_contain_text("Done: version 2 is the newest.")
    page.get_by_role("link", name="Undo the change").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_contain_text("v3 live")
    first, second, third = ClassifierVersion.objects.filter(artifact=policy).order_by("number")
    assert np.array_equal(np.frombuffer(first.weights), np.frombuffer(third.weights))
    assert bytes(first.weights) != bytes(second.weights)
    assert third.offset == first.offset

    page.goto("/start/")
    expect(page.locator("#step-undo")).to_have_class("done")
    page.get_by_role("link", name="New policy").click()
    page.get_by_label("Name").fill("Emotional support peacocks")
    page.get_by_label("Text").fill("Peacocks travel as cargo. Say so kindly.")
    page.get_by_role("button", name="Save policy").click()
    page.goto("/start/")
    expect(page.get_by_text("5 of 5 done")).to_be_visible()
    assert Change.objects.filter(artifact__key="emotional-support-peacocks", action="create").exists()

    page.get_by_role("button", name="Take these off the home page").click()
    expect(page.get_by_role("status")).to_contain_text("First steps are off the home page")
    expect(page.locator("#tour")).to_have_count(0)
