"""A24-T3.2: nu_* - nu_* Delta <= accuracy of any attack <= 1 - nu_* + nu_* Delta (lam = 1).

Delta is the total variation (gamma = 1) whatever nu is; nu_* = min(nu, 1 - nu).
"""

from fractions import Fraction

from oracle import finite, iid, mechanisms
from oracle.claims import assert_bound, assert_lower_bound

F = Fraction
NUS = [F(1, 10), F(1, 3), F(1, 2), F(3, 5), F(9, 10)]


def lower(nu, delta):
    return min(nu, 1 - nu) * (1 - delta)


def upper(nu, delta):
    return 1 - min(nu, 1 - nu) * (1 - delta)


def games():
    return (iid.joint_laws(*game) for game in mechanisms.random_iid_games(32, 12))


def test_both_sides_hold_for_every_attack():
    worst, best = [], []
    for pair in games():
        for nu in NUS:
            arguments = nu, finite.total_variation(*pair)
            low, high = iid.accuracies_by_attacks(pair, nu, F(1))
            worst.append((arguments, low))
            best.append((arguments, high))
    assert_bound(
        upper,
        best,
        broken={"too low": lambda nu, delta: upper(nu, delta) - min(nu, 1 - nu) * delta / 4},
    )
    assert_lower_bound(
        lower,
        worst,
        broken={"too high": lambda nu, delta: lower(nu, delta) + min(nu, 1 - nu) * delta / 4},
    )


def test_both_sides_are_reached_at_even_odds():
    # A24-T3.3: at nu = 1/2 the two bounds are the two extreme attacks
    half = F(1, 2)
    for pair in games():
        delta = finite.total_variation(*pair)
        reached = iid.accuracies_by_attacks(pair, half, F(1))
        assert reached == (lower(half, delta), upper(half, delta))


def test_security_bound_and_where_it_is_strict():
    strict = 0
    for pair in games():
        delta = finite.total_variation(*pair)
        for nu in NUS:
            mis = iid.security(pair, nu, F(1), by_attacks=True)
            assert mis >= 1 - delta
            strict += mis > 1 - delta
    assert strict  # away from nu = 1/2 A25-T6 is sharper
