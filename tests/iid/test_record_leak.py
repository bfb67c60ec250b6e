"""Record leakage: the cap against exact values, simultaneous lower bounds, what a table proves."""

from fractions import Fraction
from math import factorial, floor

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memberbound.errors import InputError
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import (
    cell_probability_lower,
    record_leak_upper,
    record_leaks,
)
from oracle import iid
from oracle.claims import assert_bound


def test_cap_is_above_every_exact_leak():
    """½E|B/(np) - 1| by summing over B ~ Bin(n, p); the smooth form fails between integers."""
    assert_bound(
        lambda n, p: Fraction(float(record_leak_upper(float(n * p)))),
        (
            ((n, p), iid.mean_deviation(n, p) / (2 * p) * (1 - Fraction(1, 10**13)))
            for n in (1, 2, 3, 5, 10, 30)
            for p in (Fraction(numerator, 20) for numerator in range(1, 20))
        ),
        broken={"1/√(2πλ)": lambda n, p: Fraction(1 / np.sqrt(2 * np.pi * float(n * p)))},
    )
    n, p = 10, Fraction(1, 20)
    assert 1 / np.sqrt(2 * np.pi * float(n * p)) < iid.mean_deviation(n, p) / (2 * p)


@given(st.floats(1e-6, 1e7))
def test_cap_against_fifty_digits(lam):
    with mpmath.workdps(50):
        m = floor(lam)
        truth = mpmath.exp(-mpmath.mpf(lam)) * mpmath.mpf(lam) ** m / mpmath.factorial(m)
        value = float(record_leak_upper(lam))
        assert value >= truth
        assert value <= truth * (1 + mpmath.mpf(10) ** -5)


def test_cap_falls_and_obeys_the_rule_of_thumb():
    grid = np.linspace(0, 300, 30_001)
    caps = record_leak_upper(grid)
    assert np.all(np.diff(caps) <= 1e-9)
    whole = np.arange(1, 301)
    assert np.all(record_leak_upper(whole.astype(float)) < 0.4 / np.sqrt(whole))
    assert float(record_leak_upper(1.0)) == pytest.approx(1 / np.e, rel=1e-9)
    assert float(record_leak_upper(3.0)) == pytest.approx(np.exp(-3) * 27 / factorial(3), rel=1e-9)


@pytest.mark.parametrize(("rows", "count"), [(10, 2), (100, 5), (1000, 30), (50_000, 700)])
def test_lower_bound_satisfies_its_inequality(rows, count):
    from memberbound.iid.record_leak import _ladder

    steps = _ladder(rows)
    p = cell_probability_lower(rows, count, 0.95)
    step = int(steps[steps <= count].max())
    with mpmath.workdps(40):
        tail = mpmath.betainc(step, rows - step + 1, 0, p, regularized=True)
        assert tail <= mpmath.mpf("0.05") / len(steps) * p
    assert p <= (step - 1) / rows


def test_lower_bound_edges():
    assert cell_probability_lower(100, 1) == 0.0
    assert cell_probability_lower(100, 0) == 0.0
    assert cell_probability_lower(1, 1) == 0.0
    assert 0 < cell_probability_lower(100, 100) < 1
    assert cell_probability_lower(1000, 500, 0.5) > cell_probability_lower(1000, 500, 0.999)
    with pytest.raises(InputError):
        cell_probability_lower(100, 5, 1.0)


def laws():
    zipf = 1 / np.arange(1, 401)
    return {
        "uniform": np.full(50, 1 / 50),
        "zipf": zipf / zipf.sum(),
        "coin": np.array([0.99, 0.01]),
        "many": np.full(5000, 1 / 5000),
    }


def failures(lower, draws: int, rows: int) -> dict[str, int]:
    """Return how often some cell's probability is below its bound."""
    rng = np.random.default_rng(20261115)
    counted = {}
    for name, p in laws().items():
        samples = rng.multinomial(rows, p, size=draws)
        table = np.array([lower(rows, c) for c in range(int(samples.max()) + 1)])
        counted[name] = int(np.any(p[None, :] < table[samples], axis=1).sum())
    return counted


def test_simultaneous_coverage():
    # 95 % bounds, 300 draws per law: more than 33 failures has probability below 1e-4 at β = 0.05.
    assert max(failures(cell_probability_lower, 300, 400).values()) <= 33


def test_bounds_without_the_price_for_all_cells_fail():
    from scipy.stats import beta

    def naive(rows, count):
        return float(beta.ppf(0.05, count, rows - count + 1)) if count else 0.0

    assert max(failures(naive, 300, 400).values()) > 250


def test_table_summary():
    leaks = record_leaks(CountProfile.from_counts([900, 90, *([1] * 10)]))
    assert leaks.max == 1.0
    assert leaks.exposed_rows() == 10
    assert leaks.median < 0.05
    assert leaks.quantile(0.99) <= leaks.max
    assert np.all(np.diff(leaks.leak) <= 0)
    fewer = record_leaks(leaks.profile, n=100)
    assert np.all(fewer.leak >= leaks.leak)


@pytest.mark.parametrize("bad", [[], [0], [-1, 2], [1.5]])
def test_bad_profiles(bad):
    with pytest.raises(InputError):
        CountProfile.from_counts(bad)
