"""X25: what a record moves in every part of a synthetic table, against all neighbours.

Truth: enumeration of records on small domains.  Broken twins: squares in place of absolute values,
residuals without a clip.
"""

import itertools

import numpy as np
import pytest

from memberbound.release.all_rows.histograms import counted
from memberbound.release.all_rows.label_model import CLIP, ROOM, clipped_residual_units
from memberbound.release.all_rows.tree import pair_score
from memberbound.tables.persons import Persons

UNITS = 2.0**20
#: Every person: one to three rows, each in one of three cells.
PERSONS = [p for size in (1, 2, 3) for p in itertools.product(range(3), repeat=size)]


def person_counts(rows):
    """Return the weighted counts of one person's rows in three cells."""
    return counted(np.array(rows), 3, Persons(np.array([0]), len(rows)))


def test_no_person_moves_a_score_by_more_than_two():
    draws = np.random.default_rng(0)
    worst, broken = 0.0, 0.0
    for _ in range(50):
        others = draws.integers(0, 5, 3).astype(float)
        expected = draws.uniform(0, 5, 3)
        tables = [others + person_counts(person) for person in PERSONS]
        worst = max(worst, np.ptp([pair_score(counts, expected) for counts in tables]))
        broken = max(broken, np.ptp([np.square(counts - expected).sum() for counts in tables]))
    assert 1.9 < worst <= 2.0
    assert broken > 2.0  # a sum of squares would move by more


def test_scores_are_exact():
    """Sums of units: the same whatever the order of the cells is."""
    draws = np.random.default_rng(1)
    counts = draws.integers(0, 2**40, 999) / UNITS
    expected = draws.uniform(0, 2**20, 999)
    order = draws.permutation(999)
    assert pair_score(counts, expected) == pair_score(counts[order], expected[order])


@pytest.mark.parametrize("groups", [2, 3])
def test_no_person_moves_sums_of_residuals_by_more_than_twice_the_clip(groups):
    draws = np.random.default_rng(2)
    vectors, raw = [], []
    for _ in range(400):
        rows = int(draws.integers(1, 4))
        probabilities = draws.dirichlet(np.full(groups, 0.3), rows)
        labels, cells = draws.integers(0, groups, rows), draws.integers(0, 2, rows)
        weights = Persons(np.array([0]), rows).weights
        units = clipped_residual_units(labels, probabilities.copy(), weights)
        assert (units == np.rint(units)).all()
        sums = np.zeros((2, groups))
        np.add.at(sums, cells, units / UNITS)
        vectors.append(sums.ravel())
        residuals = np.eye(groups)[labels] - probabilities
        unclipped = np.zeros((2, groups))
        np.add.at(unclipped, cells, residuals)
        raw.append(unclipped.ravel())
    allowed = CLIP * ROOM
    assert max(map(np.linalg.norm, vectors)) <= allowed
    apart = max(np.linalg.norm(a - b) for a, b in itertools.combinations(vectors, 2))
    assert 1.7 * allowed < apart <= 2 * allowed
    assert max(map(np.linalg.norm, raw)) > allowed  # without clip and weights
