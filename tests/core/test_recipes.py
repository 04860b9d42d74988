"""Mining of judged states, weights of exemplars, pooling of any kind, and the named recipes."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from sq_core.evaluation.baselines import linear, max_over_views, pooled_views
from sq_core.evaluation.data import EvaluationError
from sq_core.evaluation.protocols import mined
from sq_core.evaluation.recipes import (
    RECIPES,
    cross_fitted,
    default_recipe,
    fitted_scores,
    recipe_exemplars,
    recipe_scorer,
    rubric_of,
)
from sq_core.evaluation.splits import LeakageError, assert_no_leak, scenario_folds, split_half
from sq_core.fitting import FitError, fit_classifier
from sq_core.mining import JudgedConversation, MiningError
from sq_core.mining_states import StateConversation, mine_states
from sq_core.scoring import PRESETS, Pooling, state_margins
from tests.core.toy_set import make_set

X, Y, Z = np.eye(3)


def conversation(scores, texts=None, vectors=None, name="c"):
    n = len(scores)
    texts = texts or [f"{name} says {i}" for i in range(n)]
    rows = np.array(vectors if vectors is not None else [X] * n, dtype=np.float32)
    return StateConversation(JudgedConversation(name, name, tuple(texts), rows, tuple(scores)), rows[:, [1, 0, 2]])


def test_every_judged_state_is_an_exemplar_by_its_own_score():
    found = mine_states([conversation([5, 4, 3, 2, 1, None])])
    assert [(e.user_turn, e.score, e.weight) for e in found.signals] == [(0, 5, 1.0), (1, 4, 0.25)]
    assert [(e.user_turn, e.weight) for e in found.anti_signals] == [(3, 0.25), (4, 1.0)]
    assert (found.unjudged, found.enough(2, 2), found.enough()) == (1, True, False)
    assert found.signals[0].vector.tolist() == [0.5, 0.5, 0.0]  # the mean of both views
    assert all(e.label_horizon == e.user_turn for e in found.signals)


def test_the_nearest_irrelevant_states_are_kept():
    near, far = (0.8, 0.6, 0.0), (0.0, 0.0, 1.0)
    found = mine_states([conversation([5, 1, 1, 1], vectors=[X, far, near, Y])], ratio=2)
    assert [e.user_turn for e in found.anti_signals] == [2, 1]
    assert [e.similarity for e in found.anti_signals] == pytest.approx([0.8, 0.0])


def test_a_message_that_is_a_signal_is_no_anti_signal():
    found = mine_states([conversation([5, 1, 1, 1], texts=["yes", "yes", "no", "no"])])
    assert [e.text for e in found.anti_signals] == ["no"]
    assert [(c.text, c.signal, c.anti_signal) for c in found.conflicts] == [("yes", ("c", 0), ("c", 1))]


def test_nothing_relevant_gives_nothing():
    found = mine_states([conversation([1, 2, 3])])
    assert (found.signals, found.anti_signals) == ((), ())


def test_bad_settings_are_refused():
    with pytest.raises(MiningError, match="max_irrelevant is 4"):
        mine_states([], max_irrelevant=4)
    with pytest.raises(MiningError, match="ratio is 0"):
        mine_states([], ratio=0)
    with pytest.raises(MiningError, match="2 prefixes and 1 user turns"):
        StateConversation(conversation([5]).judged, np.eye(2))


def test_weighted_fit_is_scikit_learns():
    rng = np.random.default_rng(0)
    up, down = rng.normal(0.3, 1, (6, 4)), rng.normal(-0.3, 1, (9, 4))
    weights = rng.uniform(0.2, 2, 15)
    fit = fit_classifier(up, down, 3.0, exemplar_weights=weights)
    theirs = LogisticRegression(C=3.0, tol=1e-12, max_iter=10_000).fit(
        np.concatenate((up, down)), [1] * 6 + [0] * 9, sample_weight=weights
    )
    assert fit.weights == pytest.approx(theirs.coef_[0], abs=1e-5)
    balanced = fit_classifier(up, down, class_weight="balanced", exemplar_weights=weights)
    assert balanced.sample_weights[:6].sum() == pytest.approx(balanced.sample_weights[6:].sum())
    assert balanced.sample_weights.sum() == pytest.approx(weights.sum())
    assert balanced.weights == pytest.approx(balanced.alphas @ np.concatenate((up, down)))
    same = fit_classifier(up, down, class_weight="balanced", exemplar_weights=np.ones(15))
    assert (same.weights == fit_classifier(up, down, class_weight="balanced").weights).all()


@pytest.mark.parametrize("weights", [[1.0, 0.0], [1.0, np.nan], [1.0]])
def test_bad_exemplar_weights_are_refused(weights):
    with pytest.raises(FitError, match="one positive number each"):
        fit_classifier([X], [Y], exemplar_weights=weights)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([*PRESETS.values(), Pooling(mode="mean"), Pooling(cumulative=False, last=2, age_discount=0.3)]),
    st.integers(0, 5),
)
def test_any_pooling_scores_as_the_product_does(pooling, seed):
    data, weights = make_set(scenarios=3, seed=seed), np.random.default_rng(seed).normal(size=24).astype(np.float32)
    scores = pooled_views(data.table, linear([weights], [0.25]), pooling)
    assert scores[:, 0] == pytest.approx(state_margins(weights, 0.25, data.table, pooling), abs=1e-6)


def test_both_is_the_max_over_views():
    data = make_set(scenarios=4)
    scorer = linear([np.arange(24.0), None], [0.5, 0.0])
    assert (pooled_views(data.table, scorer, PRESETS["both"]) == max_over_views(data.table, scorer)).all()


def test_what_is_fitted_is_what_is_scored():
    """The margin of a mined state under ``mean-latest`` is w·vector + b of its exemplar."""
    data = make_set()
    split = split_half(data, 0)
    recipe = RECIPES["sq-mined-states"]
    own = [recipe_exemplars(data, split, recipe, j) for j in range(4)]
    scores = pooled_views(data.table, recipe_scorer(recipe, own), recipe.pooling)
    fit = fit_classifier(own[0].signals, own[0].anti_signals, recipe.C, "balanced", exemplar_weights=own[0].weights)
    first = split.states[0].signals[0]
    at = np.flatnonzero(
        (data.table.state_conversation == int(first.conversation)) & (data.table.state_turn == first.user_turn)
    )
    assert scores[at, 0] == pytest.approx(first.vector @ fit.weights + fit.bias)
    assert own[3] is None
    assert np.isneginf(scores[:, 3]).all()


def test_the_rubric_chooses_the_default():
    assert default_recipe(rubric_of("as-judged")) == "sq-mined-states"
    assert default_recipe(rubric_of("running-max")) == "sq-mined-transition"
    with pytest.raises(EvaluationError, match="rubric is 'loose'"):
        default_recipe("loose")
    rows = mined(make_set(), seeds=[0], methods=["sq-mined-transition", "sq-mined-states"], rubric="sticky")
    assert {row["recipe"] for row in rows if row["method"] == "sq-mined"} == {"sq-mined-transition"}


def test_cut_offs_from_the_mining_half_come_with_what_they_realised():
    rows = mined(make_set(), seeds=[0], methods=["sq-mined-states"], cut_offs=True)
    row = next(row for row in rows if row["world"] == "fitted")
    assert 0.5 < row["mining_recall"] <= 1.0
    assert 0.0 < row["mining_kept"] < 1.0
    assert np.isfinite(row["mining_theta"])


def test_cross_fitting_never_scores_a_scenario_it_was_mined_from():
    data = make_set()
    recipe, every = RECIPES["sq-mined-states"], np.ones(4, dtype=bool)
    scores, inside = cross_fitted(data, frozenset(data.scenario), recipe, every, folds=4)
    assert inside.all()
    part = scenario_folds(sorted(set(data.scenario)), 4)[0]
    rows = np.array([name in part for name in data.scenario])
    # Changing the judgements of a fold changes no score of that fold.
    changed = dataclasses.replace(data, scores=np.where(rows[:, None], 1, data.scores))
    again, _ = cross_fitted(changed, frozenset(data.scenario), recipe, every, folds=4)
    assert (again[rows] == scores[rows]).all()
    assert (again[~rows] != scores[~rows]).any()


def test_states_stand_behind_the_fence_too():
    data = make_set()
    split = split_half(data, 0)
    assert np.isfinite(
        fitted_scores(data, split, RECIPES["sq-mined-states"], np.array([True, True, False, True]))
    ).any()
    none = tuple(dataclasses.replace(each, signals=(), anti_signals=()) for each in split.paper)
    leaky = dataclasses.replace(split, paper=none, ours=none, wide=none, held_out=~split.held_out)
    with pytest.raises(LeakageError):
        assert_no_leak(data, leaky)


def test_a_cosine_needs_no_anti_signals():
    data = make_set()
    alone = tuple(dataclasses.replace(each, anti_signals=each.anti_signals[:0]) for each in data.generated)
    rows = mined(dataclasses.replace(data, generated=alone), seeds=[0], methods=["cosine-signals", "sq-generated"])
    area = {row["method"]: row["auprc"] for row in rows if row["world"] == "fitted"}
    assert area["cosine-signals"] > 0
    assert area["sq-generated"] == 0
