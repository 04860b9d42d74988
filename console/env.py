"""Reading the environment: every setting is checked at the start, a bad value stops it with a line naming the setting."""

import errno
import ipaddress
import os
import secrets
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = {"1", "true", "yes", "on"}, {"", "0", "false", "no", "off"}


def text(name: str, default: str = "") -> str:
    """The variable, or the content of the file named by ``NAME_FILE`` (for secrets mounted as files)."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE={path!r} cannot be read: {error.strerror}.") from error
    return os.environ.get(name, default)


def boolean(name: str, *, default: bool = False) -> bool:
    value = os.environ.get(name, "1" if default else "0").strip().lower()
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is neither true nor false. Use 1 or 0.")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    raw = os.environ.get(name, str(default))
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number.") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name}={value} is outside {low}..{high}.")
    return value


def networks(name: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Networks separated by commas: ``10.0.0.0/8, ::1/128``; one address is a network of its own."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text(name).split(",") if part.strip())
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}. Give networks such as 10.0.0.0/8,127.0.0.1/32.") from None


def secret_key(directory: Path) -> str:
    """``SECRET_KEY`` (or its file); without one a key is made once and kept in ``var/`` so that sessions survive a restart."""
    value = text("SECRET_KEY")
    if value:
        if len(value) < 32:
            raise ImproperlyConfigured("SECRET_KEY is shorter than 32 characters. Use a long random one.")
        return value
    path = directory / "secret_key"
    try:
        return _kept_key(path)
    except OSError as error:
        raise _unusable(path, error) from error


def folder(path: Path) -> Path:
    """The folder, made where it is missing; one of ``SIGNALBOX_VAR_DIR``'s."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error
    return path


def _unusable(path: Path, error: OSError) -> ImproperlyConfigured:
    said = "a file is in its place" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
    mend = "Free space there" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "Name a folder that can be written"
    return ImproperlyConfigured(f"SIGNALBOX_VAR_DIR: {path} cannot be written: {said}. {mend}.")


def _kept_key(path: Path) -> str:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(48), encoding="utf-8")
        try:
            os.link(fresh, path)  # the first of two processes wins, the other reads its key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text(encoding="utf-8").strip()


def database(url: str, *, lock_s: int = 20) -> dict[str, object]:
    """Django's database dictionary for ``sqlite:///path`` or ``postgres://user:password@host:port/name``. Who waits longer
    than ``lock_s`` for another's lock is refused.

    Raises ImproperlyConfigured for any other scheme.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        path = unquote(parts.path.removeprefix("/")) if not parts.path.startswith("//") else unquote(parts.path[1:])
        if not path or path == ":memory:":
            raise ImproperlyConfigured(
                "DATABASE_URL must name a file (sqlite:///var/signalbox.sqlite3): no in-memory database."
            )
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path,
            # IMMEDIATE takes the write lock at BEGIN: no lost updates and no deadlock on upgrading a read lock.
            "OPTIONS": {
                "timeout": lock_s,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA foreign_keys=ON;",
            },
        }
    if parts.scheme in {"postgres", "postgresql"}:
        query = parse_qs(parts.query)
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")) or "signalbox",
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": query.get("host", [parts.hostname or ""])[0],
            "PORT": str(parts.port or ""),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"options": f"-c lock_timeout={lock_s}s"},
        }
    raise ImproperlyConfigured(
        f"DATABASE_URL={url!r} has an unknown scheme. Use sqlite:///path or postgres://user@host/name."
    )
