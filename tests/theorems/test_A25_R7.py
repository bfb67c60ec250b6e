"""A25-R7: the leak against total variation, and its improvement: Delta <= TV at every gamma.

The remark has the factor max(1, gamma).  Delta is a hockey-stick at max(gamma, 1/gamma) >= 1, and
hockey-sticks fall from TV at 1, so the factor can go.  Truth: the i.i.d. game, all attacks played.
"""

import math
from fractions import Fraction

import mpmath as mp

from memberbound.curve import PolygonCurve
from oracle import finite, iid, mechanisms
from oracle.claims import assert_bound
from oracle.real import digits

F = Fraction
GAMMAS = [F(1, 9), F(1, 2), F(9, 10), F(1), F(10, 9), F(2), F(9)]


def games():
    for game in mechanisms.random_iid_games(77, 14, [(2, 1), (2, 2), (3, 1), (2, 3)]):
        yield iid.joint_laws(*game)
    yield iid.joint_laws([F(1, 2)] * 2, 1, iid.injective(1, 2))
    yield iid.joint_laws([F(1, 3)] * 3, 1, iid.injective(1, 3))


def test_leak_is_at_most_the_total_variation():
    truth = [
        ((finite.total_variation(*pair), g), iid.divergence(*pair[::-1], g, by_events=True))
        for pair in games()
        for g in GAMMAS
    ]
    broken = {
        "halved": lambda tv, gamma: tv / 2,
        "factor on the wrong side": lambda tv, gamma: tv / max(gamma, 1 / gamma),
    }
    assert_bound(lambda tv, gamma: tv, truth, broken)
    assert_bound(lambda tv, gamma: max(F(1), gamma) * tv, truth, broken)  # as printed


def test_equality_at_one_and_on_certain_outcomes():
    exposed = iid.joint_laws([F(1, 64)] * 64, 1, iid.injective(1, 64))
    assert iid.leakage(exposed, F(1)) == finite.total_variation(*exposed)
    # TV of 1 - 1/64 comes from the out-world's impossible outcomes; at gamma < 1 nothing is lost
    assert iid.leakage(exposed, F(1, 9)) == finite.total_variation(*exposed)


def information(pair):
    """I(release; record) in nats: the divergence of the joint law from the product, the out-law."""
    with digits():
        total = mp.mpf(0)
        for a, m in pair[0].items():
            if m:
                ratio = m / pair[1][a]
                weight = mp.mpf(m.numerator) / m.denominator
                total += weight * mp.log(mp.mpf(ratio.numerator) / ratio.denominator)
        return total


def from_information(nats):
    """Pinsker, and Bretagnolle–Huber, which takes over above about 1.6 nats."""
    return min(math.sqrt(nats / 2), math.sqrt(-math.expm1(-nats))) * (1 + 1e-14)


def test_information_bound_holds_at_every_price():
    assert_bound(
        from_information,
        (
            ((float(information(pair)),), iid.leakage(pair, gamma))
            for pair in games()
            for gamma in GAMMAS
        ),
        broken={"a third": lambda nats: from_information(nats) / 3},
    )


def test_the_curve_of_the_two_worlds_keeps_it():
    """``TradeoffCurve.leak`` at ν = ½ and λ = 1/γ is the leak from above, and at most TV."""
    weights = [8.0, 2.0, 1.0, 0.5, 0.125]
    curves = [(PolygonCurve.from_masses(*finite.masses(*pair)), pair) for pair in games()]
    assert_bound(
        lambda curve, lam, pair: F(curve.leak(0.5, lam)),
        (
            ((curve, lam, pair), iid.leakage(pair, 1 / F(lam)))
            for curve, pair in curves
            for lam in weights
        ),
        broken={
            "lam for its inverse": lambda curve, lam, pair: F(curve.leak(0.5, 1 / lam)),
            "halved": lambda curve, lam, pair: F(curve.leak(0.5, lam)) / 2,
        },
    )
    for curve, pair in curves:
        assert F(curve.advantage) <= finite.total_variation(*pair) + F(1, 10**12)
        assert all(curve.leak(0.5, lam) <= curve.advantage for lam in weights)
