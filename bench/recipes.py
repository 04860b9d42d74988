"""Which recipe for exemplars from real conversations: held-out figures, choice by inner cross-validation, intervals.

For every set below BENCH_DATA and both label readings: each named recipe on five half splits, θ swept on the held-out
half (the paper's P@R90) and θ from the mining half with the recall it realised; the recipe that cross-validation on the
mining half alone would have chosen, split by split (nested); and the paired difference to the paper's recipe with its
scenario-clustered interval. ``--over-splits`` prints the mean difference over the five splits with one interval a set, and what
choosing the sticky rule anew in every mining half would give. Nothing is asserted.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench.sets import folders, load, shown
from sq_core.encoders import get_encoder
from sq_core.evaluation.calibration import scenario_draws
from sq_core.evaluation.data import Bools, EvaluationSet, Floats, Labels
from sq_core.evaluation.metrics import Sweep, auprc, precision_at_recall
from sq_core.evaluation.protocols import mined
from sq_core.evaluation.recipes import RECIPES, Recipe, cross_fitted, fitted_scores
from sq_core.evaluation.resampling import Difference, paired_statistics
from sq_core.evaluation.rows import SEEDS, TARGET
from sq_core.evaluation.splits import split_half

CANDIDATES = ("sq-mined-paper", "sq-mined-balanced", "sq-mined-transition", "sq-mined-states")


# Rules with the pooling `both` that a sticky rubric may be given, beside the named ones.
STICKY: Mapping[str, Recipe] = {
    **{name: RECIPES[name] for name in CANDIDATES[:3]},
    "transition, unweighted": Recipe("mined", "mined", "transition"),
    "wide, unweighted": Recipe("mined", "mined", "transition-wide"),
    "wide, balanced, C 0.3": Recipe("mined", "mined", "transition-wide", "balanced", C=0.3),
    "wide, balanced, C 3": Recipe("mined", "mined", "transition-wide", "balanced", C=3.0),
}


def precision(sweep: Sweep, weights: Floats | None = None) -> float | None:
    found = precision_at_recall(sweep.curve(weights), TARGET)
    return None if found is None else found.precision


def area(sweep: Sweep, weights: Floats | None = None) -> float | None:
    return auprc(sweep.curve(weights))


def criterion(sweep: Sweep) -> float:
    """What the inner choice goes by: P@R90 + AUPRC, both targets of the default."""
    return (precision(sweep) or 0.0) + (area(sweep) or 0.0)


def swept(data: EvaluationSet, scores: Floats, states: Bools, columns: Bools) -> Sweep:
    relevant = data.relevant[states][:, columns]
    kept = relevant.any(axis=0) & np.isfinite(scores[states][:, columns]).all(axis=0)
    judged = data.judged[states][:, columns][:, kept]
    return Sweep(scores[states][:, columns][:, kept], relevant[:, kept], judged)


def compare(data: EvaluationSet) -> None:
    """Per split: inner and outer figures of every candidate, the nested choice, and paired differences."""
    inner: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    chosen: list[tuple[str, float | None, float | None]] = []
    pooled: Mapping[tuple[str, str], list[Difference]] = {}
    differences: dict[tuple[str, str], list[Difference]] = dict(pooled)
    for seed in SEEDS:
        split = split_half(data, seed)
        columns = split.minable(3)
        outer = {}
        for name in CANDIDATES:
            own, inside = cross_fitted(data, split.mining_scenarios, RECIPES[name], columns)
            inner[name].append(criterion(swept(data, own, inside, columns)))
            outer[name] = swept(data, fitted_scores(data, split, RECIPES[name], columns), split.held_out, columns)
        best = max(CANDIDATES, key=lambda name: inner[name][-1])
        chosen.append((best, precision(outer[best]), area(outer[best])))
        scenarios = [name for name, out in zip(data.scenario, split.held_out, strict=True) if out]
        for name in CANDIDATES[1:]:
            for what, figure in (("P@R90", precision), ("AUPRC", area)):
                found = paired_statistics(
                    partial(figure, outer[name]), partial(figure, outer["sq-mined-paper"]), scenarios
                )
                if found is not None:
                    differences.setdefault((name, what), []).append(found)
    print("inner criterion (P@R90 + AUPRC, cross-validated on the mining half):")
    for name, values in inner.items():
        print(f"  {name:22} {np.mean(values):.3f} (sd {np.std(values):.3f})")
    print("nested choice per split:", ", ".join(name for name, _, _ in chosen))
    print("nested figures:", ", ".join(f"{shown(p)} / {shown(a)}" for _, p, a in chosen))
    known = [(p, a) for _, p, a in chosen if p is not None and a is not None]
    print(f"nested mean: {np.mean([p for p, _ in known]):.3f} / {np.mean([a for _, a in known]):.3f}")
    print("difference to sq-mined-paper, split by split with 95 % interval over its scenarios (AUPRC: sign-flip p):")
    for (name, what), each in differences.items():
        texts = [
            f"{d.estimate:+.3f} [{d.low:+.3f}, {d.high:+.3f}] " + (f" p {shown(d.p, 2)}" if what == "AUPRC" else "")
            for d in each
        ]
        print(f"  {name:22} {what:6} mean {np.mean([d.estimate for d in each]):+.3f}: {'; '.join(texts)}")


def over_splits(data: EvaluationSet, labels: Labels) -> None:
    """Per rule: P@R90 and AUPRC as means over the splits, and their difference to the paper's recipe with one interval: all
    scenarios resampled together, each split's figure computed on its held-out half of the draw (what was fitted stays).
    """
    rules = STICKY if labels == "running-max" else {name: RECIPES[name] for name in CANDIDATES}
    splits = [split_half(data, seed) for seed in SEEDS]
    held_out = [split.held_out for split in splits]
    sweeps: dict[str, list[Sweep]] = {name: [] for name in rules}
    chosen: dict[str, list[str]] = {"nested by P@R90": [], "nested by P@R90 + AUPRC": []}
    for split in splits:
        columns = split.minable(3)
        inner = {}
        for name, rule in rules.items():
            own, inside = cross_fitted(data, split.mining_scenarios, rule, columns)
            inner[name] = swept(data, own, inside, columns)
            sweeps[name].append(swept(data, fitted_scores(data, split, rule, columns), split.held_out, columns))
        for rule_of_choice, by in zip(chosen, (lambda sweep: precision(sweep) or 0.0, criterion), strict=True):
            chosen[rule_of_choice].append(max(inner, key=lambda name: by(inner[name])))
    for rule_of_choice, names in chosen.items():
        sweeps[rule_of_choice] = [sweeps[name][number] for number, name in enumerate(names)]
        print(f"  {rule_of_choice}: {'; '.join(names)}")
    print("mean over the splits; difference to sq-mined-paper with its 95 % interval over all scenarios:")
    weights = np.concatenate((np.ones((1, len(data.scenario))), scenario_draws(data.scenario)))
    found = {name: over(each, held_out, weights) for name, each in sweeps.items()}
    for name, figures in found.items():
        cells = []
        for number, what in enumerate(("P@R90", "AUPRC")):
            gain = figures[:, number] - found["sq-mined-paper"][:, number]
            low, high = np.nanquantile(gain[1:], [0.025, 0.975])
            cells.append(f"{what} {shown(figures[0, number])} {gain[0]:+.3f} [{low:+.3f}, {high:+.3f}]")
        print(f"  {name:24} {'   '.join(cells)}", flush=True)


def over(sweeps: Sequence[Sweep], held_out: Sequence[Bools], weights: Floats) -> Floats:
    """(W, 2) P@R90 and AUPRC as means over the splits, under each row of state weights (W, S); NaN where one is not reached."""
    result = np.empty((len(weights), 2))
    for number, row in enumerate(weights):
        curves = [sweep.curve(row[out]) for sweep, out in zip(sweeps, held_out, strict=True)]
        points = [precision_at_recall(curve, TARGET) for curve in curves]
        result[number] = (
            np.mean([np.nan if point is None else point.precision for point in points]),
            np.mean([auprc(curve) for curve in curves]),
        )
    return result


def table(data: EvaluationSet, labels: Labels) -> None:
    rows: list[dict[str, Any]] = mined(data, labels=labels, cut_offs=True)
    names = ("precision_at_r90", "sd", "auprc", "kept", "mining_recall", "mining_precision", "mining_kept")
    print(f"{'method':25} " + " ".join(f"{name.replace('precision_at_r90', 'P@R90'):>16}" for name in names))
    for row in rows:
        if row["world"] == "fitted":
            print(f"{row['method']:25} " + " ".join(f"{shown(row.get(name)):>16}" for name in names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--labels", choices=["as-judged", "running-max"], nargs="*", default=["as-judged", "running-max"]
    )
    parser.add_argument("--only", help="part of a set's path")
    parser.add_argument("--over-splits", action="store_true", help="one interval a set, and the sticky rules")
    arguments = parser.parse_args()
    found = [each for each in folders() if not arguments.only or arguments.only in str(each)]
    if not found:
        print("recipes: skipped (BENCH_DATA names no judged set)")
        return
    encoder = get_encoder("minilm")
    for folder in found:
        data = load(folder, encoder)
        for labels in arguments.labels:
            print(f"\n{folder.parent.name}/{folder.name}, labels {labels}: {len(data.table)} states, "
                  f"{len(set(data.scenario))} scenarios, {len(data.artifacts)} artifacts")  # fmt: skip
            if arguments.over_splits:
                over_splits(data.with_labels(labels), labels)
                continue
            table(data, labels)
            compare(data.with_labels(labels))


if __name__ == "__main__":
    main()
