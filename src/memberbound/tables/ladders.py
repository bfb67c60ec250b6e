"""Ladders: the rules of a column from coarse to fine, with the codes that each rule gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.files import read_document
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import label_of, read_column
from memberbound.tables.recipe import Bins, Drop, Generalise, Keep, Merge, Rule, labels_of

if TYPE_CHECKING:
    from pandas import Series

Codes = NDArray[np.int64]
# ── Hierarchies of categories: a value, its parent, its grandparent ───────────────────────────────

#: The ancestors of each value, nearest first; all values have the same number.
Ancestors = dict[str, tuple[str, ...]]


def read_hierarchy(source: str | Path | Mapping[str, object]) -> Ancestors:
    """Read the ancestors of values from nested groups (a YAML file or a mapping).

    Leaves are lists of values.  A value with fewer ancestors than others repeats its outermost one.
    Every group must have a single parent, so each level is a coarsening of the level below.

    Examples:
        >>> read_hierarchy({"all": {"north": ["Oslo"], "south": ["Rome"]}})["Rome"]
        ('south', 'all')
    """
    tree = source if isinstance(source, Mapping) else read_document(Path(source), "hierarchy")
    if not isinstance(tree, Mapping):
        raise InputError(f"hierarchy must be a mapping from groups to values, got {str(source)!r}.")
    ancestors: Ancestors = {}
    for value, line in _leaves(tree, ()):
        # Compare by label: True and 1 are equal in Python but two categories, 1 and "1" are one.
        name = label_of(value, "text")
        if name in ancestors:
            raise InputError(f"a hierarchy must list each value once, got {value!r} twice.")
        ancestors[name] = tuple(label_of(ancestor, "text") for ancestor in line)
    depth = max(map(len, ancestors.values()), default=0)
    if depth == 0:
        raise InputError(f"a hierarchy must give values a parent, got {tree!r}.")
    parents: dict[tuple[int, str], str] = {}
    for value, known in ancestors.items():
        ancestors[value] = full = (*known, *[known[-1]] * (depth - len(known)))
        for level, (child, parent) in enumerate(pairwise(full)):
            if parents.setdefault((level, child), parent) != parent:
                other = parents[level, child]
                raise InputError(
                    f"a hierarchy must give {child!r} one parent, got {other!r} and {parent!r}."
                )
    return ancestors


def _leaves(
    tree: Mapping[object, object], above: tuple[object, ...]
) -> Iterator[tuple[object, tuple[object, ...]]]:
    for name, inside in tree.items():
        if isinstance(inside, Mapping):
            yield from _leaves(inside, (name, *above))
        elif isinstance(inside, list) and not any(isinstance(x, (Mapping, list)) for x in inside):
            yield from ((leaf, (name, *above)) for leaf in inside)
        else:
            raise InputError(f"a hierarchy must map {name!r} to a list of values, got {inside!r}.")


# ── Edges of bins, frequent categories, frequent cells ────────────────────────────────────────────

#: A quantile may be rounded if at most this share of the rows changes sides.
_ROUNDING_SHARE = 0.002


def quantile_edges(values: FloatArray, bins: int, *, dates: bool = False) -> tuple[float, ...]:
    """Return at most ``bins`` - 1 edges at quantiles, rounded for readability and privacy.

    An exact quantile is the value of a record; a rounded one is not.  Dates (days since 1970) are
    cut at the start of a year, a month, a day or an hour.  Each edge is rounded independently, so
    the edges for k bins are among those for 2k.

    Examples:
        >>> quantile_edges(np.arange(1000) / 7, 4)
        (35.6, 71.0, 107.0)
    """
    ordered = np.sort(values[np.isfinite(values)])
    if ordered.size == 0:
        return ()
    raw = np.quantile(ordered, np.arange(1, bins) / bins, method="inverted_cdf")
    near = {_round_edge(float(edge), ordered, _turns if dates else _decimals) for edge in raw}
    # An edge at or above the largest value separates nothing.
    return tuple(sorted(e for e in near if e < ordered[-1])) or (float(ordered[-1]),)


def _round_edge(
    edge: float,
    ordered: FloatArray,
    candidates: Callable[[float, FloatArray], Iterator[float]],
) -> float:
    """Return the first candidate near ``edge`` that moves few rows to the other side."""
    below = int(np.searchsorted(ordered, edge, side="right"))
    for near in candidates(edge, ordered):
        moved = abs(int(np.searchsorted(ordered, near, side="right")) - below)
        if moved <= _ROUNDING_SHARE * ordered.size:
            return near
    return edge


def _decimals(edge: float, ordered: FloatArray) -> Iterator[float]:
    """Yield decimals with an increasing number of digits."""
    spread = float(ordered[-1] - ordered[0])
    if spread > 0 and math.isfinite(spread):
        top = math.floor(math.log10(spread))
        yield from (float(round(edge, digits)) for digits in range(1 - top, 8 - top))


def _turns(edge: float, ordered: FloatArray) -> Iterator[float]:
    """Yield the nearest start of a year, a month, a day, an hour and a minute."""
    del ordered
    for unit in "YM":
        start = np.datetime64(math.floor(edge), "D").astype(f"datetime64[{unit}]").astype(int)
        both = np.array([start, start + 1]).astype(f"datetime64[{unit}]")
        turns = both.astype("datetime64[D]").astype(int).astype(float).tolist()
        yield min(turns, key=lambda turn: abs(turn - edge))
    yield from (float(round(edge * parts)) / parts for parts in (1, 24, 1440))


def frequent_categories(series: Series) -> list[str]:
    """Return the categories that may be named in a recipe, most frequent first."""
    codes, names = labels_of(series)
    counts = np.bincount(codes, minlength=len(names))
    order = sorted(range(len(names)), key=lambda i: (-counts[i], names[i]))
    return [names[i] for i in order if counts[i] >= _MIN_COUNT]


def frequent_groups(group: Codes, fixed: Codes, below: int, *, every: bool) -> NDArray[np.bool_]:
    """Return a mask of the groups to keep unpooled, those with at least ``below`` rows.

    ``group`` and ``fixed`` are codes of every row's combination of pooled and of other columns.
    With ``every``, a group counts with its rarest combination with the other columns, and the pool
    itself must be as frequent.
    """
    groups = int(group.max(initial=-1)) + 1
    if not every:
        frequent: NDArray[np.bool_] = np.bincount(group, minlength=groups) >= below
        return frequent
    width = int(fixed.max(initial=-1)) + 1
    if groups * width > 20_000_000:  # far more cells than rows, so some are empty
        return np.zeros(groups, dtype=bool)
    counts = np.bincount(group * width + fixed, minlength=groups * width).reshape(groups, width)
    rarest = counts.min(axis=1)
    mask: NDArray[np.bool_] = rarest >= below
    # Unseen combinations fall into the pool, so it must be as frequent as every other cell.
    pool = counts[~mask].sum(axis=0)
    for index in np.argsort(rarest, kind="stable"):
        if np.all(pool >= below):
            break
        if mask[index]:
            mask[index] = False
            pool = pool + counts[index]
    return mask


# ── The ladder of a column, from dropping it to leaving it unchanged ──────────────────────────────
# Each rule is a coarsening of the next one on the fitting rows, so refining a column only splits
# cells.

#: A category must occur this often among the fitting rows to be named in a recipe.
_MIN_COUNT = 5
_SIZES = (2, 4, 8, 16, 32)


@dataclass(frozen=True, eq=False)
class Ladder:
    """Rules of one column from coarse to fine, with the fitting rows' codes under each."""

    column: str
    rules: tuple[Rule, ...]
    codes: tuple[Codes, ...]


def column_ladder(
    column: Series,
    form: str,
    edges: Sequence[float] | None = None,
    ancestors: Ancestors | None = None,
) -> Ladder:
    """Return the ladder of a column, without rules that do not split any cell.

    Given edges or a hierarchy replace quantiles and counts.  ``form`` is the form of numbers or
    dates, or ``text`` for a column of neither.
    """
    rules: list[Rule] = [Keep()]
    if edges is not None:
        rules = [edge_bins(edges, form)]
        while len(edges) > 1:
            edges = edges[1::2]
            rules.insert(0, edge_bins(edges, form))
    elif ancestors is not None:
        depth = len(next(iter(ancestors.values())))
        rules = [*(ancestor_level(ancestors, level) for level in range(depth, 0, -1)), Keep()]
    elif form != "text":
        rules = [*(quantile_bins(column, form, size) for size in _SIZES), Keep()]
    else:
        frequent = frequent_categories(column)
        sizes = sorted({1, *_SIZES, len(frequent)})
        most = min(len(frequent), _SIZES[-1])
        rules = [*(Merge(tuple(frequent[:size])) for size in sizes if 1 <= size <= most), Keep()]
    kept: list[Rule] = []
    codes: list[Codes] = []
    cells = 0
    for rule in (Drop(), *rules):
        coarse = rule_codes(column, rule)
        size = np.unique(coarse).size
        if size > cells:
            kept.append(rule)
            codes.append(coarse)
            cells = size
        elif isinstance(rule, Merge) and isinstance(kept[-1], Merge):
            kept[-1] = rule  # the same cells, but the last category keeps its name
    return Ladder(str(column.name), tuple(kept), tuple(codes))


def edge_bins(edges: Sequence[float], form: str) -> Bins:
    """Return bins with these edges, of numbers or dates."""
    return Bins(tuple(edges), "number" if form == "text" else form)


def quantile_bins(column: Series, form: str, bins: int) -> Rule:
    """Return bins of about equal size, or one bin if there are no edges between values."""
    numbers = read_column(column, form).numbers
    edges = quantile_edges(numbers, bins, dates=form in ("date", "day-first"))
    return edge_bins(edges, form) if edges else Merge(())


def ancestor_level(ancestors: Ancestors, level: int) -> Generalise:
    """Return the rule that replaces values by their ancestors at this level."""
    return Generalise(tuple((value, line[level - 1]) for value, line in ancestors.items()))


def rule_codes(column: Series, rule: Rule) -> Codes:
    """Return the code of every row's coarsened value."""
    return labels_of(rule.apply(column))[0]


def pair_codes(first: Codes, second: Codes) -> Codes:
    """Number the pairs of two codings from 0, without gaps."""
    import pandas as pd

    key = first * (int(second.max(initial=0)) + 1) + second
    codes: Codes = pd.factorize(key)[0]
    return codes.astype(np.int64)
