"""Every table of the registry on a made-up inventory, and its formulas by hand."""

import dataclasses

import numpy as np
import pytest

from sq_core.evaluation.ablations import ablations
from sq_core.evaluation.capabilities import capabilities
from sq_core.evaluation.ceiling import ceiling, probe_scores
from sq_core.evaluation.controls import (
    controls,
    known_hits,
    permutation_mean,
    refuse_constant,
    shuffle_judgements,
)
from sq_core.evaluation.cost import cost, tokens_saved
from sq_core.evaluation.data import EvaluationError, EvaluationSet, Exemplars
from sq_core.evaluation.decomposition import STEPS, decomposition
from sq_core.evaluation.expiry_effect import active, expiry_effect
from sq_core.evaluation.extras import Extras
from sq_core.evaluation.frontier import frontier
from sq_core.evaluation.heldout_policy import policy_heldout, weight_digests
from sq_core.evaluation.meters import clusters, coverage_meter, near_synonyms, pass_marks, with_pass_mark
from sq_core.evaluation.ownership import ownership
from sq_core.evaluation.pooling_stress import RATES, draw_pairs, pooling_stress, stitch
from sq_core.evaluation.registry import PROTOCOLS, run_protocol
from sq_core.evaluation.saturation import diversity, hardness, nearest_cosines, saturation
from sq_core.evaluation.saturation_mined import nearest_only, saturation_mined
from sq_core.evaluation.splits import half_of
from sq_core.expiry import Expiry
from sq_core.scoring import PRESETS, ViewTable
from tests.core.toy_set import KEYS, make_set

DATA = make_set(scenarios=8)


def unit(rows):
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def extras(data=DATA):
    """Prefix texts that carry their state's number; a stitched text is embedded as the mean of its parts."""
    rows = {f"state {i}": row for i, row in enumerate(data.table.cumulative)}

    def embed(texts):
        return unit([sum(rows[part] for part in text.split("\n")) for text in texts]).astype(np.float32)

    return Extras(
        prefix_texts=tuple(rows),
        embed={"whole": embed},
        overflows=lambda texts: [i % 2 == 0 for i in range(len(texts))],
        artifact_tokens=np.array([10, 20, 30, 40]),
        judge_prompts=("x" * 40,) * len(KEYS),
    )


def test_the_registry_answers_every_name_of_the_contract():
    names = "operating-point ablations pooling-stress mined decomposition cost ceiling saturation expiry capabilities ownership"
    assert set(names.split()) <= set(PROTOCOLS)
    with pytest.raises(EvaluationError, match="no protocol 'nonsense'"):
        run_protocol("nonsense", DATA)


@pytest.mark.parametrize("name", sorted(set(PROTOCOLS) - {"operating-point", "mined", "frontier", "ablations"}))
def test_every_row_names_its_method_and_world(name):
    rows = run_protocol(name, DATA, labels="running-max", extras=extras())
    assert all({"method", "world"} <= set(row) for row in rows)
    shares = ("precision_at_r90", "precision", "recall", "auprc", "kept", "coverage")
    assert all(0 <= row[key] <= 1 for row in rows for key in shares if row.get(key) is not None)


def test_ablations_vary_one_component():
    rows = ablations(DATA, labels="running-max", extras=Extras(uncentred=DATA))
    assert {row["block"] for row in rows} == {"pooling", "negatives", "classifier", "exemplars", "weights", "centring"}
    by = {(row["block"], row["method"]): row for row in rows}
    for same in (("negatives", "anti-signals"), ("classifier", "logistic"), ("exemplars", "all"), ("centring", "off")):
        assert by[same]["auprc"] == by["pooling", "both"]["auprc"]  # the default, and the same vectors once more
    svm = by["classifier", "linear-svm"]
    assert svm["share_separable"] == 1.0
    assert 0.9 < svm["mean_cosine_lr_svm"] <= 1.0
    assert ablations(DATA)[-2]["skipped"] == "no uncentred vectors were given"
    with pytest.raises(EvaluationError, match="no artifact has generated"):
        ablations(dataclasses.replace(DATA, generated=(None,) * 4))


def test_pooling_stress_by_hand():
    """Two scenarios: the state of (A, B) has A's turns, B's turns, and the prefix of both."""
    data = make_set(scenarios=2, turns=2)
    pairs = draw_pairs(data, 10, 0)
    assert pairs.tolist() == [[0, 1], [1, 0]]
    stitched = stitch(data, pairs, data.table.cumulative[:2], data.table.cumulative[[3, 1]])
    assert (stitched.alone.cumulative == data.table.cumulative[[3, 1]]).all()
    with pytest.raises(EvaluationError, match="2 stitched and 1 single prefixes for 2 pairs"):
        stitch(data, pairs, data.table.cumulative[:2], data.table.cumulative[:1])
    assert (stitched.table.turns[:4] == data.table.turns[[0, 1, 2, 3]]).all()
    assert (stitched.table.turns[4:] == data.table.turns[[2, 3, 0, 1]]).all()
    assert stitched.table.state_turn.tolist() == [3, 3]
    assert (stitched.recent == data.relevant[[3, 1]]).all()
    assert (stitched.earlier == data.relevant[[1, 3]]).all()


def test_pooling_stress_shows_the_dilution():
    rows = pooling_stress(DATA, extras=extras(), cap=30)
    assert len(rows) == len(PRESETS) * len(RATES)
    assert {(row["pairs"], row["seed"], row["cut"], row["mode"]) for row in rows} == {(30, 0, 0.5, "whole")}
    assert all(row["drop"] > 0 for row in rows)  # two topics in one vector
    at = {(row["method"], row["false_positive_rate"]): row for row in rows}
    for name in PRESETS:  # a lower θ can only find more
        for figure in ("recall", "recall_unique", "recall_open", "kept"):
            assert at[name, 0.1][figure] <= at[name, 0.2][figure] <= at[name, 0.3][figure]
    # Like is compared with like: an encoder that gives both prefixes another vector moves both sides of the drop.
    turned = dataclasses.replace(extras(), embed={"tail": lambda texts: -extras().embed["whole"](texts)})
    assert pooling_stress(DATA, extras=turned, cap=30)[0]["drop"] == pytest.approx(-rows[0]["drop"])
    with pytest.raises(EvaluationError, match=r"needs Extras\.prefix_texts"):
        pooling_stress(DATA)
    with pytest.raises(EvaluationError, match="at least two scenarios"):
        draw_pairs(DATA, 5, 0, frozenset())


def test_decomposition_adds_up():
    rows = {row["method"]: row for row in decomposition(DATA, labels="running-max", seeds=[0])}
    assert list(rows) == list(STEPS)
    both, positives, start = rows["sq-mined-paper"], rows["sq-mined-positives-only"], rows["sq-generated"]
    assert positives["gain_auprc"] + both["gain_auprc"] == pytest.approx(both["auprc"] - start["auprc"])
    assert start["gain_auprc"] is None


def test_cost_counts_calls_and_says_what_the_ratio_divides():
    rows = {row["method"]: row for row in cost(DATA, labels="running-max", extras=extras(), runs=1)}
    assert (rows["judge-all"]["calls"], rows["judge-all"]["tokens"]) == (4, 40)  # 4 prompts of 40 characters / 4
    assert rows["sq-generated"]["offline_calls"] == 8
    kept = rows["sq+judge"]["kept"]
    assert rows["sq+judge"]["calls"] == pytest.approx(4 * kept)
    assert rows["sq+judge"]["ratio"] == pytest.approx(1 / kept)
    assert "judge-all by sq+judge" in rows["sq+judge"]["ratio_divides"]
    mined = rows["sq-mined+judge"]  # three of four artifacts could be fitted: the fourth is asked about every turn
    assert mined["coverage"] == 0.75
    assert mined["calls"] == pytest.approx(3 * mined["kept"] + 1)
    assert mined["tokens"] == pytest.approx(40 * mined["calls"] / 4)
    assert mined["ratio"] == pytest.approx(4 / mined["calls"])
    assert cost(DATA, runs=1)[0]["tokens"] is None
    assert tokens_saved([[True, False], [False, False]], [10, 4]) == 9  # (4 + 14) / 2
    with pytest.raises(EvaluationError, match="1 judge prompts for 4"):
        cost(DATA, runs=1, extras=Extras(judge_prompts=("x",)))
    counted = cost(DATA, runs=1, extras=dataclasses.replace(extras(), count_tokens=lambda _: 7))
    assert (counted[0]["tokens"], counted[0]["tokens_by"]) == (28, "tokenizer")


def test_the_probe_never_sees_the_scenario_it_scores():
    _, fitted = probe_scores(DATA, folds=4)
    assert fitted.tolist() == [True, True, True, False]
    rows = np.array([name == DATA.scenario[0] for name in DATA.scenario])
    changed = dataclasses.replace(DATA, scores=np.where(rows[:, None], 6 - DATA.scores, DATA.scores))
    again, _ = probe_scores(changed, folds=8)
    before, _ = probe_scores(DATA, folds=8)
    assert (again[rows][:, :3] == before[rows][:, :3]).all()


def test_ceiling_marks_what_stays_faint():
    scores = DATA.scores.copy()
    scores[:, 3] = np.where(np.arange(len(scores)) % 5 == 0, 5, 1)  # no message says when
    rows = ceiling(dataclasses.replace(DATA, scores=scores))
    badge = {row.get("artifact"): row["badge"] for row in rows}
    assert (badge["cancel"], badge["rare"]) == (None, "faint")
    few = scores.copy()
    few[1:, 3] = 1
    assert ceiling(dataclasses.replace(DATA, scores=few))[-1]["badge"] == "too few labels"


def test_hardness_and_diversity_by_hand():
    old, new = np.array([[1.0, 0.0]]), np.array([[0.6, 0.8], [0.96, 0.28], [0.0, 1.0]])
    assert nearest_cosines(new, old).tolist() == [0.6, 0.96, 0.0]
    found = hardness(new, old)
    assert (found.mean_nearest, found.near, found.repeated) == pytest.approx((0.52, 2 / 3, 1 / 3))
    assert np.isnan(hardness(new[:0], old).near)
    assert hardness(new, old[:0]).near == 0.0
    assert diversity(np.eye(3)) == pytest.approx(1.0)
    assert diversity(np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(0.0)
    assert np.isnan(diversity(old))


def test_saturation_reports_what_the_pool_can_show():
    rows = saturation(DATA, sizes=(2, 6, 30), labels="running-max")
    assert [row["anti_signals"] for row in rows] == [2, 6, 30]
    assert (rows[1]["mean_size"], rows[2]["skipped"]) == (6, "no artifact has 30 anti-signals")
    assert rows[0]["additions_near"] is None
    assert 0 <= rows[1]["additions_near"] <= 1
    with pytest.raises(EvaluationError, match="1 anti-signal pools"):
        saturation(DATA, extras=Extras(anti_signal_pools=(None,)))


def talks_with_two_kinds_of_small_talk(scenarios=8):
    """One artifact; turn 0 is small talk, of one kind in even conversations and another in odd ones, turn 1 the need."""
    kinds = np.array([[0, 1, 0], [1, 0, 0]] * scenarios, dtype=np.float32)
    kinds[2::4, 1], kinds[2::4, 2] = 0, 1
    conversation, turn = np.repeat(np.arange(scenarios), 2), np.tile([0, 1], scenarios)
    return EvaluationSet(
        table=ViewTable(kinds, kinds, conversation, turn, conversation, turn),
        scores=np.where(turn == 1, 5, 1)[:, None],
        scenario=tuple(f"s{c}" for c in conversation),
        artifacts=("need",),
        text_vectors=np.array([[1, 0, 0]], dtype=np.float32),
        generated=(None,),
        turn_texts=tuple(f"message {i}" for i in range(2 * scenarios)),
    )


def test_mined_saturation_by_hand():
    """All small talk is equally far from the need, so the nearest ones are those that are read first."""
    data, seeds = talks_with_two_kinds_of_small_talk(), (0, 1, 2)
    kinds = [[int(name[1:]) % 2 for name in sorted(half_of(data.scenario, seed))] for seed in seeds]
    rows = saturation_mined(data, sizes=(1, 2, None, 30), seeds=seeds)
    assert [row["anti_signals"] for row in rows] == [1, 2, "all", 30]
    assert [row.get("mean_size") for row in rows] == [1, 2, 4, None]
    assert rows[3]["skipped"] == "no artifact has 30 mined anti-signals"
    assert rows[0]["additions_near"] is None
    assert rows[1]["additions_repeated"] == pytest.approx(np.mean([k[1] == k[0] for k in kinds]))
    assert rows[2]["additions_near"] == pytest.approx(np.mean([np.mean(np.equal(k[1:], k[0])) for k in kinds]))
    pairs = [np.mean([k[a] != k[b] for a in range(4) for b in range(4) if a != b]) for k in kinds]
    assert rows[2]["diversity"] == pytest.approx(
        np.mean(pairs)
    )  # 1 − cosine of two messages: 1 where their kinds differ
    assert (rows[2]["method"], rows[2]["recipe"], rows[2]["precision_at_r90"]) == ("sq-mined", "sq-mined-states", 1.0)
    nothing = saturation_mined(data, sizes=(1,), seeds=seeds, minimum=9)
    assert nothing[0]["skipped"] == "no artifact could be mined"


def test_a_bound_keeps_the_signals_and_the_first_anti_signals_with_their_weights():
    made = Exemplars(np.eye(2), -np.eye(2)[[0, 1, 0]], np.array([1, 0.25, 1, 0.25, 1]))
    kept = nearest_only(made, 2)
    assert kept.signals is made.signals
    assert kept.anti_signals.tolist() == [[-1, 0], [0, -1]]
    assert kept.weights.tolist() == [1, 0.25, 1, 0.25]
    assert nearest_only(Exemplars(np.eye(2), np.eye(2)), 1).weights is None


def test_expiry_bounds_the_set_and_counts_its_tokens():
    rows = {row["method"]: row for row in expiry_effect(DATA, labels="running-max", extras=extras())}
    off, on = rows["no expiry"], rows["expiry after 3 others"]
    assert off["set_size"] == sorted(off["set_size"])  # the max over turns never forgets
    assert on["mean_set_size"] <= off["mean_set_size"]
    assert off["tokens"] + off["tokens_saved"] == pytest.approx(100)
    one = rows["expiry after 3 turns"]
    assert one["recall"] <= off["recall"]


def test_expiry_is_replayed_per_conversation():
    data = make_set(scenarios=2, turns=2)
    holds, evidence = np.ones((4, 4), dtype=bool), np.zeros((4, 4), dtype=bool)
    evidence[[0, 2]] = True
    after = active(data, holds, evidence, Expiry(turns=1))
    assert after.all(axis=1).tolist() == [True, False, True, False]


def test_capabilities_are_checked_not_claimed():
    rows = capabilities(DATA, labels="running-max")
    assert len(rows) == 18
    assert len({row["property"] for row in rows}) == 6
    marks = {(row["property"], row["method"]): row["mark"] for row in rows}
    assert marks["per-artifact decision boundary", "sq-generated"] == "yes"
    assert marks["adaptive selection size", "topk-text"] == "no"
    assert all(row["check"] for row in rows)


def test_ownership_says_why_setfit_is_missing():
    ours, theirs = ownership(DATA, runs=1)
    assert (ours["bytes"], ours["same_twice"], ours["artifacts"]) == (24 * 4 + 8, True, 4)
    assert "SetFit" in theirs["skipped"]
    with pytest.raises(EvaluationError, match="no artifact has generated"):
        ownership(dataclasses.replace(DATA, generated=(None,) * 4))


def test_controls_tell_skill_from_chance():
    rows = {row["method"]: row for row in controls(DATA, labels="running-max", draws=20)}
    assert rows["sq-generated"]["known_hits"] == 1.0
    assert rows["sq-generated"]["above_chance"] >= 0.9
    assert rows["sq-generated"]["shuffled_auprc"] < rows["sq-generated"]["auprc"]
    with pytest.raises(EvaluationError, match="constant result"):
        refuse_constant(np.ones((3, 2)), "flat")
    assert known_hits(dataclasses.replace(DATA, generated=(None,) * 4), lambda v: v) is None


def test_shuffling_keeps_every_artifacts_count():
    shuffled = shuffle_judgements(DATA, np.random.default_rng(0))
    assert (shuffled.relevant.sum(axis=0) == DATA.relevant.sum(axis=0)).all()
    assert (shuffled.scores != DATA.scores).any()


def test_chance_is_the_permutation_mean_not_the_base_rate():
    """TRACES X52: 3 relevant of 12 in every order."""
    labels = np.array([True] * 3 + [False] * 9)

    def average_precision(order):
        hits = np.cumsum(order)
        return float(np.mean((hits / np.arange(1, 13))[order]))

    assert permutation_mean(average_precision, labels) == pytest.approx(0.39340, abs=5e-6)
    assert permutation_mean(lambda order: float(order[:5].mean()), labels) == pytest.approx(0.25)


def test_frontier_carries_the_lead_and_its_interval():
    rows = frontier(DATA, labels="running-max", recalls=(0.5, 0.9), draws=20)
    ours = [row for row in rows if row["method"] == "sq-generated"]
    assert [row["at_recall"] for row in ours] == [0.5, 0.9]
    assert all(row["removed"] == pytest.approx(1 - row["kept"]) for row in ours)
    assert all(row["lead_interval"][0] <= row["lead_interval"][1] for row in ours)
    assert ours[1]["artifacts_at_target"] == 3
    assert "lead" not in rows[0]
    never = frontier(DATA, recalls=(0.9,), draws=5, scores={"sq-none": np.full(DATA.scores.shape, -np.inf)})
    assert (never[0]["precision"], never[0]["coverage"]) == (None, 0.0)


def test_a_policy_held_out_changes_no_other():
    rows = policy_heldout(DATA, labels="running-max")
    assert [row["artifact"] for row in rows] == ["cancel", "change", "bags"]
    assert all(row["others_unchanged"] for row in rows)
    assert weight_digests([None, Exemplars(np.eye(2)[:1], np.eye(2)[:0])]) == [None, None]


def test_clusters_are_connected_texts():
    rows = unit([[1, 0, 0], [0.8, 0.6, 0], [0.2, 1, 0], [0, 0, 1]])
    assert clusters(rows, 0.7) == [[0, 1, 2]]
    assert clusters(rows, 0.99) == []


def test_near_synonyms_are_measured_among_themselves():
    near = DATA.text_vectors.copy()
    near[1] = near[0]
    rows = near_synonyms(dataclasses.replace(DATA, text_vectors=near), labels="running-max")
    assert [row["method"] for row in rows] == ["anti-signals", "random-negatives", "cosine"]
    assert {row["clusters"] for row in rows} == {1}
    assert near_synonyms(dataclasses.replace(DATA, text_vectors=np.eye(4, 24))) == []


def test_the_coverage_meter_counts_irrelevant_pairs_above_the_cut_off():
    scores = np.zeros(DATA.scores.shape)
    scores[:, 0] = 1.0
    share, per = coverage_meter(DATA, scores, 0.5, draws=10_000)
    irrelevant = DATA.scores == 1
    assert share == pytest.approx(irrelevant[:, 0].sum() / irrelevant.sum())
    assert per.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert coverage_meter(DATA, scores, 0.5, draws=7)[0] == coverage_meter(DATA, scores, 0.5, draws=7)[0]
    with pytest.raises(EvaluationError, match="clearly irrelevant"):
        coverage_meter(dataclasses.replace(DATA, scores=DATA.scores + 4), scores, 0.5)


def test_pass_marks_move_the_line():
    scores = DATA.scores.copy()
    scores[0] = 3
    data = dataclasses.replace(DATA, scores=scores)
    rows = pass_marks(data)
    assert {row["pass_mark"] for row in rows} == {3, 4, 5}
    assert rows[0]["share_of_threes"] == pytest.approx(4 / scores.size)
    assert rows[0]["artifacts"] == 4  # with 3 as the mark "rare" occurs
    assert (with_pass_mark(data, 3).relevant == (scores >= 3)).all()
    assert (with_pass_mark(data, 5).relevant == (scores >= 5)).all()
    with pytest.raises(EvaluationError, match="pass mark is 1"):
        with_pass_mark(data, 1)
