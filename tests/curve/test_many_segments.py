"""Curves of many segments against 40-digit sums: rounding must not lower a read-off."""

import math

import mpmath as mp
import numpy as np
import pytest

from memberbound.curve import PolygonCurve, segments
from memberbound.curve.families import GaussianCurve, SlackCurve

F40 = mp.mpf


@pytest.fixture(autouse=True)
def forty_digits():
    with mp.workdps(40):
        yield


def curve_of(seed, size):
    rng = np.random.default_rng(seed)
    inside, outside = rng.dirichlet(np.full(size, 0.3)), rng.dirichlet(np.full(size, 0.3))
    return PolygonCurve.from_masses(inside.tolist(), outside.tolist())


def exact_profile(curve, epsilon):
    """Σ m(1 - e^{ε - ℓ})₊ over the segments as they are stored, and the certain mass."""
    total = F40(0)
    for loss, heavy in zip(curve.loss.tolist(), curve.heavy.tolist(), strict=True):
        if loss == math.inf:
            total += F40(heavy)
        elif loss > epsilon:
            total += F40(heavy) * (1 - mp.exp(F40(epsilon) - F40(loss)))
    return total


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("size", [50, 700])
def test_profiles_are_at_least_the_exact_sums(monkeypatch, size, dense):
    """Both ways to add: by a matrix, and by one sweep."""
    monkeypatch.setattr(segments, "_DENSE", 0 if dense else 1 << 40)
    for seed in range(4):
        curve = curve_of(seed, size)
        at = np.concatenate([[0.0], np.linspace(0.01, 9, 25)])
        for epsilon, value in zip(at.tolist(), curve._profile(at, forward=True), strict=True):
            exact = exact_profile(curve, epsilon)
            assert exact <= F40(float(value)) <= exact * (1 + F40("1e-11")) + F40("1e-300")


@pytest.mark.parametrize("slack", [1e-12, 1e-3])
def test_a_slack_is_added_to_both_errors(slack):
    """δ(ε) of laws that are each within s of a pair: H(ε) + (1 + e^ε)·s, in 40 digits."""
    mu = 0.7
    curve = SlackCurve(GaussianCurve(mu), slack)
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        a, b = F40(mu) / 2 - F40(epsilon) / mu, -F40(mu) / 2 - F40(epsilon) / mu
        exact = mp.ncdf(a) - mp.exp(epsilon) * mp.ncdf(b) + (1 + mp.exp(epsilon)) * F40(slack)
        room = "1e-10"
        if mp.ncdf(b) < slack:  # the best FPR would be negative: the attacker takes 0
            room = "1e-4"  # found on a grid
            exact = mp.ncdf(mp.sqrt(2) * mp.erfinv(2 * F40(slack) - 1) + F40(mu)) + F40(slack)
        value = F40(curve.delta(epsilon))
        assert exact <= value <= exact * (1 + F40(room))
    for fpr in (0.0, 1e-6, 0.1, 0.5):
        moved = F40(fpr) + F40(slack)
        quantile = mp.sqrt(2) * mp.erfinv(2 * moved - 1)
        exact = min(F40(1), mp.ncdf(quantile + F40(mu)) + F40(slack))
        assert exact <= F40(curve.tpr(fpr)) <= exact * (1 + F40("1e-10"))
