"""Candidates and label plans over the API: listed, looked at, decided together; an amount planned and its runs started."""

from collections.abc import Iterator
from typing import Any

import pytest

from console.models import AuditEvent, ClassifierVersion, Exemplar, Release, Role, Run
from console.services import judge, limits, models_setting, run_kinds
from console.services.actor import SYSTEM
from tests import make, scripted
from tests.services.test_candidates import mine, suggest
from tests.web.api import Api

pytestmark = pytest.mark.django_db
DECIDE = "/artifacts/cancel-order/candidates/decide"


@pytest.fixture
def author(world: make.World) -> Api:
    return Api(world.inventory, Role.AUTHOR)


def written() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Release, ClassifierVersion, AuditEvent, Run))


# -------------------------------------------------------------------------------------------------------------------- list
def test_every_candidate_is_listed_once_and_filters_narrow(author: Api, world: make.World) -> None:
    run = mine(world)
    own = suggest(world, "please stop that order of mine")
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        piece = author("GET", f"/candidates?limit=3{after}").json
        rows += piece["items"]
        if piece["next"] is None:
            break
        after = f"&after={piece['next']}"
    waiting = set(Exemplar.objects.filter(status="candidate").values_list("public_id", flat=True))
    assert len(rows) == len(waiting)
    assert {row["id"] for row in rows} == waiting
    assert [row["artifact"] for row in rows] == sorted(row["artifact"] for row in rows)
    found = next(row for row in rows if row["id"] == own.public_id)
    assert (found["run"], found["rule"], found["score"], found["origin"]) == (None, "", None, None)
    assert found["nearest"]["used"] is True
    mined = next(row for row in rows if row["run"] == run.public_id and row["polarity"] == "signal")
    assert mined["rule"] == "whole_conversation"
    assert mined["score"] >= 4
    assert isinstance(mined["margin"], float)

    def ids(query: str) -> set[str]:
        return {row["id"] for row in author("GET", f"/candidates?limit=200&{query}").json["items"]}

    assert ids("source=generated") == {own.public_id}
    assert ids(f"run={run.public_id}") == waiting - {own.public_id}
    assert ids("artifact=change-order&polarity=signal") == {
        row["id"] for row in rows if (row["artifact"], row["polarity"]) == ("change-order", "signal")
    }


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("after=nonsense", 422, "after"),
        ("after=1_2_nan", 422, "after"),
        ("limit=0", 422, "limit"),
        ("polarity=both", 422, "polarity"),
        ("artifact=nothing", 404, "artifact"),
    ],
)
def test_what_the_list_refuses(author: Api, query: str, status: int, field: str) -> None:
    reply = author("GET", f"/candidates?{query}")
    assert reply.status == status
    assert reply.error.get("field", field) == field


# --------------------------------------------------------------------------------------------------------------- decisions
def test_the_best_are_looked_at_and_taken_artifact_by_artifact(author: Api, world: make.World) -> None:
    mine(world)
    before = written()
    found = author("POST", "/candidates/best", {"k": 2}).json
    assert written() == before, "a preview writes nothing"
    assert found["left_out"] == 0
    assert found["artifacts"]
    for one in found["artifacts"]:
        assert one["error"] is None
        assert 1 <= len(one["decisions"]) <= 2
        assert one["impact"]["base_version"] == one["base_version"]
        path = f"/artifacts/{one['artifact']}/candidates"
        looked = author("POST", f"{path}/preview", {"decisions": one["decisions"]}).json
        assert looked["counts"] == one["impact"]["counts"]
        versions = ClassifierVersion.objects.count()
        body = {"base_version": one["base_version"], "decisions": one["decisions"], "reason": "the best"}
        done = author("POST", f"{path}/decide", body)
        assert done.status == 200, done.json
        assert (done.json["version"], done.json["made_version"]) == (one["base_version"] + 1, True)
        assert ClassifierVersion.objects.count() == versions + 1, "one refit"
        taken = [row["candidate"] for row in one["decisions"]]
        assert set(Exemplar.objects.filter(public_id__in=taken).values_list("status", flat=True)) == {"promoted"}


def test_accept_on_either_side_reject_and_restore_in_one_version(author: Api, world: make.World) -> None:
    a, b, c = (suggest(world, text) for text in ("stop my order", "where is my parcel now", "drop it"))
    decisions = [
        {"candidate": a.public_id, "decision": "signal"},
        {"candidate": b.public_id, "decision": "anti_signal"},
        {"candidate": c.public_id, "decision": "reject"},
    ]
    body = {"decisions": decisions, "base_version": 1, "reason": "so"}
    done = author("POST", DECIDE, body, Idempotency_Key="click")
    assert (done.status, done.json["version"]) == (200, 2)
    rows = {e.public_id: (e.status, e.polarity) for e in Exemplar.objects.filter(pk__in=[a.pk, b.pk, c.pk])}
    assert rows == {
        a.public_id: ("promoted", "signal"),
        b.public_id: ("promoted", "anti_signal"),
        c.public_id: ("rejected", "signal"),
    }
    again = author("POST", DECIDE, body, Idempotency_Key="click")
    assert (again.content, again.headers["Idempotency-Replayed"]) == (done.content, "true")
    stale = author(
        "POST", DECIDE, {"decisions": [{"candidate": c.public_id, "decision": "restore"}], "base_version": 1}
    )
    assert (stale.status, stale.error["current_version"]) == (409, 2)
    back = author("POST", DECIDE, {"decisions": [{"candidate": c.public_id, "decision": "restore"}], "base_version": 2})
    assert (back.status, back.json["made_version"]) == (200, False)
    assert [row["id"] for row in author("GET", "/candidates").json["items"]] == [c.public_id]


def test_a_set_that_cannot_be_taken_writes_nothing(author: Api, world: make.World) -> None:
    a, b = suggest(world, "stop my order"), suggest(world, "no more of it", artifact=world.refund)
    reviewer = Api(world.inventory, Role.REVIEWER)
    before = written()
    twice = [{"candidate": a.public_id, "decision": side} for side in ("signal", "reject")]
    reply = author("POST", DECIDE, {"decisions": twice, "base_version": 1})
    assert (reply.status, reply.error["field"]) == (422, "decisions[1].candidate")
    both = [{"candidate": row.public_id, "decision": "signal"} for row in (a, b)]
    assert author("POST", DECIDE, {"decisions": both, "base_version": 1}).status == 404, "of another artifact"
    assert author("POST", DECIDE, {"decisions": [], "base_version": 1}).status == 422
    assert reviewer("POST", DECIDE, {"decisions": both, "base_version": 1}).status == 403
    assert written() == before
    a.refresh_from_db()
    assert a.status == "candidate"


def test_best_says_why_a_set_is_refused(author: Api, world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    mine(world)
    monkeypatch.setattr("console.services.embed.AT_ONCE", 0)
    suggest(world, "stop it all")
    make.exemplar(world.cancel, "imported without a vector")
    (one,) = author("POST", "/candidates/best", {"k": 1, "artifact": "cancel-order"}).json["artifacts"]
    assert (one["impact"], one["error"]["code"], one["base_version"]) == (None, "unavailable", 1)
    assert author("POST", "/candidates/best", {"k": 51}).error["field"] == "k"


# -------------------------------------------------------------------------------------------------------------- label plans
@pytest.fixture
def priced(world: make.World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A judge at 1 a million tokens in and 4 out; the workers that were called for."""
    called: list[int] = []
    monkeypatch.setitem(run_kinds.KINDS, "judge", judge.KIND)
    monkeypatch.setattr("console.api.runs.wake_run", called.append)
    limits.forget()
    with scripted.serve() as server:
        models_setting.set_model(
            world.inventory, "judge", by=SYSTEM, provider="openai", model="m-1", base_url=server.base_url,
            price_in=1, price_out=4,
        )  # fmt: skip
        yield called


ASKED = {"money": 0.02, "measure": 0.4, "wanted": 4, "per_call": [1, 2]}


def test_a_plan_is_started_as_it_was_looked_at(
    author: Api, priced: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    before = written()
    found = author("POST", "/label-plans", ASKED).json["plans"]
    assert written() == before
    assert [(plan["per_call"], plan["batch"]) for plan in found] == [(1, False), (1, True), (2, False), (2, True)]
    plan = found[0]
    assert {part["purpose"] for part in plan["parts"]} == {"measure", "learn"}
    assert sum(part["cap"]["money"] for part in plan["parts"]) == pytest.approx(0.02, abs=1e-3)
    with django_capture_on_commit_callbacks(execute=True):
        started = author("POST", "/label-plans/start", {**ASKED, "plan": plan["plan"]}, Idempotency_Key="once")
    assert started.status == 201, started.json
    made = started.json["runs"]
    assert [run["plan"]["scope"] for run in made] == [part["scope"] for part in plan["parts"]]
    assert [run["cap"] for run in made] == [part["cap"] for part in plan["parts"]]
    assert priced == list(Run.objects.order_by("pk").values_list("pk", flat=True))
    again = author("POST", "/label-plans/start", {**ASKED, "plan": plan["plan"]}, Idempotency_Key="once")
    assert (again.content, Run.objects.count()) == (started.content, 2)


def test_what_buys_something_else_by_now_is_refused(author: Api, priced: list[int]) -> None:
    plan = author("POST", "/label-plans", ASKED).json["plans"][0]["plan"]
    before = written()
    for body in ({**ASKED, "plan": "0" * 16}, {**ASKED, "wanted": 1, "measure": 0.9, "plan": plan}):
        reply = author("POST", "/label-plans/start", body)
        assert (reply.status, reply.error["code"]) == (409, "conflict")
    assert written() == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "money"),
        ({"money": 1, "tokens": 5}, "money"),
        ({"money": 0}, "money"),
        ({"money": 1, "measure": 2}, "measure"),
        ({"money": 1, "wanted": 0}, "wanted"),
        ({"money": 1, "per_call": [51]}, "per_call[0]"),
        ({"money": 1, "per_call": []}, "per_call"),
        ({"money": 1, "more": 1}, "more"),
    ],
)
def test_impossible_amounts_name_their_field(author: Api, priced: list[int], body: dict[str, Any], field: str) -> None:
    reply = author("POST", "/label-plans", body)
    assert (reply.status, reply.error["field"]) == (422, field)
