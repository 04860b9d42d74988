"""Users, roles and tokens."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from console.models import ApiToken, AuditEvent, Inventory, Membership, User
from console.services.accounts import (
    create_user,
    find_token,
    mint_token,
    revoke_token,
    set_password,
    set_role,
    touch_token,
)
from console.services.actor import SYSTEM, Actor
from console.services.errors import Invalid

pytestmark = pytest.mark.django_db
ANA = Actor("ana")
GOOD = "correct-horse-battery"


@pytest.fixture
def inventory() -> Inventory:
    return Inventory.objects.create(slug="airline", name="Airline", encoder="minilm", encoder_id="x")


def test_a_user_can_sign_in_with_the_password_and_without_one_cannot() -> None:
    user = create_user("mia", by=ANA, password=GOOD)
    assert user.check_password(GOOD)
    assert not create_user("bot", by=ANA).has_usable_password()
    assert list(AuditEvent.objects.order_by("id").values_list("actor", "action", "label")) == [
        ("ana", "user.create", "mia"),
        ("ana", "user.create", "bot"),
    ]
    assert GOOD not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    ("name", "password", "field"),
    [
        ("mia wong", GOOD, "username"),
        ("", GOOD, "username"),
        ("mia", "short", "password"),
        ("mia", "password123", "password"),
    ],
)
def test_a_bad_name_or_password_is_refused(name: str, password: str, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_user(name, by=ANA, password=password)
    assert refused.value.field == field
    assert not User.objects.exists()


def test_names_that_differ_in_case_alone_are_taken() -> None:
    create_user("Mia", by=ANA)
    with pytest.raises(Invalid, match="mia already"):
        create_user("mia", by=ANA)


def test_a_new_password_replaces_the_old_and_the_audit_row_does_not_hold_it() -> None:
    user = create_user("mia", by=ANA, password=GOOD)
    set_password(user, by=ANA, password="another-long-secret")
    user.refresh_from_db()
    assert user.check_password("another-long-secret")
    assert AuditEvent.objects.get(action="user.password").after is None
    with pytest.raises(Invalid):
        set_password(user, by=ANA, password="short")


def test_one_role_per_inventory_that_changes_and_goes(inventory: Inventory) -> None:
    user = create_user("mia", by=ANA)
    set_role(user, inventory, "author", by=ANA)
    set_role(user, inventory, "author", by=ANA)
    set_role(user, inventory, "publisher", by=ANA, reason="promoted")
    assert Membership.objects.get().role == "publisher"
    assert set_role(user, inventory, None, by=ANA) is None
    assert set_role(user, inventory, None, by=ANA) is None
    rows = AuditEvent.objects.filter(action="membership.set").order_by("id")
    assert [(r.before["role"], r.after["role"]) for r in rows] == [
        (None, "author"),
        ("author", "publisher"),
        ("publisher", None),
    ]
    with pytest.raises(Invalid, match="no role 'owner'"):
        set_role(user, inventory, "owner", by=ANA)


def test_a_token_is_shown_once_and_stored_hashed(inventory: Inventory) -> None:
    token, plain = mint_token(by=ANA, name="agent", role="publisher", inventory=inventory)
    assert re.fullmatch(r"sb_[A-Za-z0-9_-]{32}", plain)
    assert plain not in str(ApiToken.objects.values())
    assert plain not in str(list(AuditEvent.objects.values()))
    assert find_token(plain) == token
    assert find_token("sb_" + "x" * 32) is None


def test_a_revoked_or_expired_token_is_not_found(inventory: Inventory) -> None:
    token, plain = mint_token(by=SYSTEM, name="agent", role="viewer", expires_at=timezone.now() + timedelta(days=1))
    assert revoke_token(token, by=ANA)
    assert not revoke_token(token, by=ANA)
    assert find_token(plain) is None
    other, plain = mint_token(by=SYSTEM, name="agent", role="viewer", expires_at=timezone.now() + timedelta(days=1))
    ApiToken.objects.filter(pk=other.pk).update(expires_at=timezone.now())
    assert find_token(plain) is None
    assert AuditEvent.objects.filter(action="token.revoke").count() == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "n" * 81}, "name"),
        ({"role": "root"}, "role"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "expires_at"),
    ],
)
def test_a_bad_token_is_refused(given: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        mint_token(by=ANA, **{"name": "agent", "role": "viewer", **given})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert not ApiToken.objects.exists()


def test_use_is_noted_at_most_once_a_minute() -> None:
    token, _ = mint_token(by=ANA, name="agent", role="viewer")
    assert touch_token(token)
    assert not touch_token(token)
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    token.refresh_from_db()
    assert touch_token(token)
