"""Erasing conversations: what goes, what stays as a tombstone, what says that it is gone, and the rule of days."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from console import tasks
from console.models import (
    AuditEvent,
    Change,
    Conversation,
    Exemplar,
    Judgement,
    Message,
    Note,
    Pin,
    QueryState,
    ReviewItem,
    StateView,
    Vector,
)
from console.services import (
    caches,
    calibrate,
    conversations,
    curate,
    embed,
    erasure,
    fit,
    notes,
    refitting,
    review_queues,
    settings_general,
    table,
)
from console.services.actor import SYSTEM, person
from console.services.conversation_list import Wanted, matching
from console.services.errors import Conflict, Invalid, NotFound
from console.services.ingest_conversations import grow_conversation, import_conversations
from console.services.inventories import current_point
from console.services.plan import Step
from console.services.review_build import Asked
from sq_core import conversation as log
from tests import make

pytestmark = pytest.mark.django_db
SAID = "I would like to cancel my order of yesterday"


@pytest.fixture
def used(world: make.World) -> make.World:
    """talk-1's second message is an example in use and pinned; its third one a must-select turn of refunds."""
    state = world.state("talk-1", 1)
    curate.apply(world.cancel, [Step("add", state=state.pk, polarity="signal")], by=world.by, base_version=1)
    curate.apply(world.refund, [Step("pin", state=world.state("talk-1", 2).pk)], by=world.by, base_version=1)
    review_queues.create_queue(world.inventory, Asked("audit", size=8), by=world.by)
    return world


def erase(world: make.World, name: str = "talk-1") -> erasure.Erased:
    talk = erasure.find(world.inventory, name)
    return erasure.erase_one(world.inventory, talk, name, by=person(world.admin), reason="asked for by the customer")


def everything_written() -> str:
    """All text of all tables, as the database holds it."""
    found = []
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{name}"')  # names of our own tables
            found += [str(value) for row in cursor.fetchall() for value in row if isinstance(value, str | dict | list)]
    return "\n".join(found)


def test_what_was_said_is_nowhere_any_more(used: make.World) -> None:
    assert everything_written().count(SAID) >= 3  # the message, the example, its change, its audit row
    own = embed.named_encoder("minilm").id
    assert StateView.objects.filter(state__conversation=used.talks["talk-1"], encoder_id=own).count() == 3
    vectors = Vector.objects.count()
    done = erase(used)
    assert (done.conversations, done.messages, done.exemplars, done.pins, done.left) == (1, 5, 1, 1, [])
    assert SAID not in everything_written()
    assert "and when do I get the money back" not in everything_written()
    assert not Message.objects.filter(conversation=used.talks["talk-1"]).exists()
    assert not QueryState.objects.filter(conversation=used.talks["talk-1"]).exists()
    assert not Judgement.objects.filter(state__conversation=used.talks["talk-1"]).exists()
    assert not ReviewItem.objects.filter(state__conversation=used.talks["talk-1"]).exists()
    assert Vector.objects.count() < vectors


def test_a_tombstone_stays_and_nothing_comes_in_under_its_id(used: make.World) -> None:
    erase(used)
    row = Conversation.objects.get(external_id="talk-1")
    assert row.erased_at is not None
    assert (row.message_count, row.user_turn_count, row.metadata, row.digest) == (0, 0, {}, "")
    event = AuditEvent.objects.get(action="conversation.erase")
    assert (event.actor, event.label, event.reason) == ("anna", "talk-1", "asked for by the customer")
    assert event.before == {"messages": 5, "user_turns": 3}
    again = log.Conversation("talk-1", make.messages(["hello there"]))
    report = import_conversations(used.inventory, [again], by=SYSTEM)
    assert (report.stored, report.grown, report.rejected) == (0, 0, 1)
    assert "was erased on" in report.errors[0].message
    with pytest.raises(Conflict, match="was erased"):
        grow_conversation(used.inventory, "talk-1", make.messages(["hello there"]), by=SYSTEM)


def test_versions_fitted_on_it_say_that_they_cannot_be_reproduced(used: make.World) -> None:
    fitted = fit.active_version(used.cancel)
    assert fitted is not None
    assert fit.reproduce(fitted).ok
    done = erase(used)
    assert done.versions >= 1
    now = fit.active_version(used.cancel)
    assert now is not None
    assert now.number == 3
    assert fit.reproduce(now).ok  # what is in use now was fitted without it
    gone = fit.reproduce(fitted)
    assert not gone.ok
    assert "1 of its examples were erased" in gone.message
    pin = Pin.objects.get(artifact=used.refund)
    assert pin.to_release is not None
    assert (pin.text, pin.cumulative, set(bytes(pin.turn or b""))) == ("", None, {0})


def test_what_used_it_cannot_be_taken_back_and_work_goes_on(used: make.World) -> None:
    added = Change.objects.get(artifact=used.cancel, action="add")
    erase(used)
    added.refresh_from_db()
    assert [row["text"] for row in added.after["exemplars"].values()] == [""]
    with pytest.raises(Conflict, match="erased"):
        curate.preview_undo(added, by=used.by)
    used.inventory.refresh_from_db()
    steps = [Step("add", text="drop what I ordered", polarity="signal")]
    assert curate.apply(used.cancel, steps, by=used.by, base_version=3, reason="r").made_version
    refitting.refit(used.inventory, by=SYSTEM)
    calibrate.calibrate(used.inventory, by=SYSTEM)
    assert embed.embed_states(used.inventory) == 0
    assert not embed.is_pending(used.inventory)
    assert "talk-1" not in [row.external_id for row in matching(used.inventory, Wanted())]
    assert conversations.talk(used.inventory, "talk-1").turns == []


def test_the_last_example_of_a_side_goes_all_the_same(world: make.World) -> None:
    """No version can be fitted without it: the active one keeps serving, and says that it is not reproducible."""
    state = world.state("talk-3", 0)
    curate.apply(world.refund, [Step("add", state=state.pk, polarity="signal")], by=world.by, base_version=1)
    others = Exemplar.objects.filter(artifact=world.refund, polarity="signal", origin=None)
    steps = [Step("retire", exemplar=row.public_id) for row in others]
    curate.apply(world.refund, steps, by=world.by, base_version=2, reason="only real ones")
    done = erase(world, "talk-3")
    assert done.left == ["refund-status"]
    assert done.exemplars == 1
    active = fit.active_version(world.refund)
    assert active is not None
    assert active.number == 3
    assert not fit.reproduce(active).ok


def test_words_that_others_said_too_keep_their_vectors(world: make.World) -> None:
    """talk-5's last message and talk-2's are other words; a twin of talk-5 shares all of its."""
    make.conversation(world.inventory, "twin", [turn for turn, _ in make.TALKS["talk-5"]])
    embed.embed_states(world.inventory)
    erase(world, "talk-5")
    caches.clear_all()
    views = StateView.objects.filter(state__conversation__external_id="twin")
    keys = {key for pair in views.values_list("cumulative_key", "turn_key") for key in pair}
    assert len(keys) >= 3
    assert Vector.objects.filter(key__in=keys).count() == len(keys)
    assert embed.embed_states(world.inventory) == 0


def test_an_example_in_words_that_others_said_too_leaves_them_their_vectors(used: make.World) -> None:
    """The same message in another conversation, and the same words written as an example of another policy."""
    make.conversation(used.inventory, "twin", [SAID])
    embed.embed_states(used.inventory)
    curate.apply(used.change, [Step("add", text=SAID, polarity="anti_signal")], by=used.by, base_version=1)
    view = StateView.objects.get(state__conversation__external_id="twin")
    assert erase(used).exemplars == 1
    caches.clear_all()
    assert Vector.objects.filter(key=view.turn_key).exists()
    centre = current_point(used.inventory).centre
    assert centre is not None
    assert len(table.state_table(used.inventory, centre)) == QueryState.objects.count()
    assert Exemplar.objects.filter(text=SAID).count() == 1


def test_it_takes_the_id_typed_and_a_reason_and_happens_once(world: make.World) -> None:
    talk, by = world.talks["talk-4"], person(world.admin)
    with pytest.raises(Invalid, match="not its id"):
        erasure.erase_one(world.inventory, talk, "talk-3", by=by, reason="r")
    with pytest.raises(Invalid, match="Say why"):
        erasure.erase_one(world.inventory, talk, "talk-4", by=by, reason=" ")
    assert Message.objects.filter(conversation=talk).exists()
    erase(world, "talk-4")
    with pytest.raises(Conflict, match="already"):
        erase(world, "talk-4")
    with pytest.raises(NotFound):
        erasure.find(world.inventory, "")
    with pytest.raises(NotFound):
        erasure.find(world.others, "talk-3")


def test_the_rule_of_days(world: make.World) -> None:
    assert tasks.erase_conversations() == 0
    settings_general.keep_for(world.inventory, 30, by=person(world.admin))
    old = timezone.now() - timedelta(days=31)
    Conversation.objects.filter(external_id__in=["talk-1", "talk-2"]).update(started_at=old)
    Conversation.objects.filter(external_id="talk-3").update(created_at=old, started_at=timezone.now())
    assert [row.external_id for row in erasure.due(world.inventory)] == ["talk-1", "talk-2"]
    assert tasks.erase_conversations() == 2
    assert tasks.erase_conversations() == 0
    reasons = set(AuditEvent.objects.filter(action="conversation.erase").values_list("actor", "reason"))
    assert reasons == {("", "older than 30 days")}
    assert Conversation.objects.filter(erased_at=None).count() == 3
    for days in (0, -1, 10**6):
        with pytest.raises(Invalid):
            settings_general.keep_for(world.inventory, days, by=person(world.admin))
    assert settings_general.keep_for(world.inventory, None, by=person(world.admin))
    assert not settings_general.keep_for(world.inventory, None, by=person(world.admin))


def test_notes_on_it_go_with_it(world: make.World) -> None:
    talk = world.talks["talk-2"]
    for kind, identity in (("conversation", talk.public_id), ("turn", f"{talk.public_id}/1"), ("turn", "another/1")):
        Note.objects.create(
            inventory=world.inventory,
            object_type=kind,
            object_id=identity,
            text="he says: cancel them",
            by=world.author,
        )
    erase(world, "talk-2")
    assert list(Note.objects.values_list("object_id", flat=True)) == ["another/1"]


def test_notes_on_its_examples_go_with_it(used: make.World) -> None:
    """A note's label begins with the words of the example that it is on."""
    by = person(used.author)
    taken = Exemplar.objects.get(text=SAID, origin__isnull=False)
    other = Exemplar.objects.filter(origin=None).order_by("pk")[0]
    for row in (taken, other):
        notes.write(
            used.inventory, notes.target(used.inventory, "exemplar", row.public_id), "look at it", by=by, flag=True
        )
        notes.save_draft(used.inventory, notes.target(used.inventory, "exemplar", row.public_id), "half", by=by)
    erase(used)
    assert {row.object_id for row in Note.objects.all()} == {other.public_id}
    assert SAID not in everything_written()


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"after": {"n": 2}}, True),
        ({"actor": "somebody", "erased_at": timezone.now()}, True),
        ({"reason": "another", "after": {}, "erased_at": timezone.now()}, True),
        ({"after": {}, "erased_at": timezone.now()}, False),
    ],
)
def test_audit_rows_give_up_texts_and_nothing_else(world: make.World, values: dict[str, Any], refused: bool) -> None:
    row = AuditEvent.objects.filter(inventory="tiny").first()
    assert row is not None
    if not refused:
        AuditEvent.objects.filter(pk=row.pk).update(**values)
        with pytest.raises(DatabaseError), transaction.atomic():  # not once more at the same time
            AuditEvent.objects.filter(pk=row.pk).update(**values)
        return
    with pytest.raises(DatabaseError), transaction.atomic():
        AuditEvent.objects.filter(pk=row.pk).update(**values)
    assert json.dumps(row.after) == json.dumps(AuditEvent.objects.get(pk=row.pk).after)
