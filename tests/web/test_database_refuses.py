"""A lock that is not to be had, a deadlock, a full disk: pages answer 503 as the API does, and nothing is half-written."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from console.models import AuditEvent, Change, Exemplar, IdempotencyRecord, Release
from console.services import curate
from tests import make
from tests.web import test_candidates_pages as candidates_page
from tests.web import test_workbench_changes as workbench_page
from tests.web.api import Api

pytestmark = pytest.mark.django_db
DEADLOCK = OperationalError("deadlock detected")
run = candidates_page.run


def raising(error: BaseException) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    return refuse


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Release, Change, AuditEvent, Exemplar))


@pytest.fixture
def author(world: make.World, signed_in: Any) -> Client:
    return signed_in(world.author)  # type: ignore[no-any-return]


@pytest.fixture
def fields(world: make.World, author: Client) -> dict[str, str]:
    shown = workbench_page.preview(author, {"do": "show", "text_of": str(world.state("talk-5", 0).pk)})
    return workbench_page.form(shown)


@pytest.mark.parametrize("headers", [{}, workbench_page.HTMX])
def test_a_decision_that_met_a_deadlock_is_taken_when_it_is_sent_again(
    author: Client, fields: dict[str, str], monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    before = counts()
    with monkeypatch.context() as patched:
        patched.setattr(curate, "lock_artifact", raising(DEADLOCK))
        answer = author.post(workbench_page.APPLY, fields, headers=headers)
    page = answer.content.decode()
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert "The database is busy or away." in page
    assert "A write happens whole or not at all. Try again in a moment." in page
    assert ("<html" in page) is not headers
    assert "Nothing was written" not in page, "nobody can know"
    assert "data-failure" in page, "what the script shows"
    assert (counts(), IdempotencyRecord.objects.count()) == (before, 0)
    assert author.post(workbench_page.APPLY, fields, headers=workbench_page.HTMX).status_code == 200
    assert workbench_page.newest() == 2


def test_pages_outside_an_inventory_answer_it_as_well(author: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.views.profile.update_profile", raising(DEADLOCK))
    answer = author.post("/profile/terms/", {"technical": "1"})
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")


def test_a_full_disk_is_not_called_busy(author: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.services.workbench.ground", raising(OperationalError("database or disk is full")))
    answer = author.get(workbench_page.BASE)
    assert answer.status_code == 503
    assert "Retry-After" not in answer
    assert "disk is full" in answer.content.decode()


@pytest.mark.parametrize("error", [DEADLOCK, OperationalError("no such table: console_inventory")])
def test_what_fails_before_the_view_is_503_too(
    author: Client, monkeypatch: pytest.MonkeyPatch, error: OperationalError
) -> None:
    author.raise_request_exception = False
    monkeypatch.setattr("console.permissions._entered", raising(error))
    answer = author.get(workbench_page.BASE)
    assert answer.status_code == 503
    assert ("Retry-After" in answer) is (error is DEADLOCK)
    assert "The database" in answer.content.decode()


def test_a_bug_is_500_as_before(author: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    author.raise_request_exception = False
    monkeypatch.setattr("console.permissions._entered", raising(RuntimeError("secret")))
    answer = author.get(workbench_page.BASE)
    assert answer.status_code == 500
    assert "secret" not in answer.content.decode()


def test_of_many_policies_the_one_that_met_it_is_shown_again(
    author: Client, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates_page.decide(author, "show", candidates_page.ident(candidates_page.SIGNAL))
    candidates_page.decide(author, "show", candidates_page.ident("hello there", "refund-status"))
    fields = candidates_page.form(candidates_page.preview(author)) | {"reason": "because"}
    real = curate.lock_artifact

    def second(artifact: Any) -> Any:
        if artifact.key == "refund-status":
            raise DEADLOCK
        return real(artifact)

    with monkeypatch.context() as patched:
        patched.setattr(curate, "lock_artifact", second)
        answer = author.post(candidates_page.APPLY, fields, headers=candidates_page.HTMX)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "The database is busy or away." in page
    assert (candidates_page.newest(), candidates_page.newest("refund-status")) == (2, 1)


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    world: make.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, body = Api(world.inventory), {"text": "stop the parcel", "polarity": "signal", "base_version": 1}
    with monkeypatch.context() as patched:
        patched.setattr("django.db.models.query.QuerySet.update", _refusing_answers())
        first = api("POST", "/artifacts/cancel-order/exemplars", body, Idempotency_Key="click")
    assert first.status == 201
    assert IdempotencyRecord.objects.get().status is None
    again = api("POST", "/artifacts/cancel-order/exemplars", body, Idempotency_Key="click")
    assert (again.status, again.json["change"]) == (201, first.json["change"])


def _refusing_answers() -> Any:
    from django.db.models.query import QuerySet

    real = QuerySet.update

    def update(self: Any, **values: Any) -> Any:
        if self.model is IdempotencyRecord and "status" in values:
            raise OperationalError("database is locked")
        return real(self, **values)

    return update
