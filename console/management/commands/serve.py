"""`make up`: prepare the database, the static files and the sample, then run web, worker and beat until Ctrl-C."""

import hashlib
import http.client
import socket
import subprocess
import sys
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.management.commands import collectstatic
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, connections
from whitenoise.storage import CompressedManifestStaticFilesStorage

from console.management.shared import refused_by_database, refused_by_disk
from console.management.supervisor import Program, Supervisor
from console.models import Inventory
from console.services import health, sample

HOST = "127.0.0.1"
WEB_ALONE_S = (
    30.0  # somebody waits for the first page: until it answers, and at most so long, web has the machine to itself
)
ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")  # there is no other worker to talk to


class Command(BaseCommand):
    help = "Load the sample once and run web, worker and beat in the foreground; Ctrl-C stops them."
    requires_system_checks = ()  # they import every page: half of a start's time, and the tests run them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-sample", action="store_true", help="start without loading the sample inventory")
        parser.add_argument("--prepare-only", action="store_true", help="migrate, collect static files, start nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["prepare_only"]:
            self._prepare(with_sample=False)
            return
        _check_port(settings.PORT)
        try:
            self._prepare(with_sample=not options["no_sample"])
        except KeyboardInterrupt:
            raise CommandError("Stopped before everything was set up; the next start goes on from here.") from None
        connections.close_all()
        if (encoder := health.encoder()) != health.OK:
            self.stderr.write(f"The encoder is {encoder}. Until then no new text can be embedded or scored.")
        self._say(f"Starting web, worker and beat at http://{HOST}:{settings.PORT}/ ; Ctrl-C stops them.")
        status = Supervisor(_programs(), say=self._say).run()
        self._say("Signalbox has stopped.")
        if status:
            sys.exit(status)

    def _prepare(self, *, with_sample: bool) -> None:
        try:
            call_command("migrate", verbosity=0, interactive=False)
            _collect_static()
        except DatabaseError as error:
            raise refused_by_database(error) from error
        except OSError as error:
            raise refused_by_disk(error) from error
        if with_sample:
            self._load_sample()
            call_command("demo_access", stdout=self.stdout, stderr=self.stderr)

    def _load_sample(self) -> None:
        try:
            loaded_before = Inventory.objects.filter(slug=sample.SLUG).exists()
        except DatabaseError as error:
            raise refused_by_database(error) from error
        if loaded_before:
            call_command("load_sample", stdout=self.stdout, stderr=self.stderr)  # checks that it is whole
            return
        # The first time in a process of its own: the encoder's memory and threads go with it when the loading is done.
        loaded = subprocess.run([sys.executable, "manage.py", "load_sample"], cwd=settings.BASE_DIR, check=False)
        if loaded.returncode:
            raise CommandError("The sample inventory could not be loaded; the lines above say why.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} cannot be used ({error.strerror}). Stop what listens there, "
                f"or choose another: make up PORT={port + 1}"
            ) from error


def _web_answers() -> bool:
    """Whether a page would come: its port is open long before that."""
    asked = http.client.HTTPConnection(HOST, settings.PORT, timeout=0.5)
    try:
        asked.request("GET", "/healthz")
        asked.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return True
    finally:
        asked.close()


def _collect_static() -> None:
    """Hashed, compressed copies, so that browsers keep them for good; settings use them once their manifest exists."""
    stamp = settings.STATIC_ROOT / ".collected"
    digest = _digest_of_static_files()
    if settings.DEBUG or (stamp.exists() and stamp.read_text() == digest):
        return
    command = collectstatic.Command()
    command.storage = CompressedManifestStaticFilesStorage()
    call_command(command, verbosity=0, interactive=False)
    stamp.write_text(digest)


def _digest_of_static_files() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            digest.update(f"{path}\0".encode())
            with storage.open(path) as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _programs() -> list[Program]:
    python = sys.executable
    celery = [python, "-m", "celery", "--quiet", "--app", "console"]
    # SQLite has one writer: one process whose threads share the caches and the encoder. PostgreSQL gets two.
    workers = "1" if connection.vendor == "sqlite" else "2"
    web = [python, "-m", "granian", "--interface", "wsgi", "--host", HOST, "--port", str(settings.PORT), "--no-ws"]
    web += ["--workers", workers, "--blocking-threads", "4", "--workers-kill-timeout", "5", "--log-level", "warning"]
    return [
        Program("web", [*web, "console.wsgi:application"], essential=True),
        Program(
            "worker",
            [*celery, "worker", "--pool", "threads", "--concurrency", "1", "--loglevel", "warning", *ALONE],
            delay_s=WEB_ALONE_S,
            when=_web_answers,
        ),
        Program("beat", [*celery, "beat", "--loglevel", "warning"], delay_s=WEB_ALONE_S, when=_web_answers),
    ]
