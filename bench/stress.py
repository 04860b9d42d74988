"""Pooling stress (Table 4) on stitched conversations of held-out scenarios, per cumulative mode, recipe and pooling.

Per half split the classifiers come from the mining half and the pairs from the other; recalls are means over splits.
Every mode embeds its own prefixes, for the recipes' exemplars too. Nothing is asserted.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.sets import CACHE, embed, folders, load, prefix_texts, read_lines, shown
from sq_core.cumulative import MODES, CumulativeMode
from sq_core.embedding import Encoder, centre_and_normalise, make_centre
from sq_core.encoders import get_encoder
from sq_core.evaluation.data import EvaluationSet
from sq_core.evaluation.extras import Extras
from sq_core.evaluation.pooling_stress import RATES, pooling_stress
from sq_core.evaluation.protocols import mined
from sq_core.evaluation.recipes import RECIPES, recipe_exemplars, recipe_scorer
from sq_core.evaluation.splits import split_half
from sq_core.scoring import PRESETS

SHOWN = ("sq-mined-paper", "sq-mined-transition", "sq-mined-states")
POOLINGS = {
    name: PRESETS[name] for name in ("both", "max-over-turns", "cumulative", "mean-latest", "cumulative+latest")
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cap", type=int, default=60, help="stitched pairs a split")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES)
    arguments = parser.parse_args()
    sets = [each for each in folders() if (each / "exemplars_generated.jsonl").exists()]
    if not sets:
        print("pooling stress: skipped (BENCH_DATA names no judged set with generated exemplars)")
    for folder in sets:
        for mode in arguments.modes:
            print_mode(folder, mode, arguments.cap, arguments.splits)


def print_mode(folder: Path, mode: CumulativeMode, cap: int, splits: int) -> None:
    encoder = get_encoder("minilm", cumulative=mode)
    data = load(folder, encoder)
    windowed = get_encoder("minilm")  # says what is longer than one window, in every mode
    texts = prefix_texts(folder, encoder)
    cut = np.mean(windowed.overflows(texts))
    last = np.mean(windowed.overflows([texts[end - 1] for _, end in data.conversations()]))
    print(f"\n{folder.name}, mode {mode}: {shown(cut)} of all prefixes and {shown(last)} of the final ones overflow")
    for row in mined(data, methods=SHOWN):
        if row["world"] == "fitted" and row["method"] in SHOWN:
            figures = [shown(row[key]) for key in ("precision_at_r90", "sd", "auprc", "kept")]
            print("  {:22} P@R90 {} (sd {}), AUPRC {}, kept {}".format(row["method"], *figures))
    print_stress(folder, data, encoder, windowed, cap, splits)


def print_stress(folder: Path, data: EvaluationSet, encoder: Encoder, windowed: Encoder, cap: int, splits: int) -> None:
    cache = CACHE / "stress.npz"
    policies = [row["text"] for row in read_lines(folder / "policies.jsonl")]
    raw = embed(encoder, policies, cache)
    centre = make_centre(np.stack([raw[text] for text in policies]))

    def centred(texts: Sequence[str]) -> NDArray[np.float32]:
        raw = embed(encoder, texts, cache)
        return centre_and_normalise(np.stack([raw[text] for text in texts]), centre)

    extras = Extras(
        prefix_texts=prefix_texts(folder, encoder),
        embed={"": centred},
        overflows=lambda texts: windowed.overflows(list(texts)),
    )
    found: dict[tuple[str, str, float], list[dict[str, float]]] = {}
    for seed in range(splits):
        split = split_half(data, seed)
        out = frozenset(data.scenario) - split.mining_scenarios
        columns = split.minable(3)
        for name in SHOWN:
            own = [recipe_exemplars(data, split, RECIPES[name], j) if columns[j] else None for j in range(len(columns))]
            scorer = recipe_scorer(RECIPES[name], own)
            for row in pooling_stress(
                data, extras=extras, cap=cap, scorer=scorer, poolings=POOLINGS, scenarios=out, seed=seed
            ):
                found.setdefault((name, row["method"], row["false_positive_rate"]), []).append(row)
    print(f"  stitched: {splits} splits, {cap} pairs each; recall of B's / of those unique to B / of those open in A")
    for (name, pooling, rate), rows in found.items():
        figures = [np.mean([row[key] for row in rows]) for key in ("recall", "recall_unique", "recall_open")]
        own_pooling = "  <- its own" if RECIPES[name].pooling == POOLINGS[pooling] else ""
        if rate in RATES:
            print(f"  {name:22} {pooling:18} fpr {rate:.2f}  " + " / ".join(map(shown, figures)) + own_pooling)
    for name in SHOWN:
        rows = found[name, "both", RATES[0]]
        cut, drop = (np.mean([row[key] for row in rows]) for key in ("cut", "drop"))
        print(f"  {name:22} stitched prefixes cut {shown(cut)}, mean drop of B's cumulative margins {shown(drop)}")


if __name__ == "__main__":
    main()
