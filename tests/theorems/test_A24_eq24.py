"""A24-eq24 (A23-eq22, A25-eq39): knowing one record multiplies a histogram's probability.

Truth: all ordered data sets, conditioned on their first record.
"""

from fractions import Fraction
from itertools import product
from random import Random

from oracle import iid, mechanisms
from oracle.claims import assert_exact

F = Fraction


def cases():
    rng = Random(24)
    for _ in range(10):
        atoms = rng.randint(2, 3)
        yield mechanisms.random_iid_law(rng, atoms), rng.randint(1, 4)


def given_first(p, n, j):
    """Law of the histogram given that the first record is atom j."""
    law = {}
    for rest in product(range(len(p)), repeat=n - 1):
        data = (j, *rest)
        weight = F(1)
        for z in rest:
            weight *= p[z]
        h = tuple(data.count(z) for z in range(len(p)))
        law[h] = law.get(h, F(0)) + weight
    return law


def ratio(h, j, n, p):
    return F(h[j], n) / p[j]


def test_likelihood_ratio_of_every_histogram():
    conditional = [
        ((h, j, n, p), mass, given_first(p, n, j).get(h, F(0)))
        for p, n in cases()
        for h, mass in iid.multinomial(p, n).items()
        for j in range(len(p))
    ]
    assert_exact(
        ratio,
        ((arguments, expected / mass) for arguments, mass, expected in conditional),
        broken={
            "without the mean": lambda h, j, n, p: F(h[j], n),
            "of the other records": lambda h, j, n, p: F(h[j] - 1, max(n - 1, 1)) / p[j],
        },
    )


def test_the_ratio_has_mean_one():
    for p, n in cases():
        law = iid.multinomial(p, n)
        for j in range(len(p)):
            assert sum(m * ratio(h, j, n, p) for h, m in law.items()) == 1


def test_leak_of_the_histogram_is_the_mean_distance_of_these_laws():
    """Δ of the learner that releases the histogram, from conditional laws alone."""
    for p, n in cases():
        law = iid.multinomial(p, n)
        expected = sum(
            p[j] * sum(abs(m - given_first(p, n, j).get(h, F(0))) for h, m in law.items()) / 2
            for j in range(len(p))
        )
        assert iid.leak_of_learner(lambda h: h, p, n) == expected
