"""I24-F1: scales against a plain enumeration, claims that are computed.

Truth: every half of I24-P11's population with 50 digits, from the records themselves.
"""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from memberbound.papers import subset_figures
from memberbound.papers.izzo2024 import sensitivity_of_inverse_sum as sensitivity
from memberbound.papers.izzo2024 import spread_of_inverse_sum as spread_upper
from memberbound.papers.subset_figures import people, pmp_epsilon
from memberbound.release.noise import izzo_constant
from oracle.claims import assert_bound
from oracle.real import reciprocal_population, reciprocal_sums


def moments(size):
    """σ and E|A - EA| over all halves."""
    with mp.workdps(50):
        values = reciprocal_sums(reciprocal_population(size)).values()
        mean = mp.fsum(values) / len(values)
        variance = mp.fsum((v - mean) ** 2 for v in values) / len(values)
        return mp.sqrt(variance), mp.fsum(abs(v - mean) for v in values) / len(values)


def test_spread_is_never_below_the_enumerated_moments():
    truth = {size: moments(size) for size in (6, 8, 10, 12, 14)}
    for index, factor in ((0, 0.9), (1, 0.6)):
        assert_bound(
            lambda size, index=index: spread_upper(size)[index],
            (((size,), values[index]) for size, values in truth.items()),
            broken={"less": lambda size, i=index, f=factor: f * spread_upper(size)[i]},
            excess=1.0,
        )


@pytest.mark.parametrize("eta", [0.01, 0.1, 0.3, 0.49])
def test_scales_reach_their_eta(eta):
    scales = subset_figures.scales(8, eta)
    # DP: ε = Δ/b makes η = 1/(1+e^-ε) - ½ exactly.
    epsilon = sensitivity(8)[1] / scales["dp_8"]
    assert 1 / (1 + math.exp(-epsilon)) - 0.5 == pytest.approx(eta, rel=1e-9)
    sigma, sigma_one = spread_upper(8)
    assert scales["mip_8"] == pytest.approx(sigma * izzo_constant(eta, 2))
    assert scales["x1_8"] == pytest.approx(sigma_one / (eta * math.sqrt(2 * math.pi)))
    # X14: Laplace laws that are 2σ₁ apart have the distance 2η.
    assert -math.expm1(-sigma_one / scales["x14_8"]) == pytest.approx(2 * eta, rel=1e-9)


def test_share_where_mip_needs_less():
    """At n = 12 DP always needs less; at n = 36 the two cross, at small η."""
    assert subset_figures.share_where_mip_needs_less(12) == 0
    # Small η: Δ/(4η) = 6.16²/η² at η = 4·6.16²/Δ.
    crossing = 4 * 6.16**2 / sensitivity(36)[1]
    share = subset_figures.share_where_mip_needs_less(36)
    assert share == pytest.approx(1 - 2 * crossing, abs=2e-5)


@pytest.fixture(scope="module")
def result():
    return subset_figures.noise_figure(1, 0, None)


def test_dp_explodes_mip_is_flat_and_x1_vanishes(result):
    assert all(check.holds for check in result.checks)
    assert len(result.table) == len(subset_figures.ETAS)
    for row in result.table:
        dp, mip, x1 = (
            [row[f"{m}_{n}_mean"] for n in subset_figures.SIZES] for m in ("dp", "mip", "x1")
        )
        assert all(b > 50 * a for a, b in pairwise(dp))
        assert max(mip) < 1.01 * min(mip)
        assert all(b < a / 50 for a, b in pairwise(x1))
        assert all(x < m for x, m in zip(x1, mip, strict=True))


def test_figure_shows_the_table(result):
    drawn = [line.get_ydata() for line in result.draw().axes[0].get_lines()]
    wanted = [row["dp_12_mean"] for row in result.table]
    assert any(np.array_equal(line, wanted) for line in drawn)


def test_gaussian_search_of_L24_agrees_with_the_profile_of_every_record():
    profile = people([0], 3, clip=5.0)[0]
    fast = pmp_epsilon(profile, 6.0)
    assert float(profile.delta(fast, 6.0).max()) <= subset_figures.DELTA
    assert fast == pytest.approx(float(profile.pmp_epsilon(0.01, 6.0).max()), rel=2e-3)
