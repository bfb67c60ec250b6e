"""One number for a curve: μ of Gaussian differential privacy, and what it hides."""

import numpy as np
import pytest
from scipy import special

from memberbound.curve import GaussianCurve, LaplaceCurve, PolygonCurve, polygon_from_lines
from memberbound.curve.families import SlackCurve, gaussian_summary
from memberbound.dp import DpSgd

#: Tolerated shift of the curve of μ, which must bound the other.
MOVED = 1e-5
RATES = np.concatenate([np.geomspace(1e-12, 1e-3, 400), np.linspace(1e-3, 1, 2000)])


def dp(epsilon, delta):
    return polygon_from_lines([epsilon], [delta], [epsilon], [delta])


CURVES = {
    "pure": dp(1.0, 0.0),
    "small δ": dp(1.0, 1e-3),
    "large δ": dp(0.5, 0.1),
    "large ε": dp(8.0, 1e-5),
    "asymmetric": PolygonCurve.from_masses([0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.6, 0.1]),
    "Laplace": LaplaceCurve(1.5),
    "slack": SlackCurve(dp(1.0, 0.0), 1e-3),
    "DP-SGD": DpSgd(1.0, 0.05, 40).curve("replace-one"),
}


def gaussian(mu, rates):
    """Best TPR of μ-GDP, by its definition."""
    return special.ndtr(special.ndtri(np.minimum(rates, 1.0)) + mu)


@pytest.mark.parametrize("name", CURVES)
def test_neither_curve_is_more_private_than_the_other_moved_by_the_regret(name):
    curve = CURVES[name]
    mu, regret = gaussian_summary(curve)

    def above(mu, moved):
        """Return the shift in both rates by which the curve exceeds that of μ."""
        return np.max(curve.roc(RATES) - gaussian(mu, RATES + moved) - moved)

    def below(moved):
        """Return the shift in both rates by which the curve of μ exceeds the other."""
        return np.max(gaussian(mu, RATES) - curve.roc(np.minimum(RATES + moved, 1)) - moved)

    moved = MOVED + (curve.slack if name == "slack" else 0.0)
    assert above(mu, moved + 1e-12) <= 1e-12
    assert above(mu, regret) <= 1e-12
    assert below(regret) <= 1e-12
    # Tight: a smaller μ is no bound, and a smaller regret hides too much.
    assert above(0.99 * mu, moved) > 1e-7
    if name != "slack":
        assert below(0.95 * regret) > 1e-7


def test_limits():
    assert gaussian_summary(GaussianCurve(0.7)) == (0.7, 0.0)
    assert gaussian_summary(SlackCurve(GaussianCurve(0.7), 1e-9)) == (0.7, 1e-9)
    mu, regret = gaussian_summary(dp(0.0, 0.0))
    assert mu == 0.0
    assert MOVED <= regret < 1.001 * MOVED
    # A coin decides whether everything is shown: at a rate of 1e-5 that looks like a large μ.
    mu, _ = gaussian_summary(dp(0.0, 1.0))
    assert mu == pytest.approx(2 * special.ndtri(1 - MOVED), rel=1e-9)
