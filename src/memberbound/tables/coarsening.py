"""Coarser columns: bins, merged values, hierarchies, and a transformer that applies them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from memberbound.errors import InputError, whole_number
from memberbound.files import check_input, read_document
from memberbound.tables.columns import label_of
from memberbound.tables.recipe import (
    Bins,
    Dates,
    Drop,
    Generalise,
    Keep,
    Merge,
    Pool,
    Recipe,
    Rule,
    labels_of,
    numbers_of,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

# ── Hierarchies of categories: a value, its parent, its grandparent ───────────────────────────────
#
# Two notations, both written by people: nested YAML whose leaves are lists, or a CSV file with one
# line per value and one column per level.

#: What a value is called in a hierarchy before it goes by its text.
Name = TypeVar("Name")
#: Value → its ancestors, nearest first; every value has as many.
Ancestors = dict[str, tuple[str, ...]]


def read_hierarchy(source: str | Path | Mapping[Name, object]) -> Ancestors:
    """Return value → ancestors from a YAML or CSV file, or from a mapping already in memory.

    A mapping is either nested like the YAML (groups to lists of values), or goes from values to
    tuples of ancestors, nearest first.

    Examples:
        >>> read_hierarchy({"north": ["Oslo", "Bergen"], "south": ["Rome"]})["Oslo"]
        ('north',)
        >>> read_hierarchy({"all": {"north": ["Oslo"], "south": ["Rome"]}})["Rome"]
        ('south', 'all')
    """
    if isinstance(source, Mapping):
        return tidy_hierarchy(_from_tree(source))
    path = Path(source)
    if path.suffix.lower() in {".yaml", ".yml"}:
        tree = read_document(path, "hierarchy")
        if not isinstance(tree, Mapping):
            raise InputError(
                f"hierarchy must be a mapping from groups to values, got {str(path)!r}."
            )
        return tidy_hierarchy(_from_tree(tree))
    if path.suffix.lower() == ".csv":
        check_input(path, "hierarchy")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise InputError(f"hierarchy must be a UTF-8 file, got {str(path)!r}.") from None
        return tidy_hierarchy(_from_lines(text, path))
    raise InputError(f"hierarchy must be a .yaml or .csv file, got {str(path)!r}.")


def tidy_hierarchy(ancestors: Mapping[Name, Sequence[object]]) -> Ancestors:
    """Check that every node has one parent, and give all values equally many ancestors.

    A value with fewer ancestors repeats its outermost one.  One parent per node makes each level a
    coarsening of the level below it.
    """
    depth = max((len(line) for line in ancestors.values()), default=0)
    if depth == 0:
        raise InputError(f"a hierarchy must give values a parent, got {dict(ancestors)!r}.")
    tidy: Ancestors = {}
    parents: dict[tuple[int, str], str] = {}
    for value, line in ancestors.items():
        named = [label_of(a, "text") for a in line]
        if not named:
            raise InputError(f"a hierarchy must give {value!r} a parent, got none.")
        named += [named[-1]] * (depth - len(named))
        tidy[label_of(value, "text")] = tuple(named)
        for level, (child, parent) in enumerate(pairwise(named)):
            if parents.setdefault((level, child), parent) != parent:
                other = parents[level, child]
                raise InputError(
                    f"a hierarchy must give {child!r} one parent, got {other!r} and {parent!r}."
                )
    return tidy


def _from_tree(tree: Mapping[Name, object]) -> dict[str, list[object]]:
    lines: dict[str, list[object]] = {}
    for value, line in _leaves(tree, ()):
        # By name: True and 1 are equal to Python but two categories, 1 and "1" are one.
        name = label_of(value, "text")
        if name in lines:
            raise InputError(f"a hierarchy must list each value once, got {value!r} twice.")
        lines[name] = line
    return lines


def _leaves(
    tree: Mapping[Name, object], above: tuple[object, ...]
) -> Iterator[tuple[object, list[object]]]:
    for name, inside in tree.items():
        if isinstance(inside, tuple):  # value → ancestors, as read_hierarchy itself returns
            yield name, [*inside, *reversed(above)]
        elif isinstance(inside, Mapping):
            yield from _leaves(inside, (*above, name))
        elif isinstance(inside, list):
            for leaf in inside:
                if isinstance(leaf, (Mapping, list)):
                    raise InputError(f"a hierarchy must end in lists of values, got {leaf!r}.")
                yield leaf, [name, *reversed(above)]
        else:
            raise InputError(f"a hierarchy must map {name!r} to a list of values, got {inside!r}.")


def _from_lines(text: str, path: Path) -> dict[str, list[object]]:
    import csv

    rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise InputError(
            f"hierarchy must have a header and lines value,parent,…, got {str(path)!r}."
        )
    lines: dict[str, list[object]] = {}
    for row in rows[1:]:
        value, *rest = (cell.strip() for cell in row)
        if value in lines:
            raise InputError(f"a hierarchy must list each value once, got {value!r} twice.")
        lines[value] = [cell for cell in rest if cell]
    return lines


# ── ``Coarsener``: a scikit-learn transformer that makes a table coarser, and says exactly how ────
#
# Fitting turns a plan ("age into 8 bins, the 5 most frequent countries, drop the postcode") into a
# :class:`~memberbound.tables.recipe.Recipe`; transforming applies the recipe to any rows.  The plan
# of k quantile bins is a coarsening of the plan of 2k bins, and the k most frequent categories of
# the 2k most frequent ones.

#: "keep", "drop", {"bins": k}, {"edges": […]}, {"top": k} or {"level": k}.
Plan = str | Mapping[str, int | Iterable[float]]

#: A quantile is rounded while at most this share of the rows changes sides.
_ROUNDING_SHARE = 0.002
#: Name and version of the JSON layout; a reader refuses a version it does not know.
_FORMAT, _SCHEMA = "memberbound coarsener", 1


class Coarsener(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Coarsen the columns of a pandas table by plan.

    Args:
        columns: column → plan: ``"keep"``, ``"drop"``, ``{"bins": 8}`` (quantiles),
            ``{"edges": [18, 30, 65]}``, ``{"top": 5}`` (most frequent categories, the others
            merged), ``{"level": 1}`` (parents in the column's hierarchy; 2 for grandparents).
        default: plan of the columns that are not named.
        hierarchies: column → {value: (parent, grandparent, …)}, see
            :func:`~memberbound.tables.coarsening.read_hierarchy`.
        min_count: a category must occur this often in the fitting rows to be kept by ``top``.
        pool_below: rows whose combination of coarsened values is rarer than this many fitting
            rows become ``(other)`` in all pooled columns; 0 pools nothing.
        pool_except: columns that pooling neither looks at nor changes (the target).
        pool_every: count a combination by its rarest occurrence over the values of
            ``pool_except`` instead of by all its rows, and let the pool itself be that frequent.
        forms: column → how its numbers or dates are written (``comma``, ``date``, ``day-first``;
            see :mod:`memberbound.tables.roles`), where it is not as Python writes numbers.

    Examples:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [20, 30, 40, 50], "city": ["a", "a", "b", "c"]})
        >>> plan = {"age": {"edges": [35]}, "city": {"top": 1}}
        >>> coarse = Coarsener(columns=plan, min_count=1).fit(frame)
        >>> coarse.transform(pd.DataFrame({"age": [99, None], "city": ["z", "a"]})).values.tolist()
        [['>35', '(other)'], ['(missing)', 'a']]
    """

    def __init__(  # noqa: PLR0917  # scikit-learn's convention: settings by name or position
        self,
        columns: Mapping[str, Plan] | None = None,
        default: Plan = "keep",
        hierarchies: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        min_count: int = 5,
        pool_below: int = 0,
        pool_except: Sequence[str] = (),
        pool_every: bool = False,
        forms: Mapping[str, str] | None = None,
    ) -> None:
        self.columns = columns
        self.default = default
        self.hierarchies = hierarchies
        self.min_count = min_count
        self.pool_below = pool_below
        self.pool_except = pool_except
        self.pool_every = pool_every
        self.forms = forms

    def fit(self, X: DataFrame, y: object = None) -> Coarsener:
        """Learn bin edges, frequent categories and frequent cells from the rows of ``X``."""
        del y
        frame = checked_frame(X)
        plans = dict(self.columns or {})
        unknown = [name for name in [*plans, *self.pool_except] if name not in frame.columns]
        if unknown:
            raise InputError(f"columns must be in the table, got {unknown!r}.")
        rules = [(name, self._rule(name, frame[name], plans)) for name in frame.columns]
        recipe = Recipe(tuple(rules))
        below = whole_number("pool_below", self.pool_below, at_least=0)
        if below:
            recipe = Recipe(recipe.rules, self._pool(recipe.apply(frame), below))
        self.recipe_ = recipe
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = len(frame.columns)
        return self

    def transform(self, X: DataFrame) -> DataFrame:
        """Return the coarsened table; values never seen go where the recipe says.

        Columns of ``pool_except`` may be absent: no other column's rule looks at them.
        """
        check_is_fitted(self, "recipe_")
        return self.recipe_.apply(checked_frame(X), optional=self.pool_except)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the columns of the coarsened table."""
        del input_features
        check_is_fitted(self, "recipe_")
        return np.array(self.recipe_.released, dtype=object)

    def to_json(self) -> str:
        """Return settings and fitted recipe as JSON text; nothing is pickled."""
        check_is_fitted(self, "recipe_")
        fields = {
            "format": _FORMAT,
            "schema": _SCHEMA,
            "settings": self.get_params(deep=False),
            "recipe": self.recipe_.to_dict(),
        }
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, indent=1, default=_plain)

    @classmethod
    def from_json(cls, text: str) -> Coarsener:
        """Return the fitted transformer that :meth:`to_json` wrote."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise InputError("a coarsener must be JSON text.") from None
        if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
            raise InputError(f"a coarsener must be a JSON object with format {_FORMAT!r}.")
        if fields.get("schema") != _SCHEMA:
            raise InputError(f"schema must be {_SCHEMA}, got {fields.get('schema')!r}.")
        settings = fields.get("settings")
        if not isinstance(settings, dict) or set(settings) != set(cls().get_params(deep=False)):
            raise InputError(f"a coarsener must hold all its settings, got {settings!r}.")
        made = cls(**settings)
        made.recipe_ = Recipe.from_dict(fields.get("recipe"))
        made.feature_names_in_ = np.array(made.recipe_.columns, dtype=object)
        made.n_features_in_ = len(made.recipe_.columns)
        return made

    def _rule(self, name: str, series: Series, plans: Mapping[str, Plan]) -> Rule:
        plan = plans.get(name, self.default)
        if plan == "keep":
            return Keep()
        if plan == "drop":
            return Drop()
        if not isinstance(plan, Mapping) or len(plan) != 1:
            raise InputError(
                f"the plan of {name!r} must be 'keep', 'drop' or one of bins, edges, top, level, "
                f"got {plan!r}."
            )
        ((kind, value),) = plan.items()
        form = (self.forms or {}).get(name, "number")
        dates = form in ("date", "day-first")
        if kind == "bins":
            numbers, size = numbers_of(series, form)[0], whole_number("bins", value, at_least=2)
            edges = date_edges(numbers, size) if dates else quantile_edges(numbers, size)
            if not edges:
                return Merge(())
            return Dates(edges, form) if dates else Bins(edges, form)
        if kind == "edges" and isinstance(value, Iterable):
            return Dates(tuple(value), form) if dates else Bins(tuple(value), form)
        if kind == "top":
            most = frequent_categories(series, whole_number("min_count", self.min_count))
            return Merge(tuple(most[: whole_number("top", value)]))
        if kind == "level":
            return self._generalised(name, whole_number("level", value))
        raise InputError(f"the plan of {name!r} must be bins, edges, top or level, got {kind!r}.")

    def _generalised(self, name: str, level: int) -> Generalise:
        hierarchy = (self.hierarchies or {}).get(name)
        if hierarchy is None:
            raise InputError(f"{name!r} must have a hierarchy to be generalised, got none.")
        ancestors: Ancestors = tidy_hierarchy(hierarchy)
        depth = len(next(iter(ancestors.values())))
        if level > depth:
            raise InputError(f"level of {name!r} must be at most {depth}, got {level!r}.")
        return Generalise(tuple((value, line[level - 1]) for value, line in ancestors.items()))

    def _pool(self, coarse: DataFrame, below: int) -> Pool | None:
        fixed = [c for c in coarse.columns if c in set(self.pool_except)]
        columns = tuple(c for c in coarse.columns if c not in fixed)
        if not columns:
            return None
        texts = {c: labels_of(coarse[c]) for c in columns}
        group, sample = _dense([texts[c][0] for c in columns], len(coarse))
        cells = [tuple(texts[c][1][texts[c][0][row]] for c in columns) for row in sample]
        kept = _dense([labels_of(coarse[c])[0] for c in fixed], len(coarse))[0]
        mask = frequent_groups(group, kept, below, every=self.pool_every)
        return Pool(columns, tuple(sorted(c for c, m in zip(cells, mask, strict=True) if m)))


def quantile_edges(values: NDArray[np.float64], bins: int) -> tuple[float, ...]:
    """Return at most ``bins`` - 1 edges at the quantiles, rounded for people and for privacy.

    An exact quantile is the value of a record; a rounded one is not.  Each edge is rounded by
    itself, so the edges for k bins are among those for 2k.

    Examples:
        >>> quantile_edges(np.arange(1000) / 7, 4)
        (35.6, 71.0, 107.0)
    """
    return _edges(values, bins, _rounded)


def date_edges(values: NDArray[np.float64], bins: int) -> tuple[float, ...]:
    """Return edges as :func:`quantile_edges`, at the turn of a year, a month, a day or an hour.

    Values and edges are days since 1970-01-01.
    """
    return _edges(values, bins, _turn)


def _edges(
    values: NDArray[np.float64],
    bins: int,
    rounded: Callable[[float, NDArray[np.float64]], float],
) -> tuple[float, ...]:
    ordered = np.sort(values[np.isfinite(values)])
    if ordered.size == 0:
        return ()
    shares = np.arange(1, bins) / bins
    raw = np.quantile(ordered, shares, method="inverted_cdf")
    near = {rounded(float(edge), ordered) for edge in raw}
    # An edge at or above the largest value separates nothing.
    return tuple(sorted(e for e in near if e < ordered[-1])) or (float(ordered[-1]),)


def frequent_categories(series: Series, min_count: int) -> list[str]:
    """Return the categories with at least ``min_count`` rows, most frequent first."""
    codes, names = labels_of(series)
    counts = np.bincount(codes, minlength=len(names))
    order = sorted(range(len(names)), key=lambda i: (-counts[i], names[i]))
    return [names[i] for i in order if counts[i] >= min_count]


def frequent_groups(
    group: NDArray[np.int64], kept: NDArray[np.int64], below: int, *, every: bool
) -> NDArray[np.bool_]:
    """Return which groups are not pooled.

    ``group`` and ``kept`` number every row's combination of pooled and of other columns.
    """
    groups = int(group.max(initial=-1)) + 1
    if not every:
        frequent: NDArray[np.bool_] = np.bincount(group, minlength=groups) >= below
        return frequent
    width = int(kept.max(initial=-1)) + 1
    if groups * width > 20_000_000:  # more cells than rows by far: some of them are empty
        return np.zeros(groups, dtype=bool)
    counts = np.bincount(group * width + kept, minlength=groups * width).reshape(groups, width)
    rarest = counts.min(axis=1)
    mask: NDArray[np.bool_] = rarest >= below
    # Unseen combinations will fall into the pool: it must be as frequent as every other cell.
    pool = counts[~mask].sum(axis=0)
    for index in np.argsort(rarest, kind="stable"):
        if np.all(pool >= below):
            break
        if mask[index]:
            mask[index] = False
            pool = pool + counts[index]
    return mask


def _rounded(edge: float, ordered: NDArray[np.float64]) -> float:
    """Return the shortest decimal near ``edge`` that moves hardly any row to the other side."""
    spread = float(ordered[-1] - ordered[0])
    if spread <= 0 or not math.isfinite(spread):
        return edge
    below = np.searchsorted(ordered, edge, side="right")
    top = math.floor(math.log10(spread))
    for digits in range(1 - top, 8 - top):
        near = round(edge, digits)
        moved = abs(int(np.searchsorted(ordered, near, side="right")) - int(below))
        if moved <= _ROUNDING_SHARE * ordered.size:
            return float(near)
    return edge


def _turn(edge: float, ordered: NDArray[np.float64]) -> float:
    """Return the nearest turn of a calendar unit that moves hardly any row to the other side."""
    below = int(np.searchsorted(ordered, edge, side="right"))
    for unit, hours in (("Y", 0), ("M", 0), ("D", 0), ("h", 24), ("m", 1440)):
        if hours:
            turns = [math.floor(edge * hours) / hours, math.ceil(edge * hours) / hours]
        else:
            start = np.datetime64(math.floor(edge), "D").astype(f"datetime64[{unit}]").astype(int)
            both = np.array([start, start + 1]).astype(f"datetime64[{unit}]")
            turns = both.astype("datetime64[D]").astype(int).astype(float).tolist()
        near = min(turns, key=lambda turn: abs(turn - edge))
        moved = abs(int(np.searchsorted(ordered, near, side="right")) - below)
        if moved <= _ROUNDING_SHARE * ordered.size:
            return near
    return edge


def _dense(
    codes: Sequence[NDArray[np.int64]], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the combinations of several code columns; return numbers and one row of each."""
    key = np.zeros(rows, dtype=np.int64)
    first = np.zeros(min(rows, 1), dtype=np.int64)
    for column in codes:
        width = int(column.max(initial=0)) + 1
        _, first, key = np.unique(key * width + column, return_index=True, return_inverse=True)
    return key.astype(np.int64), first


def checked_frame(X: object) -> DataFrame:
    """Return ``X`` if it is a pandas table whose columns have different names."""
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        raise InputError(f"the table must be a pandas DataFrame, got {type(X).__name__!r}.")
    names = list(X.columns)
    if len(set(names)) != len(names) or not all(isinstance(n, str) for n in names):
        raise InputError(f"the table's columns must have different names (text), got {names!r}.")
    if not names:
        raise InputError("the table must have at least one column.")
    for name in names:
        values = X[name]
        nested = values.dtype == object and values.map(
            lambda value: isinstance(value, (list, dict, set, np.ndarray))
        )
        if np.any(nested):
            raise InputError(
                f"column {name!r} must hold single values, got lists or records. Unpack it first."
            )
    return X


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, np.ndarray)):
        return list(value)
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"settings must be plain numbers, texts and lists, got {value!r}.")
