"""Scoring a turn as plain arrays, one float32 product for all artifacts: the hot path of a large inventory.

Which artifacts fire is exactly what `sq_core.scoring.margins` says: every margin nearer to its cut-off than the
product's rounding could have moved it is computed again in float64. The other margins are within ``bound`` of the
exact ones; what is stored or shown comes from `sq_core.scoring`, never from here (docs/adr/0004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sq_core.scoring import MARGIN_DIGITS, ScoringError, dot_table, round_margin

Float32s = NDArray[np.float32]
# Rounding of a float32 dot product of d terms is at most d·2⁻²⁴·Σ|wᵢqᵢ| ≤ d·2⁻²⁴·‖w‖·‖q‖, here with a factor of 2 to spare.
_UNIT = float(2.0**-23)


class TurnScores(NamedTuple):
    """margins (N,), the row of the winning view (N,), and which artifacts fire (N,)."""

    margins: NDArray[np.float64]
    view: NDArray[np.intp]
    fired: NDArray[np.bool_]


class TurnScorer:
    """N classifiers, weights (N, d), biases (N,) and cut-offs (N,), under the max over the views given.

    ``longest`` is the greatest norm of a view, 1 for unit vectors.
    """

    def __init__(
        self, weights: ArrayLike, biases: ArrayLike, cutoffs: ArrayLike = 0.0, *, longest: float = 1.0
    ) -> None:
        self.weights = np.ascontiguousarray(weights, dtype=np.float32)
        if self.weights.ndim != 2:
            raise ScoringError(f"weights have shape {self.weights.shape}; expected (N, d)")
        n, d = self.weights.shape
        self.biases = np.broadcast_to(np.asarray(biases, dtype=np.float64), (n,)).copy()
        self.cutoffs = np.broadcast_to(np.asarray(cutoffs, dtype=np.float64), (n,)).copy()
        norms = np.sqrt(np.einsum("nd,nd->n", self.weights, self.weights, dtype=np.float64))
        self.bound = d * _UNIT * norms * longest * 1.01 + 10.0**-MARGIN_DIGITS
        self.below, self.above = self.cutoffs - self.bound, self.cutoffs + self.bound
        self._rows = np.arange(n)

    def __call__(self, vectors: Float32s) -> TurnScores:
        """Margins at one state, its views (v, d) in the order of preference: the first of equals wins."""
        views = vectors if vectors.dtype == np.float32 else np.asarray(vectors, dtype=np.float32)
        if views.ndim != 2 or views.shape[1] != self.weights.shape[1] or len(views) == 0:
            raise ScoringError(f"views have shape {views.shape}; expected (v, {self.weights.shape[1]}), v ≥ 1")
        dots = self.weights @ views.T
        view = dots.argmax(axis=1)  # NaN wins, and is unsure below
        margins = dots[self._rows, view] + self.biases  # a fifth of the time of a max over short rows
        fired = margins > self.above
        rows = self.unsure(margins, fired)
        if rows is not None:
            exact = dot_table(self.weights[rows], views)
            margins[rows] = round_margin(exact.max(axis=1) + self.biases[rows])
            view[rows], fired[rows] = exact.argmax(axis=1), margins[rows] > self.cutoffs[rows]
        return TurnScores(margins, view, fired)

    def unsure(self, margins: NDArray[np.float64], fired: NDArray[np.bool_]) -> NDArray[np.intp] | None:
        """Rows whose decision the rounding could have changed, NaN among them; None when there are none."""
        # A comparison with NaN is false: such a row is neither surely above nor surely below.
        sure = np.count_nonzero(fired) + np.count_nonzero(margins < self.below)
        return None if sure == len(margins) else np.flatnonzero(~(fired | (margins < self.below)))


class RunningScores:
    """One conversation turn by turn under ``both``: only the newest user turn and prefix are multiplied.

    ``view`` in the answer is the user turn, or −1 for the cumulative view, which wins only alone.
    """

    def __init__(self, scorer: TurnScorer) -> None:
        self._scorer = scorer
        n, d = scorer.weights.shape
        self._best = np.full(n, -np.inf, dtype=np.float32)
        self._turn = np.zeros(n, dtype=np.intp)
        self._newest = np.empty((2, d), dtype=np.float32)
        self._views: list[Float32s] = []

    def add(self, user_turn: Float32s, cumulative: Float32s) -> TurnScores:
        """The answer after one more user turn; both views are (d,) float32."""
        scorer, both = self._scorer, self._newest
        both[0], both[1] = user_turn, cumulative
        newest, whole = (scorer.weights @ both.T).T  # half the time of both @ weights.T
        np.copyto(self._turn, len(self._views), where=newest >= self._best)  # of equal turns the latest
        np.maximum(self._best, newest, out=self._best)
        self._views.append(user_turn)
        view = np.where(whole > self._best, -1, self._turn)
        margins = np.maximum(self._best, whole) + scorer.biases
        fired = margins > scorer.above
        rows = scorer.unsure(margins, fired)
        if rows is not None:
            exact = dot_table(scorer.weights[rows], np.stack([*self._views[::-1], cumulative]))
            winner = exact.argmax(axis=1)
            margins[rows] = round_margin(exact.max(axis=1) + scorer.biases[rows])
            fired[rows] = margins[rows] > scorer.cutoffs[rows]
            view[rows] = np.where(winner == len(self._views), -1, len(self._views) - 1 - winner)
        return TurnScores(margins, view, fired)
