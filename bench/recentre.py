"""Re-centring as a shadow comparison: the centre of two thirds of the policies against that of all. Prints only."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from dataclasses import replace

import numpy as np

from bench.sets import folders, load
from sq_core.classifier import Classifier
from sq_core.embedding import centre_and_normalise, make_centre
from sq_core.encoders import get_encoder
from sq_core.evaluation.calibration import calibrate_theta
from sq_core.fitting import fit_classifier
from sq_core.recentring import CurrentVersion, Shadow, recentre_shadow
from sq_core.scoring import Pooling, state_margins


def main() -> None:
    sets = [each for each in folders() if (each / "exemplars_generated.jsonl").exists()]
    if not sets:
        print("re-centring: skipped (BENCH_DATA names no judged set with generated exemplars)")
    for folder in sets:
        raw, encoder = load(folder, get_encoder("minilm"), centred=False), get_encoder("minilm")
        old = make_centre(raw.text_vectors[: 2 * len(raw.artifacts) // 3].astype(np.float32))
        made = [(key, each) for key, each in zip(raw.artifacts, raw.generated, strict=True) if each is not None]
        current = []
        for key, each in made:
            sides = [np.asarray(side, dtype=np.float32) for side in (each.signals, each.anti_signals)]
            fit = fit_classifier(*(centre_and_normalise(side, old) for side in sides), 1.0, "balanced")
            current.append(CurrentVersion(key, Classifier.from_fit(fit), *sides, class_weight="balanced"))
        states = raw.table
        views = (centre_and_normalise(rows, old) for rows in (states.cumulative, states.turns))
        table = replace(states, **dict(zip(("cumulative", "turns"), views, strict=True)))
        margins = [state_margins(each.classifier.weights, each.classifier.bias, table) for each in current]
        theta = calibrate_theta(np.column_stack(margins), raw.relevant, 0.9).theta
        texts = raw.text_vectors.astype(np.float32)
        start = time.perf_counter()
        found = recentre_shadow(texts, current, states, old=old, theta=theta, pooling=Pooling())
        seconds = time.perf_counter() - start
        print(f"{folder.name}: {len(current)} policies, {found.states} states, θ {theta:.3f}, encoder {encoder.id}")
        print_shadow(found, seconds)


def print_shadow(found: Shadow, seconds: float) -> None:
    drift, states = found.drift, found.states
    same = np.array([len(each.at_same_cut_off) for each in found.versions])
    after = np.array([len(each.after_offset) for each in found.versions])
    print(
        f"  c: cosine {drift.cosine:.3f}, norm {drift.old_norm:.3f} -> {drift.new_norm:.3f}, distance {drift.distance:.3f}; "
        f"weights: mean cosine {np.mean([each.cosine for each in found.versions]):.3f}; {seconds * 1000:.0f} ms"
    )
    print(
        f"  flips a policy of {states} states: at the same cut-offs median {np.median(same):.0f}, most {same.max()}; after "
        f"re-choosing the offset median {np.median(after):.0f}, most {after.max()}; "
        f"{np.count_nonzero(same)} of {len(same)} policies flip somewhere"
    )


if __name__ == "__main__":
    main()
