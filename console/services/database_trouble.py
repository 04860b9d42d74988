"""Why the database or the disk under it refused, and the mend that fits; for a person at a terminal and for the API."""

import errno
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, OperationalError, connection

from console.services.errors import Busy, DatabaseRefused, Unavailable


@dataclass(frozen=True)
class Trouble:
    """``passing``: the same call may well succeed in a moment, without anybody mending anything. ``full``: no space left."""

    said: str
    mend: str
    passing: bool = False
    full: bool = False


WHOLE = "A write happens whole or not at all."

# What SQLite says, and PostgreSQL's condition codes; the first that fits decides.
_FULL = ("disk is full", "no space left", "53100")
_READ_ONLY = ("readonly database", "read-only", "25006", "unable to open database file")
_LOCKED = ("is locked", "55p03", "40p01")
_NO_TABLES = ("no such table", "no such column", "has no column", "42p01", "42703")
_DISK = ("disk i/o error", "58030")
_DAMAGED = ("malformed", "not a database", "xx001")
_AWAY = ("connection", "could not connect", "could not translate host", "timeout expired")


def database_trouble(error: DatabaseError) -> Trouble:
    """The kind of a database error by what the engine said."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    state = getattr(error.__cause__, "sqlstate", None) or ""
    heard = f"{said} {state}".lower()
    place = _place()
    if any(sign in heard for sign in _FULL):
        return Trouble(said, f"Free space where {place} is, then call again.", full=True)
    if any(sign in heard for sign in _READ_ONLY):
        return Trouble(said, f"Make {place} writable for this user, or name another one ({_setting()}).")
    if any(sign in heard for sign in _LOCKED):
        return Trouble(said, "Another program is writing to it; call again in a moment.", passing=True)
    if any(sign in heard for sign in _NO_TABLES):
        return Trouble(said, "Run `make setup` first.")
    if any(sign in heard for sign in _DAMAGED):
        return Trouble(said, f"It is damaged: put a backup in the place of {place}.")
    if any(sign in heard for sign in _DISK):
        return Trouble(said, f"Check the disk under {place}: its space, its limits, its health.")
    if any(sign in heard for sign in _AWAY):
        return Trouble(said, "See that the server of DATABASE_URL runs and takes this user.", passing=True)
    return Trouble(said, f"The database is {place} ({_setting()}).", passing=True)


def as_refusal(error: OperationalError) -> Unavailable:
    """The same for whoever sent the request, on a page or through the API."""
    trouble = database_trouble(error)
    if trouble.full:
        return DatabaseRefused("The server's disk is full.", hint=f"{WHOLE} Its operator has to free space.")
    if not trouble.passing:
        return DatabaseRefused(
            "The database cannot be used as it is.", hint="Its operator finds the reason in the log."
        )
    return Busy("The database is busy or away.", hint=f"{WHOLE} Try again in a moment.")


def file_trouble(error: OSError) -> Trouble:
    """The same for a file of ours that could not be written or read."""
    said = f"{error.strerror or error}: {error.filename}" if error.filename else str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return Trouble(said, f"Free space where {settings.VAR_DIR} is, then call again.", full=True)
    return Trouble(said, f"Make {settings.VAR_DIR} writable for this user, or name another folder (SIGNALBOX_VAR_DIR).")


def _place() -> str:
    named = str(connection.settings_dict["NAME"])
    return named if connection.vendor == "sqlite" else f"the server's database {named}"


def _setting() -> str:
    return "DATABASE_URL, or SIGNALBOX_VAR_DIR for the default" if connection.vendor == "sqlite" else "DATABASE_URL"
