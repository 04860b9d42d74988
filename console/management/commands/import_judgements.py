"""``import_judgements INV FILE… [--rubric current-need|sticky]``: judges' and people's scores."""

from django.core.management.base import CommandParser

from console.management.imports import ImportCommand
from console.models import Rubric


class Command(ImportCommand):
    help = "Import judgements (docs/formats.md); what does not fit its prefix is refused."
    what = "judgements"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--rubric", choices=Rubric.values, help="how new judges of these files scored; current-need"
        )
