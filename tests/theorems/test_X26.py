"""X26: all rows of a person count, with weights that add up to at most 1.

Truth: every person with one to three rows in three cells.  Broken twin: every row counts in full.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from memberbound.release.all_rows import synthetic
from memberbound.release.all_rows.synthetic import person_weights

#: Every person: one to three rows, each in one of three cells.
PERSONS = [p for size in (1, 2, 3) for p in itertools.product(range(3), repeat=size)]


def person_counts(rows, weigh=person_weights):
    """Return the weighted counts of one person's rows in three cells."""
    weights = weigh(np.zeros(len(rows), dtype=np.int64))
    counted = synthetic._Rows([], weights)
    return counted.counts(np.array(rows), (3,))


def test_no_person_moves_a_table_of_counts_by_more_than_the_root_of_two():
    vectors = [person_counts(person) for person in PERSONS]
    moved = [a - b for a, b in itertools.product(vectors, repeat=2)]
    assert max(np.linalg.norm(m) for m in moved) == pytest.approx(math.sqrt(2), abs=1e-12)
    assert max(np.abs(m).sum() for m in moved) <= 2.0
    # Broken: every row of a person counts in full.
    full = [person_counts(person, lambda own: np.ones(len(own))) for person in PERSONS]
    assert max(np.linalg.norm(a - b) for a, b in itertools.product(full, repeat=2)) > 2


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 1000, 2**20, 2**20 + 1])
def test_weights_of_a_person_add_up_to_at_most_one(rows):
    weight = Fraction(float(person_weights(np.zeros(rows, dtype=np.int64))[0]))
    assert weight * rows <= 1
    assert (weight * 2**20).denominator == 1
    assert weight * rows > 1 - Fraction(rows, 2**20)


def test_tight_records_with_one_row_reach_the_root_of_two():
    assert np.linalg.norm(person_counts([0]) - person_counts([2])) == math.sqrt(2)
