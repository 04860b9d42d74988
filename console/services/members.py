"""Members of an inventory: added, created with a one-time link, given another role, removed. One admin always stays."""

from django.contrib.auth.tokens import default_token_generator
from django.db import transaction
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from console.models import Inventory, Membership, Role, User
from console.services import accounts
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.revision import lock_inventory

MOST = 500  # members that a page lists


def members(inventory: Inventory) -> list[Membership]:
    """Highest role first, then by name."""
    rows = Membership.objects.filter(inventory=inventory).select_related("user")[:MOST]
    return sorted(rows, key=lambda row: (-Role(row.role).rank, row.user.username))


def add_member(inventory: Inventory, username: str, role: str, *, by: Actor, reason: str = "") -> Membership:
    """Somebody who has an account. Raises NotFound, Invalid, or Conflict for who is a member already."""
    user = User.objects.filter(username__iexact=username.strip()[:150], is_active=True).first()
    if user is None:
        raise Invalid(
            f"There is no account {username.strip()[:60]!r}.", field="username", hint="Make one, or check the name."
        )
    with transaction.atomic():
        lock_inventory(inventory)
        if Membership.objects.filter(inventory=inventory, user=user).exists():
            raise Conflict(f"{user.username} is a member already.", hint="Change their role in the list.")
        made = accounts.set_role(user, inventory, role, by=by, reason=reason)
    assert made is not None  # noqa: S101  # for the type checker: a role was given
    return made


def create_member(inventory: Inventory, username: str, role: str, *, by: Actor, email: str = "") -> Membership:
    """A new account without a password, and its role here: `sign_in_link` is how its owner gets in."""
    with transaction.atomic():
        user = accounts.create_user(username.strip(), by=by, email=email)
        made = accounts.set_role(user, inventory, role, by=by)
    assert made is not None  # noqa: S101  # for the type checker: a role was given
    return made


def change_role(inventory: Inventory, username: str, role: str, *, by: Actor, reason: str = "") -> Membership:
    """Raises NotFound for who is no member, Conflict where no admin would be left."""
    return _set(inventory, username, role, by=by, reason=reason)


def remove_member(inventory: Inventory, username: str, *, by: Actor, reason: str = "") -> Membership:
    """Their account and what they did stay. Raises as `change_role`."""
    return _set(inventory, username, None, by=by, reason=reason)


def _set(inventory: Inventory, username: str, role: str | None, *, by: Actor, reason: str) -> Membership:
    with transaction.atomic():
        lock_inventory(inventory)  # of two admins who demote each other one is refused
        member = _find(inventory, username)
        if member.role == Role.ADMIN and role != Role.ADMIN:
            others = Membership.objects.filter(inventory=inventory, role=Role.ADMIN, user__is_active=True)
            if not others.exclude(pk=member.pk).exists():
                raise Conflict(f"{username} is the last admin.", hint="Make somebody else an admin first.")
        accounts.set_role(member.user, inventory, role, by=by, reason=reason)
        if role is not None:
            member.role = role
        return member


def _find(inventory: Inventory, username: str) -> Membership:
    rows = Membership.objects.filter(inventory=inventory, user__username=username[:150]).select_related("user")
    found = rows.first()
    if found is None:
        raise NotFound(f"{inventory.slug} has no member {username[:60]!r}.", field="user")
    return found


# -------------------------------------------------------------------------------------------------------- the first sign-in
def may_have_link(member: Membership) -> bool:
    """Only of who has never signed in, has no password and is nobody elsewhere: else an admin here could become them."""
    user = member.user
    alone = not Membership.objects.filter(user=user).exclude(pk=member.pk).exists()
    return user.last_login is None and not user.has_usable_password() and not user.is_superuser and alone


def sign_in_link(inventory: Inventory, username: str) -> tuple[Membership, str, str]:
    """The member and both parts of the link (who, token). It works until a password is set, or it has expired."""
    member = _find(inventory, username)
    if not may_have_link(member):
        raise Conflict(
            f"{member.user.username} has an account of their own.",
            hint="A link is for somebody made here who has not signed in yet.",
        )
    return member, urlsafe_base64_encode(force_bytes(member.user.pk)), default_token_generator.make_token(member.user)


def invited(uid: str, token: str) -> User | None:
    """Whom a link is for; None where it is none, was used or has expired."""
    try:
        pk = int(urlsafe_base64_decode(uid[:40]).decode())
    except (ValueError, OverflowError, UnicodeDecodeError):
        return None
    user = User.objects.filter(pk=pk, is_active=True).first() if pk < 2**31 else None
    if user is None or user.has_usable_password() or user.last_login is not None:
        return None
    return user if default_token_generator.check_token(user, token[:200]) else None
