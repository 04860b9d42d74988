"""``reproduce INV [ARTIFACT [VERSION]]``: refit versions from their stored exemplars and compare."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from console.management.shared import ServiceCommand, add_inventory, inventory_of
from console.models import ClassifierVersion
from console.services import fit
from console.services.artifacts import get_artifact


class Command(ServiceCommand):
    help = "Refit the active versions (or one) and print the largest weight difference; red above 1e-6. Writes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        add_inventory(parser)
        parser.add_argument("artifact", nargs="?")
        parser.add_argument("version", nargs="?", type=int)

    def run(self, **options: Any) -> None:
        inventory = inventory_of(options["inventory"])
        rows = ClassifierVersion.objects.filter(artifact__inventory=inventory).select_related(
            "artifact__inventory", "centre"
        )
        if options["artifact"]:
            rows = rows.filter(artifact=get_artifact(inventory, options["artifact"]))
        rows = rows.filter(number=options["version"]) if options["version"] is not None else rows.current()
        versions = list(rows.order_by("artifact__position", "artifact_id"))
        if not versions:
            raise CommandError("There is no such version.")
        failed = [version for version in versions if not self._shown(version)]
        self.say(f"{len(versions) - len(failed)} of {len(versions)} versions reproduced.")
        if failed:
            raise CommandError(f"Not reproduced: {', '.join(v.artifact.key for v in failed)}.")

    def _shown(self, version: ClassifierVersion) -> bool:
        result = fit.reproduce(version)
        difference = "–" if result.max_abs_difference is None else f"{result.max_abs_difference:.1e}"
        self.say(f"{version.artifact.key} v{version.number}: max |Δw| {difference}. {result.message}")
        return result.ok
