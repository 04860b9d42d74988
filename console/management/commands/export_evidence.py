"""``export_evidence INV EVIDENCE --to DIR``: a stored bundle's files, byte for byte but for the time stamp."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from console.management.evidence import plainly
from console.management.shared import ServiceCommand, add_inventory, inventory_of
from console.services import evidence
from sq_core.evidence.bundle import export_evidence


class Command(ServiceCommand):
    help = "Write the bundle of a stored evidence as a folder of plain files."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("evidence", help="its id, as the page Evidence and run_evidence show it")
        parser.add_argument("--to", type=Path, required=True, metavar="DIR")

    def run(self, **options: Any) -> None:
        found = evidence.get_evidence(inventory_of(options["inventory"]), options["evidence"])
        with plainly():
            written = export_evidence(evidence.bundle_of(found), options["to"], written_at=timezone.now())
        self.say(f"{found.name} ({found.digest[:12]}): {len(written)} files written to {options['to']}.")
