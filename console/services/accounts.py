"""People, their roles, and tokens. A token's text is shown once, at minting; only its digest is stored."""

import secrets
from datetime import datetime, timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.models import ApiToken, Inventory, Membership, Role, User
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Invalid

TOKEN_START = "sb_"  # noqa: S105 - no secret: the mark by which people and scanners know a token
MOST_PASSWORD = 200  # characters
TOUCH_EVERY = timedelta(minutes=1)  # last_used_at is a hint for people, not a log: one write a minute is enough


def create_user(
    username: str, *, by: Actor, password: str | None = None, email: str = "", superuser: bool = False
) -> User:
    """A user; without a password nobody can sign in as it. User names differ in more than case.

    Raises Invalid for a bad or taken name, or a password that the validators refuse.
    """
    user = User(username=username, email=email, is_superuser=superuser)
    try:
        user.full_clean(exclude=["password"], validate_constraints=False)
        if password is not None:
            _check_password(password, user)
    except ValidationError as error:
        field = next(iter(error.message_dict), "username") if hasattr(error, "error_dict") else "password"
        raise Invalid(" ".join(error.messages), field=field, hint="Choose another one.") from error
    user.set_password(password)  # None = unusable
    with transaction.atomic():
        try:
            with transaction.atomic():
                user.save()
        except IntegrityError as error:  # also of two at once, and of names that differ in case alone
            raise Invalid(
                f"There is a user {username} already.", field="username", hint="Choose another name."
            ) from error
        audit.record(
            by=by,
            action="user.create",
            object_type="user",
            object_id=str(user.pk),
            label=username,
            after={"email": email},
        )
    return user


def set_password(user: User, *, by: Actor, password: str) -> None:
    """Another password; the audit row says that it changed, never what it is."""
    try:
        _check_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password", hint="Choose a longer, less common one.") from error
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        audit.record(by=by, action="user.password", object_type="user", object_id=str(user.pk), label=user.username)


def _check_password(password: str, user: User) -> None:
    validate_password(password, user)
    if len(password) > MOST_PASSWORD:
        raise ValidationError(f"This password has more than {MOST_PASSWORD} characters.")


def set_role(user: User, inventory: Inventory, role: str | None, *, by: Actor, reason: str = "") -> Membership | None:
    """The user's one role in the inventory; None takes it away. Equal = nothing written."""
    if role is not None:
        _check_role(role)
    with transaction.atomic():
        member = Membership.objects.select_for_update().filter(user=user, inventory=inventory).first()
        before = member.role if member else None
        if before == role:
            return member
        if role is None and member is not None:
            member.delete()
            member = None
        elif member is not None and role is not None:
            member.role = role
            member.save(update_fields=["role"])
        elif role is not None:
            member = Membership.objects.create(user=user, inventory=inventory, role=role)
        audit.record(
            by=by,
            action="membership.set",
            object_type="membership",
            object_id=str(user.pk),
            inventory=inventory.slug,
            label=user.username,
            before={"role": before},
            after={"role": role},
            reason=reason,
        )
    return member


def mint_token(
    *, by: Actor, name: str, role: str, inventory: Inventory | None = None, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """A new token and its text: ``sb_`` + 32 characters, shown this once. ``inventory`` None = every inventory."""
    _check_role(role)
    name = name.strip()
    if not name or len(name) > 80:
        raise Invalid(
            "A token needs a name of 1 to 80 characters.", field="name", hint="Name the agent that will use it."
        )
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("The token would have expired already.", field="expires_at", hint="Give a time in the future.")
    plain = TOKEN_START + secrets.token_urlsafe(24)  # 24 bytes = 32 characters
    with transaction.atomic():
        token = ApiToken.objects.create(
            name=name,
            digest=ApiToken.digest_of(plain),
            inventory=inventory,
            role=role,
            created_by=by.user,
            expires_at=expires_at,
        )
        after = {"role": role, "expires_at": expires_at.isoformat() if expires_at else None}
        _record_token(token, by=by, action="token.mint", after=after)
    return token, plain


def revoke_token(token: ApiToken, *, by: Actor, reason: str = "") -> bool:
    """From now on the token is refused. False when it was revoked before."""
    with transaction.atomic():
        now = timezone.now()
        if not ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now):
            return False
        token.revoked_at = now
        _record_token(token, by=by, action="token.revoke", after=None, reason=reason)
    return True


def find_token(plain: str) -> ApiToken | None:
    """The usable token of that text, with its inventory."""
    return ApiToken.objects.usable().select_related("inventory").filter(digest=ApiToken.digest_of(plain)).first()


def touch_token(token: ApiToken) -> bool:
    """Note that the token was used; at most one write a minute, so that discover is not slowed by it."""
    now = timezone.now()
    if token.last_used_at is not None and now - token.last_used_at < TOUCH_EVERY:
        return False
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    token.last_used_at = now
    return True


def _record_token(token: ApiToken, *, by: Actor, action: str, after: object, reason: str = "") -> None:
    audit.record(
        by=by,
        action=action,
        object_type="token",
        object_id=token.public_id,
        inventory=token.inventory.slug if token.inventory else "",
        label=token.name,
        after=after,
        reason=reason,
    )


def _check_role(role: str) -> None:
    if role not in Role.values:
        raise Invalid(f"There is no role {role!r}.", field="role", hint=f"Choose one of {', '.join(Role.values)}.")
