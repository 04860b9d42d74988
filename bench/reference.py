"""Both protocols on a judged set of JSON lines, beside an independent reference run.

BENCH_DATA names a folder with policies, exemplars_generated, conversations and judgements (.jsonl); without it nothing
is run. Vectors of the local encoder are kept in var/. `--labels running-max` prints the tables for sticky labels.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.sets import folders, load, shown
from sq_core.encoders import get_encoder
from sq_core.evaluation.data import Labels
from sq_core.evaluation.protocols import larger_k, mined, operating_point

# P@R90 and AUPRC of an independent run on the airline set, encoder minilm (docs/benchmarks.md says more).
REFERENCE = {
    "operating-point": {
        "cosine-text": (0.169, 0.283),
        "cosine-signals": (0.171, 0.274),
        "sq-generated": (0.164, 0.262),
    },
    "mined": {
        "sq-generated": (0.188, 0.277),
        "sq-mined-paper": (0.297, 0.316),
        "sq-mined-balanced": (0.317, 0.344),
        "sq-mined-positives-only": (0.166, 0.161),
        "sq-mixed": (0.303, 0.377),
        "cosine-signals": (0.199, 0.297),
        "cosine-signals-mined": (0.204, 0.308),
    },
}


def print_rows(title: str, rows: Sequence[dict[str, Any]], reference: dict[str, tuple[float, float]]) -> None:
    print(f"\n{title}")
    print(
        f"{'method':25} {'world':24} {'P@R90':>6} {'sd':>6} {'recall':>6} {'AUPRC':>6} {'kept':>6} {'cover':>6}  reference"
    )
    for row in rows:
        known = reference.get(row["method"]) if row["world"] == "fitted" else None
        names = ("precision_at_r90", "sd", "recall", "auprc", "kept", "coverage")
        figures = " ".join(f"{shown(row.get(name)):>6}" for name in names)
        held = f"  {known[0]:.3f} / {known[1]:.3f}" if known else ""
        extra = f"  K = {row['k']}, precision {row['precision']:.3f}" if "k" in row else ""
        print(f"{row['method']:25} {row['world']:24} {figures}{held}{extra}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", choices=["as-judged", "running-max"], default="as-judged")
    labels = parser.parse_args().labels
    sets = [each for each in folders() if (each / "exemplars_generated.jsonl").exists()]
    if not sets:
        print("reference tables: skipped (BENCH_DATA names no judged set with generated exemplars)")
    for folder in sets:
        print_tables(folder, labels)


def print_tables(folder: Path, labels: Labels) -> None:
    data = load(folder, get_encoder("minilm"))
    reference = REFERENCE if folder.name == "airline" and labels == "as-judged" else {}
    print_rows("operating-point", operating_point(data, labels=labels), reference.get("operating-point", {}))
    print_rows("larger K, printed apart", larger_k(data, labels=labels), {})
    print_rows("mined, mean of five half splits", mined(data, labels=labels), reference.get("mined", {}))


if __name__ == "__main__":
    main()
