"""Notes on any object, flags with their reason, and the people they name (``@name``), who are members here.

What a note is on is named as in audit rows. A draft is its writer's own, one for each object. Taken back or seen to, a note
stays as a row.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from console.models import (
    Artifact,
    ArtifactText,
    ClassifierVersion,
    Conversation,
    Exemplar,
    Inventory,
    Membership,
    Mention,
    Note,
    QueryState,
    Release,
    Run,
    User,
)
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Conflict, Forbidden, Invalid, NotFound
from console.services.filters import Asked, Field, parse
from console.services.redaction import masked

LONGEST = 4_000  # characters of a note
PAGE = 50
SHOWN = 100  # notes that one object shows, newest first
NAMED = re.compile(r"(?<![\w@.+-])@([\w.@+-]{1,150})")
OBJECT, TURN = "conversation", "turn"


@dataclass(frozen=True)
class Target:
    """What a note is on, as audit rows name it; ``label`` in words."""

    kind: str
    id: str
    label: str


# ------------------------------------------------------------------------------------------------------- what notes are on
def _policy(inventory: Inventory, name: str) -> str | None:
    rows = ArtifactText.objects.current().filter(artifact__inventory=inventory, artifact__key=name)
    return rows.values_list("name", flat=True).first()


def _exemplar(inventory: Inventory, name: str) -> str | None:
    row = Exemplar.objects.filter(artifact__inventory=inventory, public_id=name).select_related("artifact").first()
    return f"{row.artifact.key}: {masked(inventory, row.text, 120)}" if row else None


def _conversation(inventory: Inventory, name: str) -> str | None:
    rows = Conversation.objects.filter(inventory=inventory, public_id=name, erased_at__isnull=True)
    return rows.values_list("external_id", flat=True).first()


def _turn(inventory: Inventory, name: str) -> str | None:
    conversation, _slash, number = name.partition("/")
    if not (number.isdecimal() and number.isascii() and len(number) < 7):
        return None
    rows = QueryState.objects.filter(conversation__inventory=inventory, conversation__public_id=conversation)
    found = rows.filter(user_turn=int(number)).values_list("conversation__external_id", flat=True).first()
    return found and f"{found} · {int(number) + 1}"


def _run(inventory: Inventory, name: str) -> str | None:
    row = Run.objects.filter(inventory=inventory, public_id=name).first()
    return f"{row.get_kind_display()}, {row.created_at:%Y-%m-%d %H:%M}" if row else None


def _release(inventory: Inventory, name: str) -> str | None:
    number = int(name) if name.isdecimal() and name.isascii() and len(name) < 10 else 0
    return name if Release.objects.filter(inventory=inventory, number=number).exists() else None


def _version(inventory: Inventory, name: str) -> str | None:
    key, _slash, number = name.rpartition("/")
    if not (number.isdecimal() and number.isascii() and len(number) < 10):
        return None
    artifact = Artifact.objects.filter(inventory=inventory, key=key).first()
    there = artifact and ClassifierVersion.objects.filter(artifact=artifact, number=int(number)).exists()
    return f"{key} · {number}" if there else None


KINDS: dict[str, tuple[Any, Callable[[Inventory, str], str | None]]] = {
    "artifact": (_("Policy"), _policy),
    "exemplar": (_("Example"), _exemplar),
    OBJECT: (_("Conversation"), _conversation),
    TURN: (_("Message"), _turn),
    "run": (_("Run"), _run),
    "release": (_("Release"), _release),
    "version": (_("Version"), _version),
}
NUMBERED = (TURN, "release", "version")  # what is named by a number at the end


def target(inventory: Inventory, kind: str, name: str) -> Target:
    """Raises NotFound for what is not there, or of another inventory."""
    label = KINDS[kind][1](inventory, name[:200]) if kind in KINDS else None
    if not label:
        raise NotFound(f"There is no {kind[:20]!r} {name[:60]!r} to write a note on.", field="object")
    if kind in NUMBERED:  # "007" is the seventh, and its notes stand with those of "7"
        head, slash, number = name.rpartition("/")
        name = f"{head}{slash}{int(number)}"
    return Target(kind, name, label[:300])


# ----------------------------------------------------------------------------------------------------------------- writing
def save_draft(inventory: Inventory, on: Target, text: str, *, by: Actor, url: str = "") -> Note | None:
    """What is being written, kept as it is typed; an empty text drops the draft. One row for each person and object."""
    user = _person(by)
    mine = Note.objects.filter(inventory=inventory, object_type=on.kind, object_id=on.id, by=user, draft=True)
    if not text.strip():
        mine.delete()
        return None
    row, _made = Note.objects.update_or_create(
        inventory=inventory, object_type=on.kind, object_id=on.id, by=user, draft=True,
        defaults={"text": text[:LONGEST], "label": on.label, "url": url[:300]},
    )  # fmt: skip
    return row


def write(inventory: Inventory, on: Target, text: str, *, by: Actor, flag: bool = False, url: str = "") -> Note:
    """A note, or a flag whose text is the reason; the draft is done with, who is named in it is told. Raises Invalid."""
    user, text = _person(by), text.strip()
    if not text:
        raise Invalid(
            "Say what is wrong with it." if flag else "The note is empty.", field="text", hint="Write something."
        )
    if len(text) > LONGEST:
        raise Invalid(f"The note has {len(text)} characters.", field="text", hint=f"Keep it to {LONGEST}.")
    with transaction.atomic():
        mine = Note.objects.filter(inventory=inventory, object_type=on.kind, object_id=on.id, by=user, draft=True)
        if not flag:
            mine.delete()
        row = Note.objects.create(
            inventory=inventory, object_type=on.kind, object_id=on.id, label=on.label, url=url[:300], text=text, flag=flag,
            by=user,
        )  # fmt: skip
        named = members_named(inventory, text)
        Mention.objects.bulk_create([Mention(note=row, user=one) for one in named if one.pk != user.pk])
        audit.record(
            by=by, inventory=inventory.slug, action="note.flag" if flag else "note.write", object_type=on.kind,
            object_id=on.id, label=_audit_label(on), after={"note": row.public_id, "names": [one.username for one in named]},
            reason=text if flag else "",
        )  # fmt: skip
    return row


def members_named(inventory: Inventory, text: str) -> list[User]:
    """The members whose names follow an ``@``, whatever the case; a full stop after a name ends a sentence."""
    names = {name.rstrip(".").lower() for name in NAMED.findall(text)}
    if not names:
        return []
    rows = Membership.objects.filter(inventory=inventory, user__is_active=True).select_related("user")
    return [row.user for row in rows if row.user.username.lower() in names]


def close(row: Note, *, by: Actor, reason: str = "") -> Note:
    """A flag seen to by anybody, a note taken back by its writer. Raises Conflict, Forbidden."""
    user = _person(by)
    if not row.flag and row.by_id != user.pk:
        raise Forbidden("This note is somebody else's.", hint="Write one of your own.")
    with transaction.atomic():
        now = timezone.now()
        rows = Note.objects.filter(pk=row.pk, closed_at__isnull=True, draft=False)
        if not rows.update(closed_at=now, closed_by=by.name):
            raise Conflict("It was closed already.", hint="Look at it again.")
        Mention.objects.filter(note=row, seen_at__isnull=True).update(seen_at=now)
        on = Target(row.object_type, row.object_id, row.label)
        audit.record(
            by=by, inventory=row.inventory.slug, action="note.close" if row.flag else "note.take_back",
            object_type=on.kind, object_id=on.id, label=_audit_label(on), before={"note": row.public_id}, reason=reason,
        )  # fmt: skip
    row.refresh_from_db()
    return row


def _audit_label(on: Target) -> str:
    """A policy's rows have its key as label, so that its history has them."""
    if on.kind == "artifact":
        return on.id
    return (
        on.label.partition(":")[0]
        if on.kind == "exemplar"
        else on.id.partition("/")[0]
        if on.kind == "version"
        else on.label
    )


def _person(by: Actor) -> User:
    if by.user is None:
        raise Invalid("Only a person can write a note.", field="text", hint="Sign in.")
    return by.user


# ----------------------------------------------------------------------------------------------------------------- reading
def get_note(inventory: Inventory, public_id: str) -> Note:
    row = Note.objects.filter(inventory=inventory, public_id=public_id[:12], draft=False).select_related("by").first()
    if row is None:
        raise NotFound("There is no such note.", field="note")
    row.inventory = inventory
    return row


def on_object(inventory: Inventory, kind: str, name: str, reader: User) -> tuple[list[Note], Note | None]:
    """Its notes, open flags first, then newest, those of its conversation among a turn's; the reader's draft. One query."""
    own = Q(object_type=kind, object_id=name)
    whole = Q(object_type=OBJECT, object_id=name.partition("/")[0], draft=False) if kind == TURN else Q(pk=None)
    rows = Note.objects.filter(own | whole, inventory=inventory).filter(Q(draft=False) | Q(by=reader))
    found = list(rows.select_related("by").order_by("-pk")[:SHOWN])
    told = [row for row in found if not row.draft and (row.flag or row.closed_at is None)]
    told.sort(key=lambda row: (not (row.flag and row.closed_at is None), -row.pk))
    return told, next((row for row in found if row.draft), None)


def seen(row: Note, reader: User) -> bool:
    """The reader has looked at a note that names them."""
    return bool(Mention.objects.filter(note=row, user=reader, seen_at__isnull=True).update(seen_at=timezone.now()))


def unseen(inventory: Inventory, reader: User, *, size: int) -> list[Note]:
    """The notes that name the reader and have not been looked at, newest first."""
    told = {"mentions__user": reader, "mentions__seen_at__isnull": True}  # of one mention
    rows = Note.objects.filter(inventory=inventory, draft=False, closed_at__isnull=True, **told)
    return list(rows.select_related("by").order_by("-pk")[:size])


def open_flags(inventory: Inventory) -> "QuerySet[Note]":
    rows = Note.objects.filter(inventory=inventory, flag=True, draft=False, closed_at__isnull=True)
    return rows.select_related("by").order_by("-pk")


def fields(reader: User) -> tuple[Field, ...]:
    named = Mention.objects.filter(note=OuterRef("pk"), user=reader)

    def names_me(op: str, value: bool) -> Q:
        return Q(Exists(named)) if value else ~Q(Exists(named))

    return (
        Field("flag", _("Flag"), "flag", column="flag"),
        Field("open", _("Open"), "flag", q=lambda op, value: Q(closed_at__isnull=value)),
        Field("names", _("Names me"), "flag", q=names_me),
        Field(
            "kind",
            _("On a"),
            "choice",
            column="object_type",
            choices={name: label for name, (label, _f) in KINDS.items()},
        ),
        Field("object", _("Object"), column="object_id"),
        Field("by", _("Written by"), column="by__username"),
        Field("text", _("Text"), column="text"),
        Field("at", _("When"), "time"),
    )


@dataclass(frozen=True)
class Page:
    rows: list[Note]
    next: int | None


def page(inventory: Inventory, asked: Asked, *, before: int | None = None, size: int = PAGE) -> Page:
    """Finished notes, newest first; two pages never share one. ``before``: the row number that the page before ended at."""
    rows = Note.objects.filter(asked.q(), inventory=inventory, draft=False).select_related("by").order_by("-pk")
    found = list((rows.filter(pk__lt=before) if before is not None else rows)[: size + 1])
    return Page(found[:size], found[size - 1].pk if len(found) > size else None)


def asked(conditions: Iterable[str], reader: User) -> Asked:
    return parse(conditions, fields(reader))
