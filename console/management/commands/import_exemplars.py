"""``import_exemplars INV FILE…``: signals and anti-signals, promoted at once."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, Counter, ServiceCommand, add_inventory, inventory_of
from console.models import Source
from console.services.ingest_exemplars import import_exemplars


class Command(ServiceCommand):
    help = "Import exemplars (docs/formats.md); fits nothing: run refit afterwards."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument(
            "--source", choices=Source.values, help="for the whole file; else lists are generated, single rows written"
        )

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        for path in options["files"]:
            with Counter(path.name) as count:
                report = import_exemplars(
                    inventory, path, by=COMMAND_LINE, exemplar_source=options["source"], progress=count
                )
            self.report(report)
