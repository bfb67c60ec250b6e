"""A promise depends on the prior k/N: the gain of an attacker who is always right is vacuous."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from memberbound.certificate import Certificate
from memberbound.errors import InputError
from memberbound.games import SubsetGame
from memberbound.quantities import marked, vacuous
from memberbound.release.half.fitting import FreshSubsets
from memberbound.release.half.half_estimator import HalfPrivate
from memberbound.release.half.refitting import METHODS, calibrate
from memberbound.release.half.statistics import callable_statistic
from memberbound.release.half.sums import mean
from memberbound.verbs.protect_half import protect_half
from oracle.released_statistic import gains, outputs_of

#: All records differ: the mean without noise exposes every one of them.
VALUES = np.array([0.0, 1.0, 2.1, 4.3, 8.7, 16.9, 33.1, 65.2])
FEW = [(8, 1), (8, 2), (8, 7)]


@pytest.mark.parametrize(("population", "size"), FEW)
def test_the_bare_statistic_meets_the_refused_eta(population, size):
    """Why: the best attacker on it is always right, and gains min(k/N, 1 - k/N)."""
    each = gains(outputs_of(mean(VALUES, size=size), population, size), population, size, 0.0)
    assert each == pytest.approx(min(size, population - size) / population)
    assert SubsetGame(population, size).largest_gain == pytest.approx(each.max())


@pytest.mark.parametrize("record", ["average", "every"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("population", "size"), FEW)
def test_an_eta_that_holds_by_the_prior_alone_is_refused(population, size, method, record):
    game = SubsetGame(population, size, record)
    statistics = [mean(VALUES, size=size), callable_statistic(VALUES, np.median)]
    for statistic in statistics[: 1 if method == "crowd" else 2]:
        for eta in (game.largest_gain, game.largest_gain + 0.01, 0.49):
            with pytest.raises(InputError, match="eta must be below"):
                calibrate(statistic, FreshSubsets(game), eta=eta, method=method)


@pytest.mark.parametrize("method", ["neighbour", "moment", "crowd"])
@pytest.mark.parametrize(("population", "size"), FEW)
def test_just_below_it_noise_is_added_and_holds(population, size, method):
    game, statistic = SubsetGame(population, size), mean(VALUES, size=size)
    eta = 0.9 * game.largest_gain
    fresh = FreshSubsets(game, 1)
    result = calibrate(statistic, fresh, eta=eta, method=method, confidence=0.999)
    assert result.noise_scale > 0
    outputs = outputs_of(statistic, population, size)
    assert gains(outputs, population, size, result.noise.scale).max() <= result.certificate.value
    assert result.certificate.value <= eta
    # Negative control: the bare statistic does not keep it.
    assert gains(outputs, population, size, 0.0).max() > eta


def test_refusals_of_protect_and_the_estimator():
    table = pd.DataFrame({"x": np.linspace(0, 9, 24)})
    with pytest.raises(InputError, match="2 of 24"):
        protect_half(table, statistic="mean", size=2, eta=0.09, insecure_seed=1)
    kept = protect_half(table, statistic="mean", size=2, eta=0.07, insecure_seed=1)
    assert kept.noise_scale > 0
    rows = np.arange(100.0)[:, None]
    model = HalfPrivate(Ridge(), record="average", eta=0.05, pairs=20, insecure_seed=1)
    with pytest.raises(InputError, match="4 of 100"):
        model.fit(rows, rows[:, 0], train=rows[:, 0] < 4)


def test_a_few_swaps_that_change_a_sum_need_no_noise():
    """Two values: half of the swaps change the count, so no attacker gains more than a quarter."""
    values = np.repeat([0.0, 1.0], 6)
    result = calibrate(mean(values), FreshSubsets(SubsetGame(12, 6)), eta=0.3)
    assert result.noise_scale == 0
    assert isinstance(result.details["note"], str)
    assert result.certificate.value > 0
    each = gains(outputs_of(mean(values), 12, 6), 12, 6, 0.0)
    assert each.max() <= result.certificate.value < 0.3


def test_the_vacuous_gain_depends_on_the_prior():
    few = SubsetGame(100, 4)
    assert vacuous(0.04, "eta", largest_gain=few.largest_gain)
    assert not vacuous(0.04, "eta")
    assert not vacuous(0.03, "eta", largest_gain=few.largest_gain)
    assert marked(0.04, "certificate", "eta", 6, largest_gain=few.largest_gain).kind == "unproved"
    for game, empty in ((few, True), (SubsetGame(100, 50), False)):
        bounds = Certificate(
            "eta", 0.04, "upper", game, ("X1",), ("The set is uniform.",)
        ).summary()
        assert ("no guarantee" in bounds) == empty
