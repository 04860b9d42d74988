"""Evidence plans: `TRACES_DATA=… python -m bench.traces [PLAN.toml …] [--to DIR]`, or BENCH_DATA with a folder `traces`.

Prints what docs/traces.md quotes, by default of `bench/traces_airline.toml` and of the shipped plan of S&Q, which runs on each
judged set of BENCH_DATA. `--to` writes the bundles; `--fit` measures one adapter fit instead, `--assignments N` what N other
seeds of the folds give to methods without a fit. Without data one line says so.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import hashlib
import resource
import time
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import sets
from sq_core.causal.stability import check_causality
from sq_core.encoders import get_encoder
from sq_core.evidence.bundle import Bundle, export_evidence
from sq_core.evidence.comparing import comparison_of
from sq_core.evidence.fitting import AdapterConfig, fit_state_adapter
from sq_core.evidence.inputs import prepare, trace_set
from sq_core.evidence.measuring import measure
from sq_core.evidence.plan import EvidencePlan, read_plan
from sq_core.evidence.run import run_evidence
from sq_core.evidence.shipped import FOLDER
from sq_core.evidence.sources import read_file, read_sources
from sq_core.evidence.splits import group_folds
from sq_core.evidence.sq import SqInputs, run_sq_evidence
from sq_core.ranking.contrastive import ContrastiveBatch, fit_adapter

PLAN = Path(__file__).resolve().parent / "traces_airline.toml"
SQ_PLAN = FOLDER / "generated-against-mined.toml"
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
    parser.add_argument("plans", nargs="*", type=Path, default=[PLAN, SQ_PLAN], metavar="PLAN.toml")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument(
        "--assignments", type=int, metavar="N", help="what other assignments of tasks to folds would give"
    )
    options = parser.parse_args()
    plans = [read_plan(path) for path in options.plans]
    for plan in plans[:1] if options.fit or options.assignments else plans:
        to = options.to / plan.name if options.to and len(plans) > 1 else options.to
        if plan.system == "sq":
            signals_and_queries(plan, to)
        else:
            traces(plan, to, options)


def traces(plan: EvidencePlan, to: Path | None, options: argparse.Namespace) -> None:
    """A plan of traces on the files below `data_folder`."""
    folder = data_folder()
    if folder is None:
        print("traces: skipped (neither TRACES_DATA nor BENCH_DATA names a folder of traces)")
        return
    cache = FileCache(CACHE)
    if options.fit or options.assignments:
        fit(plan, folder, cache) if options.fit else assignments(plan, folder, cache, options.assignments)
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
    write(bundle, to)


def write(bundle: Bundle, folder: Path | None) -> None:
    """The bundle's files, when a folder is given."""
    if folder is not None:
        for path in export_evidence(bundle, folder, written_at=datetime.now(UTC)):
            print(path.name, path.stat().st_size)


def signals_and_queries(plan: EvidencePlan, to: Path | None) -> None:
    """A plan of S&Q on every judged set with generated exemplars below BENCH_DATA."""
    found = [folder for folder in sets.folders() if (folder / "exemplars_generated.jsonl").exists()]
    if not found:
        print("S&Q evidence: skipped (BENCH_DATA names no judged set with generated exemplars)")
    for folder in found:
        encoder = get_encoder(plan.encoder)
        digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.jsonl"))}
        inputs = SqInputs(sets.load(folder, encoder), encoder.id, digests)
        bundle = run_sq_evidence(plan, inputs, progress=_say)
        print(f"\n{folder.name}: {len(set(inputs.data.scenario))} scenarios, {len(inputs.data.scenario)} states")
        print(f"{'method':18s} {'world':24s} coverage  P@R90  AUPRC")
        for card in bundle.scorecards:
            shown = ["  -  " if card[name] is None else f"{card[name]:.3f}" for name in ("precision_at_r90", "auprc")]
            print(f"{card['method']:18s} {card['world']:24s} {card['coverage']:.3f}     {'  '.join(shown)}")
        show_verdicts(bundle)
        print(f"\nbundle {bundle.digest[:16]}, encoder {bundle.inputs['encoder']}")
        write(bundle, None if to is None else to / folder.name)


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
        print(f"{record['check']}: {comparison_of(record['comparison'])}")
    show_verdicts(bundle)


def show_verdicts(bundle: Bundle) -> None:
    """Every check's outcome, then every claim's verdict with its reason."""
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
    rows, candidates, began = 1800, 386, time.perf_counter()
    fit_adapter(random_batch(rows, candidates), max_iter=60)
    print(f"random, {rows} rows x {candidates} candidates, all columns: {time.perf_counter() - began:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"equal bytes: {same}; peak memory of the process {peak:.0f} MiB")


def assignments(plan: EvidencePlan, folder: Path, cache: FileCache, number: int) -> None:
    """Lowest and highest MRR (mean of folds) and coverage over seeds of the folds, of methods that need no fit."""
    source = next(each for each in plan.sources if each.role == "main")
    given = trace_set(read_file(folder / source.path), plan.rows)
    data, _ = prepare(given, get_encoder(plan.encoder), cache=cache, response_chars=plan.settings.response_chars)
    methods = ("prior", "reset", "copy")
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(number):
        parts = group_folds(data.rows, folds=plan.folds, seed=seed, by=plan.split_by)
        measured = measure(data, parts, plan.settings, methods, target_mode="field", seed=seed)
        for card in measured.records():
            found.setdefault((card["method"], card["world"]), []).append(card["mrr_mean_of_folds"])
            found.setdefault(("coverage", card["world"]), []).append(card["coverage"])
    for (name, world), values in found.items():
        print(f"{name:10s} {world:12s} {min(values):.3f} to {max(values):.3f} over {number} seeds")


def random_batch(rows: int, candidates: int, d: int = 384) -> ContrastiveBatch:
    """Unit vectors without meaning, in the shape that the budget names."""
    rng = np.random.default_rng(0)

    def unit(n: int) -> NDArray[np.float64]:
        raw = rng.normal(size=(n, d))
        return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))

    positives = np.zeros((rows, candidates), dtype=bool)
    positives[np.arange(rows), rng.integers(0, candidates, rows)] = True
    return ContrastiveBatch(unit(rows), unit(rows), np.ones(rows, dtype=bool), unit(candidates), positives)


if __name__ == "__main__":
    main()
