"""The recall promise where θ was not chosen, its tolerance, and the tables that print it."""

from dataclasses import replace

import numpy as np
import pytest

from sq_core.evaluation.calibrated import MINED, calibrated, compared, coverage_of_talk, mined_frontier, promise
from sq_core.evaluation.calibration import calibrate_theta
from sq_core.evaluation.realised import Figure, Realised, _half, _jackknife, realised_recall
from tests.core.toy_set import make_set

DATA = make_set(scenarios=24)


def made(seed=0, scenarios=60, artifacts=3):
    rng = np.random.default_rng(seed)
    relevant = rng.random((scenarios * 4, artifacts)) < 0.3
    scores = rng.normal(size=relevant.shape) + 2 * relevant
    return scores, relevant, [f"s{i // 4:02d}" for i in range(len(scores))]


def test_one_halving_by_hand():
    """θ of one half, measured on the other: both recalls counted directly."""
    scores, relevant, scenarios = made()
    found = realised_recall(scores, relevant, scenarios, splits=1, rule="promise")
    half = _half(60, 0, 0)
    inside = np.array([half[int(name[1:])] for name in scenarios])
    names = [name for name, chosen in zip(scenarios, inside, strict=True) if chosen]
    theta = calibrate_theta(scores[inside], relevant[inside], 0.9, scenarios=names).theta
    out, needed = scores[~inside] > theta, relevant[~inside]
    assert found.macro.mean == pytest.approx(np.mean([out[needed[:, j], j].mean() for j in range(3)]))
    blocks = [(out[i : i + 4], needed[i : i + 4]) for i in range(0, len(out), 4)]
    shares = [fired[pairs].mean() for fired, pairs in blocks if pairs.any()]
    assert found.per_scenario.mean == pytest.approx(np.mean(shares))
    assert found.kept.mean == pytest.approx(out.mean())
    assert found.splits == 1


def test_the_promise_holds_and_lies_below_the_target_alone():
    scores, relevant, scenarios = made()
    ours = realised_recall(scores, relevant, scenarios)
    plain = realised_recall(scores, relevant, scenarios, rule="target")
    assert (ours.splits, ours.target) == (20, 0.9)
    assert ours.holds
    assert ours.reaches
    assert ours.per_scenario.mean >= plain.per_scenario.mean
    assert ours.kept.mean >= plain.kept.mean
    assert ours.macro.low <= ours.macro.mean
    assert 0 < ours.macro.tolerance < 0.1


def test_the_tolerance_is_that_of_a_mean_over_scenarios():
    """Of a plain mean the jackknife gives the textbook standard error, whatever the halvings."""
    values = np.random.default_rng(0).normal(size=(40, 3))
    without = np.array([np.delete(values, i, axis=0).mean(axis=0) for i in range(40)])
    assert _jackknife(without) == pytest.approx(values.std(axis=0, ddof=1) / np.sqrt(40))


def test_what_holds_and_what_reaches():
    def found(macro, scenario):
        figures = [Figure(mean, 0.0, 0.02) for mean in (macro, scenario, 0.5)]
        return Realised("promise", 0.9, *figures, splits=20)

    assert (found(0.91, 0.9).holds, found(0.91, 0.9).reaches) == (True, True)
    assert (found(0.89, 0.93).holds, found(0.89, 0.93).reaches) == (True, False)
    assert not found(0.87, 0.93).holds
    assert not found(0.93, 0.87).holds


def test_without_relevant_turns_on_both_sides_nothing_is_realised():
    scores, relevant, scenarios = made(scenarios=6)
    with pytest.raises(ValueError, match="judge more"):
        realised_recall(scores, np.zeros_like(relevant), scenarios)


def test_our_default_is_compared_on_what_every_fold_could_fit():
    used, tables = compared(DATA, "as-judged")
    assert set(tables) == {"cosine-text", "cosine-signals", "sq-generated", MINED}
    assert used.artifacts == ("cancel", "change", "bags")  # the fourth never occurs
    assert all(table.shape == used.scores.shape for table in tables.values())
    assert np.isfinite(tables[MINED]).all()
    without = tuple(replace(each, anti_signals=each.anti_signals[:0]) for each in DATA.generated)
    assert "sq-generated" not in compared(replace(DATA, generated=without), "as-judged")[1]
    nothing, only = compared(make_set(scenarios=2, turns=1), "as-judged")
    assert (len(nothing.artifacts), MINED in only) == (4, False)


def test_the_tables_print_what_the_promise_needs():
    rows = {(row["method"], row["rule"]): row for row in promise(DATA)}
    assert set(rows) == {(name, rule) for name in ("sq-generated", MINED) for rule in ("target", "promise")}
    assert all(row["splits"] == 20 and row["coverage"] == 1.0 for row in rows.values())
    assert rows[MINED, "promise"]["macro_recall"] >= rows[MINED, "target"]["macro_recall"]
    choices = {(row["method"], row["choice"]) for row in calibrated(DATA)}
    assert {(MINED, "promised-theta"), (MINED, "offsets"), ("sq-generated", "one-theta")} <= choices
    assert all(row["removed"] == 1 - row["kept"] for row in calibrated(DATA))


def test_the_frontier_of_our_default_leads_by_an_interval():
    rows = [row for row in mined_frontier(DATA, labels="running-max") if row["method"] == MINED]
    assert [row["at_recall"] for row in rows] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert all(row["lead_interval"][0] <= row["lead"] <= row["lead_interval"][1] for row in rows)


def test_the_coverage_meter_names_the_worst():
    rows = {row["method"]: row for row in coverage_of_talk(DATA)}
    assert MINED in rows
    assert all(0 <= row["above"] <= row["most_above"] <= 1 for row in rows.values())
    assert all(row["worst"] in DATA.artifacts for row in rows.values())
