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
HEAD = "bundle.json"
NAMES = tuple(sorted([*(f"{part}.json" for part in JSON_PARTS), *(f"{part}.csv" for part in TABLES)]))
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
        found[HEAD] = _json({"version": BUNDLE_VERSION, "name": self.name, "files": digests})
        return found

    @property
    def digest(self) -> str:
        """sha256 of `bundle.json`: of everything but the time."""
        return hashlib.sha256(self.files()[HEAD]).hexdigest()


def export_evidence(bundle: Bundle, folder: Path, *, written_at: datetime) -> list[Path]:
    """Write the bundle into `folder` (made if missing); returns the files. An earlier bundle there is refused unless it
    is the same one.
    """
    stored = folder / HEAD
    files = bundle.files()
    if stored.exists() and stored.read_bytes() != files[HEAD]:
        raise BundleError(f"{folder} holds another bundle; a run is superseded, never edited")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / STAMP).write_text(written_at.isoformat(timespec="seconds") + "\n", encoding="utf-8")
    return sorted(folder / name for name in (*files, STAMP))


def load_bundle(folder: Path) -> Bundle:
    """The bundle in a folder, every file checked against its digest. BundleError names what is missing or changed."""
    try:
        head = (folder / HEAD).read_bytes()
        named = [folder / name for name in NAMES if (folder / name).exists()]
        return read_bundle({HEAD: head} | {path.name: path.read_bytes() for path in named})
    except OSError as problem:
        raise BundleError(f"{folder} is no bundle: {problem}") from None
    except BundleError as problem:
        raise BundleError(f"{folder}: {problem}") from None


def read_bundle(files: Mapping[str, bytes]) -> Bundle:
    """The bundle of these files by name, each checked against its digest; other names are ignored. BundleError says what is
    missing, changed, or no JSON or CSV.
    """
    if HEAD not in files:
        raise BundleError(f"{HEAD} is missing")
    try:
        head = json.loads(files[HEAD])
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict):
        raise BundleError(f"{HEAD} is no head of a bundle")
    if (version := head.get("version")) != BUNDLE_VERSION:
        raise BundleError(f"version {str(version)[:20]}, expected {BUNDLE_VERSION}")
    if _json(head) != files[HEAD]:  # its digest is the bundle's name: one way of writing it alone
        raise BundleError(f"{HEAD} is not as it was written")
    name, kept = head.get("name"), head.get("files")
    if not isinstance(kept, dict) or set(kept) != set(NAMES) or not isinstance(name, str):
        raise BundleError(f"{HEAD} names other files than {', '.join(NAMES)}")
    if missing := [each for each in NAMES if each not in files]:
        raise BundleError(f"{', '.join(missing)} is missing")
    if changed := [each for each in NAMES if hashlib.sha256(files[each]).hexdigest() != kept[each]]:
        raise BundleError(f"{', '.join(changed)} is not what was written")
    try:
        parts: dict[str, Any] = {part: json.loads(files[f"{part}.json"]) for part in JSON_PARTS}
        parts |= {part: list(csv.reader(io.StringIO(files[f"{part}.csv"].decode()))) for part in TABLES}
    except (ValueError, csv.Error, RecursionError) as problem:
        raise BundleError(f"a file cannot be read: {problem}") from None
    return Bundle(name=name, **parts)


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    return (text + "\n").encode("utf-8", "surrogatepass")


def _csv(table: Table) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    return out.getvalue().encode("utf-8", "surrogatepass")
