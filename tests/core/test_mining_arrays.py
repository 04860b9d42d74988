"""Mining on arrays chooses what the object forms choose, on random logs; its caps, clusters and its cost's shape."""

import numpy as np
import pytest

from sq_core.conversation import Message
from sq_core.generating import Suspect, hunt_anti_signals
from sq_core.judging import Verdict
from sq_core.mining import JudgedConversation, MiningError, mine
from sq_core.mining_arrays import (
    JudgedTurns,
    hunt_rows,
    label_horizon,
    mine_rows,
    mine_state_rows,
    near_duplicates,
)
from sq_core.mining_states import StateConversation, mine_states

SEEDS = range(40)


class Log:
    """A random log both ways: objects and arrays. Few distinct texts, some turns unjudged, some conversations open."""

    def __init__(self, seed: int, conversations: int = 30, dimension: int = 8, texts: int = 40) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 7, conversations)
        total = int(sizes.sum())
        self.text = rng.integers(0, texts, total)
        known = rng.normal(size=(texts, dimension)) + 0.7
        known = (known / np.linalg.norm(known, axis=1, keepdims=True)).astype(np.float32)
        self.vectors = known[self.text]
        self.scores = rng.choice([1, 1, 1, 2, 3, 4, 5], total).astype(np.int8)
        self.scores[rng.random(total) < 0.04] = 0
        self.finished = rng.random(conversations) < 0.8
        self.conversation = np.repeat(np.arange(conversations) * 7 + 3, sizes)
        self.turn = np.concatenate([np.arange(n) for n in sizes])
        self.starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self.objects = [
            JudgedConversation(
                id=str(number),
                scenario=str(number),
                texts=tuple(f"text {code}" for code in self.text[start : start + n]),
                vectors=self.vectors[start : start + n],
                scores=tuple(int(s) or None for s in self.scores[start : start + n]),
                finished=bool(self.finished[number]),
            )
            for number, (start, n) in enumerate(zip(self.starts, sizes, strict=True))
        ]
        self.turns = JudgedTurns.of(self.conversation, self.turn, self.text, self.vectors, finished=self.finished)

    def place(self, row: int) -> tuple[str, int]:
        return str(self.turns.group[row]), int(self.turn[row])


@pytest.mark.parametrize("rule", ["whole_conversation", "running"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_those_of_the_object_form(seed, rule):
    log = Log(seed)
    for max_irrelevant, ratio in ((1, 4), (2, 1), (1, 100)):
        wanted = mine(log.objects, rule=rule, max_irrelevant=max_irrelevant, ratio=ratio)
        found = mine_rows(log.turns, log.scores, rule=rule, max_irrelevant=max_irrelevant, ratio=ratio)
        for mined, rows in ((wanted.signals, found.signals), (wanted.anti_signals, found.anti_signals)):
            assert [(e.conversation, e.user_turn) for e in mined] == [log.place(row) for row in rows]
            assert [e.score for e in mined] == list(log.scores[rows])
            assert [e.label_horizon for e in mined] == list(label_horizon(log.turns, rows, rule))
        assert found.similarity == pytest.approx([e.similarity for e in wanted.anti_signals], abs=1e-9)
        assert [(log.place(a), log.place(b)) for a, b in found.conflicts] == [
            (c.signal, c.anti_signal) for c in wanted.conflicts
        ]
        report, counts = wanted.report, found.counts
        assert (report.conversations, report.mined) == (counts.conversations, counts.mined)
        assert len(report.partly_judged) == counts.partly + counts.unjudged
        assert len(report.unfinished) == counts.unfinished
        assert report.duplicate_signals == counts.duplicate_signals
        assert report.irrelevant_turns == counts.irrelevant
        assert report.duplicate_anti_signals == counts.duplicate_anti_signals
        assert found.left == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_state_rows_are_those_of_the_object_form(seed):
    log = Log(seed)
    objects = [StateConversation(each, each.vectors) for each in log.objects]
    for max_irrelevant, ratio in ((2, 6), (1, 1)):
        wanted = mine_states(objects, max_irrelevant=max_irrelevant, ratio=ratio)
        found = mine_state_rows(log.turns, log.scores, max_irrelevant=max_irrelevant, ratio=ratio)
        assert [(e.conversation, e.user_turn) for e in wanted.signals] == [log.place(row) for row in found.signals]
        assert [(e.conversation, e.user_turn) for e in wanted.anti_signals] == [
            log.place(row) for row in found.anti_signals
        ]
        assert found.similarity == pytest.approx([e.similarity for e in wanted.anti_signals], abs=1e-9)
        assert len(found.conflicts) == len(wanted.conflicts)
        partly = sum(0 < sum(s is not None for s in e.scores) < len(e.scores) for e in log.objects)
        assert found.counts.partly == partly


class Stored:
    """A judge that reads what is judged already."""

    def __init__(self, log: Log) -> None:
        self.scores = {f"text {code}": int(score) for code, score in zip(log.text, log.scores, strict=True)}

    def judge(self, prefix, artifact_text):
        return Verdict(self.scores[prefix[-1].content])


@pytest.mark.parametrize("seed", SEEDS)
def test_hunted_rows_are_those_of_the_hunt_with_a_judge(seed):
    log = Log(seed)
    relevant = {f"text {code}" for code, score in zip(log.text, log.scores, strict=True) if score >= 4}
    suspects = [
        Suspect(f"{each.id:>06}", turn, text, (Message(index=0, role="user", content=text),), each.vectors[turn])
        for each in log.objects
        for turn, (text, score) in enumerate(zip(each.texts, each.scores, strict=True))
        if score == 1 and text not in relevant
    ]
    judge = Stored(log)
    judge.scores.update({each.text: 1 for each in suspects})
    rng = np.random.default_rng(seed)
    signals, anti = log.vectors[rng.integers(0, len(log.text), 5)], log.vectors[rng.integers(0, len(log.text), 5)]
    for budget, batch in ((4, 2), (40, 3)):
        wanted = hunt_anti_signals("", signals, anti, suspects, judge, cutoff=-0.3, budget=budget, batch=batch)
        found = hunt_rows(log.turns, log.scores, signals, anti, cutoff=-0.3, budget=budget, batch=batch)
        assert [e.suspect.text for e in wanted.judged] == [f"text {log.text[row]}" for row in found.rows]
        assert [(int(e.suspect.conversation), e.suspect.user_turn) for e in wanted.judged] == [
            (int(log.turns.group[row]), int(log.turn[row])) for row in found.rows
        ]
        assert found.margins == pytest.approx([e.margin for e in wanted.judged], abs=1e-9)
        assert found.rounds == len(wanted.false_alarms)
        assert found.reason == wanted.reason


def test_the_hunt_passes_over_what_is_known_and_what_was_needed_somewhere():
    vectors = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2]]
    turns = JudgedTurns.of([1, 1, 2, 2, 3], [0, 1, 0, 1, 0], [10, 10, 11, 12, 13], vectors)
    scores = np.array([1, 5, 1, 1, 1], dtype=np.int8)  # text 10 was needed once
    up, down = np.eye(4)[[0, 1]], np.eye(4)[[3]]
    found = hunt_rows(turns, scores, up, down, cutoff=0.3, known=np.array([False, False, True, False, False]))
    assert list(found.rows) == [3]
    assert (found.reason, found.rounds) == ("quiet", 1)
    nothing = hunt_rows(turns, scores, up, down, cutoff=50.0)
    assert (list(nothing.rows), nothing.firing, nothing.reason) == ([], 0, "quiet")
    with pytest.raises(ValueError, match="at least 1"):
        hunt_rows(turns, scores, up, down, budget=0)


# -------------------------------------------------------------------------------------------------------------- the log
def test_a_turn_that_has_no_row_is_missing():
    turns = JudgedTurns.of([1, 1, 2], [0, 1, 0], ["a", "b", "a"], np.eye(3, dtype=np.float32), expected=[3, 1])
    assert list(turns.missing) == [1, 0]
    assert list(turns.text) == [0, 1, 0]
    found = mine_rows(turns, np.array([1, 5, 4], dtype=np.int8))
    assert list(found.signals) == [2]
    assert (found.counts.partly, found.counts.missing, found.counts.mined) == (1, 1, 1)


def test_what_is_no_log_is_refused():
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(MiningError, match="differ in length"):
        JudgedTurns.of([1, 1], [0, 1], ["a", "b"], rows)
    with pytest.raises(MiningError, match="are apart"):
        JudgedTurns.of([1, 2, 1], [0, 0, 1], ["a", "b", "c"], rows)
    with pytest.raises(MiningError, match="for 2 conversations"):
        JudgedTurns.of([1, 2, 2], [0, 0, 1], ["a", "b", "c"], rows, finished=[True])
    turns = JudgedTurns.of([1, 2, 2], [0, 0, 1], ["a", "b", "c"], rows)
    ones = np.ones(3, dtype=np.int8)
    for settings, words in (
        ({"rule": "best"}, "rule is"),
        ({"max_irrelevant": 4}, "max_irrelevant is 4"),
        ({"ratio": 0}, "ratio is 0"),
    ):
        with pytest.raises(MiningError, match=words):
            mine_rows(turns, ones, **settings)
    with pytest.raises(MiningError, match="2 scores for 3"):
        mine_rows(turns, ones[:2])


def test_an_empty_log_gives_nothing():
    turns = JudgedTurns.of([], [], [], np.zeros((0, 4), dtype=np.float32))
    found = mine_rows(turns, np.zeros(0, dtype=np.int8))
    assert (len(found.signals), len(found.anti_signals), found.counts.conversations) == (0, 0, 0)
    assert found.conflicts.shape == (0, 2)
    states = mine_state_rows(turns, np.zeros(0, dtype=np.int8))
    assert len(states.signals) == 0
    hunted = hunt_rows(turns, np.zeros(0, dtype=np.int8), np.eye(4)[:1], np.eye(4)[1:2])
    assert hunted.reason == "quiet"


# -------------------------------------------------------------------------------------------------------------- the cap
def test_the_cap_keeps_what_is_asked_for_first_and_spreads_the_rest():
    n = 40
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(2 * n, 4)).astype(np.float32)
    turns = JudgedTurns.of(np.repeat(np.arange(n), 2), np.tile([0, 1], n), np.arange(2 * n), vectors)
    scores = np.tile(np.array([1, 5], dtype=np.int8), n)
    order = np.ones(2 * n, dtype=np.int8)
    order[[5, 79]] = 0
    order[1:20] = 2  # nobody wants these
    order[5] = 0
    found = mine_rows(turns, scores, most=10, order=order, ratio=2)
    assert len(found.signals) == 10
    assert {5, 79} <= set(found.signals)
    assert list(found.signals) == sorted(found.signals)
    assert found.left == n - 10
    assert len(found.anti_signals) == 20
    assert set(found.signals[1:]) <= set(range(20, 2 * n))
    assert np.diff(found.signals[1:]).max() < 12  # spread over the log, not its beginning
    few = mine_rows(turns, scores, most=1, order=order)
    assert list(few.signals) == [5]
    assert len(mine_rows(turns, scores, most=0).signals) == 0
    assert len(mine_rows(turns, scores, most=3).signals) == 3
    assert set(found.nearest) <= set(found.signals)


def test_a_capped_state_recipe_names_each_message_once():
    turns = JudgedTurns.of([1, 2, 3], [0, 0, 0], ["a", "a", "b"], np.eye(3, dtype=np.float32))
    scores = np.array([5, 5, 1], dtype=np.int8)
    assert list(mine_state_rows(turns, scores).signals) == [0, 1]
    assert list(mine_state_rows(turns, scores, most=5).signals) == [0]


# ----------------------------------------------------------------------------------------------------- near-duplicates
def test_near_duplicates_are_chained_and_numbered_in_order():
    def at(degrees):
        return [np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]

    rows = np.array([at(0), at(90), at(15), at(30), at(92)])
    # cos 15° = .966: 0, 15 and 30 make a chain although 0 and 30 are apart (cos 30° = .866).
    assert list(near_duplicates(rows)) == [0, 1, 0, 0, 1]
    assert (
        list(near_duplicates(rows, bound=0.9999)) == [0, 1, 2, 3, 1]
        or len(set(near_duplicates(rows, bound=0.9999))) >= 4
    )
    assert len(near_duplicates(np.zeros((0, 2)))) == 0
