"""The rivals in benchmarks/rivals.py keep the promises that the benchmark gives them.

A rival that adds too little noise would make ours look bad, one that adds too much would make it
look good: so both sides are checked.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import norm

SOURCE = Path(__file__).resolve().parents[2] / "benchmarks" / "rivals.py"


def _rivals() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_rivals", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


rivals = _rivals()


def _budget_used(law, covariance: np.ndarray) -> float:
    spread = np.linalg.solve(law.covariance, covariance)
    return 0.5 * np.linalg.slogdet(np.eye(len(covariance)) + spread)[1]


@pytest.mark.parametrize("eta", [0.01, 0.05, 0.1, 0.4])
def test_information_is_fanos_and_above_pinskers(eta: float) -> None:
    right = 0.5 + eta
    entropy = -right * math.log(right) - (1 - right) * math.log(1 - right)
    assert rivals.information_of(eta) == pytest.approx(math.log(2) - entropy, rel=1e-9)
    assert rivals.information_of(eta) >= 2 * eta**2


@pytest.mark.parametrize("budget", [0.005, 0.3, 20.0])
def test_pac_noise_spends_its_budget_and_no_isotropic_noise_is_cheaper(budget: float) -> None:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(4, 4)) * [5.0, 1.0, 0.3, 0.1]
    covariance = mixing @ mixing.T
    law = rivals.pac_noise(covariance, budget)
    assert law.rms == pytest.approx(math.sqrt(np.trace(law.covariance)))
    assert _budget_used(law, covariance) == pytest.approx(budget, rel=1e-6)

    def spent(variance: float) -> float:
        return 0.5 * np.linalg.slogdet(np.eye(4) + covariance / variance)[1]

    # Round noise of the same total variance spends more.
    assert spent(law.rms**2 / 4) >= budget * (1 - 1e-9)


def test_pac_has_no_noise_for_no_budget() -> None:
    assert rivals.pac_noise(np.eye(2), -1.0) is None


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_both_pac_bounds_cover_the_exact_attack_on_a_sum(scale: float) -> None:
    """Eight records, all halves, by numerical integration over the released value."""
    values = np.array([0.0, 0.1, 0.3, 0.4, 0.6, 0.9, 1.3, 3.0])
    halves = np.array(list(combinations(range(8), 4)))
    outputs = values[halves].sum(axis=1)
    sigma = scale * outputs.std()
    grid = np.linspace(outputs.min() - 9 * sigma, outputs.max() + 9 * sigma, 4001)
    step = grid[1] - grid[0]
    density = norm.pdf(grid[:, None], outputs, sigma)
    everywhere = density.mean(axis=1)

    def divergence(law: np.ndarray) -> float:
        return float((law * np.log(law / everywhere)).sum() * step)

    known = float(np.mean([divergence(law) for law in density.T]))
    gains, bits = [], []
    for record in range(8):
        inside = (halves == record).any(axis=1)
        worlds = density[:, inside].mean(axis=1), density[:, ~inside].mean(axis=1)
        gains.append(0.25 * float(np.abs(worlds[0] - worlds[1]).sum()) * step)
        bits.append((divergence(worlds[0]) + divergence(worlds[1])) / 2)
    spent = 0.5 * math.log1p(outputs.var() / sigma**2)
    assert known <= spent
    assert rivals.information_of(max(gains)) <= spent
    assert sum(bits) <= known + rivals.total_correlation(8)
    shared = (spent + rivals.total_correlation(8)) / 8
    assert rivals.information_of(float(np.mean(gains))) <= shared
    if scale == 3.0:  # so the total correlation may not be left out
        assert sum(bits) > known


def test_total_correlation_counts_the_halves() -> None:
    assert rivals.total_correlation(8) == pytest.approx(8 * math.log(2) - math.log(70), rel=1e-9)


@pytest.mark.parametrize("eta", [0.05, 0.1])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_epsilon_is_that_of_theorem_4(eta: float, delta: float) -> None:
    epsilon = rivals.epsilon_of(eta, delta)
    assert delta + (1 - delta) / (1 + math.exp(-epsilon)) - 0.5 == pytest.approx(eta, abs=1e-12)


def test_dp_noise_at_the_sensitivity() -> None:
    for eta in (0.05, 0.1):
        tight = rivals.dp_noise("tv", eta, 2.0, 3)
        assert 2 * norm.cdf(1.0 / tight.scale) - 1 == pytest.approx(2 * eta, rel=1e-6)
        # Pure DP: the density ratio of two shifted copies is at most e^ε; here exactly that.
        pure = rivals.dp_noise("pure", eta, 2.0, 3)
        assert 2.0 / pure.scale == pytest.approx(rivals.epsilon_of(eta))
        assert tight.rms < rivals.dp_noise("gaussian", eta, 2.0, 3).rms
    with pytest.raises(ValueError, match="other"):
        rivals.dp_noise("other", 0.1, 1.0, 1)
