"""The exponential mechanism: refusals, and all subsets against a plain loop in 60 digits."""

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.subset import enumeration
from memberbound.subset.enumeration import exact_bounds, is_enumerable, subset_laws
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses
from oracle.exponential import probabilities

TIGHT = 1e-12
DIGITS = 60


@functools.cache
def true_laws(mechanism: ExponentialMechanism) -> tuple:
    """(P_in, P_out)[x][w] by summing definition 7 over every subset; shares no code with ours."""
    records, candidates = mechanism.losses.shape
    sums = [[[mpmath.mpf(0)] * candidates for _ in range(records)] for _ in (0, 1)]
    counts = [0, 0]
    with mpmath.workdps(DIGITS):
        for chosen in itertools.combinations(range(records), mechanism.size):
            law = probabilities(mechanism, chosen)
            for x in range(records):
                side = 0 if x in chosen else 1
                counts[side] += x == 0
                sums[side][x] = [a + b for a, b in zip(sums[side][x], law, strict=True)]
        return tuple([[p / counts[side] for p in row] for row in sums[side]] for side in (0, 1))


def true_epsilon(mechanism, record):
    inside, outside = true_laws(mechanism)
    with mpmath.workdps(DIGITS):
        pairs = zip(inside[record], outside[record], strict=True)
        return max(abs(mpmath.log(a / b)) for a, b in pairs)


def true_stick(mechanism, record, epsilon):
    inside, outside = (law[record] for law in true_laws(mechanism))
    with mpmath.workdps(DIGITS):
        price = mpmath.exp(mpmath.mpf(epsilon))
        zero = mpmath.mpf(0)
        ahead = mpmath.fsum(max(zero, a - price * b) for a, b in zip(inside, outside, strict=True))
        back = mpmath.fsum(max(zero, b - price * a) for a, b in zip(inside, outside, strict=True))
        return max(ahead, back)


def true_success(mechanism, record):
    inside, outside = (law[record] for law in true_laws(mechanism))
    with mpmath.workdps(DIGITS):
        prior = mpmath.mpf(mechanism.size) / len(mechanism.losses)
        return mpmath.fsum(
            max(prior * a, (1 - prior) * b) for a, b in zip(inside, outside, strict=True)
        )


def uniform(seed, records, candidates, size, epsilon):
    losses = np.random.default_rng(seed).uniform(0, 1, (records, candidates))
    return ExponentialMechanism(losses, size, epsilon, 1 / size)


def outlier():
    """One record far from all candidates, one candidate far from all records."""
    losses = np.random.default_rng(5).uniform(0, 1, (7, 4))
    losses[2] += 1000.0
    losses[:, 3] += 5000.0
    return ExponentialMechanism(losses, 3, 8.0, 400.0)


def rare_candidate():
    """A candidate of probability about e^-1500 in every set, which still tells about record 0."""
    losses = np.full((6, 3), 0.0)
    losses[:, 2] = 1000.0
    losses[0] += [0.0, 0.25, 1.0]
    return ExponentialMechanism(losses, 3, 3.0, 1.0)


CASES = {
    "half of six": uniform(0, 6, 4, 3, 5.0),
    "half of eight": uniform(1, 8, 3, 4, 20.0),
    "three of seven": uniform(2, 7, 5, 3, 10.0),
    "one of five": uniform(3, 5, 3, 1, 2.0),
    "all but one": uniform(4, 6, 3, 5, 6.0),
    "small epsilon": uniform(5, 6, 3, 3, 1e-6),
    "one candidate": uniform(6, 6, 1, 3, 4.0),
    "outlier": outlier(),
    "rare candidate": rare_candidate(),
    "large epsilon": uniform(7, 6, 4, 3, 100.0),
    "largest products": uniform(7, 8, 4, 4, 300.0),
}


def slack(mechanism, truth):
    return TIGHT * max(1.0, mechanism.epsilon / 10, float(truth))


@pytest.mark.parametrize("name", CASES)
def test_epsilon_and_success_are_sound_and_tight(name):
    mechanism = CASES[name]
    bounds = exact_bounds(mechanism)
    for values, true_value in (
        (bounds.pmp_epsilon, true_epsilon),
        (bounds.success, true_success),
    ):
        for record, value in enumerate(values):
            truth = true_value(mechanism, record)
            assert value >= truth
            assert value <= truth + slack(mechanism, truth)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.05])
@pytest.mark.parametrize("name", ["half of six", "three of seven", "rare candidate"])
def test_epsilon_at_delta_is_sound_and_least(name, delta):
    mechanism = CASES[name]
    result = exact_bounds(mechanism, delta=delta)
    free = exact_bounds(mechanism)
    assert (result.pmp_epsilon <= free.pmp_epsilon).all()
    for record, value in enumerate(result.pmp_epsilon):
        assert true_stick(mechanism, record, value) <= delta
        if value > 1e-9:
            assert true_stick(mechanism, record, value * (1 - 1e-8)) > delta


@pytest.mark.parametrize("name", CASES)
def test_laws_lie_within_their_stated_errors(name):
    mechanism = CASES[name]
    laws = subset_laws(mechanism)
    with mpmath.workdps(DIGITS):
        inside, outside = (
            [[mpmath.log(p) for p in row] for row in law] for law in true_laws(mechanism)
        )
        for x, w in np.ndindex(mechanism.losses.shape):
            ratio = inside[x][w] - outside[x][w]
            assert abs(laws.log_in[x, w] - inside[x][w]) <= laws.error[w]
            assert abs(laws.log_out[x, w] - outside[x][w]) <= laws.error[w]
            assert abs(laws.ratio[x, w] - ratio) <= laws.ratio_error[x, w]


def test_the_tests_above_catch_a_bound_below_the_truth():
    """Broken variants: one side only; the mean over outcomes; errors taken off, not added."""
    caught = {"one-sided": 0, "mean": 0, "rounded down": 0}
    for mechanism in CASES.values():
        laws = subset_laws(mechanism)
        broken = {
            "one-sided": laws.ratio.max(axis=1),
            "mean": np.abs(laws.ratio).mean(axis=1),
            "rounded down": np.abs(laws.ratio).max(axis=1) - laws.ratio_error.max(axis=1),
        }
        for name, values in broken.items():
            caught[name] += any(
                value < true_epsilon(mechanism, record) for record, value in enumerate(values)
            )
    assert min(caught.values()) >= 5


@pytest.mark.parametrize("epsilon", [3000.0, 1e6])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_beyond_the_range_of_doubles_the_worst_case_holds(epsilon, delta):
    mechanism = uniform(8, 6, 4, 3, epsilon)
    assert subset_laws(mechanism) is None
    result = exact_bounds(mechanism, delta=delta)
    for record, value in enumerate(result.pmp_epsilon):
        assert true_stick(mechanism, record, value) <= delta
        assert result.success[record] >= true_success(mechanism, record)
    assert result.pmp_epsilon_upper <= mechanism.epsilon_population


def test_blocks_of_any_shape_add_up_to_the_same(monkeypatch):
    mechanism = uniform(12, 11, 3, 5, 6.0)
    whole, seen = subset_laws(mechanism), []
    monkeypatch.setattr(enumeration, "_ENTRIES", 7)
    parts = subset_laws(mechanism, progress=lambda *at: seen.append(at))
    np.testing.assert_allclose(parts.ratio, whole.ratio, atol=1e-13)
    assert seen[-1] == (math.comb(11, 5), math.comb(11, 5))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_nothing_leaks_at_epsilon_zero_or_with_equal_records(size):
    silent = uniform(15, 6, 3, size, 0.0)
    equal = ExponentialMechanism(np.tile([0.0, 1.0, 2.0], (6, 1)), size, 5.0, 1.0)
    for mechanism in (silent, equal):
        result = exact_bounds(mechanism)
        assert result.pmp_epsilon_upper == 0.0
        assert result.eta_upper <= (0.0 if size == 3 else 1e-14)
        assert result.success_upper >= max(size, 6 - size) / 6


def test_too_many_subsets_are_refused_with_a_remedy():
    assert is_enumerable(SubsetGame(28, 14))
    with pytest.raises(InputError, match="Use sampling"):
        exact_bounds(uniform(0, 30, 2, 15, 1.0))
    with pytest.raises(InputError, match="Use sampling"):
        exact_bounds(uniform(0, 4000, 2, 2000, 1.0))  # more subsets than a double can represent
    with pytest.raises(InputError, match="delta must be in"):
        exact_bounds(CASES["half of six"], delta=2.0)


# ---- scores and sensitivities --------------------------------------------------------------------


def test_a_large_common_loss_costs_no_digits():
    losses = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    near = ExponentialMechanism(losses, 2, 5.0, 2.0)
    far = ExponentialMechanism(losses + 2.0**40, 2, 5.0, 2.0)
    np.testing.assert_array_equal(near.scores.values, far.scores.values)


def test_population_sensitivity_is_the_largest_move_and_from_above():
    for seed in range(20):
        mechanism = uniform(seed, 6, 4, 3, 3.0)
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

ZEROS = np.zeros((4, 2))
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


def test_a_sensitivity_without_an_exact_double_is_accepted():
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
