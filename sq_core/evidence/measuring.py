"""Every method on every row, each row tested once: ranks by method and world, and the parts of each score apart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sq_core.evidence.comparing import Comparison, compare
from sq_core.evidence.controls import donors_within
from sq_core.ranking.methods import ADAPTERS, GATED, GATES, Floats, Fold, Parts, RankingData, RankSettings
from sq_core.ranking.metrics import Scorecard, reciprocal, scorecard
from sq_core.ranking.worlds import WORLDS, Bools, Ints, WorldName

Progress = Callable[[str], None]


def silent(message: str) -> None:
    """Progress that nobody reads."""
    del message


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Ranks (N,) by (method, world) over all rows of `data`; `fold_of` (N,) says in which fold a row was tested."""

    data: RankingData
    settings: RankSettings
    target_mode: str
    methods: tuple[str, ...]
    folds: tuple[Fold, ...]
    fold_of: Ints
    ranks: Mapping[tuple[str, WorldName], Floats]

    def scorecard(self, method: str, world: WorldName) -> Scorecard:
        return scorecard(
            self.ranks[method, world],
            self.data.rows,
            method=method,
            world=world,
            pool=self.settings.pool,
            target_mode=self.target_mode,
        )

    def records(self) -> list[dict[str, Any]]:
        """Every scorecard as JSON, with the mean over folds that a pilot may have printed."""
        found = []
        for method in self.methods:
            for world in WORLDS:
                by_fold = [float(reciprocal(part).mean()) for part in self._by_fold(method, world)]
                card = asdict(self.scorecard(method, world))
                found.append(card | {"mrr_by_fold": by_fold, "mrr_mean_of_folds": float(np.mean(by_fold))})
        return found

    def _by_fold(self, method: str, world: WorldName) -> list[Floats]:
        return [self.ranks[method, world][self.fold_of == at] for at in range(len(self.folds))]

    def compare(
        self, a: str, b: str, world: WorldName, *, draws: int, seed: int, only: Bools | None = None
    ) -> Comparison:
        """MRR of a − b over all rows, or over those marked in `only` (N,)."""
        for name in (a, b):
            if (name, world) not in self.ranks:
                raise ValueError(f"{name} in {world} was not measured; the plan measures {', '.join(self.methods)}")
        kept = np.ones(len(self.data.rows), dtype=bool) if only is None else only
        return compare(
            self.ranks[a, world][kept],
            self.ranks[b, world][kept],
            [row for row, keep in zip(self.data.rows, kept, strict=True) if keep],
            names=(a, b),
            world=world,
            draws=draws,
            seed=seed,
        )

    def rank_table(self) -> list[list[str | int | float]]:
        """rows.csv: one line for each row, method and world; `inf` is a miss."""
        table: list[list[str | int | float]] = [
            ["row", "fold", "session", "group", "config", "method", "world", "rank"]
        ]
        for (method, world), found in self.ranks.items():
            for row, fold, rank in zip(self.data.rows, self.fold_of.tolist(), found.tolist(), strict=True):
                table.append([row.row_id, fold, row.session_id, row.group_id, row.config_id, method, world, rank])
        return table

    def score_table(self) -> list[list[str | int | float]]:
        """scores.csv: the target's q·c, u·c, prior and every gate's λ, never folded into one number."""
        gates = [(base, kind) for base in GATED for kind in GATES if f"{base}+prior:{kind}" in self.methods]
        names = [f"lambda {base}:{kind}" for base, kind in gates]
        table: list[list[str | int | float]] = [["row", "fold", "world", "reset", "state", "prior", *names]]
        for number, fold in enumerate(self.folds):
            rows = fold.parts.test
            at = (np.arange(len(rows)), fold.columns.target[rows])
            for world in WORLDS:
                allowed = fold.allowed(rows, world)
                parts = [fold.scores(each, rows, world)[at] for each in ("reset", "state", "prior")]
                for base, kind in gates:
                    parts.append(fold.gate(base, kind, world).weights(fold.scores(base, rows, world), allowed))
                columns = [np.round(part, 9).tolist() for part in parts]
                for place, *values in zip(rows.tolist(), *columns, strict=True):
                    table.append([self.data.rows[place].row_id, number, world, *values])
        return table

    def fits(self) -> list[dict[str, Any]]:
        """How every adapter was fitted, with a digest of its weights, and every gate's numbers."""
        found: list[dict[str, Any]] = []
        for number, fold in enumerate(self.folds):
            for name in ADAPTERS:
                if name in self.methods:
                    adapter = fold.adapter(name)
                    digest = hashlib.sha256(adapter.w1.tobytes() + adapter.w2.tobytes()).hexdigest()
                    found.append({"fold": number, "method": name, "weights": digest, **adapter.record})
            for base in GATED:
                for kind in GATES:
                    if (name := f"{base}+prior:{kind}") in self.methods:
                        for world in WORLDS:
                            gate = fold.gate(base, kind, world).describe()
                            found.append({"fold": number, "method": name, "world": world, **gate})
        return found


def donors_for(methods: Sequence[str], data: RankingData, parts: Parts, seed: int) -> Ints:
    """Whose history each row is given (N,); its own where no method shuffles.

    Raises ControlError where ``shuffled_state`` is measured and a part has one group alone.
    """
    if "shuffled_state" in methods:
        return donors_within(data.rows, parts, seed)
    return np.arange(len(data.rows), dtype=np.int64)


def measure(
    data: RankingData,
    parts: Sequence[Parts],
    settings: RankSettings,
    methods: Sequence[str],
    *,
    target_mode: str,
    seed: int = 0,
    progress: Progress = silent,
) -> Measured:
    """Fit and score every fold. AssertionError unless each row is tested exactly once."""
    tested = np.sort(np.concatenate([each.test for each in parts]))
    if not np.array_equal(tested, np.arange(len(data.rows))):
        raise AssertionError(f"{len(tested)} tests of {len(data.rows)} rows; every row is tested exactly once")
    fold_of = np.zeros(len(data.rows), dtype=np.int64)
    ranks = {(method, world): np.full(len(data.rows), np.nan) for method in methods for world in WORLDS}
    folds = []
    for number, each in enumerate(parts):
        fold = Fold(data, each, settings, donors=donors_for(methods, data, each, seed))
        fold_of[each.test] = number
        for method in methods:
            for world in WORLDS:
                ranks[method, world][each.test] = fold.ranks(method, each.test, world)
        folds.append(fold)
        progress(f"fold {number + 1} of {len(parts)}: {len(each.train)} rows trained, {len(each.test)} tested")
    return Measured(data, settings, target_mode, tuple(methods), tuple(folds), fold_of, ranks)
