"""I24-F1: scales against a plain enumeration, claims that are computed, the promise that breaks.

Truth: every half of I24-P11's population with 50 digits, from the records themselves.
"""

import math
from fractions import Fraction
from itertools import combinations, pairwise

import mpmath as mp
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.papers import izzo_scale
from memberbound.papers.izzo_scale import sensitivity, spread
from memberbound.release.noise import NormExponentialNoise, ScaledNorm, izzo_constant
from oracle.real import reciprocal_population, reciprocal_sums

DIGITS = 50


def moments(size):
    """σ and E|A - EA| over all halves."""
    with mp.workdps(DIGITS):
        values = reciprocal_sums(reciprocal_population(size)).values()
        mean = mp.fsum(values) / len(values)
        variance = mp.fsum((v - mean) ** 2 for v in values) / len(values)
        return mp.sqrt(variance), mp.fsum(abs(v - mean) for v in values) / len(values)


@pytest.mark.parametrize("size", [4, 6, 8, 10, 12, 14])
@pytest.mark.parametrize("depth", [0, 2, 5, 12])
def test_enclosures_hold_the_enumerated_moments(size, depth):
    sigma, sigma_one = moments(size)
    enclosed = spread(size, depth=depth)
    assert enclosed.sigma[0] <= sigma <= enclosed.sigma[1]
    assert enclosed.sigma_one[0] <= sigma_one <= enclosed.sigma_one[1]
    if depth + 2 >= size:
        # TOLERANCE: rounding only, where the grouping lists every half.
        assert enclosed.sigma[1] - enclosed.sigma[0] < 1e-12
        assert enclosed.sigma_one[1] - enclosed.sigma_one[0] < 1e-12


@pytest.mark.parametrize("size", izzo_scale.SIZES)
def test_enclosures_are_narrow_and_follow_the_closed_form(size):
    enclosed, probability = spread(size), 1 / math.comb(size, size // 2)
    assert enclosed.sigma[1] < enclosed.sigma[0] * 1.001
    assert enclosed.sigma_one[1] < enclosed.sigma_one[0] * 1.001
    # A = 1/√p with probability p, and at most 4·2^(-n/2) otherwise.
    rest = 4 * 2 ** (-size / 2)
    mean = math.sqrt(probability) + rest
    assert 1 - mean**2 <= enclosed.sigma[1] ** 2 <= 1 + rest**2 + 1e-12
    assert 2 * math.sqrt(probability) * (1 - mean) - 4 * rest <= enclosed.sigma_one[1] <= 2 * mean


def test_a_set_counted_twice_or_left_out_is_noticed(monkeypatch):
    """The enclosure test has teeth: leave D* out, or forget the lowest places of a group."""
    sigma, _ = moments(10)
    right = izzo_scale._cells(10, 12)

    def without_the_worst(population, depth):
        kept = right.high < right.high.max()
        return izzo_scale._Cells(right.low[kept], right.high[kept], right.count[kept])

    monkeypatch.setattr(izzo_scale, "_cells", without_the_worst)
    broken = spread.__wrapped__(10)
    assert not broken.sigma[0] <= sigma <= broken.sigma[1]


@pytest.mark.parametrize(("places", "ones", "depth"), [(7, 3, 2), (9, 4, 3), (9, 5, 12), (6, 1, 0)])
def test_groups_hold_every_sum_once(places, ones, depth):
    least, largest, count = izzo_scale._sums(places, ones, depth)
    sums = sorted(sum(s) for s in combinations([1 << i for i in range(places)], ones))
    assert int(count.sum()) == len(sums)
    for low, high, held in zip(least, largest, count, strict=True):
        inside = [s for s in sums if low <= s <= high]
        assert len(inside) == held
        assert (inside[0], inside[-1]) == (low, high)


@pytest.mark.parametrize("eta", [0.01, 0.1, 0.3, 0.49])
def test_scales_reach_their_eta(eta):
    size = 8
    scales = izzo_scale.scales(size, eta)
    # DP: ε = Δ/b makes η = 1/(1+e^-ε) - ½ exactly.
    epsilon = sensitivity(size)[1] / scales["dp_8"]
    assert 1 / (1 + math.exp(-epsilon)) - 0.5 == pytest.approx(eta, rel=1e-9)
    sigma, sigma_one = moments(size)
    assert scales["mip_8"] >= float(sigma) * izzo_constant(eta, 2) * (1 - 1e-12)
    assert scales["x1_8"] == pytest.approx(float(sigma_one) / (eta * math.sqrt(2 * math.pi)))
    # X14: the law's own distance at length 2σ₁ is 2η.
    law = NormExponentialNoise(ScaledNorm.plain(1), scales["x14_8"])
    distance = float(law.distance(law.length([[2 * float(sigma_one)]]))[0])
    assert distance <= 2 * eta
    assert distance == pytest.approx(2 * eta, rel=1e-9)


def test_share_where_mip_needs_less():
    """At n = 12 DP always needs less; n = 36 crosses where small η say."""
    assert izzo_scale.share_where_mip_needs_less(12) == 0
    # Small η: Δ/(4η) = 6.16²/η² at η = 4·6.16²/Δ.
    crossing = 4 * 6.16**2 / sensitivity(36)[1]
    share = izzo_scale.share_where_mip_needs_less(36)
    assert share == pytest.approx(1 - 2 * crossing, abs=2e-5)


def test_gaussian_attack_agrees_with_a_coarse_integral():
    """The accuracy from 200 000 draws against exact posteriors of an independent simulation."""
    eta, draws = 0.3, 200_000
    accuracy = izzo_scale.attack_on_gaussian_noise(eta, draws, 5)
    rng = np.random.default_rng(6)
    scale = izzo_scale.gaussian_scale(1.0, eta)
    sets = list(combinations(range(4), 2))
    centres = math.sqrt(6 / 5) * np.eye(6)
    seen = centres[rng.integers(6, size=draws)] + scale * rng.standard_normal((draws, 6))
    densities = np.exp(-((seen[:, None, :] - centres) ** 2).sum(axis=2) / (2 * scale**2))
    inside = densities[:, [0 in s for s in sets]].sum(axis=1) / densities.sum(axis=1)
    expected = np.maximum(inside, 1 - inside).mean()
    # Five standard deviations of the difference: false alarm below 1e-6.
    assert abs(accuracy - expected) < 5 * math.sqrt(0.25 / draws + 0.25 / draws)
    assert expected < 0.5 + eta


@pytest.fixture(scope="module")
def result():
    return izzo_scale.figure_1(3, 0, None)


def test_only_the_printed_sampler_breaks_its_promise(result):
    failed = [check for check in result.checks if not check.holds]
    assert [check.claim.split(",")[0] for check in failed] == [
        "I24-Alg1 as printed (Laplace radius)"
    ]
    # 60 000 draws: Hoeffding's margin at a false-alarm rate of 1e-6 is 0.011.
    margin = math.sqrt(math.log(1e6) / (2 * 60_000))
    assert failed[0].measured - margin > failed[0].paper == 0.75
    for check in result.checks[-2:]:
        assert check.measured + margin < check.paper


def test_dp_explodes_mip_is_flat_and_x1_vanishes(result):
    rows = {row["eta"]: row for row in result.table}
    assert len(rows) == len(izzo_scale.ETAS)
    for row in rows.values():
        dp, mip, x1 = (
            [row[f"{m}_{n}_mean"] for n in izzo_scale.SIZES] for m in ("dp", "mip", "x1")
        )
        assert all(b > 50 * a for a, b in pairwise(dp))
        assert max(mip) < 1.01 * min(mip)
        assert all(b < a / 50 for a, b in pairwise(x1))
        assert all(x < m for x, m in zip(x1, mip, strict=True))


def test_figure_shows_the_table(result):
    left = result.draw().axes[0]
    drawn = [line.get_ydata() for line in left.get_lines()]
    assert len(drawn) == 2 * len(izzo_scale.SIZES) + 2
    wanted = [row["dp_12_mean"] for row in result.table]
    assert any(np.array_equal(line, wanted) for line in drawn)


@pytest.mark.parametrize("size", [3, 2, 58, 7])
def test_sizes_that_are_refused(size):
    with pytest.raises(InputError, match="population"):
        spread(size)


def test_fraction_count_of_halves_is_exact_up_to_the_largest_size():
    cells = izzo_scale._cells(56, 6)
    total = sum(Fraction(c) for c in cells.count.tolist())
    assert total == math.comb(56, 28)
