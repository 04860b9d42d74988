"""A plan's sources from files, for commands: paths below one folder, and not a row of them may fail."""

from __future__ import annotations

from pathlib import Path

from sq_core.conversation import Conversation
from sq_core.evidence.plan import EvidencePlan, PlanError
from sq_core.readers import RowError, read_conversations


def read_sources(plan: EvidencePlan, root: Path) -> dict[str, list[Conversation]]:
    """Conversations by source name. PlanError for a missing file, or for a row that cannot be read."""
    return {source.name: read_file(root / source.path) for source in plan.sources}


def read_file(path: Path) -> list[Conversation]:
    """Every conversation of a file or folder; PlanError with the first row that cannot be read."""
    if not path.exists():
        raise PlanError(f"{path} does not exist; sources are paths below the given folder")
    found: list[Conversation] = []
    for each in read_conversations(path):
        if isinstance(each, RowError):
            raise PlanError(str(each))
        found.append(each)
    return found
