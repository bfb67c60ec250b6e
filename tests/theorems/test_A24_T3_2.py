"""A24-T3.2: nu_* - nu_* Delta <= accuracy of any attack <= 1 - nu_* + nu_* Delta (lam = 1).

Delta is the total variation (gamma = 1) whatever nu is; nu_* = min(nu, 1 - nu).
"""

from fractions import Fraction
from random import Random

from oracle import finite, iid, mechanisms

F = Fraction
NUS = [F(1, 10), F(1, 3), F(1, 2), F(3, 5), F(9, 10)]


def bounds(nu, delta):
    least = min(nu, 1 - nu)
    return least - least * delta, 1 - least + least * delta


def upper_too_low(nu, delta):
    low, high = bounds(nu, delta)
    return low, high - min(nu, 1 - nu) * delta / 4


def lower_too_high(nu, delta):
    low, high = bounds(nu, delta)
    return low + min(nu, 1 - nu) * delta / 4, high


def games():
    rng = Random(32)
    for i in range(12):
        atoms, n = rng.choice([(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
        p = mechanisms.random_iid_law(rng, atoms)
        make = mechanisms.random_release if i % 2 else mechanisms.random_merge
        yield iid.joint_laws(p, n, make(rng, n, atoms, 2))


def violations(formula):
    bad = []
    for pair in games():
        delta = finite.total_variation(*pair)
        for nu in NUS:
            worst, best = iid.accuracies_by_attacks(pair, nu, F(1))
            low, high = formula(nu, delta)
            if worst < low:
                bad.append(("low", nu, delta))
            if best > high:
                bad.append(("high", nu, delta))
    return bad


def test_both_sides_hold_for_every_attack():
    assert violations(bounds) == []


def test_broken_bounds_are_caught_on_their_side():
    assert {side for side, *_ in violations(upper_too_low)} == {"high"}
    assert {side for side, *_ in violations(lower_too_high)} == {"low"}


def test_both_sides_are_reached_at_even_odds():
    # A24-T3.3: at nu = 1/2 the two bounds are the two extreme attacks
    for pair in games():
        assert iid.accuracies_by_attacks(pair, F(1, 2), F(1)) == bounds(
            F(1, 2), finite.total_variation(*pair)
        )


def test_security_bound_and_where_it_is_strict():
    strict = 0
    for pair in games():
        delta = finite.total_variation(*pair)
        for nu in NUS:
            mis = iid.security(pair, nu, F(1), by_attacks=True)
            assert mis >= 1 - delta
            strict += mis > 1 - delta
    assert strict  # away from nu = 1/2 A25-T6 is sharper
