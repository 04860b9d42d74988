"""Every table of the registry on the judged sets with generated exemplars. Prints; `--only` names protocols."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from typing import Any

import numpy as np

from bench.sets import folders, load, shown
from sq_core.encoders import get_encoder
from sq_core.evaluation.data import EvaluationSet
from sq_core.evaluation.extras import Extras
from sq_core.evaluation.operating_points import realised_recall, reliability, side_by_side
from sq_core.evaluation.recipes import RECIPES, cross_fitted
from sq_core.evaluation.registry import PROTOCOLS
from sq_core.evaluation.splits import half_of

# Printed by benches of their own: bench.reference, bench.stress.
ELSEWHERE = {"operating-point", "mined", "pooling-stress"}
SHAPES = ("artifact", "block", "anti_signals", "pass_mark", "at_recall", "property")


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


def print_operating_points(data: EvaluationSet) -> None:
    """θ of the default recipe on cross-fitted scores: side by side, realised recall, reliability."""
    recipe, everyone = RECIPES["sq-mined-states"], frozenset(data.scenario)
    scores, _ = cross_fitted(data, everyone, recipe, np.ones(len(data.artifacts), dtype=bool))
    used = np.isfinite(scores).all(axis=0) & data.relevant.any(axis=0)
    table, relevant = scores[:, used], data.relevant[:, used]
    genres = ["mined"] * int(used.sum())
    print(f"\noperating points of sq-mined-states, cross-fitted, {int(used.sum())} artifacts")
    for row in side_by_side(table, relevant, data.scenario, genres):
        print("  " + ", ".join(f"{k} {cell(v)}" for k, v in row.items()))
    for name, miss_rate in (("macro recall at calibrated θ", None), ("scenario recall at conformal θ", 0.10)):
        found = realised_recall(table, relevant, data.scenario, miss_rate=miss_rate)
        print(f"  {name}: mean {found.mean:.3f}, lowest {found.low:.3f}, tolerance {found.tolerance:.3f}, "
              f"{found.splits} splits, holds: {found.holds}")  # fmt: skip
    fit = reliability(table, relevant)
    print(
        f"  reliability: error {fit.error:.3f}, brier {fit.brier:.3f} (balanced weights: probabilities of a balanced prior)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[name for name in PROTOCOLS if name not in ELSEWHERE])
    arguments = parser.parse_args()
    sets = [each for each in folders() if (each / "exemplars_generated.jsonl").exists()]
    if not sets:
        print("tables: skipped (BENCH_DATA names no judged set with generated exemplars)")
    for folder in sets:
        data = load(folder, get_encoder("minilm"))
        print(f"\n=== {folder.name}: {len(data.table)} states, {len(set(half_of(data.scenario, 0)))} mining scenarios of "
              f"{len(set(data.scenario))}")  # fmt: skip
        for name in arguments.only:
            print_rows(name, PROTOCOLS[name](data, labels="as-judged", extras=Extras()))
        print_operating_points(data)


if __name__ == "__main__":
    main()
