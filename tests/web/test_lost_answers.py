"""A process that dies between its write and its answer: the retry under the same key finds what was written."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.models import AuditEvent, Change, ClassifierVersion, Exemplar, IdempotencyRecord, Inventory, Release, Run
from console.services import curate, fit, idempotency, inventories, judge_plan, judge_plan_start, models_setting
from console.services.actor import SYSTEM
from console.services.plan import Step
from tests import make
from tests.web import test_candidates_pages as candidates_page
from tests.web import test_workbench_changes as workbench_page
from tests.web.api import Api

pytestmark = pytest.mark.django_db
PATH = "/artifacts/cancel-order"
TEXT = "stop the parcel"


class Killed(BaseException):
    """As good as kill -9: nothing of ours runs after it."""


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], Any]:
    """``dying(act)``: the process ends when the answer is to be kept. Gives the answer that nobody got, as JSON."""
    real = idempotency.keep

    def die(act: Callable[[], object]) -> Any:
        lost: list[bytes] = []

        def keep(held: idempotency.Claim, *, status: int, answer: bytes) -> None:
            lost.append(answer)
            raise Killed

        monkeypatch.setattr(idempotency, "keep", keep)
        with pytest.raises(Killed):
            act()
        monkeypatch.setattr(idempotency, "keep", real)
        return json.loads(lost[0])

    return die


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Release, ClassifierVersion, Change, AuditEvent, Exemplar, Run))


# --------------------------------------------------------------------------------------------------------------- the API
def added(world: make.World) -> curate.Applied:
    step = Step("add", text="call it off", polarity="signal")
    return curate.apply(world.cancel, [step], by=SYSTEM, base_version=1, reason="so")


def candidate(world: make.World) -> str:
    text = "forget my order"
    made = Exemplar.objects.create(
        artifact=world.cancel, polarity="signal", text=text, text_digest="0" * 64, source="mined", status="candidate"
    )
    return f"{PATH}/exemplars/{made.public_id}"


def promoted(world: make.World) -> str:
    return f"{PATH}/exemplars/{world.exemplar(world.cancel, make.SIGNALS['cancel-order'][0]).public_id}"


def pinned(world: make.World) -> str:
    step = Step("pin", exemplar=world.exemplar(world.cancel, make.SIGNALS["cancel-order"][0]).public_id)
    curate.apply(world.cancel, [step], by=SYSTEM, base_version=1, reason="so")
    return f"{promoted(world)}/unpin"


def edited(world: make.World) -> str:
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=0.5)
    return f"/changes/{Change.objects.latest('pk').public_id}/revert"


def older(world: make.World) -> str:
    Inventory.objects.filter(pk=world.inventory.pk).update(go_live="after_review")
    added(world)
    return f"/releases/{world.inventory.release + 1}/go_live"


def amount(world: make.World) -> str:
    models_setting.set_model(
        world.inventory, "judge", by=SYSTEM, provider="openai", model="m-1", base_url="http://127.0.0.1:9/v1",
        price_in=1, price_out=4,
    )  # fmt: skip
    plan, *_ = judge_plan.plans(world.inventory, money=0.02, measure=0.4, wanted=4, per_call=[1])
    PLAN["plan"] = judge_plan_start.name_of(plan)
    assert len(plan.parts) == 2
    return "/label-plans/start"


def decisions(world: make.World) -> str:
    DECISIONS[0]["candidate"] = candidate(world).rpartition("/")[2]
    return f"{PATH}/candidates/decide"


PLAN: dict[str, Any] = {"money": 0.02, "measure": 0.4, "wanted": 4, "per_call": [1]}
DECISIONS: list[dict[str, Any]] = [{"decision": "signal"}]
NEW = {"key": "new", "name": "New", "text": "x", "signals": ["one more"], "anti_signals": ["and another"]}
CALLS: dict[str, tuple[Callable[[make.World], object], Any]] = {
    "an exemplar": (lambda world: f"{PATH}/exemplars", {"text": TEXT, "polarity": "signal", "base_version": 1}),
    "promote": (lambda world: f"{candidate(world)}/promote", {"base_version": 1, "reason": "so"}),
    "reject": (lambda world: f"{candidate(world)}/reject", {"base_version": 1, "reason": "so"}),
    "pin": (lambda world: f"{promoted(world)}/pin", {"base_version": 1, "reason": "so"}),
    "unpin": (pinned, {"base_version": 2, "reason": "so"}),
    "a pin": (lambda world: f"{PATH}/pins", {"conversation": "talk-5", "user_turn": 0, "reason": "so"}),
    "an artifact": (lambda world: "/artifacts", NEW),
    "a bare artifact": (lambda world: "/artifacts", {"key": "bare", "name": "Bare", "text": "x"}),
    "an inventory": (lambda world: "/api/v1/inventories", {"slug": "fresh"}),
    "a run": (lambda world: "/runs", {"kind": "evaluate"}),
    "a label plan": (amount, PLAN),
    "candidates": (decisions, {"decisions": DECISIONS, "base_version": 1, "reason": "so"}),
    "go live": (older, {}),
    "a release's rollback": (
        lambda world: f"/releases/{added(world).change.release.number - 1}/rollback",
        {"reason": "so"},
    ),
    "a version's rollback": (
        lambda world: added(world) and f"{PATH}/versions/1/rollback",
        {"base_version": 2, "reason": "so"},
    ),
    "a decision taken back": (lambda world: f"/changes/{added(world).change.public_id}/revert", {}),
    "θ taken back": (edited, {}),
}


@pytest.mark.parametrize("what", CALLS)
def test_the_retry_of_a_call_gets_its_answer_and_writes_nothing(world: make.World, dying: Any, what: str) -> None:
    api = Api(None, slug="tiny")  # a token of every inventory
    address, body = CALLS[what]
    path = str(address(world))
    lost = dying(lambda: api("POST", path, body, Idempotency_Key="click"))
    before = counts()
    IdempotencyRecord.objects.update(created_at=timezone.now() - 2 * idempotency.ABANDONED)
    reply = api("POST", path, body, Idempotency_Key="click")
    assert reply.status in (200, 201), reply.json
    assert counts() == before
    assert reply.headers["Idempotency-Replayed"] == "true"
    for name in ("fit_ms", "at"):
        assert (name in lost) is (name in reply.json)
        lost.pop(name, None)
        reply.json.pop(name, None)
    assert reply.json == lost
    again = api("POST", path, body, Idempotency_Key="click")
    assert (again.status, again.content, again.headers["Idempotency-Replayed"]) == (reply.status, reply.content, "true")
    assert api("POST", path, {**body, "x": 1}, Idempotency_Key="click").status == 422


def test_a_call_whose_answer_fails_is_not_done_again(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    api, body = Api(world.inventory), {"text": TEXT, "polarity": "signal", "base_version": 1}

    def broken(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("console.api.exemplars.applied_json", broken)
        assert api("POST", f"{PATH}/exemplars", body, Idempotency_Key="click").status == 500
    reply = api("POST", f"{PATH}/exemplars", body, Idempotency_Key="click")
    assert (reply.status, reply.json["version"]) == (201, 2)


def test_a_decision_that_only_fixed_the_centre_is_done_at_the_retry(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first fit commits the centre on its way: that is not what was asked for."""
    inventory = make.inventory()
    make.artifact(inventory, "pets", signals=["my dog"])
    api, body = Api(inventory), {"text": "my suitcase", "polarity": "anti_signal", "base_version": None}
    real = fit.ensure_centre

    def dies(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(fit, "ensure_centre", dies)
    with pytest.raises(Killed):
        api("POST", "/artifacts/pets/exemplars", body, Idempotency_Key="click")
    monkeypatch.setattr(fit, "ensure_centre", real)
    assert api("POST", "/artifacts/pets/exemplars", body, Idempotency_Key="click").status == 409, "still running"
    IdempotencyRecord.objects.update(created_at=timezone.now() - idempotency.ABANDONED - timedelta(seconds=1))
    reply = api("POST", "/artifacts/pets/exemplars", body, Idempotency_Key="click")
    assert (reply.status, reply.json["version"]) == (201, 1)


def test_an_import_is_done_again_and_finds_what_is_there(world: make.World, dying: Any) -> None:
    api, row = Api(world.inventory), {"id": "new", "messages": [{"role": "user", "content": "hello"}]}
    assert dying(lambda: api("POST", "/conversations", row, Idempotency_Key="click"))["stored"] == 1
    assert api("POST", "/conversations", row, Idempotency_Key="click").status == 409
    IdempotencyRecord.objects.update(created_at=timezone.now() - idempotency.ABANDONED - timedelta(seconds=1))
    reply = api("POST", "/conversations", row, Idempotency_Key="click")
    assert (reply.status, reply.json["stored"], reply.json["duplicates"]) == (200, 0, 1)


# -------------------------------------------------------------------------------------------------------------- the pages
def test_a_form_sent_again_after_its_answer_was_lost(world: make.World, signed_in: Any, dying: Any) -> None:
    author: Client = signed_in(world.author)
    shown = workbench_page.preview(author, {"do": "show", "text_of": str(world.state("talk-5", 0).pk)})
    fields = workbench_page.form(shown)
    lost = dying(lambda: author.post(workbench_page.APPLY, fields, headers=workbench_page.HTMX))
    before = counts()
    answer = author.post(workbench_page.APPLY, fields, headers=workbench_page.HTMX)
    assert (answer.status_code, counts()) == (200, before)
    assert "v2 live" in answer.content.decode()
    kept = json.loads(IdempotencyRecord.objects.get().answer["body"])
    assert {**kept, "fit_ms": 0} == {**lost, "fit_ms": 0}
    undo = author.post(f"/i/tiny/changes/{kept['change']}/undo/", {"next": workbench_page.BASE, "key": "u" * 36})
    assert undo.status_code == 303


def test_an_undo_sent_again_after_its_answer_was_lost(world: make.World, signed_in: Any, dying: Any) -> None:
    author, change = signed_in(world.author), added(world).change
    address, fields = f"/i/tiny/changes/{change.public_id}/undo/", {"next": workbench_page.BASE, "key": "u" * 36}
    dying(lambda: author.post(address, fields))
    before = counts()
    assert author.post(address, fields).status_code == 303
    assert counts() == before


def test_candidates_decided_on_before_the_answer_was_lost(
    world: make.World, signed_in: Any, dying: Any, run: Run
) -> None:
    author: Client = signed_in(world.author)
    candidates_page.decide(author, "show", candidates_page.ident(candidates_page.SIGNAL))
    fields = candidates_page.form(candidates_page.preview(author)) | {"reason": "because"}
    dying(lambda: author.post(candidates_page.APPLY, fields, headers=candidates_page.HTMX))
    before = counts()
    answer = author.post(candidates_page.APPLY, fields, headers=candidates_page.HTMX)
    assert (answer.status_code, counts()) == (200, before)
    assert "cancel-order: v2 live" in answer.content.decode()


run = candidates_page.run
