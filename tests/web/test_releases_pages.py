"""Releases: live and draft side by side, approval, going back, the change card, which agent runs what."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.models import Discovery, GoLive, Inventory, Origin, Release, ReleaseActivation
from console.presenters import releases as shown
from console.presenters.changes import grouped
from console.services import artifacts, curate, fit, inventories
from console.services.actor import SYSTEM
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
LIST = "/i/tiny/releases/"


@pytest.fixture
def reviewed(world: make.World) -> make.World:
    """Changes wait for review, and one does."""
    inventories.update_inventory(world.inventory, by=SYSTEM, go_live=GoLive.AFTER_REVIEW)
    world.cancel.refresh_from_db()
    steps = [Step("add", text="scrap the order I made", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1, reason="Asked for by a customer")
    world.inventory.refresh_from_db()
    return world


def test_where_all_is_live_nothing_waits(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.viewer).get(LIST).content.decode()
    assert "The draft is what agents get: nothing waits." in page
    assert f"Live: \n release {world.inventory.release}".replace("\n ", "") in page


def test_live_and_draft_side_by_side(reviewed: make.World, signed_in: Any) -> None:
    live, draft = reviewed.inventory.live_release, reviewed.inventory.release
    assert draft == live + 1
    page = signed_in(reviewed.publisher).get(LIST).content.decode()
    for words in ("1 change waits", "scrap the order I made", "ada", "Asked for by a customer", "Approve and go live"):
        assert words in page
    assert 'href="/i/tiny/policies/cancel-order/versions/1...2/"' in page
    assert 'href="/i/tiny/changes/' in page
    theirs = signed_in(reviewed.viewer).get(LIST).content.decode()
    assert "Approve and go live" not in theirs
    assert "A publisher can let it go live." in theirs
    assert 'href="/i/tiny/changes/' not in theirs
    assert "Back to this" not in theirs


def test_the_history_alone_and_page_by_page(world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "PAGE", 2)
    client = signed_in(world.viewer)
    part = client.get(LIST, headers=HTMX).content.decode()
    assert "<html" not in part
    assert part.count("<tr data-row") == 2
    seen, after = [], ""
    while after is not None:
        page = shown.history(world.inventory, before=int(after) if after else None)
        seen += [row.release.number for row in page.rows]
        after = str(page.next) if page.next else None  # type: ignore[assignment]
    assert seen == list(range(world.inventory.release, 0, -1))
    assert f'href="?after={world.inventory.release - 1}"' in part
    for unreadable in ("9" * 5_000, "²", "-1"):
        assert client.get(LIST, {"after": unreadable}).status_code == 200
    assert "First" in client.get(LIST, {"after": "2"}, headers=HTMX).content.decode()
    assert client.get(LIST, {"after": "x"}).status_code == 200


def test_approval_shows_the_difference_then_goes_live(reviewed: make.World, signed_in: Any) -> None:
    client, draft = signed_in(reviewed.publisher), reviewed.inventory.release
    address = f"/i/tiny/releases/{draft}/go-live/"
    page = client.get(address).content.decode()
    assert "Approve and go live" in page
    assert "1 → 2" in page
    assert Inventory.objects.get(slug="tiny").live_release == draft - 1  # looking changes nothing
    response = client.post(address, {"reason": "Reviewed together"}, follow=True)
    assert f"Release {draft} is live." in response.content.decode()
    assert Inventory.objects.get(slug="tiny").live_release == draft
    assert ReleaseActivation.objects.latest("pk").reason == "Reviewed together"


def test_setting_agents_back_asks_for_a_reason(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.publisher)
    refused = client.post("/i/tiny/releases/2/go-live/", {"reason": " "})
    assert refused.status_code == 422
    assert "Say why" in refused.content.decode()
    assert 'aria-invalid="true"' in refused.content.decode()
    client.post("/i/tiny/releases/2/go-live/", {"reason": "The new ones miss too much"})
    now = Inventory.objects.get(slug="tiny")
    assert (now.live_release, now.release) == (2, world.inventory.release)
    assert shown.previously_live(now) == world.inventory.release


def test_what_is_live_already_cannot_go_live(world: make.World, signed_in: Any) -> None:
    response = signed_in(world.publisher).post(f"/i/tiny/releases/{world.inventory.release}/go-live/", {})
    assert response.status_code == 422
    assert "live already" in response.content.decode()


def test_everything_back_is_a_new_release_with_the_old_content(world: make.World, signed_in: Any) -> None:
    old = world.inventory.release
    steps = [Step("add", text="scrap the order I made", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    before = fit.active_version(world.cancel)
    client, address = signed_in(world.publisher), f"/i/tiny/releases/{old}/rollback/"
    assert "2 → 1" in client.get(address).content.decode()
    assert client.post(address, {"reason": ""}).status_code == 422
    response = client.post(address, {"reason": "It fired too often"}, follow=True)
    assert f"has the content of release {old}." in response.content.decode()
    after = fit.active_version(world.cancel)
    assert before is not None
    assert after is not None
    assert (before.number, after.number) == (2, 3)
    assert Release.objects.get(inventory=world.inventory, number=old + 2).reason == "It fired too often"


def test_the_change_card_says_what_who_why_and_when(reviewed: make.World, signed_in: Any) -> None:
    artifacts.edit_artifact(reviewed.change, by=reviewed.by, text="A <b>new</b> text.", mode="always")
    reviewed.inventory.refresh_from_db()
    live, draft = reviewed.inventory.live_release, reviewed.inventory.release
    page = signed_in(reviewed.viewer).get(f"/i/tiny/releases/{live}...{draft}/").content.decode()
    for words in ("Change card", "scrap the order I made", "Asked for by a customer", "A &lt;b&gt;new&lt;/b&gt; text."):
        assert words in page
    assert make.TEXTS["change-order"] in page  # the text before
    assert "always" in page
    assert "No difference." in signed_in(reviewed.viewer).get(f"/i/tiny/releases/{live}...{live}/").content.decode()


def test_a_moved_cut_off_shows_turns_without_new_versions(world: make.World) -> None:
    before = world.inventory.release
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.4)
    found = shown.difference(world.inventory, before, world.inventory.release)
    assert found.diff.theta == (0.0, 0.4)
    assert found.versions == []
    assert found.stopped > 0
    assert found.started == 0
    rows = found.version_rows
    assert sum(row["stopped"] for row in rows if isinstance(row["stopped"], int)) == found.stopped
    assert all(row["before"] is None for row in rows)


def test_which_agent_runs_which_release(world: make.World, signed_in: Any) -> None:
    now = timezone.now()
    for number, (agent, release) in enumerate([("chat", 2), ("chat", world.inventory.release), ("mail", 2)]):
        Discovery.objects.create(
            inventory=world.inventory,
            conversation=f"c-{number}",
            user_turn=0,
            release=release,
            theta=0.0,
            encoder_id="e",
            origin=Origin.LIVE,
            agent=agent,
            at=now - timedelta(minutes=10 - number),
        )
    assert [(row.agent, row.release) for row in shown.agents(world.inventory)] == [
        ("mail", 2),
        ("chat", world.inventory.release),
    ]
    page = signed_in(world.viewer).get(LIST).content.decode()
    assert page.count("not the live one") == 1


def test_changes_of_one_kind_and_release_are_taken_together(world: make.World) -> None:
    found = shown.difference(world.inventory, 1, world.inventory.release)
    assert [
        len(group.rows) for group in grouped(found.changes, at_least=3) if group.first.change.action == "refit"
    ] == [3]
    assert all(len(group.rows) == 1 for group in grouped(found.changes, at_least=99))
    assert sum(len(group.rows) for group in found.groups) == len(found.changes)
