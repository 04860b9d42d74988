"""``load_sample [--reset] [--bare SLUG]``: the shipped inventory ``sky-airline`` and the demo's people, once."""

from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import Bars, ServiceCommand
from console.models import Inventory
from console.services import sample
from console.services.actor import SYSTEM
from console.services.demo import ensure_demo_users


class Command(ServiceCommand):
    help = "Load the sample inventory, fit and calibrate it; returns at once when it is there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reset", action="store_true", help="first remove the sample with all that was done in it")

        parser.add_argument(
            "--bare",
            metavar="SLUG",
            help="only make an inventory of its policies and conversations: for the whole loop",
        )

    def run(self, **options: Any) -> None:
        if options["bare"]:
            made = sample.load_bare(options["bare"], by=SYSTEM)
            ensure_demo_users(made, by=SYSTEM)
            self.say(f"Inventory {made.slug} made: policies and conversations of the sample, nothing fitted yet.")
            return
        if options["reset"] and sample.remove_sample(by=SYSTEM):
            self.say("The sample inventory was removed.")
        with Bars("sample: ") as progress:
            loaded = sample.load_sample(by=SYSTEM, progress=progress)
        inventory = Inventory.objects.get(slug=sample.SLUG)
        ensure_demo_users(inventory, by=SYSTEM)
        if loaded:
            self.say(f"Sample inventory {sample.SLUG} loaded: release {inventory.release}.")
