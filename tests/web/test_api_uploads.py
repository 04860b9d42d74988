"""Large files over the API: uploaded as a stream, imported by a run, each by who may."""

import gzip
import json
from typing import Any

import pytest

from console.models import Conversation, Judgement, Role, Run, Upload
from console.services import run_work
from tests.make import World
from tests.web.api import ROOT, Api

TALK = json.dumps({"id": "new-1", "messages": [{"role": "user", "content": "hello"}]}).encode()


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    monkeypatch.setattr("console.api.runs.wake_run", made.append)
    return made


def upload(api: Api, data: bytes, query: str = "?name=talks.jsonl", **headers: str) -> Any:
    return api("POST", f"/uploads{query}", data, **headers)


def test_a_file_is_uploaded_imported_and_reported(
    world: World, called: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    api = Api(world.inventory, Role.AUTHOR)
    reply = upload(api, gzip.compress(TALK + b"\n{}\n", mtime=0), "?name=talks.jsonl.gz")
    assert reply.status == 201, reply.json
    assert reply.json["guess"] == {
        "what": "conversations", "format": "jsonl", "encoding": "utf-8", "gzip": True, "lines": 2,
        "fields": ["id", "messages"],
    }  # fmt: skip
    assert (reply.json["name"], reply.json["new"], reply.json["kept_days"]) == ("talks.jsonl.gz", True, 7)
    body = {"kind": "import", "params": {"what": "conversations", "upload": reply.json["id"]}}
    with django_capture_on_commit_callbacks(execute=True):
        made = api("POST", "/runs", body)
    assert (made.status, made.json["total"], made.json["state"]) == (201, 1, "queued")
    run = Run.objects.get()
    assert called == [run.pk]
    run_work.work(run.pk)
    read = api("GET", f"/runs/{run.public_id}").json
    assert (read["state"], read["done"], read["gaps"]) == ("complete", 1, [])
    assert {name: read["result"][name] for name in ("read", "stored", "rejected")} == {
        "read": 2, "stored": 1, "rejected": 1,
    }  # fmt: skip
    assert read["result"]["errors"][0]["file"] == "talks.jsonl"
    assert Conversation.objects.filter(external_id="new-1").exists()
    assert [row["id"] for row in api("GET", "/runs?kind=import").json["items"]] == [run.public_id]


def test_the_same_file_again_is_the_same_upload(world: World) -> None:
    api = Api(world.inventory, Role.AUTHOR)
    first, again = upload(api, TALK).json, upload(api, TALK, "?name=else.jsonl").json
    assert (again["id"], again["name"], again["new"]) == (first["id"], "talks.jsonl", False)
    assert upload(Api(world.others), TALK).json["id"] != first["id"]


def test_a_name_may_come_in_a_header(world: World) -> None:
    api = Api(world.inventory, Role.AUTHOR)
    assert upload(api, TALK, "", X_File_Name="M%C3%A4rz.jsonl").json["name"] == "März.jsonl"
    assert upload(api, TALK + b" ", "").json["name"] == "upload.jsonl"


def test_beyond_the_limit_is_413_whether_it_is_said_or_found(world: World, settings: Any) -> None:
    settings.UPLOAD_LIMIT = 2 * 1024 * 1024
    api = Api(world.inventory, Role.AUTHOR)
    refused = upload(api, b"x" * (2 * 1024 * 1024 + 1))
    assert (refused.status, refused.error["code"]) == (413, "too_large")
    assert "2 MB" in refused.error["message"]
    assert upload(api, TALK * 18_000).status == 201  # more than the megabyte that other calls take
    settings.UPLOAD_LIMIT = 100_000
    bomb = upload(api, gzip.compress(b"\0" * 1_000_001))
    assert (bomb.status, bomb.error["code"]) == (413, "too_large")
    assert Upload.objects.count() == 1


@pytest.mark.parametrize(
    ("data", "said"), [(b"", "is empty"), (gzip.compress(TALK, mtime=0)[:-5], "ends early")], ids=["empty", "cut"]
)
def test_what_is_no_file_is_422(world: World, data: bytes, said: str) -> None:
    refused = upload(Api(world.inventory, Role.AUTHOR), data)
    assert (refused.status, refused.error["field"]) == (422, "file")
    assert said in refused.error["message"]


def test_roles(world: World) -> None:
    reviewer, author = (Api(world.inventory, role) for role in (Role.REVIEWER, Role.AUTHOR))
    row = {"conversation": "talk-1", "user_turn": 0, "judge": "human:rob", "scores": {"cancel-order": 2}}
    file = upload(reviewer, json.dumps(row).encode(), "?name=labels.jsonl").json
    assert file["guess"]["what"] == "judgements"
    refused = reviewer("POST", "/runs", {"kind": "import", "params": {"what": "conversations", "upload": file["id"]}})
    assert (refused.status, refused.error["field"]) == (403, "kind")
    assert reviewer("POST", "/runs", {"kind": "import"}).status == 403  # what it would be is not said
    made = reviewer("POST", "/runs", {"kind": "import", "params": {"what": "judgements", "upload": file["id"]}})
    assert made.status == 201
    run_work.work(Run.objects.get().pk)
    assert Judgement.objects.get(judge__name="human:rob").by == "token:reviewer token"
    other = author("POST", "/runs", {"kind": "import", "params": {"what": "artifacts", "upload": file["id"]}}).json
    assert reviewer("POST", f"/runs/{other['id']}/cancel").status == 403
    assert author("POST", f"/runs/{other['id']}/cancel").status == 200
    assert Api(world.inventory, Role.VIEWER)("POST", "/uploads", TALK).status == 403
    assert Api(world.others)("POST", f"{ROOT}/tiny/uploads", TALK).status == 404


def test_impossible_imports_name_their_field(world: World) -> None:
    api = Api(world.inventory, Role.AUTHOR)
    unknown = api("POST", "/runs", {"kind": "import", "params": {"what": "artifacts", "upload": "x" * 90}})
    assert (unknown.status, unknown.error["field"]) == (422, "params.upload")
    nothing = api("POST", "/runs", {"kind": "import", "params": {}})
    assert (nothing.status, nothing.error["field"]) == (422, "params.what")
