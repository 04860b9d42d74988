"""Notes and undo by keys alone: a draft is saved as it is typed, a flag stands, `u` takes the newest act back from anywhere."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from console.models import Note
from console.services import artifacts
from tests import make


@pytest.fixture
def world(transactional_db: None) -> make.World:
    return make.world()


def test_a_note_is_written_and_flagged_with_keys(world: make.World, page_of: Callable[..., Page]) -> None:
    page = page_of(world.reviewer)
    page.goto("/i/tiny/policies/cancel-order/versions/")
    page.keyboard.press("m")
    field = page.get_by_label("Note; @name tells a member")
    expect(field).to_be_focused()
    page.keyboard.type("@ada, mind the m and the f in this")  # keys rest while one types
    expect(page.get_by_text(re.compile(r"^Saved \d\d:\d\d$"))).to_be_visible()
    assert Note.objects.get().draft
    page.reload()
    expect(field).to_have_value("@ada, mind the m and the f in this")
    page.get_by_role("button", name="Write it").press("Enter")
    expect(page.get_by_role("heading", name="Notes")).to_be_focused()
    expect(page.locator(".note-line")).to_contain_text("mind the m and the f")
    page.keyboard.press("f")
    expect(page.get_by_label("What is wrong here")).to_be_focused()
    page.keyboard.type("a stale text")
    page.keyboard.press("Enter")
    expect(page.locator(".note-line.flagged")).to_contain_text("a stale text")
    ada = page_of(world.author)
    ada.goto("/i/tiny/")
    expect(ada.get_by_role("link", name="rob names you on Cancel order")).to_be_visible()
    expect(ada.locator("#needs-you")).to_contain_text("a stale text")


def test_u_takes_the_newest_back_from_any_page_under_one_s_own_key(
    world: make.World, page_of: Callable[..., Page]
) -> None:
    artifacts.edit_artifact(world.change, by=world.by, name="Changing an order")
    world.author.key_map = {"u": "q"}
    world.author.save()
    page = page_of(world.author)
    page.goto("/i/tiny/conversations/")
    page.keyboard.press("?")
    expect(page.locator("#keys-sheet [data-key-name='u']")).to_have_text("q")
    page.keyboard.press("Escape")
    page.keyboard.press("u")  # moved: nothing
    expect(page).to_have_url(re.compile("/conversations/$"))
    page.wait_for_load_state()  # before that no script listens
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Take back: renamed")).to_be_visible()
    expect(page.locator("dl.facts")).to_contain_text("Change order")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/i/tiny/conversations/$"))
    expect(page.get_by_role("status").filter(has_text="Taken back in release")).to_be_visible()
    assert artifacts.fields_of(world.change)["name"] == "Change order"
