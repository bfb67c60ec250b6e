"""One protocol for all that discretises a column: the cell of a value depends on it alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from memberbound.release.all_rows.boosting import column_bins
from memberbound.release.all_rows.bounds import Categories, Range
from memberbound.release.all_rows.cells import public_column
from memberbound.release.all_rows.encoder import ColumnCode, Encoder, Scaling
from memberbound.release.all_rows.histograms import CELLS, FIXED_CELLS, MISSING
from memberbound.release.all_rows.number_laws import ZoomCells
from memberbound.release.all_rows.private_columns import FirstCells
from memberbound.release.all_rows.summaries import _count_cells
from memberbound.tables.cells import Absent, Beside, Intervals, LabelCells, Rest, Selected
from memberbound.tables.columns import read_column
from memberbound.tables.recipe import Bins
from memberbound.tables.values import Values

VALUES = [None, "", "a", "b", "unheard of", "1e999", 0, -0.0, 1, 1.5, "2", -3, 2.0**70, 1e-30, True]
VALUES += [float("inf"), -float("inf"), float("nan"), "1970-01-02", 4, 5, 4.999999]
EDGES = (-3.0, 0.0, 1.5, 5.0)


def bins(code: ColumnCode) -> Beside:
    return column_bins(Encoder((code,)))[0].cells


SCALING = Scaling(-2.0, 5.0, 1.0, 0.5, 0.5)
CODE = ColumnCode("x", SCALING, (), (3, 64, MISSING, MISSING + 7), False)
CELLS_OF = {
    "open": Intervals(EDGES),
    "closed": Intervals(EDGES, "closed"),
    "unbounded": Intervals(EDGES, "unbounded"),
    "right": Intervals.between_cuts(EDGES, closed="right"),
    "labels": LabelCells(("a", "", "1")),
    "beside": Beside((LabelCells(("b",)), Rest(), Intervals(EDGES), Absent())),
    "fixed": FIXED_CELLS,
    "selected": Selected(FIXED_CELLS, CODE.cells),
    "first look": FirstCells(None, named=False),
    "second look": ZoomCells(np.array(EDGES), np.array([0, 0, 1])),
    "bins": bins(CODE),
    "indicators": ColumnCode("x", None, ("a", "1"), (), True).indicator_cells,
    "numbers": public_column("x", Range(-3, 5), "0"),
    "categories": public_column("x", Categories(("a", "1"))),
    "counted": _count_cells(Range(-3, 5)),
}


class QuantileCells:
    """A broken twin: its edges follow from the rows."""

    count = 2

    def cell_of(self, values: Values) -> np.ndarray:
        return Intervals.between_cuts([np.nan_to_num(values.numbers).mean()]).cell_of(values)

    def label(self, cell: int) -> str:
        return str(cell)


def depends_on_other_rows(cells) -> bool:
    together = cells.cell_of(read_column(VALUES)).tolist()
    alone = [int(cells.cell_of(read_column([value]))[0]) for value in VALUES]
    return together != alone


@pytest.mark.parametrize("name", CELLS_OF)
def test_the_cell_of_a_value_is_a_function_of_this_value(name):
    cells = CELLS_OF[name]
    assert not depends_on_other_rows(cells)
    assert depends_on_other_rows(QuantileCells())
    found = cells.cell_of(read_column(VALUES))
    assert ((found >= -1) & (found < cells.count)).all()
    labels = [cells.label(cell) for cell in range(cells.count)]
    assert len(set(labels)) == cells.count <= CELLS * 7
    assert all(labels)


@pytest.mark.parametrize("name", ["beside", "fixed", "bins", "numbers", "categories", "counted"])
def test_every_value_has_a_cell_where_one_is_for_the_rest(name):
    assert (CELLS_OF[name].cell_of(read_column(VALUES)) >= 0).all()


def naive(number: float, ends: str) -> int:
    inside = [low <= number < high for low, high in pairwise(EDGES)]
    if ends == "closed" and number == EDGES[-1]:
        return len(inside) - 1
    if ends == "unbounded":
        inside[0] |= number < EDGES[0]
        inside[-1] |= number >= EDGES[-1]
    return inside.index(True) if any(inside) else -1


@pytest.mark.parametrize("ends", ["open", "closed", "unbounded"])
def test_intervals_hold_their_lower_edges(ends):
    numbers = [*EDGES, *np.nextafter(EDGES, -np.inf), *np.nextafter(EDGES, np.inf), 9, -9, np.nan]
    numbers += [np.inf, -np.inf]
    found = Intervals(EDGES, ends).index_of(np.array(numbers)).tolist()
    assert found == [naive(number, ends) for number in numbers]
    # On the other side, an interval holds its upper edge: the mirror image.
    flipped = Intervals([-edge for edge in reversed(EDGES)], ends, "right")
    if ends != "closed":
        mirrored = [k if k < 0 else 2 - k for k in flipped.index_of(-np.array(numbers)).tolist()]
        assert mirrored == found


def test_bins_of_a_recipe_are_named_like_their_edges():
    column = pd.Series([1, 2, 3, None, "x"])
    named = Bins((1.0, 2.0)).apply(column).tolist()
    assert named == ["<=1", "(1, 2]", ">2", "(missing)", "(other)"]


def test_a_range_is_mapped_to_the_unit_interval_and_back():
    bound = Range(-3.0, 7.0)
    scaled = bound.scale(np.array([-9.0, -3.0, 2.0, 7.0, np.inf, np.nan]))
    assert scaled.tolist()[:5] == [-1.0, -1.0, 0.0, 1.0, 1.0]
    assert np.isnan(scaled[5])
    assert bound.rescale(scaled).tolist()[:5] == [-3.0, -3.0, 2.0, 7.0, 7.0]
    # However narrow it is, nothing leaves [-1, 1], where a sensitivity would be too small.
    draws = np.random.default_rng(3)
    for low, width in draws.normal(size=(300, 2)) * 10.0 ** draws.integers(-9, 9, (300, 2)):
        narrow = Range(low, float(np.nextafter(low + abs(width), np.inf)))
        assert np.abs(narrow.scale(np.array([narrow.low, narrow.high]))).max() <= 1.0
