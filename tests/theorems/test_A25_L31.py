"""A25-L31 (De Moivre): partial sums of the binomial's deviation in closed form."""

from fractions import Fraction
from math import comb

from oracle import iid
from oracle.claims import assert_exact

F = Fraction
CHANCES = [F(1, 50), F(1, 4), F(1, 3), F(1, 2), F(7, 8)]


def partial_sums():
    for p in CHANCES:
        for n in range(1, 13):
            terms = [m * (n * p - k) for k, m in enumerate(iid.binomial(n, p))]
            yield from (((n, m, p), sum(terms[: m + 1])) for m in range(n + 1))


def test_identity():
    assert_exact(
        iid.de_moivre,
        partial_sums(),
        broken={
            "index off by one": lambda n, m, p: m * comb(n, m) * p**m * (1 - p) ** (n - m + 1),
            "exponent off by one": lambda n, m, p: (
                (m + 1) * comb(n, m + 1) * p ** (m + 1) * (1 - p) ** max(0, n - m - 1)
            ),
        },
    )


def test_full_sum_vanishes():
    assert all(iid.de_moivre(n, n, p) == 0 for n in range(1, 13) for p in CHANCES)


def test_mean_deviation_in_closed_form():
    # E|B/n - p| = (2/n) times the closed form at floor(np)
    for p in CHANCES:
        for n in range(1, 13):
            assert 2 * iid.de_moivre(n, int(n * p), p) / n == iid.mean_deviation(n, p)
