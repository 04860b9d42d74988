"""``import_exemplars INV FILE…``: signals and anti-signals, promoted at once."""

from django.core.management.base import CommandParser

from console.management.imports import ImportCommand
from console.models import Source


class Command(ImportCommand):
    help = "Import exemplars (docs/formats.md); fits nothing: run refit afterwards."
    what = "exemplars"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", choices=Source.values, help="for the whole file; else lists are generated, single rows written"
        )
