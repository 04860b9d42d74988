"""``import_judgements INV FILE… [--rubric current-need|sticky]``: judges' and people's scores."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, Counter, ServiceCommand, add_inventory, inventory_of
from console.models import Rubric
from console.services.ingest_judgements import import_judgements


class Command(ServiceCommand):
    help = "Import judgements (docs/formats.md); what does not fit its prefix is refused."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument(
            "--rubric", choices=Rubric.values, help="how new judges of these files scored; current-need"
        )

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        for path in options["files"]:
            with Counter(path.name) as count:
                report = import_judgements(inventory, path, by=COMMAND_LINE, rubric=options["rubric"], progress=count)
            self.report(report)
