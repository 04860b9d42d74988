"""An evidence bundle: a folder of plain files that a run from the same inputs writes again byte for byte.

`rows.csv` (row, fold, session, group, method, world, rank), `scores.csv` (the target's q·c, u·c, prior and gates, each
apart), `scorecards.json`, `comparisons.json`, `checks.json`, `claims.json`, `fits.json`, `inputs.json` (digests, seeds,
versions), `contract.json`. `written_at.txt` is the one file with a time.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

# 1: first version.
BUNDLE_VERSION = 1
STAMP = "written_at.txt"
JSON_PARTS = ("scorecards", "comparisons", "checks", "claims", "fits", "inputs", "contract", "costs")
TABLES = ("rows", "scores")
Table = Sequence[Sequence[str | int | float]]


class BundleError(ValueError):
    """A folder that is no bundle, or not the one that was written."""


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Everything a page shows of one run, as JSON values; tables have their header as first row."""

    name: str
    inputs: Mapping[str, Any]
    contract: Mapping[str, Any]
    scorecards: Sequence[Mapping[str, Any]]
    comparisons: Sequence[Mapping[str, Any]]
    checks: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]
    fits: Sequence[Mapping[str, Any]] = ()
    costs: Sequence[Mapping[str, Any]] = ()
    rows: Table = ()
    scores: Table = ()

    def files(self) -> dict[str, bytes]:
        """Name and bytes of every file but the time stamp, and of `bundle.json` with their digests."""
        found = {f"{part}.json": _json(getattr(self, part)) for part in JSON_PARTS}
        found |= {f"{part}.csv": _csv(getattr(self, part)) for part in TABLES}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(found.items())}
        found["bundle.json"] = _json({"version": BUNDLE_VERSION, "name": self.name, "files": digests})
        return found

    @property
    def digest(self) -> str:
        """sha256 of `bundle.json`: of everything but the time."""
        return hashlib.sha256(self.files()["bundle.json"]).hexdigest()


def export_evidence(bundle: Bundle, folder: Path, *, written_at: datetime) -> list[Path]:
    """Write the bundle into `folder` (made if missing); returns the files. An earlier bundle there is refused unless it
    is the same one.
    """
    stored = folder / "bundle.json"
    files = bundle.files()
    if stored.exists() and stored.read_bytes() != files["bundle.json"]:
        raise BundleError(f"{folder} holds another bundle; a run is superseded, never edited")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / STAMP).write_text(written_at.isoformat(timespec="seconds") + "\n", encoding="utf-8")
    return sorted(folder / name for name in (*files, STAMP))


def load_bundle(folder: Path) -> Bundle:
    """The bundle in a folder, every file checked against its digest. BundleError names what is missing or changed."""
    try:
        head = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
        if head.get("version") != BUNDLE_VERSION:
            raise BundleError(f"{folder}: version {head.get('version')}, expected {BUNDLE_VERSION}")
        data = {name: (folder / name).read_bytes() for name in head["files"]}
    except OSError as problem:
        raise BundleError(f"{folder} is no bundle: {problem}") from None
    changed = [name for name, kept in head["files"].items() if hashlib.sha256(data[name]).hexdigest() != kept]
    if changed:
        raise BundleError(f"{folder}: {', '.join(changed)} is not what was written")
    parts: dict[str, Any] = {part: json.loads(data[f"{part}.json"]) for part in JSON_PARTS}
    parts |= {part: list(csv.reader(io.StringIO(data[f"{part}.csv"].decode()))) for part in TABLES}
    return Bundle(name=head["name"], **parts)


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    return (text + "\n").encode("utf-8", "surrogatepass")


def _csv(table: Table) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    return out.getvalue().encode("utf-8", "surrogatepass")
