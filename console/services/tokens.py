"""Tokens as an inventory's admin sees them: which there are, until when, when last used; made and revoked by `accounts`."""

from datetime import UTC, date, datetime, time, timedelta

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from console.models import ApiToken, Inventory
from console.services import accounts
from console.services.actor import Actor
from console.services.errors import Forbidden, NotFound

MOST = 200  # tokens that a page lists


def tokens(inventory: Inventory) -> "QuerySet[ApiToken]":
    """Its own and those of the whole installation: usable ones first, newest first."""
    mine = Q(inventory=inventory) | Q(inventory__isnull=True)
    rows = ApiToken.objects.filter(mine).select_related("created_by")
    return rows.order_by(F("revoked_at").asc(nulls_first=True), "-pk")[:MOST]


def mint(inventory: Inventory, *, by: Actor, name: str, role: str, until: date | None = None) -> tuple[ApiToken, str]:
    """A token of this inventory and its text; ``until``: the last day on which it works, UTC."""
    ends = datetime.combine(until + timedelta(days=1), time(), UTC) if until else None
    return accounts.mint_token(by=by, name=name, role=role, inventory=inventory, expires_at=ends)


def revoke(inventory: Inventory, public_id: str, *, by: Actor, reason: str = "") -> ApiToken:
    """Raises NotFound, or Forbidden for a token of the whole installation."""
    token = ApiToken.objects.filter(public_id=public_id[:12]).first()
    if token is None or token.inventory_id not in (None, inventory.pk):
        raise NotFound("There is no such token.", field="token")
    if token.inventory_id is None and not (by.user and by.user.is_superuser):
        raise Forbidden(
            "This token is for every inventory.", hint="An administrator of the installation can revoke it."
        )
    accounts.revoke_token(token, by=by, reason=reason)
    return token


def expired(token: ApiToken) -> bool:
    return token.expires_at is not None and token.expires_at <= timezone.now()
