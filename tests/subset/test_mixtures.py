"""Exact mixtures by Fourier inversion against exact probabilities and simulated attacks."""

import dataclasses
import math
from functools import cache

import mpmath
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.subset import fourier, mixtures
from memberbound.subset.densities import DensityPair, bernstein
from memberbound.subset.fourier import fourier_sums
from memberbound.subset.mixtures import mixture_bounds
from oracle.normal_mixtures import stick, subset_laws

#: Largest increase of a hockey-stick at c ≤ 10 by the certified errors.
TIGHT = 2e-7


def sticks(pairs, c, *, swap=False):
    """Hockey-sticks of all records, from the densities of some at a time."""
    result = np.empty(sum(len(records) for records, _ in pairs))
    for records, pair in pairs:
        chosen = pair.swapped() if swap else pair
        result[records] = chosen.hockey_sticks(np.full(len(records), c))[0]
    return result


def fourier_sticks(values, size, sigma, c, *, swap=False):
    plan = fourier_sums((values - np.median(values)) / sigma, size)
    return sticks(list(plan.pairs(np.arange(len(values)))), c, swap=swap)


def dataset(name, count):
    rng = np.random.default_rng(len(name) + count)
    base = rng.standard_normal(count)
    return {
        "normal": base,
        "whole": np.arange(count) % 4.0,
        "clusters": np.where(np.arange(count) % 2 == 0, 0.0, 30.0) + 0.3 * base,
        "outlier": np.concatenate([base[1:], [60.0]]),
        "twins": np.repeat(base[: (count + 1) // 2], 2)[:count],
    }[name]


@pytest.mark.parametrize(
    "case",
    [("normal", 6, 3, 0.7, 1.0), ("normal", 7, 2, 1.0, 3.0), ("whole", 8, 4, 0.3, 1.5),
     ("clusters", 6, 3, 2.0, 1.0), ("twins", 7, 5, 0.5, 0.4), ("outlier", 6, 3, 4.0, 2.0),
     ("normal", 10, 5, 0.5, 8.0), ("clusters", 11, 3, 0.5, 1.0)],
)  # fmt: skip
def test_sound_and_tight_against_exact_probabilities(case):
    name, count, size, sigma, c = case
    values = dataset(name, count)
    for swap in (False, True):
        result = fourier_sticks(values, size, sigma, c, swap=swap)
        for record in (0, count - 1):
            laws = subset_laws(values, size, record)
            truth = stick(*(laws[::-1] if swap else laws), sigma, c)
            assert result[record] >= truth
            assert result[record] <= truth + TIGHT


def test_too_few_points_on_the_circle_are_caught():
    values = dataset("normal", 8)
    good = fourier_sums(values / 0.3, 4)
    truth = np.array([float(stick(*subset_laws(values, 4, x), 0.3, 1.0)) for x in range(8)])
    few = dataclasses.replace(good, nodes=3, point=good.point % 3)
    keep = np.unique(few.index * 3 + few.point)
    few = dataclasses.replace(few, index=keep // 3, point=keep % 3)
    assert (sticks(list(good.pairs(np.arange(8))), 1.0) >= truth).all()
    assert (sticks(list(few.pairs(np.arange(8))), 1.0) < truth).any()


def test_too_few_points_are_accounted_for():
    # n = 11 others, 5 points: the aliases stated are at least the mass really folded.
    stated = fourier._aliases(11, 0.5, 6, 5)
    folded = sum(math.comb(11, j) for j in (1, 11)) / math.comb(11, 6)
    assert folded <= stated <= 1.01 * folded


def test_points_of_the_circle_err_by_their_angle_next_to_zero():
    # The error of a pair counts 3.1·|θ| units with -π < θ ≤ π; an angle next to 2π errs by more.
    plan = fourier_sums(dataset("normal", 80) / 0.3, 40)
    order = np.argsort(plan.point)
    plan = dataclasses.replace(plan, point=plan.point[order])
    result = plan._circle(1)
    with mpmath.workdps(40):
        for point in np.unique(plan.point):
            first = int(np.searchsorted(plan.point, point))
            turn = mpmath.mpf(int(point)) / plan.nodes
            theta = 2 * mpmath.pi * (turn - 1 if turn > mpmath.mpf(1) / 2 else turn)
            off = abs(mpmath.mpc(complex(result[first])) - mpmath.expj(theta))
            assert off <= (3.1 * abs(theta) + 2) * 2.0**-53


def test_a_coarse_grid_needs_its_error_term():
    h, sigma = 1.0, 1.0
    nodes = np.arange(-12, 13) * h + 0.3
    shifts = np.linspace(0.1, 3.0, 12)
    value_in = np.exp(-0.5 * (nodes - shifts[:, None]) ** 2) / math.sqrt(2 * math.pi)
    slope_in = -(nodes - shifts[:, None]) * value_in
    value_out = np.tile(np.exp(-0.5 * nodes**2) / math.sqrt(2 * math.pi), (12, 1))
    slope_out = -nodes * value_out
    cut = [bernstein(v[:, :-1], s[:, :-1], v[:, 1:], s[:, 1:], h)
           for v, s in ((value_in, slope_in), (value_out, slope_out))]  # fmt: skip
    error = np.full((12, 1), 3 / math.sqrt(2 * math.pi) * h**4 / 384)
    one, zero = np.ones(1), np.zeros(1)
    truth = np.array([float(stick((one * m, one), (zero, one), sigma, 4.0)) for m in shifts])
    good = DensityPair(h, *cut, error, error).hockey_sticks(np.full(12, 4.0))[0]
    bare = DensityPair(h, *cut, 0 * error, 0 * error).hockey_sticks(np.full(12, 4.0))[0]
    assert (good >= truth).all()
    assert (bare < truth).any()


def test_epsilon_holds_both_ways_and_one_side_is_not_enough():
    values, size, sigma, delta = dataset("normal", 8), 3, 2.0, 1e-3
    bounds = mixture_bounds(values, SubsetGame(8, size), sigma=sigma, delta=delta)
    one_sided = np.empty(8)
    for records, pair in fourier_sums(values / sigma, size).pairs(np.arange(8)):
        one_sided[records] = pair.epsilon(delta)
    caught = 0
    for record in range(8):
        laws = subset_laws(values, size, record)

        def larger_stick(epsilon, laws=laws):
            return max(stick(*pair, sigma, math.exp(epsilon)) for pair in (laws, laws[::-1]))

        epsilon = bounds.pmp_epsilon[record]
        assert larger_stick(epsilon) <= delta
        if epsilon > 1e-4:
            assert larger_stick(epsilon - 1e-4) > delta
        caught += larger_stick(one_sided[record]) > delta
    assert caught > 0


def test_equal_values_leak_nothing_and_twins_are_equal():
    flat = mixture_bounds(np.full(40, 3.5), SubsetGame(40, 20), sigma=0.1, delta=1e-9)
    assert flat.pmp_epsilon_upper == 0.0
    assert flat.success_upper == 0.5
    values = dataset("twins", 30)
    result = mixture_bounds(values, SubsetGame(30, 15), sigma=0.5, delta=1e-4)
    np.testing.assert_array_equal(result.success[0::2], result.success[1::2])
    np.testing.assert_array_equal(result.pmp_epsilon[0::2], result.pmp_epsilon[1::2])


def test_unreachable_bounds_are_vacuous_but_valid():
    values = np.random.default_rng(0).standard_normal(60) * 1e12
    result = mixture_bounds(values, SubsetGame(60, 30), sigma=1.0, delta=1e-5)
    assert np.isinf(result.pmp_epsilon).all()
    assert (result.success == 1.0).all()
    assert np.isinf(mixture_bounds([0, 1, 2], SubsetGame(3, 1), sigma=1, delta=0).pmp_epsilon).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "sigma"),
    [([0.0, 1e300, -1e300, 1e300], 1e290), ([0.0, 1e300, -1e300], 1.0), ([0.0, 1.0, 1.0], 5e-324)],
)
def test_sums_beyond_all_doubles_are_vacuous_without_a_warning(values, sigma):
    bounds = mixture_bounds(values, SubsetGame(len(values), 2), sigma=sigma, delta=0.1)
    assert bounds.pmp_epsilon_upper == math.inf
    assert bounds.success_upper == 1.0


@pytest.mark.parametrize(
    ("values", "sigma", "delta", "said"),
    [
        ([0.0, math.nan, 1.0], 1.0, 1e-5, "finite"),
        ([0.0, 1.0, 2.0], 0.0, 1e-5, "sigma must be greater than 0"),
        ([0.0, 1.0, 2.0], 1.0, 1.5, "delta must be in"),
        ([0.0, 1.0], 1.0, 1e-5, "each of 3 records"),
    ],
)
def test_bad_input(values, sigma, delta, said):
    with pytest.raises(InputError, match=said):
        mixture_bounds(values, SubsetGame(3, 1), sigma=sigma, delta=delta)


def many(name, count):
    rng = np.random.default_rng(7)
    return {
        "normal": np.clip(rng.standard_normal(count), -3, 3),
        "outlier": np.append(rng.standard_normal(count - 1), 9.0),
    }[name]


@pytest.fixture
def few(monkeypatch):
    """Let a small population count as a large one."""
    monkeypatch.setattr(mixtures, "MOST_EXACT", 150)


@pytest.mark.parametrize(("name", "share"), [("normal", 0.5), ("outlier", 0.25)])
def test_values_not_worked_out_are_bounded_and_the_worst_is_exact(name, share, few):
    count = 500
    values, game = many(name, count), SubsetGame(count, round(count * share))
    truth = mixture_bounds_of_all(name, game)
    seen = []
    result = mixture_bounds(
        values, game, sigma=4.0, delta=1e-4, progress=lambda *at: seen.append(at)
    )
    assert seen[-1][0] == seen[-1][1] <= 150
    assert (result.success >= truth.success - 1e-8).all()
    assert (result.pmp_epsilon >= truth.pmp_epsilon - 1e-5).all()
    assert result.eta_upper <= truth.eta_upper * 1.001 + 1e-8
    assert result.pmp_epsilon_upper <= truth.pmp_epsilon_upper * 1.001 + 1e-5
    assert np.isfinite(result.pmp_epsilon).all()


@cache
def mixture_bounds_of_all(name, game):
    """Every value worked out, as for a small population."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixtures, "MOST_EXACT", game.population)
        return mixture_bounds(many(name, game.population), game, sigma=4.0, delta=1e-4)


def test_taking_a_neighbours_number_for_ones_own_is_caught(few, monkeypatch):
    values, game = many("normal", 500), SubsetGame(500, 250)
    truth = mixture_bounds_of_all("normal", game)
    cost = mixtures._cost_of_moving
    monkeypatch.setattr(mixtures, "_cost_of_moving", lambda way, *rest: cost(0 * way, *rest))
    result = mixture_bounds(values, game, sigma=4.0, delta=1e-4)
    assert (result.success >= truth.success - 1e-8).all()  # its own way is still paid
    # At a smaller δ ε has some slack; twins of a neighbour's ε at δ itself fall short.
    assert (result.pmp_epsilon < truth.pmp_epsilon - 1e-5).any()


def attack(count, trials, seed):
    """Accuracy of a threshold attack on an outlier in a large population, and its bound."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(count)
    values[0] = 2 * math.sqrt(count / 4)
    sigma = 0.5 * math.sqrt(count / 4)
    half = count // 2
    bounds = mixture_bounds(values, SubsetGame(count, half), sigma=sigma, delta=1e-5)
    member, release = np.empty(trials, dtype=bool), np.empty(trials)
    for trial in range(trials):
        chosen = rng.permutation(count)[:half]
        member[trial] = (chosen == 0).any()
        release[trial] = values[chosen].sum()
    release += sigma * rng.standard_normal(trials)
    # The sum without the outlier is nearly normal around half of all the others.
    middle = values[1:].sum() / 2 + values[0] / 2
    return ((release > middle) == member).mean(), bounds


@pytest.mark.parametrize(
    ("count", "trials"), [(2000, 1000), pytest.param(100_000, 4000, marks=pytest.mark.long)]
)
def test_very_large_population_against_a_simulated_attack(count, trials):
    """4 standard errors, false alarm below 1e-4; half of the gain would be refuted."""
    accuracy, bounds = attack(count, trials, seed=3)
    error = 4 * 0.5 / math.sqrt(trials)
    assert bounds.worst_record == 0
    assert accuracy <= bounds.success[0] + error
    assert accuracy >= bounds.success[0] - error
    assert accuracy > 0.5 + bounds.eta[0] / 2 + error
    # The others leak hardly anything, and are all bounded.
    assert np.median(bounds.eta) < 0.01
    assert np.isfinite(bounds.pmp_epsilon).all()


def test_the_way_to_a_neighbour_costs_no_more_of_delta_than_it_was_given():
    """e^a·((1 - 2s)δ + e^ε·g(a)) + g(a) ≤ δ, g the exact hockey-stick, in 40 digits."""
    rng = np.random.default_rng(8)
    delta, share = 1e-5, mixtures._SHARE
    way, epsilon = 10 ** rng.uniform(-6, -1, 300), rng.uniform(0, 6, 300)
    paid = mixtures._cost_of_moving(way, epsilon, delta)
    assert 100 < np.isfinite(paid).sum() < 300
    with mpmath.workdps(40):
        s, d = mpmath.mpf(share), mpmath.mpf(delta)
        for tau, eps, a in zip(way.tolist(), epsilon.tolist(), paid.tolist(), strict=True):
            if math.isinf(a):
                continue
            t, x = mpmath.mpf(tau), mpmath.mpf(a)
            g = mpmath.ncdf(t / 2 - x / t) - mpmath.exp(x) * mpmath.ncdf(-t / 2 - x / t)
            assert mpmath.exp(x) * ((1 - 2 * s) * d + mpmath.exp(eps) * g) + g <= d
            # The tail that it may use is used up, but for roundings: a cheaper toll would not do.
            allowed = s * d / (1 + (1 + s) * mpmath.exp(eps))
            tail = mpmath.ncdf(t / 2 - x / t)
            assert allowed * (1 - mpmath.mpf("1e-6")) <= tail <= allowed
            assert mpmath.exp(x) <= 1 + s
