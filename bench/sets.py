"""Judged sets of JSON lines as the protocols want them, with the encoder's vectors kept in var/ by content.

A set is a folder with policies, conversations, judgements and exemplars_generated (or exemplars) as .jsonl; exemplars
without anti-signals are read as signals alone. BENCH_DATA names one such folder, or a folder of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sq_core.conversation import messages_from_json, prefix, render, user_turns
from sq_core.cumulative import cumulative_mode
from sq_core.embedding import Encoder, centre_and_normalise, make_centre, vector_key
from sq_core.evaluation.protocols import EvaluationSet, Exemplars
from sq_core.scoring import ViewTable

CACHE = Path(__file__).resolve().parent.parent / "var" / "bench_vectors"


def folders() -> list[Path]:
    """The sets below BENCH_DATA, sorted by path; none when it is not set."""
    root = os.environ.get("BENCH_DATA")
    return sorted(path.parent for path in Path(root).rglob("judgements.jsonl")) if root else []


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
        unfinished = cache.with_suffix(f".{os.getpid()}.npz")
        np.savez(unfinished, keys=np.array(list(known)), vectors=np.stack(list(known.values())))
        unfinished.replace(cache)
    return {text: known[key] for text, key in keys.items()}


def load(folder: Path, encoder: Encoder, *, centred: bool = True) -> EvaluationSet:
    """The set as the protocols want it: states sorted by (conversation, user turn), prefixes in the encoder's mode.

    Not ``centred``: the encoder's own unit vectors.
    """
    policies = read_lines(folder / "policies.jsonl")
    made_file = folder / "exemplars_generated.jsonl"
    exemplars = {
        row["artifact"]: row for row in read_lines(made_file if made_file.exists() else folder / "exemplars.jsonl")
    }
    scores: dict[tuple[str, int], dict[str, int]] = {}
    for row in read_lines(folder / "judgements.jsonl"):
        scores.setdefault((row["conversation"], row["user_turn"]), {}).update(row["scores"])
    keys = [row["id"] for row in policies]
    states: list[tuple[int, int, str, str, str, list[int]]] = []
    for number, row in enumerate(sorted(read_lines(folder / "conversations.jsonl"), key=lambda row: str(row["id"]))):
        messages = messages_from_json(row["messages"])
        for turn in range(len(user_turns(messages))):
            seen = prefix(messages, turn)
            judged = scores.get((row["id"], turn), {})
            marks = [int(judged.get(key, 0)) for key in keys]
            text = render(seen, user_only=user_only(encoder))
            states.append((number, turn, row.get("scenario") or row["id"], text, seen[-1].content, marks))
    conversations, turns, scenarios, cumulative, messages_sent, judgements = zip(*states, strict=True)
    made = [text for key in keys for side in ("signals", "anti_signals") for text in exemplars[key].get(side, [])]
    texts = [row["text"] for row in policies]
    cache = CACHE / f"{hashlib.sha256(f'{encoder.id}{folder.name}{len(states)}'.encode()).hexdigest()[:16]}.npz"
    raw = embed(encoder, [*texts, *made, *cumulative, *messages_sent], cache)
    centre = make_centre(np.stack([raw[text] for text in texts]))

    def rows(wanted: Sequence[str]) -> NDArray[np.float32]:
        if not wanted:
            return np.empty((0, encoder.dimension), dtype=np.float32)
        vectors = np.stack([raw[text] for text in wanted])
        return centre_and_normalise(vectors, centre) if centred else vectors

    places = (np.array(conversations), np.array(turns))
    return EvaluationSet(
        table=ViewTable(rows(cumulative), rows(messages_sent), *places, *places),
        scores=np.array(judgements),
        scenario=scenarios,
        artifacts=tuple(keys),
        text_vectors=rows(texts),
        generated=tuple(
            Exemplars(rows(exemplars[k].get("signals", [])), rows(exemplars[k].get("anti_signals", []))) for k in keys
        ),
        turn_texts=messages_sent,
    )


def user_only(encoder: Encoder) -> bool:
    return cumulative_mode(encoder.id) == "user-cumulative"


def prefix_texts(folder: Path, encoder: Encoder) -> tuple[str, ...]:
    """The rendered prefix of every state, in the order of ``load``."""
    texts = []
    for row in sorted(read_lines(folder / "conversations.jsonl"), key=lambda row: str(row["id"])):
        messages = messages_from_json(row["messages"])
        seen = (prefix(messages, turn) for turn in range(len(user_turns(messages))))
        texts += [render(each, user_only=user_only(encoder)) for each in seen]
    return tuple(texts)


def shown(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
