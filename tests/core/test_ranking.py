"""Worlds, ranks, prior and gate against the cases worked out by hand (TRACES X21 to X32, X42, X48, X49)."""

import math

import numpy as np
import pytest

from sq_core.ranking.copying import copied_first, copy_scores
from sq_core.ranking.metrics import Scorecard, ranks, reciprocal, scorecard
from sq_core.ranking.prior import (
    FixedGate,
    LearnedGate,
    TunedGate,
    base_rate_log_odds,
    centred_log_counts,
    count_targets,
    margins,
    tune_gate,
)
from sq_core.ranking.worlds import Columns, all_splits, columns_of, train_split, vocabulary
from tests.core.test_causal import row

P = (1.15525, -0.23105, -0.92420)


def rows_of(*targets, tool="a", **more):
    return [row(row_id=f"{tool}{at}", tool=tool, target=each, **more) for at, each in enumerate(targets)]


def card(found, rows, world="train_split"):
    return scorecard(np.array(found), rows, method="m", world=world, pool="tool", target_mode="whole")


# --------------------------------------------------------------------------------------------------------------- prior
def test_x21_centred_log_counts():
    found = centred_log_counts([7, 1, 0], alpha=1)
    assert found == pytest.approx(P, abs=5e-6)
    assert found.sum() == pytest.approx(0)


def test_x22_a_prior_is_of_a_world():
    found = centred_log_counts([7, 1, 0, 0], alpha=1)
    assert found == pytest.approx((1.38629, 0, -0.69315, -0.69315), abs=5e-6)


def test_x23_without_counts_the_prior_is_silent():
    assert centred_log_counts([0, 0, 0]).tolist() == [0, 0, 0]
    state = np.array([[0.2, 0.5, 0.4]])
    counts = count_targets(rows_of("x", tool="seen"), ["x", "y", "z"])
    silent = counts.prior(rows_of("y", tool="unseen"), np.ones((1, 3), dtype=bool))
    assert (state + 7.0 * silent).tolist() == state.tolist()


@pytest.mark.parametrize(
    ("gate", "expected", "first"),
    [(0.5, (0.77762, 0.38448, -0.06210), 0), (0.05, (0.25776, 0.48845, 0.35379), 1)],
)
def test_x24_the_gate_decides_who_is_first(gate, expected, first):
    state, prior = np.array([[0.2, 0.5, 0.4]]), centred_log_counts([7, 1, 0], alpha=1)
    weight = FixedGate(gate).weights(state, np.ones((1, 3), dtype=bool))
    found = state[0] + weight[0] * prior
    assert found == pytest.approx(expected, abs=5e-6)
    assert int(np.argmax(found)) == first


def test_x24_where_they_cross():
    prior = centred_log_counts([7, 1, 0], alpha=1)
    assert (0.5 - 0.2) / (prior[0] - prior[1]) == pytest.approx(0.21640, abs=5e-6)


def test_x25_the_learned_gate_reads_the_margin():
    gate = LearnedGate(1.0, 0.0, -10.0)
    assert gate.at([0.1, 0.0]) == pytest.approx((0.26894, 0.5), abs=5e-6)
    state, allowed = np.array([[0.5, 0.4, 0.9], [0.2, 0.1, 0.0]]), np.array([[True, True, False], [True, False, False]])
    assert margins(state, allowed) == pytest.approx((0.1, 0.0))
    assert margins(state[:, :1], allowed[:, :1]).tolist() == [0, 0]
    assert gate.weights(state, allowed) == pytest.approx((0.26894, 0.5), abs=5e-6)
    assert gate.describe() == {"maximum": 1.0, "w0": 0.0, "w1": -10.0}
    assert FixedGate(0.1).describe() == {"lambda": 0.1}


@pytest.mark.parametrize(("counts", "alpha"), [([1, 2], 0), ([1, -1], 0.5), ([1], float("nan"))])
def test_x26_impossible_counts(counts, alpha):
    with pytest.raises(ValueError, match="expected > 0"):
        centred_log_counts(counts, alpha)


def test_x27_counts_are_of_training_rows_alone():
    train, test = rows_of("x", "x", "y"), rows_of("z", "x")
    words = vocabulary([*train, *test])
    both = count_targets(train, words)
    alone = count_targets(train, words)  # the test rows deleted
    assert both.of("a").tolist() == alone.of("a").tolist() == [2, 1, 0]
    assert both.total.tolist() == [2, 1, 0]
    assert both.of("never").tolist() == [0, 0, 0]


def test_the_tuned_gate_takes_the_smaller_of_equals_and_can_turn_the_prior_off():
    assert tune_gate(lambda value: 0.5, (0.1, 0.0, 0.2)) == TunedGate(0.0)
    assert tune_gate(lambda value: value, (0.0, 0.1)).value == 0.1
    assert (TunedGate(0.0).kind, FixedGate(0.0).kind, LearnedGate(1, 0, 0).kind) == ("tuned", "fixed", "learned")
    with pytest.raises(ValueError, match="must contain 0"):
        tune_gate(lambda value: value, (0.1,))


def test_x48_the_base_rate_of_a_policy():
    assert base_rate_log_odds(9, 90, alpha=1) == pytest.approx(math.log(10 / 82)) == pytest.approx(-2.10413, abs=5e-6)
    with pytest.raises(ValueError, match="expected 0"):
        base_rate_log_odds(10, 9)


def test_x49_another_policy_changes_no_ones_base_rate():
    """The centred form couples candidates; the log-odds of one policy see that policy alone."""
    judged = {"refund": (9, 90), "baggage": (3, 90)}
    before = {key: base_rate_log_odds(*counts) for key, counts in judged.items()}
    judged["pets"] = (40, 90)
    after = {key: base_rate_log_odds(*counts) for key, counts in judged.items()}
    assert {key: after[key] for key in before} == before
    two, three = (centred_log_counts([counts[0] for counts in list(judged.values())[:n]]) for n in (2, 3))
    assert three[0] != two[0]


# ------------------------------------------------------------------------------------------------------ worlds, ranks
def test_x28_a_miss_stays_in_every_denominator():
    found = card([1, 2, math.inf, 4], rows_of("w", "x", "y", "z"))
    assert found.mrr == 0.4375
    assert found.mrr_covered == pytest.approx(0.58333, abs=5e-6)
    assert dict(card([1, 2, math.inf, 4], rows_of(*"wxyz")).recall_at)[1] == 0.25
    two = scorecard(np.array([1, 2, math.inf, 4]), rows_of(*"wxyz"), method="m", world="train_split", pool="tool",
                    target_mode="whole", recall_at=(2,))  # fmt: skip
    assert two.recall_at == ((2, 0.5),)
    assert found.ndcg_at_10 == pytest.approx(0.51540, abs=5e-6)
    assert found.coverage == 0.75


def columns(*targets, siblings=(), n=3):
    mask = np.zeros((len(targets), n), dtype=bool)
    for at, column in siblings:
        mask[at, column] = True
    return Columns(np.array(targets), mask)


def test_x29_ties_share_the_middle_rank():
    scores = np.full((3, 3), 0.4)
    found = ranks(scores, columns(0, 1, 2), np.ones((3, 3), dtype=bool))
    assert found.tolist() == [2, 2, 2]
    assert reciprocal(found).tolist() == [0.5, 0.5, 0.5]
    nearly = scores + np.array([[0, 1e-12, -1e-12]])
    assert ranks(nearly, columns(0, 1, 2), np.ones((3, 3), dtype=bool)).tolist() == [2, 2, 2]


def test_x30_siblings_are_taken_out_first():
    found = ranks(np.array([[0.9, 0.8, 0.1]]), columns(1, siblings=[(0, 0)]), np.ones((1, 3), dtype=bool))
    assert found.tolist() == [1]


def test_x31_coverage_is_of_the_world():
    rows = rows_of("A", "B", "A", "C", "C")
    words = vocabulary(rows)
    test = rows[2:]
    where = columns_of(test, words)
    for world, coverage in (
        (train_split(rows, [0, 1], words, pool="tool"), 1 / 3),
        (all_splits(rows, words, pool="tool"), 1),
    ):
        found = ranks(np.zeros((3, 3)), where, world.allowed(test))
        assert card(found, test, world.name).coverage == pytest.approx(coverage)
    assert train_split(rows, [0, 1], words, pool="global").size == 2


def test_x32_an_unseen_tool_misses_every_row():
    rows = [*rows_of("A"), *rows_of("A", "A", tool="b")]
    words = vocabulary(rows)
    world = train_split(rows, [0], words, pool="tool")
    found = ranks(np.zeros((2, 1)), columns_of(rows[1:], words), world.allowed(rows[1:]))
    made = card(found, rows[1:])
    figures = (made.coverage, made.mrr, made.ndcg_at_10, made.mrr_covered, *(share for _, share in made.recall_at))
    assert set(figures) == {0.0}
    # In the global pool the same target is a candidate.
    wide = train_split(rows, [0], words, pool="global").allowed(rows[1:])
    assert ranks(np.zeros((2, 1)), columns_of(rows[1:], words), wide).tolist() == [1, 1]
    assert world.allowed([]).shape == (0, 1)
    assert card([], []).coverage == 0.0


def test_no_scorecard_without_coverage_and_no_row_dropped():
    assert {"coverage", "world", "pool", "target_mode", "rows", "sessions", "groups"} <= set(Scorecard.__slots__)
    with pytest.raises(TypeError, match="coverage"):
        Scorecard("m", "train_split", "tool", "whole", 1, 1, 1, mrr=1.0, recall_at=(), ndcg_at_10=0.0, mrr_covered=0.0)
    with pytest.raises(AssertionError, match="2 ranks for 1 rows"):
        card([1, 2], rows_of("x"))
    with pytest.raises(AssertionError, match="missing from all_splits"):
        card([math.inf], rows_of("x"), "all_splits")
    with pytest.raises(AssertionError, match="exceeds the coverage"):
        Scorecard("m", "train_split", "tool", "whole", 1, 1, 1, 0.5, 0.6, (), 0.0, 0.0)
    with pytest.raises(AssertionError, match="coverage is 2"):
        Scorecard("m", "train_split", "tool", "whole", 1, 1, 1, 2, 0.6, (), 0.0, 0.0)
    assert "coverage 1.000; 1 rows, 1 sessions, 1 groups" in str(card([1], rows_of("x")))


def test_a_target_must_be_in_the_vocabulary():
    with pytest.raises(ValueError, match="its target is not in the vocabulary of 1"):
        columns_of(rows_of("x"), ["y"])
    found = columns_of(rows_of("x", siblings=("y", "never")), ["x", "y"])
    assert found.positives.tolist() == [[True, True]]


# ---------------------------------------------------------------------------------------------------------------- copy
def test_x42_the_latest_verbatim_candidate_is_first():
    scores = copy_scores(["order 8JX2WO and then Q69X3R"], ["8jx2wo", "AAAAAA", "Q69X3R"])
    assert np.argsort(-scores[0]).tolist() == [2, 0, 1]
    assert copied_first(scores, np.array([[0.9, 0.8, 0.1]]))[0] == pytest.approx((8 + 6 / 7, 0.8, 24 + 6 / 7))
    assert copy_scores([], ["x"]).shape == (0, 1)
    # Of two that begin at one place the longer one was meant.
    assert np.argmax(copy_scores(["id 12"], ["1", "12"])[0]) == 1
