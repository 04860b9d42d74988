"""How often somebody may try a password: few times for one name from one address, more for all names from there.

An account is never locked: its owner signs in from another address while somebody tries names and passwords from this one.
A try is counted before its password is looked at, so that many at once get no further, and forgotten when it was right.
"""

import hashlib
import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from console.models import SignInTry

WINDOW = timedelta(minutes=15)
PER_NAME, PER_ADDRESS = 5, 30


@dataclass(frozen=True)
class Try:
    """One try; ``until``: it may not be made before then."""

    row: SignInTry | None = None
    until: datetime | None = None


def begin(name: str, address: str) -> Try:
    """Count a try, or refuse it with the time from which on there may be another."""
    now = timezone.now()
    SignInTry.objects.filter(at__lt=now - WINDOW).delete()
    row = SignInTry.objects.create(who=_digest(name), address=_network(address), at=now)
    before = SignInTry.objects.filter(address=row.address, pk__lt=row.pk)
    until = max(
        (
            last.at + WINDOW
            for rows, most in ((before.filter(who=row.who), PER_NAME), (before, PER_ADDRESS))
            if (last := _nth_newest(rows, most)) is not None
        ),
        default=None,
    )
    if until is None:
        return Try(row)
    row.delete()  # a refused try lengthens nothing
    return Try(until=until)


def succeeded(done: Try) -> None:
    """The password was right: the tries of this name from this address are forgotten."""
    if done.row is not None:
        SignInTry.objects.filter(who=done.row.who, address=done.row.address).delete()


def _nth_newest(rows: QuerySet[SignInTry], n: int) -> SignInTry | None:
    """The one that has to grow old before there are fewer than ``n``; None where there are fewer."""
    return rows.order_by("-pk")[n - 1 : n].first()


def _digest(name: str) -> str:
    """Not the name: people type passwords into its field."""
    return hashlib.sha256(name.strip().lower().encode("utf-8", "replace")).hexdigest()


def _network(address: str) -> str:
    """The address; of IPv6 the /64 that one subscriber has."""
    try:
        found = ipaddress.ip_address(address.strip().strip("[]"))
    except ValueError:
        return address[:45]
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)
