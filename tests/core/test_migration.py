"""Figures beside each other, and bounds that keep their rarity, by hand."""

import numpy as np
import pytest

from sq_core.migration import LEAST_BOUND, MOST_BOUND, figures_beside, pair_cosines, same_share


def test_figures_by_hand() -> None:
    """Two policies, four turns: A is needed twice and found once, then twice; B is needed once, fires twice, then once."""
    relevant = np.array([[1, 0], [1, 0], [0, 1], [0, 0]], dtype=bool)
    before = np.array([[1, 1], [0, 0], [0, 1], [0, 0]], dtype=bool)
    after = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], dtype=bool)
    found = figures_beside(before, after, relevant, np.ones((4, 2), dtype=bool), ["a", "b", "c", "d"])
    assert (found["recall"].before, found["recall"].after) == (0.75, 1.0)  # (1/2 + 1) / 2, (1 + 1) / 2
    assert (found["precision"].before, found["precision"].after) == pytest.approx((0.75, (2 / 3 + 1) / 2))
    assert (found["kept"].before, found["kept"].after) == (3 / 8, 4 / 8)
    assert found["recall"].low is not None
    assert found["recall"].low <= 0.25 <= (found["recall"].high or 0)


def test_what_nobody_judged_counts_for_neither_side() -> None:
    judged = np.array([[1], [0]], dtype=bool)
    found = figures_beside([[1], [1]], [[1], [0]], [[1], [1]], judged, ["a", "b"])
    assert found["recall"].difference == 0
    assert found["kept"].after == 1.0


def test_no_need_no_figures() -> None:
    assert figures_beside([[1]], [[0]], [[0]], [[1]], ["a"]) == {}


def test_the_same_thing_twice_differs_by_nothing() -> None:
    rng = np.random.default_rng(0)
    fired, relevant = rng.random((60, 5)) < 0.4, rng.random((60, 5)) < 0.2
    found = figures_beside(fired, fired, relevant, np.ones((60, 5), dtype=bool), [f"s{n // 3}" for n in range(60)])
    assert {(each.difference, each.low, each.high) for each in found.values()} == {(0.0, 0.0, 0.0)}


@pytest.mark.parametrize(
    ("bound", "wanted"),
    [(0.9, 0.8), (0.6, 0.7), (0.2, 0.55), (0.97, 0.82)],  # one pair reaches .9, two .6, all three .2, none .97
)
def test_a_bound_keeps_how_rare_it_is(bound: float, wanted: float) -> None:
    assert same_share([0.95, 0.7, 0.3], [0.8, 0.7, 0.55], bound) == pytest.approx(wanted)


def test_bounds_stay_tests_of_nearness() -> None:
    assert same_share([0.95, 0.9], [0.2, 0.1], 0.9) == LEAST_BOUND
    assert same_share([0.95, 0.2], [1.0, 1.0], 0.9) == MOST_BOUND
    assert same_share([], [], 0.9) == 0.9
    with pytest.raises(ValueError, match="same pairs"):
        same_share([0.1], [0.1, 0.2], 0.9)


def test_pairs_of_three() -> None:
    assert pair_cosines([[1, 0], [0, 1], [0.6, 0.8]]) == pytest.approx([0.0, 0.6, 0.8])
