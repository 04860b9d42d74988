"""Median time of one fit, beside scikit-learn's solvers on the same exemplars. Prints; asserts nothing about time."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sq_core import fit_classifier
from sq_core.embedding import centre_and_normalise, make_centre

SHAPES = [
    (10, 10, 384),
    (10, 40, 384),
    (10, 10, 1536),
    (10, 10, 3072),
    (50, 50, 3072),
    (100, 200, 384),
    (500, 1500, 384),
]


def unit_rows(rng: np.random.Generator, n: int, d: int) -> NDArray[np.float32]:
    rows = rng.normal(size=(n, d)) + np.sin(np.arange(d))
    unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def median_ms(action: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        print("scikit-learn is not installed: its columns are skipped")
        LogisticRegression = None
    rng = np.random.default_rng(0)
    print(f"{'signals':>8} {'anti':>6} {'d':>6} {'ours ms':>9} {'lbfgs ms':>9} {'max |Δw|':>10}")
    for positive, negative, dimension in SHAPES:
        signals, near = unit_rows(rng, positive, dimension), unit_rows(rng, negative, dimension)
        repeats = 200 if positive + negative < 100 else 5
        fit = fit_classifier(signals, near, 1.0, "balanced")
        ours = median_ms(partial(fit_classifier, signals, near, 1.0, "balanced"), repeats)
        line = f"{positive:8d} {negative:6d} {dimension:6d} {ours:9.2f}"
        if LogisticRegression is not None:
            rows = np.concatenate((signals, near)).astype(np.float64)
            labels = np.repeat([1, 0], [positive, negative])
            theirs = LogisticRegression(C=1.0, class_weight="balanced", tol=1e-10, max_iter=5000)
            lbfgs = median_ms(partial(theirs.fit, rows, labels), min(repeats, 20))
            line += f" {lbfgs:9.2f} {np.abs(theirs.coef_[0] - fit.weights).max():10.1e}"
        print(line)
    print_inventories(rng)


def print_inventories(rng: np.random.Generator) -> None:
    """A whole inventory of 20 × 384: the sample's 36, and 10,000 around a new centre."""
    raw = unit_rows(rng, 20 * 36, 384)
    sets = np.split(raw, 36)
    whole = median_ms(lambda: [fit_classifier(each[:10], each[10:], 1.0, "balanced") for each in sets], 20)
    centre = make_centre(raw[::20])

    def recentred() -> None:
        for _ in range(0, 10_000, len(sets)):
            for each in sets:
                rows = centre_and_normalise(each, centre)
                fit_classifier(rows[:10], rows[10:], 1.0, "balanced")

    print(f"all 36 of 20 × 384: {whole:.1f} ms; 10,000 centred anew and fitted: {median_ms(recentred, 1) / 1000:.1f} s")


if __name__ == "__main__":
    main()
