"""X25: the effect of a record on every part of a synthetic table, against all neighbours.

Truth: enumeration of records on small domains.  Broken twins: squares in place of absolute values,
effects off the grid.
"""

import itertools

import numpy as np
import pytest

from memberbound.release.all_rows.histograms import count_cells
from memberbound.release.all_rows.label_model import GRID, LabelModel, hit_counts
from memberbound.release.all_rows.marginals import LabelledRows
from memberbound.release.all_rows.tree import pair_score
from memberbound.tables.persons import Persons

UNITS = 2.0**20
#: Every person: one to three rows, each in one of three cells.
PERSONS = [p for size in (1, 2, 3) for p in itertools.product(range(3), repeat=size)]


def person_counts(rows):
    """Return the weighted counts of one person's rows in three cells."""
    return count_cells(np.array(rows), 3, Persons(np.array([0]), len(rows)))


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
def test_no_person_moves_the_hits_by_more_than_the_root_of_two(groups):
    """Every person of one to three rows, in every order, beside others; the twin ranks rows."""
    draws = np.random.default_rng(2)
    effects = tuple(np.rint(draws.normal(0, 1, (3, groups)) * GRID) / GRID for _ in range(2))
    model = LabelModel(np.zeros(groups), effects)
    maps = [np.arange(3)] * 2
    cuts = np.array([-0.5, 0.0, 0.5]) + 0.5 / GRID
    rows = [(*cells, group) for cells in np.ndindex(3, 3) for group in range(groups)]
    people = [[row] for row in rows] + [list(draws.permuted(rows)[:3]) for _ in range(40)]
    others = [rows[k] for k in draws.integers(0, len(rows), 9)]

    def hits(person):
        table = np.array([*person, *others])
        persons = Persons(np.array([0, *range(len(person), len(table))]), len(table))
        return hit_counts(
            LabelledRows(table[:, :2].T, table[:, 2], persons, None), model, maps, cuts
        )

    counts = [hits(person).ravel() for person in people]
    apart = max(np.linalg.norm(a - b) for a, b in itertools.combinations(counts, 2))
    assert 1.4 < apart <= np.sqrt(2)
    unweighted = max(len(person) for person in people) * np.sqrt(2)
    assert apart < unweighted
    for person in people:  # the order of a person's rows does not matter
        assert (hits(person) == hits(person[::-1])).all()


@pytest.mark.parametrize("rounded", [True, False])
def test_the_score_of_a_row_is_the_same_wherever_it_is(rounded):
    """Sums of effects on the grid are exact in any order; effects off the grid are not."""
    draws = np.random.default_rng(3)
    effects = draws.normal(0, 1, (40, 5, 2)) + 1e6 * draws.choice([-1, 0, 1], (40, 1, 1))
    if rounded:
        effects = np.rint(effects * GRID) / GRID
    bins = [draws.integers(0, 5, 500) for _ in range(40)]
    order = draws.permutation(40)
    forward = LabelModel(np.zeros(2), tuple(effects)).additive(bins)
    backward = LabelModel(np.zeros(2), tuple(effects[order])).additive([bins[k] for k in order])
    assert (forward == backward).all() == rounded
