"""What a new centre would change: compared with fitting and scoring by hand around each centre, nothing touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sq_core.classifier import Classifier
from sq_core.embedding import centre_and_normalise, make_centre
from sq_core.fitting import fit_classifier
from sq_core.recentring import CurrentVersion, RecentringError, drift, recentre_shadow
from sq_core.scoring import Pooling, ViewTable, state_margins
from tests.core.toy import centre_at

BOTH = Pooling()


def unit(rng, *shape):
    rows = rng.normal(size=shape) + np.sin(np.arange(shape[-1]))
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def world(seed=0, states=60, dimension=16, artifacts=3):
    """Raw vectors: artifact texts, current versions around the centre of the first texts, and states of one turn."""
    rng = np.random.default_rng(seed)
    texts = unit(rng, artifacts + 4, dimension)
    old = make_centre(texts[:artifacts])
    current = []
    for j in range(artifacts):
        signals, near = unit(rng, 8, dimension), unit(rng, 8, dimension)
        fit = fit_classifier(centre_and_normalise(signals, old), centre_and_normalise(near, old), 1.0, "balanced")
        current.append(CurrentVersion(f"a{j}", Classifier.from_fit(fit), signals, near, class_weight="balanced"))
    places = np.arange(states), np.zeros(states, dtype=np.int64)
    table = ViewTable(unit(rng, states, dimension), unit(rng, states, dimension), *places, *places)
    return texts, current, table, old


def test_the_same_texts_change_nothing():
    texts, current, table, old = world()
    found = recentre_shadow(texts[:3], current, table, old=old, theta=0.0, pooling=BOTH)
    assert found.centre == old
    assert (found.drift.cosine, found.drift.distance) == (pytest.approx(1), 0)
    for each, now in zip(found.versions, current, strict=True):
        assert each.classifier.to_bytes() == now.classifier.to_bytes()
        assert each.cosine == pytest.approx(1, abs=1e-6)
        assert len(each.at_same_cut_off) == len(each.after_offset) == 0


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([-0.2, 0.0, 0.3]), st.booleans())
def test_flips_are_those_of_fitting_and_scoring_around_both_centres(seed, theta, last):
    texts, current, table, old = world(seed)
    pooling = Pooling(last=1) if last else Pooling()
    untouched = [each.classifier.to_bytes() for each in current], table.turns.tobytes(), texts.tobytes()
    found = recentre_shadow(texts, current, table, old=old, theta=theta, pooling=pooling)
    assert ([each.classifier.to_bytes() for each in current], table.turns.tobytes(), texts.tobytes()) == untouched
    new = make_centre(texts)
    assert found.centre == new
    for each, now in zip(found.versions, current, strict=True):
        sides = (centre_and_normalise(side, new) for side in (now.signals, now.anti_signals))
        fit = fit_classifier(*sides, 1.0, "balanced")
        assert each.classifier.weights.tobytes() == fit.weights.astype(np.float32).tobytes()
        fired = []
        for centre, version in ((old, now.classifier), (new, each.classifier)):
            places = table.state_conversation, table.state_turn
            views = [centre_and_normalise(rows, centre) for rows in (table.cumulative, table.turns)]
            fired.append(state_margins(version.weights, version.bias, ViewTable(*views, *places, *places), pooling))
        before, after = fired[0] > theta, fired[1] > theta
        assert each.fired == before.sum()
        assert each.at_same_cut_off.started.tolist() == np.flatnonzero(~before & after).tolist()
        assert each.at_same_cut_off.stopped.tolist() == np.flatnonzero(before & ~after).tolist()
        # The share is held: as many start as stop, unless equal margins or none or all that fire leave no choice.
        if 0 < before.sum() < len(before):
            assert len(each.after_offset.started) >= len(each.after_offset.stopped)
            assert each.choice.rule == "share"
            held = fired[1] > theta + each.classifier.offset
            assert held.sum() >= before.sum()


def test_recall_is_held_where_there_are_enough_relevant_turns():
    texts, current, table, old = world()
    relevant = np.zeros((60, 3), dtype=bool)
    relevant[:25, 0] = True
    first, second, _ = recentre_shadow(
        texts, current, table, old=old, theta=0.0, pooling=BOTH, relevant=relevant
    ).versions
    assert (first.choice.rule, first.choice.relevant, second.choice.rule) == ("recall", 25, "share")
    stopped, started = set(first.after_offset.stopped.tolist()), set(first.after_offset.started.tolist())
    assert len(stopped & set(range(25))) <= len(started & set(range(25)))


def test_drift_by_hand():
    found = drift(centre_at((3.0, 4.0, 0.0)), centre_at((0.0, 4.0, 3.0)))
    assert (found.old_norm, found.new_norm) == (5.0, 5.0)
    assert found.cosine == pytest.approx(16 / 25)
    assert found.distance == pytest.approx(18**0.5)
    assert np.isnan(drift(centre_at(), centre_at((1.0, 0.0, 0.0))).cosine)


def test_exemplars_of_several_views_are_the_mean_of_their_centred_views():
    texts, current, table, old = world()
    one = current[0]
    twice = CurrentVersion(
        one.key, one.classifier, *(np.stack([s, s], axis=1) for s in (one.signals, one.anti_signals))
    )
    found = recentre_shadow(texts, [twice], table, old=old, theta=0.0, pooling=BOTH).versions[0]
    plain = CurrentVersion(one.key, one.classifier, one.signals, one.anti_signals)
    expected = recentre_shadow(texts, [plain], table, old=old, theta=0.0, pooling=BOTH).versions[0]
    assert found.classifier.weights == pytest.approx(expected.classifier.weights, abs=1e-6)


def test_what_cannot_be_compared_says_why():
    texts, current, table, old = world()
    with pytest.raises(RecentringError, match=r"expected 60 states by 3 artifacts"):
        recentre_shadow(texts, current, table, old=old, theta=0.0, pooling=BOTH, relevant=np.zeros((2, 3)))
    with pytest.raises(RecentringError, match="old centre has 3 dimensions, the new one 2"):
        drift(centre_at(), make_centre(np.eye(2, dtype=np.float32)))
    alone = CurrentVersion("lonely", current[0].classifier, texts[:1], current[0].anti_signals)
    with pytest.raises(RecentringError, match="artifact lonely: row 0 of 1: E - c is 0"):
        recentre_shadow(texts[:1], [alone], table, old=old, theta=0.0, pooling=BOTH)
    none = CurrentVersion("none", current[0].classifier, current[0].signals, current[0].anti_signals[:0])
    with pytest.raises(RecentringError, match="artifact none: no anti-signal given"):
        recentre_shadow(texts, [none], table, old=old, theta=0.0, pooling=BOTH)


def test_a_state_on_the_new_centre_says_nothing():
    """Its margin is the bias alone: it fires exactly where that is above the cut-off."""
    texts, current, table, old = world(states=4)
    table.turns[2] = texts[0]
    found = recentre_shadow(texts[:1], current, table, old=old, theta=0.0, pooling=Pooling(cumulative=False))
    turns = centre_and_normalise(table.turns, old)
    for each, now in zip(found.versions, current, strict=True):
        before = float(turns[2] @ now.classifier.weights) + now.classifier.bias > 0
        flips = each.at_same_cut_off
        assert (2 in flips.started if not before else 2 not in flips.stopped) == (each.classifier.bias > 0)
