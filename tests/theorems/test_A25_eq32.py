"""A25-eq32: no learner, randomised or not, leaks more than the worst case of a discrete law.

Truth: Δ of randomised learners by enumeration of the histograms, in rationals.  The other half of
A25-T14, that the value is reached, is A25-L26.
"""

from fractions import Fraction
from random import Random

import pytest

from memberbound.iid.worst_case import leak_of_law
from oracle import iid, mechanisms

F = Fraction
# ν with its exact γ = ν/(1-ν) at λ = 1: doubles without rounding.
NUS = [0.125, 0.375, 0.5, 0.625, 0.875]


def dyadic_law(rng, atoms):
    cuts = sorted(rng.sample(range(1, 64), atoms - 1))
    return [F(b - a, 64) for a, b in zip([0, *cuts], [*cuts, 64], strict=True)]


def games():
    rng = Random(32)
    for i in range(24):
        atoms = rng.randint(2, 4)
        n = rng.randint(1, 4 if atoms < 4 else 2)
        if i % 3 == 0:
            yield dyadic_law(rng, atoms), n, iid.injective(n, atoms)
        else:
            yield dyadic_law(rng, atoms), n, mechanisms.random_release(rng, n, atoms, 3)


def exceeded(bound):
    """Games in which some learner leaks more than ``bound``, and games that come close to it."""
    over, close = 0, 0
    for p, n, release in games():
        pair = iid.joint_laws(p, n, release)
        for nu in NUS:
            value = F(bound([float(x) for x in p], n, nu))
            truth = iid.leakage(pair, F(nu) / (1 - F(nu)))
            over += truth > value
            close += truth > value * (1 - F(1, 10**9)) and truth > 0
    return over, close


def test_no_learner_leaks_more():
    over, close = exceeded(leak_of_law)
    assert over == 0
    assert close >= 8 * len(NUS) - 8  # the injective ones reach it


@pytest.mark.parametrize(
    "broken",
    [
        lambda p, n, nu: 0.99 * leak_of_law(p, n, nu),
        lambda p, n, nu: leak_of_law(p, n + 1, nu),
        lambda p, n, nu: leak_of_law(p, n, 1 - nu),  # γ in place of 1/γ
    ],
)
def test_smaller_bounds_are_exceeded(broken):
    assert exceeded(broken)[0] > 0
