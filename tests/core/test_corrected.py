"""Precision corrected by a blind sample, against figures worked out by hand."""

import pytest

from sq_core.evaluation.corrected import corrected_precision, wilson


def test_against_a_calculation_by_hand() -> None:
    """T = 30, F = 70, k = 5 of n = 20: z² = 3.841459; middle (0.25 + 0.0960365) / 1.192073 = 0.290281; half
    1.959964 / 1.192073 · √(0.009375 + 0.00240091) = 0.178420; so k/n lies in 0.111861 … 0.468701.
    """
    low, high = wilson(5, 20)
    assert (low, high) == pytest.approx((0.111861, 0.468701), abs=2e-6)
    found = corrected_precision(30, 70, 5, 20)
    assert found.plain == 0.30
    assert found.value == pytest.approx((30 + 70 * 0.25) / 100)
    assert found.low == pytest.approx((30 + 70 * 0.111861) / 100, abs=2e-6)
    assert found.high == pytest.approx((30 + 70 * 0.468701) / 100, abs=2e-6)


def test_at_the_ends() -> None:
    assert corrected_precision(0, 0, 0, 0) == corrected_precision(0, 0, 0, 5)
    assert corrected_precision(3, 1, 0, 0).value is None
    none = corrected_precision(3, 1, 0, 10)
    assert none.value == none.plain == none.low == 0.75
    assert none.high is not None
    assert none.high > 0.75
    assert corrected_precision(3, 1, 10, 10).value == 1.0
    assert corrected_precision(5, 0, 0, 0).plain == 1.0  # nothing to correct


@pytest.mark.parametrize("counts", [(-1, 1, 0, 0), (1, 1, 3, 2)])
def test_counts_that_cannot_be_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="no such counts"):
        corrected_precision(*counts)
