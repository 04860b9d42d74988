"""``import_artifacts INV FILE…``: policies, skills and tools."""

from console.management.imports import ImportCommand


class Command(ImportCommand):
    help = "Import artifacts from JSON lines or a folder of SKILL.md files (docs/formats.md); each file is one release."
    what, folders = "artifacts", True
