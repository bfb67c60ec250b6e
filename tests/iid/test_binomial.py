"""Binomial terms against 50-digit arithmetic on a hard grid: never below, at most 1e-10 above."""

import math
from fractions import Fraction
from functools import cache
from math import comb, floor
from random import Random

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.numerics import binomial
from memberbound.numerics.binomial import (
    Atoms,
    half_deviation_upper,
    hockey_stick_upper,
    point_probability,
)

F = Fraction
SIZES = (1, 2, 3, 5, 17, 100, 1001, 10**6, 123_456_789, 10**9, 10**12 - 1, 10**12)
GAMMAS = (0.2, 0.5, 0.9, 0.999, 1 - 1e-6, 1 + 1e-12, 1 + 1e-6, 1.001, 1.1, 2.0, 7.0)


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


def hard_probabilities(n):
    """np just below, at and just above integers; p near 0 and 1, and 1 itself."""
    grid = {1e-300, 1e-20, 1e-9, 0.1, 0.5, 0.3141, 1 - 1e-9, 1 - 1.2e-16, 1.0}
    for j in (1, 2, 3, 17, n // 3, n // 2, n - 1, n):
        if 1 <= j <= n:
            p = j / n
            grid |= {np.nextafter(p, 0), p, min(np.nextafter(p, 2), 1.0), p / 2}
    return sorted(float(p) for p in grid)


def exact_point(n, k, p):
    p = mp.mpf(p)
    if p in (0, 1):
        return mp.mpf(k == n * p)
    ways = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
    return mp.exp(ways + k * mp.log(p) + (n - k) * mp.log1p(-p))


def exact_half_deviation(n, p):
    p = mp.mpf(p)
    m = int(mp.floor(n * p))
    return p * (1 - p) * exact_point(n - 1, m, p) if m < n else mp.mpf(0)


def added_hockey_stick(n, p, gamma):
    """The definition, term by term outward from γnp."""
    p, gamma = mp.mpf(p), mp.mpf(gamma)
    m = int(mp.floor(gamma * n * p))
    total = mp.mpf(0)
    if p == 1 or (gamma >= 1 and m >= n):
        return total
    k, step, odds = (m + 1, 1, p / (1 - p)) if gamma >= 1 else (m, -1, (1 - p) / p)
    term = exact_point(n, k, p)
    while 0 <= k <= n:
        value = mp.mpf(k) / n - gamma * p
        total += term * (value if gamma >= 1 else -value / gamma)
        term *= ((n - k) / mp.mpf(k + 1) if step > 0 else k / mp.mpf(n - k + 1)) * odds
        k += step
        if term < total * mp.mpf(10) ** -40:
            break
    return total


def upper_tail(n, m, p):
    """P(Bin(n,p) > m) as a Beta integral, normalised so that quadrature sees numbers near 1."""
    a, b = m + 1, n - m
    log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(n + 1)
    unit = mp.sqrt(p * (1 - p) / n)
    z = (a - n * p) / (unit * n)
    peak = (a - 1) * mp.log(p) + (b - 1) * mp.log1p(-p)

    def density(v):
        t = p - unit * v
        return mp.exp((a - 1) * mp.log(t) + (b - 1) * mp.log1p(-t) - peak)

    end = min(p / unit * mp.mpf("0.999999"), 280 / (mp.sqrt(z * z + 280) + max(z, 0)))
    # The density is nearly normal, so that 48 nodes on each of 8 parts leave nothing to be seen.
    nodes = gauss_legendre(48)
    part = end / 16
    total = mp.fsum(
        weight * density(part * (2 * k + 1 + node)) for k in range(8) for node, weight in nodes
    )
    return unit * part * total * mp.exp(peak - log_beta)


@cache
def gauss_legendre(count):
    """Nodes and weights on [-1, 1] in 50 digits, by Newton's method from those in doubles."""
    result = []
    for start in np.polynomial.legendre.leggauss(count)[0].tolist():
        x = mp.mpf(start)
        for _ in range(3):
            before, now = mp.mpf(1), x
            for k in range(2, count + 1):
                before, now = now, ((2 * k - 1) * x * now - (k - 1) * before) / k
            slope = count * (x * now - before) / (x * x - 1)
            x -= now / slope
        result.append((x, 2 / ((1 - x * x) * slope**2)))
    return result


def closed_hockey_stick(n, p, gamma):
    """De Moivre's term minus a tail: the textbook form, in 50 digits."""
    p, gamma = mp.mpf(p), mp.mpf(gamma)
    m = int(mp.floor(gamma * n * p))
    first = p * (1 - p) * exact_point(n - 1, m, p)
    if gamma >= 1:
        return first - (gamma - 1) * p * upper_tail(n, m, p)
    return first - (1 / gamma - 1) * p * upper_tail(n - 1, n - 1 - m, 1 - p)


def hockey_stick_cases():
    for n in (1, 2, 3, 17, 100, 1001, 10**6, 10**12):
        grid = [p for p in hard_probabilities(n) if 1e-290 < p < 1]
        for gamma in GAMMAS:
            cut = [gamma * n * p for p in grid]
            sides = [(n - c if gamma > 1 else c) for c in cut]
            few = [min(s, n * p, n * (1 - p)) < 100 for s, p in zip(sides, grid, strict=True)]
            chosen = [p for p, ok in zip(grid, few, strict=True) if ok]
            yield n, chosen, gamma, added_hockey_stick
    for n, p in ((10**4, 0.3), (10**6, 0.9), (10**9, 1e-5), (10**12, 0.3141), (10**12, 1e-7)):
        sd = (n * p * (1 - p)) ** 0.5
        for z in (-20, -0.2, 1e-4, 2, 30):
            gamma = 1 + z * sd / (n * p)
            if 0 < gamma < 1 / p:
                yield n, [p], gamma, closed_hockey_stick


def test_hockey_sticks_on_the_hard_grid():
    seen = 0
    for n, grid, gamma, oracle in hockey_stick_cases():
        for p, value in zip(grid, hockey_stick_upper(n, grid, gamma), strict=True):
            truth = oracle(n, p, gamma)
            assert value >= truth, (n, p, gamma)
            if truth > 1e-270:
                # If γp is 1 up to rounding, the last bits of γp are the answer.
                loose = 1e-6 if abs(gamma * p - 1) < 1e-15 else 1e-10
                assert value <= truth * (1 + loose), (n, p, gamma)
                seen += 1
    assert seen > 600


def test_far_tails_are_from_above():
    """A point probability is off in proportion to its deviance, here of hundreds."""
    below = 0.0
    for n, p in ((700, 0.37), (700, 0.63), (5000, 0.013), (400, 0.5), (9 * 10**4, 2e-3)):
        for share in (0.3, 0.5, 0.7, 0.9, 0.97):
            for gamma in (1 + share * (1 / p - 1), 1 - share):
                truth = added_hockey_stick(n, p, gamma)
                value = hockey_stick_upper(n, p, gamma)[0]
                assert truth <= value, (n, p, gamma)
                below += truth > 1e-270
    assert below > 20


def test_hockey_sticks_at_one_are_half_the_deviation():
    for n, p in ((1, 0.25), (7, 0.3), (40, 0.01)):
        exact = [F(math.comb(n, k)) * F(p) ** k * (1 - F(p)) ** (n - k) for k in range(n + 1)]
        truth = sum(mass * max(F(k, n) - F(p), 0) for k, mass in enumerate(exact))
        assert truth <= F(float(hockey_stick_upper(n, p, 1.0)[0])) <= truth * (1 + F(1, 10**11))


def test_products_that_underflow_are_from_above():
    for n in (1, 3):
        for exponent in range(-308, -250, 2):
            p = 1.7 * 10.0**exponent
            for gamma in (1e-30, 3.3e-14, 0.7):
                if gamma * p > 0:
                    truth = mp.mpf(p) * (1 - mp.mpf(p)) ** n
                    assert truth <= hockey_stick_upper(n, p, gamma)[0] <= p


def test_small_cuts_of_small_masses_are_from_above():
    """Below the mean only the empty cell counts: p(1-p)^n, however small γ is."""
    for n, p in ((1000, 0.475), (900, 0.5), (58, 1 - 2.0**-16)):
        truth = mp.mpf(p) * (1 - mp.mpf(p)) ** n
        for gamma in (1e-30, 1e-46, 1e-100, 1e-305):
            assert truth <= hockey_stick_upper(n, p, gamma)[0] <= truth * (1 + mp.mpf("1e-10"))


def test_subnormal_shares_are_from_above():
    """One record where 1e-282 are expected: γnp is next to 1, and 1 - γnp is left of p."""
    rng, n = Random(4), 10**15
    for _ in range(100):
        p = 10 ** rng.uniform(-297.4, -297)
        gamma = 1 / (n * p) * (1 - rng.choice([1, 2, 3]) * 2.0**-53)
        truth = F(p) * max(1 - F(gamma) * n * F(p), 0)  # more records are 1e-282 times as likely
        assert truth * (1 - n * F(p)) <= F(float(hockey_stick_upper(n, p, gamma)[0]))


def test_the_last_bits_of_the_cut_are_from_above():
    """With γp next to 1 the distance of γnp to n is the answer; it has 32 digits."""
    rng = Random(3)
    for _ in range(200):
        n, gap = rng.choice([1, 3, 5, 9]), 10 ** rng.uniform(-33, -28)
        cells, p = rng.choice([3, 49, 101]), rng.uniform(0.2, 0.9) * 10 ** rng.uniform(-15, 0)
        exact = (1 - F(gap)) / F(p)
        gamma, rest = float(exact), float(exact - F(float(exact)))
        for atoms, one, cut in (
            (Atoms.uniform(cells), F(1, cells), (float(cells), -cells * gap)),
            (Atoms.of(p), F(p), (gamma, rest)),
        ):
            truth = one**n * max(1 - (F(cut[0]) + F(cut[1])) * one, 0)  # all n in one cell
            value = F(float(hockey_stick_upper(n, atoms, *cut)[0]))
            assert truth <= value <= truth * (1 + F(1, 10**10)) + F(n, 10**30)


#: Atoms K, records n, and by how many 2^-114 of it γ is below K: the roundings agree in sign.
FOUR_DOUBLES = (
    (801400778336387306, 11, 872),
    (374731846739520227, 9, 916),
    (524224594118436583, 11, 784),
    (36678433010712635, 9, 1755),
    (64236236227393055, 11, 799),
)


def test_roundings_of_a_cut_of_four_doubles_add_up():
    """Both γ and 1/K are sums of two doubles; all n records in one cell, and γ just below K."""
    for cells, n, short in FOUR_DOUBLES:
        exact = cells * (1 - F(short, 2**114))
        gamma, rest = float(exact), float(exact - F(float(exact)))
        truth = F(1, cells**n) * (1 - (F(gamma) + F(rest)) / cells)
        assert truth <= F(float(hockey_stick_upper(n, Atoms.uniform(cells), gamma, rest)[0]))


def test_half_deviations_on_the_hard_grid():
    for n in SIZES:
        grid = hard_probabilities(n)
        for p, value in zip(grid, half_deviation_upper(n, grid), strict=True):
            truth = exact_half_deviation(n, p)
            assert value >= truth, (n, p)
            assert value <= truth * (1 + mp.mpf("1e-13")), (n, p)


def test_without_outward_rounding_the_grid_catches_it(monkeypatch):
    monkeypatch.setattr(binomial, "UNIT", 0.0)
    below = [
        (n, p)
        for n in SIZES
        for p, value in zip(
            hard_probabilities(n), half_deviation_upper(n, hard_probabilities(n)), strict=True
        )
        if p > 1e-290 and value < exact_half_deviation(n, p)
    ]
    assert below


def test_with_products_in_one_double_the_grid_catches_it(monkeypatch):
    monkeypatch.setattr(binomial, "two_product", lambda a, b: (a * b, np.zeros_like(a * b)))
    errors = []
    for p in (1 / 3, 0.31415926535, 0.7182818284):
        n = 10**12
        gamma = 1 + 20 * (n * p * (1 - p)) ** 0.5 / (n * p)
        value = hockey_stick_upper(n, p, gamma)[0]
        errors.append(float(value / closed_hockey_stick(n, p, gamma) - 1))
    assert max(errors) > 1e-10 or min(errors) < 0


def test_point_probabilities_near_and_far_from_the_mean():
    for n in (1, 2, 16, 17, 1000, 10**6, 10**12):
        for p in (1e-12, 0.01, 0.5, 0.73, 1 - 1e-12):
            sd = (n * p * (1 - p)) ** 0.5
            counts = {min(max(floor(n * p + z * sd), 0), n) for z in (-20, -3, -1, 0, 1, 5, 25)}
            counts |= {0, n} if n < 1000 else set()
            for k in counts:
                truth = exact_point(n, k, p)
                if truth < 1e-300:
                    continue
                deviance = -mp.log(truth)
                error = abs(float(point_probability(n, k, p)[0] / truth - 1))
                assert error < (32 + 16 * deviance) * 2.0**-53, (n, p, k)


@given(
    st.integers(1, 40),
    st.fractions(0, 1, max_denominator=64),
    st.fractions(F(1, 8), 8, max_denominator=16),
)
def test_small_cases_in_rationals(n, p, gamma):
    p, gamma = F(float(p)), F(float(gamma))  # the rationals the doubles stand for
    law = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    if gamma >= 1:
        truth = sum(m * max(F(k, n) - gamma * p, 0) for k, m in enumerate(law))
    else:
        truth = sum(m * max(p - F(k, n) / gamma, 0) for k, m in enumerate(law))
    value = F(float(hockey_stick_upper(n, float(p), float(gamma))[0]))
    assert truth <= value <= truth * (1 + F(1, 10**10))


def test_uniform_atoms_know_one_third_to_32_digits():
    for cells in (2, 3, 7, 10**6 + 3, 10**18):
        atoms = Atoms.uniform(cells)
        value = F(float(atoms.p[0])) + F(float(atoms.rest[0]))
        assert abs(value * cells - 1) < F(1, 10**31)


def test_ends_and_bad_input():
    assert hockey_stick_upper(5, 1.0, 1.0, -1e-17)[0] == 0
    assert hockey_stick_upper(1, 1e-305, 1.7e304)[0] >= 8.29e-306
    assert hockey_stick_upper(100, [0.5, 1e-300], 1.7e308).tolist() == [0.0, 0.0]
    assert hockey_stick_upper(3, [4e-323, 5e-324], 0.5).tolist() == [4e-323, 5e-324]
    assert half_deviation_upper(5, [0.0, 1.0]).tolist() == [0.0, 0.0]
    assert hockey_stick_upper(5, [0.0, 1.0], 2.0).tolist() == [0.0, 0.0]
    assert hockey_stick_upper(5, [0.0, 1.0], 0.5).tolist() == [0.0, 0.0]
    assert hockey_stick_upper(5, 0.5, 2.0)[0] == 0  # γp = 1
    assert hockey_stick_upper(10**12, 0.5, 1.5)[0] < 1e-280  # beyond every double, rounded up
    assert hockey_stick_upper(10**12, 0.5, 1.5)[0] > 0
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError):
            half_deviation_upper(3, p)
    for n in (0, 1.5, 10**16):
        with pytest.raises(InputError):
            half_deviation_upper(n, 0.5)
    with pytest.raises(InputError):
        hockey_stick_upper(3, 0.5, 0.0)
