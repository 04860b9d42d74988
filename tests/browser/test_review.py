"""Queues cleared by keys alone; a note, a flag, a skip and an undo on the way; the same without JavaScript."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from playwright.sync_api import Page, expect

from console.models import QueueKind, ReviewAnswer, ReviewQueue
from console.services import review_items, review_queues
from console.services.actor import SYSTEM
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
    expect(page.locator("#note-saved")).to_contain_text("Saved")
    page.reload()  # nothing is held in the browser alone
    expect(page.locator("#note")).to_have_value("yonder mountain")
    page.keyboard.press("m")  # on an open note: into it
    expect(page.locator("#note")).to_be_focused()
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


@pytest.mark.minilm
@pytest.mark.timeout(600)
def test_fifty_of_the_sample_without_touching_the_mouse(
    sample: Any, page_of: Callable[..., Page], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each next item is there before the answer is given, and its heading has the focus each time."""
    inventory = fresh_inventory(sample.inventory.pk)
    made = review_queues.create_queue(inventory, Asked(QueueKind.AUDIT, size=50), by=SYSTEM, name="Audit")
    page = page_of(sample.by_role["reviewer"])
    asked: list[str] = []
    page.on("request", lambda r: asked.append(f"{r.method} {r.url}") if "/items/" in r.url else None)
    page.goto(f"{sample.home}/review/{made.public_id}/")
    with server_times("/items/") as taken:
        page.keyboard.press("Enter")
        for position in range(50):
            standing(page, position)
            assert page.url.endswith(f"/items/{made.items.get(position=position).public_id}/")
            if position < 49:
                expect(page.locator("#answer input[name=ahead]")).to_have_count(1)
            asked.clear()
            page.keyboard.press("yno"[position % 3])
            if position < 48:
                standing(page, position + 1)
                expect(page.locator("#answer input[name=ahead]")).to_have_count(1)
                ahead = made.items.get(position=position + 1).public_id
                assert [line[:4] for line in asked] == ["POST", "GET "], asked
                assert asked[1].endswith(f"{ahead}/ahead/")  # the one after; the item itself was here
        expect(page.get_by_text("Queue clear.")).to_be_visible()
    assert review_queues.progress(made).left == 0
    assert ReviewAnswer.objects.counted().filter(item__queue=made).count() == 50
    wall, cpu = zip(*taken["POST"], strict=True)
    assert len(wall) == 50
    with capsys.disabled():
        print(
            f"\nserver time per decision: median {statistics.median(wall):.1f} ms, CPU {statistics.median(cpu):.1f} ms"
        )


@contextmanager
def server_times(part: str) -> Iterator[dict[str, list[tuple[float, float]]]]:
    """Milliseconds, on the clock and of CPU, from a request to the end of its answer, where the path has ``part``."""
    found: dict[str, list[tuple[float, float]]] = {"GET": [], "POST": []}
    began = threading.local()

    def start(environ: dict[str, str] | None = None, **_: Any) -> None:
        began.at, began.busy, began.request = time.perf_counter(), time.thread_time(), environ or {}

    def end(**_: Any) -> None:
        request = getattr(began, "request", {})
        if part in request.get("PATH_INFO", ""):
            took = 1000 * (time.perf_counter() - began.at), 1000 * (time.thread_time() - began.busy)
            found[request["REQUEST_METHOD"]].append(took)

    request_started.connect(start)
    request_finished.connect(end)
    try:
        yield found
    finally:
        request_started.disconnect(start)
        request_finished.disconnect(end)


def test_an_item_that_somebody_took_meanwhile_is_passed_over(world: make.World, page_of: Callable[..., Page]) -> None:
    """What was fetched ahead is not reserved: if another person has it by then, the next one comes instead."""
    made = queue(world, 4)
    page = page_of(world.reviewer)
    page.goto(f"/i/tiny/review/{made.public_id}/")
    page.keyboard.press("Enter")
    standing(page, 0)
    expect(page.locator("#answer input[name=ahead]")).to_have_value(made.items.get(position=1).public_id)
    taken = review_items.claim(made, by=world.by)
    assert taken is not None
    assert taken.position == 1
    page.keyboard.press("y")
    standing(page, 2)
    page.go_back()
    standing(page, 0)
    expect(page.locator("#answered")).to_contain_text("Your answer")


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
