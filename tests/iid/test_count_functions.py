"""Count functions: the Poisson inequality for all λ, the table and its maker, thinning."""

import importlib.util
import math
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.iid import count_functions
from memberbound.iid.count_functions import (
    CountFunction,
    closed_count_function,
    poisson_deviation_lower,
    tabulated_count_functions,
    totals_upper,
)
from memberbound.iid.profiles import CountProfile

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_count_function.py"
FUNCTIONS = (closed_count_function(), *tabulated_count_functions())


def maker():
    spec = importlib.util.spec_from_file_location("make_count_function", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: Numbers below are multiples of 2^-BITS: masses that are multiplied up from 1e-105 keep 40 digits.
BITS = 480


@cache
def poisson_masses(lam: float) -> tuple[np.ndarray, list[int]]:
    """Counts around the mean, and their probabilities; beyond is less than any excess (1e-28)."""
    low = max(0, int(lam - 14 * math.sqrt(lam) - 30))
    counts = np.arange(low, int(lam + 14 * math.sqrt(lam) + 40))
    with mpmath.workprec(BITS):
        rate = mpmath.mpf(lam)
        first = mpmath.exp(low * mpmath.log(rate) - rate - mpmath.loggamma(low + 1))
        mass = int(mpmath.ldexp(first, BITS))
    up, down = lam.as_integer_ratio()
    masses = []
    for c in counts.tolist():
        masses.append(mass)
        mass = mass * up // (down * (c + 1))
    return counts, masses


@cache
def growth(s: float, h: float) -> int:
    """h, or (1 - e^{-sh})/s."""
    with mpmath.workdps(40):
        exact = mpmath.mpf(h) if s == 0 else (1 - mpmath.exp(-s * mpmath.mpf(h))) / s
        return int(mpmath.ldexp(exact, BITS))


def exact_excess(function: CountFunction, lam: float) -> float:
    """E h - g, or (e^{-sg} - E e^{-sh})/s, by 30-digit sums over the Poisson law."""
    counts, masses = poisson_masses(lam)
    s = function.exponent
    heights = function.at(counts).tolist()
    total = sum(mass * growth(s, h) for mass, h in zip(masses, heights, strict=True)) >> BITS
    with mpmath.workdps(40):
        rate = mpmath.mpf(lam)
        m = int(mpmath.floor(rate))
        g = mpmath.exp((m + 1) * mpmath.log(rate) - rate - mpmath.loggamma(m + 1))
        least = g if s == 0 else (1 - mpmath.exp(-s * g)) / s
        return float(mpmath.ldexp(total, -BITS) - least)


def lambdas() -> list[float]:
    near = [m + d for m in (1, 2, 3, 5, 20, 23, 40, 100, 320, 900) for d in (-1e-9, 0.0, 0.5)]
    return [1e-6, 1e-3, 0.1, 0.5, *near, 5000.5, 30_000.5]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_poisson_inequality_in_thirty_digits(function):
    for lam in lambdas():
        # The values are rounded up by some 1e-15, the window misses less than 1e-40.
        assert exact_excess(function, lam) >= 0, lam


def test_poisson_inequality_catches_a_tail_without_its_shift():
    # κ√c alone: E κ√Poi(λ) ≈ κ√λ - κ/(8√λ) < g(λ).
    bare = CountFunction("bare", 0.0, lambda c: count_functions.KAPPA * np.sqrt(c), math.sqrt)
    assert exact_excess(bare, 40.5) < 0
    # And the table at s = 0 does not do for s = 0.8: it has no room for the spread.
    plain = tabulated_count_functions()[0]
    hasty = CountFunction("hasty", 0.8, plain.at, plain.above)
    assert exact_excess(hasty, 40.5) < 0


def test_the_table_is_verified_for_every_rate():
    module = maker()
    slacks = module.verify(module.read())
    assert set(slacks) == set(module.EXPONENTS)
    assert min(min(s) for s in slacks.values()) >= 0


def test_the_verifier_refuses_broken_tables():
    module = maker()
    good = module.read()
    s, values = 0.25, good[0.25]
    lower = np.cumsum(np.round(np.diff(np.concatenate([[0], values])) * 0.9999)).astype(np.int64)
    lower[0] = values[0]
    with pytest.raises(ValueError, match=r"fails|join|concave"):
        module.verify({s: lower})
    bent = values.copy()
    bent[40] += 1000
    with pytest.raises(ValueError, match="concave"):
        module.verify({s: bent})
    # Slightly too low only in the middle: concave still, but below g.
    plain = good[0.0].copy()
    plain[10:40] -= np.round(np.concatenate([np.arange(15), np.arange(15, 0, -1)]) * 4000).astype(
        np.int64
    )
    with pytest.raises(ValueError, match=r"fails|concave"):
        module.verify({0.0: plain})
    assert module.check_middle({0.0: good[0.0] / module.SCALE - 3e-5}, 60)[0.0] < 0


def test_the_package_reads_the_verified_tables():
    module = maker()
    for function in tabulated_count_functions():
        values = module.read()[function.exponent] / module.SCALE
        counts = np.arange(1, 400)
        expected = module.extended(values, function.exponent, 399)[1:]
        got = function.at(counts)
        assert np.all(got >= expected * (1 - 1e-16))
        np.testing.assert_allclose(got, expected, rtol=1e-13)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_concave_and_below_its_majorant(function):
    counts = np.arange(0, 3000)
    values = function.at(counts)
    assert values[0] == 0
    assert np.all(np.diff(values) >= -1e-12)
    assert np.all(np.diff(values, 2) <= 1e-12)
    beyond = [function.above(float(c)) for c in counts[1000:]]
    assert np.all(np.asarray(beyond) >= values[1000:] * (1 - 1e-14))


@pytest.mark.parametrize("function", FUNCTIONS[:2], ids=lambda f: f.name)
def test_self_bounding(function):
    counts = np.arange(1, 3000)
    steps = function.at(counts) - function.at(counts - 1)
    assert np.all(steps <= 1 + 1e-12)
    assert np.all(counts * steps <= function.at(counts) * (1 + 1e-12))


def test_poisson_deviation_from_below():
    for lam in (1e-5, 0.5, 1.0, 17.25, 999.9, 1000.0, 1000.5, 1e7 + 0.5):
        with mpmath.workdps(40):
            m = int(lam)
            log = (m + 1) * mpmath.log(mpmath.mpf(lam)) - lam - mpmath.loggamma(m + 1)
            truth = mpmath.exp(log)
            got = mpmath.mpf(poisson_deviation_lower(lam))
            assert got <= truth
            assert got >= truth * (1 - mpmath.mpf("2e-9"))


def brute_thinned(function: CountFunction, counts: list[int], n: int) -> float:
    rows = [cell for cell, c in enumerate(counts) for _ in range(c)]
    choices = list(combinations(rows, n))
    total = Fraction(0)
    for chosen in choices:
        held = np.bincount(chosen, minlength=len(counts))
        total += sum(map(Fraction, function.at(held).tolist()))
    return float(total / len(choices))


@pytest.mark.parametrize("function", FUNCTIONS[:3], ids=lambda f: f.name)
def test_thinned_totals_against_all_subsets(function):
    counts = [4, 3, 1, 1]
    for n in range(1, 10):
        got = totals_upper([function], CountProfile.from_counts(counts), n)[0]
        truth = brute_thinned(function, counts, n)
        assert truth * (1 - 1e-14) <= got <= truth * (1 + 1e-9)


def test_thinned_totals_of_large_cells():
    function = tabulated_count_functions()[0]
    rows, n, count = 100_000, 30_000, 40_000  # mean 12 000: Jensen
    profile = CountProfile.from_counts([count, rows - count])
    got = totals_upper([function], profile, n)[0]
    truth = 0.0
    for c in (count, rows - count):
        law = stats.hypergeom(rows, c, n)
        far = int(10 * law.std())
        support = np.arange(int(law.mean()) - far, int(law.mean()) + far)
        truth += float(function.at(support) @ law.pmf(support))
    assert truth <= got <= truth * (1 + 1e-4)
    narrow = CountProfile.from_counts([9_000, rows - 9_000])  # mean 900: summed
    law = stats.hypergeom(rows, 9_000, 10_000)
    support = np.arange(600, 1300)
    truth = float(function.at(support) @ law.pmf(support)) + function.above(9_100.0)
    assert totals_upper([function], narrow, 10_000)[0] == pytest.approx(truth, rel=1e-4)


def test_more_rows_than_the_table_are_refused():
    with pytest.raises(InputError, match="at most"):
        totals_upper([closed_count_function()], CountProfile.from_counts([2, 1]), 4)
