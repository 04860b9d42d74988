"""What some protocols read beside the evaluation set; each says what it does without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.data import EvaluationError, EvaluationSet

Embed = Callable[[Sequence[str]], NDArray[np.floating]]
"""Texts → centred unit vectors (n, d)."""


@dataclass(frozen=True, slots=True, eq=False)
class Extras:
    """prefix_texts: the rendered prefix of every state. embed: how to embed new texts, by cumulative mode (``tail``,
    ``whole``). overflows: which texts the encoder cuts. uncentred: the same set without centring. anti_signal_pools:
    per artifact a larger pool (n, d), the fitted ten first. artifact_tokens (N,): length of each artifact's text.
    judge_prompts: one judge prompt per artifact on a prefix of median length. count_tokens: a text's length for the
    model that judges.
    """

    prefix_texts: tuple[str, ...] = ()
    embed: Mapping[str, Embed] = field(default_factory=dict)
    overflows: Callable[[Sequence[str]], Sequence[bool]] | None = None
    uncentred: EvaluationSet | None = None
    anti_signal_pools: tuple[NDArray[np.floating] | None, ...] = ()
    artifact_tokens: NDArray[np.integer] | None = None
    judge_prompts: tuple[str, ...] = ()
    count_tokens: Callable[[str], int] | None = None

    def require(self, name: str, protocol: str) -> None:
        """Raises EvaluationError naming the missing part."""
        value = getattr(self, name)
        if value is None or (hasattr(value, "__len__") and len(value) == 0):
            raise EvaluationError(f"{protocol} needs Extras.{name}, which was not given")


NOTHING = Extras()
