"""Access to the demo: one person per role, with passwords of this installation, and a token that each start renews."""

import json
import os
import secrets
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from console.models import ApiToken, Inventory, Role, User
from console.services.accounts import create_user, mint_token, revoke_token, set_password, set_role
from console.services.actor import Actor

TOKEN_NAME = "demo"  # noqa: S105 - a name
TOKEN_ROLE = Role.PUBLISHER  # may try everything that the tour and docs/agent.md show
TOKEN_DAYS = 30


def access_file() -> Path:
    return Path(settings.VAR_DIR) / "demo_access.json"


def ensure_demo_users(inventory: Inventory, *, by: Actor) -> dict[str, str]:
    """The demo's people by role, user name = role, members of ``inventory``; returns their passwords.

    Passwords are random, made once and kept in ``var/demo_access.json`` (readable by its owner alone), so that every
    start can print them. One that the file has lost is replaced; one that somebody changed in the console stays.
    """
    known = _read(access_file())
    passwords = {role: known.get(role) or secrets.token_urlsafe(12) for role in Role.values}
    if passwords != known:  # written first: a start that is killed here finds them again
        _write(access_file(), passwords)
    for role, password in passwords.items():
        user = User.objects.filter(username=role).first()
        if user is None:
            user = create_user(role, by=by, password=password, superuser=role == Role.ADMIN)
        elif role not in known:
            set_password(user, by=by, password=password)
        set_role(user, inventory, role, by=by)
    return passwords


def renew_demo_token(inventory: Inventory, *, by: Actor) -> str:
    """A new demo token; those of earlier starts are revoked."""
    for old in ApiToken.objects.usable().filter(name=TOKEN_NAME, inventory=inventory, created_by=None):
        revoke_token(old, by=by, reason="a newer start")
    expires = timezone.now() + timedelta(days=TOKEN_DAYS)
    return mint_token(by=by, name=TOKEN_NAME, role=TOKEN_ROLE, inventory=inventory, expires_at=expires)[1]


def _read(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {role: text for role, text in content.items() if role in Role.values and isinstance(text, str)}


def _write(path: Path, passwords: dict[str, str]) -> None:
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(mode=0o600)
    fresh.write_text(json.dumps(passwords, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)
