"""Causal traces: `TRACES_DATA=… python -m bench.traces [PLAN.toml] [--to DIR] [--fit]`, or BENCH_DATA with a folder `traces`.

Runs an evidence plan (by default `bench/traces_airline.toml`) and prints what docs/traces.md quotes; `--to` writes the
bundle; `--fit` measures one adapter fit instead. Without the traces nothing is measured and one line says so.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import resource
import time
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sq_core.causal.stability import check_causality
from sq_core.encoders import get_encoder
from sq_core.evidence.bundle import Bundle, export_evidence
from sq_core.evidence.comparing import comparison_of
from sq_core.evidence.fitting import AdapterConfig, fit_state_adapter
from sq_core.evidence.plan import EvidencePlan, read_plan
from sq_core.evidence.run import run_evidence
from sq_core.evidence.sources import read_file, read_sources

PLAN = Path(__file__).resolve().parent / "traces_airline.toml"
CACHE = Path(__file__).resolve().parent.parent / "var" / "bench_vectors" / "traces.npz"
# TRACES 4.3: MRR, mean of five folds by task, in all_splits and train_split.
PILOT = {
    "prior": (0.221, 0.179),
    "reset": (0.316, 0.182),
    "reset+prior:tuned": (0.316, 0.196),
    "query_adapter": (0.329, 0.195),
    "shuffled_state": (0.323, 0.195),
    "rewritten:concatenation": (0.353, 0.195),
    "state": (0.355, 0.229),
    "state+prior:tuned": (0.355, 0.234),
    "state+tool": (0.358, 0.231),
    "copy": (0.686, 0.305),
    "copy+state": (0.702, 0.323),
    "copy+state+tool": (0.711, 0.323),
}


class FileCache(MutableMapping[str, NDArray[np.float32]]):
    """Vectors by key in one file; `save` writes it when something is new."""

    def __init__(self, path: Path) -> None:
        self.path, self.known, self.new = path, dict[str, NDArray[np.float32]](), False
        if path.exists():
            with np.load(path, allow_pickle=False) as stored:
                self.known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def __getitem__(self, key: str) -> NDArray[np.float32]:
        return self.known[key]

    def __setitem__(self, key: str, vector: NDArray[np.float32]) -> None:
        self.known[key], self.new = vector, True

    def __delitem__(self, key: str) -> None:
        del self.known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    def save(self) -> None:
        if self.new:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self.path.with_suffix(f".{os.getpid()}.npz")
            np.savez(unfinished, keys=np.array(list(self.known)), vectors=np.stack(list(self.known.values())))
            unfinished.replace(self.path)
            self.new = False


def data_folder() -> Path | None:
    """TRACES_DATA, or the folder `traces` in or beside BENCH_DATA; None when neither holds traces."""
    places = [os.environ.get("TRACES_DATA", "")]
    if bench := os.environ.get("BENCH_DATA"):
        places += [f"{bench}/traces", f"{bench}/../traces"]
    return next((Path(place) for place in places if place and list(Path(place).glob("*.jsonl"))), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", nargs="?", type=Path, default=PLAN)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    folder = data_folder()
    if folder is None:
        print("traces: skipped (neither TRACES_DATA nor BENCH_DATA names a folder of traces)")
        return
    plan = read_plan(options.plan)
    cache = FileCache(CACHE)
    if options.fit:
        fit(plan, folder, cache)
        return
    began = time.perf_counter()
    for source in plan.sources:
        found = check_causality(read_file(folder / source.path), target_mode=plan.rows.target_mode)
        print(f"check_causality {source.path}: {found.report.traces} traces, {found.report.calls} calls, "
              f"{found.prefixes} prefixes, {len(found.violations)} violations")  # fmt: skip
    bundle = run_evidence(plan, read_sources(plan, folder), get_encoder(plan.encoder), cache=cache, progress=_say)
    cache.save()
    show(bundle, plan)
    print(f"\n{time.perf_counter() - began:.0f} s, bundle {bundle.digest[:16]}, encoder {bundle.inputs['encoder']}")
    if options.to:
        for path in export_evidence(bundle, options.to, written_at=datetime.now(UTC)):
            print(path.name, path.stat().st_size)


def _say(message: str) -> None:
    print(f"  {message}", flush=True)


def show(bundle: Bundle, plan: EvidencePlan) -> None:
    """Scorecards with the pilot's figures beside them, differences, checks and claims."""
    print(f"\n{'method':26s} {'world':12s} coverage   MRR  (folds)  pilot  R@1   R@5   NDCG@10")
    for card in bundle.scorecards:
        pilot = PILOT.get(card["method"], (None, None))[card["world"] == "train_split"]
        recall = dict(card["recall_at"])
        shown = "   - " if pilot is None else f"{pilot:.3f}"
        print(f"{card['method']:26s} {card['world']:12s} {card['coverage']:.3f}   {card['mrr']:.3f}  "
              f"{card['mrr_mean_of_folds']:.3f}   {shown}  {recall[1]:.3f} {recall[5]:.3f} "
              f"{card['ndcg_at_10']:.3f}")  # fmt: skip
    print(f"\n{bundle.scorecards[0]['rows']} rows, {bundle.scorecards[0]['sessions']} sessions, "
          f"{bundle.scorecards[0]['groups']} groups ({plan.rows.group_by})")  # fmt: skip
    for record in bundle.comparisons:
        print(comparison_of(record))
    for check in bundle.checks:
        print(f"\n[{check['outcome']}] {check['id']} ({check['kind']}): {check['detail']}")
    for claim in bundle.claims:
        print(f"\n{claim['verdict'].upper()}: {claim['sentence']}\n    {claim['reason']}")


def fit(plan: EvidencePlan, folder: Path, cache: FileCache) -> None:
    """One adapter over the main source's training part, twice: seconds, peak memory, equal bytes."""
    source = next(each for each in plan.sources if each.role == "main")
    logs = read_file(folder / source.path)
    config = AdapterConfig("state", plan.encoder, (0.6, 0.2, 0.2), plan.rows, plan.settings)
    made: list[Any] = []
    for _ in range(2):
        began = time.perf_counter()
        made.append(fit_state_adapter(config, logs, get_encoder(plan.encoder), seed=plan.seed, cache=cache))
        cache.save()
        record = made[-1].record
        print(f"{record['rows']} rows x {record['candidates']} candidates, {record['iterations']} iterations: "
              f"{time.perf_counter() - began:.1f} s, loss {record['loss']:.4f}")  # fmt: skip
    same = all((a == b).all() for a, b in ((made[0].w1, made[1].w1), (made[0].w2, made[1].w2)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"equal bytes: {same}; peak memory of the process {peak:.0f} MiB")


if __name__ == "__main__":
    main()
