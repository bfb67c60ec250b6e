"""X26: all rows of a person count, with weights that add up to at most 1.

Truth: every person with one to three rows in three cells.  Broken twin: every row counts in full.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from memberbound.release.all_rows.histograms import count_cells
from memberbound.tables.persons import Persons

#: Every person: one to three rows, each in one of three cells.
PERSONS = [p for size in (1, 2, 3) for p in itertools.product(range(3), repeat=size)]


def person_of(rows):
    return Persons(np.array([0]), rows)


def person_counts(rows):
    """Return the weighted counts of one person's rows in three cells."""
    return count_cells(np.array(rows), 3, person_of(len(rows)))


def test_no_person_moves_a_table_of_counts_by_more_than_the_root_of_two():
    vectors = [person_counts(person) for person in PERSONS]
    moved = [a - b for a, b in itertools.product(vectors, repeat=2)]
    assert max(np.linalg.norm(m) for m in moved) == pytest.approx(math.sqrt(2), abs=1e-12)
    assert max(np.abs(m).sum() for m in moved) <= 2.0
    # Broken: every row of a person counts in full.
    full = [count_cells(np.array(person), 3, None) for person in PERSONS]
    assert max(np.linalg.norm(a - b) for a, b in itertools.product(full, repeat=2)) > 2


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 1000, 2**20, 2**20 + 1])
def test_weights_of_a_person_add_up_to_at_most_one(rows):
    weight = Fraction(float(person_of(rows).weights[0]))
    assert weight * rows <= 1
    assert (weight * 2**20).denominator == 1
    assert weight * rows > 1 - Fraction(rows, 2**20)


def test_tight_records_with_one_row_reach_the_root_of_two():
    assert np.linalg.norm(person_counts([0]) - person_counts([2])) == math.sqrt(2)
