"""A queue of twelve cleared by keys alone; a note, a flag, a skip and an undo on the way; the same without JavaScript."""

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from console.models import QueueKind, ReviewAnswer, ReviewQueue
from console.services import review_queues
from console.services.fit import fresh_inventory
from console.services.review_build import Asked
from tests import make


def queue(world: make.World, size: int = 12) -> ReviewQueue:
    inventory = fresh_inventory(world.inventory.pk)
    return review_queues.create_queue(inventory, Asked(QueueKind.AUDIT, size=size), by=world.by, name="Audit")


def standing(page: Page, position: int) -> None:
    """On the item, with the focus on its heading."""
    expect(page.locator("#item .lede")).to_contain_text(f"item {position + 1} of")
    expect(page.locator("#item-title")).to_be_focused()


def test_a_queue_of_twelve_by_keys_alone(
    world: make.World, page_of: Callable[..., Page], axe: Callable[..., Any]
) -> None:
    made = queue(world)
    page = page_of(world.author)
    page.goto(f"/i/tiny/review/{made.public_id}/")
    page.keyboard.press("Enter")
    standing(page, 0)
    axe(page)
    page.keyboard.press("y")
    standing(page, 1)
    expect(page.locator("#answered")).to_contain_text("AI reviewer")  # now, not before
    axe(page)
    page.keyboard.press("n")
    standing(page, 2)
    page.keyboard.press("u")  # taken back: the item again
    standing(page, 1)
    expect(page.get_by_role("status").filter(has_text="Taken back")).to_be_visible()
    page.keyboard.press("o")
    standing(page, 2)

    page.keyboard.press("m")  # a note: letters are letters in there
    expect(page.locator("#note")).to_be_focused()
    page.keyboard.type("yonder mountain")
    page.keyboard.press("Control+Enter")
    expect(page.locator("input[name=with]").first).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Control+Enter")
    standing(page, 3)
    assert ReviewAnswer.objects.counted().get(note="yonder mountain").word == "yes"

    page.keyboard.press(">")  # to the end of the line
    standing(page, 4)
    page.keyboard.press("f")
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("cut off")
    page.keyboard.press("Enter")
    standing(page, 5)
    for position in range(5, 11):
        page.keyboard.press("yn"[position % 2])
        standing(page, position + 1)
    page.keyboard.press("n")
    standing(page, 3)  # what was skipped
    assert page.url.endswith(f"/items/{made.items.get(position=3).public_id}/")
    page.keyboard.press("y")
    expect(page.locator(".note", has_text="set aside with a flag")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    assert review_queues.progress(made).done == 11

    page.keyboard.press("z")
    expect(page.locator("[data-row]")).to_have_count(11)
    page.keyboard.press("j")
    page.keyboard.press("u")
    standing(page, 3)
    assert review_queues.progress(made).done == 10


def test_without_javascript(world: make.World, page_of: Callable[..., Page]) -> None:
    made = queue(world, 3)
    page = page_of(world.reviewer, java_script_enabled=False)
    page.goto(f"/i/tiny/review/{made.public_id}/")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="Yes").click()
    expect(page.locator("#item .lede")).to_contain_text("item 2 of 3")
    page.get_by_text("Note", exact=True).first.click()
    page.locator("#note").fill("as written")
    page.get_by_role("button", name="No", exact=True).click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#item .lede")).to_contain_text("item 2 of 3")
    page.get_by_role("button", name="Unsure").click()
    page.get_by_role("button", name="No", exact=True).click()
    expect(page.get_by_text("Queue clear.")).to_be_visible()
