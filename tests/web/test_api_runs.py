"""Runs over the API: planned, watched, cancelled, retried, each by who may."""

import pytest

from console.models import Role, Run, RunState
from console.services import run_work
from tests.make import World
from tests.web.api import Api


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The workers that were called for, in place of a broker."""
    made: list[int] = []
    monkeypatch.setattr("console.api.runs.wake_run", made.append)
    return made


def test_an_evaluation_is_planned_done_and_read(
    world: World, called: list[int], django_capture_on_commit_callbacks: object
) -> None:
    api = Api(world.inventory, Role.REVIEWER)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        reply = api("POST", "/runs", {"kind": "evaluate", "params": {"protocol": "operating-point"}})
    assert reply.status == 201, reply.json
    assert (reply.json["state"], reply.json["total"], reply.json["left"]) == ("queued", 1, 1)
    assert reply.json["plan"]["params"] == {"protocol": "operating-point", "labels": "as-judged", "encoders": []}
    run = Run.objects.get(public_id=reply.json["id"])
    assert called == [run.pk]
    run_work.work(run.pk)
    read = api("GET", f"/runs/{run.public_id}").json
    assert (read["state"], read["done"], read["left"], read["gaps"]) == ("complete", 1, 0, [])
    assert {row["method"] for row in read["result"]["rows"]} >= {"cosine-text", "sq-generated"}
    assert [row["id"] for row in api("GET", "/runs").json["items"]] == [run.public_id]
    assert api("GET", "/runs?kind=judge").json["items"] == []
    assert (
        len(api("GET", "/runs?f=kind:is:evaluate").json["items"])
        == len(api("GET", "/runs?f=not.kind:is:judge").json["items"])
        > 0
    )
    assert api("GET", "/runs?f=nonsense").status == 422


def test_each_kind_asks_for_its_role_and_only_its_inventory_has_it(world: World) -> None:
    assert Api(world.inventory, Role.VIEWER)("POST", "/runs", {"kind": "evaluate"}).status == 403
    refused = Api(world.inventory, Role.AUTHOR)("POST", "/runs", {"kind": "calibrate"})
    assert (refused.status, refused.error["field"]) == (403, "kind")
    made = Api(world.inventory, Role.PUBLISHER)("POST", "/runs", {"kind": "calibrate"})
    assert made.status == 201
    run = made.json["id"]
    assert Api(world.others)("GET", f"/runs/{run}").status == 404
    assert Api(world.inventory, Role.AUTHOR)("POST", f"/runs/{run}/cancel").status == 403
    cancelled = Api(world.inventory, Role.PUBLISHER)("POST", f"/runs/{run}/cancel")
    assert (cancelled.status, cancelled.json["state"]) == (200, "cancelled")
    again = Api(world.inventory, Role.PUBLISHER)("POST", f"/runs/{run}/cancel")
    assert (again.status, again.error["code"]) == (409, "conflict")
    assert Api(world.inventory, Role.PUBLISHER)("POST", f"/runs/{run}/retry").status == 409
    assert Run.objects.get(public_id=run).state == RunState.CANCELLED


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "dance"}, "kind"),
        ({"kind": "evaluate", "scope": []}, "scope"),
        ({"kind": "evaluate", "params": {"protocol": "tea leaves"}}, "params.protocol"),
        ({"kind": "evaluate", "params": {"what": 1}}, "params.what"),
        ({"kind": "evaluate", "cap": {"tokens": 0}}, "cap.tokens"),
        ({"kind": "score", "params": {"release": 10**9}}, "params.release"),
        ({"kind": "score", "scope": {"conversations": "talk-1"}}, "scope.conversations"),
    ],
)
def test_impossible_runs_name_their_field(world: World, body: dict[str, object], field: str) -> None:
    reply = Api(world.inventory)("POST", "/runs", body)
    assert (reply.status, reply.error["field"]) == (422, field)
    assert not Run.objects.exists()
