"""Gaussian noise in the subset game: against cell masses of the true mixtures, and Fractions."""

import math
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.subset.clipping import clipped
from memberbound.subset.gaussian import (
    NoisySum,
    dp_from_noise,
    noise_from_dp,
    noise_on_query,
    noise_on_sum,
)
from memberbound.subset.profile import NeighbourProfile
from oracle.normal_mixtures import cells

F = Fraction
DELTA = 1e-3


def population(dimension, seed=3):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(6, dimension))
    vectors[0] *= 3
    return vectors


CASES = [(d, k, sigma) for d in (1, 2) for k in (3, 2) for sigma in (0.15, 0.7, 3.0)]


@cache
def truth(dimension, k, sigma):
    count = 4000 if dimension == 1 else 300
    return [cells(population(dimension), k, x, sigma, count) for x in range(6)]


def failures(bounds_of):
    """(case, record, what) for which an actual test beats the bound."""
    result = []
    for case in CASES:
        dimension, k, sigma = case
        bounds = bounds_of(dimension, k, sigma)
        for x, masses in enumerate(truth(*case)):
            if max(masses.sticks(bounds.pmp_epsilon[x])) > bounds.delta:
                result.append((case, x, "epsilon"))
            if masses.accuracy(k / 6) > bounds.success[x]:
                result.append((case, x, "success"))
    return result


def bounds_of(dimension, k, sigma, *, spread=1.0, drawn=None):
    """The bounds of the coupling; ``spread`` and ``drawn`` make them wrong."""
    vectors = population(dimension)
    vectors[:] = vectors.mean(axis=0) + spread * (vectors - vectors.mean(axis=0))
    return NoisySum.of(vectors, SubsetGame(6, drawn or k), crowd=False).coupled(sigma, DELTA)


def test_no_test_beats_the_bounds():
    assert failures(bounds_of) == []


def test_shrunken_distances_are_caught_in_both_readings():
    caught = failures(partial(bounds_of, spread=0.3))
    assert {what for _, _, what in caught} == {"epsilon", "success"}


def test_a_prior_of_one_half_at_another_size_is_caught():
    """k = 2 of 6: "out" alone is right 4 times out of 6."""
    caught = failures(partial(bounds_of, drawn=3))
    assert {case[1] for case, _, _ in caught} == {2}


def test_never_above_the_population_epsilon():
    vectors = np.random.default_rng(5).normal(size=(15, 3))
    profile = NeighbourProfile.from_vectors(vectors)
    for sigma in (0.5, 2.0, 30.0):
        bounds = NoisySum(profile, SubsetGame(15, 7)).coupled(sigma, 1e-4)
        most = [dp_from_noise(sigma, 1e-4, float(d)) for d in profile.max_distance]
        assert np.all(bounds.pmp_epsilon <= np.array(most) * (1 + 1e-9))
        assert bounds.pmp_epsilon_upper <= dp_from_noise(sigma, 1e-4, profile.diameter)


def test_success_covers_a_prior_without_an_exact_double():
    """Equal records: the truth is the blind guess 2/3 exactly, which is not a double."""
    profile = NeighbourProfile.from_vectors(np.ones((6, 2)))
    for k in range(1, 6):
        bounds = NoisySum(profile, SubsetGame(6, k)).coupled(1.0, 0.1)
        blind = max(F(k, 6), 1 - F(k, 6))
        assert all(blind <= F(s) <= blind + F(1, 10**14) for s in bounds.success.tolist())
        assert bounds.pmp_epsilon_upper == 0.0
        assert bounds.eta_upper < 1e-14
    assert NoisySum(profile, SubsetGame(6, 3)).coupled(1.0, 0.1).eta_upper == 0.0


# ---- inverses ---------------------------------------------------------------------------------

PROFILE = NeighbourProfile.from_vectors(np.random.default_rng(8).normal(size=(20, 2)))
NOISY = NoisySum(PROFILE, SubsetGame(20, 10))


@pytest.mark.parametrize("target", [0.0, 0.05, 1.0, 12.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-2])
def test_noise_for_pmp_holds_and_is_tight(target, delta):
    sigma = NOISY.noise_for_pmp(target, delta)
    assert NOISY.coupled(sigma, delta).pmp_epsilon_upper <= target
    assert PROFILE.delta(target, sigma).max() <= delta
    assert PROFILE.delta(target, sigma * (1 - 1e-4)).max() > delta
    assert sigma <= noise_from_dp(target, delta, PROFILE.diameter)


@pytest.mark.parametrize("size", [10, 3, 15])
@pytest.mark.parametrize("share", [1e-9, 0.01, 0.5, 0.99])
def test_noise_for_success_holds_and_is_tight(size, share):
    game = SubsetGame(20, size)
    blind = max(size, 20 - size) / 20
    target = blind + share * (1 - blind)
    noisy = NoisySum(PROFILE, game)
    sigma = noisy.noise_for_success(target)
    assert noisy.coupled(sigma, 0.1).success_upper <= target
    assert noisy.coupled(sigma * (1 - 1e-6), 0.1).success_upper > target


def test_equal_records_need_no_noise():
    noisy = NoisySum(NeighbourProfile.from_vectors(np.ones((4, 1))), SubsetGame(4, 2))
    assert noisy.noise_for_pmp(0.0, 1e-5) == 0.0
    assert noisy.noise_for_success(0.51) == 0.0


def test_two_crowds_meet_a_mild_target_with_next_to_no_noise():
    """Half of the others are twins: even the exact sum leaves 3/4 plus a little."""
    profile = NeighbourProfile.from_vectors([[0.0]] * 5 + [[1.0]] * 5)
    noisy = NoisySum(profile, SubsetGame(10, 5))
    sigma = noisy.noise_for_success(0.9)
    assert 0 < sigma < 1e-15
    assert noisy.coupled(sigma, 0.1).success_upper <= 0.9


@pytest.mark.parametrize("target", [0.5, 0.3, 1.0, 1.2, math.nan, 0.5 + 1e-16])
def test_impossible_success_targets_are_refused(target):
    with pytest.raises(InputError, match="target must"):
        NOISY.noise_for_success(target)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: NOISY.coupled(0.0, 0.1), "sigma must be greater than 0"),
        (lambda: NOISY.coupled(math.inf, 0.1), "sigma must be"),
        (lambda: NOISY.coupled(1.0, 0.0), "delta must be"),
        (lambda: NoisySum(PROFILE, SubsetGame(19, 9)), "must be the 20 records"),
        (lambda: NOISY.noise_for_pmp(1.0, 0.0), "delta must be"),
        (lambda: NOISY.noise_for_pmp(-1.0, 0.1), "target must be at least 0"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(InputError, match=match):
        call()


# ---- clipping and sensitivities ---------------------------------------------------------------


def square(row):
    return sum((F(v) ** 2 for v in row.tolist()), F(0))


def plainly(vectors, radius):
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * np.minimum(1, radius / norm)


def outside(table, radius):
    return [i for i, row in enumerate(table) if square(row) > F(radius) ** 2]


ROWS = np.random.default_rng(9).normal(size=(600, 7)) * 10


def test_clipped_rows_are_inside_exactly():
    for radius in (0.1, 1.0, 26.0, 3e7):
        result = clipped(ROWS, radius)
        assert outside(result.vectors, radius) == []
        assert result.moved == len(outside(ROWS, radius))
        kept = np.linalg.norm(ROWS, axis=1) < radius * (1 - 1e-12)
        assert np.array_equal(result.vectors[kept], ROWS[kept])
        np.testing.assert_allclose(result.vectors, plainly(ROWS, radius), rtol=1e-13)
        again = clipped(result.vectors, radius)
        assert again.moved == 0
        assert np.array_equal(again.vectors, result.vectors)


def test_plain_clipping_is_caught():
    assert len(outside(plainly(ROWS, 1.0), 1.0)) > 50


def test_rows_on_the_surface_are_not_touched():
    result = clipped([[3.0, 4.0], [3.0, math.nextafter(4.0, 5.0)], [0.0, 0.0]], 5.0)
    assert result.vectors[0].tolist() == [3.0, 4.0]
    assert result.moved == 1
    assert outside(result.vectors, 5.0) == []


@given(
    arrays(np.float64, (3, 2), elements=st.floats(allow_nan=False, allow_infinity=False, width=64)),
    st.floats(5e-324, 1e308),
)
# C over a norm below 1 is beyond all doubles.
@example(np.array([[1.0, 9e307], [9e307, 9e307], [1.7e308, -1.7e308]]), 9e307)
@example(np.array([[1.0, 1e308], [5e-324, 1e308], [1e308, -1e308]]), math.nextafter(1e308, 0))
@example(np.array([[5e-324, 5e-324], [1e-310, 1e308], [0.0, -1e-323]]), 5e-324)
def test_clipping_at_all_magnitudes(vectors, radius):
    result = clipped(vectors, radius)
    assert outside(result.vectors, radius) == []
    assert result.moved == len(outside(vectors, radius))
    assert np.all((result.vectors == 0) | (np.sign(result.vectors) == np.sign(vectors)))
    if radius > 1e-290:
        norms = np.sqrt([float(square(r) / F(radius) ** 2) for r in result.vectors])
        moved = [i for i, r in enumerate(vectors) if square(r) > F(radius) ** 2]
        assert all(norms[i] > 1 - 1e-13 for i in moved)


def test_one_number_per_record():
    given_rows = np.array([1.0, -7.0, 3.0])
    result = clipped(given_rows, 2.0)
    np.testing.assert_allclose(result.vectors, [1, -2, 2], rtol=1e-14)
    assert result.moved == 2
    assert given_rows.tolist() == [1, -7, 3]


@pytest.mark.parametrize(
    ("vectors", "radius", "match"),
    [
        ([[math.nan]], 1.0, "finite"),
        ([["a"]], 1.0, "numbers"),
        (np.zeros((2, 2, 2)), 1.0, "one row per record"),
        ([[1.0]], 0.0, "radius must be greater than 0"),
    ],
)
def test_bad_input_of_clipping(vectors, radius, match):
    with pytest.raises(InputError, match=match):
        clipped(vectors, radius)


def test_noise_on_a_mean_is_noise_on_the_sum():
    for sigma in (0.1, 1 / 3, 7.0):
        assert noise_on_sum(sigma, 1) == noise_on_query(sigma, 1) == sigma
        for size in (3, 49, 99991):
            assert F(noise_on_sum(sigma, size)) <= size * F(sigma)
            assert F(noise_on_query(sigma, size)) >= F(sigma) / size
            back = noise_on_sum(noise_on_query(sigma, size), size)
            assert sigma <= back <= sigma * (1 + 1e-14)
