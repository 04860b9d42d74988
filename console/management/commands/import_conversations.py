"""``import_conversations INV FILE… [--format NAME]``: conversation logs."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, Counter, ServiceCommand, add_inventory, inventory_of
from console.services.ingest_conversations import import_conversations
from sq_core.readers import CONVERSATION_FORMATS


class Command(ServiceCommand):
    help = "Import conversations (docs/formats.md) and embed their turns. Known conversations may only grow."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a file, or a folder of files")
        parser.add_argument("--format", help=f"one of {', '.join(CONVERSATION_FORMATS)}; recognised when left out")
        parser.add_argument("--no-embed", action="store_true", help="leave embedding to the worker")

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        for path in options["files"]:
            with Counter(path.name) as count:
                report = import_conversations(
                    inventory, path, by=COMMAND_LINE, format=options["format"], progress=count
                )
            self.report(report)
        if not options["no_embed"]:
            self.embed_pending(inventory)
