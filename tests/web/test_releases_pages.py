"""Releases: live and draft side by side, approval, going back, the change card, which agent runs what."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.models import Change, Discovery, GoLive, Inventory, Origin, Release, ReleaseActivation
from console.presenters import releases as shown
from console.presenters import words as presented
from console.presenters.changes import grouped
from console.services import artifacts, calibrate, curate, fit, inventories, refitting
from console.services.actor import SYSTEM
from console.services.ingest_artifacts import import_artifacts
from console.services.plan import Step
from sq_core.readers import ArtifactText
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
    assert "Mode: Automatic" in page
    assert "Always on" in page
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


# ----------------------------------------------------------------------------------------------------------------- words
def told(world: make.World, *, technical: bool = False) -> list[str]:
    return [row.what for row in shown.history(world.inventory, technical=technical).rows]


def test_rows_are_sentences_in_plain_words(world: make.World, signed_in: Any) -> None:
    steps = [Step("add", text="scrap the order I made", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    artifacts.edit_artifact(world.refund, by=world.by, mode="always")
    artifacts.edit_artifact(world.refund, by=world.by, name="Refunds")
    artifacts.archive_artifact(world.change, by=world.by)
    artifacts.restore_artifact(world.change, by=world.by)
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.4)
    inventories.update_inventory(world.inventory, by=SYSTEM, expiry={"others": 3}, target_recall=0.8)
    calibrate.calibrate(world.inventory, by=SYSTEM)
    world.inventory.refresh_from_db()
    chosen = inventories.current_point(world.inventory).theta
    assert told(world)[:8] == [
        f"Chose the cut-off (+0.400 → {presented.signed(chosen)})",
        "Changed how it is decided (Switched off: never → after 3 others were newly selected · Share to catch: "
        "90\u00a0% → 80\u00a0%)",
        "Moved the cut-off (0.000 → +0.400)",
        "Brought back from the archive · Change order",
        "Archived · Change order",
        "Renamed · Refunds (Refund status → Refunds)",
        "Changed the mode · Refunds (Automatic → Always on)",
        "Added an example · Cancel order",
    ]
    assert told(world)[8] == "Updated · 3 policies"
    assert told(world, technical=True)[0].startswith("Calibrated θ")
    assert told(world, technical=True)[8] == "Refitted · 3 policies"
    page = signed_in(world.viewer).get(LIST).content.decode()
    assert "θ" not in page.split('id="history"')[1]
    assert "cancel-order: add" not in page
    world.viewer.technical_terms = True
    world.viewer.save()
    assert "Calibrated θ" in signed_in(world.viewer).get(LIST).content.decode()


def test_several_fields_of_one_edit_are_named(world: make.World) -> None:
    artifacts.edit_artifact(world.refund, by=world.by, name="Refunds", text="Ten days.", mode="off")
    artifacts.set_dependencies(world.cancel, by=world.by, requires=["refund-status"], entails=[])
    assert told(world)[:2] == [
        "Changed what comes along · Cancel order (nothing → Refunds)",
        "Edited · Refunds (Name: Refund status → Refunds · Text · Mode: Automatic → Off)",
    ]
    assert told(world)[-1] == "Made the inventory"


def test_the_change_card_shows_the_operating_point_and_what_comes_along(world: make.World, signed_in: Any) -> None:
    before = world.inventory.release
    inventories.update_inventory(
        world.inventory,
        by=SYSTEM,
        theta=0.4,
        pooling="windowed",
        expiry={"others": 1, "turns": 5},
        target_recall=0.8,
    )
    artifacts.set_dependencies(world.cancel, by=world.by, requires=["refund-status"], entails=[])
    curate.apply(world.cancel, [Step("pin", state=world.state("talk-1", 1).pk)], by=world.by, base_version=1)
    world.inventory.refresh_from_db()
    found = shown.difference(world.inventory, before, world.inventory.release)
    assert [str(item) for item in found.point] == [
        "Cut-off of all: 0.000 → +0.400",
        "What of the chat counts: the strongest of the whole chat so far and all messages → "
        "the strongest of the whole chat so far and the newest 3 messages",
        "Switched off: never → after 1 other was newly selected or after 5 messages",
        "Share to catch: 90\u00a0% → 80\u00a0%",
    ]
    plain = signed_in(world.viewer).get(f"/i/tiny/releases/{before}...{world.inventory.release}/").content.decode()
    for said in ("How it is decided", "the newest 3 messages", "Needs beside it: nothing", "Refund status", "came"):
        assert said in plain
    technical = shown.difference(world.inventory, before, world.inventory.release, technical=True)
    assert [str(item) for item in technical.point][:2] == ["θ: 0.000 → +0.400", "Pooling: both → windowed"]
    assert [str(item) for item in technical.settings[0].items] == ["Requires: nothing → Refund status"]


@pytest.mark.parametrize(
    ("record", "words_of_it"),
    [
        ({"mode": "max", "views": ["cumulative"], "age_discount": 0.0}, "the whole chat so far"),
        (
            {"mode": "max", "views": ["user_turns"], "age_discount": 0.1},
            "the strongest of all messages, older messages counting less",
        ),
        (
            {"mode": "mean", "views": ["cumulative", {"last": 1}], "age_discount": 0.0},
            "the mean of the whole chat so far and the newest message",
        ),
    ],
)
def test_pooling_in_plain_words(record: dict[str, Any], words_of_it: str) -> None:
    assert presented.value_words("pooling", record, technical=False) == words_of_it
    strange = {**record, "age_discount": 0.5}
    assert '"age_discount": 0.5' in presented.value_words("pooling", strange, technical=True)


# ------------------------------------------------------------------------------------------------------------------ undo
def undo_of(change: Change) -> str:
    return f"/i/tiny/changes/{change.public_id}/undo/"


def test_an_edit_is_taken_back_from_the_list_and_done_again(world: make.World, signed_in: Any) -> None:
    artifacts.edit_artifact(world.refund, by=world.by, text="Ten <b>days</b>.", mode="always")
    change, client = Change.objects.latest("pk"), signed_in(world.author)
    assert f'href="{undo_of(change)}"' in client.get(LIST).content.decode()
    page = client.get(undo_of(change)).content.decode()
    for said in ("Take back: edited", "Ten &lt;b&gt;days&lt;/b&gt;.", make.TEXTS["refund-status"], "Automatic"):
        assert said in page
    assert Change.objects.latest("pk") == change  # looking changes nothing
    back = client.post(undo_of(change), {"reason": "too soon"})
    assert back["Location"] == LIST
    undone = Change.objects.latest("pk")
    assert (undone.reverts, undone.reason) == (change, "too soon")
    page = client.get(LIST).content.decode()
    assert f"Taken back in release {undone.release.number}." in page
    assert "Taken back: edited · Refund status" in page
    assert f'href="{undo_of(change)}"' not in page  # once
    assert f'href="{undo_of(undone)}" data-undo' in page
    again = client.post(undo_of(change), {})
    assert again.status_code == 409
    assert "taken back already" in again.content.decode()
    client.post(undo_of(undone), {"next": "/i/tiny/policies/refund-status/"})
    assert artifacts.fields_of(world.refund)["mode"] == "always"
    assert "Done again: edited · Refund status" in client.get(LIST).content.decode()


def test_a_moved_cut_off_shows_its_turns_and_takes_a_publisher_back(world: make.World, signed_in: Any) -> None:
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.4)
    change = Change.objects.latest("pk")
    author = signed_in(world.author)
    assert undo_of(change) not in author.get(LIST).content.decode()
    for answer in (author.get(undo_of(change)), author.post(undo_of(change))):
        assert answer.status_code == 403
        assert "paul" in answer.content.decode()
    client = signed_in(world.publisher)
    assert undo_of(change) in client.get(LIST).content.decode()
    page = client.get(undo_of(change)).content.decode()
    assert "Take back: moved the cut-off" in page
    assert "Turns that start" in page
    assert "selections start and stop" in page
    assert "Cut-off of all" in page
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.5)
    for answer in (client.get(undo_of(change)), client.post(undo_of(change))):
        assert answer.status_code == 409
        assert "changed again since" in answer.content.decode()
    client.post(undo_of(Change.objects.latest("pk")))
    assert client.post(undo_of(change)).status_code == 302
    assert inventories.current_point(world.inventory).theta == 0.0


def test_everything_s_going_back_is_taken_back_as_a_whole(world: make.World, signed_in: Any) -> None:
    then = world.inventory.release
    steps = [Step("add", text="scrap the order I made", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    artifacts.edit_artifact(world.refund, by=world.by, mode="always")
    client = signed_in(world.publisher)
    client.post(f"/i/tiny/releases/{then}/rollback/", {"reason": "It fired too often"})
    change = Change.objects.get(action="rollback_all")
    page = client.get(LIST).content.decode()
    assert f"Took everything back (to release {then})" in page
    assert f'href="{undo_of(change)}" data-undo' in page
    page = client.get(undo_of(change)).content.decode()
    assert "Take back: took everything back" in page
    assert "Always on" in page
    assert client.post(undo_of(change)).status_code == 302
    assert artifacts.fields_of(world.refund)["mode"] == "always"
    redone = Change.objects.get(reverts=change)
    assert client.get(LIST).content.decode().count(undo_of(redone)) == 2  # in the result and in its row
    artifacts.edit_artifact(world.refund, by=world.by, mode="off")
    assert f'href="{undo_of(redone)}"' not in client.get(LIST).content.decode()  # something has come after it
    assert client.get(undo_of(redone)).status_code == 409


def test_a_refit_is_taken_back_where_its_version_is_the_newest(world: make.World, signed_in: Any) -> None:
    make.exemplar(world.cancel, "annul it all")
    refitting.refit(world.inventory, by=SYSTEM)
    change = Change.objects.latest("pk")
    versions = "/i/tiny/policies/cancel-order/versions/"
    assert undo_of(change) not in signed_in(world.author).get(versions).content.decode()
    client = signed_in(world.publisher)
    assert undo_of(change) in client.get(versions).content.decode()
    strip = client.get(undo_of(change), headers=HTMX).content.decode()
    assert "Take back: updated" in strip
    assert "<html" not in strip
    assert client.post(undo_of(change), {"next": versions}, headers=HTMX).status_code == 200
    active = fit.active_version(world.cancel)
    assert active is not None
    assert (active.number, active.offset_rule) == (3, "copied")
    assert undo_of(change) not in client.get(versions).content.decode()


def test_several_changes_of_one_kind_are_taken_back_one_by_one_on_the_card(world: make.World, signed_in: Any) -> None:
    rows = [ArtifactText(f"gift-{n}", f"Gift {n}", "Wrapped.") for n in range(5)]
    import_artifacts(world.inventory, rows, by=SYSTEM)
    world.inventory.refresh_from_db()
    number = world.inventory.release
    page = signed_in(world.author).get(f"/i/tiny/releases/{number - 1}...{number}/").content.decode()
    made = list(Change.objects.filter(release__number=number))
    assert len(made) == 5
    assert all(undo_of(change) in page for change in made)
    assert page.count('<span class="badge">new</span>') == 5
    assert "Created · 5 policies" in told(world)
