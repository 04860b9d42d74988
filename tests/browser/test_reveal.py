"""Redaction switched on, a conversation revealed and hidden again: by keys alone, and without JavaScript."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from console.models import AuditEvent, Inventory
from console.services import redaction
from console.services.actor import SYSTEM
from sq_core.redaction import BUILT_IN
from tests import make
from tests.browser.conftest import check_accessibility
from tests.browser.hands import Hands, hands

MAIL = "jo.doe@example.org"


@pytest.fixture(params=["keys", "noscript"])
def start(request: pytest.FixtureRequest, page_of: Callable[..., Page]) -> Callable[..., Hands]:
    return lambda user=None: hands(request.param, page_of, user)


def private(world: make.World) -> str:
    talk = make.conversation(world.inventory, "private", [f"please cancel, and write to {MAIL}"])
    return f"conversations/{talk.public_id}/"


def test_redaction_is_looked_at_and_switched_on(world: make.World, start: Callable[..., Hands]) -> None:
    path = private(world)
    me = start(world.admin)
    me.open("settings/general/")
    me.press(me.link("Redaction"))
    me.sees("Nothing that is stored changes", "main")
    me.mark(me.field("Hide personal data in conversations from people"))
    me.press(me.button("Look at it first"))
    me.sees("As people would see them", "main")
    assert not Inventory.objects.get(slug="tiny").redaction
    me.fill(me.field("Reason"), "the law")
    me.press(me.button("Save"))
    me.said("Saved.")
    me.open(path)
    me.sees("[e-mail]", "#transcript")
    assert MAIL not in me.page.content()


def test_a_conversation_is_revealed_and_hidden_again(world: make.World, start: Callable[..., Hands]) -> None:
    path = private(world)
    redaction.save(
        world.inventory, by=SYSTEM, on=True, kinds=BUILT_IN, terms=[], reveal_role="author", reason="the law"
    )
    me = start(world.author)
    me.open(path)
    assert MAIL not in me.page.content()
    me.press(me.summary("Reveal", "#reveal"))
    me.fill(me.field("Why you need it in the clear"), "she asked us to write")
    me.press(me.button("Reveal", "#reveal"))
    me.sees(MAIL, "#transcript")
    me.sees("You see this conversation in the clear until", "#reveal")
    assert me.page.url.endswith("#reveal")
    assert AuditEvent.objects.get(action="conversation.reveal").reason == "she asked us to write"
    me.press(me.button("Hide again"))
    me.said("Hidden again.")
    expect(me.find("#transcript")).not_to_contain_text(MAIL)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_places_and_the_box_are_sound(world: make.World, page_of: Callable[..., Page], theme: str, width: int) -> None:
    path = private(world)
    redaction.save(
        world.inventory, by=SYSTEM, on=True, kinds=BUILT_IN, terms=[], reveal_role="author", reason="the law"
    )
    for person in (world.author, world.viewer):
        page = page_of(person, color_scheme=theme, viewport={"width": width, "height": 740})
        page.goto(f"/i/tiny/{path}")
        if person == world.author:
            page.locator("#reveal-open").click()
        check_accessibility(page)
        assert page.evaluate("() => document.scrollingElement.scrollWidth - innerWidth") <= 0
    page = page_of(world.admin, color_scheme=theme, viewport={"width": width, "height": 740})
    page.goto("/i/tiny/settings/redaction/")
    check_accessibility(page)
    assert page.evaluate("() => document.scrollingElement.scrollWidth - innerWidth") <= 0
