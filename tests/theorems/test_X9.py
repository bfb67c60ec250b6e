"""X9: exact one-dimensional mixtures against the coupling bound and exact lattice counts."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, special

from memberbound.games import SubsetGame
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import NeighbourProfile

#: How much above the truth success may be.
SUCCESS_EXCESS = 1e-7


def epsilon_excess(epsilon, delta):
    """How much above the truth ε may be: the search, and an error of 1e-9 in both densities."""
    return 3e-6 * (1 + epsilon) + 1e-9 * np.exp(epsilon) / delta


def lattice_laws(values, size, record):
    """Laws of the sum with and without the record for whole values, in exact integers."""
    others = [int(v) for i, v in enumerate(values) if i != record]
    top = sum(others) + 1
    counts = [[0] * top for _ in range(size + 1)]
    counts[0][0] = 1
    for value in others:
        for taken in range(size, 0, -1):
            row, source = counts[taken], counts[taken - 1]
            for total in range(top - 1, value - 1, -1):
                row[total] += source[total - value]
    own = int(values[record])
    everything = [math.comb(len(others), size - 1), math.comb(len(others), size)]
    inside = {s + own: c / everything[0] for s, c in enumerate(counts[size - 1]) if c}
    outside = {s: c / everything[1] for s, c in enumerate(counts[size]) if c}
    return inside, outside


def mixture_stick(first, second, sigma, c):
    """∫(p - c·q)₊ between the roots of p - c·q, to about 1e-13."""
    laws = [(np.array(list(law)), np.array(list(law.values()))) for law in (first, second)]

    def gap(t):
        parts = [w @ np.exp(-0.5 * ((t - s) / sigma) ** 2) for s, w in laws]
        return parts[0] - c * parts[1]

    atoms = np.concatenate([laws[0][0], laws[1][0]])
    grid = np.arange(atoms.min() - 9 * sigma, atoms.max() + 9 * sigma, sigma / 10)
    signs = np.sign([gap(t) for t in grid])
    roots = [
        optimize.brentq(gap, grid[i], grid[i + 1], xtol=1e-13)
        for i in np.nonzero(signs[1:] * signs[:-1] < 0)[0]
    ]
    total = 0.0
    for low, high in pairwise([-math.inf, *roots, math.inf]):
        masses = [w @ (special.ndtr((high - s) / sigma) - special.ndtr((low - s) / sigma))
                  for s, w in laws]  # fmt: skip
        total += max(masses[0] - c * masses[1], 0.0)
    return total


@pytest.mark.parametrize(("count", "size", "sigma"), [(60, 30, 0.4), (60, 12, 1.5), (70, 40, 0.25)])
def test_sound_and_tight_on_whole_numbers(count, size, sigma):
    """Resonant data: all sums on a lattice that the noise does not blur."""
    values = np.random.default_rng(count + size).integers(0, 4, count).astype(float)
    values[7] = 9.0
    delta = 1e-3
    bounds = mixture_bounds(values, SubsetGame(count, size), sigma=sigma, delta=delta)
    for record in (0, 7):
        inside, outside = lattice_laws(values, size, record)
        c = math.exp(bounds.pmp_epsilon[record])
        sticks = [
            mixture_stick(inside, outside, sigma, c),
            mixture_stick(outside, inside, sigma, c),
        ]
        assert max(sticks) <= delta + 1e-12
        if c > 1:
            c *= math.exp(-epsilon_excess(math.log(c), delta))
        sticks = [
            mixture_stick(inside, outside, sigma, c),
            mixture_stick(outside, inside, sigma, c),
        ]
        assert max(sticks) > delta or c == 1
        pi = size / count
        truth = (1 - pi) + pi * mixture_stick(inside, outside, sigma, (1 - pi) / pi)
        assert truth - 1e-12 <= bounds.success[record] <= truth + SUCCESS_EXCESS


@pytest.mark.parametrize("count", [12, 100])
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_never_above_the_coupling_bound(count, share):
    rng = np.random.default_rng(count)
    size = round(count * share)
    values, sigma, delta = rng.standard_normal(count) / size, 2.4 / count, 1e-3
    game = SubsetGame(count, size)
    bounds = mixture_bounds(values, game, sigma=sigma, delta=delta)
    profile = NeighbourProfile.from_vectors(values[:, None])
    coupled = profile.pmp_epsilon(delta, sigma)
    assert (bounds.pmp_epsilon <= coupled + epsilon_excess(coupled, delta)).all()
    assert (bounds.success <= profile.accuracy(game.prior, sigma) + SUCCESS_EXCESS).all()
    # And it is worth the work: the mean record's gain is far smaller.
    gain = profile.accuracy(0.5, sigma) - 0.5
    if share == 0.5:
        assert bounds.eta.mean() < 0.8 * gain.mean()


def test_figure_of_the_theory():
    """N = 12, σ = 0.2: ε about half of the coupled one, η well below; normal records."""
    ratios = []
    for seed in range(5):
        values = np.random.default_rng(seed).standard_normal(12) / 6
        bounds = mixture_bounds(values, SubsetGame(12, 6), sigma=0.2, delta=1e-2)
        profile = NeighbourProfile.from_vectors(values[:, None])
        ratios.append(bounds.pmp_epsilon_upper / profile.pmp_epsilon(1e-2, 0.2).max())
        assert bounds.eta_upper < profile.advantage(0.2).max() / 2
    assert np.mean(ratios) < 0.7


def test_forgetting_the_own_value_would_be_caught():
    """The law "in" without the record's own value has another hockey-stick."""
    values = np.random.default_rng(1).integers(0, 4, 60).astype(float)
    values[7] = 9.0
    bounds = mixture_bounds(values, SubsetGame(60, 30), sigma=0.4, delta=1e-3)
    inside, outside = lattice_laws(values, 30, 7)
    forgotten = {s - 9: w for s, w in inside.items()}
    wrong = 0.5 + 0.5 * mixture_stick(forgotten, outside, 0.4, 1.0)
    assert abs(bounds.success[7] - wrong) > 1e-3
