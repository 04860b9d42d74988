"""Every table of the registry on the judged sets; without generated exemplars those that mined ones suffice for.

Prints; `--only` names protocols.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from typing import Any

from bench.sets import folders, load, shown
from sq_core.encoders import get_encoder
from sq_core.evaluation.calibrated import MINED, compared
from sq_core.evaluation.data import EvaluationSet
from sq_core.evaluation.extras import Extras
from sq_core.evaluation.operating_points import reliability
from sq_core.evaluation.registry import PROTOCOLS
from sq_core.evaluation.splits import half_of

# Printed by benches of their own: bench.reference, bench.stress.
ELSEWHERE = {"operating-point", "mined", "pooling-stress"}
# What a set without generated anti-signals has too.
FROM_LOGS = {"promise", "calibrated", "coverage-meter"}
SHAPES = ("artifact", "block", "anti_signals", "pass_mark", "at_recall", "property", "choice", "rule")


def cell(value: object) -> str:
    if isinstance(value, float):
        return shown(value)
    if isinstance(value, list):
        return "[" + " ".join(map(cell, value)) + "]"
    return str(value)


def print_rows(name: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{name}")
    for row in rows:
        head = " ".join(str(row[key]) for key in SHAPES if row.get(key) is not None)
        rest = {k: v for k, v in row.items() if k not in ("method", "world", *SHAPES) and v is not None}
        print(f"  {row['method']:24} {head:30} " + ", ".join(f"{k} {cell(v)}" for k, v in rest.items()))


def print_reliability(data: EvaluationSet) -> None:
    """Do the margins of our default mean what they say as probabilities?"""
    used, tables = compared(data, "as-judged")
    if MINED in tables:
        fit = reliability(tables[MINED], used.relevant, used.judged)
        print(f"\nreliability of {MINED} (balanced weights: probabilities of a balanced prior): error {fit.error:.3f}, "
              f"brier {fit.brier:.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[name for name in PROTOCOLS if name not in ELSEWHERE])
    parser.add_argument("--labels", choices=["as-judged", "running-max"], default="as-judged")
    arguments = parser.parse_args()
    if not folders():
        print("tables: skipped (BENCH_DATA names no judged set)")
    for folder in folders():
        made = (folder / "exemplars_generated.jsonl").exists()
        names = [name for name in arguments.only if made or name in FROM_LOGS]
        encoder = get_encoder("minilm")
        data, extras = load(folder, encoder), Extras(uncentred=load(folder, encoder, centred=False))
        mining, scenarios = len(half_of(data.scenario, 0)), len(set(data.scenario))
        where = f"{folder.parent.name}/{folder.name}"
        print(f"\n=== {where}: {len(data.table)} states, {mining} mining scenarios of {scenarios}")
        for name in names:
            print_rows(name, PROTOCOLS[name](data, labels=arguments.labels, extras=extras))
        print_reliability(data)


if __name__ == "__main__":
    main()
