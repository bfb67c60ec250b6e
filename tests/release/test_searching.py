"""Searching for a scale costs no confidence: simulations of both ways, and broken variants."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.numerics.means import mean_upper
from memberbound.numerics.roots import fixed_order
from memberbound.release.half.least_noise import (
    certify_scale,
    distance_target,
    eta_from_distance,
    least_draws,
)
from memberbound.release.noise import GaussianNoise, NormExponentialNoise

RNG = np.random.default_rng(0)
FAMILIES = [
    GaussianNoise(1.0, 3),
    NormExponentialNoise([0.5, 1.0, 2.0], 1.0),
]


def search(lengths, family=FAMILIES[0], **changes):
    settings = {"start": 1.0, "target": 0.1, "confidence": 0.95} | changes
    return certify_scale(lambda s: replace(family, scale=s).distance(lengths), **settings)


def mean_bounds(table, confidence):
    return mean_upper(table if table.ndim == 2 else table[:, None], confidence=confidence)


@pytest.mark.parametrize("family", FAMILIES)
def test_returned_scale_passes_and_a_little_less_does_not(family):
    lengths = family.length(RNG.normal(size=(300, 3)))
    target = 0.1

    def bound(scale):
        return mean_bounds(replace(family, scale=scale).distance(lengths), 0.9).max()

    for start in (1e-6, 1.0, 1e7):
        result = search(lengths, family, start=start, confidence=0.9)
        assert bound(result.scale) <= target
        assert bound(result.scale * 0.999) > target
        assert result.bound == target
        assert result.plug_in <= result.bound


def test_columns_share_the_error_and_the_worst_decides():
    lengths = np.abs(RNG.normal(size=(400, 5))) * np.array([1, 1, 1, 1, 3.0])
    every, alone = search(lengths), search(lengths[:, 4])
    assert alone.scale < every.scale < 1.5 * alone.scale


def test_floor_is_returned_with_its_own_bound_when_it_passes():
    lengths = np.ones(400)
    result = search(lengths, floor=50.0)
    assert result.scale == 50.0
    assert result.bound == mean_bounds(GaussianNoise(50.0, 3).distance(lengths), 0.95)[0] < 0.1
    assert search(lengths, floor=1.0).scale > 4


def test_a_constant_sample_certifies_only_what_its_size_allows():
    for draws in (100, 1000):
        result = search(np.zeros(draws))
        assert result.scale == 0.0
        assert 3.0 / draws < result.bound < 6.0 / draws


def test_too_few_draws_say_how_many_are_needed():
    with pytest.raises(SearchError, match=f"at least {least_draws(0.02, 0.95)} "):
        search(np.ones(100), target=0.02)


@pytest.mark.parametrize("columns", [1, 50])
def test_least_draws_is_enough(columns):
    needed = least_draws(0.05, 0.9, columns)
    assert mean_bounds(np.zeros((needed, columns)), 0.9).max() <= 0.05
    assert mean_bounds(np.zeros((needed // 2, columns)), 0.9).max() > 0.05


@pytest.mark.parametrize(("size", "k"), [(10, 5), (10, 2), (9, 8)])
def test_eta_and_distance_round_trip_on_the_safe_side(size, k):
    game = SubsetGame(size, k)
    for eta in (0.01, 0.05, 0.1):
        target = distance_target(game, eta, 1e-9)
        assert eta_from_distance(game, target, 1e-9) <= eta
        assert target <= 1
    assert eta_from_distance(game, 1.0) == min(k, size - k) / size
    with pytest.raises(InputError, match="floating-point"):
        distance_target(game, 1e-10, 1e-9)


# Fixed-order testing: scales 1 > ... with a true mean that rises as they fall, each tested on draws
# of its own, so that nothing is monotone along a path.
TARGET, DRAWS, RUNS = 0.2, 40, 600
TRUE_MEANS = (0.05, 0.1, 0.19, *np.linspace(0.201, 0.21, 40))


def independent_runs():
    rng = np.random.default_rng(11)
    for _ in range(RUNS):
        tables = {
            index: (rng.random(DRAWS) < mean).astype(float) for index, mean in enumerate(TRUE_MEANS)
        }
        yield tables


def test_fixed_order_errs_no_more_than_allowed_and_trying_all_scales_does():
    """False alarm at most 1e-6; the broken variant takes the smallest scale that passes anywhere.

    Hoeffding's bound at confidence 0.7: sharp enough for errors to happen at all.
    """
    wrong = broken = 0
    for tables in independent_runs():
        passing = [
            index
            for index, table in tables.items()
            if table.mean() + math.sqrt(math.log(1 / 0.3) / (2 * DRAWS)) <= TARGET
        ]
        broken += bool(passing) and TRUE_MEANS[max(passing)] > TARGET
        result = fixed_order(lambda index: index in passing, range(len(TRUE_MEANS)))  # noqa: B023
        wrong += result is not None and TRUE_MEANS[result] > TARGET
    limit = binom.isf(1e-6, RUNS, 0.3)
    assert wrong <= limit
    assert broken > limit
