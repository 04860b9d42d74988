"""One query against N artifacts: S&Q's arrays beside semantic-router's local index, N routes × 20 utterances of 384.

semantic-router is no dependency (it pins an older `openai` than ours): install it into a virtual environment of its own
and run this file there, numpy is all else it needs. Both get the query's vector for nothing; encoding is not in the
figures. Prints, asserts nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.fit import unit_rows
from bench.scoring import DIMENSION, SIZES, median_us
from sq_core.turn_scorer import TurnScorer

UTTERANCES = 20


def main() -> None:
    rng = np.random.default_rng(0)
    theirs = semantic_router()
    if theirs is None:
        print("semantic-router: skipped (1.1 or newer is not installed; `python -m venv V && V/bin/pip install "
              "semantic-router && V/bin/python -m bench.router` prints it)")  # fmt: skip
    print(f"{'artifacts':>9} {'S&Q, 1 view µs':>15} {'S&Q, 9 views µs':>16} {'semantic-router, 1 query µs':>28}")
    for n in SIZES:
        score = TurnScorer(unit_rows(rng, n, DIMENSION) * 2, rng.normal(size=n), 0.5)
        views = unit_rows(rng, 9, DIMENSION)
        one, nine = median_us(lambda: score(views[:1])), median_us(lambda: score(views))  # noqa: B023
        query = None if theirs is None else median_us(theirs(n, rng), runs=5)
        print(f"{n:9,} {one:15.1f} {nine:16.1f} {'-' if query is None else format(query, '28,.0f')}")


def semantic_router() -> Callable[[int, np.random.Generator], Callable[[], object]] | None:
    """How to make its query function for N routes, or None where it is not installed."""
    if importlib.util.find_spec("semantic_router") is None:
        return None
    try:
        from semantic_router import IndexedRouter, Route
        from semantic_router.encoders import DenseEncoder
    except ImportError:
        return None

    class Given(DenseEncoder):  # type: ignore[misc, no-any-unimported]
        """Random unit vectors, made beforehand: encoding costs a look-up."""

        vectors: dict[str, list[float]]

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            return [self.vectors[doc] for doc in docs]

        async def acall(self, docs: list[Any]) -> list[list[float]]:
            return self(docs)

    def make(n: int, rng: np.random.Generator) -> Callable[[], object]:
        texts = [[f"{route} {utterance}" for utterance in range(UTTERANCES)] for route in range(n)]
        rows = unit_rows(rng, n * UTTERANCES + 1, DIMENSION)
        known = dict(zip((text for each in texts for text in each), rows.tolist(), strict=False))
        encoder = Given(name="given", vectors=known | {"query": rows[-1].tolist()})
        router = IndexedRouter(encoder, [Route(name=str(i), utterances=each) for i, each in enumerate(texts)])
        return lambda: router("query")

    return make


if __name__ == "__main__":
    main()
