"""I24-P6: under (eps, 0)-DP every outcome moves the odds of "out" by at most e^eps, any k."""

import math
from fractions import Fraction
from random import Random

from memberbound.dp import guarantee_from_epsilon_delta
from oracle import mechanisms, subset
from oracle.claims import assert_bound
from oracle.real import above_log

F = Fraction


def games():
    rng = Random(66)
    for _ in range(12):
        size = rng.randint(2, 6)
        k = rng.randint(1, size - 1)
        g = rng.choice([F(1), F(5, 4), F(2), F(7)])
        yield mechanisms.random_dp_kernel(rng, size, k, g, rng.randint(2, 4)), size, k, g
    for base in (F(5, 4), F(2)):
        yield mechanisms.exponential_kernel(rng, 5, 2, base), 5, 2, base**2
    for size, k in ((2, 1), (5, 2), (5, 4)):
        yield mechanisms.randomised_response(F(3, 4)), size, k, F(3)


def posterior_odds(kernel, size, k, x):
    """Odds of "out" given each outcome, from the subsets themselves (uniform, so counts do)."""
    table = subset.tabulate(kernel, size, k)
    for a in {a for law in table.values() for a, m in law.items() if m}:
        out = sum(law.get(a, F(0)) for d, law in table.items() if x not in d)
        ins = sum(law.get(a, F(0)) for d, law in table.items() if x in d)
        yield out / ins


def all_odds():
    """Both directions: odds of "out", and odds of "in" with the prior odds inverted."""
    for kernel, size, k, g in games():
        prior_odds = F(size - k, k)
        for x in range(size):
            for odds in posterior_odds(kernel, size, k, x):
                yield (g, prior_odds), odds
                yield (g, 1 / prior_odds), 1 / odds


def test_odds_bound():
    assert_bound(
        lambda g, prior_odds: g * prior_odds,
        all_odds(),
        broken={
            "prior forgotten": lambda g, prior_odds: g,
            "too small": lambda g, prior_odds: (1 + g) / 2 * prior_odds,
        },
    )


def test_reached_by_randomised_response():
    for size, k in ((2, 1), (5, 2), (5, 4)):
        odds = set(posterior_odds(mechanisms.randomised_response(F(3, 4)), size, k, 0))
        assert odds == {3 * F(size - k, k), F(size - k, k) / 3}


def test_library_value_bounds_every_posterior():
    for kernel, size, k, g in games():
        prior = math.nextafter(k / size, 1.0)
        curve = guarantee_from_epsilon_delta([(above_log(g), 0.0)]).curve
        for x in range(size):
            for odds in posterior_odds(kernel, size, k, x):
                assert 1 / (1 + odds) <= F(curve.precision(prior))
    # reached: randomised response with truth 3/4 moves even odds to 3
    curve = guarantee_from_epsilon_delta([(above_log(F(3)), 0.0)]).curve
    assert math.isclose(curve.precision(0.5), 3 / 4, rel_tol=1e-14)
