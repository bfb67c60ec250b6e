"""The exponential mechanism: its probabilities, its sensitivities, and what it refuses."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses
from oracle.exponential import probabilities

ZEROS = np.zeros((4, 2))


def random_mechanism(seed: int = 0, records: int = 6, candidates: int = 4, **changes):
    losses = np.random.default_rng(seed).uniform(0, 1, (records, candidates))
    arguments = {"size": records // 2, "epsilon": 3.0, "sensitivity": 1.0, **changes}
    return ExponentialMechanism(losses, **arguments)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_probabilities_are_those_of_definition_7(size):
    mechanism = random_mechanism(size=size, epsilon=7.0)
    sets = list(itertools.combinations(range(6), size))
    by_rows = mechanism.log_probabilities(np.array(sets))
    for place, chosen in enumerate(sets):
        with mpmath.workdps(40):
            expected = [float(mpmath.log(p)) for p in probabilities(mechanism, chosen)]
        np.testing.assert_allclose(by_rows[place], expected, rtol=1e-13)


def test_scores_are_the_definition_and_centring_only_shifts_rows():
    mechanism = random_mechanism(1, epsilon=4.0, sensitivity=2.0, size=3)
    shift = -4.0 * mechanism.losses / (2 * 2.0 * 3) - mechanism.scores.values
    shift -= mechanism.scores.base / mechanism.size
    np.testing.assert_allclose(shift, np.repeat(shift[:, :1], 4, axis=1), atol=1e-15)


def test_a_large_common_loss_costs_no_digits():
    losses = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    near = ExponentialMechanism(losses, 2, 5.0, 2.0)
    far = ExponentialMechanism(losses + 2.0**40, 2, 5.0, 2.0)
    np.testing.assert_array_equal(near.scores.values, far.scores.values)


# ---- sensitivities -------------------------------------------------------------------------------


def test_population_sensitivity_is_the_largest_move_and_from_above():
    for seed in range(20):
        mechanism = random_mechanism(seed, size=3)
        with mpmath.workdps(40):
            truth = max(
                abs(mpmath.mpf(float(a)) - mpmath.mpf(float(b))) / 3
                for column in mechanism.losses.T
                for a, b in itertools.combinations(column, 2)
            )
            assert mechanism.population_sensitivity >= truth
            assert mechanism.population_sensitivity <= truth * (1 + mpmath.mpf(2) ** -51)
            ratio = truth / mechanism.sensitivity
            assert mechanism.epsilon_population >= mechanism.epsilon * ratio


@pytest.mark.parametrize("dimension", [1, 3])
def test_no_record_in_the_ball_moves_the_mean_further(dimension):
    rng = np.random.default_rng(dimension)
    size, radius = 3, 2.0
    candidates = rng.normal(0, 2, (5, dimension))
    bound = clip_sensitivity(candidates, radius, size)
    points = rng.normal(size=(4000, dimension))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    points *= rng.uniform(0, 1, (4000, 1)) ** (1 / dimension)
    # The two extremes of the proof: the record opposite to w, and the one next to it.
    length = np.linalg.norm(candidates, axis=1, keepdims=True)
    opposite = -radius * candidates / length
    nearest = candidates * np.minimum(1.0, radius / length)
    losses = l2_losses(np.concatenate([points, opposite, nearest]), candidates)
    moved = np.ptp(losses, axis=0).max() / size
    assert moved <= bound
    assert moved >= bound * (1 - 1e-12)
    # Broken variant: 2C/k is right only if some candidate is outside the ball, and C/k never is.
    assert moved > radius / size


@pytest.mark.parametrize("target", [0.0, 0.3, 5.0, 400.0])
def test_calibration_to_the_population_does_not_exceed_its_target(target):
    losses = np.random.default_rng(3).uniform(0, 1, (8, 3))
    mechanism = ExponentialMechanism.calibrated_to_population(
        losses, size=4, epsilon_population=target, sensitivity=3.0
    )
    assert mechanism.epsilon_population <= target
    assert mechanism.epsilon_population >= target * (1 - 1e-13)


# ---- bad input -----------------------------------------------------------------------------------


ONE_APART = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"losses": ZEROS[:3]}, "at least 4 records"),
        ({"losses": np.zeros(4)}, "records × candidates"),
        ({"losses": [[math.nan, 1], [0, 1], [0, 1], [0, 1]]}, "finite"),
        ({"losses": [[1e308, 1], [-1e308, 1], [0, 1], [0, 1]]}, "finite"),
        ({"size": 0}, "at least 1"),
        ({"size": 4}, "smaller than the population"),
        ({"epsilon": -1.0}, "at least 0"),
        ({"sensitivity": 0.0}, "greater than 0"),
        ({"losses": [[5.0, 0], [0, 0], [0, 0], [0, 0]]}, "not ε-DP"),
        # 2Δk overflows: the rate would be 0 and a release with ε(X) = 1 would pass for blind.
        ({"losses": ONE_APART * 1e308, "sensitivity": 1e308}, "unit of the losses"),
        ({"losses": ONE_APART * 1e-310, "sensitivity": 1e-310}, "unit of the losses"),
        ({"losses": ONE_APART, "epsilon": 5e-324}, "unit of the losses"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(changes, words):
    arguments = {"losses": ZEROS, "size": 2, "epsilon": 1.0, "sensitivity": 1.0, **changes}
    with pytest.raises(InputError, match=words):
        ExponentialMechanism(**arguments)


def test_a_sensitivity_that_is_no_double_is_not_refused():
    losses = np.array([[1.0, 0.0]] + [[0.0, 0.0]] * 5)
    mechanism = ExponentialMechanism(losses, 3, 1.0, 1 / 3)
    assert mechanism.epsilon_population == pytest.approx(1.0, rel=1e-15)


def test_records_and_candidates_must_fit():
    with pytest.raises(InputError, match="dimension 2"):
        l2_losses(np.zeros((4, 2)), np.zeros((3, 1)))
    with pytest.raises(InputError, match="all rows are equal"):
        ExponentialMechanism.calibrated_to_population(
            ZEROS, size=2, epsilon_population=1.0, sensitivity=1.0
        )
