"""Both protocols on a judged set of JSON lines, beside an independent reference run.

BENCH_DATA names a folder with policies, exemplars_generated, conversations and judgements (.jsonl); without it nothing
is run. Vectors of the local encoder are kept in var/. `--labels running-max` prints the tables for sticky labels.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sq_core.conversation import messages_from_json, prefix, render, user_turns
from sq_core.embedding import Encoder, centre_and_normalise, make_centre, vector_key
from sq_core.encoders import get_encoder
from sq_core.evaluation.protocols import EvaluationSet, Exemplars, larger_k, mined, operating_point
from sq_core.scoring import ViewTable

CACHE = Path(__file__).resolve().parent.parent / "var" / "bench_vectors"

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
        "sq-mined": (0.317, 0.344),
        "sq-mined-positives-only": (0.166, 0.161),
        "sq-mixed": (0.303, 0.377),
        "cosine-signals": (0.199, 0.297),
        "cosine-signals-mined": (0.204, 0.308),
    },
}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def embed(encoder: Encoder, texts: Sequence[str], cache: Path) -> dict[str, NDArray[np.float32]]:
    """Raw vectors by text, from the cache where the encoder's id and the text are the same."""
    known: dict[str, NDArray[np.float32]] = {}
    if cache.exists():
        with np.load(cache) as stored:
            known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))
    keys = {text: vector_key(encoder.id, text) for text in dict.fromkeys(texts)}
    missing = [text for text, key in keys.items() if key not in known]
    if missing:
        print(f"embedding {len(missing)} texts")
        known.update(zip((keys[text] for text in missing), encoder.encode(missing), strict=True))
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.savez(cache, keys=np.array(list(known)), vectors=np.stack(list(known.values())))
    return {text: known[key] for text, key in keys.items()}


def load(folder: Path, encoder: Encoder) -> EvaluationSet:
    """The set as the protocols want it: states sorted by (conversation, user turn)."""
    policies = read_lines(folder / "policies.jsonl")
    exemplars = {row["artifact"]: row for row in read_lines(folder / "exemplars_generated.jsonl")}
    scores = {(r["conversation"], r["user_turn"]): r["scores"] for r in read_lines(folder / "judgements.jsonl")}
    keys = [row["id"] for row in policies]
    states: list[tuple[int, int, str, str, str, list[int]]] = []
    for number, row in enumerate(sorted(read_lines(folder / "conversations.jsonl"), key=lambda row: str(row["id"]))):
        messages = messages_from_json(row["messages"])
        for turn in range(len(user_turns(messages))):
            seen = prefix(messages, turn)
            judged = [int(scores[row["id"], turn][key]) for key in keys]
            states.append((number, turn, row.get("scenario") or row["id"], render(seen), seen[-1].content, judged))
    conversations, turns, scenarios, cumulative, messages_sent, judgements = zip(*states, strict=True)
    made = [text for key in keys for side in ("signals", "anti_signals") for text in exemplars[key][side]]
    texts = [row["text"] for row in policies]
    cache = CACHE / f"{hashlib.sha256(str(encoder.id).encode()).hexdigest()[:16]}.npz"
    raw = embed(encoder, [*texts, *made, *cumulative, *messages_sent], cache)
    centre = make_centre(np.stack([raw[text] for text in texts]))

    def rows(wanted: Sequence[str]) -> NDArray[np.float32]:
        return centre_and_normalise(np.stack([raw[text] for text in wanted]), centre)

    overflowing = sum(encoder.overflows(list(cumulative)))
    print(f"{folder.name}: {len(states)} states, {overflowing / len(states):.0%} longer than the encoder's window")
    places = (np.array(conversations), np.array(turns))
    return EvaluationSet(
        table=ViewTable(rows(cumulative), rows(messages_sent), *places, *places),
        scores=np.array(judgements),
        scenario=scenarios,
        artifacts=tuple(keys),
        text_vectors=rows(texts),
        generated=tuple(Exemplars(rows(exemplars[k]["signals"]), rows(exemplars[k]["anti_signals"])) for k in keys),
        turn_texts=messages_sent,
    )


def shown(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


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
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        print("reference tables: skipped (BENCH_DATA is not set)")
        return
    data = load(Path(folder), get_encoder("minilm"))
    reference = REFERENCE if Path(folder).name == "airline" and labels == "as-judged" else {}
    print_rows("operating-point", operating_point(data, labels=labels), reference.get("operating-point", {}))
    print_rows("larger K, printed apart", larger_k(data, labels=labels), {})
    print_rows("mined, mean of five half splits", mined(data, labels=labels), reference.get("mined", {}))


if __name__ == "__main__":
    main()
