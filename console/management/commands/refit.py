"""``refit INV [ARTIFACT…]``: one version per changed fit set."""

from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, ServiceCommand, add_inventory, inventory_of
from console.services import refitting
from console.services.artifacts import get_artifact


class Command(ServiceCommand):
    help = "Fit the artifacts whose examples changed since their newest version; the first run fixes the centre."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("artifacts", nargs="*", metavar="ARTIFACT", help="keys; all active ones by default")
        parser.add_argument("--reason", default="")

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        self.embed_pending(inventory)
        chosen = [get_artifact(inventory, key) for key in options["artifacts"]] or None
        versions = refitting.refit(inventory, by=COMMAND_LINE, artifacts=chosen, reason=options["reason"])
        inventory.refresh_from_db()
        self.say(f"{len(versions)} new versions; release {inventory.release}, live {inventory.live_release}.")
