"""Median time of scoring one turn as arrays, beside the bare float32 product of the same run. Prints, asserts nothing."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.fit import unit_rows
from sq_core.bundle import Artifact, Bundle, OperatingPoint, load_bundle
from sq_core.classifier import Classifier
from sq_core.embedding import make_centre
from sq_core.scoring import Pooling, Views, margins
from sq_core.turn_scorer import RunningScores, TurnScorer

VIEWS, DIMENSION = 9, 384
SIZES = (36, 1_000, 10_000)


def median_us(action: Callable[[], object], seconds: float = 0.3, runs: int = 7) -> float:
    """Median over runs of the mean time of one call."""
    start = time.perf_counter()
    action()
    repeats = max(1, int(seconds / runs / max(time.perf_counter() - start, 1e-7)))
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(repeats):
            action()
        times.append((time.perf_counter() - start) / repeats)
    return statistics.median(times) * 1e6


def main() -> None:
    rng = np.random.default_rng(0)
    views = unit_rows(rng, VIEWS, DIMENSION)
    print(f"{'artifacts':>9} {'product µs':>10} {'arrays µs':>10} {'ratio':>6} {'session µs':>10} {'exact µs':>10}")
    for n in SIZES:
        weights = unit_rows(rng, n, DIMENSION) * 2
        biases = rng.normal(size=n)
        scorer = TurnScorer(weights, biases, 0.5)
        state = Views.of_turns(views)
        bare = median_us(lambda: weights @ views.T)  # noqa: B023
        arrays = median_us(lambda: scorer(views))  # noqa: B023
        running = RunningScores(scorer)
        for view in views[:-1]:
            running.add(view, view)
        session = median_us(lambda: running.add(views[0], views[1]), runs=5)  # noqa: B023
        exact = median_us(lambda: margins(weights, biases, state, Pooling(cumulative=False)))  # noqa: B023
        print(f"{n:9,} {bare:10.1f} {arrays:10.1f} {arrays / bare:6.2f} {session:10.1f} {exact:10.1f}")
    print_bundle(rng)


def print_bundle(rng: np.random.Generator, n: int = 10_000) -> None:
    """Loading time and size of a bundle of ``n`` artifacts without exemplars."""
    weights = unit_rows(rng, n, DIMENSION)
    artifacts = [
        Artifact(f"a{i}", f"A{i}", "text", classifier=Classifier(row, 0.0), version=1) for i, row in enumerate(weights)
    ]
    centre = make_centre(unit_rows(rng, 8, DIMENSION))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sqb"
        Bundle(encoder_id="bench", centre=centre, operating_point=OperatingPoint(), artifacts=artifacts).save(path)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            load_bundle(path)
            times.append(time.perf_counter() - start)
        size = path.stat().st_size / weights.nbytes
        print(
            f"bundle of {n:,}: loads in {statistics.median(times) * 1e3:.0f} ms, {size:.2f} × the bytes of its weights"
        )


if __name__ == "__main__":
    main()
