"""A25-R8 (eq. 9): DP bounds the leak; X2 is the sharp form, X11 the sharper one for delta = 0.

Truth: (eps, delta)-DP learners in the i.i.d. game, enumerated.  g stands for e^eps.
"""

import math
from fractions import Fraction
from random import Random

from memberbound.dp import guarantee_from_epsilon_delta
from oracle import finite, iid, mechanisms
from oracle.claims import assert_bound
from oracle.readoffs import price
from oracle.real import above_log

F = Fraction
GAMMAS = [F(1, 5), F(4, 5), F(1), F(5, 4), F(5)]


def leak_from_dp(epsilon, delta, nu, lam=1.0):
    return F(guarantee_from_epsilon_delta([(epsilon, delta)]).curve.leak(nu, lam))


def printed(g, delta, gamma):
    bracket = max(F(0), g - 1 / gamma) - max(F(0), 1 - 1 / gamma) + delta
    return min(F(1), max(F(1), gamma) * bracket)


def games():
    """(pair, g, delta) of private learners, the last ones with nothing but the leak."""
    rng = Random(88)
    for _ in range(20):
        g = 1 + F(rng.randint(0, 16), 40)
        delta = F(rng.randint(0, 4), 20)
        atoms, n = rng.choice([(2, 1), (3, 1), (2, 2)])
        hists = list(iid.histograms(n, atoms))
        laws = mechanisms.random_dp_laws(rng, g, 3, len(hists))
        release = {
            h: {a: (1 - delta) * m for a, m in law.items()} | {("leak", h): delta}
            for h, law in zip(hists, laws, strict=True)
        }
        yield iid.joint_laws(mechanisms.random_iid_law(rng, atoms), n, release), g, delta
    for delta in (F(1, 10), F(1)):
        release = iid.map_release(1, 16, lambda h, d=delta: {h: d, "none": 1 - d})
        yield iid.joint_laws([F(1, 16)] * 16, 1, release), F(1), delta


def test_printed_bound_holds():
    assert_bound(
        printed,
        (
            ((g, delta, gamma), iid.leakage(pair, gamma))
            for pair, g, delta in games()
            for gamma in GAMMAS
        ),
        broken={
            "delta forgotten": lambda g, delta, gamma: printed(g, F(0), gamma),
            "halved": lambda g, delta, gamma: printed(g, delta, gamma) / 2,
        },
    )


def test_library_values_are_never_below_a_private_game():
    for pair, g, delta in games():
        eps, dlt = above_log(g), math.nextafter(float(delta), 1.0)
        for nu, lam in ((0.5, 1.0), (0.8, 1.0), (0.25, 2.0), (1e-3, 1.0)):
            sharp = leak_from_dp(eps, dlt, nu, lam)
            assert iid.leakage(pair, price(nu, lam)) <= sharp
            loose = printed(g * (1 + F(1, 10**14)), F(dlt), price(nu, lam))
            assert sharp <= loose * (1 + F(1, 10**12)) + F(1, 10**14)


def test_library_value_is_the_extremal_pair():
    """X2 is attained by a pair of laws, in the direction the price asks for."""
    for g in (F(1), F(3, 2), F(20)):
        for delta in (F(0), F(1, 4)):
            low, high = mechanisms.extremal_pair(g, delta)
            eps = above_log(g)
            for nu in (0.5, 0.9, 0.02):
                gamma = price(nu, 1.0)
                truth = finite.hockey_stick(low, high, max(gamma, 1 / gamma))
                leak = leak_from_dp(eps, float(delta), nu)
                assert truth <= leak
                assert leak <= truth * (1 + F(1, 10**13)) + F(1, 10**14)
