"""Artifacts, then their inventory: one module locks them, so that no two writers wait for each other for ever."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LOCK = re.compile(r"\b(?:Artifact|Inventory)\.objects\b[^\n]*\bselect_for_update\b")
ELSEWHERE = {"sample.py"}  # takes the whole inventory away, which nobody else does


def test_artifacts_and_inventories_are_locked_in_one_place() -> None:
    found = {path.name for path in (ROOT / "console").rglob("*.py") if LOCK.search(path.read_text(encoding="utf-8"))}
    assert found == {"revision.py"} | ELSEWHERE, "use lock_artifact, lock_artifacts or lock_inventory"
