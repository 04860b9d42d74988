"""Each fence broken on purpose: θ on a scenario it is measured on, a centre that a conversation went into."""

from dataclasses import replace

import numpy as np
import pytest

from sq_core.embedding import make_centre
from sq_core.evaluation import protocols, realised
from sq_core.evaluation.data import LeakageError
from sq_core.evaluation.fence import (
    CentreLeakError,
    ThetaLeakError,
    assert_centre_of_texts,
    assert_pairs_fenced,
    assert_theta_apart,
)
from sq_core.evaluation.recipes import RECIPES
from sq_core.evaluation.splits import split_half
from tests.core.toy_set import make_set

DATA = make_set(scenarios=24)


def test_a_scenario_on_both_sides_is_named():
    assert_theta_apart(["a", "b"], ["c"])
    with pytest.raises(ThetaLeakError, match=r"scenario b and would be measured on it \(1 such\)"):
        assert_theta_apart(["a", "b"], ["b", "c"])
    assert issubclass(ThetaLeakError, LeakageError)


def test_a_cut_off_of_the_mining_half_is_not_measured_on_it():
    split = split_half(DATA, 0)
    columns = np.ones(len(DATA.artifacts), dtype=bool)
    scores = np.zeros(DATA.scores.shape)
    recipe = RECIPES["sq-mined-states"]
    assert protocols._at_mining_cut_off(DATA, split, recipe, scores, columns)
    leaking = replace(split, held_out=np.ones_like(split.held_out))
    with pytest.raises(ThetaLeakError):
        protocols._at_mining_cut_off(DATA, leaking, recipe, scores, columns)


def test_a_promise_is_not_measured_where_it_was_made():
    table = realised._Table(np.zeros((4, 1)), np.ones((4, 1), dtype=bool), np.arange(4))
    half = np.array([True, True, False, False])
    assert realised._measured(table, half, ~half, 0.9, "target") is not None
    with pytest.raises(ThetaLeakError):
        realised._measured(table, half, np.ones(4, dtype=bool), 0.9, "target")


def test_a_pair_whose_scenario_gave_an_exemplar_is_named():
    judged = np.array([[True, True], [True, False]])
    scenario, names = np.array([0, 1]), ["one", "two"]
    assert_pairs_fenced(judged, scenario, names, [set(), {"two"}], ["a", "b"])
    with pytest.raises(ThetaLeakError, match="b: θ would be chosen on scenario one"):
        assert_pairs_fenced(judged, scenario, names, [set(), {"one", "two"}], ["a", "b"])


def test_a_centre_of_anything_but_its_texts_is_refused():
    rows = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    assert_centre_of_texts(make_centre(rows[:4]), rows[:4])
    with pytest.raises(CentreLeakError, match="not the mean of its 4 artifact texts"):
        assert_centre_of_texts(make_centre(rows), rows[:4])
