"""Heavy cells: the discount's monotony and sign, exact coverage of the lower bounds."""

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats

from memberbound.iid.count_functions import (
    heavy_discount_lower,
    heavy_probability_lower,
    poisson_deviation_lower,
)
from memberbound.iid.profiles import CountProfile
from oracle import iid
from oracle.large_laws import worst_leak


def poisson(lam: Fraction) -> mpmath.mpf:
    rate = mpmath.mpf(lam.numerator) / lam.denominator
    m = int(lam)
    return mpmath.exp(-rate) * rate ** (m + 1) / mpmath.factorial(m)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_the_gap_to_poisson_grows_with_p(n):
    with mpmath.workdps(30):
        gaps = []
        for i in range(101):
            p = Fraction(i, 100)
            t = n * iid.mean_deviation(n, p) / 2
            gaps.append(poisson(n * p) - mpmath.mpf(t.numerator) / t.denominator)
        assert gaps[0] == 0
        assert all(a <= b for a, b in pairwise(gaps))


@pytest.mark.parametrize("rows", [50, 2000])
@pytest.mark.parametrize("atoms", [2, 10, 40, 63])
@pytest.mark.parametrize("beta", [0.5, 0.05])
def test_lower_bounds_hold_together(rows, atoms, beta):
    """Union over equal atoms, each tail exact: an upper bound on the failure probability."""
    counts = list(range(rows + 1))
    lower = np.array(heavy_probability_lower(rows, counts[1:], beta))
    p = 1 / atoms
    mass = stats.binom.pmf(counts[1:], rows, p)
    assert atoms * float(mass[lower > p].sum()) <= beta
    assert np.all(lower <= np.array(counts[1:]) / rows)


def test_the_check_catches_uncorrected_bounds():
    rows, atoms, beta = 2000, 40, 0.5
    counts = np.arange(1, rows + 1)
    single = stats.beta.ppf(beta, counts, rows - counts + 1)
    mass = stats.binom.pmf(counts, rows, 1 / atoms)
    assert atoms * float(mass[single > 1 / atoms].sum()) > beta


def test_discount_is_below_its_value_at_the_frequencies():
    profile = CountProfile.from_counts([6000, 3000, 1000])
    got = heavy_discount_lower(profile, 10_000, 0.01)
    p = np.array([0.6, 0.3, 0.1])
    deviations = 10_000 * worst_leak(p, 10_000)
    at_frequencies = sum(poisson_deviation_lower(10_000 * q) for q in p) - deviations
    assert 0.85 * at_frequencies < got < at_frequencies


def test_no_discount_on_light_cells():
    assert heavy_discount_lower(CountProfile.from_counts([10] * 1000), 10_000, 0.01) == 0.0
    assert heavy_discount_lower(CountProfile.from_counts([1]), 1, 0.01) == 0.0
