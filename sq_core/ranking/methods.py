"""Every ranking method by name, and the fold that fits and scores them. The one place that knows all names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.causal.prefix import PrefixRow
from sq_core.causal.vectors import RESPONSE_CHARS, HistoryIndex
from sq_core.ranking.contrastive import ContrastiveBatch, fit_adapter, multi_positive
from sq_core.ranking.copying import copied_first, copy_scores
from sq_core.ranking.metrics import ranks, reciprocal
from sq_core.ranking.prior import (
    ALPHA,
    GRID,
    FixedGate,
    Gate,
    LearnedGate,
    ToolCounts,
    count_targets,
    margins,
    tune_gate,
)
from sq_core.ranking.state import Adapter, Aggregation, aggregate
from sq_core.ranking.worlds import (
    Bools,
    CandidateWorld,
    Columns,
    Ints,
    Pool,
    WorldName,
    all_splits,
    columns_of,
    train_split,
)

Floats = NDArray[np.float64]

ADAPTERS = ("query_adapter", "shuffled_state", "state", "state+tool")
GATES = ("fixed", "tuned", "learned")
GATED = ("reset", "state")
PLAIN = ("popularity", "prior", "reset", *ADAPTERS, "copy", "copy+state", "copy+state+tool")
METHODS = (*PLAIN, *(f"{base}+prior:{kind}" for base in GATED for kind in GATES))
REWRITTEN = "rewritten:"


@dataclass(frozen=True, slots=True)
class RankSettings:
    """What a fit and a score depend on besides the data; written into every bundle.

    `columns`: a training row is contrasted with the training candidates it is ranked among (``pool``), or with all of
    them (``world``), which teaches the adapter to tell tools apart instead of values.
    """

    pool: Pool = "tool"
    columns: Literal["pool", "world"] = "pool"
    aggregation: Aggregation = field(default_factory=Aggregation)
    rank: int = 32
    iterations: int = 200
    temperature: float = 0.07
    l2: float = 1e-3
    alpha: float = ALPHA
    response_chars: int = RESPONSE_CHARS
    fixed_lambda: float = 0.05
    grid: tuple[float, ...] = GRID
    gate_maximum: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RankingData:
    """N rows as numbers: queries and tools (N, d), histories over history_vectors (H, d), candidate_vectors (n, d).

    `words` are the n candidates; `observed` the N texts of all that the agent had read; `rewritten` further query
    vectors (N, d) by rewriter.
    """

    rows: tuple[PrefixRow, ...]
    encoder_id: str
    words: tuple[str, ...]
    candidate_vectors: Floats
    queries: Floats
    tools: Floats
    history: HistoryIndex
    history_vectors: Floats
    observed: tuple[str, ...]
    rewritten: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def methods(self) -> tuple[str, ...]:
        return (*METHODS, *(REWRITTEN + name for name in self.rewritten))


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Row numbers of training, validation and test."""

    train: Ints
    validation: Ints
    test: Ints

    @property
    def all(self) -> tuple[tuple[str, Ints], ...]:
        return (("train", self.train), ("validation", self.validation), ("test", self.test))


class Fold:
    """One split of the rows: adapters are fitted at first use on training rows, gates on validation rows.

    `donors` (N,): the row whose history each row is given in ``shuffled_state``. `dropped` (nnz,) marks history entries
    that training may not see (tools held out).
    """

    def __init__(
        self, data: RankingData, parts: Parts, settings: RankSettings, *, donors: Ints, dropped: Bools | None = None
    ) -> None:
        self.data, self.parts, self.settings, self.donors, self.dropped = data, parts, settings, donors, dropped
        self.columns: Columns = columns_of(data.rows, data.words)
        self.counts: ToolCounts = count_targets([data.rows[at] for at in parts.train.tolist()], data.words)
        self.worlds: Mapping[WorldName, CandidateWorld] = {
            "all_splits": all_splits(data.rows, data.words, pool=settings.pool),
            "train_split": train_split(data.rows, parts.train, data.words, pool=settings.pool),
        }
        self.without_positive = 0
        self._adapters: dict[str, Adapter] = {}
        self._gates: dict[tuple[str, str, WorldName], Gate] = {}

    def with_data(self, data: RankingData) -> Fold:
        """The same split with its fitted adapters over other numbers of the same rows."""
        other = Fold(data, self.parts, self.settings, donors=self.donors, dropped=self.dropped)
        other._adapters = dict(self._adapters)
        return other

    # -------------------------------------------------------------------------------------------------------- adapters
    def adapter(self, name: str) -> Adapter:
        """The adapter of one of `ADAPTERS`, fitted on the training rows over the training world's candidates."""
        if name not in self._adapters:
            self._adapters[name] = self._fit(name)
        return self._adapters[name]

    def _fit(self, name: str) -> Adapter:
        known = self.worlds["train_split"].everything
        positives = self.columns.take(self.parts.train).positives[:, known]
        allowed = self.allowed(self.parts.train, "train_split")[:, known]
        if self.settings.columns == "pool":
            positives &= allowed
        kept = positives.any(axis=1)
        self.without_positive = int((~kept).sum())
        train = self.parts.train[kept]
        inputs, has = self.inputs(name, train, training=True)
        batch = ContrastiveBatch(
            queries=self.data.queries[train],
            inputs=inputs,
            has=has,
            candidates=self.data.candidate_vectors[known],
            positives=positives[kept],
            allowed=allowed[kept] if self.settings.columns == "pool" else None,
            rank=self.settings.rank,
            temperature=self.settings.temperature,
            l2=self.settings.l2,
        )
        return fit_adapter(batch, max_iter=self.settings.iterations, seed=self.settings.seed)

    def inputs(self, name: str, rows: Ints, *, training: bool = False) -> tuple[Floats, Bools]:
        """What an adapter reads of these rows: (inputs (N, e), has (N,))."""
        tools = self.data.tools[rows]
        if name == "query_adapter":
            return tools, np.ones(len(rows), dtype=bool)
        history = self.data.history
        if training and self.dropped is not None:
            history = history.without(self.dropped)
        given = self.donors[rows] if name == "shuffled_state" else rows
        mean, has = aggregate(
            history.take(given),
            self.data.history_vectors,
            how=self.settings.aggregation,
            queries=self.data.queries[rows],
        )
        if name == "state+tool":
            return np.hstack([mean, tools]), np.ones(len(rows), dtype=bool)
        return mean, has

    # ---------------------------------------------------------------------------------------------------------- scores
    @cached_property
    def _copied(self) -> Floats:
        return copy_scores(self.data.observed, self.data.words)

    def scores(self, method: str, rows: Ints, world: WorldName) -> Floats:
        """(len(rows), n) over the vocabulary; read them only where the world allows."""
        base, gated, kind = method.partition("+prior:")
        if gated:
            state, prior = self.scores(base, rows, world), self.prior(rows, world)
            weights = self.gate(base, kind, world).weights(state, self.allowed(rows, world))
            return state + weights[:, None] * prior
        if method == "popularity":
            return np.tile(self.counts.total, (len(rows), 1))
        if method == "prior":
            return self.prior(rows, world)
        if method == "reset":
            return self.cosines(self.data.queries[rows])
        if method in ADAPTERS:
            adapter = self.adapter(method)
            return adapter.scores(self.data.queries[rows], *self.inputs(method, rows), self.data.candidate_vectors)
        if method == "copy":
            return self._copied[rows]
        if method.startswith("copy+"):
            return copied_first(self._copied[rows], self.scores(method.removeprefix("copy+"), rows, world))
        if method.startswith(REWRITTEN):
            return self.cosines(self.data.rewritten[method.removeprefix(REWRITTEN)][rows])
        raise ValueError(f"no method is called {method!r}; there are {', '.join(self.data.methods)}")

    def cosines(self, vectors: Floats) -> Floats:
        found: Floats = vectors @ self.data.candidate_vectors.T
        return found

    def prior(self, rows: Ints, world: WorldName) -> Floats:
        """p (len(rows), n), centred over each row's candidates."""
        return self.counts.prior(self.rows(rows), self.allowed(rows, world), self.settings.alpha)

    def allowed(self, rows: Ints, world: WorldName) -> Bools:
        return self.worlds[world].allowed(self.rows(rows))

    def rows(self, places: Ints) -> list[PrefixRow]:
        return [self.data.rows[at] for at in places.tolist()]

    def ranks(self, method: str, rows: Ints, world: WorldName) -> Floats:
        """Ranks (len(rows),) of the targets, ∞ for a miss."""
        return ranks(self.scores(method, rows, world), self.columns.take(rows), self.allowed(rows, world))

    # ----------------------------------------------------------------------------------------------------------- gates
    def gate(self, base: str, kind: str, world: WorldName) -> Gate:
        """The gate of a kind for a base method, from validation rows alone."""
        key = (base, kind, world)
        if key not in self._gates:
            self._gates[key] = self._make_gate(base, kind, world)
        return self._gates[key]

    def _make_gate(self, base: str, kind: str, world: WorldName) -> Gate:
        if kind == "fixed":
            return FixedGate(self.settings.fixed_lambda)
        rows = self.parts.validation
        state, prior, allowed = self.scores(base, rows, world), self.prior(rows, world), self.allowed(rows, world)
        columns = self.columns.take(rows)
        if kind == "tuned":
            return tune_gate(_mrr(state, prior, columns, allowed), self.settings.grid)
        if kind == "learned":
            return learn_gate(state, prior, columns, allowed, self.settings)
        raise ValueError(f"no gate is called {kind!r}; there are {', '.join(GATES)}")


def _mrr(state: Floats, prior: Floats, columns: Columns, allowed: Bools) -> Callable[[float], float]:
    def quality(value: float) -> float:
        found = reciprocal(ranks(state + value * prior, columns, allowed))
        return float(found.mean()) if len(found) else 0.0

    return quality


def learn_gate(state: Floats, prior: Floats, columns: Columns, allowed: Bools, settings: RankSettings) -> LearnedGate:
    """w0 and w1 that minimise the multi-positive loss of s + λ p on validation rows whose target is a candidate."""
    from scipy.optimize import minimize

    covered = np.flatnonzero(allowed[np.arange(len(allowed)), columns.target])
    if not len(covered):
        return LearnedGate(settings.gate_maximum, 0.0, 0.0)
    s, p, open_ = state[covered], prior[covered], allowed[covered]
    positives = columns.take(covered).positives & open_
    margin = margins(s, open_)

    def objective(w: Floats) -> tuple[float, Floats]:
        weight = LearnedGate(settings.gate_maximum, float(w[0]), float(w[1])).at(margin)
        loss, pull = multi_positive((s + weight[:, None] * p) / settings.temperature, positives, open_)
        slope = (pull * p).sum(axis=1) / settings.temperature * weight * (1 - weight / settings.gate_maximum)
        return float(loss.mean()), np.array([slope.mean(), (slope * margin).mean()])

    found = minimize(objective, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-20, 20), (-200, 200)])
    return LearnedGate(settings.gate_maximum, float(found.x[0]), float(found.x[1]))
