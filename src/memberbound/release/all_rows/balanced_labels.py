"""Draw labels that keep close to their probabilities wherever rows agree in one or two columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from memberbound.numerics.rounding import FloatArray, IntArray

#: Rows that are drawn before balances are looked at again, as a share of all rows.
_STEP_SHARE = 1 / 2000
#: Strength of the balances, all columns or pairs together.
_PULL = 30.0
#: More rows have little noise in any bin: only the groups' totals are balanced.
_MOST_ROWS = 50_000


def draw_balanced(
    likely: FloatArray, bins: Sequence[IntArray], draws: np.random.Generator
) -> IntArray:
    """Draw a group for every row such that sums stay near their expectation.

    In every bin of a column, or of two columns, a group that was drawn too often so far becomes
    less probable for the next rows.  Independent labels have more noise, which models
    trained on few rows learn.

    Examples:
        >>> bins, draws = [np.arange(400) % 4], np.random.default_rng(0)
        >>> drawn = draw_balanced(np.tile([0.8, 0.2], (400, 1)), bins, draws)
        >>> bool(np.abs(np.bincount(bins[0], drawn) - 20).max() <= 4)
        True
    """
    rows, groups = likely.shape
    sizes = [int(index.max()) + 1 for index in bins]
    cliques: list[tuple[int, ...]] = []
    if rows <= _MOST_ROWS:
        columns = range(len(bins))
        cliques = [*((column,) for column in columns), *itertools.combinations(columns, 2)]
    order = draws.permutation(rows)
    places = np.zeros((rows, len(cliques)), dtype=np.int32)
    start, weights = 0, []
    for index, clique in enumerate(cliques):
        code = bins[clique[0]][order]
        for other in clique[1:]:
            code = code * sizes[other] + bins[other][order]
        count = np.bincount(code, minlength=math.prod(sizes[column] for column in clique))
        weights.append(1 / np.sqrt(np.maximum(count, 1)))
        places[:, index] = start + code
        start += len(count)
    weight = np.concatenate([*weights, np.zeros(1)])
    pull = _PULL / math.sqrt(max(len(cliques), 1))
    # Of two groups, one is ahead by as much as the other is behind.
    free = range(groups) if groups > 2 else range(1)
    ahead, total = [np.zeros(len(weight)) for _ in free], np.zeros(len(free))
    drawn = np.zeros(rows, dtype=np.int64)
    step = max(1, round(rows * _STEP_SHARE))
    for first in range(0, rows, step):
        some, inside = order[first : first + step], places[first : first + step]
        share, heavy = likely[some], weight[inside]
        wanted = share.copy()
        for group in free:
            off = pull * (heavy * ahead[group][inside]).sum(axis=1) + total[group] / step
            given = share[:, group]
            wanted[:, group] -= off * np.minimum(given, 1 - given)
        wanted = np.clip(wanted, 0.0, 1.0)
        if groups == 2:
            wanted[:, 1] = 1 - wanted[:, 0]
        ends = np.cumsum(wanted + 1e-12, axis=1)
        found = (draws.random((len(some), 1)) * ends[:, -1:] >= ends[:, :-1]).sum(axis=1)
        drawn[some] = found
        for group in free:
            more = (found == group) - share[:, group]
            total[group] += more.sum()
            np.add.at(ahead[group], inside.ravel(), (heavy * more[:, None]).ravel())
    return drawn
