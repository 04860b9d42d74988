"""The array path decides exactly what the exact margins decide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.scoring import Pooling, ScoringError, Views, margins
from sq_core.turn_scorer import RunningScores, TurnScorer


def unit(rng, n, d=24):
    rows = rng.normal(size=(n, d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_it_fires_what_the_exact_margin_fires(seed, turns):
    rng = np.random.default_rng(seed)
    weights, biases, views = unit(rng, 7) * 3, rng.normal(size=7), unit(rng, turns)
    exact = margins(weights, biases, Views.of_turns(views), Pooling(cumulative=False))
    cutoffs = exact.copy()
    cutoffs[::2] -= 1e-6  # on the very edge: equal does not fire, one step above does
    found = TurnScorer(weights, biases, cutoffs)(views)
    assert (found.fired == (exact > cutoffs)).all()
    assert found.margins == pytest.approx(exact, abs=1e-5)
    assert found.fired.tolist() == [True, False] * 3 + [True]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5), st.booleans())
def test_a_session_answers_as_one_state_does(seed, turns, edge):
    rng = np.random.default_rng(seed)
    weights, biases = unit(rng, 6) * 2, rng.normal(size=6)
    own, whole = unit(rng, turns), unit(rng, turns)
    state = np.concatenate((own[::-1], whole[-1:]))
    exact = margins(weights, biases, Views.of_turns(state), Pooling(cumulative=False))
    scorer = TurnScorer(weights, biases, exact if edge else 0.0)
    running = RunningScores(scorer)
    for user_turn, cumulative in zip(own, whole, strict=True):
        last = running.add(user_turn, cumulative)
    once = scorer(state)
    assert (last.fired == once.fired).all()
    assert last.margins == pytest.approx(once.margins, abs=1e-5)
    assert (last.view == np.where(once.view == turns, -1, turns - 1 - once.view)).all()


def test_shapes_are_checked_and_nan_is_refused():
    scorer = TurnScorer(np.eye(2), 0.0)
    with pytest.raises(ScoringError, match=r"expected \(v, 2\)"):
        scorer(np.ones((1, 3), dtype=np.float32))
    with pytest.raises(ScoringError, match="v ≥ 1"):
        scorer(np.ones((0, 2), dtype=np.float32))
    with pytest.raises(ScoringError, match=r"expected \(N, d\)"):
        TurnScorer(np.ones(3), 0.0)
    with pytest.raises(ScoringError, match="NaN"):
        scorer(np.array([[np.nan, 0.0]]))
