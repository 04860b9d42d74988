"""Texts of conversations by the API: masked as on pages; whole with ``reveal=true``, for the role, with an audit row."""

import json
from typing import Any

import pytest

from console.api.said import NAME
from console.models import AuditEvent, Conversation, Exemplar, Judgement
from console.services import curate, embed, redaction
from console.services.actor import SYSTEM
from console.services.plan import Step
from sq_core.redaction import BUILT_IN
from tests import make
from tests.web.api import Api

pytestmark = pytest.mark.django_db
MAIL = "jo.doe@example.org"


@pytest.fixture
def hidden(world: make.World) -> make.World:
    make.conversation(
        world.inventory, "private", [f"I want to cancel my order, {MAIL}"], customer=MAIL, metadata={"from": [MAIL]}
    )
    embed.embed_states(world.inventory)
    talk = Conversation.objects.get(external_id="private")
    adding = Step("add", state=talk.states.get(user_turn=0).pk, polarity="signal")
    curate.apply(world.cancel, [adding], by=world.by, base_version=1)
    made = Exemplar.objects.get(artifact=world.cancel, text__contains=MAIL)
    curate.apply(world.cancel, [Step("pin", exemplar=made.public_id)], by=world.by, base_version=2)
    make.judge(world.inventory, "private", 0, {"cancel-order": 5})
    Judgement.objects.filter(state__conversation=talk).update(reason=f"they say {MAIL}")
    values = {"on": True, "kinds": BUILT_IN, "terms": [], "reveal_role": "author", "reason": "the law"}
    redaction.save(world.inventory, by=SYSTEM, **values)
    return world


READS = (
    "/conversations/private", "/conversations", "/conversations/private/turns/0/why/cancel-order", "/judgements",
    "/artifacts/cancel-order/exemplars", "/artifacts/cancel-order/pins", "/artifacts/cancel-order/versions/3",
    "/artifacts/cancel-order/versions/1...3", "/changes", "/releases/3", "/audit", "/candidates",
)  # fmt: skip


@pytest.mark.parametrize("path", READS)
def test_a_read_is_masked(hidden: make.World, path: str) -> None:
    reply = Api(hidden.inventory, "admin")("GET", path)
    assert reply.status == 200, reply.json
    assert b"jo.doe" not in reply.content


def test_whole_texts_take_the_word_the_role_and_an_audit_row(hidden: make.World) -> None:
    path = "/conversations/private"
    author, reviewer = Api(hidden.inventory, "author"), Api(hidden.inventory, "reviewer")
    masked = author("GET", path).json
    assert masked["messages"][0]["content"] == "I want to cancel my order, [e-mail]"
    assert (masked["customer"], masked["metadata"]) == ("[e-mail]", {"from": ["[e-mail]"]})
    refused = reviewer("GET", f"{path}?reveal=true")
    assert (refused.status, refused.error["field"]) == (403, "reveal")
    assert author("GET", f"{path}?reveal=perhaps").status == 422
    assert not AuditEvent.objects.filter(action="conversation.reveal").exists()
    assert author("GET", f"{path}?reveal=true").json["messages"][0]["content"].endswith(MAIL)
    event = AuditEvent.objects.get(action="conversation.reveal")
    assert (event.actor, event.label) == ("token:author token", "get_conversation")
    assert event.reason.endswith("/conversations/private")


def test_off_the_word_changes_nothing(world: make.World) -> None:
    reply = Api(world.inventory, "viewer")("GET", "/conversations/talk-1?reveal=true")
    assert reply.status == 200
    assert not AuditEvent.objects.filter(action="conversation.reveal").exists()


def test_a_preview_is_masked(hidden: make.World) -> None:
    example = Exemplar.objects.get(artifact=hidden.cancel, text__contains=MAIL)
    body = {"changes": [{"action": "retire", "exemplar": example.public_id}]}
    reply = Api(hidden.inventory, "author")("POST", "/artifacts/cancel-order/preview", body)
    assert reply.status == 200
    assert b"jo.doe" not in reply.content


def test_the_parameter_is_in_the_document_of_every_call_that_says_something(hidden: make.World) -> None:
    document: dict[str, Any] = json.loads(Api(None, "viewer", slug="tiny")("GET", "/api/v1/openapi.json").content)
    having = {
        call["operationId"]
        for calls in document["paths"].values()
        for call in calls.values()
        if any(parameter["name"] == NAME for parameter in call.get("parameters", ()))
    }
    assert {"get_conversation", "explain_turn", "list_exemplars", "list_judgements", "list_candidates"} <= having
    assert not {"discover", "list_artifacts", "list_releases"} & having
