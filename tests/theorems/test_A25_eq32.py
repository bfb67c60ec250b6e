"""A25-eq32: no learner, randomised or not, leaks more than the worst case of a discrete law.

Truth: Δ of randomised learners by enumeration of the histograms, in rationals.  The other half of
A25-T14, that the value is reached, is A25-L26.
"""

from fractions import Fraction
from random import Random

from memberbound.iid.worst_case import leak_of_law
from oracle import iid, mechanisms
from oracle.claims import assert_bound
from oracle.readoffs import price

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


def test_no_learner_leaks_more():
    truth = [
        ((p, n, nu), iid.leakage(iid.joint_laws(p, n, release), price(nu, 1.0)))
        for p, n, release in games()
        for nu in NUS
    ]

    def bound(p, n, nu):
        return F(leak_of_law([float(x) for x in p], n, nu))

    assert_bound(
        bound,
        truth,
        broken={
            "smaller": lambda p, n, nu: F(99, 100) * bound(p, n, nu),
            "one record more": lambda p, n, nu: bound(p, n + 1, nu),
            "γ in place of 1/γ": lambda p, n, nu: bound(p, n, 1 - nu),
        },
    )
    # The injective ones reach it.
    reached = [value > bound(*at) * (1 - F(1, 10**9)) for at, value in truth if value > 0]
    assert sum(reached) >= 8 * len(NUS) - 8
