"""A person's own settings of the console: zone, words, keys."""

import zoneinfo
from typing import Any

from django.db import transaction

from console.models import User
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Invalid

FIELDS = ("time_zone", "technical_terms", "key_map")


def update_profile(
    user: User,
    *,
    by: Actor,
    time_zone: str | None = None,
    technical_terms: bool | None = None,
    key_map: dict[str, Any] | None = None,
) -> bool:
    """Change what is given. False when nothing differs.

    ``key_map`` maps default keys to own ones, each one character and each used once; ``{"off": true}`` switches
    single-letter keys off. Raises Invalid with the field.
    """
    given: dict[str, Any] = {}
    if time_zone is not None:
        if time_zone not in zoneinfo.available_timezones():
            raise Invalid(
                f"There is no time zone {time_zone[:60]!r}.", field="time_zone", hint="Choose one of the list."
            )
        given["time_zone"] = time_zone
    if technical_terms is not None:
        given["technical_terms"] = technical_terms
    if key_map is not None:
        given["key_map"] = checked_keys(key_map)
    changed = {name: value for name, value in given.items() if getattr(user, name) != value}
    if not changed:
        return False
    before = {name: getattr(user, name) for name in changed}
    with transaction.atomic():
        for name, value in changed.items():
            setattr(user, name, value)
        user.save(update_fields=list(changed))
        audit.record(
            by=by,
            action="user.profile",
            object_type="user",
            object_id=str(user.pk),
            label=user.get_username(),
            before=before,
            after=changed,
        )
    return True


def checked_keys(key_map: dict[str, Any]) -> dict[str, Any]:
    """Without entries that change nothing. Raises Invalid for a key that is taken or not one visible character."""
    result: dict[str, Any] = {"off": True} if key_map.get("off") else {}
    own = {key: mine for key, mine in key_map.items() if key != "off" and mine and mine != key}
    for key, mine in own.items():
        if not isinstance(mine, str) or len(mine) != 1 or not mine.isprintable() or mine.isspace():
            raise Invalid(f"{mine!r} is no single key.", field="keys", hint="Give one character, such as n.")
        if mine == "g":
            raise Invalid("g starts the “go to” keys.", field="keys", hint="Choose another key.")
        if list(own.values()).count(mine) > 1:
            raise Invalid(f"{mine} is given twice.", field="keys", hint="Each key does one thing.")
        result[key] = mine
    return result
