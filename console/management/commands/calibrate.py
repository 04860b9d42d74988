"""``calibrate INV [--target R]``: θ from the inventory's judged turns."""

from typing import Any

from django.core.management.base import CommandParser

from console.management.shared import COMMAND_LINE, ServiceCommand, add_inventory, inventory_of
from console.services.calibrate import calibrate


class Command(ServiceCommand):
    help = "Choose θ so that the macro recall on the judged turns reaches the target; a release of its own."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("--target", type=float, help="macro recall, such as 0.9; the inventory's by default")
        parser.add_argument("--reason", default="")

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        self.embed_pending(inventory)
        point = calibrate(inventory, by=COMMAND_LINE, target=options["target"], reason=options["reason"])
        record = point.calibration or {}
        self.say(
            f"θ {point.theta:.6f} (operating point {point.number}): recall {record['recall']:.3f}, precision "
            f"{record['precision']:.3f}, kept {record['kept']:.1%} on {record['states']} states of "
            f"{record['scenarios']} scenarios; {record['split']}; judge {record['judge']} ({record['rubric']})."
        )
        if not record["reached"]:
            self.say(f"No θ reaches {record['target']:.0%}: this is the lowest, where everything that can is selected.")
        if crossed := record["cross_fitted"]:
            self.say(
                f"Cross-fitted ({crossed['split']}): recall {crossed['recall']:.3f}, precision "
                f"{crossed['precision']:.3f}, kept {crossed['kept']:.1%}."
            )
        self.say(f"Promise for new scenarios: {record['crc']['note']}.")
