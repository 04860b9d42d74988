"""What each candidate would change by itself: one refit per candidate in memory, on the turns at hand or a sample of them.

An estimate for ordering and for the eye: scores in float32, on at most 2,000 turns. Exact is what is shown before a
decision is applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from console.models import ClassifierVersion, Exemplar, OperatingPoint, Polarity
from console.services import caches, fit, table
from sq_core.fitting import fit_classifier
from sq_core.offset import choose_offset
from sq_core.scoring import Pooling, cut_off

TURNS = 2_000  # that an estimate looks at: whole conversations, spread over the log
FITS = 200  # refits of one policy; of a version on many examples, whose fits take longer, fewer
MANY = 60  # examples
_effects = caches.Cache(500)
Vectors = NDArray[np.float64]
Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Effect:
    """Needed turns that would be caught (less those lost), and turns shown for nothing that would come (negative: go).

    ``fair_caught`` and ``fair_extra`` leave out every scenario that gave an example, the candidate's own too: what others
    gain is what candidates are ordered by.
    """

    caught: int
    extra: int
    fair_caught: int = 0
    fair_extra: int = 0


@dataclass(frozen=True, eq=False)
class Fitted:
    """The active version with the vectors (n, d) it was fitted on, in its order."""

    version: ClassifierVersion
    vectors: Vectors

    @property
    def signals(self) -> NDArray[np.bool_]:
        return np.array([row["polarity"] == Polarity.SIGNAL for row in self.version.exemplars])


def effects(
    point: OperatingPoint,
    states: table.StateTable,
    labels: table.Labels,
    fitted: Fitted,
    candidates: Sequence[tuple[Exemplar, Vectors]],
    *,
    stamp: tuple[int, ...],
) -> dict[int, Effect]:
    """By row id; of many candidates those that are furthest on the wrong side now. Kept as long as ``stamp``, which every
    write to labels and versions moves, stays the same.
    """
    if not labels.judged.any() or not candidates:
        return {}
    key = (fitted.version.pk, states.key, stamp, tuple((e.pk, e.polarity) for e, _ in candidates))
    return _effects.get(key, lambda: _Estimate(point, states, labels, fitted, candidates).all())


class _Estimate:
    def __init__(
        self,
        point: OperatingPoint,
        states: table.StateTable,
        labels: table.Labels,
        fitted: Fitted,
        candidates: Sequence[tuple[Exemplar, Vectors]],
    ) -> None:
        self.point, self.states, self.fitted = point, states, fitted
        self.candidates = self._chosen(candidates)
        self.pooling = table.pooling_of(point)
        self.rows = sample_rows(states.conversation_ids)
        self.share = len(states) / max(1, len(self.rows))
        before = table.margins_of(table.classifier_of(fitted.version), states, self.pooling)
        self.before = before[self.rows]
        self.cutoff = cut_off(point.theta, fitted.version.offset)
        self.relevant, self.judged = labels.relevant[self.rows], labels.judged[self.rows]
        known = np.isin(states.state_ids[self.rows], np.array(point.background, dtype=np.int64))
        self.background = (
            known if known.sum() >= min(100, len(point.background)) else np.ones(len(self.rows), dtype=bool)
        )
        self.left_out = states.in_scenarios(set(table.scenarios_of(fitted.version)))[self.rows]

    def _chosen(self, candidates: Sequence[tuple[Exemplar, Vectors]]) -> list[tuple[Exemplar, Vectors]]:
        most = FITS if len(self.fitted.vectors) <= MANY else FITS // 4
        if len(candidates) <= most:
            return list(candidates)
        classifier = table.classifier_of(self.fitted.version)
        z = np.stack([vector for _, vector in candidates]) @ classifier.weights.astype(np.float64)
        sign = np.array([1.0 if e.polarity == Polarity.SIGNAL else -1.0 for e, _ in candidates])
        return [candidates[n] for n in np.argsort(sign * z, kind="stable")[:most]]

    def all(self) -> dict[int, Effect]:
        weights, biases = self._fits()
        after = pooled(self.states, self.rows, weights, self.pooling) + biases
        return {e.pk: self._one(e, after[:, n]) for n, (e, _) in enumerate(self.candidates)}

    def _fits(self) -> tuple[Float32, Vectors]:
        version, vectors, signals = self.fitted.version, self.fitted.vectors, self.fitted.signals
        weight = fit.core_weight(version.class_weight)
        weights, biases = [], []
        for e, vector in self.candidates:
            up, down = vectors[signals], vectors[~signals]
            if e.polarity == Polarity.SIGNAL:
                up = np.concatenate((up, vector[None, :]))
            else:
                down = np.concatenate((down, vector[None, :]))
            found = fit_classifier(up, down, C=version.inverse_penalty, class_weight=weight)
            weights.append(found.weights)
            biases.append(found.bias)
        return np.stack(weights).astype(np.float32), np.array(biases)

    def _one(self, e: Exemplar, after: Vectors) -> Effect:
        """The turns under the cut-off that a refit with it would choose."""
        own = self.states.positions.get(e.origin_id) if e.origin_id else None
        fair = ~self.left_out
        must: list[float] = []
        if own is not None:
            fair &= self.states.scenario[self.rows] != self.states.scenario[own]
            here = np.flatnonzero(self.rows == own)
            if len(here) and e.polarity == Polarity.SIGNAL:
                must = [float(after[here[0]])]
        counted = self.relevant & fair
        chosen = choose_offset(
            parent_background=self.before[self.background],
            new_background=after[self.background],
            parent_relevant=self.before[counted],
            new_relevant=after[counted],
            parent_cutoff=self.cutoff,
            theta=self.point.theta,
            must_fire=must,
        )
        fired, fires = self.before > self.cutoff, after > cut_off(self.point.theta, chosen.offset)
        change = fires.astype(np.int64) - fired
        extra = self.judged & ~self.relevant
        return Effect(
            *(round(int(change[of].sum()) * self.share) for of in (self.relevant, extra, counted, extra & fair))
        )


def sample_rows(conversations: NDArray[np.int64]) -> NDArray[np.intp]:
    """All rows, or those of conversations spread evenly over the log, up to ``TURNS``."""
    if len(conversations) <= TURNS:
        return np.arange(len(conversations))
    starts = np.flatnonzero(np.append(True, conversations[1:] != conversations[:-1]))
    sizes = np.diff(np.append(starts, len(conversations)))
    wanted = max(1, int(TURNS / sizes.mean()))
    chosen = (np.arange(wanted) * len(starts)) // wanted
    return np.concatenate([np.arange(starts[n], starts[n] + sizes[n]) for n in chosen])[: 2 * TURNS]


def pooled(states: table.StateTable, rows: NDArray[np.intp], weights: Float32, pooling: Pooling) -> Vectors:
    """w·q pooled over the views of each of these rows (whole conversations), for each row of ``weights`` (k, d)."""
    whole = (states.views.cumulative[rows] @ weights.T).astype(np.float64)
    turns = (states.views.turns[rows] @ weights.T).astype(np.float64)
    conversations = states.conversation_ids[rows]
    result = np.empty_like(whole)
    starts = np.flatnonzero(np.append(True, conversations[1:] != conversations[:-1]))
    plain = pooling.mode == "max" and pooling.user_turns and pooling.last is None and not pooling.age_discount
    for start, stop in zip(starts, np.append(starts[1:], len(rows)), strict=True):
        if plain:  # the best so far only grows
            best = np.maximum.accumulate(turns[start:stop], axis=0)
            result[start:stop] = np.maximum(best, whole[start:stop]) if pooling.cumulative else best
            continue
        number = states.user_turns[rows[start:stop]]
        for place in range(start, stop):
            t = int(number[place - start])
            views = [whole[place][None, :]] if pooling.cumulative else []
            if pooling.user_turns:
                inside = (number >= pooling.first_turn(t)) & (number <= t)
                age = (t - number[inside])[:, None] * pooling.age_discount
                views.append(turns[start:stop][inside] - age)
            every = np.concatenate(views)
            result[place] = every.max(axis=0) if pooling.mode == "max" else every.mean(axis=0)
    return result
