"""X2: largest max(TPR - gamma FPR) over all (eps, delta)-indistinguishable pairs, any gamma.

Truth: the extremal pair enumerated (equality), and random pairs of three kinds (never more).
"""

import math
from fractions import Fraction
from random import Random

from memberbound.dp import guarantee_from_epsilon_delta
from oracle import finite, mechanisms, subset
from oracle.claims import assert_bound, assert_exact

F = Fraction


def stick_bound(g, delta, gamma):
    return max(
        F(0),
        1 - gamma,
        delta,
        1 - gamma * (1 - delta),
        delta + (1 - delta) * (g - gamma) / (1 + g),
    )


BROKEN = {
    "without the branch of small gamma": lambda g, delta, gamma: max(
        F(0), 1 - gamma, delta, delta + (1 - delta) * (g - gamma) / (1 + g)
    ),
    "without delta": lambda g, delta, gamma: max(
        F(0), 1 - gamma, 1 - gamma * (1 - delta), (g - gamma) / (1 + g)
    ),
}


def gamma_one_scaled(g, delta, gamma):
    """The gamma = 1 value corrected by 1 - gamma only."""
    return max(F(0), delta + (1 - delta) * (g - 1) / (g + 1) + (1 - gamma))


def triples(count, seed):
    rng = Random(seed)
    for _ in range(count):
        g = 1 + finite.random_fraction(rng, F(0), F(8), grain=40)
        delta = finite.random_fraction(rng, F(0), F(1, 2), grain=20)
        gamma = finite.random_fraction(rng, F(1, 20), F(10), grain=199)
        yield g, delta, rng.choice([gamma, 1 / gamma, g, 1 / g, F(1)])


def indistinguishable_pairs():
    """(p_in, p_out, g, delta): by construction, with measured delta, and from DP mechanisms."""
    rng = Random(2002)
    for g, delta, _ in triples(60, 2003):
        yield *mechanisms.random_dp_pair(rng, g, delta, rng.randint(2, 4)), g, delta
        p_in, p_out = finite.random_pair(rng, rng.randint(2, 5), zeros=True)
        yield p_in, p_out, g, finite.delta(p_in, p_out, g)
    for g, delta, _ in triples(8, 2004):
        size = rng.choice([2, 4, 5])
        kernel = mechanisms.random_dp_kernel(rng, size, 2 if size > 2 else 1, g)
        leaky = mechanisms.with_leak(kernel, delta)
        k = 2 if size > 2 else 1
        for x in range(size):
            yield *subset.world_laws(leaky, size, k, x), g, delta


def test_reached_by_the_extremal_pair_and_never_exceeded():
    assert_exact(
        stick_bound,
        (
            (at, finite.hockey_stick_by_events(*mechanisms.extremal_pair(*at[:2]), at[2]))
            for at in triples(400, 2005)
        ),
        broken={"gamma = 1 scaled": gamma_one_scaled},
    )
    gammas = [F(1, 6), F(1, 2), F(1), F(7, 5), F(3), F(9)]
    assert_bound(
        stick_bound,
        (
            ((g, delta, gamma), stick)
            for p_in, p_out, g, delta in indistinguishable_pairs()
            for gamma in gammas
            for stick in finite.hockey_sticks(p_in, p_out, gamma)
        ),
        BROKEN,
    )


def test_gamma_one_is_delta_plus_tanh():
    for g, delta, _ in triples(50, 2006):
        # (g - 1)/(g + 1) = tanh(eps/2)
        assert stick_bound(g, delta, F(1)) == delta + (1 - delta) * (g - 1) / (g + 1)


def test_limits():
    for gamma in (F(1, 3), F(1), F(4)):
        assert stick_bound(F(1), F(0), gamma) == max(F(0), 1 - gamma)  # no information
        assert stick_bound(F(5), F(1), gamma) == 1  # nothing protected
    assert stick_bound(F(2), F(1, 9), F(2)) == F(1, 9)  # at gamma = e^eps only the leak is left
    assert stick_bound(F(2), F(1, 9), F(50)) == F(1, 9)


def test_the_code_is_the_bound_from_above():
    """``leak`` and ``advantage`` of the curve of (eps, delta)-DP, at ν = ½ and λ = 1/γ."""

    def curve(g, delta):
        epsilon = math.log(g) * (1 + 1e-15) if g > 1 else 0.0
        return guarantee_from_epsilon_delta([(epsilon, float(delta))]).curve

    def leak(g, delta, lam):
        return F(curve(g, delta).leak(0.5, lam))

    truth = [
        # Both directions are alike, and the leak is the stick at the price of at least 1.
        ((g, delta, lam), stick_bound(g, F(float(delta)), F(max(lam, 1 / lam))))
        for g, delta, _ in triples(40, 2007)
        for lam in (0.125, 0.5, 1.0, 2.0, 4.0)
    ]
    assert_bound(
        leak,
        truth,
        broken={
            "halved": lambda *at: leak(*at) / 2,
            "without delta": lambda g, delta, lam: leak(g, F(0), lam),
            "without the price": lambda g, delta, lam: leak(g, delta, 8.0),
        },
    )
    assert all(leak(*at) <= value + F(1, 10**12) for at, value in truth)
    assert all(F(curve(g, delta).advantage) == leak(g, delta, 1.0) for g, delta, _ in triples(5, 8))
