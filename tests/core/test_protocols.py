"""The protocols on a small made-up inventory whose answer is known."""

import dataclasses

import numpy as np
import pytest

from sq_core.evaluation import protocols
from sq_core.evaluation.protocols import (
    RECIPES,
    WORLDS,
    EvaluationError,
    LeakageError,
    assert_no_leak,
    larger_k,
    mined,
    operating_point,
    split_half,
)
from tests.core.toy_set import KEYS, make_set

ROW = {"method", "world", "precision_at_r90", "precision", "recall", "auprc", "theta", "kept", "coverage"}


def by_method(rows, world="fitted"):
    return {row["method"]: row for row in rows if row["world"] == world}


def test_operating_point_rows():
    rows = operating_point(make_set().with_labels("running-max"), draws=20)
    assert [row["method"] for row in rows] == [
        "cosine-text",
        "cosine-signals",
        "topk-text",
        "topk-signals",
        "sq-generated",
    ]
    assert all(set(row) >= ROW for row in rows)
    found = by_method(rows)
    # Sticky labels and the max over turns fit each other: the topics are told apart without error.
    assert found["sq-generated"]["precision_at_r90"] == pytest.approx(1.0)
    assert found["sq-generated"]["coverage"] == 1.0
    low, high = found["sq-generated"]["interval"]
    assert low <= found["sq-generated"]["precision_at_r90"] <= high
    assert (found["topk-text"]["k"], found["topk-text"]["theta"]) == (15, None)


def test_labels_option_is_the_running_maximum():
    data = make_set()
    rows = operating_point(data, labels="running-max", draws=5)
    assert rows == operating_point(data.with_labels("running-max"), draws=5)
    with pytest.raises(EvaluationError, match="labels is 'sticky'"):
        data.with_labels("sticky")


def test_running_maximum_by_hand():
    data = make_set(scenarios=2, turns=3)
    scores = np.array([[1, 2, 5, 0], [4, 1, 1, 3], [2, 0, 3, 0], [1, 1, 1, 1], [2, 2, 2, 2], [1, 1, 1, 5]])
    found = dataclasses.replace(data, scores=scores).with_labels("running-max").scores
    assert found.tolist() == [
        [1, 2, 5, 0],
        [4, 2, 5, 3],
        [4, 0, 5, 0],
        [1, 1, 1, 1],
        [2, 2, 2, 2],
        [2, 2, 2, 5],
    ]


def test_larger_k_is_printed_apart():
    rows = larger_k(make_set(), labels="running-max")
    assert {row["method"] for row in rows} == {"topk-text", "topk-signals"}
    assert all(1 <= row["k"] <= len(KEYS) and row["recall"] >= 0.9 for row in rows)


def test_a_set_without_generated_exemplars_of_one_artifact_covers_less():
    data = make_set()
    data = dataclasses.replace(data, generated=(None, *data.generated[1:]))
    found = by_method(operating_point(data, draws=5))
    assert found["sq-generated"]["coverage"] == pytest.approx(2 / 3)
    assert found["sq-generated"]["precision_at_r90"] is None
    assert found["cosine-text"]["coverage"] == 1.0
    assert [row["method"] for row in larger_k(data)] == ["topk-text"]
    rows = by_method(mined(data, seeds=[0]), "unfitted-is-miss")
    assert rows["sq-generated"]["coverage"] == pytest.approx(2 / 3)
    assert rows["sq-mined"]["coverage"] == 1.0


def test_the_split_is_the_references():
    data = make_set()
    names = sorted(set(data.scenario))
    for seed in range(3):
        expected = np.random.default_rng(seed).permutation(names)[: len(names) // 2]
        assert split_half(data, seed).mining_scenarios == set(expected.tolist())


def test_exemplars_come_from_the_mining_half_only():
    data = make_set()
    split = split_half(data, 0)
    scenarios = {e.scenario for m in (*split.paper, *split.ours) for e in (*m.signals, *m.anti_signals)}
    assert scenarios <= split.mining_scenarios
    held_out = {name for name, out in zip(data.scenario, split.held_out, strict=True) if out}
    assert not held_out & split.mining_scenarios


def test_a_leak_is_an_error():
    data = make_set()
    split = split_half(data, 0)
    with pytest.raises(LeakageError, match="would be measured on it"):
        assert_no_leak(data, dataclasses.replace(split, held_out=~split.held_out))


def test_mined_prints_every_method_in_three_worlds():
    rows = mined(make_set(), labels="running-max", seeds=range(2))
    assert {(row["method"], row["world"]) for row in rows} == {(m, w) for m in (*RECIPES, "sq-mined") for w in WORLDS}
    assert all(set(row) - {"recipe"} == ROW | {"sd"} for row in rows)
    assert {row["recipe"] for row in rows if row["method"] == "sq-mined"} == {"sq-mined-transition"}
    fitted, missing = by_method(rows), by_method(rows, "unfitted-is-miss")
    for method in RECIPES:
        assert fitted[method]["coverage"] == 1.0
        assert 0.0 <= fitted[method]["auprc"] <= 1.0
        # Every occurring artifact can be mined here, so the worlds agree.
        assert missing[method]["auprc"] == pytest.approx(fitted[method]["auprc"])


def test_an_artifact_too_rare_to_mine_tells_the_worlds_apart():
    data = make_set()
    scores = data.scores.copy()
    scores[::12, 3] = 5  # "rare" occurs in both halves ...
    rare = dataclasses.replace(data, scores=scores)
    few = protocols.split_half(rare, 0).minable(4)
    assert few.tolist() == [True, True, True, False]  # ... but below this minimum
    rows = mined(rare, seeds=[0], minimum=4)
    fitted, fallback, missing = (by_method(rows, world)["sq-mined"] for world in WORLDS)
    assert (fitted["coverage"], fallback["coverage"], missing["coverage"]) == (0.75, 0.75, 0.75)
    assert missing["precision_at_r90"] is None
    assert missing["recall"] == pytest.approx(0.75)
    assert fallback["precision_at_r90"] is not None
    # Generated exemplars need no mining: the second and third world are the same there.
    generated = [by_method(rows, world)["sq-generated"] for world in WORLDS[1:]]
    assert generated[0]["auprc"] == generated[1]["auprc"]
    assert generated[0]["coverage"] == 1.0


def test_without_labels_there_is_nothing_to_print():
    data = make_set()
    rows = mined(dataclasses.replace(data, scores=np.ones_like(data.scores)), seeds=[0])
    assert all(row["precision_at_r90"] is None and row["coverage"] == 0.0 for row in rows)


def test_unjudged_turns_keep_a_conversation_from_being_mined():
    data = make_set()
    scores = data.scores.copy()
    scores[0::3] = 0
    split = split_half(dataclasses.replace(data, scores=scores), 0)
    assert not split.minable(1).any()
    assert split.ours[0].report.missing == 8


def test_parts_that_do_not_belong_together_are_refused():
    data = make_set()
    with pytest.raises(EvaluationError, match="scenarios"):
        dataclasses.replace(data, scenario=data.scenario[1:])
    with pytest.raises(EvaluationError, match="3 artifacts"):
        dataclasses.replace(data, artifacts=KEYS[1:])
