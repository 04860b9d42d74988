"""Encoder and centre, step by step as a publisher sees it; with and without JavaScript, and for those who may not."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

import sq_core.encoders
from console.models import EncoderMigration, Inventory, MigrationState
from console.services import migrate
from console.services.actor import SYSTEM
from console.services.inventories import update_inventory
from tests import make
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> FakeEncoder:
    fake = FakeEncoder(48, name="other")
    monkeypatch.setitem(sq_core.encoders._built, ("minilm:whole", ()), fake)
    return fake


@pytest.fixture
def publisher(world: make.World) -> Client:
    client = Client()
    client.force_login(world.publisher)
    return client


def url(world: make.World, name: str = "settings-migrations", *args: object) -> str:
    return reverse(name, args=[world.inventory.slug, *args])


def ready(world: make.World) -> EncoderMigration:
    found = migrate.start(world.inventory, by=SYSTEM, encoder="minilm:whole")
    migrate.advance(found, seconds=60)
    found.refresh_from_db()
    assert found.state == MigrationState.READY
    return found


@pytest.mark.parametrize("role", ["viewer", "reviewer", "author"])
def test_others_are_told_who_may(world: make.World, role: str) -> None:
    client = Client()
    client.force_login(world.by_role[role])
    assert client.get(url(world)).status_code == 403
    assert client.post(url(world), {"encoder": "minilm:whole"}).status_code == 403
    assert not EncoderMigration.objects.exists()


def test_a_stranger_sees_nothing(world: make.World, other: FakeEncoder) -> None:
    found = ready(world)
    client = Client()
    client.force_login(world.stranger)
    assert client.get(url(world, "settings-migration", found.public_id)).status_code == 404
    other_slug = reverse("settings-migration", args=[world.others.slug, found.public_id])
    assert client.get(other_slug).status_code == 404


def test_what_it_would_take_before_it_begins(world: make.World, publisher: Client, other: FakeEncoder) -> None:
    page = publisher.get(url(world), {"encoder": "minilm:whole"}).content.decode()
    assert 'id="forecast-facts"' in page
    assert "the packaged encoder runs on this machine" in page
    assert not EncoderMigration.objects.exists()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"encoder": "word2vec", "served_days": "14"}, "There is no encoder"),
        ({"encoder": "minilm:whole", "served_days": "x"}, "Give 0 to 365 days"),
        ({"encoder": "minilm:whole", "served_days": "9" * 50}, "Give 0 to 365 days"),
        ({"encoder": "<script>", "served_days": "1"}, "There is no encoder"),
    ],
)
def test_a_bad_ask_says_what_and_begins_nothing(
    world: make.World, publisher: Client, other: FakeEncoder, data: dict[str, str], text: str
) -> None:
    answer = publisher.post(url(world), data)
    assert answer.status_code == 422
    assert text in answer.content.decode()
    assert "<script>'" not in answer.content.decode()
    assert not EncoderMigration.objects.exists()


def test_from_the_ask_to_the_switch_and_back(
    world: make.World,
    publisher: Client,
    other: FakeEncoder,
) -> None:
    answer = publisher.post(url(world), {"encoder": "minilm:whole", "served_days": "7"})
    found = EncoderMigration.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == url(world, "settings-migration", found.public_id)
    page = publisher.get(answer["Location"])
    assert "every 2s" in page.content.decode()
    migrate.advance(found, seconds=60)
    part = publisher.get(answer["Location"], headers={"HX-Request": "true"}).content.decode()
    assert "every 2s" not in part
    assert "<html" not in part
    assert "See what would change" in part
    page_text = publisher.get(answer["Location"]).content.decode()
    assert 'id="go-table"' in page_text
    assert 'id="flips-table"' in page_text
    act = url(world, "settings-migration-do", found.public_id)
    world.inventory.refresh_from_db()
    data = {"do": "switch", "release": str(world.inventory.release), "reason": "the window is longer", "seen": "yes"}
    assert publisher.post(act, data).status_code == 302
    world.inventory.refresh_from_db()
    assert world.inventory.encoder_id == other.id
    assert "Move back" in publisher.get(answer["Location"]).content.decode()
    world.inventory.refresh_from_db()
    shown = {"do": "back", "release": world.inventory.release}
    assert publisher.post(act, shown | {"reason": ""}).status_code == 422
    update_inventory(world.inventory, by=world.by, theta=0.3)
    assert publisher.post(act, shown | {"reason": "slower"}).status_code == 409  # somebody was faster
    assert publisher.post(act, shown | {"release": world.inventory.release, "reason": "slower"}).status_code == 302
    assert Inventory.objects.get(pk=world.inventory.pk).encoder == "minilm"


def test_against_its_figures_only_with_open_eyes(world: make.World, publisher: Client, other: FakeEncoder) -> None:
    found = ready(world)
    report = dict(found.report or {})
    report["verdict"] = {"go": False, "against": [["recall_falls", -0.25], ["pins_break", 2], ["unfitted", 1]]}
    EncoderMigration.objects.filter(pk=found.pk).update(report=report)
    page = publisher.get(url(world, "settings-migration", found.public_id)).content.decode()
    assert "as much as 25.0 points" in page
    assert "2 pinned turns would be missed" in page
    world.inventory.refresh_from_db()
    data = {"do": "switch", "release": str(world.inventory.release), "reason": "I know better"}
    answer = publisher.post(url(world, "settings-migration-do", found.public_id), data)
    assert answer.status_code == 422
    assert "speak against it" in answer.content.decode()
    found.refresh_from_db()
    assert found.state == MigrationState.READY


def test_a_moved_release_is_a_conflict_with_a_way_out(world: make.World, publisher: Client, other: FakeEncoder) -> None:
    found = ready(world)
    data = {"do": "switch", "release": "1", "reason": "x", "seen": "yes"}
    answer = publisher.post(url(world, "settings-migration-do", found.public_id), data)
    assert answer.status_code == 409
    assert "Look again" in answer.content.decode()


def test_pages_ask_little(
    world: make.World, publisher: Client, other: FakeEncoder, django_assert_max_num_queries: Any
) -> None:
    found = ready(world)
    with django_assert_max_num_queries(12):
        publisher.get(url(world))
    with django_assert_max_num_queries(12):
        publisher.get(url(world, "settings-migration", found.public_id))


def test_a_lost_message_is_called_for_again(world: make.World, other: FakeEncoder) -> None:
    found = migrate.start(world.inventory, by=SYSTEM, encoder="minilm:whole")
    assert migrate.stalled() == []
    EncoderMigration.objects.filter(pk=found.pk).update(touched_at="2026-01-01T00:00:00Z")
    assert migrate.stalled() == [found.pk]
