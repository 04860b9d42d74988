"""Mining a long log: seconds and peak memory for 36 artifacts over 50,000, 100,000 and 200,000 judged user turns.

Synthetic vectors of 384 dimensions; each size in a process of its own, so that its peak memory is its own. The log holds
both views of every turn, as the console's table does. Prints; asserts nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray

from sq_core.mining_arrays import JudgedTurns, hunt_rows, mine_rows, mine_state_rows, near_duplicates

ARTIFACTS, DIMENSION, TURNS_EACH = 36, 384, 8
MOST = 40  # signals kept per artifact, the console's default cap of 200 with four anti-signals each
SIZES = (50_000, 100_000, 200_000)


def synthetic(rng: np.random.Generator, rows: int) -> NDArray[np.float32]:
    """Unit rows around 60 topics, made in pieces."""
    topics = rng.normal(size=(60, DIMENSION)).astype(np.float32)
    vectors = np.empty((rows, DIMENSION), dtype=np.float32)
    for start in range(0, rows, 10_000):
        piece = vectors[start : start + 10_000]
        piece[:] = rng.standard_normal(piece.shape, dtype=np.float32) + topics[rng.integers(0, 60, len(piece))]
        piece /= np.linalg.norm(piece, axis=1, keepdims=True)
    return vectors


def measure(rows: int) -> None:
    rng = np.random.default_rng(7)
    vectors, cumulative = synthetic(rng, rows), synthetic(rng, rows)
    scores = rng.choice(np.array([1, 2, 3, 4, 5], dtype=np.int8), (ARTIFACTS, rows), p=[0.8, 0.08, 0.05, 0.04, 0.03])
    conversation = np.arange(rows) // TURNS_EACH
    text = rng.integers(0, rows, rows)  # about a third of the messages repeat another
    begun = time.perf_counter()
    turns = JudgedTurns.of(conversation, np.arange(rows) % TURNS_EACH, text, vectors)
    times = [time.perf_counter() - begun]
    for recipe in ("paper", "states", "adversarial"):
        begun = time.perf_counter()
        found = 0
        for mine in scores:
            if recipe == "adversarial":
                up, down = vectors[np.flatnonzero(mine >= 4)[:20]], vectors[np.flatnonzero(mine == 1)[:20]]
                chosen = hunt_rows(turns, mine, up, down, budget=160).rows
            else:
                rule = mine_rows if recipe == "paper" else mine_state_rows
                mined = rule(turns, mine, most=MOST)
                chosen = np.concatenate((mined.signals, mined.anti_signals))
            near_duplicates(vectors[chosen])
            found += len(chosen)
        times.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert len(cumulative) == rows
    print(f"{rows:9,d} {ARTIFACTS:10d} {times[0]:8.2f} {times[1]:9.2f} {times[2]:10.2f} {times[3]:13.2f} {peak:10.0f}")


def main() -> None:
    print(
        f"{'turns':>9} {'artifacts':>10} {'log s':>8} {'paper s':>9} {'states s':>10} {'adversarial s':>13} {'peak MiB':>10}"
    )
    sys.stdout.flush()
    for rows in SIZES:
        subprocess.run([sys.executable, "-m", "bench.mining", str(rows)], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        main()
