"""I24-T7: small eta, yet no RDP, CDP, tCDP or f-DP.

The trade-off function 1 - TPR between D* and any neighbour is identically zero: no f above it but
f = 0, and the two laws are mutually singular, so every Renyi divergence is infinite.
"""

from fractions import Fraction
from math import comb

import numpy as np

from memberbound.curve import PolygonCurve
from oracle import finite, mechanisms, subset

F = Fraction
SIZES = (2, 4, 6, 8)
ALPHAS = np.linspace(0.0, 1.0, 11)


def witness(size):
    return frozenset(range(size // 2))


def indicator(size):
    return mechanisms.indicator(witness(size))


def slightly_noisy(size):
    """The same answer, false once in a million: f-DP with a tiny f that is not zero."""
    secret = witness(size)
    return lambda d: {d == secret: F(999_999, 10**6), d != secret: F(1, 10**6)}


def neighbour_curve(mechanism, d, e):
    return PolygonCurve.from_masses(*finite.masses(mechanism(d), mechanism(e)))


def nontrivial(mechanism_of):
    """Neighbours of D* from which it is not told apart for certain."""
    result = []
    for size in SIZES:
        secret = witness(size)
        for d, e in subset.neighbours(size, size // 2):
            if d == secret:
                for pair in ((d, e), (e, d)):
                    curve = neighbour_curve(mechanism_of(size), *pair)
                    if np.any(curve.roc(ALPHAS) < 1.0) or np.isfinite(curve.epsilon(0.5)):
                        result.append(pair)
    return result


def test_trade_off_function_is_identically_zero():
    assert nontrivial(indicator) == []


def test_a_little_noise_is_caught():
    assert nontrivial(slightly_noisy)


def test_eta_is_as_small_as_one_likes_all_the_same():
    for size in SIZES:
        assert subset.eta(indicator(size), size, size // 2) == F(1, comb(size, size // 2))
