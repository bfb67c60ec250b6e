"""A25-D1 to D3 and eq3 to eq5 (A24-D2.1 to D2.3, eq3, eq15): the curve against the definitions.

Truth: every attack on a small i.i.d. game is played; the games include randomised learners.
"""

from fractions import Fraction

import pytest

from memberbound.curve import PolygonCurve
from memberbound.games import IidGame, gamma_from_priors
from oracle import finite, iid, mechanisms

F = Fraction
# Doubles without rounding, so that the game played is exactly the given one.
PRICES = [(0.5, 1.0), (0.25, 1.0), (0.75, 1.0), (0.5, 4.0), (0.125, 0.25)]


def games():
    for game in mechanisms.random_iid_games(2, 12, [(2, 1), (2, 2), (2, 3), (3, 1)]):
        yield iid.joint_laws(*game)


def curve_of(pair):
    return PolygonCurve.from_masses(*finite.masses(*pair))


@pytest.mark.parametrize(("nu", "lam"), PRICES)
def test_security_and_leak_are_those_of_the_best_attack(nu, lam):
    for pair in games():
        truth = iid.security(pair, F(nu), F(lam), by_attacks=True)
        curve = curve_of(pair)
        assert truth - F(1, 10**12) <= F(curve.security(nu, lam)) <= truth  # from below
        assert 1 - truth <= F(curve.leak(nu, lam)) <= 1 - truth + F(1, 10**12)


@pytest.mark.parametrize("nu", [0.5, 0.25, 0.75])
def test_accuracy_is_that_of_the_best_attack(nu):
    """λ = 1: a fresh record with probability ν, so "in" has the prior 1 - ν (A24-eq15)."""
    for pair in games():
        _, best = iid.accuracies_by_attacks(pair, F(nu), F(1))
        assert best <= F(curve_of(pair).accuracy(1 - nu)) <= best + F(1, 10**12)


def test_exchanged_worlds_are_noticed():
    """The slip of A24-eq15 in the code would show at ν other than ½."""
    shown = 0
    for pair in games():
        _, best = iid.accuracies_by_attacks(pair, F(1, 4), F(1))
        shown += abs(F(curve_of(pair[::-1]).accuracy(0.75)) - best) > F(1, 10**6)
    assert shown > 3


def test_the_game_has_the_right_price():
    for nu, lam in PRICES:
        exact = F(nu) / (F(lam) * (1 - F(nu)))
        for answer in (IidGame(nu, lam).gamma, gamma_from_priors(nu, lam)):
            assert abs(F(answer) - exact) <= exact / 2**51
