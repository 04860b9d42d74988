"""Idempotency keys: the answer of a write is kept for 24 hours, so that a retry gets it instead of writing twice.

A request that was refused or failed wrote nothing and leaves no record: its key may be used again. The write marks the
record in its own transaction: where the process dies before the answer is kept, a retry is answered from what was
written.
"""

import hashlib
import logging
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Q
from django.utils import timezone

from console.models import AuditEvent, IdempotencyRecord
from console.services.errors import Conflict, Invalid

logger = logging.getLogger(__name__)
KEPT = timedelta(hours=24)
ABANDONED = timedelta(minutes=2)  # longer than any request runs: whoever held the key then is gone
KEY_LIMIT = 200
PATH_LIMIT = 500


class InFlight(Conflict):
    """The first request under this key has not been answered yet."""

    retry_after = 1


@dataclass(frozen=True)
class Claim:
    """The record that a request holds; ``answer`` is there when an earlier one was answered already.

    ``written`` is the first audit row of what an earlier one wrote whose answer was lost.
    """

    record: IdempotencyRecord
    status: int | None = None
    answer: bytes | None = None
    written: AuditEvent | None = None


def claim(*, caller: str, key: str, path: str, body: bytes) -> Claim:
    """Take the key, or find the answer given under it.

    Raises InFlight while the first request is running, Invalid for an unusable key or one used for another body.
    """
    if not 1 <= len(key) <= KEY_LIMIT or not key.isprintable():
        raise Invalid(
            "The Idempotency-Key is unusable.", field="Idempotency-Key", hint=f"Use 1 to {KEY_LIMIT} characters."
        )
    _forget()
    digest = hashlib.sha256(body).hexdigest()
    path = path if len(path) <= PATH_LIMIT else hashlib.sha256(path.encode()).hexdigest()
    try:
        with transaction.atomic():
            return Claim(IdempotencyRecord.objects.create(caller=caller, key=key, path=path, body_digest=digest))
    except IntegrityError:
        known = IdempotencyRecord.objects.filter(caller=caller, key=key, path=path).first()
    if known is None:  # given back between the two statements
        raise InFlight("A request with this Idempotency-Key is just ending.", hint="Send it again.")
    if known.body_digest != digest:
        raise Invalid(
            "This Idempotency-Key was used for another body.",
            field="Idempotency-Key",
            hint="Use a new key for a new request.",
        )
    if known.status is None and known.answer is not None:
        return Claim(known, written=AuditEvent.objects.get(pk=known.answer["wrote"]))
    if known.status is None or known.answer is None:
        raise InFlight("A request with this Idempotency-Key is running.", hint="Wait for its answer, or ask again.")
    return Claim(known, known.status, known.answer["body"].encode())


def wrote(record: int, event: AuditEvent) -> None:
    """Mark the claim, inside the transaction of the write, with the first of its audit rows."""
    IdempotencyRecord.objects.filter(pk=record, answer__isnull=True).update(answer={"wrote": event.pk})


def keep(held: Claim, *, status: int, answer: bytes) -> None:
    """Keep a successful answer, byte for byte (as text: a database may reorder the keys of JSON).

    What was written stands and is answered, whether the database takes this or not: a retry is answered from the mark.
    """
    try:
        IdempotencyRecord.objects.filter(pk=held.record.pk).update(status=status, answer={"body": answer.decode()})
    except OperationalError as error:
        logger.warning("the answer under a key could not be kept: %s", error)


def give_back(held: Claim) -> None:
    """The key is free again, unless something was written under it."""
    IdempotencyRecord.objects.filter(pk=held.record.pk, status__isnull=True, answer__isnull=True).delete()


def _forget() -> None:
    """Drop what is older than 24 hours, and claims whose request died before it wrote."""
    now = timezone.now()
    old = Q(created_at__lt=now - KEPT) | Q(status__isnull=True, answer__isnull=True, created_at__lt=now - ABANDONED)
    rows = IdempotencyRecord.objects.filter(old)
    if rows.exists():  # a read is free; an empty DELETE would take SQLite's write lock
        rows.delete()
