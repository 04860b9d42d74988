"""Every method on a small made-up log whose answers stand in the history, not in the query."""

import dataclasses

import numpy as np
import pytest

from sq_core.conversation import Conversation, messages_from_json
from sq_core.evidence.controls import donors_within
from sq_core.evidence.inputs import RowSettings, prepare, trace_set
from sq_core.evidence.rewriting import FREE
from sq_core.evidence.splits import group_folds
from sq_core.ranking.methods import ADAPTERS, METHODS, PLAIN, Fold, RankSettings, learn_gate
from sq_core.ranking.metrics import reciprocal
from sq_core.ranking.prior import LearnedGate
from sq_core.ranking.worlds import WORLDS, Columns
from tests.core.test_causal import answer, asks, call, user
from tests.fakes import FakeEncoder

PLACES = ["oslo", "lima", "cairo", "quito"]
FEW = RankSettings(iterations=60, rank=8, fixed_lambda=0.1, l2=1e-5)


def conversation(number, trial):
    """The user names a booking; its record names the place; the next call is about that place."""
    place = PLACES[(number * 3 + number // 4) % len(PLACES)]
    return Conversation(
        f"s{number}-{trial}",
        messages_from_json([
            user(f"please look at my booking number{number}"),
            asks(call("find", {"booking": f"number{number}"})),
            answer(f"{place} {place} {place}"),
            user("what is the weather there"),
            asks(call("weather", {"city": place})),
            answer("sunny"),
            user("thank you"),
        ]),
        scenario=f"task-{number}",
        config="model-a",
    )  # fmt: skip


LOGS = [conversation(number, trial) for number in range(24) for trial in range(2)]
GIVEN = trace_set(LOGS, RowSettings())
DATA, COSTS = prepare(GIVEN, FakeEncoder(), rewriters=list(FREE.values()))
PARTS = group_folds(DATA.rows, folds=4, seed=0)[0]
DONORS = donors_within(DATA.rows, PARTS, 0)


def fold(data=DATA, settings=FEW, **more):
    return Fold(data, PARTS, settings, donors=DONORS, **more)


FOLD = fold()


def mrr(method, world="all_splits", made=FOLD):
    return float(reciprocal(made.ranks(method, PARTS.test, world)).mean())


def test_every_method_ranks_every_row_in_both_worlds():
    for method in DATA.methods:
        for world in WORLDS:
            found = FOLD.ranks(method, PARTS.test, world)
            assert len(found) == len(PARTS.test)
            assert np.isfinite(found).all() == (world == "all_splits"), (method, world)
    assert set(PLAIN) < set(METHODS) < set(DATA.methods)
    with pytest.raises(ValueError, match="no method is called 'magic'"):
        FOLD.scores("magic", PARTS.test, "all_splits")
    with pytest.raises(ValueError, match="no gate is called 'magic'"):
        FOLD.scores("state+prior:magic", PARTS.test, "all_splits")


def test_the_state_reads_what_the_query_does_not_say():
    city = np.array([at for at in PARTS.test.tolist() if DATA.rows[at].tool == "weather"])
    state, reset, shuffled = (
        float(reciprocal(FOLD.ranks(method, city, "all_splits")).mean())
        for method in ("state", "reset", "shuffled_state")
    )
    assert state > 0.75
    assert state > reset + 0.2
    assert state > shuffled + 0.2
    assert mrr("copy") == 1.0


def test_x23_an_unseen_tool_leaves_the_state_as_it_is():
    silent = fold()
    silent.counts = dataclasses.replace(silent.counts, by_context={})
    for kind in ("fixed", "tuned", "learned"):
        for world in WORLDS:
            gated = silent.scores(f"state+prior:{kind}", PARTS.test, world)
            assert (gated == silent.scores("state", PARTS.test, world)).all()


def test_x19_x40_bit_for_bit():
    reset = FOLD.scores("reset", PARTS.test, "all_splits")
    assert (FOLD.scores("rewritten:identity", PARTS.test, "all_splits") == reset).all()
    first = np.array([at for at in PARTS.test.tolist() if DATA.rows[at].tool == "find"])
    # One user turn: the concatenation is the query; no history: the state is the query.
    assert (
        FOLD.scores("rewritten:concatenation", first, "all_splits") == FOLD.scores("reset", first, "all_splits")
    ).all()
    assert (FOLD.scores("state", first, "all_splits") == FOLD.scores("reset", first, "all_splits")).all()
    untrained = fold(settings=dataclasses.replace(FEW, iterations=0))
    for name in ADAPTERS:
        assert (untrained.scores(name, PARTS.test, "all_splits") == reset).all()
    assert [(each.rewriter, each.tokens) for each in COSTS] == [("identity", 0), ("concatenation", 0)]


def test_x20_what_comes_after_an_action_changes_no_score():
    """Every message after each trace's last action is gone, the answer to it included."""
    cut = [
        dataclasses.replace(each, messages=each.messages[: max(m.index for m in each.messages if m.tool_calls) + 1])
        for each in LOGS
    ]
    short, _ = prepare(trace_set(cut, RowSettings()), FakeEncoder(), rewriters=list(FREE.values()))
    assert short.rows == DATA.rows
    again = fold(short)
    for method in DATA.methods:
        for world in WORLDS:
            assert (again.scores(method, PARTS.test, world) == FOLD.scores(method, PARTS.test, world)).all()


def test_gates_are_chosen_on_validation_rows_alone():
    """Other targets in the test rows change no gate."""
    test = set(PARTS.test.tolist())
    rows = tuple(
        dataclasses.replace(r, target=DATA.words[0], siblings=()) if at in test else r for at, r in enumerate(DATA.rows)
    )
    other = fold(dataclasses.replace(DATA, rows=rows))
    for kind in ("fixed", "tuned", "learned"):
        assert other.gate("state", kind, "train_split").describe() == FOLD.gate("state", kind, "train_split").describe()


def test_a_learned_gate_lowers_the_loss_and_stays_neutral_without_rows():
    state, prior = np.array([[0.2, 0.3], [0.9, 0.1]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    allowed, columns = np.ones((2, 2), dtype=bool), Columns(np.array([0, 0]), np.zeros((2, 2), dtype=bool))
    gate = learn_gate(state, prior, columns, allowed, FEW)
    # The prior is right where the margin is small and wrong where it is large: the gate closes with the margin.
    small, large = gate.weights(state, allowed)
    assert small > large
    assert gate.w1 < 0
    assert learn_gate(state, prior, columns, np.zeros((2, 2), dtype=bool), FEW) == LearnedGate(1.0, 0.0, 0.0)


def test_a_target_unseen_in_training_trains_nothing_and_is_counted():
    FOLD.adapter("state")
    known = {DATA.rows[at].target for at in PARTS.train.tolist()}
    assert FOLD.without_positive == 0  # training targets are the training world
    assert FOLD.worlds["train_split"].size == len(known) < len(DATA.words)


def test_attention_and_mean_are_other_states():
    from sq_core.ranking.state import Aggregation

    made = {
        kind: fold(settings=dataclasses.replace(FEW, iterations=3, aggregation=Aggregation(kind)))
        for kind in ("mean", "attention")
    }
    assert all(np.isfinite(each.scores("state", PARTS.test, "all_splits")).all() for each in made.values())


def test_rows_can_be_contrasted_with_the_whole_world():
    made = fold(settings=dataclasses.replace(FEW, iterations=3, columns="world"))
    assert made.adapter("state").record["loss"] > FOLD.adapter("state").record["loss"]
