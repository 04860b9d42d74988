"""Which encoder answers for a release: after a migration the older releases go on being served for some days."""

from datetime import datetime, timedelta

from django.utils import timezone

from console.models import EncoderMigration, Inventory
from console.services import embed
from console.services.errors import Unavailable
from sq_core.embedding import Encoder, EncoderUnavailable


def served_until(migration: EncoderMigration) -> datetime | None:
    """Until when releases from before the switch are answered; None before a switch."""
    return migration.switched_at and migration.switched_at + timedelta(days=migration.served_days)


def encoder_of(inventory: Inventory, encoder_id: str, *, live: bool) -> Encoder:
    """The encoder that made a release's vectors: the inventory's own, or one it had before. What is ``live`` is always
    served. Raises Unavailable when it is away, or served no more.
    """
    if encoder_id == inventory.encoder_id:
        return embed.encoder_for(inventory)
    for row in EncoderMigration.objects.filter(inventory=inventory, switched_at__isnull=False).order_by("-pk"):
        ends = served_until(row)
        name = {row.from_encoder_id: row.from_encoder, row.encoder_id: row.encoder}.get(encoder_id)
        if name and (live or (ends and timezone.now() <= ends)):
            return _named(name, encoder_id)
    raise Unavailable(
        f"That release belongs to the encoder {encoder_id}, which is not served any more.",
        hint="Ask for the live release, or move the inventory back.",
    )


def _named(name: str, encoder_id: str) -> Encoder:
    encoder = embed.named_encoder(name)
    try:
        identity = encoder.id
    except EncoderUnavailable as error:
        raise Unavailable(str(error)) from error
    if identity != encoder_id:
        raise Unavailable(
            f"The encoder {name} is {identity} now, but that release's vectors were made by {encoder_id}.",
            hint="Restore the encoder, or ask for a newer release.",
        )
    return encoder
