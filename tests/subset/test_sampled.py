"""The sampled certificate of the exponential mechanism against all subsets in rationals.

Losses are whole numbers and the rate is ln 2, so every weight is a power of two and the oracle
(``oracle.subset``) is exact.
"""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.numerics.rounding import shared_confidence
from memberbound.subset import exponential_setting, sampling
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.exponential_setting import ExponentialSetting
from memberbound.subset.sampling import bounds_from_swaps, sampled_bounds, swap_means
from oracle import exponential, finite, subset

RECORDS = 8


@cache
def instance(size, seed=0, spread=3):
    """Losses, the mechanism, and the exact laws of every record as lists of rationals."""
    losses = np.random.default_rng(seed).integers(0, spread, size=(RECORDS, 3))
    table = subset.tabulate(exponential.halving(losses), RECORDS, size)
    laws = [subset.world_laws(table, RECORDS, size, x) for x in range(RECORDS)]
    return exponential.halving_mechanism(losses, size), laws


@cache
def exact_epsilon(size, delta):
    """Per record, the least ε with both hockey-sticks at most δ, from the exact laws."""
    laws = instance(size)[1]
    result = []
    for up, down in laws:
        if delta == 0:
            result.append(math.log(finite.max_ratio(up, down)))
            continue
        low, high = 0.0, 50.0
        for _ in range(60):
            middle = (low + high) / 2
            small = finite.delta(up, down, Fraction(math.exp(middle))) <= Fraction(delta)
            low, high = (low, middle) if small else (middle, high)
        result.append(low)
    return np.array(result)


@cache
def exact_success(size):
    laws = instance(size)[1]
    prior = subset.prior(RECORDS, size)
    return np.array([float(finite.best_accuracy(*pair, prior)) for pair in laws])


@cache
def swaps(size, draws, seed=0):
    """Draws of one run, the same for every δ."""
    return swap_means(instance(size)[0], draws, seed=seed)


def too_low(bounds, size, delta):
    return bool(
        (bounds.pmp_epsilon < exact_epsilon(size, delta) - 1e-9).any()
        or (bounds.success < exact_success(size) - 1e-9).any()
    )


# ---- the sampler ------------------------------------------------------------------------------


def strays(size, sign=1):
    """Return records and outcomes with a mean swap 6 standard errors from in minus out."""
    _, laws = instance(size)
    means = swaps(size, 40_000, 1)
    truth = np.array([[float(up[w] - down[w]) for w in means.order] for up, down in laws])
    spread = np.sqrt(means.square / means.draws)
    return int((np.abs(sign * means.difference - truth) > 6 * spread + 1e-12).sum())


@pytest.mark.parametrize("size", [4, 3, 6, 1, 7])
def test_swaps_estimate_in_minus_out(size):
    # Claim 1: mixing both kinds of swaps is right for every k.
    # 15 tests × 8 records at 6 standard errors: below 1e-6.
    assert strays(size) == 0


def test_swaps_taken_the_wrong_way_round_are_noticed():
    assert strays(3, sign=-1) > 0


# ---- the certificate --------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "delta"), [(4, 0.0), (4, 0.05), (3, 0.0), (6, 0.05)])
@pytest.mark.parametrize("draws", [30, 2000])
def test_coverage(size, delta, draws):
    # At 80 %, more than 18 bad runs of 30 would have probability below 1e-6.
    mechanism, _ = instance(size)
    bad = 0
    for seed in range(30):
        means = swaps(size, draws, seed)
        result = bounds_from_swaps(mechanism, means, delta=delta, confidence=0.8)
        bad += too_low(result, size, delta)
    assert bad <= 18


def test_normal_quantiles_without_union_are_caught(monkeypatch):
    # The same 80 % by a normal quantile for every statement: most runs are too low somewhere.
    def normal(mean, square, count, largest, level):
        spread = np.sqrt(np.maximum(square - np.square(mean), 0) / count)
        return np.minimum(mean + 0.84 * spread, largest)

    def lower(mean, square, count, level):
        return np.maximum(mean - 0.84 * np.sqrt(np.maximum(square - mean**2, 0) / count), 0)

    monkeypatch.setattr(sampling, "moment_upper", normal)
    monkeypatch.setattr(sampling, "moment_lower", lower)
    mechanism, _ = instance(4)
    bad = 0
    for seed in range(60):
        means = swaps(4, 30, seed)
        result = bounds_from_swaps(mechanism, means, delta=0.0, confidence=0.8)
        bad += too_low(result, 4, 0.0)
    assert bad > 30


@pytest.mark.parametrize("size", [4, 3, 6])
@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_many_subsets_come_close_to_the_exact_value(size, delta):
    mechanism, _ = instance(size)
    result = bounds_from_swaps(mechanism, swaps(size, 200_000), delta=delta, confidence=0.95)
    exact = exact_epsilon(size, delta)
    assert (result.pmp_epsilon >= exact - 1e-9).all()
    assert result.pmp_epsilon_upper <= exact.max() * 1.1
    assert (result.success >= exact_success(size) - 1e-9).all()
    assert (result.success <= exact_success(size) + 0.02).all()


def test_caps_hold_without_sampling():
    mechanism, laws = instance(4)
    caps_in, caps_out = sampling._caps(mechanism.scores, np.arange(3))
    for record, (up, down) in enumerate(laws):
        for w in range(3):
            ratio = math.log(up[w] / down[w])
            assert -caps_out[record, w] - 1e-12 <= ratio <= caps_in[record, w] + 1e-12
    assert caps_in.max() <= mechanism.epsilon_population * (1 + 1e-12)


# ---- extremes ---------------------------------------------------------------------------------


def test_equal_losses_leak_nothing():
    mechanism = ExponentialMechanism(np.tile([0.0, 3.0, 1.0], (6, 1)), 3, 5.0, 1.0)
    for delta in (0.0, 0.1):
        result = sampled_bounds(mechanism, subsets=100, delta=delta)
        assert result.pmp_epsilon.tolist() == [0.0] * 6
        assert result.success.tolist() == [0.5] * 6
        assert result.eta_upper == 0.0


@pytest.mark.parametrize("epsilon", [50.0, 1e4])
def test_huge_epsilon(epsilon):
    losses = np.random.default_rng(0).random((20, 4))
    mechanism = ExponentialMechanism(losses, 10, epsilon, 0.1)
    for delta in (0.0, 1e-3, 0.5):
        result = sampled_bounds(mechanism, delta=delta, subsets=200)
        assert np.isfinite(result.pmp_epsilon).all()
        assert result.pmp_epsilon_upper <= mechanism.epsilon_population
        assert (result.success <= 1).all()


def test_an_outcome_that_hardly_ever_happens():
    # P(second) is about 1e-300 for every subset: at δ = 0 it keeps its cap, with δ > 0 it is paid.
    losses = np.zeros((10, 2))
    losses[:, 1] = 140.0
    losses[0, 1] = 138.0
    mechanism = ExponentialMechanism(losses, 5, 10.0, 1.0)
    result = sampled_bounds(mechanism, subsets=2000)
    assert result.pmp_epsilon_upper == pytest.approx(2.0, rel=1e-9)
    paid = sampled_bounds(mechanism, subsets=2000, delta=0.02)
    assert paid.pmp_epsilon.tolist() == [0.0] * 10
    assert (result.success < 0.51).all()


def test_same_seed_same_answer_and_progress():
    mechanism, _ = instance(4)
    seen = []
    first = sampled_bounds(
        mechanism, subsets=3000, seed=5, progress=lambda done, total: seen.append((done, total))
    )
    again = sampled_bounds(mechanism, subsets=3000, seed=5)
    assert first.pmp_epsilon.tolist() == again.pmp_epsilon.tolist()
    assert seen[-1] == (3000, 3000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"confidence": 1.0},
        {"delta": 1.0},
        {"subsets": 0},
        {"seed": -1},
    ],
)
def test_bad_input(wrong):
    mechanism, _ = instance(4)
    with pytest.raises(InputError):
        sampled_bounds(mechanism, **{"subsets": 10, **wrong})


def test_a_target_and_the_bounds_at_it_share_the_error_and_have_subsets_of_their_own(monkeypatch):
    asked = []

    def remember(mechanism, **how):
        asked.append((how["confidence"], how["seed"]))
        return sampled_bounds(mechanism, **how)

    monkeypatch.setattr(exponential_setting, "sampled_bounds", remember)
    losses = np.random.default_rng(3).integers(0, 3, size=(40, 3))
    setting = ExponentialSetting(
        exponential.halving_mechanism(losses, 20), 0.0, 0.9, subsets=200, seed=5
    )
    _, bounds = setting.for_target("target_pmp", 0.2)
    assert bounds.confidence == 0.9
    assert bounds.pmp_epsilon_upper <= 0.2
    assert {sure for sure, _ in asked} == {shared_confidence(0.9, 2)}
    *choosing, last = [seed for _, seed in asked]
    assert choosing
    assert last not in choosing  # the subsets that chose ε cannot be used to certify it
