"""Pooling stress (Table 4) on stitched conversations of held-out scenarios, for the named recipes and poolings.

Per half split the classifiers come from the mining half and the pairs from the other; recalls are means over splits.
Cumulative mode of the encoder in use; nothing is asserted.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.sets import CACHE, embed, folders, load, prefix_texts, shown
from sq_core.embedding import centre_and_normalise, make_centre
from sq_core.encoders import get_encoder
from sq_core.evaluation.extras import Extras
from sq_core.evaluation.pooling_stress import RATES, pooling_stress
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
    arguments = parser.parse_args()
    encoder = get_encoder("minilm")
    for folder in [each for each in folders() if (each / "exemplars_generated.jsonl").exists()]:
        data = load(folder, encoder)
        centre = make_centre(_raw_texts(folder))

        def centred(texts: Sequence[str]) -> NDArray[np.float32]:
            raw = embed(encoder, texts, CACHE / "stress.npz")
            return centre_and_normalise(np.stack([raw[text] for text in texts]), centre)  # noqa: B023

        extras = Extras(
            prefix_texts=prefix_texts(folder),
            embed={"tail": centred},
            overflows=lambda texts: encoder.overflows(list(texts)),
        )
        found: dict[tuple[str, str, float], list[dict[str, float]]] = {}
        for seed in range(arguments.splits):
            split = split_half(data, seed)
            out = frozenset(data.scenario) - split.mining_scenarios
            columns = split.minable(3)
            for name in SHOWN:
                own = [
                    recipe_exemplars(data, split, RECIPES[name], j) if columns[j] else None for j in range(len(columns))
                ]
                scorer = recipe_scorer(RECIPES[name], own)
                for row in pooling_stress(
                    data, extras=extras, cap=arguments.cap, scorer=scorer, poolings=POOLINGS, scenarios=out, seed=seed
                ):
                    found.setdefault((name, row["method"], row["false_positive_rate"]), []).append(row)
        print(f"\n{folder.name}: {arguments.splits} splits, {arguments.cap} pairs each, mode tail")
        print("recall of B's / of those unique to B / of those open in A")
        for (name, pooling, rate), rows in found.items():
            figures = [np.mean([row[key] for row in rows]) for key in ("recall", "recall_unique", "recall_open")]
            own_pooling = "  <- its own" if RECIPES[name].pooling == POOLINGS[pooling] else ""
            if rate in RATES:
                print(f"{name:22} {pooling:18} fpr {rate:.2f}  " + " / ".join(map(shown, figures)) + own_pooling)
        rows = next(iter(found.values()))
        cut, drop = (np.mean([row[key] for row in rows]) for key in ("cut", "drop"))
        print(f"prefixes cut {shown(cut)}, mean drop of B's cumulative margins {shown(drop)}")


def _raw_texts(folder: Path) -> NDArray[np.float32]:
    from bench.sets import read_lines

    texts = [row["text"] for row in read_lines(folder / "policies.jsonl")]
    raw = embed(get_encoder("minilm"), texts, CACHE / "stress.npz")
    return np.stack([raw[text] for text in texts])


if __name__ == "__main__":
    main()
