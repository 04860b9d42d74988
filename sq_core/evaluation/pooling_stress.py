"""Two conversations of different scenarios made one: does the recent topic survive the earlier one (Table 4)?

State = B's last user turn after all of A. Truth = B's labels in isolation. Irrelevant = relevant neither there nor at
A's last state. Every pooling gets its own θ at the same false-positive rate on the irrelevant pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import Scorer, logistic, pooled_views
from sq_core.evaluation.data import Bools, EvaluationError, EvaluationSet, Floats, Labels, Row
from sq_core.evaluation.extras import NOTHING, Extras
from sq_core.evaluation.rows import sides
from sq_core.scoring import PRESETS, Pooling, ViewTable

RATES = (0.10, 0.20, 0.30)
CAP = 200


@dataclass(frozen=True, slots=True, eq=False)
class Stitched:
    """The pairs (P, 2) of conversations A, B, and per pair the state's views in one table and the labels."""

    pairs: NDArray[np.intp]
    table: ViewTable
    alone: ViewTable
    recent: Bools
    earlier: Bools
    judged: Bools


def pooling_stress(
    data: EvaluationSet,
    *,
    labels: Labels = "as-judged",
    extras: Extras = NOTHING,
    cap: int = CAP,
    seed: int = 0,
    scorer: Scorer | None = None,
    poolings: Mapping[str, Pooling] = PRESETS,
    scenarios: frozenset[str] | None = None,
) -> list[Row]:
    """One row per cumulative mode, pooling and false-positive rate.

    ``recall`` is that of B's artifacts, ``recall_unique`` of those B needs and A does not, ``recall_open`` of those
    still needed at A's end. ``drop``: how much prepending A lowers the cumulative margins of B's artifacts on average,
    both prefixes embedded in the row's mode; the user-turn margins are asserted equal. ``cut``: share of stitched
    prefixes longer than the encoder's window, of which ``tail`` loses the beginning and ``whole`` nothing.
    At most ``cap`` ordered pairs are drawn with ``seed``; both stand in the rows. ``scorer`` scores views in place of
    the generated classifiers, and ``scenarios`` keeps pairs to those its exemplars did not come from.
    """
    extras.require("prefix_texts", "pooling-stress")
    extras.require("embed", "pooling-stress")
    data = data.with_labels(labels)
    chosen = logistic(*sides(data.generated)) if scorer is None else scorer
    pairs = draw_pairs(data, cap, seed, scenarios)
    last = _last_states(data, pairs)
    texts = [f"{extras.prefix_texts[a]}\n{extras.prefix_texts[b]}" for a, b in last]
    alone = [extras.prefix_texts[b] for _, b in last]
    cut = float(np.mean(extras.overflows(texts))) if extras.overflows is not None else None
    rows = []
    for mode, embed in extras.embed.items():
        stitched = stitch(data, pairs, np.asarray(embed(texts)), np.asarray(embed(alone)))
        drop = _drop(stitched, chosen)
        for name, pooling in poolings.items():
            scores = pooled_views(stitched.table, chosen, pooling)
            for rate in RATES:
                row = {"method": name, "world": "fitted", "mode": mode, "false_positive_rate": rate, "seed": seed}
                rows.append(row | _recalls(stitched, scores, rate) | {"drop": drop, "cut": cut, "pairs": len(pairs)})
    return rows


def draw_pairs(data: EvaluationSet, cap: int, seed: int, scenarios: frozenset[str] | None = None) -> NDArray[np.intp]:
    """Ordered pairs (P, 2) of conversations of different scenarios, all of them or ``cap`` drawn with ``seed``."""
    spans = data.conversations()
    usable = [i for i, (start, _) in enumerate(spans) if scenarios is None or data.scenario[start] in scenarios]
    scenario = [data.scenario[start] for start, _ in spans]
    pairs = [(a, b) for a in usable for b in usable if scenario[a] != scenario[b]]
    if not pairs:
        raise EvaluationError("pooling-stress needs conversations of at least two scenarios")
    if len(pairs) > cap:
        keep = np.sort(np.random.default_rng(seed).choice(len(pairs), size=cap, replace=False))
        pairs = [pairs[i] for i in keep]
    return np.array(pairs, dtype=np.intp)


def _last_states(data: EvaluationSet, pairs: NDArray[np.intp]) -> list[tuple[int, int]]:
    ends = [end - 1 for _, end in data.conversations()]
    return [(ends[a], ends[b]) for a, b in pairs]


def stitch(
    data: EvaluationSet, pairs: NDArray[np.intp], cumulative: NDArray[np.floating], alone: NDArray[np.floating]
) -> Stitched:
    """The stitched states: A's user turns, then B's, and the prefix of both (P, d); ``alone`` (P, d): that of B."""
    spans, table = data.conversations(), data.table
    last = _last_states(data, pairs)
    if not len(cumulative) == len(alone) == len(pairs):
        raise EvaluationError(
            f"{len(cumulative)} stitched and {len(alone)} single prefixes for {len(pairs)} pairs; expected one each"
        )
    own = [_turns(table, *spans[i]) for i in range(len(spans))]
    turns = [np.concatenate((own[a], own[b])) for a, b in pairs]
    at_end = np.array([b for _, b in last])
    return Stitched(
        pairs=pairs,
        table=_table(cumulative, [table.turns[rows] for rows in turns]),
        alone=_table(alone, [table.turns[own[b]] for _, b in pairs]),
        recent=data.relevant[at_end],
        earlier=data.relevant[[a for a, _ in last]],
        judged=data.judged[at_end] & data.judged[[a for a, _ in last]],
    )


def _turns(table: ViewTable, start: int, end: int) -> NDArray[np.intp]:
    conversation, last = table.state_conversation[start], table.state_turn[end - 1]
    return np.flatnonzero((table.turn_conversation == conversation) & (table.turn_index <= last))


def _table(cumulative: NDArray[np.floating], turns: Sequence[NDArray[np.floating]]) -> ViewTable:
    counts = [len(each) for each in turns]
    return ViewTable(
        np.asarray(cumulative, dtype=np.float32),
        np.concatenate(turns),
        np.arange(len(turns)),
        np.array(counts) - 1,
        np.repeat(np.arange(len(turns)), counts),
        np.concatenate([np.arange(count) for count in counts]),
    )


def _drop(stitched: Stitched, scorer: Scorer) -> float:
    """Mean fall of B's cumulative margins; the latest user turn's margin must not move at all."""
    latest = Pooling(cumulative=False, last=1)
    before, after = (pooled_views(each, scorer, latest) for each in (stitched.alone, stitched.table))
    if not np.allclose(before, after, atol=1e-9, equal_nan=True):
        raise AssertionError("a user turn's margin changed by prepending another conversation")
    known = stitched.recent & np.isfinite(before)
    fall = scorer(stitched.alone.cumulative)[known] - scorer(stitched.table.cumulative)[known]
    return float(fall.mean()) if fall.size else 0.0


def _recalls(stitched: Stitched, scores: Floats, rate: float) -> Row:
    irrelevant = stitched.judged & ~stitched.recent & ~stitched.earlier & np.isfinite(scores)
    theta = float(np.quantile(scores[irrelevant], 1 - rate, method="higher")) if irrelevant.any() else None
    groups = {
        "recall": stitched.recent,
        "recall_unique": stitched.recent & ~stitched.earlier,
        "recall_open": stitched.earlier,
    }
    row: Row = {"theta": theta}
    for name, pairs in groups.items():
        counted = pairs & stitched.judged
        row[name] = float(np.mean(scores[counted] > theta)) if theta is not None and counted.any() else None
    row["kept"] = float(np.mean(scores > theta)) if theta is not None else None
    return row | {"precision_at_r90": None, "auprc": None, "coverage": float(np.isfinite(scores).any(axis=0).mean())}
