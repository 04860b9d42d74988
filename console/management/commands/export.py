"""``export INV KIND FILE [--release N]``: what an inventory holds, as JSON lines, CSV or one frozen file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser

from console.management.shared import COMMAND_LINE, ServiceCommand, add_inventory, inventory_of
from console.services import export
from console.services.freeze import frozen

FROZEN = "all"


class Command(ServiceCommand):
    help = (
        "Write policies, exemplars, conversations or judgements (docs/formats.md), or all of a release as a zip file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("kind", choices=[*export.KINDS, FROZEN])
        parser.add_argument(
            "file", help="….jsonl, ….csv, ….parquet, ….zip for all; - writes JSON lines to standard output"
        )
        parser.add_argument("--release", type=int, help="a release's number; the newest by default")

        parser.add_argument(
            "--clear", action="store_true", help="with the personal data that the inventory hides from people"
        )

    def run(self, **options: Any) -> None:
        found = export.source(inventory_of(options["inventory"]), options["release"], clear=options["clear"])
        kind, name = options["kind"], options["file"]
        form = "zip" if kind == FROZEN else "jsonl" if name == "-" else Path(name).suffix.removeprefix(".")
        if kind == FROZEN:
            pieces = frozen(found)
        elif form in export.FORMS:
            pieces = export.lines(found, kind, form)
        else:
            raise CommandError(f"{name} ends in none of .jsonl, .csv and .parquet. Choose one of them.")
        export.note(found, kind, form, by=COMMAND_LINE)
        if name == "-":
            _write(pieces, sys.stdout.buffer)
            return
        path = Path(name)
        try:
            with path.open("wb") as file:
                size = _write(pieces, file)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        self.say(f"Release {found.release}: {kind} written to {path} ({size:,} bytes).")


def _write(pieces: Iterator[bytes], file: IO[bytes]) -> int:
    return sum(file.write(piece) for piece in pieces)
