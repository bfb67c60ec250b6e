"""A25-R7: the leak against total variation, and its improvement: Delta <= TV at every gamma.

The remark has the factor max(1, gamma).  Delta is a hockey-stick at max(gamma, 1/gamma) >= 1, and
hockey-sticks fall from TV at 1, so the factor can go.  Truth: the i.i.d. game, all attacks played.
"""

from fractions import Fraction
from random import Random

import mpmath as mp

from memberbound.dp import leak_from_information, leak_from_total_variation
from oracle import finite, iid, mechanisms
from oracle.real import digits

F = Fraction
GAMMAS = [F(1, 9), F(1, 2), F(9, 10), F(1), F(10, 9), F(2), F(9)]


def games():
    rng = Random(77)
    for i in range(14):
        atoms, n = rng.choice([(2, 1), (2, 2), (3, 1), (2, 3)])
        p = mechanisms.random_iid_law(rng, atoms)
        make = mechanisms.random_release if i % 2 else mechanisms.random_merge
        yield iid.joint_laws(p, n, make(rng, n, atoms, 2))
    yield iid.joint_laws([F(1, 2)] * 2, 1, iid.injective(1, 2))
    yield iid.joint_laws([F(1, 3)] * 3, 1, iid.injective(1, 3))


def improved(tv, gamma):
    return tv


def printed(tv, gamma):
    return max(F(1), gamma) * tv


def halved(tv, gamma):
    return tv / 2


def divided(tv, gamma):
    """The factor on the wrong side."""
    return tv / max(gamma, 1 / gamma)


def violations(formula):
    bad = []
    for pair in games():
        tv = finite.total_variation(*pair)
        for gamma in GAMMAS:
            if iid.divergence(pair[1], pair[0], gamma, by_events=True) > formula(tv, gamma):
                bad.append((gamma, tv))
    return bad


def test_leak_is_at_most_the_total_variation():
    assert violations(improved) == []
    assert violations(printed) == []


def test_broken_bounds_are_caught():
    assert violations(halved)
    assert violations(divided)


def test_equality_at_one_and_on_certain_outcomes():
    exposed = iid.joint_laws([F(1, 64)] * 64, 1, iid.injective(1, 64))
    assert iid.leakage(exposed, F(1)) == finite.total_variation(*exposed)
    # TV of 1 - 1/64 comes from the out-world's impossible outcomes; at gamma < 1 nothing is lost
    assert iid.leakage(exposed, F(1, 9)) == finite.total_variation(*exposed)


def test_the_leak_falls_on_both_sides_of_one():
    for pair in games():
        leaks = [iid.leakage(pair, gamma) for gamma in GAMMAS]
        assert leaks[:4] == sorted(leaks[:4])
        assert leaks[3:] == sorted(leaks[3:], reverse=True)


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


def test_information_bound_holds_at_every_price():
    caught = 0
    for pair in games():
        nats = float(information(pair))
        said = leak_from_information(nats * (1 + 1e-15))
        for gamma in GAMMAS:
            assert iid.leakage(pair, gamma) <= F(said)
            caught += iid.leakage(pair, gamma) > F(said) / 3
    assert caught  # a third of the bound would be too little


def test_library_returns_the_total_variation_itself():
    assert [leak_from_total_variation(x) for x in (0.0, 0.3, 1.0)] == [0.0, 0.3, 1.0]
