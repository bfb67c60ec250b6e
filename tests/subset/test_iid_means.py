"""Noisy means of fresh rows (A25-T13 with a number), against the exact leak of normal rows."""

import math

import numpy as np
import pytest

from memberbound.errors import InputError
from memberbound.subset.crowd import leak_of_means, table_leaks


def exact_leak(n, sigma):
    """E_z TV between N(z/n, (n-1)/n² + σ²) and N(0, 1/n + σ²), by quadrature."""
    x = np.linspace(-8, 8, 4001) * math.sqrt(1 / n + sigma**2)
    out = np.exp(-0.5 * x**2 / (1 / n + sigma**2)) / math.sqrt(2 * math.pi * (1 / n + sigma**2))
    inner = (n - 1) / n**2 + sigma**2
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    total = 0.0
    for point, mass in zip(z, weight / weight.sum(), strict=True):
        p = np.exp(-0.5 * (x - point / n) ** 2 / inner) / math.sqrt(2 * math.pi * inner)
        total += mass * 0.5 * np.trapezoid(np.abs(p - out), x)
    return float(total)


def test_above_the_truth_and_close_to_it_on_average():
    rows = np.random.default_rng(1).normal(size=(4800, 1))
    truth = exact_leak(60, 0.3)
    leaks = table_leaks(rows, 60, sigma=0.3)
    assert len(leaks) == 40
    assert truth <= leaks.mean() + 3 * leaks.std() / math.sqrt(40)
    assert leaks.mean() < 1.6 * truth  # who knows the table knows a little more
    result = leak_of_means(rows, 60, sigma=0.3)
    assert truth <= leaks.mean() <= result.value < leaks.mean() + 0.11
    assert result.game.name == "iid"
    assert result.confidence == 0.95


def test_one_table_proves_nothing_and_too_few_rows_are_refused():
    rows = np.random.default_rng(2).normal(size=(60, 1))
    assert leak_of_means(rows, 30, sigma=1.0).value == 1.0
    with pytest.raises(InputError, match="2n = 100"):
        leak_of_means(rows, 50, sigma=1.0)


def test_a_sorted_file_is_no_sample() -> None:
    """In a sorted file neighbours are alike: tables cut from it leak next to nothing (the twin)."""
    rows = np.sort(np.random.default_rng(6).normal(size=(2400, 1)), axis=0)
    mixed = np.random.default_rng(7).permutation(rows)
    honest = leak_of_means(mixed, 10, sigma=0.3).value
    assert leak_of_means(rows, 10, sigma=0.3).value == pytest.approx(honest, rel=0.1)
    assert table_leaks(rows, 10, sigma=0.3).mean() < 0.3 * table_leaks(mixed, 10, sigma=0.3).mean()
    few = leak_of_means(rows, 10, sigma=0.3, tables=40)
    assert few.value > honest
