"""The Why page shows the API's numbers: each one to the last digit shown, and whole in its value."""

import json
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from console.models import Role
from tests import make
from tests.browser.conftest import Sample

pytestmark = pytest.mark.minilm


def fetched(page: Page, address: str, token: str) -> Any:
    """The API's answer as the browser itself gets it."""
    return page.evaluate(
        """async ([address, token]) => {
             const answer = await fetch(address, {headers: {Authorization: `Bearer ${token}`}});
             if (!answer.ok) throw new Error(`${answer.status}`);
             return await answer.text();
           }""",
        [address, token],
    )


def assert_same(shown: Locator, number: float) -> None:
    """The text is the number rounded to as many digits as it has; the value is the number itself."""
    data = shown.locator("data")
    assert float(data.get_attribute("value") or "nan") == number
    text = data.inner_text().replace("−", "-").replace("\N{NO-BREAK SPACE}", "")
    places = len(text.partition(".")[2])
    assert places >= 2
    rounded = Decimal(number).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    assert Decimal(text) == rounded, f"{text} is not {number!r}"


@pytest.mark.parametrize(("turn", "key"), [(0, "modify-flight"), (0, "cancel-flight"), (1, "modify-flight")])
def test_every_number_of_the_page_is_the_apis(
    sample: Sample, page_of: Callable[..., Page], turn: int, key: str
) -> None:
    page = page_of(sample.by_role["viewer"])
    conversation = sample.conversation("sky-112").public_id
    page.goto(f"{sample.home}/conversations/{conversation}/turns/{turn}/why/{key}/")
    token = make.token(sample.inventory, Role.VIEWER)
    address = f"/api/v1/inventories/{sample.inventory.slug}/conversations/sky-112/turns/{turn}/why/{key}"
    answer = json.loads(fetched(page, address, token))

    assert_same(page.locator("#n-margin"), answer["margin"])
    assert_same(page.locator("#n-cutoff"), answer["cutoff"])
    assert_same(page.locator("#n-distance"), answer["distance"])
    assert_same(page.locator("#n-show"), answer["show"])
    assert_same(page.locator("#n-dont-show"), answer["dont_show"])
    assert_same(page.locator("#n-bias"), answer["bias"])
    assert_same(page.locator("#n-total"), answer["total"])
    rows = page.locator("#terms tbody tr")
    assert rows.count() == len(answer["terms"]) >= 20
    for term in answer["terms"]:
        row = page.locator(f'#terms tr[data-exemplar="{term["exemplar"]}"]')
        for cell, name in ((2, "value"), (3, "alpha"), (4, "cosine")):
            assert_same(row.locator("th, td").nth(cell), term[name])
    total = sum(term["value"] for term in answer["terms"]) + answer["bias"]
    assert abs(total - answer["margin"]) < 1e-5
    views = page.locator("table.views tbody tr")
    assert views.count() == len(answer["views"])
    for number, view in enumerate(answer["views"]):
        assert_same(views.nth(number).locator("td").last, view["value"])


def test_the_drawer_of_a_conversation_shows_the_pages_numbers(sample: Sample, page_of: Callable[..., Page]) -> None:
    page = page_of(sample.by_role["author"])
    conversation = sample.conversation("sky-112").public_id
    page.goto(f"{sample.home}/conversations/{conversation}/?t=0&p=modify-flight")
    opener = page.locator("#why")
    opener.click()
    drawer = page.locator("#drawer-content")
    expect(drawer.get_by_role("heading", level=2).first).to_be_focused()
    numbers = [drawer.locator(f"#n-{name} data").get_attribute("value") for name in ("margin", "cutoff", "total")]
    drawer.get_by_role("link", name="Close").click()
    expect(drawer).to_have_count(0)
    expect(opener).to_be_focused()
    opener.click()
    drawer.get_by_role("link", name="Whole page").click()
    expect(page.locator("#record-title")).to_be_visible()
    again = [page.locator(f"#n-{name} data").get_attribute("value") for name in ("margin", "cutoff", "total")]
    assert numbers == again
