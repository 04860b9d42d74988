"""What the commands share: service errors as one clear line, the inventory by its slug, progress, import reports."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, DataError, IntegrityError

from console.models import Inventory
from console.services import embed
from console.services.actor import Actor
from console.services.database_trouble import database_trouble, file_trouble
from console.services.errors import ServiceError, Unavailable
from console.services.ingest import Report

COMMAND_LINE = Actor("command line")
SHOWN = 50  # row errors printed; the rest is counted


class ServiceCommand(BaseCommand):
    """A command whose ``run`` calls services: what they refuse ends it with one line that says what, where, the mend."""

    requires_system_checks = ()  # they import every page and the whole API: half of a start's time

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.run(**options)
        except ServiceError as error:
            place = f"{error.field}: " if error.field else ""
            raise CommandError(f"{place}{error.message} {error.hint}".strip()) from error
        except (IntegrityError, DataError):  # ours to mend
            raise
        except DatabaseError as error:
            raise refused_by_database(error) from error

    def run(self, **options: Any) -> None:
        raise NotImplementedError

    def say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def embed_pending(self, inventory: Inventory) -> None:
        """Embed what an import left; without an encoder the import stands and a line says what is still to do."""
        try:
            with Bar("embedding examples") as bar:
                embed.embed_examples(inventory, progress=bar)
            with Bar("embedding turns") as bar:
                embed.embed_states(inventory, progress=bar)
        except Unavailable as error:
            self.stderr.write(f"Stored, but not embedded yet: {error.message} The worker embeds them when it can.")

    def report(self, report: Report) -> None:
        """The summary, then the row errors with their places. Ends with an error when no row could be used."""
        self.say(report.summary())
        for error in report.errors[:SHOWN]:
            self.stderr.write(str(error))
        if len(report.errors) > SHOWN:
            self.stderr.write(f"… the first {SHOWN} of the rows that were not good; {report.rejected} rejected in all")
        if report.rejected and not report.changed and not report.duplicates:
            raise CommandError(f"None of the {report.rejected} {report.kind} could be used.")


def refused_by_database(error: DatabaseError) -> CommandError:
    trouble = database_trouble(error)
    return CommandError(f"The database cannot be used: {trouble.said}. {trouble.mend}")


def refused_by_disk(error: OSError) -> CommandError:
    trouble = file_trouble(error)
    return CommandError(f"{trouble.said}. {trouble.mend}")


def add_inventory(parser: CommandParser) -> None:
    parser.add_argument("inventory", help="the inventory's slug")


def inventory_of(slug: str) -> Inventory:
    try:
        return Inventory.objects.select_related("judge").get(slug=slug)
    except Inventory.DoesNotExist:
        known = ", ".join(Inventory.objects.order_by("slug").values_list("slug", flat=True)[:10]) or "none yet"
        raise CommandError(f"There is no inventory {slug!r}. Known: {known}. Make one with create_inventory.") from None


class Bar:
    """Progress on stderr: a bar that moves on a terminal, a line at each quarter elsewhere. Called with (done, total)."""

    WIDTH = 30

    def __init__(self, label: str) -> None:
        self._label, self._quarter, self._drawn = label, 0, False
        self._live = sys.stderr.isatty()

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn and self._live:
            _write("\n")

    def __call__(self, done: int, total: int) -> None:
        quarter = 4 * done // max(total, 1)
        if self._live:
            full = self.WIDTH * done // max(total, 1)
            bar = "#" * full + "-" * (self.WIDTH - full)
            _write(f"\r{self._label} [{bar}] {done}/{total}")
        elif not self._drawn or quarter > self._quarter or done == total:
            _write(f"{self._label}: {done}/{total}\n")
        self._quarter, self._drawn = quarter, True


class Bars:
    """One bar after another, for work of several steps. Called with (label, done, total)."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._label, self._bar = prefix, "", Bar("")

    def __enter__(self) -> "Bars":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()

    def __call__(self, label: str, done: int, total: int) -> None:
        if label != self._label:
            self._bar.__exit__()
            self._label, self._bar = label, Bar(self._prefix + label)
        self._bar(done, total)


class Counter:
    """Progress of a stream whose length nobody knows: a number that moves on a terminal, nothing elsewhere."""

    def __init__(self, label: str) -> None:
        self._label, self._drawn = label, False
        self._live = sys.stderr.isatty()

    def __enter__(self) -> "Counter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            _write("\n")

    def __call__(self, read: int) -> None:
        if self._live and (read % 100 == 0 or not self._drawn):
            _write(f"\r{self._label}: {read} read")
            self._drawn = True


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
