"""Every failure has one shape, says what and where, and shows no traceback."""

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.http import UnreadablePostError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.api import errors
from console.models import Artifact, AuditEvent, Release, Role
from console.services import score
from tests import make
from tests.fakes import FakeEncoder
from tests.web.api import Api, Reply

pytestmark = pytest.mark.django_db
SAID = [{"role": "user", "content": "please cancel my order"}]


@pytest.fixture
def admin(world: make.World) -> Api:
    return Api(world.inventory)


def has_the_shape(reply: Reply) -> bool:
    assert set(reply.json) == {"error"}
    assert {"code", "message", "request_id"} <= set(reply.error)
    assert set(reply.error) <= {
        "code",
        "message",
        "field",
        "hint",
        "request_id",
        "base_version",
        "current_version",
        "made_by",
    }
    assert reply.error["request_id"] == reply.headers["X-Request-Id"]
    return bool(reply.error["message"])


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{not json", 400, None),
        (b"\xff\xfe\xff", 400, None),
        (b"[" * 50_000, 400, None),
        (b'{"messages": ' + b"[" * 700 + b"]" * 700 + b"}", 400, None),
        (b'{"messages": ' + b'[{"parts": ' * 125 + b"[]" + b"}]" * 125 + b"}", 400, None),
        (b'{"messages": [{"role": "user", "content": "x", "more": ' + b"[" * 97 + b"]" * 97 + b"}]}", 200, None),
        (b'{"messages": [{"role": "user", "content": "x", "more": ' + b"[" * 98 + b"]" * 98 + b"}]}", 400, None),
        (b"", 422, None),
        (b"null", 422, None),
        (b"[]", 422, None),
        (b'"text"', 422, None),
        (b"7", 422, None),
        (b"{}", 422, "messages"),
        (b'{"messages": []}', 422, "messages"),
        (b'{"messages": {}}', 422, "messages"),
        (b'{"messages": ["hello"]}', 422, "messages[0]"),
        (b'{"messages": [{"content": "x"}]}', 422, "messages[0].role"),
        (b'{"messages": [{"role": "user", "content": 7}]}', 422, "messages[0].content"),
        (b'{"messages": [{"role": "user", "content": "x"}], "unknown": 1}', 422, "unknown"),
        (b'{"messages": [{"role": "user", "content": "x"}], "theta": NaN}', 422, "theta"),
        (b'{"messages": [{"role": "user", "content": "x"}], "theta": -Infinity}', 422, "theta"),
        (b'{"messages": [{"role": "user", "content": "x"}], "theta": 1e999}', 422, "theta"),
        (b'{"messages": [{"role": "user", "content": "x"}], "theta": "0.5"}', 422, "theta"),
        (b'{"messages": [{"role": "user", "content": "x", "more": [{"deep": NaN}]}]}', 422, "messages[0].more[0].deep"),
        (b'{"messages": [{"role": "user", "content": "x"}], "release": 12345678901234567890}', 422, "release"),
        (b'{"messages": [{"role": "user", "content": "x"}], "release": 1' + b"0" * 5_000 + b"}", 422, "release"),
        (b'{"messages": [{"role": "user", "content": "x"}], "release": true}', 422, "release"),
        (b'{"messages": [{"role": "user", "content": "x"}], "include": ["everything"]}', 422, "include[0]"),
        (b'{"messages": [{"role": "robot", "content": "x"}]}', 422, "messages[0].role"),
        (b'{"messages": [{"role": "user", "content": "x", "at": "yesterday"}]}', 422, "messages[0].at"),
        (b'{"messages": [{"role": "user", "content": "x"}], "release": 99}', 404, "release"),
    ],
)
def test_what_discover_refuses_and_how_deep_it_reads(admin: Api, body: bytes, status: int, field: str | None) -> None:
    reply = admin("POST", "/discover", body)
    assert reply.status == status
    if status != 200:
        assert has_the_shape(reply)
        assert reply.error.get("field") == field


def test_more_than_one_wrong_field_is_said(admin: Api) -> None:
    reply = admin("POST", "/artifacts", {"key": "Not A Key", "name": "", "text": "x"})
    assert (reply.error["field"], reply.error["hint"]) == ("key", "One more field is wrong.")


def test_unknown_addresses_and_methods(admin: Api) -> None:
    nothing = admin("GET", "/api/v1/nothing/here")
    assert (nothing.status, nothing.error["code"]) == (404, "not_found")
    assert has_the_shape(nothing)
    root = admin("POST", "/api/v1/", {})
    assert root.status == 404
    assert has_the_shape(root)
    wrong = admin("DELETE", "/discover")
    assert (wrong.status, wrong.headers["Allow"], wrong.error["code"]) == (405, "POST", "method_not_allowed")
    assert has_the_shape(wrong)


@pytest.mark.parametrize("path", ["/artifacts/no%00thing", "/conversations/%00", "/exemplars/%00/promote"])
def test_nul_in_an_address_is_not_found(admin: Api, path: str) -> None:
    assert admin("GET", path).status == 404


def test_nul_in_a_query_names_the_field(admin: Api) -> None:
    reply = admin("GET", "/conversations?q=a%00b")
    assert (reply.status, reply.error["field"]) == (422, "q")


@pytest.mark.parametrize(
    "path",
    [
        "/releases/99999999999999999999",
        "/releases/99999999999999999999...1",
        "/artifacts/cancel-order/versions/99999999999999999999",
        "/conversations/talk-1/turns/99999999999999999999/why/cancel-order",
        "/artifacts?limit=0",
        "/artifacts?limit=201",
        "/artifacts?limit=99999999999999999999",
        "/artifacts?kind=rule",
        "/bundle?release=newest",
        "/audit?since=yesterday",
        "/audit?since=2026-03-02T16:04:11",
        "/judgements?score=6",
    ],
)
def test_addresses_and_queries_are_bounded(admin: Api, path: str) -> None:
    reply = admin("GET", path)
    assert reply.status == 422
    assert has_the_shape(reply)
    assert reply.error["field"]


def test_a_body_beyond_the_limit(admin: Api) -> None:
    big = json.dumps({"messages": [{"role": "user", "content": "x" * 1_048_600}]}).encode()
    reply = admin("POST", "/discover", big)
    assert (reply.status, reply.error["code"]) == (413, "too_large")
    assert has_the_shape(reply)
    assert "1 MB" in reply.error["message"]
    imported = admin(
        "POST", "/conversations", json.dumps({"id": "big", "messages": json.loads(big)["messages"]}).encode()
    )
    assert (imported.status, imported.json["stored"]) == (200, 1), "imports take 10 MB"
    huge = admin("POST", "/conversations", b" " * (10 * 1_048_576 + 1))
    assert (huge.status, "10 MB" in huge.error["message"]) == (413, True)
    beyond_django = admin("POST", "/conversations", b" " * (13 * 1_048_576))
    assert beyond_django.status == 413
    assert has_the_shape(beyond_django)


def test_nothing_is_written_when_the_encoder_is_away(admin: Api, encoder: FakeEncoder) -> None:
    before = (Release.objects.count(), Artifact.objects.count(), AuditEvent.objects.count())
    for path, body in (
        ("/discover", {"messages": SAID, "conversation": "new"}),
        ("/artifacts/cancel-order/exemplars", {"text": "a new text", "polarity": "signal", "base_version": 1}),
        ("/artifacts/cancel-order/preview", {"changes": [{"action": "add", "text": "a text", "polarity": "signal"}]}),
        (
            "/artifacts",
            {"key": "new", "name": "New", "text": "x", "signals": ["one more"], "anti_signals": ["and another"]},
        ),
    ):
        encoder.fail_next = 1
        reply = admin("POST", path, body)
        assert (reply.status, reply.error["code"]) == (503, "unavailable"), path
        assert has_the_shape(reply)
        assert reply.error["hint"]
    assert (Release.objects.count(), Artifact.objects.count(), AuditEvent.objects.count()) == before


def test_a_bug_answers_500_without_a_traceback(
    admin: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(score, "discover", broken)
    reply = admin("POST", "/discover", {"messages": SAID})
    assert (reply.status, reply.error["code"]) == (500, "internal")
    assert has_the_shape(reply)
    assert b"secret detail" not in reply.content
    assert b"Traceback" not in reply.content
    assert "secret detail" in caplog.text, "the log has what the caller must not see"


def test_a_busy_database_says_when_to_come_back(admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(score, "discover", locked)
    reply = admin("POST", "/discover", {"messages": SAID})
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert has_the_shape(reply)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("database or disk is full", "The server's disk is full."),
        ("attempt to write a readonly database", "The database cannot be used as it is."),
    ],
)
def test_a_disk_that_somebody_has_to_mend_is_not_called_busy(
    admin: Api, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OperationalError(said)

    monkeypatch.setattr(score, "discover", refused)
    reply = admin("POST", "/discover", {"messages": SAID})
    assert (reply.status, reply.error["message"]) == (503, message)
    assert "Retry-After" not in reply.headers
    assert has_the_shape(reply)


def test_a_body_that_ends_early_is_the_sender_s_matter() -> None:
    known = errors.as_service_error(UnreadablePostError("cut"))
    assert (known.status, known.code) == (400, "malformed")


def test_a_given_request_id_comes_back(admin: Api) -> None:
    assert admin("GET", "/nothing", X_Request_Id="my-request-1").error["request_id"] == "my-request-1"


def test_replaced_characters_are_reported(admin: Api) -> None:
    body = b'{"key": "odd", "name": "Odd\\u0000", "text": "one \\ud800 two \\u0000 three"}'
    reply = admin("POST", "/artifacts", body)
    assert (reply.status, reply.headers["X-Replaced-Characters"]) == (201, "3")
    assert reply.json["text"] == "one \ufffd two \ufffd three"
    assert "X-Replaced-Characters" not in admin("GET", "/artifacts").headers


NAMES = ["messages", "role", "content", "release", "theta", "include", "conversation", "x"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=anything, role=st.sampled_from([Role.VIEWER, Role.ADMIN]))
def test_no_json_breaks_discover(world: make.World, body: Any, role: Role) -> None:
    reply = Api(world.inventory, role)("POST", "/discover", json.dumps(body).encode())
    assert reply.status in {200, 403, 404, 409, 422}
    assert reply.status == 200 or has_the_shape(reply)
