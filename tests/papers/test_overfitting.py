"""Ceilings from losses: coverage, null models, twins without a charge; A25-P19 by quadrature."""

import math

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.papers import aubinais2024, aubinais2025
from memberbound.papers.aubinais2025 import OverfittingMonitor, ceiling_of_losses, ceiling_of_runs


def without_charge(training, fresh, gamma=1.0):
    """The twin: the observed shares at the threshold that makes them smallest."""
    return ceiling_of_losses(training, fresh, gamma).estimate


@pytest.mark.parametrize("gamma", [0.5, 1.0, 4.0])
def test_a_model_that_ignores_its_data_is_never_accused(gamma):
    """Both kinds of losses from one law: 5 % errors allowed, 20 of 400 runs; alarm above 40."""
    rng = np.random.default_rng(1)
    wrong = twins = 0
    for _ in range(400):
        training, fresh = rng.exponential(size=60), rng.exponential(size=200)
        wrong += ceiling_of_losses(training, fresh, gamma).upper < 1
        twins += without_charge(training, fresh, gamma) < 0.999
    assert wrong <= 40
    assert twins > 90


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_the_ceiling_of_one_run_holds(gamma):
    """Truth: the least max(1, 1/γ)(a + γq) over thresholds, q from the law of fresh losses."""
    rng, wrong, twins = np.random.default_rng(2), 0, 0
    for _ in range(300):
        scale = rng.choice([0.001, 0.05, 0.5])
        training = np.sort(rng.exponential(scale, 80))
        above = 1 - np.arange(1, 81) / 80
        truth = max(1, 1 / gamma) * (above + gamma * -np.expm1(-training)).min()
        found = ceiling_of_losses(training, rng.exponential(1.0, 100), gamma)
        wrong += found.upper < min(1.0, truth)
        twins += found.estimate < min(1.0, truth)
        assert found.upper >= found.estimate or found.upper == 1.0
    assert wrong <= 15
    assert twins > 60


def test_the_ceiling_of_a_model_that_memorises_is_small():
    rng = np.random.default_rng(3)
    fresh = rng.exponential(1.0, 20_000)
    found = ceiling_of_losses(np.zeros(5000), fresh)
    assert found.estimate == 0.0
    assert found.upper < 0.003
    # q alone has to be paid for where all training losses are 0: γ multiplies it.
    dear = ceiling_of_losses(np.full(5000, 0.01), fresh, gamma=10.0)
    assert 0.09 < dear.estimate < 0.11 < dear.upper
    with pytest.raises(InputError, match="fresh"):
        ceiling_of_losses([0.0], [])


def test_all_looks_of_a_monitor_hold_together():
    """Errors β/(k(k+1)) add up to β: a null model is watched 30 times, 200 times over."""
    rng, wrong, twins = np.random.default_rng(4), 0, 0
    for _ in range(200):
        training, fresh = rng.exponential(size=50), rng.exponential(size=100)
        monitor, stopped, plain = OverfittingMonitor(stop_at=0.999), False, False
        for look in range(6):
            drift = rng.normal(0, 0.01, 1)
            losses = np.abs(training + drift + rng.normal(0, 0.3, 50))
            others = np.abs(fresh + drift + rng.normal(0, 0.3, 100))
            stopped |= monitor.look(losses, others)
            plain |= without_charge(losses, others) < 0.999
            level = 1 - 0.05 / ((look + 1) * (look + 2))
            assert monitor.ceiling.confidence == pytest.approx(level, rel=1e-12)
        wrong += stopped
        twins += plain
    assert wrong <= 20
    assert twins > 150
    assert sum(1 - look.confidence for look in monitor.looks) < 0.05
    with pytest.raises(InputError, match="look"):
        OverfittingMonitor(0.5).ceiling  # noqa: B018


def test_several_runs_bound_the_security_of_a_learner():
    """A learner that memorises in half of its runs has MIS ½; one run shows 0 or about 1."""
    rng = np.random.default_rng(5)

    def runs(count):
        for _ in range(count):
            fresh = rng.uniform(1, 2, 20)
            yield (np.zeros(20) if rng.random() < 0.5 else rng.uniform(1, 2, 20)), fresh

    bounds = [ceiling_of_runs(list(runs(60)), 0.5) for _ in range(200)]
    assert np.mean(np.array(bounds) < 0.5) <= 0.1
    assert np.median(bounds) < 0.7
    # The twin takes the mean of the runs without an interval.
    plain = [np.mean([np.mean(own > 0.5) for own, _ in runs(60)]) for _ in range(200)]
    assert np.mean(np.array(plain) < 0.5) > 0.3
    # At γ ≠ 1 the range of a run's value changes with it.
    assert ceiling_of_runs([(np.zeros(5), np.full(5, 1.0))] * 200, 0.5, gamma=0.25) < 0.2


def test_overfitting_share_and_leak():
    losses = [0.0, 0.0, 1.0, 2.0]
    assert aubinais2025.share_above(losses, [0.0, 1.0, 2.0]).tolist() == [0.5, 0.25, 0.0]
    leak = aubinais2024.leak_from_overfitting(0.25, 0.125)
    assert leak <= 0.625 == pytest.approx(leak, rel=1e-12)
    assert aubinais2024.leak_from_overfitting(0.9, 0.3) == 0.0


@pytest.mark.parametrize(("s", "n"), [(100, 2), (1000, 3), (10**4, 10), (10**5, 20)])
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_sphere_ceiling_by_quadrature(s, n, gamma):
    """Truth: the density of the cosine of two directions, integrated to 30 digits."""
    import mpmath

    cosine = ((s + 1) / (3 * n) - 1) / s
    with mpmath.workdps(30):
        half = mpmath.mpf(s) / 2
        weight = mpmath.gamma(half) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(half - 0.5))
        steps = [min(1, cosine + k * 0.75 / mpmath.sqrt(s)) for k in range(41)]
        tail = 2 * weight * mpmath.quad(lambda c: (1 - c * c) ** (half - 1.5), steps)
        truth = max(1, 1 / gamma) * float(math.comb(n, 2) * tail)
    found = aubinais2025.sphere_ceiling(s, n, gamma)
    assert min(1.0, truth) * (1 - 1e-12) <= found <= min(1.0, truth * (1 + 1e-7))
    # One-sided cosines, the twin, would be below.
    assert found / 2 < truth
    if n <= (s + 1) / (3 * (math.sqrt(s) * math.log(s) + 1)):
        assert found <= aubinais2025.sphere_ceiling_as_printed(s, gamma)


def test_the_printed_ceiling_is_vacuous_up_to_a_large_dimension():
    printed = aubinais2025.sphere_ceiling_as_printed([162_754, 162_755])
    assert printed[0] == 1.0 > printed[1]
    assert aubinais2025.sphere_ceiling(10, 1) == 0.0
    assert aubinais2025.sphere_ceiling(10, 5) == 1.0
