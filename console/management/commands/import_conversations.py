"""``import_conversations INV FILE… [--format NAME]``: conversation logs."""

from typing import Any

from django.core.management.base import CommandParser

from console.management.imports import ImportCommand
from console.models import Inventory
from sq_core.readers import CONVERSATION_FORMATS


class Command(ImportCommand):
    help = "Import conversations (docs/formats.md) and embed their turns. Known conversations may only grow."
    what, folders = "conversations", True

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--format", help=f"one of {', '.join(CONVERSATION_FORMATS)}; recognised when left out")
        parser.add_argument("--no-embed", action="store_true", help="leave embedding to the worker")

    def afterwards(self, inventory: Inventory, options: dict[str, Any]) -> None:
        if not options["no_embed"]:
            self.embed_pending(inventory)
