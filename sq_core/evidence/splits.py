"""Splits by group, never by row or by trial (TRACES 2.7): 80 % of whole targets come again in another trial of a task."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from sq_core.causal.prefix import PrefixRow
from sq_core.causal.vectors import HistoryIndex
from sq_core.evaluation.data import LeakageError
from sq_core.ranking.methods import Parts
from sq_core.ranking.worlds import Bools

SplitBy = Literal["group", "session"]


def unit_of(row: PrefixRow, by: SplitBy) -> str:
    """The identity that may not stand on both sides of a split."""
    if by not in ("group", "session"):
        raise ValueError(f"rows are split by group or by session, got {by!r}")
    return row.group_id if by == "group" else row.session_id


def group_split(
    rows: Sequence[PrefixRow],
    *,
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2),
    seed: int,
    by: SplitBy = "group",
) -> Parts:
    """Training, validation and test by whole groups in seeded order; the shares count groups."""
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(f"fractions are {fractions}; expected three shares that sum to 1")
    names = _shuffled(rows, seed, by)
    first, second = round(fractions[0] * len(names)), round((fractions[0] + fractions[1]) * len(names))
    return _parts(rows, (names[:first], names[first:second], names[second:]), by)


def group_folds(rows: Sequence[PrefixRow], *, folds: int, seed: int, by: SplitBy = "group") -> list[Parts]:
    """Every row is tested once: part i tests, part i + 1 validates, the others train. At least three groups and folds."""
    names = _shuffled(rows, seed, by)
    if folds < 3 or len(names) < folds:
        raise ValueError(f"{len(names)} groups in {folds} folds; expected at least three folds and a group in each")
    parts = [names[i::folds] for i in range(folds)]
    made = []
    for i in range(folds):
        validation = (i + 1) % folds
        train = [name for j, part in enumerate(parts) if j not in (i, validation) for name in part]
        made.append(_parts(rows, (train, parts[validation], parts[i]), by))
    return made


def _shuffled(rows: Sequence[PrefixRow], seed: int, by: SplitBy) -> list[str]:
    names = sorted({unit_of(row, by) for row in rows}, key=_natural)
    random.Random(seed).shuffle(names)  # noqa: S311
    return names


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """task-2 before task-10: the order of the shuffle's input, so that equal tasks under other prefixes split alike."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _parts(rows: Sequence[PrefixRow], names: tuple[Sequence[str], ...], by: SplitBy) -> Parts:
    sides = [set(each) for each in names]
    train, validation, test = (
        np.array([at for at, row in enumerate(rows) if unit_of(row, by) in side], dtype=np.int64) for side in sides
    )
    parts = Parts(train, validation, test)
    assert_disjoint(rows, parts, by)
    return parts


def assert_disjoint(rows: Sequence[PrefixRow], parts: Parts, by: SplitBy = "group") -> None:
    """LeakageError when a group (or session) stands in two parts, or a row in none."""
    sides = {name: [rows[at] for at in places.tolist()] for name, places in parts.all}
    seen: dict[str, str] = {}
    for name, side in sides.items():
        for unit in {unit_of(row, by) for row in side} | {f"session {row.session_id}" for row in side}:
            if seen.setdefault(unit, name) != name:
                raise LeakageError(f"{unit} is in {seen[unit]} and in {name}")
    if sum(map(len, sides.values())) != len(rows):
        raise LeakageError(f"{sum(map(len, sides.values()))} of {len(rows)} rows are in a part")


def hold_out_tools(rows: Sequence[PrefixRow], parts: Parts, tools: Collection[str]) -> Parts:
    """No row of these tools trains or validates; only theirs are tested, in every group that was not trained on.

    With groups held out as well, the test rows are those of `parts.test`; pass parts whose test holds all rows' groups
    for a plain tool-heldout split.
    """
    held = np.array([row.tool in tools for row in rows], dtype=bool)
    if not held.any():
        raise ValueError(f"no row calls {', '.join(sorted(tools))}")
    return Parts(
        parts.train[~held[parts.train]], parts.validation[~held[parts.validation]], parts.test[held[parts.test]]
    )


def history_of_tools(rows: Sequence[PrefixRow], history: HistoryIndex, tools: Collection[str]) -> Bools:
    """Which history entries (nnz,) are calls of these tools: they are masked in training."""
    marked = np.array([item.tool in tools for row in rows for item in row.history], dtype=bool)
    if len(marked) != len(history.indices):
        raise ValueError(f"{len(history.indices)} history entries of {len(marked)} items; expected those of the rows")
    return marked


def without_tools(rows: Sequence[PrefixRow], tools: Collection[str]) -> Parts:
    """The plain tool-heldout split: every other row trains, every row of the tools is tested, none validates."""
    everything = np.arange(len(rows), dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    return hold_out_tools(rows, Parts(everything, nothing, everything), tools)
