"""``export_bundle INV FILE [--with-exemplars]``: the file that agents load without the console."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.management.shared import ServiceCommand, add_inventory, inventory_of
from console.services import runtime


class Command(ServiceCommand):
    help = "Write the live release as a bundle for sq_core.load_bundle."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("file", type=Path)
        parser.add_argument("--with-exemplars", action="store_true", help="carry the exemplars, for explain()")
        parser.add_argument("--release", type=int, help="a release's number; the live one by default")

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        number = runtime.release_number(inventory, options["release"] or "live")
        bundle = runtime.build(inventory, number, with_exemplars=options["with_exemplars"])
        try:
            bundle.save(options["file"], with_exemplars=options["with_exemplars"])
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be written: {error.strerror}.") from error
        size = options["file"].stat().st_size
        self.say(
            f"Release {number} with {len(bundle.artifacts)} artifacts written to {options['file']} ({size:,} bytes)."
        )
