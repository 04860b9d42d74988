"""Erasing conversations: what people wrote goes, a tombstone stays; versions that were fitted on it say that it is gone.

Of a conversation its messages, turns, scores, rewrites, review items, vectors and notes are deleted; its id and the time
stay, so that it cannot come in again. Examples taken from it are retired first, each policy by one new version, and
deleted: what is left of them is the line that every version keeps of its examples, and a version that lacks one says that it
cannot be reproduced.
Pins of releases that have passed lose text and vectors. Texts of examples are taken out of changes and audit rows as well,
whose other columns stay as they were.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from console.models import (
    Artifact,
    AuditEvent,
    Change,
    Conversation,
    ConversationWords,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judgement,
    Message,
    Note,
    Pin,
    QueryState,
    Rewrite,
    StateView,
    Vector,
)
from console.services import audit, curate, fit
from console.services.actor import SYSTEM, Actor
from console.services.errors import Conflict, Invalid, NotFound, ServiceError
from console.services.plan import Step
from console.services.revision import lock_inventory
from sq_core.embedding import vector_key

AT_ONCE = 50  # conversations whose examples are retired together, so that a policy gets one version for all of them
MOST = 2_000  # conversations that one pass of the rule erases; the next hour takes the rest
REASON = "its conversation was erased"


@dataclass
class Erased:
    """What went. ``left``: policies whose last example of a side went with it, so that no new version could be fitted."""

    conversations: int = 0
    messages: int = 0
    exemplars: int = 0
    pins: int = 0
    versions: int = 0
    left: list[str] = field(default_factory=list)


def due(inventory: Inventory, *, now: datetime | None = None) -> "QuerySet[Conversation]":
    """Conversations that the inventory's rule erases, oldest first: by their start, or by when they came."""
    if inventory.keep_days is None:
        return Conversation.objects.none()
    until = (now or timezone.now()) - timedelta(days=inventory.keep_days)
    rows = Conversation.objects.filter(inventory=inventory, erased_at__isnull=True)
    return rows.annotate(began=Coalesce("started_at", "created_at")).filter(began__lt=until).order_by("began", "pk")


def erase_due(*, now: datetime | None = None, most: int = MOST) -> int:
    """The rule of every inventory that has one; how many conversations were erased."""
    n = 0
    for inventory in Inventory.objects.filter(keep_days__isnull=False).order_by("pk"):
        while n < most and (rows := list(due(inventory, now=now)[: min(AT_ONCE, most - n)])):
            reason = f"older than {inventory.keep_days} days"
            n += erase(inventory, rows, by=SYSTEM, reason=reason).conversations
    return n


def find(inventory: Inventory, name: str) -> Conversation:
    """By public id, or by the log's own id. Raises NotFound."""
    name = name.strip()[:200]
    rows = Conversation.objects.filter(inventory=inventory).filter(Q(public_id=name) | Q(external_id=name))
    found = rows.order_by("pk").first()
    if found is None or not name:
        raise NotFound(f"There is no conversation {name[:60]!r}.", field="conversation")
    found.inventory = inventory
    return found


def erased(inventory: Inventory) -> "QuerySet[Conversation]":
    """What was erased so far, the newest first."""
    rows = Conversation.objects.filter(inventory=inventory, erased_at__isnull=False)
    return rows.order_by("-erased_at", "-pk")


@dataclass(frozen=True)
class Uses:
    """What would go with a conversation; ``in_use`` are the policies that would get a version without its examples."""

    examples: int
    in_use: list[str]
    scores: int


def uses(conversation: Conversation) -> Uses:
    taken = Exemplar.objects.filter(origin__conversation=conversation)
    promoted = taken.filter(status=ExemplarStatus.PROMOTED).order_by("artifact__key")
    return Uses(
        examples=taken.count(),
        in_use=list(promoted.values_list("artifact__key", flat=True).distinct()),
        scores=Judgement.objects.filter(state__conversation=conversation).count(),
    )


def erase_one(inventory: Inventory, conversation: Conversation, typed: str, *, by: Actor, reason: str) -> Erased:
    """``typed``: its id, by hand. Raises Invalid with the field, Conflict where it was erased already."""
    if typed.strip() != conversation.external_id:
        raise Invalid("This is not its id.", field="typed", hint="Type it exactly; nothing was erased.")
    if not reason.strip():
        raise Invalid("Say why.", field="reason", hint="The reason is all that is left of it.")
    if conversation.erased_at is not None:
        raise Conflict("It was erased already.", hint="Nothing to do.")
    return erase(inventory, [conversation], by=by, reason=reason)


def erase(inventory: Inventory, conversations: Sequence[Conversation], *, by: Actor, reason: str) -> Erased:
    """Each conversation in a transaction of its own, after the examples in use were retired. A death in between leaves
    whole conversations, erased or not.
    """
    done = Erased()
    _retire(inventory, [c.pk for c in conversations], by, done)
    for conversation in conversations:
        _erase(inventory, conversation.pk, by, reason, done)
    return done


# ------------------------------------------------------------------------------------------------ examples and pins in use
def _retire(inventory: Inventory, pks: Iterable[int], by: Actor, done: Erased) -> None:
    """Out of use: one new version for each policy that learnt from them. ``overrides``: it has to be."""
    mine = Q(origin__conversation__in=list(pks))
    used = Exemplar.objects.filter(mine, status=ExemplarStatus.PROMOTED, artifact__inventory=inventory)
    pinned = Pin.objects.current().filter(state__conversation__in=list(pks), artifact__inventory=inventory)
    wanted = {*used.values_list("artifact", flat=True), *pinned.values_list("artifact", flat=True)}
    for artifact in Artifact.objects.filter(pk__in=wanted).select_related("inventory").order_by("pk"):
        steps = [Step("retire", exemplar=row.public_id) for row in used.filter(artifact=artifact).order_by("pk")]
        steps += [
            Step("unpin", pin=row.public_id) for row in pinned.filter(artifact=artifact, exemplar=None).order_by("pk")
        ]
        _retire_of(artifact, steps, by, done)


def _retire_of(artifact: Artifact, steps: list[Step], by: Actor, done: Erased) -> None:
    for _attempt in range(3):
        active = fit.active_version(artifact)
        number = active.number if active else None
        try:
            applied = curate.apply(artifact, steps, by=by, base_version=number, reason=REASON)
        except Conflict:
            continue  # somebody was quicker: on what stands now
        except ServiceError:  # the last of a side, or an archived policy: it goes all the same, and no version is made
            done.left.append(artifact.key)
            return
        done.versions += applied.made_version
        return
    done.left.append(artifact.key)


# --------------------------------------------------------------------------------------------------------- what people wrote
def _erase(inventory: Inventory, pk: int, by: Actor, reason: str, done: Erased) -> None:
    with transaction.atomic():
        lock_inventory(inventory)
        row = Conversation.objects.select_for_update(no_key=True).get(pk=pk)
        if row.erased_at is not None:
            return
        now = timezone.now()
        states = QueryState.objects.filter(conversation=row)
        exemplars = _drop_exemplars(inventory, states, now)
        pins = _empty_pins(states)
        _drop_vectors(states)
        messages = Message.objects.filter(conversation=row).delete()[0]
        ConversationWords.objects.filter(conversation=row).delete()
        Rewrite.objects.filter(conversation=row).delete()
        notes = Note.objects.filter(inventory=inventory)
        notes.filter(Q(object_id=row.public_id) | Q(object_id__startswith=f"{row.public_id}/")).delete()
        before = {"messages": row.message_count, "user_turns": row.user_turn_count}
        states.delete()  # with scores and review items; decisions keep their numbers
        Conversation.objects.filter(pk=pk).update(
            customer="", config="", metadata={}, message_count=0, user_turn_count=0, digest="", scenario=row.external_id,
            replaced_characters=0, addresses_judge=False, erased_at=now,
        )  # fmt: skip
        Inventory.objects.filter(pk=inventory.pk).update(
            log_revision=F("log_revision") + 1,
            label_revision=F("label_revision") + 1,
            exemplar_revision=F("exemplar_revision") + 1,
        )
        audit.record(
            by=by, inventory=inventory.slug, action="conversation.erase", object_type="conversation",
            object_id=row.public_id, label=row.external_id, before=before,
            after={"erased": True, "examples": exemplars, "pins": pins}, reason=reason,
        )  # fmt: skip
        done.conversations += 1
        done.messages += messages
        done.exemplars += exemplars
        done.pins += pins


def _drop_exemplars(inventory: Inventory, states: Any, now: datetime) -> int:
    """The examples taken from the states, and their texts in what was written down of them."""
    rows = list(Exemplar.objects.filter(origin__in=states).only("pk", "public_id", "artifact_id", "text"))
    if not rows:
        return 0
    encoders = {inventory.encoder_id, *StateView.objects.filter(state__in=states).values_list("encoder_id", flat=True)}
    Exemplar.objects.filter(pk__in=[row.pk for row in rows]).delete()
    gone = {row.text for row in rows}
    gone -= set(Exemplar.objects.filter(text__in=gone).values_list("text", flat=True))  # "yes" is many people's example
    _drop_unshared({vector_key(name, text) for name in encoders for text in gone}, states)
    ids = {row.public_id for row in rows}
    Note.objects.filter(inventory=inventory, object_type="exemplar", object_id__in=ids).delete()  # they quote its text
    for change in Change.objects.filter(artifact__in={row.artifact_id for row in rows}).iterator(500):
        sides = [_without(side, ids) for side in (change.before, change.after)]
        if sides != [change.before, change.after]:
            Change.objects.filter(pk=change.pk).update(before=sides[0], after=sides[1])
    events = AuditEvent.objects.filter(inventory=inventory.slug, object_type="exemplar")
    for event in events.filter(label__in=_keys(rows)).iterator(500):
        sides = [_without(side, ids) for side in (event.before, event.after)]
        if sides != [event.before, event.after]:
            AuditEvent.objects.filter(pk=event.pk).update(before=sides[0], after=sides[1], erased_at=now)
    return len(rows)


def _keys(rows: Iterable[Exemplar]) -> list[str]:
    return list(Artifact.objects.filter(pk__in={row.artifact_id for row in rows}).values_list("key", flat=True))


def _without(side: Any, ids: set[str]) -> Any:
    """A side of a change without the texts of these examples."""
    exemplars = side.get("exemplars") if isinstance(side, dict) else None
    if not isinstance(exemplars, dict) or not ids & set(exemplars):
        return side
    return side | {
        "exemplars": {
            name: {**row, "text": ""} if name in ids and isinstance(row, dict) else row
            for name, row in exemplars.items()
        }
    }


def _empty_pins(states: Any) -> int:
    """Of releases that have passed too: a vector of zeros is near nothing."""
    rows = list(Pin.objects.filter(state__in=states).only("pk", "cumulative", "turn", "to_release"))
    for pin in rows:
        length = len(bytes(pin.turn or pin.cumulative or b"")) // 4
        zeros = np.zeros(length, dtype="<f4").tobytes()
        Pin.objects.filter(pk=pin.pk).update(text="", cumulative=None, turn=zeros)
    return len(rows)


def _drop_vectors(states: Any) -> None:
    """Those that no other turn shares: the same words elsewhere keep theirs."""
    views = StateView.objects.filter(state__in=states)
    _drop_unshared({key for pair in views.values_list("cumulative_key", "turn_key") for key in pair}, states)


def _drop_unshared(keys: set[str], states: Any) -> None:
    """A turn that has lost its vector would be missing from every table of its inventory."""
    others = StateView.objects.exclude(state__in=states).filter(Q(cumulative_key__in=keys) | Q(turn_key__in=keys))
    shared = {key for pair in others.values_list("cumulative_key", "turn_key") for key in pair}
    Vector.objects.filter(key__in=keys - shared).delete()
