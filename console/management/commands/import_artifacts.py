"""``import_artifacts INV FILE…``: policies, skills and tools."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, Counter, ServiceCommand, add_inventory, inventory_of
from console.services.ingest_artifacts import import_artifacts


class Command(ServiceCommand):
    help = "Import artifacts from JSON lines or a folder of SKILL.md files (docs/formats.md); each file is one release."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        for path in options["files"]:
            with Counter(path.name) as count:
                report = import_artifacts(inventory, path, by=COMMAND_LINE, progress=count)
            self.report(report)
