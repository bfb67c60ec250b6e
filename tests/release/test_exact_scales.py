"""Scales, lengths and slacks of the noise against exact rationals and 40-digit arithmetic."""

import math
from fractions import Fraction
from pathlib import Path
from random import Random
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from memberbound.curve.families import SlackCurve
from memberbound.errors import InputError
from memberbound.numerics.rounding import root_up
from memberbound.release.budget import (
    HISTOGRAM_MOVES,
    Budget,
    BudgetShare,
    Slack,
    release_slack,
)
from memberbound.release.ledger_file import Ledger
from memberbound.release.noise import (
    COARSE,
    FINE,
    SIMPLE_ERROR,
    GaussianNoise,
    NormExponentialNoise,
    floating_point_slack,
    izzo_constant,
    norm_exponential_constant,
)
from memberbound.release.randomness import InsecureSource

F = Fraction
NEAR = F(1, 10**13)


def from_above(value, exact, room=NEAR):
    """Return whether a number is at least the exact one, and hardly more."""
    return exact <= F(value) <= exact * (1 + room)


# ── Budgets ───────────────────────────────────────────────────────────────────────────────────────


def test_the_sensitivity_of_a_histogram_is_the_root_of_two():
    before, after = np.array([5, 3, 2]), np.array([4, 3, 3])
    moved = F(int(np.square(before - after).sum()))
    assert from_above(F(HISTOGRAM_MOVES) ** 2, moved)


@pytest.mark.parametrize("shares", [(0.2, 0.3, None), (0.1,) * 9 + (None,), (1 / 3, 1 / 3, None)])
def test_shares_of_a_budget_never_pay_for_more_than_it_has(shares):
    rng = Random(3)
    for eta in (0.001, 0.05, 0.3, 0.49):
        budget = Budget.for_eta(eta, slack=1e-9)
        assert budget.curve().eta <= eta
        assert Budget(budget.mu * (1 + 1e-9), 1e-9).curve().eta > eta  # and not much less
        spent = F(0)
        for share in shares:
            part = budget.take("sums", share)
            moves, times = rng.uniform(0.1, 9), rng.randint(1, 40)
            sums = part.sums(sensitivity=moves, times=times)
            # Each vector has a shift of moves/scale; the squares of the shifts add up.
            exact = times * F(moves) ** 2 / F(sums.scale) ** 2
            assert exact <= F(part.mu) ** 2 <= exact * (1 + NEAR)
            spent += exact
        assert F(budget.mu) ** 2 * (1 - F(1, 10**10)) <= spent <= F(budget.mu) ** 2
        assert abs(budget.left) < 1e-12
        for more in (1e-6, None):
            with pytest.raises(InputError, match="at most"):
                budget.take("more", more)


def test_a_share_is_spent_once_for_the_stated_number_of_vectors():
    part = Budget(1.0, 0.0).take("sums", 0.5)
    sums = part.sums(sensitivity=1.0, times=2)
    for _ in range(2):
        sums.measure([1.0, 2.0])
    with pytest.raises(RuntimeError, match="more vectors"):
        sums.measure([1.0, 2.0])
    with pytest.raises(RuntimeError, match="already spent"):
        part.sums(sensitivity=1.0)


def test_measured_sums_have_the_noise_of_their_share():
    """30 000 draws; a scale off by 3 % would be beyond six standard errors."""
    sums = Budget(1.0, 0.0, source=InsecureSource(5)).take("sums").sums(sensitivity=7.3)
    scale = sums.scale
    drawn = sums.measure(np.full(30_000, 100.25)) - 100.25
    grid = COARSE.steps(scale)
    spread = math.sqrt(scale**2 + float(grid) ** 2 / 12)
    assert abs(drawn.mean()) < 6 * spread / math.sqrt(30_000)
    assert abs(drawn.std() / spread - 1) < 6 / math.sqrt(2 * 30_000)
    assert stats.kstest(drawn + grid * (np.random.default_rng(1).random(30_000) - 0.5),
                        stats.norm(0, spread).cdf).pvalue > 1e-6  # fmt: skip


def test_readings_of_a_budget_agree_with_its_curve():
    read = Budget(0.8, 1e-6).readings()
    with mp.workdps(40):
        # Either law is within the slack s of a normal one: both errors move by s.
        slack, mu = mp.mpf(1e-6), mp.mpf(0.8)
        eta = mp.ncdf(mu / 2) - mp.mpf(1) / 2 + slack
        assert eta <= mp.mpf(read.eta_upper) <= eta * (1 + mp.mpf("1e-12"))
        for rate, tpr in read.replace_one.tpr_upper.items():
            quantile = mp.sqrt(2) * mp.erfinv(2 * (mp.mpf(float(rate)) + slack) - 1)
            exact = mp.ncdf(quantile + mu) + slack
            assert exact <= mp.mpf(tpr) <= exact * (1 + mp.mpf("1e-12"))
    assert read.replace_one.accuracy_upper == pytest.approx(0.5 + read.eta_upper, rel=1e-12)
    assert read.security_lower == pytest.approx(1 - 2 * read.eta_upper, rel=1e-12)
    assert F(read.security_lower) <= 1 - 2 * F(read.eta_upper) + F(1, 10**15)
    assert Budget(0.8, 1e-6).certificate().value == read.eta_upper


# ── Grids ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("grid", [FINE, COARSE])
def test_steps_are_powers_of_two_within_their_share(grid):
    sizes = np.concatenate([2.0 ** np.arange(-20, 21), np.geomspace(1e-200, 1e200, 300)])
    sizes = np.concatenate([sizes, np.nextafter(sizes, 0), np.nextafter(sizes, np.inf)])
    for size, step in zip(sizes.tolist(), grid.steps(sizes).tolist(), strict=True):
        assert math.frexp(step)[0] == 0.5
        assert F(grid.share) * F(size) / 2 < F(step) <= F(grid.share) * F(size)
    assert grid.steps([0.0, 1.0]).tolist() == [0.0, grid.share]


@pytest.mark.parametrize("size", [1e-300, 1e300, math.inf, math.nan])
def test_noise_at_the_ends_of_the_doubles_is_refused(size):
    with pytest.raises(InputError, match="noise must have"):
        FINE.steps([1.0, size])


@pytest.mark.parametrize("grid", [FINE, COARSE])
def test_slack_is_that_of_every_coordinate_together(grid):
    for coordinates in (1, 3, 1000, 12345.5, 10**6):
        for error in (2.0**-46, 2.0**-43, 1e-9):
            exact = F(coordinates) * (F(grid.crossing) * F(error) + F(1, 2**70))
            assert from_above(grid.slack(coordinates, error), min(F(1), exact))
    assert grid.slack(1e300, 1.0) == 1.0
    assert release_slack(1000) == COARSE.slack(1000, SIMPLE_ERROR)
    for law, error in ((GaussianNoise(2.0, 7), 46), (NormExponentialNoise([1.0, 2.0], 3.0), 43)):
        exact = law.dimension * (600 * F(1, 2**error) + F(1, 2**70))
        assert from_above(floating_point_slack(law), exact)


def test_errors_of_draws_cross_the_coarse_grid_no_more_often_than_its_slack():
    """P(crossing) by the density: an error e·(|x| + 1) around every border, any offset."""
    e, step = 1e-6, float(COARSE.steps(1.0))
    for offset in np.linspace(0, step, 17):
        borders = (np.arange(-400, 401) + 0.5) * step - offset
        crossed = 2 * e * ((np.abs(borders) + 1) * stats.norm.pdf(borders)).sum()
        assert crossed <= COARSE.slack(1, e)
        assert crossed > COARSE.slack(1, e) / 10  # and the slack is not wasted


# ── Lengths, distances and constants ──────────────────────────────────────────────────────────────


def test_lengths_are_at_least_the_exact_ones():
    rng = np.random.default_rng(2)
    for dimension in (1, 2, 3, 17, 200):
        moved = rng.normal(size=(20, dimension)) * 10.0 ** rng.uniform(-150, 150, size=(20, 1))
        law = GaussianNoise(1.0, dimension)
        sigmas = rng.uniform(0.2, 5, dimension)
        other = NormExponentialNoise(sigmas, 1.0)
        for row, length, own in zip(
            moved, law.length(moved).tolist(), other.length(moved).tolist(), strict=True
        ):
            square = sum(F(x) ** 2 for x in row.tolist())
            assert from_above(F(length) ** 2, square, F(1, 10**12))
            scaled = sum((F(x) / F(s)) ** 2 for x, s in zip(row.tolist(), sigmas, strict=True))
            assert from_above(F(own) ** 2, scaled / dimension, F(1, 10**12))


def test_distances_are_at_least_the_exact_ones():
    rng = Random(4)
    with mp.workdps(40):
        for _ in range(200):
            scale, length = 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-6, 3)
            ratio = mp.mpf(length) / mp.mpf(scale)
            normal = float(GaussianNoise(scale, 3).distance(length))
            exact = mp.erf(ratio / mp.sqrt(8))
            assert exact <= normal <= min(mp.mpf(1), exact * (1 + mp.mpf("1e-14")))
            law = NormExponentialNoise([1.0] * 5, scale)
            kappa = mp.gamma(mp.mpf(5) / 2) / (2 * mp.sqrt(mp.pi) * mp.gamma(3))
            least = min(1 - mp.exp(-ratio / 2), kappa * ratio)
            assert least <= float(law.distance(length)) <= least * (1 + mp.mpf("1e-12"))


def test_constants_are_at_least_the_exact_ones():
    rng = Random(5)
    with mp.workdps(40):
        for _ in range(200):
            eta, order = rng.uniform(1e-4, 0.499), rng.choice([1.0, 1.5, 2.0, 3.0, 7.3])
            top = mp.mpf("6.16") if order >= 2 else mp.mpf("7.5")
            exact = (top / mp.mpf(eta)) ** (1 + 2 / mp.mpf(order))
            assert exact * (1 - mp.mpf("1e-15")) <= izzo_constant(eta, order)
            assert izzo_constant(eta, order) <= exact * (1 + mp.mpf("1e-13"))
            # The decimal 6.16 is not a double: the power of the double is what is rounded up.
            double = (mp.mpf(float(top)) / mp.mpf(eta)) ** (1 + 2 / mp.mpf(order))
            assert double <= izzo_constant(eta, order)
            exact = -1 / mp.log1p(-2 * mp.mpf(eta))
            c = norm_exponential_constant(eta)
            assert exact <= c <= exact * (1 + mp.mpf("1e-12"))
            # The law's own distance at length 2σ keeps 2η when evaluated.
            assert float(NormExponentialNoise([1.0], c).distance(2.0)) <= 2 * eta * (1 + 1e-15)


def test_root_mean_squares():
    law = NormExponentialNoise([1.0, 2.0, 5.0], 0.5)
    # E r² = d(d+1)·scale² and E(u_i/σ_i)² = 1.
    assert law.coordinate_rms == pytest.approx(np.array([1, 2, 5]) * math.sqrt(12 * 0.25))
    assert law.rms == pytest.approx(math.sqrt(30 * 12 * 0.25))
    assert law.slope_upper == pytest.approx(
        special.gamma(1.5) / (2 * math.sqrt(math.pi) * special.gamma(2)), rel=1e-12
    )
    assert GaussianNoise(3.0, 16).rms == 12.0
    rows = law.directions(InsecureSource(1), 50) / law.sigmas
    assert np.square(rows).mean(axis=1) == pytest.approx(np.ones(50))


def test_the_mu_spent_by_a_ledger_is_rounded_up():
    rng = Random(6)
    for _ in range(200):
        square = sum((F(rng.uniform(1e-6, 3)) ** 2 for _ in range(rng.randint(1, 9))), F(0))
        root = root_up(square)
        assert F(root) ** 2 >= square
        assert F(math.nextafter(root, 0.0)) ** 2 < square * (1 + F(1, 2**51))
        assert F(root) ** 2 <= square * (1 + F(1, 2**50))


def test_slacks_of_a_ledger_add_up_from_above():
    rng = Random(7)
    for _ in range(200):
        slacks = [rng.uniform(1e-12, 1e-6) for _ in range(rng.randint(1, 9))]
        entries = tuple(SimpleNamespace(mu=0.1, slack=slack) for slack in slacks)
        ledger = Ledger(Path("a.json"), 0.4, 1.0, 1e-4, entries)
        assert F(math.nextafter(ledger.slack, 0.0)) < sum(map(F, slacks)) <= F(ledger.slack)


def test_distances_of_many_lengths_in_long_doubles():
    """The last bits: 200 000 lengths, against 64 bits of mantissa."""
    rng = np.random.default_rng(8)
    lengths = 10.0 ** rng.uniform(-6, 1.5, 200_000)
    for scale in (1.0, 0.7, 3.3):
        ratios = lengths.astype(np.longdouble) / np.longdouble(scale)
        exact = -np.expm1(-ratios / 2)
        got = NormExponentialNoise([1.0], scale).distance(lengths)
        assert (got >= exact).all()
        assert (got <= exact * (1 + np.longdouble(1e-14))).all()


def test_shares_never_add_up_to_more_than_the_budget():
    """μ²·fraction rounds up as often as down, so the margin is needed: in rationals."""
    rng = Random(11)
    for _ in range(60):
        budget = Budget(rng.uniform(0.05, 3), 1e-9)
        cuts = sorted(rng.random() for _ in range(rng.randint(0, 4)))
        shares = [b - a for a, b in zip([0.0, *cuts], cuts, strict=False)]
        taken = [budget.take("sums", share) for share in shares] + [budget.take("sums")]
        exact = sum(F(part.mu) ** 2 for part in taken)
        assert F(budget.mu) ** 2 * (1 - F(1, 10**10)) <= exact <= F(budget.mu) ** 2


def test_a_slack_is_the_sum_of_draws_and_names_from_above():
    for coordinates in (1, 77, 10**6):
        for names in (*range(60), 999):
            slack = Slack(coordinates, names)
            draws, *named = slack.parts
            assert draws.amount == release_slack(coordinates)
            assert from_above(slack.total, sum(F(part.amount) for part in slack.parts))
            assert bool(named) == bool(names)
            for part in named:
                assert from_above(part.amount, names * F(1e-9))


def test_nobody_is_right_more_often_than_the_curve_or_eta_says():
    budget = Budget(0.8, 1e-6)
    accuracy = budget.curve().accuracy()
    assert budget.success_upper(0.5) == accuracy  # a larger η adds nothing
    for eta in (0.1, 1e-17, 0.01):
        exact = F(1, 2) + F(eta)
        assert exact <= F(budget.success_upper(eta)) <= exact * (1 + F(1, 2**52))


def test_slopes_at_zero_are_from_above():
    """κ = Γ(d/2)/(2√π·Γ((d+1)/2)), to 40 digits."""
    with mp.workdps(40):
        for dimension in (1, 2, 3, 4, 5, 8, 9, 50, 51, 1000):
            exact = mp.gammaprod([mp.mpf(dimension) / 2], [mp.mpf(dimension + 1) / 2])
            exact /= 2 * mp.sqrt(mp.pi)
            found = NormExponentialNoise([1.0] * dimension, 1.0).slope_upper
            assert min(exact, mp.mpf(0.5)) <= found <= exact * (1 + mp.mpf("1e-10"))


def test_draws_of_a_group_are_added_from_above():
    """records·draws beside what names add along the chain, in rationals."""
    rng = Random(12)
    for records in (1, 2, 3, 5, 7, 30, 99):
        for _ in range(10):
            budget = Budget.for_eta(0.3, slack=Slack(rng.randint(1, 10**6), 0))
            (draws,) = (part.amount for part in budget.slacks)
            assert from_above(budget.group_curve(records).slack, records * F(draws))
            named = Budget.for_eta(0.05, slack=Slack(rng.randint(1, 10**6), rng.randint(1, 9)))
            first, names = (part.amount for part in named.slacks)
            chained = SlackCurve(named.curve().base, names).group(records).slack
            exact = F(chained) + records * F(first)
            assert from_above(named.group_curve(records).slack, min(exact, F(1)))
            if records == 1:
                assert chained == names


def test_a_restored_share_is_the_one_that_was_spent():
    budget = Budget(1.5, 1e-9, source=InsecureSource(1))
    sums = budget.take("sums", 0.4).sums(sensitivity=1.7, times=2)
    for _ in range(2):
        sums.measure([1.0, 2.0, 3.0])
    (spent,) = budget._taken
    restored = BudgetShare.from_measurement(spent.measurement(budget.mu).__dict__)
    assert (restored.name, restored.mu, restored.vectors) == ("sums", spent.mu, 2)
    for name in ("scale", "sensitivity", "coordinates"):
        assert getattr(restored.noise, name) == getattr(sums, name)
    assert restored.noise.times == 0
