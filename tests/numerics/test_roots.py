"""Searches return arguments that satisfy their inequality."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.errors import SearchError
from memberbound.numerics.roots import last_true, safe_crossing

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, FINITE)
def test_last_true_is_the_double_next_to_the_switch(a, b, c):
    low, switch, high = sorted((a, b, c))
    if switch in (low, high):
        return
    seen = []

    def below(x):
        seen.append(x)
        return x <= switch

    assert last_true(below, low, high) == switch
    assert len(seen) <= 66
    assert last_true(lambda x: x >= switch, high, low) == switch


def test_last_true_reaches_the_smallest_doubles_quickly():
    calls = []

    def tiny(x):
        calls.append(x)
        return x >= 1e-320

    assert last_true(tiny, 1e300, 0.0) == 1e-320
    assert len(calls) <= 65


def test_last_true_keeps_the_safe_end():
    assert last_true(lambda _: False, 1.0, 2.0) == 1.0
    assert last_true(lambda _: True, 1.0, 2.0) == math.nextafter(2.0, 1.0)
    assert last_true(lambda _: False, 1.0, 1.0) == 1.0


@given(st.floats(0.01, 0.99), st.sampled_from([1, 3, 9]))
def test_crossing_is_safe_and_close(root, power):
    def excess(x):
        return math.copysign(abs(x - root) ** power, root - x)

    found = safe_crossing(excess, 1.0, 0.0, evaluations=200)
    assert excess(found) <= 0
    assert root <= found <= root * (1 + 2e-4) + 1e-12


def test_crossing_from_the_other_side():
    found = safe_crossing(lambda x: x - 0.3, 0.0, 1.0)
    assert 0.3 * (1 - 1e-4) - 1e-9 <= found <= 0.3


def test_the_unsafe_end_may_turn_out_safe():
    assert safe_crossing(lambda x: -1.0, 0.0, 5.0) == 5.0


@pytest.mark.parametrize("start", [1.0, math.nan, math.inf])
def test_a_start_that_misses_the_target_is_refused(start):
    with pytest.raises(SearchError, match="does not satisfy"):
        safe_crossing(lambda x: start, 0.0, 1.0)


def test_not_a_number_never_counts_as_safe():
    found = safe_crossing(lambda x: math.nan if x > 0.5 else -1.0, 0.0, 1.0)
    assert found <= 0.5


def test_too_few_evaluations_are_an_error():
    with pytest.raises(SearchError, match="no crossing"):
        safe_crossing(lambda x: x - 0.5, 0.0, 1.0, evaluations=1)


def test_rounding_to_nearest_would_be_caught():
    """A search that returned the middle of its bracket would break the promise half the time."""

    def midpoint(holds, inside, outside):
        found = last_true(holds, inside, outside)
        return math.nextafter(found, outside)

    assert not midpoint(lambda x: x <= 0.1, 0.0, 1.0) <= 0.1
