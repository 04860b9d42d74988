"""Lists come in pieces with a total order: nothing twice, nothing left out, and a cursor belongs to its list."""

import base64
import json

import pytest

from console.models import Role
from tests import make
from tests.web.api import ROOT, Api

pytestmark = pytest.mark.django_db

LISTS = {
    "/api/v1/inventories": "slug",
    "/artifacts": "key",
    "/artifacts/cancel-order/exemplars": "id",
    "/artifacts/cancel-order/versions": "number",
    "/artifacts/cancel-order/changes": "id",
    "/artifacts/cancel-order/pins": "id",
    "/releases": "number",
    "/changes": "id",
    "/conversations": "id",
    "/judgements": "at",
    "/audit": "id",
}


@pytest.fixture
def admin(world: make.World) -> Api:
    api = Api(None)
    for turn, talk in ((1, "talk-1"), (1, "talk-2"), (0, "talk-5")):
        assert api("POST", "/artifacts/cancel-order/pins", {"conversation": talk, "user_turn": turn}).status == 201
    added = {"text": "stop the parcel", "polarity": "signal", "base_version": 1}
    assert api("POST", "/artifacts/cancel-order/exemplars", added).status == 201
    return api


@pytest.mark.parametrize("path", LISTS)
def test_pieces_add_up_to_the_whole(admin: Api, path: str) -> None:
    whole = admin("GET", f"{path}?limit=200").json
    assert whole["next"] is None
    assert len(whole["items"]) >= 2
    pieces, after, size = [], "", 2 if len(whole["items"]) > 2 else 1
    while True:
        piece = admin("GET", f"{path}?limit={size}{after}").json
        assert len(piece["items"]) <= size
        pieces += piece["items"]
        if piece["next"] is None:
            break
        after = f"&after={piece['next']}"
    assert pieces == whole["items"]


def test_a_row_added_meanwhile_does_not_shift_the_pages(admin: Api) -> None:
    first = admin("GET", "/conversations?limit=2").json
    admin("POST", "/conversations", {"id": "late", "messages": [{"role": "user", "content": "hello"}]})
    second = admin("GET", f"/conversations?limit=2&after={first['next']}").json
    assert [row["id"] for row in first["items"] + second["items"]] == ["talk-5", "talk-4", "talk-3", "talk-2"]


def cursor(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "bad",
    [
        "x", "%C3%A9", "a" * 601, "a" * 599, cursor(), cursor("-id"), cursor("-id", "text"), cursor("-id", True),
        cursor("-id", None), cursor("-id", 2**70), cursor("-id", 1.5), cursor("-number", 3), cursor("id", 3), cursor("-id", 1, 2),
        cursor([["-id"]], 3), base64.urlsafe_b64encode(b"[" * 400).decode(), base64.urlsafe_b64encode(b"{}").decode(),
    ],
)  # fmt: skip
def test_a_bad_cursor_is_refused_with_its_field(admin: Api, bad: str) -> None:
    reply = admin("GET", f"/audit?after={bad}")
    assert (reply.status, reply.error["field"]) == (422, "after")


def test_a_cursor_of_text_is_checked_too(admin: Api) -> None:
    for bad in (cursor("slug", 3), cursor("slug", "a\0"), cursor("slug", "\ud800")):
        assert admin("GET", f"{ROOT}?after={bad}").status == 422
    assert [row["slug"] for row in admin("GET", f"{ROOT}?after={cursor('slug', 'p')}").json["items"]] == ["tiny"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/artifacts?q=refund", ["refund-status"]),
        ("/artifacts?q=WAREHOUSE", ["cancel-order", "change-order"]),
        ("/artifacts?kind=skill", []),
        ("/artifacts?mode=auto&limit=1", ["cancel-order"]),
        ("/artifacts?status=archived", []),
        ("/artifacts?status=all&q=order", ["cancel-order", "change-order"]),
        ("/conversations?q=green", ["talk-4"]),
        ("/conversations?q=talk-3", ["talk-3"]),
        ("/conversations?channel=phone", []),
        ("/conversations?scenario=talk-1", ["talk-1"]),
        ("/conversations?addresses_judge=true", []),
        ("/conversations?since=2020-01-01T00:00:00Z", []),
    ],
)
def test_filters(admin: Api, path: str, found: list[str]) -> None:
    assert [row.get("key") or row["id"] for row in admin("GET", path).json["items"]] == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/conversations?f=turns:gte:3", ["talk-2", "talk-1"]),
        ("/conversations?f=turns:gte:3&f=or.scenario:is:talk-4&f=not.scenario:is:talk-2", ["talk-4", "talk-1"]),
        ("/conversations?q=green+lam", ["talk-4"]),
        ("/artifacts?f=mode:is:auto&f=key:has:order", ["cancel-order", "change-order"]),
        ("/artifacts?f=not.key:is:cancel-order&limit=1", ["change-order"]),
    ],
)
def test_conditions_are_those_of_the_console(admin: Api, path: str, found: list[str]) -> None:
    items = admin("GET", path).json["items"]
    assert [row.get("key", row.get("id")) for row in items] == found


@pytest.mark.parametrize("path", ["/conversations", "/artifacts"])
def test_a_condition_that_cannot_be_read_is_refused(admin: Api, path: str) -> None:
    answer = admin("GET", f"{path}?f=colour:is:red")
    assert answer.status == 422
    assert answer.error["field"] == "f"
    assert "no field colour" in answer.error["message"]
    assert admin("GET", path + "?" + "&".join(["f=turns:gte:1"] * 21)).status == 422


def test_filters_of_exemplars_judgements_and_audit(admin: Api) -> None:
    signals = admin("GET", "/artifacts/cancel-order/exemplars?polarity=signal&status=promoted&source=written").json[
        "items"
    ]
    assert len(signals) == 5
    assert {row["polarity"] for row in signals} == {"signal"}
    judged = admin(
        "GET", "/judgements?conversation=talk-1&user_turn=1&artifact=cancel-order&judge=tiny-judge&kind=model&score=5"
    )
    assert [(row["conversation"], row["user_turn"], row["score"]) for row in judged.json["items"]] == [("talk-1", 1, 5)]
    assert admin("GET", "/judgements?kind=human").json["items"] == []
    assert admin("GET", "/judgements?conversation=nobody").status == 404
    pins = admin(
        "GET", "/audit?action=exemplar.add&actor=token:admin token&object=exemplar&since=2020-01-01T00:00:00Z"
    ).json
    assert [row["action"] for row in pins["items"]] == ["exemplar.add"]
    assert len(admin("GET", "/audit?action=exemplar").json["items"]) == 1, (
        "the first part of an action finds all of them"
    )
    assert admin("GET", "/audit?until=2020-01-01T00:00:00Z").json["items"] == []


def test_nobody_else_s_rows(world: make.World, admin: Api) -> None:
    for path in ("/artifacts", "/conversations", "/judgements", "/changes"):
        rows = Api(world.others, Role.ADMIN)("GET", path).json["items"]
        assert all(row.get("object_type") == "inventory" for row in rows), path
