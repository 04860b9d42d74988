"""The main job in the browser: a selection on the map becomes a list, a turn of it an example, the example version 2; undone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from console.models import ClassifierVersion, Exemplar
from tests.browser.conftest import Sample

pytestmark = pytest.mark.minilm
KEY = "modify-flight"


def versions(sample: Sample) -> list[ClassifierVersion]:
    return list(ClassifierVersion.objects.filter(artifact=sample.artifact(KEY)).order_by("number"))


def same_classifier(a: ClassifierVersion, b: ClassifierVersion) -> bool:
    return (bytes(a.weights), a.bias, a.offset) == (bytes(b.weights), b.bias, b.offset)


def test_from_a_box_on_the_map_to_a_new_version_and_back(sample: Sample, page_of: Callable[..., Page]) -> None:
    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/policies/{KEY}/map/")
    plot = page.locator("#map-plot")
    expect(plot).to_have_attribute("data-ready", "yes")
    drawn = page.locator("#map-plot .scatterlayer .point").count()
    assert drawn > 400  # 406 turns and the examples
    listed = page.locator("#map-list")
    expect(listed.get_by_role("heading", level=2)).to_contain_text("Closest to the line")

    page.get_by_role("button", name="Box").click()
    expect(page.get_by_role("button", name="Box")).to_have_attribute("aria-pressed", "true")
    area = page.locator("#map-plot .nsewdrag").bounding_box()
    assert area is not None
    left, top, width, height = area["x"], area["y"], area["width"], area["height"]
    page.mouse.move(left + 0.30 * width, top + 0.05 * height)
    page.mouse.down()
    page.mouse.move(left + 0.45 * width, top + 0.60 * height, steps=8)
    page.mouse.move(left + 0.62 * width, top + 0.95 * height, steps=8)
    page.mouse.up()
    expect(listed.get_by_role("heading", level=2)).to_contain_text("Selected on the map")
    chosen = listed.locator("[data-point]")
    total = int(listed.locator("h2 .dim").inner_text().split()[-1])
    assert 0 < chosen.count() <= total < drawn
    ids = set(chosen.evaluate_all("rows => rows.map(row => row.dataset.point)"))
    page.get_by_role("button", name="Reset").click()
    expect(listed.get_by_role("heading", level=2)).to_contain_text("Closest to the line")

    # The same without dragging: everything just under the line.
    page.get_by_role("link", name="just under it").click()
    expect(listed.get_by_role("heading", level=2)).to_contain_text("In this range")
    in_range = set(listed.locator("[data-point]").evaluate_all("rows => rows.map(row => row.dataset.point)"))
    assert in_range
    assert in_range != ids
    row = listed.locator("[data-point^='t:']").first
    point = row.get_attribute("data-point")
    row.get_by_role("button", name="Show example", exact=False).first.click()
    strip = row.locator("[data-strip]")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    expect(strip).to_contain_text("turns start")
    assert len(versions(sample)) == 1
    strip.get_by_role("button", name="Apply").click()
    status = page.get_by_role("status").filter(has_text="v2 live")
    expect(status).to_be_visible()
    expect(page.locator("#policy-head")).to_contain_text("Version 2")
    first, second = versions(sample)
    assert not same_classifier(first, second)
    added = Exemplar.objects.filter(artifact=first.artifact, source="mined")
    assert f"t:{added.get(polarity='signal').origin_id}" == point

    status.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").filter(has_text="v3 live")).to_be_visible()
    expect(page.locator("#policy-head")).to_contain_text("Version 3")
    first, second, third = versions(sample)
    assert same_classifier(first, third)
    assert third.to_release is None


def test_ticked_rows_of_the_map_become_one_version(sample: Sample, page_of: Callable[..., Page]) -> None:
    page = page_of(sample.by_role["author"])
    page.goto(f"{sample.home}/policies/{KEY}/map/?low=-0.2&high=0&kind=relevant")
    rows = page.locator("#map-list [data-point]")
    assert rows.count() >= 2
    expect(page.locator("#bulkbar")).to_be_hidden()
    for n in (0, 1):
        rows.nth(n).get_by_role("checkbox").check()
    bar = page.locator("#bulkbar")
    expect(bar).to_contain_text("Ticked rows: 2")
    bar.get_by_role("button", name="Show example", exact=False).first.click()
    strip = page.locator("#strip-bulk [data-strip]")
    expect(strip).to_contain_text("2 examples")
    strip.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status").filter(has_text="v2 live")).to_be_visible()
    assert len(versions(sample)) == 2
    assert Exemplar.objects.filter(artifact=sample.artifact(KEY), source="mined", polarity="signal").count() == 2


@pytest.mark.parametrize("start", ["policy", "conversation"])
def test_promoting_works_without_scripts(sample: Sample, page_of: Callable[..., Page], start: str) -> None:
    page = page_of(sample.by_role["author"], java_script_enabled=False)
    state = sample.conversation("sky-112").states.get(user_turn=0)
    if start == "policy":
        page.goto(f"{sample.home}/policies/{KEY}/?turn={state.pk}")
        page.locator(f"#turn-{state.pk}").get_by_role("button", name="Show example", exact=False).first.click()
    else:  # list → conversation → policy → Why → the same decision
        page.goto(f"{sample.home}/conversations/")
        page.get_by_role("searchbox", name="Words of a conversation").fill("sky-112")
        page.get_by_role("button", name="Search").click()
        page.get_by_role("link", name="sky-112", exact=True).click()
        page.locator("#rail-0").click()
        page.locator(f"#policy-{KEY}").get_by_role("link").click()
        page.locator("#why").click()
        expect(page.get_by_role("heading", name="Not selected: a miss")).to_be_visible()
        expect(page.locator("#n-margin")).to_be_visible()
        page.get_by_role("button", name="Use as show example").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Use as show example")
    page.get_by_role("checkbox").uncheck()  # without its look-alike, shown again by the server
    page.get_by_role("button", name="Show again").click()
    expect(page.get_by_role("checkbox")).not_to_be_checked()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("v2 live")
    first, second = versions(sample)
    before, after = ({row["id"] for row in version.exemplars} for version in (first, second))
    assert before < after
    assert len(after) == len(before) + 1
    page.get_by_role("status").get_by_role("link", name="Undo").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_contain_text("v3 live")
    assert same_classifier(versions(sample)[0], versions(sample)[2])
