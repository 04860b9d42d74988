"""Exemplars, versions, releases and idempotency through the API: preview, apply, conflict, back again."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from console.models import Change, ClassifierVersion, Exemplar, IdempotencyRecord, Release, Role
from console.services import idempotency
from console.services.errors import Invalid
from tests import make
from tests.web.api import Api

pytestmark = pytest.mark.django_db
PATH = "/artifacts/cancel-order"
NEW: dict[str, Any] = {"text": "stop the parcel", "polarity": "signal", "base_version": 1}


@pytest.fixture
def author(world: make.World) -> Api:
    return Api(world.inventory, Role.AUTHOR)


@pytest.fixture
def publisher(world: make.World) -> Api:
    return Api(world.inventory, Role.PUBLISHER)


@pytest.fixture
def candidate(world: make.World) -> Exemplar:
    row = world.exemplar(world.cancel, "how can I call the order off")
    made = Exemplar.objects.create(
        artifact=world.cancel,
        polarity="signal",
        text="forget my order",
        text_digest="0" * 64,
        source="mined",
        status="candidate",
    )
    assert row.status == "promoted"
    return made


def counts() -> tuple[int, int, int]:
    return Release.objects.count(), ClassifierVersion.objects.count(), Change.objects.count()


# ------------------------------------------------------------------------------------------------------------- exemplars
def test_promote_reject_restore(author: Api, candidate: Exemplar) -> None:
    path = f"{PATH}/exemplars/{candidate.public_id}"
    assert author("GET", path).json["status"] == "candidate"
    promoted = author("POST", f"{path}/promote", {"base_version": 1, "reason": "it is one"})
    assert promoted.status == 200
    assert set(promoted.json) == {"version", "made_version", "changed", "fit_ms", "change", "release"}
    assert (promoted.json["version"], promoted.json["made_version"], promoted.json["release"]) == (2, True, 7)
    changed = promoted.json["changed"]
    assert set(changed) == {"started", "stopped", "counts"}
    assert changed["counts"] == {"started": len(changed["started"]), "stopped": len(changed["stopped"])}
    assert all(set(turn) == {"conversation", "user_turn"} for turn in changed["started"] + changed["stopped"])
    assert author("GET", path).json["status"] == "promoted"
    assert author("POST", f"{path}/reject", {"base_version": 2}).json["version"] == 3
    restored = author("POST", f"{path}/restore", {"base_version": 3}).json
    assert (restored["version"], restored["made_version"]) == (3, False), "a suggested example is in no fit"
    assert author("GET", path).json["status"] == "candidate"


def test_promote_as_the_other_side(author: Api, candidate: Exemplar) -> None:
    path = f"{PATH}/exemplars/{candidate.public_id}"
    assert author("POST", f"{path}/promote", {"base_version": 1, "as": "anti_signal"}).status == 200
    assert author("GET", path).json["polarity"] == "anti_signal"
    refused = author("POST", f"{path}/reject", {"base_version": 2, "as": "signal"})
    assert (refused.status, refused.error["field"]) == (422, "as")


def test_a_stale_base_names_both_versions_and_writes_nothing(author: Api, candidate: Exemplar) -> None:
    author("POST", f"{PATH}/exemplars", NEW)
    before = counts()
    for action in ("promote", "reject", "pin"):
        reply = author("POST", f"{PATH}/exemplars/{candidate.public_id}/{action}", {"base_version": 1})
        assert (reply.status, reply.error["code"]) == (409, "conflict")
        assert (reply.error["base_version"], reply.error["current_version"]) == (1, 2)
        assert reply.error["made_by"] == "token:author token"
    assert counts() == before
    assert Exemplar.objects.get(pk=candidate.pk).status == "candidate"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "base_version"),
        ({"base_version": "1"}, "base_version"),
        ({"base_version": 0}, "base_version"),
        ({"base_version": 10**20}, "base_version"),
        ({"base_version": 1, "as": "positive"}, "as"),
        ({"base_version": 1, "reason": 7}, "reason"),
        ({"base_version": 1, "force": True}, "force"),
    ],
)
def test_what_an_action_refuses(author: Api, candidate: Exemplar, body: dict[str, Any], field: str) -> None:
    reply = author("POST", f"{PATH}/exemplars/{candidate.public_id}/promote", body)
    assert (reply.status, reply.error["field"]) == (422, field)


def test_an_exemplar_of_another_artifact_is_not_found(author: Api, candidate: Exemplar) -> None:
    other = f"/artifacts/refund-status/exemplars/{candidate.public_id}"
    assert author("GET", other).status == 404
    assert author("POST", f"{other}/promote", {"base_version": 1}).status == 404


def test_pin_and_unpin_an_exemplar(author: Api, candidate: Exemplar) -> None:
    path = f"{PATH}/exemplars/{candidate.public_id}"
    assert author("POST", f"{path}/pin", {"base_version": 1}).json["version"] == 2
    row = author("GET", path).json
    assert (row["status"], row["pinned"], row["kept"]) == ("promoted", True, True)
    assert author("GET", f"{PATH}/pins").json["items"][0]["exemplar"] == candidate.public_id
    assert author("POST", f"{path}/unpin", {"base_version": 2}).status == 200
    assert author("GET", path).json["pinned"] is False


def test_a_missed_turn_becomes_an_exemplar(author: Api) -> None:
    turn = {"conversation": "talk-5", "user_turn": 0, "polarity": "signal", "base_version": 1}
    made = author("POST", f"{PATH}/exemplars", turn)
    assert made.status == 201
    row = made.json["exemplar"]
    assert (row["origin"], row["source"]) == ({"conversation": "talk-5", "user_turn": 0}, "mined")
    assert row["text"] == "I do not want the parcel any more, stop it"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"polarity": "signal"}, "text"),
        ({"polarity": "signal", "text": "a", "conversation": "talk-5", "user_turn": 0}, "text"),
        ({"polarity": "signal", "conversation": "talk-5"}, "user_turn"),
        ({"polarity": "signal", "user_turn": 0}, "conversation"),
        ({"polarity": "signal", "text": "   "}, "text"),
        ({"polarity": "signal", "text": "please cancel my order"}, "text"),
        ({"polarity": "both", "text": "a"}, "polarity"),
        ({"text": "a"}, "polarity"),
        ({"polarity": "signal", "text": "a", "source": "generated"}, "source"),
    ],
)
def test_what_a_new_exemplar_refuses(author: Api, body: dict[str, Any], field: str) -> None:
    before = counts()
    reply = author("POST", f"{PATH}/exemplars", {"base_version": 1, **body})
    assert (reply.status, reply.error["field"]) == (422, field)
    assert counts() == before


def test_preview_says_what_apply_does_and_writes_nothing(author: Api) -> None:
    before = counts()
    change = {"action": "add", "conversation": "talk-5", "user_turn": 0, "polarity": "signal"}
    seen = author("POST", f"{PATH}/preview", {"changes": [change]}).json
    assert counts() == before
    assert (seen["base_version"], seen["cured"]) == (1, True)
    assert set(seen["recall"]) == {"before", "after", "relevant"}
    done = author(
        "POST", f"{PATH}/exemplars", {k: v for k, v in change.items() if k != "action"} | {"base_version": 1}
    ).json
    for side in ("started", "stopped"):
        turns = [{"conversation": f["conversation"], "user_turn": f["user_turn"]} for f in seen[side]]
        assert done["changed"][side] == turns
        assert done["changed"]["counts"][side] == seen["counts"][side]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"action": "promote"}, 422),
        ({"action": "explode", "exemplar": "x"}, 422),
        ({"action": "reject", "exemplar": "nobody"}, 404),
        ({"action": "add", "text": "x"}, 422),
        ({"action": "pin", "conversation": "talk-5", "user_turn": 0}, 200),
        ({"action": "pin", "conversation": "talk-5", "user_turn": 7}, 404),
    ],
)
def test_previews_of_odd_changes(author: Api, change: dict[str, Any], status: int) -> None:
    assert author("POST", f"{PATH}/preview", {"changes": [change]}).status == status


def test_the_last_example_of_a_side_stays(author: Api, world: make.World) -> None:
    body = {"key": "two", "name": "Two", "text": "x", "signals": ["one signal"], "anti_signals": ["one other"]}
    author("POST", "/artifacts", body)
    only = author("GET", "/artifacts/two/exemplars?polarity=signal").json["items"][0]["id"]
    reply = author("POST", f"/artifacts/two/exemplars/{only}/reject", {"base_version": 1})
    assert (reply.status, reply.error["field"]) == (422, "exemplar")


# -------------------------------------------------------------------------------------------------------------- versions
def test_versions_diff_rollback_and_reproduce(publisher: Api) -> None:
    made = publisher("POST", f"{PATH}/exemplars", NEW).json
    rows = publisher("GET", f"{PATH}/versions").json["items"]
    assert [(row["number"], row["active"], row["parent"]) for row in rows] == [(2, True, 1), (1, False, None)]
    whole = publisher("GET", f"{PATH}/versions/2").json
    assert [e["public_id"] for e in whole["exemplars"]].count(made["exemplar"]["id"]) == 1
    diff = publisher("GET", f"{PATH}/versions/1...2").json
    assert [row["text"] for row in diff["added"]] == ["stop the parcel"]
    assert (diff["removed"], diff["moved"], diff["erased"], diff["same"]) == ([], [], 0, 8)
    assert 0.5 < diff["cosine"] < 1
    assert diff["changed"]["counts"] == made["changed"]["counts"]
    assert set(diff["metrics"]) == {"a", "b"}
    assert publisher("GET", f"{PATH}/versions/1...9").status == 404
    assert publisher("GET", f"{PATH}/versions/9").status == 404
    assert publisher("POST", f"{PATH}/versions/1/rollback", {"base_version": 2}).error["field"] == "reason"
    stale = publisher("POST", f"{PATH}/versions/1/rollback", {"base_version": 1, "reason": "worse"})
    assert (stale.status, stale.error["current_version"]) == (409, 2)
    back = publisher("POST", f"{PATH}/versions/1/rollback", {"base_version": 2, "reason": "worse"}).json
    assert back["version"] == 3
    rows = publisher("GET", f"{PATH}/versions").json["items"]
    assert rows[0]["weight_hash"] == rows[2]["weight_hash"]
    assert publisher("GET", f"{PATH}/exemplars/{made['exemplar']['id']}").json["status"] == "retired"
    for number in (1, 2, 3):
        again = publisher("POST", f"{PATH}/versions/{number}/reproduce").json
        assert (again["ok"], again["version"]) == (True, number)
        assert again["max_abs_difference"] <= 1e-6


def test_revert_takes_one_change_back_and_keeps_the_next(author: Api) -> None:
    first = author("POST", f"{PATH}/exemplars", NEW).json
    second = author("POST", f"{PATH}/exemplars", {**NEW, "text": "annul my order", "base_version": 2}).json
    back = author("POST", f"/changes/{first['change']}/revert", {"reason": "not this one"})
    assert (back.status, back.json["version"]) == (200, 4)
    assert author("GET", f"{PATH}/exemplars/{first['exemplar']['id']}").json["status"] == "retired"
    assert author("GET", f"{PATH}/exemplars/{second['exemplar']['id']}").json["status"] == "promoted"
    changes = author("GET", f"{PATH}/changes").json["items"]
    assert changes[0]["reverts"] == first["change"]
    assert next(c for c in changes if c["id"] == first["change"])["reverted_by"] == changes[0]["id"]
    assert author("POST", f"/changes/{first['change']}/revert", {}).status == 409
    assert author("POST", "/changes/nothing/revert", {}).status == 404


def test_a_revert_is_looked_at_first(author: Api, publisher: Api) -> None:
    first = author("POST", f"{PATH}/exemplars", NEW).json
    path = f"/changes/{first['change']}/revert"
    before = counts()
    looked = author("GET", path)
    assert looked.status == 200
    assert (looked.json["role"], looked.json["fields"], looked.json["releases"]) == ("author", [], None)
    assert looked.json["impact"]["base_version"] == 2
    assert counts() == before, "it writes nothing"
    back = author("POST", path, {}).json
    assert looked.json["impact"]["counts"]["started"] == back["changed"]["counts"]["started"]
    assert looked.json["impact"]["counts"]["stopped"] == back["changed"]["counts"]["stopped"]
    assert author("GET", path).status == 409, "taken back already"
    assert author("GET", "/changes/nothing/revert").status == 404


def test_a_revert_of_the_point_and_of_everything_is_looked_at(publisher: Api, author: Api) -> None:
    publisher("PATCH", "", {"theta": 0.25})
    moved = newest_change()
    looked = author("GET", f"/changes/{moved}/revert").json
    assert (looked["role"], looked["impact"]) == ("publisher", None)
    (field,) = [row for row in looked["fields"] if row["field"] == "theta"]
    assert (field["artifact"], field["a"], field["b"]) == (None, 0.25, 0.0)
    assert all(set(row) == {"artifact", "started", "stopped"} for row in looked["flips"])
    assert author("POST", f"/changes/{moved}/revert").status == 403
    release = publisher("GET", "").json["release"]
    publisher("POST", f"/releases/{release - 1}/rollback", {"reason": "so"})
    looked = author("GET", f"/changes/{newest_change()}/revert").json
    assert looked["releases"] == {"newest": release + 1, "content_of": release}
    made = str(Change.objects.earliest("pk").public_id)
    assert author("GET", f"/changes/{made}/revert").status == 422


def newest_change() -> str:
    return str(Change.objects.latest("pk").public_id)


def test_revert_takes_back_what_is_not_about_examples(publisher: Api) -> None:
    def newest() -> str:
        return str(publisher("GET", "/changes?limit=1").json["items"][0]["id"])

    publisher("PATCH", PATH, {"mode": "always", "text": "Never."})
    edit = newest()
    back = publisher("POST", f"/changes/{edit}/revert", {"reason": "not yet"}).json
    assert (back["version"], back["made_version"], back["changed"], back["release"]) == (1, False, None, 8)
    now = publisher("GET", PATH).json
    assert (now["mode"], now["text"], now["text_revision"]) == ("auto", make.TEXTS["cancel-order"], 3)
    assert publisher("POST", f"/changes/{edit}/revert").status == 409
    assert publisher("POST", f"/changes/{back['change']}/revert").status == 200
    assert publisher("GET", PATH).json["mode"] == "always", "taken back twice is done again"

    publisher("PUT", f"{PATH}/dependencies", {"requires": ["refund-status"]})
    publisher("POST", f"/changes/{newest()}/revert")
    assert publisher("GET", f"{PATH}/dependencies").json == {"requires": [], "entails": []}
    publisher("DELETE", PATH)
    publisher("POST", f"/changes/{newest()}/revert")
    assert publisher("GET", PATH).json["status"] == "active"

    publisher("PATCH", "", {"theta": 0.25})
    moved = newest()
    done = publisher("POST", f"/changes/{moved}/revert").json
    assert (done["version"], publisher("GET", "").json["theta"]) == (None, 0.0)
    publisher("PATCH", "", {"theta": 0.5})
    refused = publisher("POST", f"/changes/{done['change']}/revert")
    assert (refused.status, refused.error["code"]) == (409, "conflict"), "it moved on since"
    made = publisher("GET", "/releases/1").json["changes"][0]["id"]
    refused = publisher("POST", f"/changes/{made}/revert")
    assert (refused.status, refused.error["field"], bool(refused.error["hint"])) == (422, "change", True)


# -------------------------------------------------------------------------------------------------------------- releases
def test_after_review_agents_wait_for_go_live(publisher: Api) -> None:
    assert publisher("PATCH", "", {"go_live": "after_review"}).status == 200
    publisher("POST", f"{PATH}/exemplars", NEW)
    said = {"messages": [{"role": "user", "content": "stop the parcel"}]}
    live = publisher("POST", "/discover", said).json
    assert live["release"] == 6
    assert publisher("POST", "/discover", {**said, "release": "draft"}).json["release"] == 7
    approved = publisher("POST", "/releases/7/go_live", {"reason": "looks right"}).json
    assert (approved["live_release"], approved["release"]) == (7, 7)
    assert publisher("POST", "/discover", said).json["release"] == 7
    assert publisher("POST", "/discover", {**said, "release": 6}).json["fired"] == live["fired"], (
        "releases stay as they were"
    )
    assert publisher("POST", "/releases/7/go_live").error["field"] == "release", (
        "it is live already; a body may be left out"
    )
    assert publisher("POST", "/releases/6/go_live", {}).error["field"] == "reason"
    assert publisher("POST", "/releases/99/go_live", {}).status == 404
    rows = publisher("GET", "/releases?limit=2").json["items"]
    assert [(row["number"], row["live"], row["newest"]) for row in rows] == [(7, True, True), (6, False, False)]


def test_a_release_its_changes_and_going_back_to_it(publisher: Api) -> None:
    publisher("POST", f"{PATH}/exemplars", NEW)
    publisher("PATCH", "", {"theta": 0.25})
    one = publisher("GET", "/releases/7").json
    assert [(c["action"], c["artifact"]) for c in one["changes"]] == [("add", "cancel-order")]
    diff = publisher("GET", "/releases/6...8").json
    assert diff["versions"] == [{"artifact": "cancel-order", "a": 1, "b": 2}]
    assert diff["theta"] == {"a": 0.0, "b": 0.25}
    assert diff["point"] == [{"field": "theta", "a": 0.0, "b": 0.25}]
    assert {flip["artifact"] for flip in diff["flips"]} <= {"cancel-order", "change-order", "refund-status"}
    assert publisher("GET", "/releases/6...99").status == 404
    assert publisher("POST", "/releases/6/rollback", {}).error["field"] == "reason"
    back = publisher("POST", "/releases/6/rollback", {"reason": "all of it"}).json
    assert (back["release"], back["live_release"]) == (9, 9)
    assert publisher("GET", "").json["theta"] == 0.0
    assert publisher("GET", "/releases/6...9").json["theta"] is None


def test_the_difference_of_releases_is_all_that_they_carry(publisher: Api) -> None:
    publisher("PATCH", "", {"pooling": "cumulative", "expiry": {"others": 3}, "target_recall": 0.8})
    publisher("PATCH", PATH, {"mode": "always", "text": "Never."})
    publisher("PUT", f"{PATH}/dependencies", {"requires": ["refund-status"]})
    publisher("POST", f"{PATH}/pins", {"conversation": "talk-1", "user_turn": 1})
    diff = publisher("GET", "/releases/6...10").json
    assert [row["field"] for row in diff["point"]] == ["pooling", "expiry", "target_recall"]
    assert diff["point"][1] == {
        "field": "expiry",
        "a": {"others": None, "turns": None},
        "b": {"others": 3, "turns": None},
    }
    assert diff["settings"] == [{"artifact": "cancel-order", "field": "mode", "a": "auto", "b": "always"}]
    assert diff["dependencies"] == [{"artifact": "cancel-order", "field": "requires", "a": [], "b": ["refund-status"]}]
    text = diff["texts"][0]
    assert (text["a"]["revision"], text["b"]["revision"], text["b"]["text"]) == (1, 2, "Never.")
    assert [(pin["artifact"], pin["added"]) for pin in diff["pins"]] == [("cancel-order", True)]


# ----------------------------------------------------------------------------------------------------------- idempotency
def test_a_retry_with_the_key_gets_the_same_answer_and_writes_nothing(author: Api) -> None:
    first = author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="click-1")
    before = counts()
    again = author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="click-1")
    assert (again.status, again.content) == (first.status, first.content) == (201, first.content)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert counts() == before
    other_key = author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="click-2")
    assert other_key.status == 409, "another key is another request, on a version that moved on"


def test_the_key_with_another_body_is_refused(author: Api) -> None:
    author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="click-1")
    reply = author("POST", f"{PATH}/exemplars", {**NEW, "text": "other"}, Idempotency_Key="click-1")
    assert (reply.status, reply.error["field"]) == (422, "Idempotency-Key")


def test_keys_of_other_callers_and_paths_never_meet(author: Api, publisher: Api) -> None:
    assert author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k").status == 201
    assert (
        publisher("POST", f"{PATH}/exemplars", {**NEW, "text": "b", "base_version": 2}, Idempotency_Key="k").status
        == 201
    )
    other = {**NEW, "text": "where did the money go"}
    assert author("POST", "/artifacts/refund-status/exemplars", other, Idempotency_Key="k").status == 201


def test_a_refused_request_gives_its_key_back(author: Api) -> None:
    stale = {**NEW, "base_version": 9}
    assert author("POST", f"{PATH}/exemplars", stale, Idempotency_Key="k").status == 409
    assert author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k").status == 201


def test_a_request_under_way_is_waited_for(author: Api) -> None:
    author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k")
    IdempotencyRecord.objects.update(status=None, answer=None)
    reply = author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k")
    assert (reply.status, reply.error["code"], reply.headers["Retry-After"]) == (409, "conflict", "1")
    IdempotencyRecord.objects.update(created_at=timezone.now() - idempotency.ABANDONED - timedelta(seconds=1))
    assert author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k").error["current_version"] == 2, (
        "its holder is gone"
    )


def test_answers_are_kept_for_a_day(author: Api) -> None:
    author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k")
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=23, minutes=59))
    assert author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k").status == 201
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=24, minutes=1))
    assert author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key="k").status == 409
    assert IdempotencyRecord.objects.count() == 0


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
def test_unusable_keys(author: Api, key: str) -> None:
    with pytest.raises(Invalid):
        idempotency.claim(caller="token:x", key=key, path="/", body=b"")
    assert author("POST", f"{PATH}/exemplars", NEW, Idempotency_Key=key).status == 422


def test_a_key_given_back_in_between_is_asked_for_again(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(**_: Any) -> None:
        raise IntegrityError

    monkeypatch.setattr(IdempotencyRecord.objects, "create", taken)
    with pytest.raises(idempotency.InFlight, match="just ending"):
        idempotency.claim(caller="token:x", key="k", path="/", body=b"")


def test_a_long_path_is_kept_by_its_digest(world: make.World) -> None:
    held = idempotency.claim(caller="token:x", key="k", path="/" + "p" * 600, body=b"{}")
    assert len(held.record.path) == 64
    with pytest.raises(idempotency.InFlight):
        idempotency.claim(caller="token:x", key="k", path="/" + "p" * 600, body=b"{}")
