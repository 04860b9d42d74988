"""The link to a change card for somebody without an account: signed, read-only, and of no use after its day.

Nothing is stored: what the link may show stands in it, under the server's key. It cannot be taken back before its day, which
is why it is near.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.core import signing
from django.db import transaction
from django.utils import timezone

from console.models import Inventory
from console.services import audit
from console.services.actor import Actor
from console.services.errors import NotFound
from console.services.releases import get_release

DAYS = 7
SALT = "signalbox.change-card"


@dataclass(frozen=True)
class Card:
    inventory: Inventory
    a: int
    b: int
    until: datetime


def make_link(inventory: Inventory, a: int, b: int, *, by: Actor) -> tuple[str, datetime]:
    """The token of a card's link and when it ends; an audit row says who gave the card out. Raises NotFound."""
    old, new = get_release(inventory, a), get_release(inventory, b)
    until = (timezone.now() + timedelta(days=DAYS)).replace(microsecond=0)
    with transaction.atomic():
        audit.record(
            by=by, inventory=inventory.slug, action="release.share", object_type="release", object_id=str(new.number),
            label=f"{old.number} → {new.number}", after={"until": until.isoformat()}, release=inventory.release,
        )  # fmt: skip
    return signing.dumps([inventory.pk, old.number, new.number, int(until.timestamp())], salt=SALT), until


def read_link(token: str) -> Card:
    """Raises NotFound for what is no such link, was changed, or has ended, all alike."""
    try:
        pk, a, b, until = signing.loads(token[:400], salt=SALT)
        ends = datetime.fromtimestamp(until, UTC)
    except (signing.BadSignature, ValueError, TypeError, OverflowError):
        raise NotFound("This link leads nowhere.", field="token") from None
    inventory = Inventory.objects.filter(pk=pk).first()
    if inventory is None or ends <= timezone.now():
        raise NotFound("This link leads nowhere.", field="token")
    return Card(inventory, a, b, ends)
