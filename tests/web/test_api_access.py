"""Who may call what: each operation with each role, strangers, and tokens that no longer hold."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.api.app import api
from console.models import ApiToken, Role
from console.services import accounts
from console.services.actor import SYSTEM
from tests import make
from tests.web.api import ROOT, Api

pytestmark = pytest.mark.django_db

# The contract: renaming an operation or lowering its role is a change of the API.
OPERATIONS = {
    "list_inventories": "viewer",
    "create_inventory": "admin",
    "get_inventory": "viewer",
    "edit_inventory": "publisher",
    "list_artifacts": "viewer",
    "create_artifact": "author",
    "get_artifact": "viewer",
    "edit_artifact": "author",
    "archive_artifact": "author",
    "get_dependencies": "viewer",
    "set_dependencies": "author",
    "list_pins": "viewer",
    "create_pin": "author",
    "delete_pin": "author",
    "list_artifact_changes": "viewer",
    "list_exemplars": "viewer",
    "create_exemplar": "author",
    "get_exemplar": "viewer",
    "preview_changes": "author",
    "promote_exemplar": "author",
    "reject_exemplar": "author",
    "restore_exemplar": "author",
    "pin_exemplar": "author",
    "unpin_exemplar": "author",
    "list_versions": "viewer",
    "get_version": "viewer",
    "diff_versions": "viewer",
    "rollback_version": "publisher",
    "reproduce_version": "viewer",
    "discover": "viewer",
    "post_decisions": "viewer",
    "get_bundle": "viewer",
    "import_conversations": "author",
    "list_conversations": "viewer",
    "get_conversation": "viewer",
    "explain_turn": "viewer",
    "post_judgements": "reviewer",
    "list_judgements": "viewer",
    "list_releases": "viewer",
    "get_release": "viewer",
    "diff_releases": "viewer",
    "go_live": "publisher",
    "rollback_release": "publisher",
    "list_changes": "viewer",
    "revert_change": "author",
    "list_audit_events": "reviewer",
    "create_run": "reviewer",
    "list_runs": "viewer",
    "get_run": "viewer",
    "cancel_run": "reviewer",
    "retry_run": "reviewer",
    "create_upload": "reviewer",
    "preview_revert": "author",
    "list_candidates": "viewer",
    "preview_best_candidates": "author",
    "preview_candidates": "author",
    "decide_candidates": "author",
    "plan_labels": "author",
    "start_label_plan": "author",
}


def operations() -> dict[str, tuple[str, str, str]]:
    """Operation id → method, path filled in for the world's rows, role."""
    filled = {
        "inv": "tiny",
        "key": "cancel-order",
        "exemplar": "222222222222",
        "pin": "222222222222",
        "n": "1",
        "a": "1",
        "b": "2",
    }
    filled |= {"change": "222222222222", "conversation": "talk-1", "run": "222222222222"}
    found = {}
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, operation in methods.items():
            found[operation["operationId"]] = (method.upper(), path.format(**filled), operation["x-role"])
    return found


def test_operation_ids_and_roles_are_the_contract() -> None:
    assert {name: role for name, (_, _, role) in operations().items()} == OPERATIONS


def test_a_role_below_the_one_needed_is_refused_before_anything_is_read(world: make.World) -> None:
    for name, (method, path, needed) in operations().items():
        for role in Role:
            if name == "create_inventory" or role.includes(Role(needed)):
                continue
            reply = Api(world.inventory, role)(method, path, b"{not even JSON")
            assert (reply.status, reply.error["code"]) == (403, "forbidden"), (name, role)
            assert needed in reply.error["message"]
            assert role in reply.error["message"]


def test_the_role_needed_is_let_in(world: make.World) -> None:
    for name, (method, path, needed) in operations().items():
        reply = Api(None if name == "create_inventory" else world.inventory, needed)(method, path, b"{not even JSON")
        assert reply.status not in {401, 403, 500, 503}, (name, reply.json)


def test_a_stranger_finds_nothing(world: make.World) -> None:
    stranger = Api(world.others, Role.ADMIN, slug="tiny")
    for name, (method, path, _) in operations().items():
        if name in {"list_inventories", "create_inventory"}:
            continue
        reply = stranger(method, path, {})
        assert (reply.status, reply.error["field"]) == (404, "inv"), name
        gone = stranger(method, path.replace("/tiny", "/not-there"), {})
        assert gone.error["message"].replace("not-there", "tiny") == reply.error["message"], "they must look the same"


def test_without_a_token_every_call_answers_401(world: make.World) -> None:
    nobody = Api(world.inventory)
    nobody.token = ""
    for name, (method, path, _) in operations().items():
        reply = nobody(method, path, {})
        assert (reply.status, reply.error["code"]) == (401, "unauthenticated"), name
        assert reply.headers["WWW-Authenticate"] == 'Bearer realm="signalbox"'


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic sb_x", "Bearer sb_unknown", "Bearer \x7fé", "sb_x"])
def test_odd_headers_are_no_token(world: make.World, header: str) -> None:
    nobody = Api(world.inventory)
    nobody.token = ""
    assert nobody("GET", "", None, Authorization=header).status == 401


def test_expired_and_revoked_tokens_are_refused_at_once(world: make.World) -> None:
    caller = Api(world.inventory)
    assert caller("GET", "").status == 200
    row = ApiToken.objects.get(digest=ApiToken.digest_of(caller.token))
    ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert caller("GET", "").status == 401
    ApiToken.objects.filter(pk=row.pk).update(expires_at=None)
    assert caller("GET", "").status == 200
    accounts.revoke_token(row, by=SYSTEM)
    assert caller("GET", "").status == 401


def test_the_text_of_a_token_is_nowhere_in_the_database(world: make.World) -> None:
    caller = Api(world.inventory)
    stored = ApiToken.objects.get(digest=ApiToken.digest_of(caller.token))
    assert all(caller.token not in str(value) for value in vars(stored).values())


def test_a_token_of_one_inventory_lists_that_one_only(world: make.World) -> None:
    assert [row["slug"] for row in Api(world.inventory, Role.VIEWER)("GET", ROOT).json["items"]] == ["tiny"]
    assert [row["slug"] for row in Api(None, Role.VIEWER)("GET", ROOT).json["items"]] == ["others", "tiny"]


def test_only_an_admin_of_all_inventories_makes_one(world: make.World) -> None:
    assert Api(world.inventory, Role.ADMIN)("POST", ROOT, {"slug": "new"}).status == 403
    assert Api(None, Role.PUBLISHER)("POST", ROOT, {"slug": "new"}).status == 403
    made = Api(None, Role.ADMIN)("POST", ROOT, {"slug": "new", "name": "New"})
    assert (made.status, made.json["slug"], made.json["centre"]) == (201, "new", None)


def test_theta_of_a_request_takes_a_publisher(world: make.World) -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "please cancel my order"}], "theta": -50.0}
    refused = Api(world.inventory, Role.AUTHOR)("POST", "/discover", body)
    assert (refused.status, refused.error["field"]) == (403, "theta")
    assert len(Api(world.inventory, Role.PUBLISHER)("POST", "/discover", body).json["fired"]) == 3


def test_reverting_a_rollback_takes_a_publisher(world: make.World) -> None:
    publisher = Api(world.inventory, Role.PUBLISHER)
    path = "/artifacts/cancel-order"
    added = publisher("POST", f"{path}/exemplars", {"text": "call it off", "polarity": "signal", "base_version": 1})
    back = publisher("POST", f"{path}/versions/1/rollback", {"base_version": 2, "reason": "worse"}).json
    assert Api(world.inventory, Role.AUTHOR)("POST", f"/changes/{back['change']}/revert", {}).status == 403
    assert publisher("POST", f"/changes/{back['change']}/revert", {}).status == 200
    assert added.status == 201


def test_reverting_takes_the_role_of_the_act(world: make.World) -> None:
    publisher, author = Api(world.inventory, Role.PUBLISHER), Api(world.inventory, Role.AUTHOR)
    publisher("PATCH", "", {"theta": 0.25})
    moved = publisher("GET", "/changes").json["items"][0]["id"]
    assert author("POST", f"/changes/{moved}/revert").status == 403
    back = publisher("POST", f"/changes/{moved}/revert").json["change"]
    assert author("POST", f"/changes/{back}/revert").status == 403
    author("PATCH", "/artifacts/cancel-order", {"mode": "off"})
    edited = author("GET", "/changes").json["items"][0]["id"]
    assert Api(world.inventory, Role.REVIEWER)("POST", f"/changes/{edited}/revert").status == 403
    assert author("POST", f"/changes/{edited}/revert").status == 200
    first = author("GET", "/releases/1").json["changes"][0]["id"]
    assert author("POST", f"/changes/{first}/revert").status == 422, "nobody can, so no role is asked for"


def test_the_actor_of_what_a_token_does_is_the_token(world: make.World) -> None:
    Api(world.inventory, Role.AUTHOR)(
        "PATCH", "/artifacts/cancel-order", {"name": "Calling off"}, X_Request_Id="abcdefgh-1"
    )
    event = Api(world.inventory, Role.REVIEWER)("GET", "/audit?action=artifact.edit").json["items"][0]
    assert (event["actor"], event["request_id"]) == ("token:author token", "abcdefgh-1")
