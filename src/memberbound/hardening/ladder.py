"""The ladder of a column: from dropped, over ever finer plans, to the column as it is.

Each plan is a coarsening of the next one on the fitting rows, so refining a column splits cells and
never moves rows between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memberbound.learners.encoding import is_number
from memberbound.tables.coarsening import Coarsener, Plan, frequent_categories
from memberbound.tables.hierarchy import Ancestors
from memberbound.tables.recipe import Drop, labels_of

__all__ = ["MIN_COUNT", "Ladder", "column_ladder", "given_ladder", "plan_codes"]

#: A category must occur this often among the fitting rows to be named in a recipe.
MIN_COUNT = 5
_SIZES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False)
class Ladder:
    """Plans of one column from coarse to fine, with the fitting rows' codes under each."""

    column: str
    plans: tuple[Plan, ...]
    codes: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.plans)


def column_ladder(
    frame: Any,
    column: str,
    edges: Sequence[float] | None = None,
    ancestors: Ancestors | None = None,
    form: str | None = None,
) -> Ladder:
    """Return the ladder of a column; given edges or a hierarchy replace quantiles and counts.

    ``form`` is how numbers or dates are written (``text`` for a column that holds neither); None
    goes by the column's type.
    """
    if edges is not None or ancestors is not None:
        plans = given_ladder(edges, ancestors)
    elif form != "text" and (form is not None or is_number(frame[column])):
        plans = ["drop", *({"bins": size} for size in _SIZES), "keep"]
    else:
        most = len(frequent_categories(frame[column], MIN_COUNT))
        sizes = sorted({size for size in (1, *_SIZES, most) if 1 <= size <= min(most, _SIZES[-1])})
        plans = ["drop", *({"top": size} for size in sizes), "keep"]
    return _distinct(frame, column, plans, ancestors, form)


def given_ladder(edges: Sequence[float] | None, ancestors: Ancestors | None) -> list[Plan]:
    """Return the plans that do not depend on any row: what the user gave, its coarsenings, drop."""
    if edges is not None:
        thinned = [list(edges)]
        while len(thinned[-1]) > 1:
            thinned.append(thinned[-1][1::2])
        return ["drop", *({"edges": some} for some in reversed(thinned))]
    if ancestors is not None:
        depth = len(next(iter(ancestors.values())))
        return ["drop", *({"level": k} for k in range(depth, 0, -1)), "keep"]
    return ["drop", "keep"]


def plan_codes(
    frame: Any,
    column: str,
    plan: Plan,
    ancestors: Ancestors | None = None,
    form: str | None = None,
) -> NDArray[np.int64]:
    """Return the number of every row's coarsened value."""
    maker = Coarsener(
        {column: plan},
        hierarchies=None if ancestors is None else {column: ancestors},
        min_count=MIN_COUNT,
        forms=None if form is None else {column: form},
    )
    ((_, rule),) = maker.fit(frame[[column]]).recipe_.rules
    if isinstance(rule, Drop):
        return np.zeros(len(frame), dtype=np.int64)
    return labels_of(rule.apply(frame[column]))[0]


def _distinct(
    frame: Any,
    column: str,
    plans: Sequence[Plan],
    ancestors: Ancestors | None,
    form: str | None,
) -> Ladder:
    """Leave out plans that split no cell of the plan before them."""
    kept: list[Plan] = []
    codes: list[NDArray[np.int64]] = []
    cells = 0
    for plan in plans:
        found = plan_codes(frame, column, plan, ancestors, form)
        size = np.unique(found).size
        if size > cells:
            kept.append(plan)
            codes.append(found)
            cells = size
        elif "top" in plan and "top" in kept[-1]:
            kept[-1] = plan  # the same cells, but the last category goes by its own name
    return Ladder(column, tuple(kept), tuple(codes))
