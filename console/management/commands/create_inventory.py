"""``create_inventory SLUG``: a new, empty inventory."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, ServiceCommand
from console.models import ClassWeight, GoLive
from console.services.inventories import create_inventory


class Command(ServiceCommand):
    help = "Make an empty inventory: release 1, θ 0, uncalibrated."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="a-z, 0-9 and hyphens, up to 64")
        parser.add_argument("--name", default="", help="what pages show; the slug by default")
        parser.add_argument(
            "--encoder",
            default=settings.SIGNALBOX_ENCODER,
            help="minilm (local) or openai:MODEL[:DIM]; default %(default)s",
        )
        parser.add_argument("--go-live", default=GoLive.AT_ONCE.value, choices=GoLive.values)
        parser.add_argument("--class-weight", default=ClassWeight.BALANCED.value, choices=ClassWeight.values)

    def run(self, **options: Any) -> None:
        inventory = create_inventory(
            options["slug"],
            by=COMMAND_LINE,
            name=options["name"],
            encoder=options["encoder"],
            go_live=options["go_live"],
            class_weight=options["class_weight"],
        )
        self.say(f"Inventory {inventory.slug} made, encoder {inventory.encoder_id}.")
