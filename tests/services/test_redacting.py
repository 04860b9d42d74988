"""Redaction as services keep it: settings, what an edit means, when a reveal ends, what an import makes of masked rows."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.models import Artifact, AuditEvent, Exemplar, Inventory, Reveal
from console.services import curate, export, freeze, redaction
from console.services.actor import SYSTEM, Actor, person
from console.services.errors import Invalid
from console.services.ingest_conversations import import_conversations
from console.services.ingest_exemplars import import_exemplars
from console.services.plan import Step
from sq_core.readers import read_conversations, read_exemplars
from sq_core.redaction import BUILT_IN, Rules
from tests import make

pytestmark = pytest.mark.django_db
MAIL = "jo.doe@example.org"


def save(inventory: Inventory, **more: Any) -> bool:
    values = {"on": True, "kinds": BUILT_IN, "terms": [], "reveal_role": "author", "reason": "the law"} | more
    return redaction.save(inventory, by=SYSTEM, **values)


def test_it_is_off_until_it_is_switched_on_and_costs_no_query(
    world: make.World, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        assert redaction.rules_of(world.inventory) is None
        assert redaction.masked(world.inventory, MAIL) == MAIL
        assert redaction.masked_json(world.inventory, {"a": [MAIL]}) == {"a": [MAIL]}
    assert save(world.inventory)
    with django_assert_num_queries(0):
        assert redaction.masked(world.inventory, MAIL) == "[e-mail]"
        assert redaction.masked_json(world.inventory, {"a": [MAIL, 1], MAIL: None}) == {
            "a": ["[e-mail]", 1],
            MAIL: None,
        }
        assert redaction.masked_json(world.inventory, {"text": MAIL, "id": MAIL}, ["text"]) == {
            "text": "[e-mail]", "id": MAIL,
        }  # fmt: skip
    assert not save(world.inventory)
    assert AuditEvent.objects.filter(action="inventory.redaction").count() == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kinds": ["names"]}, "kinds"),
        ({"kinds": [], "terms": []}, "kinds"),
        ({"terms": ["…"]}, "terms"),
        ({"terms": ["x" * 101]}, "terms"),
        ({"terms": [f"word {n}" for n in range(501)]}, "terms"),
        ({"reveal_role": "boss"}, "reveal_role"),
        ({"reason": "  "}, "reason"),
    ],
)
def test_what_cannot_be_meant_is_refused(world: make.World, given: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        save(world.inventory, **given)
    assert refused.value.field == field
    assert not Inventory.objects.get(pk=world.inventory.pk).redaction


def test_a_cut_leaves_no_half(world: make.World) -> None:
    save(world.inventory)
    for length in range(1, 60):
        shown = redaction.masked(world.inventory, f"please write to {MAIL} or to {MAIL} soon", length)
        assert len(shown) <= length
        assert "jo" not in shown
    kept = ("x" * 286 + " " + MAIL)[:300]  # as a change keeps the beginning of a text
    assert "jo.doe" in kept
    assert "jo" not in redaction.masked(world.inventory, kept, kept=True)
    text = f"{MAIL} " * 400
    assert redaction.masked(world.inventory, text, 300).count("[e-mail]") == 33


def test_what_an_edit_means(world: make.World) -> None:
    save(world.inventory)
    was = f"I am {MAIL}, not b@example.org, call +49 170 1234567"
    mean = redaction.restored
    assert (
        mean(world.inventory, was, "I am [e-mail], not [e-mail]: [phone]")
        == f"I am {MAIL}, not b@example.org: +49 170 1234567"
    )
    assert mean(world.inventory, was, "call [phone]") == "call +49 170 1234567"
    assert mean(world.inventory, was, "call me") == "call me"
    assert mean(world.inventory, was, "I am c@example.org") == "I am c@example.org"
    for unclear in ("I am [e-mail]", "[e-mail] [e-mail] [e-mail]", "my card is [card]"):
        with pytest.raises(Invalid, match="stands for something hidden"):
            mean(world.inventory, was, unclear)
    save(world.inventory, on=False)
    assert mean(world.inventory, was, "[e-mail] and [e-mail]") == f"{MAIL} and b@example.org"  # the form was older
    assert mean(world.inventory, "no address", "write [e-mail]") == "write [e-mail]"


def test_a_masked_text_is_never_stored_as_an_example(world: make.World) -> None:
    save(world.inventory)
    policy = Artifact.objects.get(pk=world.cancel.pk)  # as a request reads it
    with pytest.raises(Invalid):
        curate.apply(policy, [Step("add", text="write to [e-mail]", polarity="signal")], by=world.by, base_version=1)
    rows = read_exemplars(
        b'{"artifact": "cancel-order", "polarity": "signal", "text": "write to [e-mail]"}', filename="x.jsonl"
    )
    report = import_exemplars(world.inventory, rows, by=SYSTEM)
    assert (report.stored, report.rejected) == (0, 1)
    assert "stands for something hidden" in report.errors[0].message
    assert not Exemplar.objects.filter(text__contains="[e-mail]").exists()


def test_a_masked_conversation_does_not_come_back_under_its_id(world: make.World) -> None:
    make.conversation(world.inventory, "private", [f"write to {MAIL}", "thanks"])
    save(world.inventory)
    body = b"".join(export.lines(export.source(world.inventory), "conversations", "jsonl"))
    assert MAIL.encode() not in body
    report = import_conversations(world.inventory, read_conversations(body, filename="x.jsonl"), by=SYSTEM)
    assert (report.stored, report.grown, report.rejected) == (0, 0, 1)
    assert [error.line for error in report.errors] == [6]
    whole = b"".join(export.lines(export.source(world.inventory, clear=True), "conversations", "jsonl"))
    assert MAIL.encode() in whole
    frozen = b"".join(freeze.frozen(export.source(world.inventory)))
    assert frozen[:2] == b"PK"


def test_a_preview_counts_messages_and_shows_three(world: make.World) -> None:
    make.conversation(world.inventory, "private", [f"{n} times {MAIL}" for n in range(5)])
    found = redaction.preview(world.inventory, Rules(frozenset({"email"}), ("lamp",)))
    assert (found.conversations, found.kinds["email"], len(found.examples)) == (6, 5, 3)
    assert found.hit == found.kinds["email"] + found.kinds["term"]
    assert not any(MAIL in piece.text for example in found.examples for piece in example)


def test_a_reveal_is_one_persons_and_ends(world: make.World) -> None:
    talk, now = world.talks["talk-1"], timezone.now()
    until = redaction.reveal(talk, by=world.by, reason=" why not ", now=now)
    assert until == now + timedelta(minutes=15)
    assert redaction.revealed_until(talk, world.author, now=until - timedelta(seconds=1)) == until
    assert redaction.revealed_until(talk, world.author, now=until) is None
    assert redaction.revealed_until(talk, world.admin, now=now) is None
    assert redaction.revealed_until(world.talks["talk-2"], world.author, now=now) is None
    redaction.reveal(talk, by=person(world.admin), reason="later", now=until)
    assert [row.user for row in Reveal.objects.all()] == [world.admin]  # what has ended is not kept
    assert AuditEvent.objects.filter(action="conversation.reveal", object_id=talk.public_id).count() == 2
    for _ in range(2):
        redaction.hide(talk, by=person(world.admin))
    assert not Reveal.objects.exists()
    assert AuditEvent.objects.filter(action="conversation.hide", object_id=talk.public_id).count() == 1
    for by, reason in ((Actor("token:x"), "because"), (world.by, "  ")):
        with pytest.raises(Invalid):
            redaction.reveal(talk, by=by, reason=reason)
