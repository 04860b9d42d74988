"""Migrations of an inventory's encoder or centre: forecast, begun, read slice by slice in the background, looked at again."""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.models import ArtifactText, EncoderMigration, Exemplar, Inventory, MigrationState, Pin, QueryState, Vector
from console.models.migration import OPEN
from console.services import audit, embed, fit, migrate_shadow
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound, ServiceError
from console.services.inventories import current_point, encoder_identity
from sq_core.artifact_text import artifact_text
from sq_core.embedding import Encoder, vector_key

CHARACTERS_PER_TOKEN = 4
TEXTS_A_SECOND = 30  # the packaged encoder on one core; a hosted one is faster
STATES_A_SLICE = 2_000
MOST_DAYS = 365
STALLED_S = 120  # six times a slice


@dataclass(frozen=True)
class Forecast:
    """What a migration will read: ``texts`` that have no vector under the encoder yet, about so many tokens and seconds.
    Two texts a turn are counted, the message and the chat up to it; equal ones are read once.
    """

    texts: int
    tokens: int
    seconds: int
    hosted: bool


def forecast(inventory: Inventory, encoder: str = "") -> Forecast:
    """Counts and a mean length, without reading the log: an upper bound. Raises Invalid for a name that is no encoder."""
    name = encoder or inventory.encoder
    target = _target(inventory, name, encoder_identity(name))
    turns = embed.pending_states(target).count()
    small = sorted(set(_small_texts(inventory)))
    known = _known(target.encoder_id, small) if len(small) < 500 else set[str]()
    missing = [text for text in small if vector_key(target.encoder_id, text) not in known]
    mean = _mean_prefix(inventory) if turns else 0
    tokens = (sum(map(len, missing)) + turns * mean) // CHARACTERS_PER_TOKEN
    texts = len(missing) + 2 * turns
    return Forecast(texts, tokens, texts // TEXTS_A_SECOND, hosted=name.startswith("openai:"))


def _mean_prefix(inventory: Inventory) -> int:
    """Characters of a turn's two texts, from the newest states."""
    rows = QueryState.objects.filter(conversation__inventory=inventory).order_by("-pk")[:50]
    lengths = []
    for state in rows.select_related("conversation"):
        said = state.conversation.messages.filter(index__lte=state.message_index).values_list("content", flat=True)
        lengths.append(sum(map(len, said)))
    return sum(lengths) // max(1, len(lengths))


def start(
    inventory: Inventory, *, by: Actor, encoder: str = "", served_days: int = 14, reason: str = ""
) -> EncoderMigration:
    """Begin to make everything anew, around a new centre and, with ``encoder``, under that encoder. Nothing that decides
    changes. Raises Invalid without a fitted inventory or for a name that is no encoder, Conflict while one is open.
    """
    point = current_point(inventory)
    if point.centre is None:
        raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
    if not 0 <= served_days <= MOST_DAYS:
        raise Invalid(f"{served_days} days.", field="served_days", hint=f"Give 0 to {MOST_DAYS} days.")
    name = encoder or inventory.encoder
    identity = encoder_identity(name)
    texts = forecast(inventory, name).texts
    try:
        with transaction.atomic():
            migration = EncoderMigration.objects.create(
                inventory=inventory, encoder=name, encoder_id=identity, from_encoder=inventory.encoder,
                from_encoder_id=inventory.encoder_id, from_centre=point.centre, texts=texts, served_days=served_days,
                by=by.name,
            )  # fmt: skip
            _note(migration, "start", by=by, reason=reason, after={"encoder": identity, "texts": texts})
    except IntegrityError as error:
        raise Conflict("A migration is open already.", hint="Finish or cancel that one first.") from error
    return migration


def get(inventory: Inventory, public_id: str) -> EncoderMigration:
    row = EncoderMigration.objects.select_related("inventory", "centre", "from_centre")
    found = row.filter(inventory=inventory, public_id=public_id).first()
    if found is None:
        raise NotFound(f"{inventory.slug} has no migration {public_id[:20]}.", field="migration")
    return found


def cancel(migration: EncoderMigration, *, by: Actor, reason: str = "") -> None:
    """End one that was not switched to. What it has read stays in the store, and is not read again by the next."""
    _move(migration, OPEN, MigrationState.CANCELLED, "cancel", by=by, reason=reason)


def look_again(migration: EncoderMigration, *, by: Actor) -> None:
    """Work the report out anew, for what was written since, or after a failure."""
    _move(migration, (MigrationState.READY, MigrationState.FAILED), MigrationState.EMBEDDING, "look_again", by=by)


def _move(
    migration: EncoderMigration, of: Sequence[str], to: MigrationState, action: str, *, by: Actor, reason: str = ""
) -> None:
    with transaction.atomic():
        moved = EncoderMigration.objects.filter(pk=migration.pk, state__in=of).update(state=to, error="")
        if not moved:
            migration.refresh_from_db()
            raise Conflict(
                f"The migration is {migration.get_state_display().lower()} by now.", hint="Look at it again."
            )
        _note(migration, action, by=by, reason=reason, after={"state": to.value})
    migration.refresh_from_db()


def _note(migration: EncoderMigration, action: str, *, by: Actor, after: dict[str, object], reason: str = "") -> None:
    audit.record(
        by=by, inventory=migration.inventory.slug, action=f"migration.{action}", object_type="migration",
        object_id=migration.public_id, label=migration.encoder, after=after, reason=reason,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- in the background
def advance(migration: EncoderMigration, *, seconds: float, clock: Callable[[], float] = time.monotonic) -> bool:
    """A slice of the reading, and at its end the report; whether there is more to do. Safe to run twice at once.

    A failure is kept on the migration, in words; what was read before it stays.
    """
    if migration.state != MigrationState.EMBEDDING:
        return False
    begun = clock()
    EncoderMigration.objects.filter(pk=migration.pk).update(touched_at=timezone.now())
    try:
        if not _read(migration, enough=lambda: clock() - begun >= seconds):
            return EncoderMigration.objects.filter(pk=migration.pk, state=MigrationState.EMBEDDING).exists()
        worked = migrate_shadow.work_out(migration)
    except ServiceError as error:
        text = f"{error.message} {error.hint}".strip()
        EncoderMigration.objects.filter(pk=migration.pk, state=MigrationState.EMBEDDING).update(
            state=MigrationState.FAILED, error=text
        )
        return False
    EncoderMigration.objects.filter(pk=migration.pk, state=MigrationState.EMBEDDING).update(
        state=MigrationState.READY, centre=worked.target.centre, report=worked.report
    )
    return False


def _read(migration: EncoderMigration, *, enough: Callable[[], bool]) -> bool:
    """Embed what lacks a vector; whether all is read."""
    inventory = migration.inventory
    target = _target(inventory, migration.encoder, migration.encoder_id)
    if not read_texts(inventory, embed.named_encoder(migration.encoder), enough=enough):
        return False
    while embed.embed_states(target, limit=STATES_A_SLICE, enough=enough):
        if enough():
            break
    return not embed.pending_states(target).exists()


def stalled() -> list[int]:
    """Migrations that have something to do and that no worker has touched for a while: its message was lost."""
    before = timezone.now() - timedelta(seconds=STALLED_S)
    rows = EncoderMigration.objects.filter(state=MigrationState.EMBEDDING, touched_at__lt=before)
    return list(rows.values_list("pk", flat=True))


def read_texts(inventory: Inventory, encoder: Encoder, *, enough: Callable[[], bool]) -> bool:
    """Embed what every version needs, turns apart: artifact texts, examples, pinned messages; whether all is read."""
    texts = sorted(set(_small_texts(inventory)))
    for begin in range(0, len(texts), embed.BATCH):
        piece = texts[begin : begin + embed.BATCH]
        if len(_known(encoder.id, piece)) < len(piece):
            embed.vectors(encoder, piece)
            if enough():
                return False
    return True


def texts_now(inventory: Inventory) -> int:
    """How many texts a centre made today would be the mean of."""
    return len(fit.active_artifacts(inventory))


def progress(migration: EncoderMigration) -> tuple[int, int]:
    """(turns still to read, turns in all)."""
    target = _target(migration.inventory, migration.encoder, migration.encoder_id)
    return (
        embed.pending_states(target).count(),
        QueryState.objects.filter(conversation__inventory=migration.inventory).count(),
    )


def _target(inventory: Inventory, name: str, identity: str) -> Inventory:
    """The inventory as it would be, in memory: what reads states takes the encoder from it."""
    target = copy.copy(inventory)
    target.encoder, target.encoder_id = name, identity
    return target


def _small_texts(inventory: Inventory) -> list[str]:
    """Artifact texts, examples in use and pinned messages."""
    active = [artifact.pk for artifact in fit.active_artifacts(inventory)]
    rows = ArtifactText.objects.current().filter(artifact__in=active)
    texts = [artifact_text(*row) for row in rows.values_list("artifact__kind", "name", "text")]
    texts += Exemplar.objects.promoted().filter(artifact__inventory=inventory).values_list("text", flat=True)
    pins = Pin.objects.current().filter(artifact__inventory=inventory).exclude(text="")
    return texts + list(pins.values_list("text", flat=True))


def _known(encoder_id: str, texts: Sequence[str]) -> set[str]:
    keys = [vector_key(encoder_id, text) for text in texts]
    return set(Vector.objects.filter(key__in=keys).values_list("key", flat=True))
