"""Conversations, the Why answer and judgements through the API."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from console import tasks
from console.models import Conversation, Judgement, Role
from tests import make
from tests.web.api import Api

pytestmark = pytest.mark.django_db
ONE = {"id": "new-1", "messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]}


@pytest.fixture
def author(world: make.World) -> Api:
    return Api(world.inventory, Role.AUTHOR)


def lines(*rows: Any) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


@pytest.mark.parametrize(
    "body",
    [
        lines(ONE),
        json.dumps(ONE, indent=1).encode(),
        json.dumps([ONE]).encode(),
        b"\xef\xbb\xbf" + lines(ONE),
        lines(ONE).decode().encode("utf-16"),
    ],
)
def test_one_object_an_array_or_lines(author: Api, body: bytes) -> None:
    report = author("POST", "/conversations", body)
    assert (report.status, report.json["stored"], report.json["errors"]) == (200, 1, [])
    assert author("GET", "/conversations/new-1").json["user_turns"] == 1


def test_good_rows_are_kept_and_bad_ones_listed(author: Api) -> None:
    other = {"id": "talk-1", "messages": [{"role": "user", "content": "not what it was"}]}
    bad = {"id": "new-2", "messages": [{"role": "robot", "content": "x"}]}
    report = author("POST", "/conversations", lines(ONE, ONE, other, bad) + b"\n{oops\n[1]").json
    assert (report["stored"], report["duplicates"], report["rejected"]) == (1, 1, 4)
    assert [(error["line"], error["field"]) for error in report["errors"]] == [
        (3, "messages[0]"), (4, "messages[0].role"), (5, ""), (6, ""),
    ]  # fmt: skip
    assert all(error["message"] and error["mend"] for error in report["errors"])
    assert author("POST", "/conversations", lines(ONE)).json["duplicates"] == 1
    grown = {**ONE, "messages": [*ONE["messages"], {"role": "user", "content": "bye"}]}  # type: ignore[misc]
    assert author("POST", "/conversations", lines(grown)).json["grown"] == 1


@pytest.mark.parametrize("depth", [101, 400, 600, 900, 100_000])
def test_a_deeply_nested_row_is_an_error_and_the_others_are_stored(author: Api, depth: int) -> None:
    deep = b'{"a": ' * depth + b"1" + b"}" * depth
    talk = b'"messages": [{"role": "user", "content": "x"}]'
    body = lines(ONE) + b'\n{"id": "deep", "metadata": ' + deep + b", " + talk + b'}\n{"id": "after", ' + talk + b"}"
    report = author("POST", "/conversations", body).json
    assert (report["stored"], report["rejected"], report["errors"][0]["line"]) == (2, 1, 2)
    assert report["errors"][0]["field"] in (
        ["metadata"] if depth < 500 else ["metadata", ""]
    )  # "": no parser got through


@pytest.mark.parametrize(
    ("body", "field"), [(b"", None), (b"{oops", None), (b"[]", None), (lines({"id": "x"}), "messages")]
)
def test_nothing_readable_is_an_error(author: Api, body: bytes, field: str | None) -> None:
    before = Conversation.objects.count()
    reply = author("POST", "/conversations", body)
    assert (reply.status, reply.error.get("field")) == (422, field)
    assert Conversation.objects.count() == before


def test_vectors_are_made_after_the_import(
    author: Api,
    world: make.World,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(tasks.embed_pending, "delay", asked.append)
    with django_capture_on_commit_callbacks(execute=True):
        author("POST", "/conversations", lines(ONE))
        author("POST", "/conversations", lines(ONE))
    assert asked == [world.inventory.pk], "a second import of the same file adds nothing"


def test_an_import_stands_when_no_worker_can_be_woken(
    author: Api, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    def away(_: int) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr(tasks.embed_pending, "delay", away)
    with django_capture_on_commit_callbacks(execute=True):
        reply = author("POST", "/conversations", lines(ONE))
    assert reply.status == 200


def test_a_conversation_with_its_turns(author: Api) -> None:
    calls = [{"id": "c1", "name": "find", "arguments": {"code": "X"}}]
    said = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "find X", "at": "2026-03-02T16:04:11Z"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "none", "call_id": "c1"},
        {"role": "user", "content": "never mind"},
    ]
    author("POST", "/conversations", lines({"id": "a b&c", "channel": "web", "customer": "kim", "messages": said}))
    row = author("GET", "/conversations/a%20b&c").json
    assert (row["channel"], row["customer"], row["scenario"]) == ("web", "kim", "a b&c")
    assert [message["user_turn"] for message in row["messages"]] == [None, 0, None, None, 1]
    assert [bool(message["prefix_digest"]) for message in row["messages"]] == [False, True, False, False, True]
    assert row["messages"][2]["tool_calls"] == [{"id": "c1", "name": "find", "arguments": '{"code":"X"}'}]
    assert row["messages"][1]["at"] == "2026-03-02T16:04:11Z"
    assert author("GET", "/conversations/nobody").status == 404


@pytest.mark.parametrize(
    "name", ["a/b", "2026/03/talk 1", "https://crm.example/c/7", "x/turns/0/why", "/a//b/", "..", ".", "a\nb"]
)
def test_an_id_with_slashes_is_read_by_itself(author: Api, name: str) -> None:
    said = [{"role": "user", "content": "cancel my order please"}]
    author("POST", "/conversations", lines({"id": name, "messages": said}))
    for written in {name.replace("\n", "%0A"), quote(name, safe="")}:
        assert author("GET", f"/conversations/{written}").json["id"] == name
        assert author("GET", f"/conversations/{written}/turns/0/why/cancel-order").json["conversation"] == name


def test_page_and_call_find_the_same_conversation_by_a_name_that_two_have(
    world: make.World, author: Api, signed_in: Any
) -> None:
    victim = world.talks["talk-1"]
    said = [{"role": "user", "content": "not the one"}]
    author("POST", "/conversations", lines({"id": victim.public_id, "messages": said}))
    assert author("GET", f"/conversations/{victim.public_id}").json["id"] == "talk-1"
    page = signed_in(world.viewer).get(f"/i/tiny/conversations/{victim.public_id}/").content.decode()
    assert "not the one" not in page


# ------------------------------------------------------------------------------------------------------------------- why
def test_why_adds_up(author: Api) -> None:
    why = author("GET", "/conversations/talk-1/turns/1/why/cancel-order").json
    assert (why["fired"], why["reason"], why["origin"], why["version"]) == (True, "classifier", "recomputed", 1)
    assert sum(term["value"] for term in why["terms"]) + why["bias"] == pytest.approx(why["margin"], abs=1e-6)
    assert max(view["value"] for view in why["views"]) == pytest.approx(why["margin"], abs=1e-6)
    assert [(w["judge"], w["score"]) for w in why["witnesses"]] == [(make.JUDGE, 5)]


def test_why_agrees_with_discover(author: Api) -> None:
    stored = author("GET", "/conversations/talk-2").json["messages"]
    messages = [{"role": m["role"], "content": m["content"]} for m in stored]
    fired = {f["artifact"]: f for f in author("POST", "/discover", {"messages": messages}).json["fired"]}
    for key in make.TEXTS:
        why = author("GET", f"/conversations/talk-2/turns/2/why/{key}").json
        assert why["fired"] == (key in fired)
        if why["fired"]:
            assert (why["margin"], why["cutoff"]) == (fired[key]["margin"], fired[key]["cutoff"])


def test_why_as_it_was(author: Api) -> None:
    path = "/conversations/talk-1/turns/1/why/cancel-order"
    before = author("GET", path).json
    author("POST", "/artifacts/cancel-order/exemplars", {"text": "stop it", "polarity": "signal", "base_version": 1})
    assert author("GET", path).json["version"] == 2
    assert author("GET", f"{path}?release=6").json["margin"] == before["margin"]
    moment = author("GET", "/releases/6").json["at"]
    # the API prints milliseconds; the release was made within this one
    assert author("GET", f"{path}?as_of={moment.replace('Z', '999Z')}").json["release"] == 6
    assert author("GET", f"{path}?as_of=2001-01-01T00:00:00Z").status == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/conversations/nobody/turns/0/why/cancel-order", 404),
        ("/conversations/talk-1/turns/9/why/cancel-order", 404),
        ("/conversations/talk-1/turns/x/why/cancel-order", 404),
        ("/conversations/talk-1/turns/0/why/nobody", 404),
        ("/conversations/talk-1/turns/0/why/cancel-order?release=99", 404),
        ("/conversations/talk-1/turns/0/why/cancel-order?release=soon", 422),
        ("/conversations/talk-1/turns/0/why/cancel-order?as_of=2026-01-01T00:00:00", 422),
    ],
)
def test_why_of_what_is_not_there(author: Api, path: str, status: int) -> None:
    assert author("GET", path).status == status


# ------------------------------------------------------------------------------------------------------------ judgements
def test_people_s_scores_stand_beside_the_judge_s(world: make.World) -> None:
    reviewer = Api(world.inventory, Role.REVIEWER)
    row = {
        "conversation": "talk-1",
        "user_turn": 1,
        "judge": "human:rob",
        "scores": {"cancel-order": 2, "refund-status": 1},
    }
    report = reviewer("POST", "/judgements", {**row, "reasons": {"cancel-order": "he asks about yesterday"}})
    assert (report.status, report.json["stored"]) == (200, 2)
    found = reviewer("GET", "/judgements?conversation=talk-1&user_turn=1&artifact=cancel-order").json["items"]
    assert [(j["judge"], j["kind"], j["score"]) for j in found] == [("human:rob", "human", 2), (make.JUDGE, "model", 5)]
    assert (found[0]["reason"], found[0]["by"]) == ("he asks about yesterday", "token:reviewer token")
    assert reviewer("POST", "/judgements", row).json["duplicates"] == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scores": {"cancel-order": 6}}, "scores.cancel-order"),
        ({"scores": {"nobody": 3}}, "scores.nobody"),
        ({"user_turn": 9}, "user_turn"),
        ({"conversation": "nobody"}, "conversation"),
        ({"prefix_digest": "0" * 64}, "prefix_digest"),
        ({"visible_upto": 99}, "visible_upto"),
    ],
)
def test_what_a_judgement_refuses(world: make.World, change: dict[str, Any], field: str) -> None:
    before = Judgement.objects.count()
    row = {"conversation": "talk-1", "user_turn": 1, "judge": "human", "scores": {"cancel-order": 2}, **change}
    reply = Api(world.inventory, Role.REVIEWER)("POST", "/judgements", row)
    assert (reply.status, reply.error["field"]) == (422, field)
    assert Judgement.objects.count() == before


def test_a_rubric_may_be_named(world: make.World) -> None:
    reviewer = Api(world.inventory, Role.REVIEWER)
    row = {"conversation": "talk-1", "user_turn": 1, "judge": "sticky-judge", "scores": {"cancel-order": 5}}
    assert reviewer("POST", "/judgements?rubric=sticky", row).status == 200
    assert reviewer("GET", "/judgements?judge=sticky-judge").json["items"][0]["rubric"] == "sticky"
    assert reviewer("POST", "/judgements?rubric=loose", row).error["field"] == "rubric"
