"""A24-eq24 (A23-eq22, A25-eq39): knowing one record multiplies a histogram's probability.

Truth: all ordered data sets, conditioned on their first record.
"""

from fractions import Fraction
from itertools import product
from random import Random

from oracle import iid, mechanisms
from oracle.printed_examples import leak_of_learner

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


def without_the_mean(h, j, n, p):
    return F(h[j], n)


def of_the_other_records(h, j, n, p):
    return F(h[j] - 1, max(n - 1, 1)) / p[j]


def violations(factor):
    bad = []
    for p, n in cases():
        law = iid.multinomial(p, n)
        for j in range(len(p)):
            known = given_first(p, n, j)
            bad += [
                (p, h, j) for h, m in law.items() if m * factor(h, j, n, p) != known.get(h, F(0))
            ]
    return bad


def test_likelihood_ratio_of_every_histogram():
    assert violations(ratio) == []


def test_broken_ratios_are_caught():
    assert violations(without_the_mean)
    assert violations(of_the_other_records)


def test_the_ratio_has_mean_one():
    for p, n in cases():
        law = iid.multinomial(p, n)
        for j in range(len(p)):
            assert sum(m * ratio(h, j, n, p) for h, m in law.items()) == 1


def test_leak_of_the_histogram_is_the_mean_distance_of_these_laws():
    """The code's Δ of the learner that releases the histogram, from conditional laws alone."""
    for p, n in cases():
        law = iid.multinomial(p, n)
        expected = sum(
            p[j] * sum(abs(m - given_first(p, n, j).get(h, F(0))) for h, m in law.items()) / 2
            for j in range(len(p))
        )
        assert leak_of_learner(lambda h: h, p, n) == expected
