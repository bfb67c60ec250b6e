"""A25-P25: TV(N(0,I), N(v/√n,(1-1/n)I)) ≤ √d/(2n) + ‖v‖/(2√n) for n ≥ 2, not for n = 1."""

import math

import pytest

from memberbound.iid.gaussian_mean import leak_of_gaussian_mean, leak_of_gaussian_mean_bound
from oracle.claims import assert_bound
from oracle.gaussian_mean import record_leak

#: Room for the quadrature.
QUADRATURE = 1e-10


def total_variation_bound(norm, n, d):
    return math.sqrt(d) / (2 * n) + norm / (2 * math.sqrt(n))


def test_never_below_the_exact_distance():
    assert_bound(
        total_variation_bound,
        (
            ((norm, n, d), record_leak(norm, n, d) - QUADRATURE)
            for n in (2, 3, 10, 100, 2000)
            for d in (1, 2, 5, 50)
            for norm in (0.0, 0.01, 0.3, 1.0, 3.0, 10.0)
        ),
        broken={
            "without the dimension": lambda r, n, d: r / (2 * math.sqrt(n)),
            "without the norm": lambda r, n, d: math.sqrt(d) / (2 * n),
            "smaller": lambda r, n, d: 0.6 * total_variation_bound(r, n, d),
        },
    )


def test_at_one_record_the_second_law_is_a_point():
    assert leak_of_gaussian_mean(1, 1) == 1.0 > total_variation_bound(0.0, 1, 1)


def test_averaged_over_records_it_bounds_the_leak_at_every_gamma():
    for n in (2, 10, 1000):
        for d in (1, 8):
            for nu in (0.2, 0.5, 0.6):
                assert leak_of_gaussian_mean(n, d, nu) <= leak_of_gaussian_mean_bound(n, d)
    # √d/(2n) + E|v|/(2√n) with E|v| = √(2/π)
    expected = 1 / 100 + math.sqrt(2 / math.pi) / (2 * math.sqrt(50))
    assert leak_of_gaussian_mean_bound(50, 1) == pytest.approx(expected, rel=1e-10)
