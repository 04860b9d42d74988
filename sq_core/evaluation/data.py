"""What a protocol reads: one inventory's query states, their scores by one judge, and the exemplars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sq_core.mining import RELEVANT
from sq_core.scoring import ViewTable

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Row = dict[str, Any]
Labels = Literal["as-judged", "running-max"]
World = Literal["fitted", "with-generated-fallback", "unfitted-is-miss"]
WORLDS: tuple[World, ...] = ("fitted", "with-generated-fallback", "unfitted-is-miss")


class LeakageError(AssertionError):
    """An exemplar's scenario is among the states it would be measured on."""


class EvaluationError(ValueError):
    """Parts of an evaluation set that do not belong together."""


@dataclass(frozen=True, slots=True, eq=False)
class Exemplars:
    """One artifact's exemplar vectors: signals (n₊, d), anti_signals (n₋, d), and how much each counts (n₊ + n₋,).

    Rows are centred unit vectors, or means of them; without ``weights`` all count the same.
    """

    signals: NDArray[np.floating]
    anti_signals: NDArray[np.floating]
    weights: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSet:
    """Everything a protocol reads. S states, U user turns, N artifacts; all vectors centred unit rows.

    table: the views of all states. scores (S, N): 1..5 by one judge version, 0 where it has not judged the pair, which
    then counts nowhere. scenario: one per state. artifacts: N keys. text_vectors (N, d). generated: N exemplar sets,
    None for an artifact without. turn_texts: the U user messages in the order of ``table.turns``.
    """

    table: ViewTable
    scores: NDArray[np.integer]
    scenario: tuple[str, ...]
    artifacts: tuple[str, ...]
    text_vectors: NDArray[np.floating]
    generated: tuple[Exemplars | None, ...]
    turn_texts: tuple[str, ...]

    def __post_init__(self) -> None:
        states, artifacts = self.scores.shape
        if not len(self.table) == states == len(self.scenario) or len(self.table.turns) != len(self.turn_texts):
            raise EvaluationError(
                f"{len(self.table)} states, {states} rows of scores, {len(self.scenario)} scenarios; "
                f"{len(self.table.turns)} turns, {len(self.turn_texts)} texts; expected one each"
            )
        if not artifacts == len(self.artifacts) == len(self.text_vectors) == len(self.generated):
            raise EvaluationError(
                f"{artifacts} columns of scores, {len(self.artifacts)} artifacts, {len(self.text_vectors)} text "
                f"vectors, {len(self.generated)} exemplar sets; expected one each"
            )

    @property
    def relevant(self) -> Bools:
        return self.scores >= RELEVANT

    @property
    def judged(self) -> Bools:
        return self.scores > 0

    def with_labels(self, labels: Labels) -> EvaluationSet:
        """The same set under ``running-max``: every score is the highest so far in its conversation."""
        if labels == "as-judged":
            return self
        if labels != "running-max":
            raise EvaluationError(f"labels is {labels!r}; expected as-judged or running-max")
        scores = self.scores.copy()
        for start, end in self.conversations():
            highest = np.maximum.accumulate(self.scores[start:end], axis=0)
            scores[start:end] = np.where(self.scores[start:end] > 0, highest, 0)
        return replace(self, scores=scores)

    def with_artifacts(self, columns: Bools) -> EvaluationSet:
        """The same set with the chosen artifacts (N,) alone."""
        places = np.flatnonzero(columns).tolist()
        return replace(
            self,
            scores=self.scores[:, columns],
            artifacts=tuple(self.artifacts[j] for j in places),
            text_vectors=self.text_vectors[columns],
            generated=tuple(self.generated[j] for j in places),
        )

    def conversations(self) -> list[tuple[int, int]]:
        """The half-open ranges of states that make one conversation each."""
        starts = np.flatnonzero(np.diff(self.table.state_conversation, prepend=-1)).tolist()
        return list(zip(starts, [*starts[1:], len(self.table)], strict=True))
