"""Median time of scoring one turn as arrays, beside the bare float32 product of the same run. Prints, asserts nothing."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.fit import unit_rows
from sq_core.bundle import Artifact, Bundle, OperatingPoint, load_bundle
from sq_core.classifier import Classifier
from sq_core.embedding import make_centre
from sq_core.scoring import Pooling, Views, margins
from sq_core.session import ConversationVectors
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
    """Loading, memory and scoring of a bundle of ``n`` artifacts with texts of 360 characters, without exemplars."""
    weights, views = unit_rows(rng, n, DIMENSION) * 2, unit_rows(rng, VIEWS, DIMENSION)
    text = "When the customer asks for this, check that and say so. ".ljust(60) * 6
    artifacts = [
        Artifact(f"policy-about-{i}", f"Policy about {i}", text, classifier=Classifier(row, 0.0), version=1)
        for i, row in enumerate(weights)
    ]
    centre = make_centre(unit_rows(rng, 8, DIMENSION))
    point = OperatingPoint(theta=1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sqb"
        Bundle(encoder_id="bench", centre=centre, operating_point=point, artifacts=artifacts).save(path)
        load_bundle(path)  # the modules are imported once
        load = median_us(lambda: load_bundle(path), runs=7) / 1000
        tracemalloc.start()
        bundle = load_bundle(path)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        scorer = bundle.turn_scorer()
        bare, arrays = median_us(lambda: weights @ views.T), median_us(lambda: scorer(views))
        state = ConversationVectors(views[:1], views)
        decided = median_us(lambda: bundle.outcomes(state), runs=5) / 1000
        decider, found = bundle._decider, bundle._decider.replay(state, point)
        fired = median_us(lambda: decider.outcomes(found, 0, everything=False), runs=5) / 1000
        print(
            f"bundle of {n:,}: file {path.stat().st_size / 1e6:.1f} MB, weights {weights.nbytes / 1e6:.1f} MB; loads in "
            f"{load:.0f} ms; memory {(weights.nbytes + held) / weights.nbytes:.2f} × the weights (mapped, and {held / 1e6:.1f} "
            f"MB beside them)\n  a turn as arrays {arrays:.0f} µs = {arrays / bare:.2f} × the product; result objects of "
            f"all {decided:.0f} ms, of the {len(decider.outcomes(found, 0, everything=False))} that fire {fired:.1f} ms"
        )


if __name__ == "__main__":
    main()
