"""What must fit at the widths of a phone and of a small laptop."""

from typing import Any

from tests import make

POLICY = "/i/tiny/policies/cancel-order/"


def test_no_tab_is_cut_on_a_phone(page_of: Any, world: make.World) -> None:
    page = page_of(world.author, viewport={"width": 360, "height": 780})
    for address in (POLICY, "/i/tiny/runs/"):
        page.goto(address)
        boxes = [tab.bounding_box() for tab in page.locator(".tabs a").all()]
        assert len(boxes) > 2
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 360 for box in boxes), (address, boxes)
        assert page.evaluate("[...document.querySelectorAll('.tabs')].every(e => e.scrollWidth <= e.clientWidth)")


def test_the_choice_of_a_text_can_be_read(page_of: Any, world: make.World) -> None:
    page = page_of(world.author, viewport={"width": 1280, "height": 800})
    page.goto(POLICY)
    widths = [box.bounding_box()["width"] for box in page.locator('select[name="text_of"]').all()]
    assert widths
    assert min(widths) >= 160, widths
