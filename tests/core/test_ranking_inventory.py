"""Inventory worlds and S&Q's own evidence (TRACES X44 to X55); X44 to X47 and X52 have their full tests elsewhere."""

import dataclasses

import numpy as np
import pytest

from sq_core.evaluation.controls import permutation_mean
from sq_core.evaluation.data import WORLDS
from sq_core.evaluation.heldout_policy import weight_digests
from sq_core.evidence.claims import ClaimError
from sq_core.evidence.plan import PlanError, parse_plan
from sq_core.evidence.sq import SqInputs, SqScores, difference, encoder_transfer, judge_ceiling, run_sq_evidence
from sq_core.mining import running_turn, transition_turn
from sq_core.ranking.inventory import inventory_card
from tests.core.toy_set import make_set

DATA = make_set()


@pytest.mark.parametrize(
    ("scores", "whole", "running"),
    [([2, 4, 3, 5], 4, 2), ([1, 5, 5], 2, 2), ([1, 2, 3], None, None), ([2, 4], 2, 2), ([2, 4, 5], 3, 2)],
)
def test_x44_to_x47_transition_turns_counted_from_one(scores, whole, running):
    found = [None if turn is None else turn + 1 for turn in (transition_turn(scores), running_turn(scores))]
    assert found == [whole, running]


def test_x50_an_artifact_without_a_version_is_a_miss():
    relevant, fitted, fired = (np.array([[letter in each for letter in "abcd"]]) for each in ("abc", "abd", "ad"))
    card = inventory_card(relevant, fired, fitted[0], list("abcd"))
    assert (card.recall, card.precision, card.coverage) == pytest.approx((1 / 3, 1 / 2, 2 / 3))
    assert card.macro_recall == pytest.approx(1 / 3)
    assert str(card).endswith("1 of 4 never occurred")
    with pytest.raises(ValueError, match="c has no version and fired"):
        inventory_card(relevant, relevant, fitted[0], list("abcd"))


def test_x51_an_artifact_that_never_occurs_has_no_recall():
    relevant = np.array([[True, False], [False, False]])
    card = inventory_card(relevant, relevant, np.ones(2, dtype=bool), ["a", "b"])
    assert (card.macro_recall, card.never_occurred) == (1.0, ("b",))
    none = inventory_card(relevant & False, relevant & False, np.ones(2, dtype=bool), ["a", "b"])
    assert (none.recall, none.precision, none.macro_recall, none.coverage) == (None, None, None, None)
    assert "recall none" in str(none)


def test_x52_chance_is_a_permutation_mean():
    labels = np.array([True] * 3 + [False] * 9)

    def average_precision(order):
        return float(np.mean((np.cumsum(order) / np.arange(1, 13))[order]))

    assert permutation_mean(average_precision, labels) == pytest.approx(0.39340, abs=5e-6)
    for cut in (1, 5, 12):
        assert permutation_mean(lambda order, cut=cut: float(order[:cut].mean()), labels) == pytest.approx(0.25)


def test_x53_without_one_policys_exemplars_all_others_keep_their_weights():
    before = weight_digests(DATA.generated)
    after = weight_digests((None, *DATA.generated[1:]))
    assert before[0] is not None
    assert after == [None, *before[1:]]


METHODS = ("sq-generated", "sq-mined-paper", "sq-mined-states")
SCORES = SqScores(DATA, "fake", METHODS)


def test_x54_the_same_encoder_twice_is_a_ratio_of_one():
    again = SqScores(DATA, "fake again", METHODS)
    for method in METHODS:
        for world in WORLDS:
            found = encoder_transfer(SCORES, again, method, world)
            assert found["ratio"] == 1.0
            if "theta" in found:
                assert found["carried_recall"] >= 0.9


def test_x55_a_judge_agrees_with_itself():
    found = judge_ceiling(DATA, DATA.scores)
    assert (found["precision"], found["recall"], found["pairs"]) == (1.0, 1.0, DATA.scores.size)
    other = DATA.scores.copy()
    other[0] = 0  # not judged a second time: counts nowhere
    other[1] = 1
    worse = judge_ceiling(DATA, other)
    assert worse["recall"] < 1
    assert worse["pairs"] == DATA.scores.size - 4


def test_worlds_have_their_coverage():
    three = dataclasses.replace(DATA, generated=(None, *DATA.generated[1:]))
    found = {world: SqScores(three, "fake", ("sq-generated",)).record("sq-generated", world) for world in WORLDS}
    assert found["unfitted-is-miss"]["coverage"] == found["fitted"]["coverage"] == pytest.approx(2 / 3)
    assert found["fitted"]["never_occurred"] == ["rare"]
    assert found["unfitted-is-miss"]["precision_at_r90"] is None  # a third of what occurs can never be found
    nothing = dataclasses.replace(DATA, generated=(None,) * 4)
    assert SqScores(nothing, "fake", ("sq-generated",)).record("sq-generated", "fitted")["auprc"] is None
    with pytest.raises(ClaimError, match="magic was not measured"):
        SCORES.table("magic", "fitted")


def test_both_ways_to_hold_theta_are_reported():
    reselect, fixed = difference(SCORES, "sq-generated", "sq-generated", "fitted", "precision_at_r90", draws=20, seed=0)
    assert (reselect.low, reselect.high, fixed.low, fixed.high) == (0, 0, 0, 0)
    assert difference(SCORES, *METHODS[:2], "fitted", "auprc", draws=20, seed=0)[1] is None
    with pytest.raises(ClaimError, match="figure is 'f1'"):
        difference(SCORES, *METHODS[:2], "fitted", "f1", draws=20, seed=0)


PLAN = """
name = "sq"
system = "sq"
draws = 20
methods = ["sq-generated", "sq-mined-paper", "sq-mined-states"]
rewriters = []
[[checks]]
id = "area"
kind = "clustered-difference"
a = "sq-mined-states"
b = "sq-generated"
[[checks]]
id = "r90"
kind = "clustered-difference"
a = "sq-mined-states"
b = "sq-generated"
world = "fitted"
figure = "precision_at_r90"
[[checks]]
id = "chance"
kind = "shuffled-judgements"
a = "sq-generated"
draws = 20
[[checks]]
id = "alone"
kind = "policy-heldout"
[[checks]]
id = "encoders"
kind = "cross-encoder"
a = "sq-mined-states"
b = "sq-generated"
[[checks]]
id = "judge"
kind = "judge-ceiling"
[[claims]]
id = "works"
sentence = "Generated exemplars work."
requires = ["chance"]
[[claims]]
id = "better"
sentence = "Mined ones are better."
requires = ["area", "r90"]
[[claims]]
id = "judged"
sentence = "The judge agrees with itself."
requires = ["judge"]
"""
INPUTS = SqInputs(DATA, "fake", {"conversations": "0" * 64})


def test_a_plan_of_sq_gives_a_bundle_twice_the_same():
    bundle = run_sq_evidence(parse_plan(PLAN), INPUTS)
    assert run_sq_evidence(parse_plan(PLAN), INPUTS).files() == bundle.files()
    assert len(bundle.scorecards) == 9
    assert all("coverage" in card for card in bundle.scorecards)
    outcome = {each["id"]: each["outcome"] for each in bundle.checks}
    assert (outcome["chance"], outcome["alone"], outcome["encoders"], outcome["judge"]) == (
        "holds", "holds", "not run", "not run",
    )  # fmt: skip
    assert {each["id"]: each["verdict"] for each in bundle.claims}["judged"] == "not tested"
    assert {each["id"]: each["verdict"] for each in bundle.claims}["works"] == "supported"


def test_checks_that_need_more_run_when_it_is_given():
    more = dataclasses.replace(INPUTS, other_encoders={"other": make_set(seed=1)}, second_judge=DATA.scores)
    checks = {each["id"]: each for each in run_sq_evidence(parse_plan(PLAN), more).checks}
    assert checks["judge"]["outcome"] == "holds"
    assert checks["encoders"]["outcome"] in ("holds", "fails")
    assert len(checks["encoders"]["figures"]["encoders"][0]["transfer"]) == 2
    mode = dataclasses.replace(INPUTS, encoder_id="m:x@1:tail", other_encoders={"m:x@1:whole": DATA})
    checks = {each["id"]: each for each in run_sq_evidence(parse_plan(PLAN), mode).checks}
    assert (checks["encoders"]["outcome"], "same model" in checks["encoders"]["detail"]) == ("not run", True)


def test_few_scenarios_or_no_target_are_no_evidence():
    few = dataclasses.replace(INPUTS, data=make_set(scenarios=5, turns=6))
    checks = {each["id"]: each for each in run_sq_evidence(parse_plan(PLAN), few).checks}
    assert checks["area"]["outcome"] == "not run"
    assert "too few groups" in checks["area"]["detail"]
    miss = parse_plan(PLAN.replace('world = "fitted"', 'world = "unfitted-is-miss"'))
    lost = dataclasses.replace(INPUTS, data=dataclasses.replace(DATA, generated=(None, *DATA.generated[1:])))
    checks = {each["id"]: each for each in run_sq_evidence(miss, lost).checks}
    assert "the target recall is not reached" in checks["r90"]["detail"]


def test_what_a_plan_of_sq_refuses():
    plan = parse_plan(PLAN)
    with pytest.raises(PlanError, match="no recipe is called magic"):
        run_sq_evidence(dataclasses.replace(plan, methods=("magic",)), INPUTS)
    with pytest.raises(ClaimError, match="takes no options, not a"):
        run_sq_evidence(parse_plan(PLAN.replace('"policy-heldout"', '"policy-heldout"\na = "x"')), INPUTS)
    with pytest.raises(ClaimError, match="is no check of S&Q"):
        run_sq_evidence(parse_plan(PLAN.replace('"policy-heldout"', '"boundary"')), INPUTS)
