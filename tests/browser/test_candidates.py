"""Suggestions decided on with keys alone: used, turned down, alike ones at once, the best of a policy, taken back."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from console.models import ClassifierVersion, Exemplar, ExemplarStatus, Inventory
from console.services import curate, embed, run_work, runs
from console.services.actor import SYSTEM
from console.services.artifacts import exemplar_digest
from console.services.candidates_rank import ground_of, standing
from console.services.fit import fresh_inventory
from console.services.plan import Step
from tests import make

PAGE = "/i/tiny/candidates/?policy=cancel-order"


def mined(world: make.World) -> None:
    run = runs.create_run(fresh_inventory(world.inventory.pk), "mine", by=SYSTEM)
    run_work.work(run.pk)


def focused(page: Page) -> str:
    return str(page.evaluate("() => document.activeElement?.closest('[data-row]')?.id ?? document.activeElement?.id"))


def keys(page: Page, *pressed: str) -> None:
    for key in pressed:
        page.keyboard.press(key)


def status(row: str) -> str:
    return Exemplar.objects.get(public_id=row.removeprefix("c-")).status


def newest(world: make.World) -> int:
    return ClassifierVersion.objects.filter(artifact=world.cancel).latest("number").number


def test_the_stream_with_keys_alone(world: make.World, page_of: Callable[..., Page], axe: Callable[..., Any]) -> None:
    mined(world)
    page = page_of(world.author)
    page.goto(PAGE)
    rows = [str(row.get_attribute("id")) for row in page.locator("[data-row]").all()]
    assert len(rows) == 12
    keys(page, "j", "a", "r", "s")  # as fast as they are typed: each on the next row
    assert focused(page) == rows[3]
    expect(page.locator(f"#{rows[0]} [data-key=a]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(f"#{rows[1]} [data-key=r]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#tray")).to_contain_text("3 decisions")
    keys(page, "k", "s")  # the same key again takes it back
    expect(page.locator("#tray")).to_contain_text("2 decisions")
    assert newest(world) == 1
    axe(page)

    page.reload()  # nothing is lost
    expect(page.locator("#tray")).to_contain_text("2 decisions")
    keys(page, "v")
    strip = page.locator("#strip-tray [data-strip]")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    expect(strip).to_contain_text("turns start")
    axe(page)
    keys(page, "Escape")
    expect(strip).to_have_count(0)
    assert focused(page) == "tray-look"
    keys(page, "v")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    if strip.get_by_label("Reason", exact=True).count():  # recall would fall: it asks why
        strip.get_by_label("Reason", exact=True).fill("as the reviewer says")
        strip.get_by_role("button", name="Apply").click()
    else:
        keys(page, "Enter")
    expect(page.get_by_role("status").filter(has_text="cancel-order: v2 live")).to_be_visible()
    expect(page.locator("[data-row]")).to_have_count(10)
    assert (status(rows[0]), status(rows[1])) == (ExemplarStatus.PROMOTED, ExemplarStatus.REJECTED)
    assert focused(page) == page.locator("[data-row]").first.get_attribute("id")  # on with the next

    page.get_by_label("Use the best").fill("2")
    keys(page, "Enter")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    expect(strip).to_contain_text("2 decisions")
    if strip.get_by_label("Reason", exact=True).count():
        strip.get_by_label("Reason", exact=True).fill("the best two")
        strip.get_by_role("button", name="Apply").click()
    else:
        keys(page, "Enter")
    expect(page.get_by_role("status").filter(has_text="cancel-order: v3 live")).to_be_visible()
    expect(page.locator("[data-row]")).to_have_count(8)
    assert newest(world) == 3

    keys(page, "u")
    expect(page.get_by_role("status").filter(has_text="v4 live")).to_be_visible()
    expect(page).to_have_url(PAGE)
    expect(page.locator("[data-row]")).to_have_count(10)


@pytest.mark.minilm
@pytest.mark.timeout(900)
def test_four_hundred_over_all_policies_with_at_most_120_keys(
    sample: Any, page_of: Callable[..., Page], capsys: pytest.CaptureFixture[str]
) -> None:
    """What mining finds in the sample's real chats, three of them needed and nine look-alikes a policy: cleared by keys."""
    params = {"max_candidates": 12, "negatives_per_signal": 3}
    run = runs.create_run(fresh_inventory(sample.inventory.pk), "mine", by=SYSTEM, params=params)
    run_work.work(run.pk)
    waiting = Exemplar.objects.filter(artifact__inventory=sample.inventory, status=ExemplarStatus.CANDIDATE)
    n, policies = waiting.count(), waiting.values("artifact").distinct().count()
    assert n >= 400
    assert policies == 36
    versions = ClassifierVersion.objects.filter(artifact__inventory=sample.inventory).count()
    before = caught_of(sample.inventory)

    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/candidates/")
    pressed = 0

    def press(key: str) -> None:
        nonlocal pressed
        pressed += 1
        page.keyboard.press(key)

    def decide(key: str) -> None:
        with page.expect_response("**/candidates/decide/"):
            press(key)
        expect(page.locator("#cand[aria-busy]")).to_have_count(0)

    for number in range(policies):
        with page.expect_response(lambda response: response.request.method == "GET" and "policy=" in response.url):
            press("]")
        expect(page.locator("#cand[aria-busy]")).to_have_count(0)
        expect(page.locator("[data-group]")).to_have_count(1)
        expect(page.locator("[data-group]")).to_be_focused()
        key = str(page.locator("[data-group]").get_attribute("id")).removeprefix("group-")
        decide("b")
        expect(page.locator(f"#best-{key}")).to_be_focused()
        decide("d")
        expect(page.locator("#undecided")).to_have_text(re.compile(rf"^{policies - number - 1} polic"))
    assert waiting.count() == n  # nothing is written before it is looked at
    expect(page.locator("#tray")).to_contain_text(f"{n} decisions in {policies} policies")
    press("v")
    strip = page.locator("#strip-tray [data-strip]")
    expect(strip.get_by_role("heading", level=3)).to_be_focused(timeout=180_000)
    press("Enter")
    expect(page.locator("#cand")).to_contain_text("All decided", timeout=300_000)

    assert waiting.count() == 0
    made = ClassifierVersion.objects.filter(artifact__inventory=sample.inventory).count() - versions
    after = caught_of(sample.inventory)
    used = Exemplar.objects.filter(run=run, status=ExemplarStatus.PROMOTED).count()
    with capsys.disabled():
        print(
            f"\n{n} candidates, {policies} policies: {pressed} keys, {made} versions, {used} used; "
            f"recall {before[0]} of {before[1]} before, {after[0]} of {after[1]} after"
        )
    assert pressed <= 120
    assert made <= 36
    assert after[0] >= sample.inventory.target_recall * after[1]


def caught_of(inventory: Inventory) -> tuple[int, int]:
    """(caught, needed) over all policies, each on conversations that gave it no example."""
    fresh = fresh_inventory(inventory.pk)
    artifacts = list(fresh.artifacts.values_list("pk", flat=True))
    ground = ground_of(fresh, artifacts)
    found = [standing(ground, artifact) for artifact in artifacts]
    return sum(caught for caught, _needed in found), sum(needed for _caught, needed in found)


def test_a_decision_on_all_is_refused_when_somebody_else_was_there(
    world: make.World, page_of: Callable[..., Page]
) -> None:
    mined(world)
    page = page_of(world.author)
    page.goto(PAGE)
    page.locator("#all-reject").click()
    strip = page.locator("#strip-tray [data-strip]")
    expect(strip).to_contain_text("12 decisions")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    other = Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.CANDIDATE).latest("pk")
    curate.apply(world.cancel, [Step("reject", exemplar=other.public_id)], by=SYSTEM, base_version=1)
    page.keyboard.press("Enter")
    expect(page.locator("#merge")).to_contain_text("There are 11 now, not 12")
    assert Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.CANDIDATE).count() == 11
    page.goto(PAGE)
    page.locator("#all-reject").click()
    expect(strip).to_contain_text("11 decisions")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cand")).to_contain_text("All decided")
    assert not Exemplar.objects.filter(artifact=world.cancel, status=ExemplarStatus.CANDIDATE).exists()


def test_alike_ones_are_turned_down_at_once(world: make.World, page_of: Callable[..., Page]) -> None:
    for text in ("stop the parcel with shoes", "stop the shoes parcel", "a lamp"):
        embed.vectors(embed.encoder_for(world.inventory), [text])
        Exemplar.objects.create(
            artifact=world.cancel, polarity="signal", text=text, text_digest=exemplar_digest(text), source="generated"
        )
    page = page_of(world.author)
    page.goto(PAGE)
    pair = page.locator("[data-row]").filter(has=page.locator("[data-key=R]"))
    expect(pair).to_have_count(2)
    first = str(pair.first.get_attribute("id"))
    while focused(page) != first:
        keys(page, "j")
    keys(page, "Shift+R")
    expect(page.locator("#tray")).to_contain_text("2 decisions")
    for row in pair.all():
        expect(row.locator("[data-key=r]")).to_have_attribute("aria-pressed", "true")
    # To the next row that says something else, or where there is none to the tray, once that has come.
    alike = [str(row.get_attribute("id")) for row in pair.all()]
    page.wait_for_function(
        "alike => { const id = (e => e?.closest('[data-row]')?.id ?? e?.id)(document.activeElement); "
        "return id && !alike.includes(id); }",
        arg=alike,
    )
    assert focused(page) == "tray-look" or focused(page).startswith("c-")


def test_on_a_phone_it_is_one_column(world: make.World, page_of: Callable[..., Page], axe: Callable[..., Any]) -> None:
    mined(world)
    page = page_of(world.author, viewport={"width": 360, "height": 780}, color_scheme="dark")
    page.goto("/i/tiny/candidates/")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.locator("[data-row] [data-key=a]").first.click()
    expect(page.locator("#tray")).to_contain_text("1 decision")
    page.locator("#tray-look").click()
    expect(page.locator("[data-strip]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.evaluate("window.scrollTo(0, 0)")  # no row of chips half under the header
    axe(page)
