"""A25-L21 as corrected: rare and dominant atoms exactly, the others by the two constants."""

import math
from fractions import Fraction
from random import Random

import numpy as np

from memberbound.iid.worst_case import leak_of_law
from oracle import iid
from oracle.claims import assert_bound, assert_lower_bound

F = Fraction


def laws(seed=21, count=150):
    rng = Random(seed)
    for _ in range(count):
        weights = np.array(
            [rng.random() ** rng.choice([1, 8, 30]) for _ in range(rng.randint(2, 40))]
        )
        yield weights / weights.sum(), rng.choice([5, 6, 20, 300, 10**4])


def leak_by_size_of_atom(p, n):
    """Rare atoms (p < 1/n) and dominant ones (p ≥ 1 - 1/n) exactly, the others by constants."""
    p = np.asarray(p)
    rare, dominant = n * p < 1, n * (1 - p) <= 1
    middle = p[~rare & ~dominant]
    exact = (p[rare] * (1 - p[rare]) ** n).sum() + (p[dominant] ** n * (1 - p[dominant])).sum()
    spread = np.sqrt(middle * (1 - middle)).sum() / math.sqrt(n)
    return exact + 0.29 * spread, exact + 0.44 * spread


def printed(p, n):
    """The constants for every atom with p ≥ 1/n, dominant ones included."""
    p = np.asarray(p)
    rare = p < 1 / n
    expected = (p[rare] * (1 - p[rare]) ** n).sum()
    spread = np.sqrt(p[~rare] * (1 - p[~rare])).sum() / math.sqrt(n)
    return expected + 0.29 * spread, expected + 0.44 * spread


def test_corrected_statement_and_the_printed_one_on_both_sides():
    cases = [*laws(), ([0.9, 0.1], 5), ([1 - 1e-6, 1e-6], 10), ([0.8, 0.2], 5)]
    worst = [((p, n), leak_of_law(p, n)) for p, n in cases]
    assert_lower_bound(
        lambda *at: leak_by_size_of_atom(*at)[0] * (1 - 1e-9),
        worst,
        broken={"printed": lambda *at: printed(*at)[0] * (1 - 1e-9)},
    )
    assert_bound(
        lambda *at: leak_by_size_of_atom(*at)[1] * (1 + 1e-9),
        worst,
        broken={"printed": lambda *at: printed(*at)[1] * (1 + 1e-9)},
    )


def test_exact_shares_in_rationals():
    def share(n, p):
        return sum(m * max(F(k, n) - p, 0) for k, m in enumerate(iid.binomial(n, p)))

    for n in (5, 9, 20):
        for p in (F(1, 3 * n), F(1, n) - F(1, 10**6), F(1, n)):
            assert share(n, p) == p * (1 - p) ** n  # at p = 1/n both forms agree
        for q in (F(1, 3 * n), F(1, n)):
            assert share(n, 1 - q) == (1 - q) ** n * q
