"""The main job without a mouse: sign in, go, open, promote, retire; the sheet of keys; keys rest while typing and when off."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from console.models import ClassifierVersion, Exemplar
from tests import make


def focused(page: Page, what: str) -> Any:
    return page.evaluate(f"() => document.activeElement?.{what} ?? null")


def keys(page: Page, *pressed: str) -> None:
    for key in pressed:
        page.keyboard.press(key)


def newest(world: make.World) -> int:
    return ClassifierVersion.objects.filter(artifact=world.cancel).latest("number").number


def test_the_main_job_with_keys_alone(world: make.World, page: Page) -> None:
    page.goto("/sign-in/")
    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type(world.author.username)
    keys(page, "Tab")
    page.keyboard.type(make.PASSWORD)
    keys(page, "Enter")
    expect(page).to_have_url("/i/tiny/")
    page.wait_for_load_state()  # before that no script listens
    keys(page, "Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    keys(page, "Enter")
    assert focused(page, "id") == "main"

    keys(page, "g", "p")
    expect(page).to_have_url("/i/tiny/policies/")
    page.wait_for_load_state()  # before that no script listens
    keys(page, "j", "k")
    first = focused(page, "id")
    keys(page, "j")
    assert focused(page, "id") != first
    while focused(page, "id") != "open-cancel-order":
        before = focused(page, "id")
        keys(page, "k")
        if focused(page, "id") == before:
            while focused(page, "id") != "open-cancel-order":
                keys(page, "j")
    keys(page, "Enter")
    expect(page).to_have_url("/i/tiny/policies/cancel-order/")
    page.wait_for_load_state()  # before that no script listens

    # A turn it was shown at for nothing becomes a don't-show example: s or a opens the strip, Enter applies it.
    rows = page.locator("[data-row]")
    assert rows.count() >= 1
    keys(page, "j")
    slot = rows.first.get_attribute("id")
    keys(page, "a")
    strip = page.locator(f"#strip-{slot} [data-strip]")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    keys(page, "Escape")
    expect(strip).to_have_count(0)
    assert str(focused(page, "id")).startswith("dont-")  # back at the button that opened it
    assert newest(world) == 1
    keys(page, "a")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    keys(page, "Enter")
    expect(page.get_by_role("status").filter(has_text="v2 live")).to_be_visible()
    assert newest(world) == 2
    expect(page.locator("[data-row].active")).to_have_count(
        1
    )  # the focus is on a row: the next decision is one key away
    assert str(focused(page, "id")).startswith("open-")

    keys(page, "u")
    expect(page.get_by_role("status").filter(has_text="v3 live")).to_be_visible()
    assert newest(world) == 3


def test_examples_are_ticked_retired_and_moved_with_keys(world: make.World, page_of: Callable[..., Page]) -> None:
    page = page_of(world.author)
    page.goto("/i/tiny/policies/cancel-order/exemplars/")
    rows = page.locator("[data-row]")
    ids = [str(row.get_attribute("id")).removeprefix("ex-") for row in rows.all()]
    keys(page, "j", "x")
    expect(page.locator("#bulkbar")).to_contain_text("Ticked rows: 1")
    keys(page, "j", "j", "Shift+X")
    expect(page.locator("#bulkbar")).to_contain_text("Ticked rows: 3")
    keys(page, "*")
    expect(page.locator("#bulkbar")).to_contain_text(f"Ticked rows: {len(ids)}")
    keys(page, "*")
    expect(page.locator("#bulkbar")).to_be_hidden()

    keys(page, "t")  # the third row changes sides
    strip = page.locator(f"#strip-ex-{ids[2]} [data-strip]")
    expect(strip.get_by_role("heading", level=3)).to_be_focused()
    keys(page, "Enter")
    expect(page.get_by_role("status").filter(has_text="v2 live")).to_be_visible()
    assert Exemplar.objects.get(public_id=ids[2]).polarity == "anti_signal"
    after = focused(page, "id")
    assert str(after).startswith("text-")  # on an example, not lost at the top of the page

    keys(page, "r")
    expect(page.locator("[data-strip]").get_by_role("heading", level=3)).to_be_focused()
    keys(page, "Enter")
    expect(page.get_by_role("status").filter(has_text="v3 live")).to_be_visible()
    assert Exemplar.objects.get(public_id=str(after).removeprefix("text-")).status == "rejected"


def test_the_sheet_names_the_keys_and_gives_the_focus_back(world: make.World, page_of: Callable[..., Page]) -> None:
    page = page_of(world.author)
    page.goto("/i/tiny/policies/")
    keys(page, "j")
    before = focused(page, "id")
    sheet = page.get_by_role("dialog", name="Keys")
    expect(sheet).to_be_hidden()
    keys(page, "?")
    expect(sheet).to_be_visible()
    expect(sheet.get_by_text("Go to Policies")).to_be_visible()
    shown = [name for name in sheet.locator("[data-key-name^='g ']").all() if name.is_visible()]
    going = page.locator("[data-go]").evaluate_all("links => links.map(link => link.dataset.go)")
    assert sorted(name.inner_text() for name in shown) == sorted(going)  # no key to a page that is not there
    expect(sheet).to_contain_text("New policy")  # a key of this page
    keys(page, "j", "g", "c")  # inert in a dialog
    expect(page).to_have_url("/i/tiny/policies/")
    keys(page, "Escape")
    expect(sheet).to_be_hidden()
    assert focused(page, "id") == before


def test_keys_rest_while_typing(world: make.World, page_of: Callable[..., Page]) -> None:
    page = page_of(world.author)
    page.goto("/i/tiny/policies/cancel-order/exemplars/")
    keys(page, "/")
    search = page.get_by_role("searchbox")
    expect(search).to_be_focused()
    page.keyboard.type("g c?jsart")
    expect(search).to_have_value("g c?jsart")
    expect(page).to_have_url("/i/tiny/policies/cancel-order/exemplars/")
    expect(page.locator("[data-strip]")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_be_hidden()
    keys(page, "Escape")
    assert focused(page, "tagName") == "BODY"
    keys(page, "g", "c")
    expect(page).to_have_url("/i/tiny/conversations/")


def test_the_profile_switches_single_keys_off_or_moves_them(world: make.World, page_of: Callable[..., Page]) -> None:
    page = page_of(world.author)
    page.goto("/profile/")
    page.get_by_label("Next row").fill("q")
    page.get_by_label("Previous row").fill("i")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Saved.")
    page.goto("/i/tiny/policies/")
    keys(page, "j")
    assert focused(page, "tagName") == "BODY"
    keys(page, "q")
    assert str(focused(page, "id")).startswith("open-")

    page.goto("/profile/")
    page.get_by_label("Single-letter keys off").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Saved.")
    page.goto("/i/tiny/policies/")
    keys(page, "q", "?", "g", "c", "/")
    expect(page).to_have_url("/i/tiny/policies/")
    assert focused(page, "tagName") == "BODY"
    expect(page.get_by_role("dialog")).to_be_hidden()
