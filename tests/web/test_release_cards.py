"""Change cards: printable, with who let the release go live, and by a signed link for somebody without an account."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core import signing
from django.test import Client
from django.utils import timezone

from console.models import AuditEvent, GoLive, Role
from console.services import cards, curate, inventories, releases
from console.services.actor import SYSTEM, person
from console.services.errors import NotFound
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(world: make.World) -> make.World:
    """A change waits in the draft; agents get the release before it."""
    inventories.update_inventory(world.inventory, by=SYSTEM, go_live=GoLive.AFTER_REVIEW)
    world.cancel.refresh_from_db()
    curate.apply(world.cancel, [Step("add", text="scrap the order", polarity="signal")], by=world.by, base_version=1)
    world.inventory.refresh_from_db()
    return world


def text(response: Any, status: int = 200) -> str:
    assert response.status_code == status, response.status_code
    found: str = response.content.decode()
    return found


def address(world: make.World) -> str:
    return f"/i/tiny/releases/{world.inventory.live_release}...{world.inventory.release}/"


def test_who_may_let_it_go_live_and_who_did(waiting: make.World, signed_in: Any) -> None:
    viewer, publisher = signed_in(waiting.viewer), signed_in(waiting.publisher)
    assert re.search(r"A publisher can let it go live\. Here: anna, paul\.", text(viewer.get("/i/tiny/releases/")))
    card = address(waiting)
    assert "Nobody has let it go live" in text(viewer.get(card))
    draft = waiting.inventory.release
    assert signed_in(waiting.author).post(f"/i/tiny/releases/{draft}/go-live/").status_code == 403
    assert publisher.post(f"/i/tiny/releases/{draft}/go-live/", {"reason": "looked at"}).status_code == 302
    page = text(viewer.get(card))
    assert re.search(r'<span class="approval">paul, <time[^>]*>[^<]*</time> · <bdi>looked at</bdi>', page)
    assert "paul, <time" in text(viewer.get("/i/tiny/releases/"))
    assert "data-print" in page
    assert 'data-key="h"' not in page  # the audit is for reviewers
    assert f'/audit/?object={draft}" data-key="h"' in text(signed_in(waiting.reviewer).get(card))


def test_a_link_shows_the_card_and_nothing_else(waiting: make.World, signed_in: Any) -> None:
    for role, somebody in waiting.by_role.items():
        response = signed_in(somebody).post(address(waiting))
        assert response.status_code == (200 if Role(role).includes(Role.PUBLISHER) else 403), role
    page = text(signed_in(waiting.publisher).post(address(waiting)))
    link = re.search(r"http://testserver(/cards/[^<\s]+)", page)
    assert link is not None
    assert link[1] not in text(signed_in(waiting.publisher).get(address(waiting)))
    event = AuditEvent.objects.filter(action="release.share").latest("pk")
    assert (event.actor, event.object_id) == ("paul", str(waiting.inventory.release))
    visitor = Client()
    response = visitor.get(link[1])
    card = text(response)
    assert "scrap the order" in card
    assert "Read-only, until" in card
    assert (response["X-Robots-Tag"], "no-store" in response["Cache-Control"]) == ("noindex", True)
    assert "<form" not in card
    assert "csrf" not in card
    assert '<nav class="nav"' not in card
    assert not visitor.cookies
    assert visitor.post(link[1]).status_code == 405
    assert visitor.get(address(waiting)).status_code == 302  # to the sign-in page: the link opens nothing more


def test_a_link_that_was_changed_or_has_ended_leads_nowhere(
    waiting: make.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = waiting.inventory
    token, until = cards.make_link(inventory, 1, 2, by=person(waiting.publisher))
    assert timedelta(days=6) < until - timezone.now() <= timedelta(days=7)
    found = cards.read_link(token)
    assert (found.inventory, found.a, found.b, found.until) == (inventory, 1, 2, until)
    ended = signing.dumps([inventory.pk, 1, 2, int(timezone.now().timestamp()) - 1], salt=cards.SALT)
    other = signing.dumps([inventory.pk, 1, 2, int(until.timestamp())], salt="another")
    odd = [
        signing.dumps(what, salt=cards.SALT) for what in ("x", [1, 2, 3, 1e300], [10**6, 1, 2, int(until.timestamp())])
    ]
    for wrong in (token[:-1], token + "x", "x" * 900, ended, other, *odd):
        assert Client().get(f"/cards/{wrong}/").status_code == 404
        with pytest.raises(NotFound):
            cards.read_link(wrong)
    gone = signing.dumps([inventory.pk, 1, 99, int(until.timestamp())], salt=cards.SALT)
    assert Client().get(f"/cards/{gone}/").status_code == 404
    with pytest.raises(NotFound):
        cards.make_link(inventory, 1, 99, by=person(waiting.publisher))
    assert releases.get_release(inventory, 2).number == 2
