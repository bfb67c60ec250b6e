"""Two samples: Jensen in rationals, all splits against enumeration, coverage."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from memberbound.errors import InputError
from memberbound.iid.profiles import (
    CountProfile,
    JointProfile,
    _split_terms,
    split_leak_upper,
    two_sample_leak_upper,
)
from oracle import iid
from oracle.large_laws import worst_leak


def distance(a: list[int], b: list[int]) -> Fraction:
    n, m = sum(a), sum(b)
    return sum((abs(Fraction(x, n) - Fraction(y, m)) for x, y in zip(a, b, strict=True))) / 2


@pytest.mark.parametrize(
    "p", [[Fraction(1, 2)] * 2, [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]]
)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (4, 2)])
def test_mean_distance_is_at_least_the_leak(p, n, m):
    mean = sum(
        u * v * distance(a, b)
        for a, u in iid.multinomial(p, n).items()
        for b, v in iid.multinomial(p, m).items()
    )
    assert mean >= iid.worst_leak(p, n)
    assert mean >= iid.worst_leak(p, m)


def test_split_terms_against_all_subsets():
    counts = [5, 3, 1, 1]
    rows = [cell for cell, c in enumerate(counts) for _ in range(c)]
    for n in range(1, 10):
        chosen = [np.bincount(x, minlength=4) for x in combinations(rows, n)]
        mean = sum(
            (distance(a.tolist(), (np.array(counts) - a).tolist()) for a in chosen), Fraction(0)
        ) / len(chosen)
        got = float(_split_terms(np.array(counts), 10, n).sum())
        assert got == pytest.approx(float(mean), rel=1e-12)


def test_two_halves_cost_the_square_root_of_l_over_n():
    joint = JointProfile.from_counts([50, 50], [50, 50])
    assert two_sample_leak_upper(joint, 0.05) == pytest.approx(math.sqrt(math.log(20) / 100))


def failures(bound, p, n, rows) -> int:
    rng = np.random.default_rng(5)
    target = worst_leak(p, n) * (1 - 1e-12)
    pairs = ((rng.multinomial(n, p), rng.multinomial(rows - n, p)) for _ in range(300))
    return sum(bound(a, b) < target for a, b in pairs)


@pytest.mark.parametrize("beta", [0.5, 0.05])
@pytest.mark.parametrize(("n", "rows"), [(20, 50), (100, 5000)])
@pytest.mark.parametrize("atoms", [2, 30])
def test_coverage(beta, n, rows, atoms):
    """False alarm of each case: at most 1e-6."""
    p = np.full(atoms, 1 / atoms)
    allowed = stats.binom.isf(1e-6, 300, beta)
    arguments = failures(
        lambda a, b: two_sample_leak_upper(JointProfile.from_counts(a, b), beta), p, n, rows
    )
    split = failures(
        lambda a, b: split_leak_upper(CountProfile.from_counts(a + b), n, beta), p, n, rows
    )
    assert arguments <= allowed
    assert split <= allowed


def test_coverage_catches_a_missing_confidence_term():
    def plug_in(a, b):
        return 0.5 * float(np.abs(a / a.sum() - b / b.sum()).sum())

    p = np.full(30, 1 / 30)
    assert failures(plug_in, p, 100, 5000) > stats.binom.isf(1e-6, 300, 0.05)


def test_bad_input():
    with pytest.raises(InputError, match="reference"):
        JointProfile.from_counts([1, 2], [0, 0])
    with pytest.raises(InputError, match="at least 0"):
        JointProfile.from_counts([1, -2], [1, 5])
    with pytest.raises(InputError, match="below"):
        split_leak_upper(CountProfile.from_counts([3, 2]), 5, 0.05)
    with pytest.raises(InputError, match="as many"):
        JointProfile.from_counts([1, 2], [1, 2, 3])
