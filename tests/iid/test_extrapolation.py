"""Certificates for more training rows than the table has (X16)."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from memberbound.iid.certificates import leak_beyond_the_table, smallest_certifiable_leak
from memberbound.iid.profiles import CountProfile
from oracle.large_laws import worst_leak

MEANS = np.concatenate([np.geomspace(1e-6, 0.1, 60), np.linspace(0.1, 60, 400)])
COUNTS = np.arange(0, int(60 + 12 * np.sqrt(60) + 40))


@cache
def poisson_laws() -> np.ndarray:
    """P(Poi(μ) = c), a row for every mean."""
    return stats.poisson.pmf(COUNTS, MEANS[:, None])


def shortfalls(h, ratios=(1.0, 1.7, 10.0, 1e3, 1e6)) -> int:
    """Count the (s, μ) with E h(Poi(μ)) below N·φ_n for the Poisson form of the atom's leak."""
    result = 0
    for s in ratios:
        mean = poisson_laws() @ h(COUNTS, s)
        lam = s * MEANS
        need = np.minimum(
            lam * stats.poisson.pmf(np.floor(lam), lam) / s,  # e^{-λ}λ^{⌊λ⌋+1}/⌊λ⌋!/s
            0.5 * np.sqrt(MEANS / s),
        )
        result += int((mean < need * (1 - 1e-9)).sum())
    return result


def printed_bound(c, s):
    a = 0.5 / np.sqrt(s)
    return (1 - a) * (c >= 1) + a * np.sqrt(c)


def test_poisson_inequality_on_a_grid():
    assert shortfalls(printed_bound) == 0


def test_a_smaller_function_is_caught():
    assert shortfalls(lambda c, s: 0.9 * printed_bound(c, s)) > 0
    assert shortfalls(lambda c, s: 0.5 / np.sqrt(s) * np.sqrt(c)) > 0


def test_coverage_and_negative_control():
    rng = np.random.default_rng(7)
    zipf = 1 / np.arange(1, 301)
    laws = [np.full(40, 1 / 40), zipf / zipf.sum(), np.array([0.7, 0.3]), np.full(3000, 1 / 3000)]
    for p in laws:
        for rows, n in ((300, 300), (300, 3000), (2000, 50_000)):
            truth = worst_leak(p, n)
            counts = rng.multinomial(rows, p, size=200)
            bounds = [leak_beyond_the_table(CountProfile.from_counts(c), n) for c in counts]
            # At β = 0.05 more than 26 of 200 failures has probability below 1e-5.
            assert np.sum(np.array(bounds) < truth) <= 26
    # Negative control: the plug-in law is far too small when rows are mostly distinct.
    p = np.full(3000, 1 / 3000)
    plug = [worst_leak(c[c > 0] / 300, 3000) for c in rng.multinomial(300, p, size=50)]
    assert np.mean(np.array(plug) < worst_leak(p, 3000)) == 1.0


def test_falls_with_n_towards_its_limit():
    profile = CountProfile.from_counts([50] * 10 + [3] * 5)
    values = [leak_beyond_the_table(profile, n) for n in (515, 1000, 10**4, 10**6, 10**12)]
    assert all(a >= b for a, b in pairwise(values))
    assert values[-1] == pytest.approx(smallest_certifiable_leak(profile), rel=1e-3)
