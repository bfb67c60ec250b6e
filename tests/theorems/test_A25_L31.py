"""A25-L31 (De Moivre): partial sums of the binomial's deviation in closed form."""

from fractions import Fraction
from math import comb

from oracle import iid

F = Fraction
CHANCES = [F(1, 50), F(1, 4), F(1, 3), F(1, 2), F(7, 8)]


def closed_form(n, m, p):
    return (m + 1) * comb(n, m + 1) * p ** (m + 1) * (1 - p) ** (n - m)


def index_off_by_one(n, m, p):
    return m * comb(n, m) * p**m * (1 - p) ** (n - m + 1)


def exponent_off_by_one(n, m, p):
    return (m + 1) * comb(n, m + 1) * p ** (m + 1) * (1 - p) ** max(0, n - m - 1)


def violations(formula):
    bad = []
    for p in CHANCES:
        for n in range(1, 13):
            masses = iid.binomial(n, p)
            for m in range(n + 1):
                truth = sum(masses[k] * (n * p - k) for k in range(m + 1))
                if formula(n, m, p) != truth:
                    bad.append((n, m, p))
    return bad


def test_identity():
    assert violations(closed_form) == []


def test_broken_forms_are_caught():
    assert violations(index_off_by_one)
    assert violations(exponent_off_by_one)


def test_full_sum_vanishes():
    assert all(closed_form(n, n, p) == 0 for n in range(1, 13) for p in CHANCES)


def test_mean_deviation_in_closed_form():
    # E|B/n - p| = (2/n) times the closed form at floor(np)
    for p in CHANCES:
        for n in range(1, 13):
            truth = sum(m * abs(F(b, n) - p) for b, m in enumerate(iid.binomial(n, p)))
            assert 2 * closed_form(n, int(n * p), p) / n == truth
