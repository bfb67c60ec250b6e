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
from memberbound.release.half.least_noise import FreshSubsets
from memberbound.release.half.parameters import FittedParameters, Population
from memberbound.release.half.refitting import calibrate_izzo, calibrate_moment, calibrate_neighbour
from memberbound.release.noise import GaussianNoise, NormExponentialNoise, ScaledNorm
from oracle.bayes_attack import exact_attack, linear_attack, shadow_attack
from oracle.released_statistic import (
    Column,
    gains,
    laplace_cdf,
    normal_cdf,
    outputs_of,
    statistics,
)

SIZE, HALF = 8, 4
DRAWS = 3000
METHODS = {
    "neighbour": calibrate_neighbour,
    "moment": calibrate_moment,
    "izzo": calibrate_izzo,
}


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
        # Every method asks for the same 70 subsets: each is fitted once.
        key = np.asarray(rows).tobytes()
        if key not in self.seen:
            self.seen[key] = self.fitted(rows)
        return self.seen[key].copy()


def everything(statistic, size, k):
    """Outputs of all subsets, and who is in them."""
    subsets = np.array(list(combinations(range(size), k)))
    members = np.zeros((len(subsets), size), dtype=bool)
    members[np.arange(len(subsets))[:, None], subsets] = True
    return np.array([statistic(rows) for rows in subsets]), members


@pytest.fixture(scope="module")
def learner():
    classifier = Logistic(SIZE)
    return classifier, *everything(classifier, SIZE, HALF)


def reached(attacked, record):
    return attacked.average if record == "average" else attacked.worst


CASES = [
    (method, record, eta)
    for method in METHODS
    for record in ("average", "every")
    for eta in (0.03, 0.1, 0.3)
]


@pytest.mark.parametrize(("method", "record", "eta"), CASES)
def test_exact_attack_on_a_classifier_stays_below(method, record, eta, learner):
    risk, outputs, members = learner
    result = METHODS[method](risk, FreshSubsets(SubsetGame(SIZE, HALF), 7), eta=eta, record=record)
    assert result.certificate.confidence == 1.0
    attacked = exact_attack(result.noise, outputs, members, draws=DRAWS, seed=11)
    certified = 0.5 + result.certificate.value
    assert result.certificate.value <= eta
    assert reached(attacked, record).lower <= certified
    # Far enough below to be seen without the benefit of the doubt.
    assert reached(attacked, record).upper <= certified + 0.01


@pytest.mark.parametrize("record", ["average", "every"])
def test_a_tenth_of_the_noise_is_caught(record, learner):
    risk, outputs, members = learner
    result = calibrate_neighbour(risk, FreshSubsets(SubsetGame(SIZE, HALF)), eta=0.1, record=record)
    broken = GaussianNoise(result.noise.scale / 10, risk.dimension)
    attacked = exact_attack(broken, outputs, members, draws=DRAWS, seed=11)
    assert reached(attacked, record).lower > 0.5 + result.certificate.value


@pytest.mark.parametrize(("record", "eta"), [("average", 0.05), ("every", 0.2)])
def test_exact_attack_in_one_dimension_stays_below(record, eta):
    fresh = FreshSubsets(SubsetGame(SIZE, HALF), 2)
    for name, statistic in statistics(SIZE):
        outputs = outputs_of(statistic, SIZE, HALF)
        for method in ("neighbour", "moment", "izzo"):
            result = METHODS[method](statistic, fresh, eta=eta, record=record)
            scale, cdf = getattr(result.noise, "scale", 0.0), normal_cdf
            if method == "izzo":
                scale, cdf = scale * float(result.noise.norm.scales[0]), laplace_cdf
            each = gains(outputs, SIZE, HALF, scale, cdf)
            top = each.mean() if record == "average" else each.max()
            assert top <= result.certificate.value, (name, method)


def test_the_certificate_is_reached_where_one_record_decides():
    """Whether record 0 is in, plus noise: the neighbour form's distance is the attacker's own."""
    statistic = Column(np.eye(SIZE)[0], np.sum)
    result = calibrate_neighbour(
        statistic, FreshSubsets(SubsetGame(SIZE, HALF)), eta=0.1, record="every"
    )
    each = gains(outputs_of(statistic, SIZE, HALF), SIZE, HALF, result.noise.scale)
    # TOLERANCE: the search's step and the cells' width.
    assert each.max() == pytest.approx(result.certificate.value, rel=2e-3)
    # The promise for the average record leaves that one exposed.
    average = calibrate_neighbour(
        statistic, FreshSubsets(SubsetGame(SIZE, HALF)), eta=0.1, record="average"
    )
    each = gains(outputs_of(statistic, SIZE, HALF), SIZE, HALF, average.noise.scale)
    assert each.mean() <= average.certificate.value
    assert each.max() > 3 * average.certificate.value


@pytest.mark.parametrize("method", ["neighbour", "moment"])
def test_sampled_calibration_holds_too(method):
    """Ten records, 252 subsets, few of them seen; confidence 0.999 is the false-alarm rate."""
    risk, eta = Logistic(10), 0.15
    fresh = FreshSubsets(SubsetGame(10, 5), 4)
    budget = {"neighbour": {"pairs": 100}, "moment": {"subsets": 200}}
    record = "every" if method == "moment" else "average"
    result = METHODS[method](
        risk, fresh, eta=eta, record=record, confidence=0.999, exact=False, workers=1,
        **budget[method],
    )  # fmt: skip
    attacked = exact_attack(result.noise, *everything(risk, 10, 5), draws=2000, seed=5)
    assert reached(attacked, record).lower <= 0.5 + result.certificate.value


def test_attack_agrees_with_integration():
    """The simulated attacker is as strong as the integrated one: the oracles check each other."""
    rng = np.random.default_rng(0)
    statistic = Column(rng.normal(size=SIZE), np.mean)
    outputs, members = everything(statistic, SIZE, HALF)
    for law, cdf in (
        (GaussianNoise(0.3, 1), normal_cdf),
        (NormExponentialNoise(ScaledNorm.plain(1), 0.3), laplace_cdf),
    ):
        each = gains(outputs[:, 0], SIZE, HALF, 0.3, cdf)
        attacked = exact_attack(law, outputs, members, draws=20_000, seed=1)
        assert attacked.worst.lower <= 0.5 + each.max() <= attacked.worst.upper
        assert attacked.average.lower <= 0.5 + each.mean() <= attacked.average.upper
        assert attacked.records - 0.5 == pytest.approx(each, abs=0.01)


def test_shadow_attacks_find_what_there_is_to_find():
    """Shadow attacks come near Bayes' attacker and never pass it."""
    rng = np.random.default_rng(1)
    statistic = Column(rng.normal(size=10), np.mean)
    outputs, members = everything(statistic, 10, 5)
    law = GaussianNoise(0.1, 1)
    best = exact_attack(law, outputs, members, draws=20_000, seed=2)
    picked = rng.integers(len(outputs), size=2000)
    shadows = (outputs[picked[:1000]], members[picked[:1000]])
    targets = (outputs[picked[1000:]], members[picked[1000:]])
    mixed = shadow_attack(law, shadows, targets, releases=4, seed=3)
    straight = linear_attack(law, shadows, targets)
    for attacked in (mixed, straight):
        assert attacked.average.lower <= best.average.upper
        assert attacked.worst.lower <= best.worst.upper
        # TOLERANCE: both find at least two thirds of the advantage.
        share = (attacked.average.estimate - 0.5) / (best.average.estimate - 0.5)
        assert share > 0.66
