"""Does it hold?  The best attack stays below the certificate, for every method and several eta.

Truth: Bayes' attacker, who knows the outputs of all subsets and the noise.  One dimension: cell
masses (from below, tight).  More: simulated releases with empirical-Bernstein intervals at an error
of 1e-6 per case.  The controls use a tenth of the noise, or take the average for the worst record.
"""

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from memberbound.games import SubsetGame
from memberbound.release.half.linear_fits import FittedParameters, Population
from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from oracle.bayes_attack import exact_attack
from oracle.released_statistic import Column, calibrated, gains, laplace_cdf, normal_cdf

SIZE, HALF = 8, 4
DRAWS = 3000


class Logistic:
    """A small classifier with an outlier."""

    def __init__(self, size):
        rng = np.random.default_rng(3)
        features = rng.normal(size=(size, 2))
        features[0] *= 4
        target = (features @ [1.0, -0.5] + rng.normal(size=size) > 0).astype(int)
        people = Population(features, target, np.arange(2))
        self.fitted = FittedParameters.of(LogisticRegression(C=1.0), people)
        self.dimension = self.fitted.dimension
        self.seen = {}

    def __call__(self, rows):
        # Every method needs the same 70 subsets, so each is fitted once.
        key = np.asarray(rows).tobytes()
        if key not in self.seen:
            self.seen[key] = self.fitted(rows)
        return self.seen[key].copy()


def everything(statistic, size, k):
    """Outputs of all subsets, and their members."""
    subsets = np.array(list(combinations(range(size), k)))
    members = np.zeros((len(subsets), size), dtype=bool)
    members[np.arange(len(subsets))[:, None], subsets] = True
    return np.array([statistic(rows) for rows in subsets]), members


@pytest.fixture(scope="module")
def learner():
    classifier = Logistic(SIZE)
    return classifier, *everything(classifier, SIZE, HALF)


def gain_of(attacked, record):
    return attacked.average if record == "average" else attacked.worst


@pytest.mark.parametrize("eta", [0.1, pytest.param(0.03, marks=pytest.mark.long)])
@pytest.mark.parametrize("record", ["average", "every"])
@pytest.mark.parametrize("method", ["neighbour", "moment", "izzo"])
def test_exact_attack_on_a_classifier_stays_below(method, record, eta, learner):
    risk, outputs, members = learner
    result = calibrated(risk, SubsetGame(SIZE, HALF, record), method, eta)
    attacked = exact_attack(result.noise, outputs, members, draws=DRAWS, seed=11)
    certified = 0.5 + result.certificate.value
    assert result.certificate.value <= eta
    assert gain_of(attacked, record).lower <= certified
    # Far enough below for a clear failure.
    assert gain_of(attacked, record).upper <= certified + 0.01


@pytest.mark.parametrize("record", ["average", "every"])
def test_a_tenth_of_the_noise_is_caught(record, learner):
    risk, outputs, members = learner
    result = calibrated(risk, SubsetGame(SIZE, HALF, record), "neighbour", 0.1)
    broken = GaussianNoise(result.noise.scale / 10, risk.dimension)
    attacked = exact_attack(broken, outputs, members, draws=DRAWS, seed=11)
    assert gain_of(attacked, record).lower > 0.5 + result.certificate.value


def test_attack_agrees_with_integration():
    """The simulated attacker is as strong as the integrated one: the oracles check each other."""
    rng = np.random.default_rng(0)
    statistic = Column(rng.normal(size=SIZE), np.mean)
    outputs, members = everything(statistic, SIZE, HALF)
    for law, cdf in (
        (GaussianNoise(0.3, 1), normal_cdf),
        (NormExponentialNoise([1.0], 0.3), laplace_cdf),
    ):
        each = gains(outputs[:, 0], SIZE, HALF, 0.3, cdf)
        attacked = exact_attack(law, outputs, members, draws=20_000, seed=1)
        assert attacked.worst.lower <= 0.5 + each.max() <= attacked.worst.upper
        assert attacked.average.lower <= 0.5 + each.mean() <= attacked.average.upper
        assert attacked.records - 0.5 == pytest.approx(each, abs=0.01)
