"""What the import commands share: each file through its importer, then its report."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, Counter, ServiceCommand, add_inventory, inventory_of
from console.models import Inventory
from console.services.import_file import OPTIONS, import_rows, readable
from console.services.upload_text import ENCODINGS


class ImportCommand(ServiceCommand):
    """A command of one kind of file; gzip files are read as they are."""

    what: str
    folders = False

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        said = "a file, or a folder of files" if self.folders else None
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=said)
        parser.add_argument(
            "--encoding", choices=ENCODINGS, help="UTF-8 and UTF-16 are recognised; latin-1 (Windows-1252) is asked for"
        )

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        given = {name: options[name] for name in OPTIONS[self.what]}
        for path in options["files"]:
            with readable(path, options["encoding"]) as plain, Counter(path.name) as count:
                report = import_rows(inventory, self.what, plain, by=COMMAND_LINE, options=given, progress=count)
            self.report(report)
        self.afterwards(inventory, options)

    def afterwards(self, inventory: Inventory, options: dict[str, Any]) -> None:
        """What follows from all files."""
