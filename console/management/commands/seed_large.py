"""``seed_large SLUG``: a new, made-up inventory of a given size for load tests and `bench.pages`."""

import dataclasses
from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, Bars, ServiceCommand
from console.services.demo import ensure_demo_users
from console.services.seed_large import Size, seed_large


class Command(ServiceCommand):
    help = (
        "Make a new inventory of made-up conversations, vectors, judgements and decisions, with classifiers fitted on "
        "made-up examples: for load tests. Nothing in it means anything, and its encoder's name says so."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the new inventory's slug; one that exists is refused")
        for field in dataclasses.fields(Size):
            kind = type(field.default)
            parser.add_argument(f"--{field.name}", type=kind, default=field.default, help=f"default: {field.default}")

    def run(self, **options: Any) -> None:
        size = Size(**{field.name: options[field.name] for field in dataclasses.fields(Size)})
        with Bars("seed: ") as progress:
            inventory = seed_large(options["slug"], size, by=COMMAND_LINE, progress=progress)
        ensure_demo_users(inventory, by=COMMAND_LINE)
        self.say(f"Inventory {inventory.slug} made up: release {inventory.release}, encoder {inventory.encoder_id}.")
