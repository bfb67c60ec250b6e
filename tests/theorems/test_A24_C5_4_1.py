"""A24-C5.4.1: the worst leak is at most C_K/(2√n), for every law and n."""

from fractions import Fraction
from random import Random

from memberbound.iid.worst_case import diversity, leak_from_diversity
from oracle import iid, mechanisms
from oracle.claims import assert_bound

#: Room for the rounding of C_K.
ROUNDING = Fraction(1, 10**12)


def worst_leaks():
    rng = Random(541)
    for _ in range(80):
        p = mechanisms.random_iid_law(rng, rng.randint(2, 6))
        n = rng.randint(1, 12)
        c_k = diversity([float(x) for x in p]).c_k
        yield (c_k, n), iid.worst_leak(p, n) / (1 + ROUNDING)


def test_never_below_the_exact_worst_leak():
    assert_bound(
        lambda c, n: Fraction(leak_from_diversity(c, n)),
        worst_leaks(),
        broken={
            "smaller constant": lambda c, n: Fraction(min(0.4 * c / n**0.5, 1)),
            "n for its root": lambda c, n: Fraction(min(c / (2 * n), 1)),
        },
    )


def test_attained_by_a_fair_coin_thrown_once():
    assert leak_from_diversity(diversity([0.5, 0.5]).c_k, 1) >= 0.5
    assert abs(leak_from_diversity(1.0, 1) - 0.5) < 1e-12
