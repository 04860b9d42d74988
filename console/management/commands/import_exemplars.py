"""``import_exemplars INV FILE…``: signals and anti-signals, promoted at once."""

from typing import Any

from django.core.management.base import CommandParser

from console.management.imports import ImportCommand
from console.models import Inventory, Source


class Command(ImportCommand):
    help = "Import exemplars (docs/formats.md) and embed them; fits nothing: run refit afterwards."
    what = "exemplars"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", choices=Source.values, help="for the whole file; else lists are generated, single rows written"
        )
        parser.add_argument("--no-embed", action="store_true", help="leave embedding to the worker")

    def afterwards(self, inventory: Inventory, options: dict[str, Any]) -> None:
        if not options["no_embed"]:
            self.embed_pending(inventory)
