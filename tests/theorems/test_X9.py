"""X9: exact one-dimensional mixtures against the coupling bound and exact lattice counts."""

import math

import numpy as np
import pytest

from memberbound.games import SubsetGame
from memberbound.subset.mixtures import mixture_bounds
from memberbound.subset.profile import NeighbourProfile
from oracle.normal_mixtures import accuracy, lattice_laws, stick

#: Allowed excess of success over the truth.
SUCCESS_EXCESS = 1e-7


def epsilon_excess(epsilon, delta):
    """Allowed excess of ε over the truth: the search, and an error of 1e-9 in both densities."""
    return 3e-6 * (1 + epsilon) + 1e-9 * np.exp(epsilon) / delta


@pytest.mark.parametrize(("count", "size", "sigma"), [(60, 30, 0.4), (60, 12, 1.5), (70, 40, 0.25)])
def test_sound_and_tight_on_whole_numbers(count, size, sigma):
    """Resonant data: all sums on a lattice that the noise does not blur."""
    values = np.random.default_rng(count + size).integers(0, 4, count).astype(float)
    values[7] = 9.0
    delta = 1e-3
    bounds = mixture_bounds(values, SubsetGame(count, size), sigma=sigma, delta=delta)
    for record in (0, 7):
        laws = lattice_laws(values, size, record)

        def larger_stick(epsilon, laws=laws):
            return max(stick(*pair, sigma, math.exp(epsilon)) for pair in (laws, laws[::-1]))

        epsilon = bounds.pmp_epsilon[record]
        assert larger_stick(epsilon) <= delta
        if epsilon > 0:
            assert larger_stick(epsilon - epsilon_excess(epsilon, delta)) > delta
        truth = accuracy(*laws, sigma, size / count)
        assert truth - 1e-15 <= bounds.success[record] <= truth + SUCCESS_EXCESS


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
    (support, weights), outside = lattice_laws(values, 30, 7)
    wrong = accuracy((support - 9, weights), outside, 0.4, 0.5)
    assert abs(bounds.success[7] - wrong) > 1e-3
