"""State, adapter and objective against the cases worked out by hand (TRACES X12 to X20)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.causal.vectors import HistoryIndex
from sq_core.ranking.contrastive import ContrastiveBatch, fit_adapter, initial, loss_and_gradient, multi_positive
from sq_core.ranking.state import (
    Adapter,
    Aggregation,
    aggregate,
    history_weights,
    load_adapter,
    save_adapter,
    unit_states,
)

C = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
Q = np.array([[1.0, 0.0]])


def test_x12_a_residual_turns_the_query():
    assert (Q @ C.T).tolist() == [[1, 0, 0.6]]
    state, norm = unit_states(Q, np.array([[0.0, 1.0]]))
    assert (state @ C.T)[0] == pytest.approx((0.7071, 0.7071, 0.9899), abs=5e-5)
    assert norm[0] == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("residual", [(0.0, 0.0), (-1.0, 0.0)])
def test_x13_no_residual_or_no_direction_is_the_query_itself(residual):
    state, _ = unit_states(Q, np.array([residual]))
    assert (state @ C.T).tolist() == (Q @ C.T).tolist()


TWO = HistoryIndex(np.array([0, 2]), np.array([0, 1]), np.array([1, 0]))
UNIT = np.eye(2)


def test_x14_decay_favours_the_newest():
    mean, has = aggregate(TWO, UNIT, how=Aggregation("decay", gamma=0.5))
    assert mean[0] == pytest.approx((1 / 3, 2 / 3))
    assert has.tolist() == [True]
    assert aggregate(TWO, UNIT, how=Aggregation("mean"))[0][0] == pytest.approx((0.5, 0.5))


def test_x15_attention_favours_what_the_query_is_near():
    how = Aggregation("attention", beta=math.log(3), delta=0)
    assert history_weights(TWO, UNIT, Q, how) == pytest.approx((0.75, 0.25))
    assert aggregate(TWO, UNIT, how=how, queries=Q)[0][0] == pytest.approx((0.75, 0.25))
    with pytest.raises(ValueError, match="0 < gamma"):
        Aggregation(gamma=0)


def loss_of(logits, positives):
    loss, gradient = multi_positive(np.array([logits], dtype=float), np.array([positives]))
    return float(loss[0]), gradient[0]


def test_x16_one_positive():
    assert loss_of([math.log(3), 0], [True, False])[0] == pytest.approx(0.28768, abs=5e-6)


def test_x17_an_equal_target_is_one_column_and_never_a_negative():
    logits = np.array([math.log(3), math.log(3), 0.0])
    naive = -math.log(math.exp(logits[0]) / np.exp(logits).sum())
    assert naive == pytest.approx(0.84730, abs=5e-6)
    assert loss_of([math.log(3), 0], [True, False])[0] == pytest.approx(0.28768, abs=5e-6)  # unique columns A, B


def test_x18_two_positives():
    loss, gradient = loss_of([math.log(3), math.log(2), 0], [True, True, False])
    assert loss == pytest.approx(0.34657, abs=5e-6)
    assert gradient == pytest.approx((-0.125, -1 / 6, 0.29167), abs=5e-6)
    assert gradient.sum() == pytest.approx(0)


def test_edges_of_the_objective():
    assert loss_of([5.0, -900.0], [True, True])[0] == 0.0  # nothing to be contrasted with
    loss, gradient = loss_of([-2000.0, 0.0], [True, False])
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
    with pytest.raises(ValueError, match="row 0 has no positive"):
        loss_of([0.0, 1.0], [False, False])
    masked, _ = multi_positive(np.array([[1.0, 9.0, 0.0]]), np.array([[True, False, False]]),
                               np.array([[True, False, True]]))  # fmt: skip
    assert masked[0] == pytest.approx(loss_of([1.0, 0.0], [True, False])[0])


def batch_of(seed, rows=7, d=5, n=6, rank=2, **more):
    rng = np.random.default_rng(seed)

    def unit(size):
        raw = rng.normal(size=(size, d))
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)

    positives = np.zeros((rows, n), dtype=bool)
    positives[np.arange(rows), rng.integers(0, n, rows)] = True
    positives[0, :2] = True
    has = rng.random(rows) < 0.7
    inputs = unit(rows) * has[:, None]
    return ContrastiveBatch(unit(rows), inputs, has, unit(n), positives, rank=rank, **more)


@given(st.integers(0, 50))
def test_the_gradient_is_that_of_finite_differences(seed):
    batch = batch_of(seed)
    theta = np.random.default_rng(seed).normal(size=batch.parameters) * 0.5
    _, gradient = loss_and_gradient(theta, batch)
    step = 1e-6
    numeric = np.array([
        (loss_and_gradient(theta + step * e, batch)[0] - loss_and_gradient(theta - step * e, batch)[0]) / (2 * step)
        for e in np.eye(batch.parameters)
    ])  # fmt: skip
    assert np.linalg.norm(gradient - numeric) / np.linalg.norm(numeric) < 1e-6


def test_blocks_of_rows_change_nothing(monkeypatch):
    batch = batch_of(3)
    theta = np.random.default_rng(3).normal(size=batch.parameters)
    whole = loss_and_gradient(theta, batch)
    monkeypatch.setattr("sq_core.ranking.contrastive.BLOCK", 13)
    loss, gradient = loss_and_gradient(theta, batch)
    assert loss == pytest.approx(whole[0])
    assert gradient == pytest.approx(whole[1])


def test_x19_a_fit_starts_at_the_baseline_exactly():
    batch = batch_of(1)
    theta = initial(batch, seed=0)
    adapter = Adapter(theta[:10].reshape(5, 2), theta[10:].reshape(2, 5))
    scores = adapter.scores(batch.queries, batch.inputs, batch.has, batch.candidates)
    assert (scores == batch.queries @ batch.candidates.T).all()
    assert adapter.w1.any()


def test_an_empty_history_scores_as_reset_after_training():
    batch = batch_of(2)
    adapter = fit_adapter(batch, max_iter=30)
    scores = adapter.scores(batch.queries, batch.inputs, batch.has, batch.candidates)
    reset = batch.queries @ batch.candidates.T
    assert (scores[~batch.has] == reset[~batch.has]).all()
    assert (scores[batch.has] != reset[batch.has]).any()
    start, _ = loss_and_gradient(initial(batch, 0), batch)
    assert adapter.record["loss"] < start


def test_x20_order_matters_to_decay_and_not_to_the_mean():
    turned = HistoryIndex(np.array([0, 2]), np.array([1, 0]), np.array([1, 0]))
    mean = Aggregation("mean")
    assert (aggregate(TWO, UNIT, how=mean)[0] == aggregate(turned, UNIT, how=mean)[0]).all()
    assert (aggregate(TWO, UNIT, how=Aggregation())[0] != aggregate(turned, UNIT, how=Aggregation())[0]).any()


def test_an_adapter_is_the_same_bytes_twice_and_has_no_pickle(tmp_path):
    for name in ("one", "two"):
        save_adapter(fit_adapter(batch_of(4), max_iter=20), tmp_path / name)
    for file in ("adapter.npz", "adapter.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    again = load_adapter(tmp_path / "one")
    fitted = fit_adapter(batch_of(4), max_iter=20)
    assert (again.w1 == fitted.w1).all()
    assert (again.w2 == fitted.w2).all()
    assert again.describe() == fitted.record
    with np.load(tmp_path / "one/adapter.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == ["w1", "w2"]


def test_a_file_that_is_no_adapter_is_refused(tmp_path):
    save_adapter(Adapter(np.ones((3, 2)), np.ones((3, 3))), tmp_path)
    with pytest.raises(ValueError, match="make no adapter"):
        load_adapter(tmp_path)
    (tmp_path / "adapter.json").write_text("{}")
    with pytest.raises(ValueError, match="version 1"):
        load_adapter(tmp_path)


def test_a_fit_needs_rows_and_not_too_many_candidates():
    batch = batch_of(0)
    none = np.zeros((0, 5))
    with pytest.raises(ValueError, match="0 rows"):
        fit_adapter(ContrastiveBatch(none, none, np.zeros(0, bool), batch.candidates, np.zeros((0, 6), bool)))
