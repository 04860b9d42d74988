"""All benchmarks one after the other: `python -m bench`, with judged sets from BENCH_DATA."""

from __future__ import annotations

import os
import subprocess
import sys

from bench import (
    fit,
    mining,
    mining_log,
    promote,
    recentre,
    recipes,
    reference,
    review,
    router,
    runs,
    scoring,
    setfit,
    stress,
    tables,
    traces,
)


def main() -> None:
    sys.argv = sys.argv[:1]
    environment = dict(os.environ)  # as it was given: other benchmarks put a database of their own into theirs
    for module in (
        fit,
        scoring,
        router,
        mining,
        mining_log,
        promote,
        review,
        runs,
        reference,
        recipes,
        stress,
        recentre,
        tables,
        setfit,
        traces,
    ):
        print(f"\n##### {module.__name__}", flush=True)
        module.main()
    print("\n##### bench.pages", flush=True)
    subprocess.run([sys.executable, "-m", "bench.pages"], env=environment, check=True)


if __name__ == "__main__":
    main()
