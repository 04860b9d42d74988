"""Candidate worlds (TRACES 2.6): what a target is ranked among, over one vocabulary of all targets.

``all_splits`` holds every target there is and is closed: nothing can be missing. ``train_split`` holds targets of
training rows alone; a target it lacks is a miss, never a row left out. Either is narrowed by the pool: ``tool`` (targets
seen with this tool and path in that world) or ``global``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.causal.prefix import PrefixRow

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Pool = Literal["tool", "global"]
WorldName = Literal["all_splits", "train_split"]
WORLDS: tuple[WorldName, ...] = ("all_splits", "train_split")


def vocabulary(rows: Iterable[PrefixRow]) -> tuple[str, ...]:
    """Every distinct target, sorted: columns of all score tables."""
    return tuple(sorted({row.target for row in rows}))


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Where rows stand in a vocabulary of n: target (N,), and siblings (N, n) that are correct as well."""

    target: Ints
    siblings: Bools

    @property
    def positives(self) -> Bools:
        """(N, n): the target and its siblings."""
        found = self.siblings.copy()
        found[np.arange(len(self.target)), self.target] = True
        return found

    def take(self, rows: Ints) -> Columns:
        return Columns(self.target[rows], self.siblings[rows])


def columns_of(rows: Sequence[PrefixRow], words: Sequence[str]) -> Columns:
    """Columns of targets and siblings; ValueError for a target that the vocabulary does not have."""
    place = {word: at for at, word in enumerate(words)}
    siblings = np.zeros((len(rows), len(words)), dtype=bool)
    target = np.zeros(len(rows), dtype=np.int64)
    for at, row in enumerate(rows):
        if row.target not in place:
            raise ValueError(f"row {row.row_id}: its target is not in the vocabulary of {len(words)}")
        target[at] = place[row.target]
        for other in row.siblings:
            if other in place:
                siblings[at, place[other]] = True
    return Columns(target, siblings)


@dataclass(frozen=True, slots=True, eq=False)
class CandidateWorld:
    """Candidates as masks over a vocabulary of n: `everything` (n,), and `by_context` for the pool ``tool``."""

    name: WorldName
    pool: Pool
    everything: Bools
    by_context: Mapping[str, Bools]

    @property
    def size(self) -> int:
        return int(self.everything.sum())

    def allowed(self, rows: Sequence[PrefixRow]) -> Bools:
        """Candidates of each row (N, n); an unseen tool in the pool ``tool`` has none."""
        if self.pool == "global":
            return np.tile(self.everything, (len(rows), 1))
        none = np.zeros_like(self.everything)
        found = [self.by_context.get(row.context, none) for row in rows]
        return np.stack(found) if found else np.zeros((0, len(none)), dtype=bool)


def all_splits(rows: Sequence[PrefixRow], words: Sequence[str], *, pool: Pool) -> CandidateWorld:
    """The closed world of every row's target: coverage is 1 by construction."""
    return _world("all_splits", rows, words, pool)


def train_split(
    rows: Sequence[PrefixRow], train: Sequence[int] | Ints, words: Sequence[str], *, pool: Pool
) -> CandidateWorld:
    """Targets of the training rows alone."""
    return _world("train_split", [rows[int(at)] for at in train], words, pool)


def _world(name: WorldName, rows: Sequence[PrefixRow], words: Sequence[str], pool: Pool) -> CandidateWorld:
    place = {word: at for at, word in enumerate(words)}
    everything = np.zeros(len(words), dtype=bool)
    by_context: dict[str, Bools] = {}
    for row in rows:
        at = place[row.target]
        everything[at] = True
        by_context.setdefault(row.context, np.zeros(len(words), dtype=bool))[at] = True
    return CandidateWorld(name, pool, everything, by_context)
