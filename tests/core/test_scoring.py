"""The margin by hand, its ties, and that its three paths agree bit for bit whatever is scored beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core import scoring
from sq_core.classifier import Classifier, ViewKind
from sq_core.scoring import (
    PRESETS,
    Margin,
    Pooling,
    ScoringError,
    Views,
    ViewTable,
    cut_off,
    dot_table,
    exact_dots,
    fires,
    margin,
    margins,
    round_margin,
    state_margins,
)

CUM, TURN = ViewKind.CUMULATIVE, ViewKind.USER_TURN
W = Classifier(np.array([1.0, 0.0], dtype=np.float32), bias=-0.25)


def views(turns: list[float], cumulative: float | None = None) -> Views:
    """Views whose dot products with `W` are the numbers given."""
    rows = [[value, 0.0] for value in turns] + ([] if cumulative is None else [[cumulative, 0.0]])
    kinds = (TURN,) * len(turns) + (() if cumulative is None else (CUM,))
    index = (*range(len(turns)), *(() if cumulative is None else (len(turns) - 1,)))
    return Views(np.array(rows, dtype=np.float32).reshape(len(rows), 2), kinds, index)


def told(result: Margin) -> list[tuple[ViewKind, int, float, float]]:
    return [(term.kind, term.user_turn, term.weight, term.value) for term in result.views]


def test_the_max_takes_one_view_and_names_it() -> None:
    result = margin(W, views([0.5, 0.75, 0.0], cumulative=0.25))
    assert result.value == 0.5
    assert told(result) == [(TURN, 1, 1.0, 0.75)]
    assert [term.value for term in result.all_values] == [0.5, 0.75, 0.0, 0.25]
    assert [term.weight for term in result.all_values] == [0.0, 1.0, 0.0, 0.0]


def test_ties_go_to_the_latest_user_turn_and_to_the_prefix_last() -> None:
    assert told(margin(W, views([0.5, 0.5], cumulative=0.5))) == [(TURN, 1, 1.0, 0.5)]
    assert told(margin(W, views([0.5, 0.25], cumulative=0.5))) == [(TURN, 0, 1.0, 0.5)]
    assert told(margin(W, views([0.25], cumulative=0.5))) == [(CUM, 0, 1.0, 0.5)]


def test_the_mean_weighs_every_view_equally() -> None:
    result = margin(W, views([0.5, 0.25], cumulative=0.75), Pooling(mode="mean"))
    assert result.value == 0.25
    assert [term.weight for term in result.views] == [1 / 3] * 3
    assert math.fsum(term.weight * term.value for term in result.views) + W.bias == pytest.approx(result.value)


def test_age_discounts_a_user_turn_and_not_the_prefix() -> None:
    result = margin(W, views([0.75, 0.5], cumulative=0.25), Pooling(age_discount=0.5))
    assert told(result) == [(TURN, 1, 1.0, 0.5)]
    assert [term.value for term in result.all_values] == [0.25, 0.5, 0.25]
    assert [term.discount for term in result.all_values] == [0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("both", 0.9), ("cumulative", 0.3), ("max-over-turns", 0.9), ("cumulative+latest", 0.3), ("windowed", 0.5)],
)
def test_presets(name: str, value: float) -> None:
    state = views([0.9, 0.4, 0.5, 0.2], cumulative=0.3)
    assert margin(W, state, PRESETS[name]).value == pytest.approx(value - 0.25, abs=1e-6)


def test_only_the_prefix_of_the_state_itself_counts() -> None:
    both = Views(np.array([[0.9, 0], [0.2, 0], [0.1, 0]], dtype=np.float32), (CUM, CUM, TURN), (0, 1, 1))
    assert told(margin(W, both))[0][:2] == (CUM, 1)


def test_a_margin_is_rounded_and_never_negative_zero() -> None:
    assert str(float(round_margin(-1e-9))) == "0.0"
    assert round_margin([0.1234564, 0.1234566]).tolist() == [0.123456, 0.123457]
    for bad in (math.nan, math.inf):
        with pytest.raises(ScoringError, match="NaN"):
            round_margin(bad)


def test_it_fires_strictly_above() -> None:
    assert not fires(0.3, cut_off(0.1, 0.2))
    assert fires(0.300001, cut_off(0.1, 0.2))
    assert not fires(0.8, cut_off(0.1, 0.7))
    assert str(cut_off(-0.1, 0.1)) == "0.0"


@pytest.mark.parametrize(
    "pooling", [*PRESETS.values(), Pooling(mode="mean", last=2, cumulative=False, age_discount=0.3)]
)
def test_pooling_json_round_trip(pooling: Pooling) -> None:
    assert Pooling.from_json(pooling.to_json()) == pooling


def test_pooling_json_as_the_contract_writes_it() -> None:
    assert Pooling().to_json() == {"mode": "max", "views": ["cumulative", "user_turns"], "age_discount": 0.0}
    assert Pooling(last=1).to_json()["views"] == ["cumulative", {"last": 1}]
    assert Pooling.from_json({}) == Pooling()


@pytest.mark.parametrize(
    "record",
    [
        {"mode": "median"},
        {"views": []},
        {"views": ["cumulative", "everything"]},
        {"views": [{"last": 0}]},
        {"views": [{"last": "2"}]},
        {"views": [{"last": 1}, {"last": 2}]},
        {"age_discount": -1},
        {"age_discount": math.nan},
        {"pool": "max"},
    ],
)
def test_bad_poolings_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ScoringError, match=r"expected|no views"):
        Pooling.from_json(record)


def test_a_window_needs_user_turns() -> None:
    with pytest.raises(ScoringError, match="user turns on"):
        Pooling(user_turns=False, last=2)


def test_vectors_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ScoringError, match="same last dimension"):
        exact_dots(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ScoringError, match=r"expected \(v, d\)"):
        Views(np.ones((2, 3), dtype=np.float32), (TURN,), (0,))
    with pytest.raises(ScoringError, match="no view to score"):
        margin(W, views([0.5]), Pooling(user_turns=False))
    assert Views(np.ones((0, 3), dtype=np.float32), (), ()).turn == -1


def test_plain_rows_are_user_turns() -> None:
    state = Views.of_turns(np.ones((2, 3)))
    assert state.kind == (TURN, TURN)
    assert state.user_turn == (0, 1)
    assert state.vectors.dtype == np.float32


# ---------------------------------------------------------------------------------------------------- bits, and tables
def table_of(counts: list[int], dimension: int, seed: int) -> ViewTable:
    """One conversation for each count, unit vectors, some of them equal."""
    rng = np.random.default_rng(seed)
    total = sum(counts)

    def unit() -> np.ndarray:
        rows = rng.normal(size=(total, dimension)).astype(np.float32)
        rows[rng.random(total) < 0.2] = rows[0]
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    conversation = np.repeat(np.arange(len(counts)), counts) * 7
    turn = np.concatenate([np.arange(count) for count in counts])
    return ViewTable(unit(), unit(), conversation, turn, conversation, turn)


POOLINGS = st.builds(
    Pooling,
    mode=st.sampled_from(["max", "mean"]),
    cumulative=st.booleans(),
    user_turns=st.just(True),
    last=st.none() | st.integers(1, 3),
    age_discount=st.sampled_from([0.0, 0.1, 0.37]),
) | st.just(Pooling(user_turns=False))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.sampled_from([1, 3, 128, 129, 384]),
    st.integers(0, 10**6),
    POOLINGS,
)
def test_the_three_paths_agree_bit_for_bit(counts: list[int], dimension: int, seed: int, pooling: Pooling) -> None:
    table = table_of(counts, dimension, seed)
    rng = np.random.default_rng(seed + 1)
    classifiers = [Classifier(rng.normal(size=dimension).astype(np.float32), float(rng.normal())) for _ in range(3)]
    weights = np.array([classifier.weights for classifier in classifiers])
    biases = np.array([classifier.bias for classifier in classifiers])
    columns = [state_margins(c.weights, c.bias, table, pooling) for c in classifiers]
    for state in range(len(table)):
        at = table.views(state)
        together = margins(weights, biases, at, pooling)
        for number, classifier in enumerate(classifiers):
            alone = margin(classifier, at, pooling)
            assert alone.value == together[number] == columns[number][state]
            total = math.fsum(term.weight * term.value for term in alone.views) + classifier.bias
            assert abs(total - alone.value) <= 5.1e-7


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 7, 128, 384, 1536]), st.integers(0, 10**6))
def test_a_dot_product_does_not_know_its_neighbours(n: int, v: int, dimension: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n, dimension)).astype(np.float32)
    vectors = rng.normal(size=(v, dimension)).astype(np.float32)
    whole = dot_table(weights, vectors)
    for row in range(n):
        for column in range(v):
            pair = np.dot(weights[row].astype(np.float64), vectors[column].astype(np.float64))
            assert whole[row, column] == pair == dot_table(weights[row:][:1], vectors[column:][:1])[0, 0]
    # nor the layout of the arrays it is taken from
    assert (dot_table(np.asfortranarray(weights), vectors[:, ::-1][:, ::-1]) == whole).all()


def test_long_conversations_are_scored_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of([9, 1, 30, 2], 8, seed=3)
    weights = np.arange(8, dtype=np.float32)
    expected = state_margins(weights, 0.5, table)
    monkeypatch.setattr("sq_core.scoring._CHUNK", 16)
    assert (state_margins(weights, 0.5, table) == expected).all()


def test_tables_of_no_state_and_states_without_turns() -> None:
    none = np.empty(0, dtype=np.int64)
    rows = np.empty((0, 2), dtype=np.float32)
    empty = ViewTable(rows, rows, none, none, none, none)
    assert state_margins(W.weights, 0.0, empty).shape == (0,)
    assert len(empty) == 0
    zero = np.zeros(1, dtype=np.int64)
    lone = ViewTable(np.ones((1, 2), dtype=np.float32), rows, zero, zero, none, none)
    assert state_margins(W.weights, -0.25, lone).tolist() == [0.75]
    with pytest.raises(ScoringError, match="no view to score"):
        state_margins(W.weights, 0.0, lone, Pooling(cumulative=False))


def test_tables_must_be_sorted_and_whole() -> None:
    rows, zeros, ones = np.ones((2, 2), dtype=np.float32), np.zeros(2, dtype=np.int64), np.arange(2)
    for conversation, turn in ((ones[::-1], ones), (zeros, ones[::-1]), (zeros, zeros)):
        with pytest.raises(ScoringError, match="not sorted"):
            ViewTable(rows, rows, conversation, turn, zeros, ones)
    with pytest.raises(ScoringError, match="different lengths"):
        ViewTable(rows, rows, zeros, ones, zeros[:1], ones)


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 200))
def test_chunks_hold_as_many_states_as_fit_and_every_state_once(counts: list[int], room: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scoring, "_CHUNK", room)
        found = list(scoring._chunks(counts))
    assert [place for start, stop in found for place in range(start, stop)] == list(range(len(counts)))
    for start, stop in found:
        wide = max(1, *counts[start:stop])
        assert stop - start == 1 or (stop - start) * wide <= room
        if stop < len(counts):  # one more would be too much
            assert (stop + 1 - start) * max(wide, counts[stop]) > room
