"""X19: eta of every record is at most E T(q(D) - m), for any centre, learner, size and noise.

Truth: mixtures over all subsets, normal and Laplace noise.
"""

import math
from itertools import product

import numpy as np
import pytest

from memberbound.games import SubsetGame
from oracle.claims import assert_bound
from oracle.released_statistic import (
    Column,
    calibrated,
    gains,
    laplace_cdf,
    normal_cdf,
    outputs_of,
    statistics,
)

GAMES = [(2, 1), (6, 3), (8, 4), (6, 2), (7, 5)]
LAWS = [
    (normal_cdf, lambda a: np.vectorize(math.erf)(np.abs(a) / math.sqrt(8))),
    (laplace_cdf, lambda a: 1 - np.exp(-np.abs(a) / 2)),
]


def centre_gain(outputs, centre, scale, distance):
    return float(np.mean(distance((outputs - centre) / scale)))


def attack():
    """((outputs, centre, scale, distance), the best gain on any record) for every centre."""
    for (size, k), (cdf, distance), scale in product(GAMES, LAWS, (0.05, 1.0)):
        for _, statistic in statistics(size):
            outputs = outputs_of(statistic, size, k)
            truth = gains(outputs, size, k, scale, cdf).max()
            for centre in (outputs.mean(), np.median(outputs), outputs[0], outputs.max() + 1):
                yield (outputs, centre, scale, distance), truth


def test_bound_holds_for_every_record_and_centre():
    assert_bound(
        centre_gain,
        attack(),
        broken={"the factor of k = N/2 applied twice": lambda *case: centre_gain(*case) / 2},
    )


def test_bound_is_reached_by_two_records():
    outputs = np.array([1.0, -1.0])
    # TOLERANCE: noise of a tenth of the distance leaves less than 1e-6.
    assert centre_gain(outputs, 1.0, 0.1, LAWS[0][1]) - gains(outputs, 2, 1, 0.1).max() < 1e-6


@pytest.mark.parametrize("eta", [0.1, pytest.param(0.02, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("size", "k"),
    [(5, 3), *(pytest.param(*game, marks=pytest.mark.long) for game in [(6, 3), (7, 5)])],
)
def test_calibrated_noise_keeps_the_promise(size, k, eta):
    for name, statistic in statistics(size):
        outputs = outputs_of(statistic, size, k)
        result = calibrated(statistic, SubsetGame(size, k), "moment", eta)
        scale = result.details["scale"]
        assert result.record == "every"
        assert gains(outputs, size, k, scale).max() <= result.certificate.value <= eta, name


def test_cauchy_tails_are_certified_although_no_moment_exists():
    rng = np.random.default_rng(4)
    statistic = Column(rng.standard_cauchy(40) ** 3, np.mean)
    result = calibrated(statistic, SubsetGame(40, 20), "moment", 0.1)
    assert result.certificate.value <= 0.1
    assert math.isfinite(result.noise_scale)
