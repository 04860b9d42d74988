"""Half splits by scenario, and what is mined from the mining half (paper §5); the leakage fence is asserted here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.baselines import own_turns
from sq_core.evaluation.data import Bools, EvaluationSet, LeakageError
from sq_core.mining import JudgedConversation, Mined, mine
from sq_core.mining_states import MAX_IRRELEVANT, RATIO, MinedStates, StateConversation, mine_states


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """One half split: the mining scenarios and, per artifact, what each rule mined from them.

    paper: transition turns, conflicts left in, as the reference run; ours: conflicts removed; wide: as ours, with 6
    anti-signals a signal from scores up to 2; states: every judged state. held_out (S,): the states measured on.
    """

    seed: int
    mining_scenarios: frozenset[str]
    held_out: Bools
    paper: tuple[Mined, ...]
    ours: tuple[Mined, ...]
    wide: tuple[Mined, ...]
    states: tuple[MinedStates, ...]

    def minable(self, minimum: int) -> Bools:
        """Artifacts with at least ``minimum`` mined signals and an anti-signal under both transition rules (N,)."""
        pairs = zip(self.paper, self.ours, strict=True)
        return np.array([a.enough(minimum, 1) and b.enough(minimum, 1) for a, b in pairs], dtype=bool)


def half_of(scenarios: Sequence[str], seed: int) -> frozenset[str]:
    """The mining half: the first half of the sorted scenarios as numpy's default generator permutes them."""
    names = sorted(set(scenarios))
    return frozenset(np.random.default_rng(seed).permutation(names).tolist()[: len(names) // 2])


def split_half(data: EvaluationSet, seed: int) -> Split:
    """Mine every artifact from half of the scenarios; the other half's states are held out."""
    return mine_from(data, half_of(data.scenario, seed), seed=seed)


def mine_from(data: EvaluationSet, mining: frozenset[str], *, seed: int = 0) -> Split:
    """Mine every artifact from these scenarios; all other states are held out."""
    held_out = np.array([name not in mining for name in data.scenario], dtype=bool)
    read = [span for span in data.conversations() if not held_out[span[0]]]
    rows = own_turns(data.table)
    columns = [[judged_conversation(data, span, rows, j) for span in read] for j in range(len(data.artifacts))]
    prefixes = [data.table.cumulative[start:end] for start, end in read]
    split = Split(
        seed=seed,
        mining_scenarios=mining,
        held_out=held_out,
        paper=tuple(mine(column, remove_conflicts=False) for column in columns),
        ours=tuple(mine(column) for column in columns),
        wide=tuple(mine(column, max_irrelevant=MAX_IRRELEVANT, ratio=RATIO) for column in columns),
        states=tuple(mine_states(map(StateConversation, column, prefixes)) for column in columns),
    )
    assert_no_leak(data, split)
    return split


def assert_no_leak(data: EvaluationSet, split: Split) -> None:
    """Raises LeakageError when an exemplar's scenario is among the held-out states."""
    measured = {name for name, out in zip(data.scenario, split.held_out, strict=True) if out}
    for j, key in enumerate(data.artifacts):
        rules: tuple[Mined | MinedStates, ...] = (split.paper[j], split.ours[j], split.wide[j], split.states[j])
        for mined in rules:
            leaked = sorted({e.scenario for e in (*mined.signals, *mined.anti_signals)} & measured)
            if leaked:
                raise LeakageError(f"{key}: exemplars of scenario {leaked[0]} would be measured on it")


def judged_conversation(
    data: EvaluationSet, span: tuple[int, int], rows: NDArray[np.intp], artifact: int
) -> JudgedConversation:
    """One conversation as one artifact sees it; ``rows`` are the states' own turns (``own_turns``)."""
    start, end = span
    own = rows[start:end]
    return JudgedConversation(
        id=str(data.table.state_conversation[start]),
        scenario=data.scenario[start],
        texts=tuple(data.turn_texts[row] for row in own),
        vectors=data.table.turns[own],
        scores=tuple(int(score) if score > 0 else None for score in data.scores[start:end, artifact]),
    )


def scenario_folds(scenarios: Sequence[str], folds: int, seed: int = 0) -> list[frozenset[str]]:
    """The scenarios in ``folds`` seeded parts of nearly equal size; fewer parts when there are fewer scenarios."""
    names = np.random.default_rng(seed).permutation(sorted(set(scenarios))).tolist()
    parts = min(folds, len(names))
    return [frozenset(names[i::parts]) for i in range(parts)]
