"""Inventories, artifacts, dependencies and pins through the API."""

import pytest

from console.models import Artifact, ClassifierVersion, Inventory, Release, Role
from tests import make
from tests.web.api import ROOT, Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def author(world: make.World) -> Api:
    return Api(world.inventory, Role.AUTHOR)


@pytest.fixture
def publisher(world: make.World) -> Api:
    return Api(world.inventory, Role.PUBLISHER)


# ----------------------------------------------------------------------------------------------------------- inventories
def test_an_inventory_shows_its_operating_point(author: Api) -> None:
    row = author("GET", "").json
    assert row["slug"] == "tiny"
    assert (row["theta"], row["calibrated"], row["go_live"], row["target_recall"]) == (0.0, False, "at_once", 0.9)
    assert row["centre"]["artifacts"] == 3
    assert row["release"] == row["live_release"] == 6
    assert row["expiry"] == {"others": None, "turns": None}


def test_theta_and_expiry_make_a_release_and_a_name_does_not(publisher: Api) -> None:
    changed = publisher("PATCH", "", {"theta": 0.5, "expiry": {"others": 3}, "reason": "fewer extras"}).json
    assert (changed["theta"], changed["expiry"], changed["release"]) == (0.5, {"others": 3, "turns": None}, 7)
    named = publisher("PATCH", "", {"name": "Shop"}).json
    assert (named["name"], named["release"]) == ("Shop", 7)
    assert publisher("PATCH", "", {"pooling": "cumulative"}).json["pooling"]["views"] == ["cumulative"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"theta": "0.5"}, "theta"),
        ({"theta": 1001}, "theta"),
        ({"target_recall": 0}, "target_recall"),
        ({"pooling": "loudest"}, "pooling"),
        ({"pooling": {"mode": "median"}}, "pooling"),
        ({"expiry": {"others": 0}}, "expiry.others"),
        ({"expiry": {"hours": 1}}, "expiry.hours"),
        ({"encoder": "openai:x"}, "encoder"),
        ({"go_live": "never"}, "go_live"),
        ({"name": "   "}, "name"),
    ],
)
def test_what_an_inventory_refuses(publisher: Api, body: dict[str, object], field: str) -> None:
    reply = publisher("PATCH", "", body)
    assert (reply.status, reply.error["field"]) == (422, field)
    assert publisher("GET", "").json["release"] == 6


def test_a_slug_is_taken_once(world: make.World) -> None:
    admin = Api(None)
    assert admin("POST", ROOT, {"slug": "tiny"}).error["field"] == "slug"
    assert admin("POST", ROOT, {"slug": "x", "encoder": "word2vec"}).error["field"] == "encoder"
    assert not Inventory.objects.filter(slug="x").exists()


# ------------------------------------------------------------------------------------------------------------- artifacts
def test_a_new_artifact_with_both_sides_has_its_version_at_once(author: Api) -> None:
    body = {
        "key": "gift-wrap",
        "name": "Gift wrap",
        "text": "Wrapping costs two euros.",
        "signals": ["wrap it as a gift"],
    }
    made = author("POST", "/artifacts", {**body, "anti_signals": ["wrap up this chat"]})
    assert made.status == 201
    assert (made.json["active_version"], made.json["counts"]) == (
        1,
        {"signals": 1, "anti_signals": 1, "candidates": 0, "pins": 0},
    )
    one_side = author("POST", "/artifacts", {**body, "key": "one-side"}).json
    assert one_side["active_version"] is None
    shown = author("POST", "/discover", {"messages": [{"role": "user", "content": "hello"}]}).json["fired"]
    assert ("one-side", "unfitted") in [(f["artifact"], f["reason"]) for f in shown]
    assert author("POST", "/artifacts", body | {"key": "gift-wrap"}).error["field"] == "key"


def test_adding_an_artifact_changes_no_other_weights(author: Api) -> None:
    before = dict(ClassifierVersion.objects.values_list("artifact__key", "weight_hash"))
    body = {"key": "gift-wrap", "name": "Gift wrap", "text": "x", "signals": ["wrap it"], "anti_signals": ["no thanks"]}
    assert author("POST", "/artifacts", body).status == 201
    after = dict(
        ClassifierVersion.objects.exclude(artifact__key="gift-wrap").values_list("artifact__key", "weight_hash")
    )
    assert after == before


def test_edit_keeps_revisions_and_refuses_a_stale_one(author: Api) -> None:
    edited = author("PATCH", "/artifacts/cancel-order", {"text": "Until it has left.", "base_text": 1}).json
    assert (edited["text"], edited["text_revision"]) == ("Until it has left.", 2)
    stale = author("PATCH", "/artifacts/cancel-order", {"text": "Another.", "base_text": 1})
    assert (stale.status, stale.error["base_version"], stale.error["current_version"]) == (409, 1, 2)
    assert stale.error["made_by"] == "token:author token"


def test_null_leaves_a_field_as_it_is(author: Api) -> None:
    body = {"name": "Calling off", "text": None, "mode": None, "status": None, "fit_set": None, "base_text": None}
    edited = author("PATCH", "/artifacts/cancel-order", body)
    assert (edited.status, edited.json["name"], edited.json["text"]) == (200, "Calling off", make.TEXTS["cancel-order"])
    assert author("PATCH", "/artifacts/cancel-order", {}).json == edited.json


def test_archive_and_back(author: Api) -> None:
    gone = author("DELETE", "/artifacts/cancel-order?reason=old")
    assert (gone.status, gone.json["status"]) == (200, "archived")
    assert [row["key"] for row in author("GET", "/artifacts").json["items"]] == ["change-order", "refund-status"]
    said = {"messages": [{"role": "user", "content": "please cancel my order"}]}
    assert "cancel-order" not in [f["artifact"] for f in author("POST", "/discover", said).json["fired"]]
    assert author("PATCH", "/artifacts/cancel-order", {"status": "active"}).json["status"] == "active"
    assert "cancel-order" in [f["artifact"] for f in author("POST", "/discover", said).json["fired"]]
    assert Artifact.objects.count() == 3


def test_status_and_fit_set_come_alone(author: Api) -> None:
    for body, field in (
        ({"status": "archived", "name": "x"}, "status"),
        ({"fit_set": "mixed", "text": "x", "base_version": 1}, "fit_set"),
        ({"fit_set": "mixed"}, "base_version"),
        ({"mode": "sometimes"}, "mode"),
        ({"kind": "skill"}, "kind"),
    ):
        reply = author("PATCH", "/artifacts/cancel-order", body)
        assert (reply.status, reply.error["field"]) == (422, field)
    changed = author("PATCH", "/artifacts/cancel-order", {"fit_set": "mixed", "base_version": 1}).json
    assert changed["fit_set"] == "mixed"
    assert author("PATCH", "/artifacts/cancel-order", {"fit_set": "mined", "base_version": 7}).status == 409


def test_modes(author: Api) -> None:
    said = {"messages": [{"role": "user", "content": "please cancel my order"}]}
    author("PATCH", "/artifacts/refund-status", {"mode": "always"})
    author("PATCH", "/artifacts/cancel-order", {"mode": "off"})
    fired = {f["artifact"]: f for f in author("POST", "/discover", said).json["fired"]}
    assert fired["refund-status"]["reason"] == "always"
    assert "cancel-order" not in fired


# ---------------------------------------------------------------------------------------------------------- dependencies
def test_dependencies_and_their_cycles(author: Api) -> None:
    path = "/artifacts/cancel-order/dependencies"
    assert author("PUT", path, {"requires": ["refund-status"]}).json == {"requires": ["refund-status"], "entails": []}
    said = {"messages": [{"role": "user", "content": "please cancel my order"}]}
    fired = {f["artifact"]: f for f in author("POST", "/discover", said).json["fired"]}
    assert (fired["refund-status"]["reason"], fired["refund-status"]["via"]) == ("dependency", "cancel-order")
    cycle = author("PUT", "/artifacts/refund-status/dependencies", {"entails": ["cancel-order"]})
    assert cycle.status == 422
    assert "refund-status → cancel-order → refund-status" in cycle.error["message"]
    unknown = author("PUT", path, {"requires": ["nobody"]})
    assert (unknown.status, unknown.error["field"]) == (422, "requires")
    assert author("GET", path).json == {"requires": ["refund-status"], "entails": []}


# ------------------------------------------------------------------------------------------------------------------ pins
def test_a_pin_is_made_listed_and_taken_away(author: Api) -> None:
    path = "/artifacts/refund-status/pins"
    made = author("POST", path, {"conversation": "talk-4", "user_turn": 0, "bound": 0.99, "reason": "must be there"})
    assert made.status == 201
    pin = made.json["pin"]
    assert (pin["turn"], pin["bound"], pin["text"]) == (
        {"conversation": "talk-4", "user_turn": 0},
        0.99,
        "do you have a green lamp",
    )
    assert author("GET", path).json["items"] == [pin]
    said = {"messages": [{"role": "user", "content": "do you have a green lamp"}]}
    fired = {f["artifact"]: f for f in author("POST", "/discover", said).json["fired"]}
    assert (fired["refund-status"]["reason"], fired["refund-status"]["pin"]) == ("pin", pin["id"])
    assert author("POST", path, {"conversation": "talk-4", "user_turn": 0}).status == 422, "pinned already"
    gone = author("DELETE", f"{path}/{pin['id']}")
    assert (gone.status, gone.json["version"]) == (200, 1)
    assert author("GET", path).json["items"] == []
    assert author("DELETE", f"{path}/{pin['id']}").status == 404


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"conversation": "nobody", "user_turn": 0}, 404, "conversation"),
        ({"conversation": "talk-4", "user_turn": 9}, 404, "user_turn"),
        ({"conversation": "talk-4", "user_turn": -1}, 422, "user_turn"),
        ({"conversation": "talk-4", "user_turn": 0, "bound": 0}, 422, "bound"),
        ({"conversation": "talk-4", "user_turn": 0, "bound": 1.5}, 422, "bound"),
        ({"user_turn": 0}, 422, "conversation"),
    ],
)
def test_what_a_pin_refuses(author: Api, body: dict[str, object], status: int, field: str) -> None:
    releases = Release.objects.count()
    reply = author("POST", "/artifacts/refund-status/pins", body)
    assert (reply.status, reply.error["field"]) == (status, field)
    assert Release.objects.count() == releases


def test_a_conversation_is_found_by_its_public_id_too(world: make.World, author: Api) -> None:
    public = world.talks["talk-4"].public_id
    made = author("POST", "/artifacts/refund-status/pins", {"conversation": public, "user_turn": 0}).json
    assert made["pin"]["turn"]["conversation"] == "talk-4"
    assert author("GET", f"/conversations/{public}").json["id"] == "talk-4"
