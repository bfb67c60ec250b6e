"""Outward rounding, compared with exact fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memberbound.numerics.rounding import (
    SMALLEST,
    UNIT,
    double_above,
    double_below,
    down,
    half_up,
    root_up,
    shared_confidence,
    sum_slack,
    sum_up,
    sums_up,
    two_product,
    up,
    up_array,
)

F = Fraction
POSITIVE = st.floats(5e-324, 1e300, allow_subnormal=True)


def test_constants():
    assert 1 + 2 * UNIT > 1
    assert 1 + UNIT == 1
    assert SMALLEST / 2 == 0.0 < SMALLEST


@given(POSITIVE, st.integers(1, 1000))
def test_up_and_down_cover_their_operations(value, operations):
    step = F(operations) * F(UNIT)
    assert F(up(value, operations)) >= F(value) * (1 + step)
    assert F(down(value, operations)) <= F(value) * (1 - step)
    # and not by more than the next doubles
    assert F(up(value, operations)) <= F(value) * (1 + 2 * step + F(4 * UNIT)) + 2 * F(SMALLEST)
    assert up_array(np.array([value, 0.0]), operations).tolist() == [up(value, operations), 0.0]


@given(POSITIVE, st.integers(1, 50))
def test_signs_mirror(value, operations):
    assert down(value, operations) == -up(-value, operations)
    assert down(value, operations) < value < up(value, operations)


def test_fixed_points():
    assert up(0.0) == down(0.0) == 0.0
    assert up(math.inf) == math.inf
    assert down(SMALLEST) == 0.0
    assert up_array(np.array([np.inf])).tolist() == [np.inf]


@given(st.fractions(-(10**20), 10**20))
def test_the_doubles_next_to_a_fraction(value):
    low, high = double_below(value), double_above(value)
    assert F(low) <= value <= F(high)
    assert low == high == value or math.nextafter(low, math.inf) == high


@given(st.floats(0, 1, allow_subnormal=True))
def test_half_up(value):
    half = F(half_up(value))
    assert half >= F(value) / 2
    assert half == F(value) / 2 or half <= F(value) / 2 + F(SMALLEST)


@given(POSITIVE, POSITIVE)
def test_sum_up_is_the_next_double_or_exact(first, second):
    exact, value = F(first) + F(second), F(sum_up(first, second))
    assert value >= exact
    assert value == exact or F(math.nextafter(sum_up(first, second), 0.0)) < exact


@given(st.lists(POSITIVE, max_size=5))
def test_sums_up_is_the_next_double_or_exact(values):
    exact, value = sum(map(F, values), F(0)), sums_up(values)
    assert F(value) >= exact
    assert F(value) == exact or F(math.nextafter(value, 0.0)) < exact


@given(st.fractions(F(1, 10**20), 10**20))
def test_root_up_is_a_unit_above_the_root_at_most(value):
    root = F(root_up(value))
    assert value <= root**2 <= value * (1 + F(8 * UNIT))


def test_plain_sum_and_half_would_be_too_small():
    assert F(0.1 + 1e-18) < F(0.1) + F(1e-18) <= F(sum_up(0.1, 1e-18))
    assert F(SMALLEST / 2) < F(SMALLEST) / 2 <= F(half_up(SMALLEST))


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=60))
def test_sum_slack_covers_every_order(terms):
    exact = sum(map(F, terms))
    for order in (terms, terms[::-1], sorted(terms)):
        total = F(float(np.cumsum(order)[-1]))
        assert abs(total - exact) <= exact * F(sum_slack(len(terms)))


def test_sum_slack_covers_worst_case_additions():
    """Terms of 1 + UNIT lose half a unit in every addition: a smaller slack is refuted exactly."""
    for count in (2, 3, 10, 100, 1000):
        # Higham's bound: count-1 additions and a few roundings of each term.
        needed = (1 + F(UNIT)) ** (count + 15) - 1
        assert needed <= F(sum_slack(count)) <= 2 * needed


@given(st.floats(0.5, 1, exclude_max=True), st.integers(1, 100))
def test_shared_confidence_never_shares_more_than_there_is(confidence, parts):
    level = shared_confidence(confidence, parts)
    assert (1 - F(level)) * parts <= 1 - F(confidence)
    assert level <= 1.0
    # and the double below would share too much
    assert (1 - F(math.nextafter(level, 0.0))) * parts > 1 - F(confidence)


def test_shared_confidence_rounded_to_nearest_would_share_too_much():
    given_ = [(c / 997, parts) for c in range(500, 997) for parts in (3, 5, 7)]
    nearest = [float(1 - (1 - F(c)) / parts) for c, parts in given_]
    too_much = [
        (1 - F(level)) * parts > 1 - F(c) for level, (c, parts) in zip(nearest, given_, strict=True)
    ]
    assert any(too_much)
    for level, (c, parts) in zip(nearest, given_, strict=True):
        assert level <= shared_confidence(c, parts) <= math.nextafter(level, 1.0)
        assert (1 - F(shared_confidence(c, parts))) * parts <= 1 - F(c)


@given(st.floats(1e-100, 1e100), st.floats(1e-100, 1e100))
def test_a_product_in_two_doubles_is_exact(a, b):
    product, error = two_product(np.float64(a), np.array([b]))
    assert F(float(product[0])) + F(float(error[0])) == F(a) * F(b)


def test_arrays_round_up_by_the_given_steps():
    values = np.array([0.1, 1.0, 3.7e12, SMALLEST, 0.0, np.inf])
    for operations in (1, 4, 64):
        assert up_array(values, operations).tolist() == [up(v, operations) for v in values]
    assert up_array(values).tolist() == [up(v, 4) for v in values.tolist()]
