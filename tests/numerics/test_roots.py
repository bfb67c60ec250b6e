"""Searches return arguments that satisfy their inequality."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.errors import SearchError
from memberbound.numerics.roots import (
    confirmed,
    guessed_zero,
    last_true,
    least_scale,
    least_whole,
    safe_crossing,
)

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


@given(FINITE, FINITE, FINITE, st.floats(allow_nan=True))
def test_a_bad_guess_does_not_change_the_root(a, b, c, guess):
    low, switch, high = sorted((a, b, c))
    if switch in (low, high):
        return
    assert last_true(lambda x: x <= switch, low, high, guess) == switch
    assert last_true(lambda x: x >= switch, high, low, guess) == switch


@pytest.mark.parametrize(
    "excess",
    [
        lambda x: math.exp(x) - 5.0,
        lambda x: math.log(x + 1e-300) + 2.0,
        lambda x: x**9 - 1e-3,
        lambda x: -1.0 if x < 0.3 else 1.0,
        lambda x: -math.inf if x < 0.3 else x,
    ],
)
def test_zeros_are_guessed(excess):
    result = guessed_zero(excess, 0.0, 700.0, evaluations=80)
    assert excess(result * (1 - 1e-12)) <= 0 <= excess(result * (1 + 1e-12))


@given(st.floats(0.01, 0.99), st.sampled_from([1, 3, 9]))
def test_crossing_is_safe_and_close(root, power):
    def excess(x):
        return math.copysign(abs(x - root) ** power, root - x)

    result = safe_crossing(excess, 1.0, 0.0, evaluations=200)
    assert excess(result) <= 0
    assert root <= result <= root * (1 + 2e-4) + 1e-12


def test_the_unsafe_end_may_turn_out_safe():
    assert safe_crossing(lambda x: -1.0, 0.0, 5.0) == 5.0


@pytest.mark.parametrize("start", [1.0, math.nan, math.inf])
def test_a_start_that_misses_the_target_is_refused(start):
    with pytest.raises(SearchError, match="does not satisfy"):
        safe_crossing(lambda x: start, 0.0, 1.0)


def test_not_a_number_never_counts_as_safe():
    result = safe_crossing(lambda x: math.nan if x > 0.5 else -1.0, 0.0, 1.0)
    assert result <= 0.5


def test_too_few_evaluations_are_an_error():
    with pytest.raises(SearchError, match="no crossing"):
        safe_crossing(lambda x: x - 0.5, 0.0, 1.0, evaluations=1)


@given(st.floats(1e-200, 1e200), st.floats(1e-200, 1e200), st.sampled_from([0.5, 1, 3]))
def test_the_least_scale_is_seen_to_pass_and_is_close_wherever_the_search_starts(
    root, start, power
):
    calls = []

    def excess(x):
        calls.append(x)
        return math.log(root / x) * power if abs(math.log(root / x)) < 30 else math.inf * (root - x)

    result = least_scale(excess, start)
    assert root * (1 - 1e-12) <= result <= root * (1 + 2e-6)
    assert excess(result) <= 0
    assert len(calls) == len(set(calls)) + 1  # only the line above repeats a point
    assert len(calls) <= 130


def test_the_least_scale_keeps_within_its_ends():
    assert least_scale(lambda x: -1.0, 5.0, floor=0.25) == 0.25
    assert 2.0 <= least_scale(lambda x: 2.0 - x, 1e-9, floor=1.0) <= 2.0 * (1 + 1e-6)
    with pytest.raises(SearchError, match="nothing up to 4"):
        least_scale(lambda x: 5.0 - x, 1.0, ceiling=4.0)
    with pytest.raises(SearchError, match="nothing up to"):
        least_scale(lambda x: math.nan, 1.0)


def test_a_cheap_root_is_confirmed_with_the_expensive_function():
    assert confirmed(lambda x: 1 / x, 0.5, 2.0) == 2.0
    assert 2.0 <= confirmed(lambda x: 1 / x, 0.5, 1.99) <= 2.01
    with pytest.raises(SearchError, match="did not meet"):
        confirmed(lambda x: 1.0, 0.0, 1.0)


@given(st.integers(-5, 10**6), st.integers(1, 10**6))
def test_the_least_whole_number_is_the_first_that_holds(below, step):
    first = below + step
    assert least_whole(lambda n: n >= first, below=below) == first
    assert least_whole(lambda n: n >= first, below=below, most=first) == first
    if step > 1:
        assert least_whole(lambda n: n >= first, below=below, most=first - 1) is None
    # Far beyond the result, where a predicate may overflow, it is not asked.
    assert least_whole(lambda n: first <= n <= below + 2 * step, below=below) == first


@pytest.mark.parametrize("start", [0.5, 2.0, 7.0])
def test_the_least_scale_is_not_below_its_floor(start):
    assert least_scale(lambda _: -1.0, start, floor=2.0) == 2.0
    assert 3.0 <= least_scale(lambda x: 3.0 - x, start, floor=2.0) <= 3.0 * (1 + 1e-6)
