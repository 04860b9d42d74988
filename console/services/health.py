"""What the console needs to do its work, and which of it is away."""

from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection

from console.services import embed, heartbeat
from console.services.errors import Unavailable

OK = "ok"


def readiness() -> dict[str, str]:
    """``ok`` or the reason, for database, broker, encoder and worker."""
    checks: dict[str, Callable[[], str]] = {
        "database": database,
        "broker": broker,
        "encoder": encoder,
        "worker": worker,
    }
    return {name: check() for name, check in checks.items()}


def database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return f"away: {_first_line(error)}"
    return OK


def broker() -> str:
    if not settings.REDIS_URL:
        return _queue_folder()
    import redis  # only where there is one: the embedded default starts faster without

    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        return f"away: {_first_line(error)}"
    return OK


def encoder() -> str:
    """The local encoder's files are compared with what they should be; of a hosted one only the settings are looked at."""
    try:
        embed.check(settings.SIGNALBOX_ENCODER)
    except Unavailable as error:
        return f"away: {error.message}"
    return OK


def worker() -> str:
    try:
        silence = heartbeat.silence(heartbeat.WORKER)
    except DatabaseError:
        return "unknown: its sign of life is in the database"
    if silence is None:
        return "away: no worker has reported yet"
    if silence > heartbeat.FRESH:
        return f"away: silent for {silence.total_seconds():.0f} s"
    return OK


def _queue_folder() -> str:
    folder = Path(str(settings.CELERY_BROKER_TRANSPORT_OPTIONS["data_folder_in"]))
    try:
        probe = folder / ".readyz"
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        return f"away: {error.strerror}"
    return OK


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
