"""X24: floors that use the known noise.

Truth: all training sets of small populations; the noise in closed form or on a grid.
"""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from memberbound.attacks.noisy_releases import audit_release
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.numerics.means import betting_lower
from memberbound.release.half.statistics import calibrate_sum, mean, quantiles
from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from oracle import subset
from oracle.released_statistic import Column, gains, outputs_of, statistics


def exact_rates(statistic, game, scale, direction, middle):
    """TPR and FPR of every record's linear test, over all training sets, noise integrated."""
    sets = list(combinations(range(game.population), game.size))
    outputs = np.array([statistic(np.array(s)) for s in sets])
    guess = ndtr((outputs - middle) @ direction / (scale * np.abs(direction).sum(axis=0)))
    member = np.array([[x in s for x in range(game.population)] for s in sets])
    tpr = np.where(member, guess, 0).sum(axis=0) / member.sum(axis=0)
    fpr = np.where(member, 0, guess).sum(axis=0) / (~member).sum(axis=0)
    return guess, member, tpr - fpr


@pytest.mark.parametrize(("size", "k"), [(6, 3), (7, 3), (6, 2)])
def test_every_model_in_both_roles_has_the_right_mean(size, k):
    """Claims 1 and 2, by enumeration."""
    game = SubsetGame(size, k)
    rng = np.random.default_rng(1)
    for name, statistic in statistics(size):
        direction = rng.normal(size=(1, size))
        guess, member, advantage = exact_rates(statistic, game, 0.7, direction, np.zeros(1))
        z = np.where(member, guess, 0).sum(axis=1) / k
        z = z - np.where(member, 0, guess).sum(axis=1) / (size - k)
        assert z.mean() == pytest.approx(advantage.mean(), abs=1e-12), name
        place = {s: i for i, s in enumerate(subset.subsets(size, k))}
        for x in range(size):
            moved = [
                guess[place[d], x] - guess[place[e], x] for d, e, _ in subset.swaps(size, k, x)
            ]
            assert np.mean(moved) == pytest.approx(advantage[x], abs=1e-12)
        # The test's advantage is below that of the best test, the total variation.
        outputs = outputs_of(statistic, size, k)
        prior = min(k, size - k) / size
        if 2 * k == size:
            assert (advantage <= gains(outputs, size, k, 0.7) / prior + 1e-3).all(), name


@pytest.mark.parametrize("seed", range(2))
def test_floors_are_below_the_truth_and_near_it(seed):
    size, k = 10, 5
    game = SubsetGame(size, k)
    statistic = Column(np.random.default_rng(seed).normal(size=size), np.mean)
    scale = 0.25
    result = audit_release(
        statistic, GaussianNoise(scale, 1), game, targets=400, training=60, seed=seed, workers=1
    )
    truth = 2 * gains(outputs_of(statistic, size, k), size, k, scale)
    assert result.average.lower <= truth.mean() + 1e-9
    assert result.worst.lower <= truth[result.record] + 1e-9
    # TOLERANCE: a linear test of a nearly normal release, and the price of 400 targets.
    assert result.average.lower > truth.mean() - 0.06
    assert result.worst.lower > truth.max() - 0.15


class Ignores:
    """A learner that ignores its data: nothing can be learnt about anybody."""

    dimension = 2

    def __call__(self, rows):
        return np.zeros(2)


def test_coverage_on_a_learner_that_ignores_its_data():
    """Floors above 0 in at most 1 of 5 runs; false alarm 1e-6.  The broken twins are caught."""
    runs, targets, records, error = 150, 40, 300, 0.2
    limit = binom.isf(1e-6, runs, error)
    rng = np.random.default_rng(0)
    # With little noise verdicts are nearly certain, and none has to do with the members.
    guess = ndtr(5 * rng.normal(size=(runs, 1, records)))
    member = np.argsort(rng.random((runs, targets, records)), axis=2) < records // 2
    share = 2 / records
    values = (np.where(member, guess, 0) - np.where(member, 0, guess)).sum(axis=2) * share
    level = math.log(1 / error)
    sound = (betting_lower((values.T + 1) / 2, level) > 0.5).sum()
    right = np.where(member, guess, 1 - guess)
    # Broken: the record is picked on the targets, at the price of one record.
    best = np.take_along_axis(right, right.mean(axis=1).argmax(axis=1)[:, None, None], 2)[..., 0]
    chosen = (betting_lower(best.T, level) > 0.5).sum()
    # Broken: every (model, record) pair is counted as a trial of its own, where the models share
    # their training set.
    pairs = np.tile(right[:, 0], (1, 20))
    pooled = (betting_lower(pairs.T, math.log(50)) > 0.5).sum()
    assert sound <= limit
    assert chosen > limit
    assert pooled > binom.isf(1e-6, runs, 0.02)


def test_a_learner_that_ignores_its_data_has_no_floor():
    for seed in range(2):
        result = audit_release(
            Ignores(),
            GaussianNoise(1.0, 2),
            SubsetGame(30, 15),
            targets=60,
            training=10,
            seed=seed,
            workers=1,
        )
        assert result.average.lower <= 0
        assert result.worst.lower <= 0


@pytest.mark.parametrize("record", ["average", "every"])
def test_sandwich_of_a_mean(record):
    """The floor is below the certificate of X1, and not far: a sum is nearly normal."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    game = SubsetGame(60, 30, record)
    statistic = mean(rows)
    calibration = calibrate_sum(statistic, game, eta=0.1)
    result = audit_release(statistic, calibration.noise, game, targets=1500, workers=1)
    ceiling = 2 * calibration.certificate.value
    floor = result.average if record == "average" else result.worst
    assert 0.3 * ceiling < floor.lower <= ceiling


def test_refitted_statistics():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    law = GaussianNoise(0.4, 2)
    result = audit_release(
        quantiles(rows, [0.5]), law, SubsetGame(30, 15), targets=40, training=40, workers=1
    )
    assert result.average.estimate > 0
    assert result.fits == 40 + 40 + 40 + 32 * math.ceil(1000 / 32)
    assert set(result.to_dict()) >= {"average_advantage", "record_advantage", "record"}


def test_bad_input():
    game = SubsetGame(20, 10)
    with pytest.raises(InputError, match="noise must be normal"):
        audit_release(Ignores(), NormExponentialNoise([1.0, 1.0], 1.0), game)
    with pytest.raises(InputError, match="targets"):
        audit_release(Ignores(), GaussianNoise(1.0, 2), game, targets=2)
    with pytest.raises(InputError, match="at most"):
        audit_release(Ignores(), GaussianNoise(1.0, 2), SubsetGame(7000, 3500), training=2)
