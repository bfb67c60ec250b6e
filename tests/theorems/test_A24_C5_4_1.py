"""A24-C5.4.1: the worst leak is at most C_K/(2√n), for every law and n."""

from fractions import Fraction
from random import Random

from memberbound.iid.worst_case import diversity, leak_from_diversity
from oracle import iid, mechanisms

F = Fraction


def violations(bound):
    rng = Random(541)
    bad = []
    for _ in range(80):
        p = mechanisms.random_iid_law(rng, rng.randint(2, 6))
        n = rng.randint(1, 12)
        worst = sum(
            (m * abs(F(k, n) - x) / 2 for x in p for k, m in enumerate(iid.binomial(n, x))), F(0)
        )
        if worst > F(bound(diversity([float(x) for x in p]).c_k, n)) * (1 + F(1, 10**12)):
            bad.append((p, n))
    return bad


def test_never_below_the_exact_worst_leak():
    assert violations(leak_from_diversity) == []


def test_smaller_constants_are_caught():
    assert violations(lambda c, n: min(0.4 * c / n**0.5, 1))
    assert violations(lambda c, n: min(c / (2 * n), 1))


def test_attained_by_a_fair_coin_thrown_once():
    assert leak_from_diversity(diversity([0.5, 0.5]).c_k, 1) >= 0.5
    assert abs(leak_from_diversity(1.0, 1) - 0.5) < 1e-12
