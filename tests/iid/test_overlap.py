"""Rows that two samples share: overlaps by chance are accepted, common rows are not."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from memberbound.iid.overlap import Overlap
from memberbound.iid.profiles import JointProfile

LAWS = {
    "coin": np.array([0.5, 0.5]),
    "forty": np.full(40, 1 / 40),
    "thousand": np.full(1000, 1e-3),
    "rare": np.full(10**5, 1e-5),
    "zipf": 1 / np.arange(1, 3001) / np.sum(1 / np.arange(1, 3001)),
    "heavy and rare": np.concatenate([[0.5], np.full(10**5, 0.5e-5)]),
}
SIZES = [(500, 500), (100, 3000), (3000, 100), (25, 25)]


def overlap(one, two):
    values, index = np.unique(np.concatenate([one, two]), return_inverse=True)
    counts = [
        np.bincount(part, minlength=len(values)) for part in (index[: len(one)], index[len(one) :])
    ]
    return Overlap.of(JointProfile.from_counts(*counts))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_independent_samples_are_accepted(name, n, m):
    """60 draws of every law: the probability that one is refused is below 1e-3 each, far less."""
    rng = np.random.default_rng(7)
    law = LAWS[name]
    found = [
        overlap(rng.choice(law.size, n, p=law), rng.choice(law.size, m, p=law)) for _ in range(60)
    ]
    assert not any(each.refused for each in found)
    scores = np.array([each.likeness for each in found])
    assert abs(scores.mean()) < 0.6
    assert scores.std() < 1.6


def test_two_laws_that_differ_are_not_alike():
    rng = np.random.default_rng(1)
    assert overlap(rng.integers(0, 40, 500), rng.integers(20, 60, 500)).likeness < 0


@pytest.mark.parametrize("name", ["thousand", "rare", "zipf", "heavy and rare"])
def test_the_same_rows_are_refused_and_some_are_noted(name):
    rng = np.random.default_rng(8)
    law = LAWS[name]
    rows, others = (rng.choice(law.size, 1000, p=law) for _ in range(2))
    assert overlap(rows, rng.permutation(rows)).refused
    most = np.concatenate([rows[:950], others[:50]])
    assert overlap(rows, most).refused
    some = overlap(rows, np.concatenate([rows[:350], others[:650]]))
    assert some.noted
    assert some.shared > some.expected + 3
    assert not overlap(rows, others).noted


def test_a_table_inside_its_reference_is_refused():
    rng = np.random.default_rng(9)
    rows, more = rng.normal(size=100), rng.normal(size=3000)
    assert overlap(rows, np.concatenate([rows, more])).refused
    assert overlap(np.concatenate([rows, more]), rows).refused
    one = overlap(rows, np.concatenate([rows[:1], more]))
    assert one.noted
    assert not one.refused
    assert one.shared == 1


def test_equal_coarse_samples_may_be_chance():
    small = Overlap.of(JointProfile.from_counts([10, 9], [10, 9]))
    assert small.noted
    assert not small.refused
    assert small.identical == pytest.approx(comb(20, 10) * comb(18, 9) / comb(38, 19))
    assert Overlap.of(JointProfile.from_counts([225] * 4, [225] * 4)).refused
    # With one value for all rows, equal samples are certain and uninformative.
    assert Overlap.of(JointProfile.from_counts([500], [500])).identical == pytest.approx(1.0)


def test_mean_spread_and_matches_against_all_deals():
    """Every way to deal twelve pooled rows out as five and seven."""
    pooled = np.array([0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 5, 6])
    n, total = 5, len(pooled)
    counts = np.bincount(pooled)
    values, shared = [], []
    for chosen in combinations(range(total), n):
        a = np.bincount(pooled[list(chosen)], minlength=counts.size)
        values.append(float(((a - n / total * counts) ** 2 / counts).sum()))
        shared.append(int((counts - a)[a > 0].sum()))
    one = np.array([1, 1, 1, 1, 0, 1, 0])
    found = Overlap.of(JointProfile.from_counts(one, counts - one))
    assert found.expected == pytest.approx(np.mean(shared), rel=1e-12)
    y = float(((one - n / total * counts) ** 2 / counts).sum())
    deviation = (np.mean(values) - y) / found.likeness
    assert deviation == pytest.approx(np.std(values), rel=0.15)  # an approximation


def test_equal_values_alone_would_refuse_a_coarse_table():
    """The rule of audit, more than half of the rows in both, is wrong where cells are common."""
    rng = np.random.default_rng(2)
    rows, others = rng.integers(0, 40, 500), rng.integers(0, 40, 500)
    found = overlap(rows, others)
    assert 2 * found.shared > found.reference_rows
    assert not found.refused
    assert not found.noted
