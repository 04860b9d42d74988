"""Two people at one policy: the second gets the merge card and loses nothing. Going back to a version takes a reason."""

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

from console.models import Change, ClassifierVersion, Exemplar, Polarity
from tests import make

EXAMPLES = "/i/tiny/policies/cancel-order/exemplars/"


def write(page: Page, text: str) -> Locator:
    """A new show example typed on the examples' page, up to its impact strip."""
    page.goto(EXAMPLES)
    form = page.locator("form", has=page.get_by_label("Messages"))
    form.get_by_label("Messages").fill(text)
    form.get_by_role("button").last.click()
    strip = page.locator("[data-strip]")
    expect(strip).to_be_visible()
    return strip


def versions(world: make.World) -> list[ClassifierVersion]:
    return list(ClassifierVersion.objects.filter(artifact=world.cancel).order_by("number"))


def test_the_second_of_two_gets_the_merge_card_and_nothing_is_lost(
    world: make.World, page_of: Callable[..., Page]
) -> None:
    first, second = page_of(world.author), page_of(world.publisher)
    mine, theirs = write(first, "stop the whole order"), write(second, "I changed my mind, no parcel please")
    expect(mine).to_contain_text("on version 1")
    expect(theirs).to_contain_text("on version 1")
    mine.get_by_role("button", name="Apply").click()
    expect(first.get_by_role("status")).to_contain_text("v2 live")

    theirs.get_by_label("Reason").fill("asked for by the shop")
    theirs.get_by_role("button", name="Apply").click()
    card = second.get_by_role("alert")
    expect(card).to_contain_text(f"by {world.author.username}")
    expect(card).to_contain_text("v2 was made")
    expect(card).to_contain_text("Nothing was written; what you chose is still here.")
    expect(card.get_by_role("heading")).to_be_focused()
    assert len(versions(world)) == 2

    card.get_by_role("button", name="Look again on version 2").click()
    again = second.locator("[data-strip]")
    expect(again).to_contain_text("on version 2")
    expect(again).to_contain_text("I changed my mind, no parcel please")
    again.get_by_role("button", name="Apply").click()
    expect(second.get_by_role("status")).to_contain_text("v3 live")
    texts = set(
        Exemplar.objects.filter(artifact=world.cancel, polarity=Polarity.SIGNAL, status="promoted").values_list(
            "text", flat=True
        )
    )
    assert {"stop the whole order", "I changed my mind, no parcel please"} <= texts
    assert [version.actor for version in versions(world)[1:]] == [world.author.username, world.publisher.username]


def test_the_merge_card_leads_to_what_changed(world: make.World, page_of: Callable[..., Page]) -> None:
    first, second = page_of(world.author), page_of(world.publisher)
    mine, theirs = write(first, "stop the whole order"), write(second, "I changed my mind")
    mine.get_by_role("button", name="Apply").click()
    expect(first.get_by_role("status")).to_contain_text("v2 live")
    theirs.get_by_role("button", name="Apply").click()
    second.get_by_role("link", name="See what changed").click()
    expect(second).to_have_url("/i/tiny/policies/cancel-order/versions/1...2/")
    expect(second.locator("ins").filter(has_text="stop the whole order")).to_be_visible()


def test_going_back_to_a_version_takes_a_reason_and_makes_a_new_one(
    world: make.World, page_of: Callable[..., Page]
) -> None:
    page = page_of(world.publisher)
    write(page, "stop the whole order").get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status")).to_contain_text("v2 live")
    page.get_by_role("link", name="Versions").click()
    row = page.locator("#v1")
    row.get_by_role("link", name="Go back to").click()
    strip = page.locator("#strip-v1 [data-strip]")
    reason = strip.get_by_label("Reason")
    expect(reason).to_have_attribute("required", "")
    apply = strip.get_by_role("button", name="version 1")
    apply.click()  # without a reason the browser keeps the form
    expect(reason).to_be_focused()
    assert len(versions(world)) == 2
    reason.fill("   ")  # and what a browser lets through, the server does not
    apply.click()
    expect(strip.locator(".errors")).to_be_visible()
    expect(reason).to_have_attribute("aria-invalid", "true")
    assert len(versions(world)) == 2
    reason.fill("the new one caught lamps")
    apply.click()
    expect(page.get_by_role("status")).to_contain_text("v3 live")
    expect(page.locator("#policy-head")).to_contain_text("Version 3")
    expect(page.locator("#v3")).to_contain_text("the new one caught lamps")
    first, _second, third = versions(world)
    assert bytes(first.weights) == bytes(third.weights)
    assert (first.bias, first.offset) == (third.bias, third.offset)
    assert Change.objects.filter(artifact=world.cancel, action="rollback").get().reason == "the new one caught lamps"
