"""Recipes: rules that coarsen the columns of a table row by row, stored as JSON.

A recipe is a function of a single row.  This makes a certificate possible: the coarsened rows of an
i.i.d. sample are again i.i.d., from the image of the distribution (``proofs/hardening.md``).  It is
defined for all values, including unseen ones: numbers beyond the outer edges fall into the outer
bins, unknown categories into ``(other)``, missing ones into ``(missing)``.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.tables.cells import MISSING, OTHER, Absent, Beside, Intervals, Rest
from memberbound.tables.columns import read_column
from memberbound.tables.spelling import iso_date, number_label

if TYPE_CHECKING:
    from pandas import DataFrame, Series


def labels_of(series: Series) -> tuple[NDArray[np.int64], list[str]]:
    """Return codes and texts of a column's values, with missing ones as ``(missing)``.

    A text, without surrounding blanks, is its own label; a value's label depends on that value
    alone.
    """
    codes, labels = read_column(series, "text").codes_and_labels()
    # Values that differ as objects may share their text (39 and "39"): one label, one code.
    index: dict[str, int] = {}
    for label in labels:
        index.setdefault(label or MISSING, len(index))
    dense = np.array([index[label or MISSING] for label in labels], dtype=np.int64)
    return dense[codes], list(index)


def exact_codes(series: Series) -> NDArray[np.int64]:
    """Number the values of a column; values that any program can distinguish get two numbers."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(series.dtype, pd.StringDtype):
        # Arrow compares all bytes of a text; half of a surrogate pair has no bytes and is coded
        # below.
        with contextlib.suppress(UnicodeError, pa.ArrowException):
            texts = pa.array(series.to_numpy(dtype=object, na_value=None), pa.large_string())
            codes = texts.dictionary_encode(null_encoding="encode").indices
            return np.asarray(codes, dtype=np.int64)
    if series.dtype.kind == "O":
        # Distinguish 1, 1.0 and True, which are equal in Python but differ in a file.  Do not use
        # pandas, because version 2 compares texts only up to their first zero byte.
        spelled = ((type(v).__name__, v if isinstance(v, str) else repr(v)) for v in series)
        seen: dict[tuple[str, str] | None, int] = {}
        present = pd.notna(series).to_numpy()
        keys = (key if there else None for key, there in zip(spelled, present, strict=True))
        return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
        # Compare bits, so that -0.0 is not 0.0; NaN is a missing value.
        values = series.to_numpy(dtype=np.float64)
        series = pd.Series(np.where(np.isnan(values), np.nan, values).view(np.int64))
    return np.asarray(pd.factorize(series, use_na_sentinel=False)[0], dtype=np.int64)


@dataclass(frozen=True)
class Keep:
    """Leave the column unchanged."""

    kind: ClassVar = "keep"

    def apply(self, series: Series) -> Series:
        """Return the column unchanged, except that -0.0 becomes 0.0."""
        return series + 0.0 if series.dtype.kind == "f" else series


@dataclass(frozen=True)
class Drop:
    """Leave the column out."""

    kind: ClassVar = "drop"

    def apply(self, series: Series) -> Series:
        """Return a constant column."""
        return _apply_labels(series, np.zeros(len(series), dtype=np.int64), [OTHER])


@dataclass(frozen=True)
class Bins:
    """Replace numbers by intervals: up to and including the first edge, …, above the last edge.

    Intervals are closed on the right, so an edge at a frequent smallest value (zero capital gain)
    separates it from the rest.  ``form`` is the form of its numbers
    (:mod:`memberbound.tables.columns`); edges of dates are days since 1970-01-01 in UTC.
    """

    kind: ClassVar = "bins"
    edges: tuple[float, ...]
    form: str = "number"

    def __post_init__(self) -> None:
        edges = tuple(float(e) for e in self.edges)
        ascending = all(a < b for a, b in pairwise(edges))
        if not edges or not ascending or not all(math.isfinite(e) for e in edges):
            raise InputError(f"edges must be finite ascending numbers, got {self.edges!r}.")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "form", str(self.form))

    def names(self) -> list[str]:
        """Return readable names of the edges."""
        return list(map(self._text, self.edges))

    def _text(self, edge: float) -> str:
        return iso_date(edge) if self.form in ("date", "day-first") else number_label(edge)

    def apply(self, series: Series) -> Series:
        """Return the bin of every value; a non-number is missing or *other*."""
        bins = Intervals.between_cuts(self.edges, closed="right", text=self._text)
        cells = Beside((bins, Absent(), Rest()))
        labels = [cells.label(cell) for cell in range(cells.count)]
        return _apply_labels(series, cells.cell_of(read_column(series, self.form)), labels)


@dataclass(frozen=True)
class Generalise:
    """Replace categories by their group, and unlisted values by ``(other)``."""

    kind: ClassVar = "generalise"
    groups: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        pairs = tuple((str(value), str(group)) for value, group in self.groups)
        object.__setattr__(self, "groups", pairs)

    def apply(self, series: Series) -> Series:
        """Return the group of every value."""
        codes, names = labels_of(series)
        table = {MISSING: MISSING} | dict(self.groups)
        return _apply_labels(series, codes, [table.get(name, OTHER) for name in names])


@dataclass(frozen=True)
class Merge:
    """Keep the listed categories, and replace others by ``(other)``."""

    kind: ClassVar = "merge"
    kept: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", tuple(map(str, self.kept)))

    def apply(self, series: Series) -> Series:
        """Return every value's own label or ``(other)``; missing values are a category too."""
        codes, names = labels_of(series)
        kept = set(self.kept)
        return _apply_labels(series, codes, [name if name in kept else OTHER for name in names])


Rule = Keep | Drop | Bins | Merge | Generalise
_RULES: dict[str, type[Rule]] = {r.kind: r for r in (Keep, Drop, Bins, Merge, Generalise)}


@dataclass(frozen=True)
class Pool:
    """Replace coarsened values over ``columns`` by ``(other)`` unless they form a listed cell.

    The other columns (the target, columns to keep) are unchanged and do not affect the rule.
    """

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the table with rare combinations pooled; the pooled columns become text."""
        import pandas as pd

        texts = {c: _apply_labels(frame[c], *labels_of(frame[c])) for c in self.columns}
        inside = np.zeros(len(frame), dtype=bool)
        if self.cells:
            listed = pd.MultiIndex.from_tuples(self.cells, names=self.columns)
            inside = pd.MultiIndex.from_arrays([texts[c] for c in self.columns]).isin(listed)
        pooled = frame.copy(deep=False)
        for column in self.columns:  # assign() takes no column named self
            pooled[column] = texts[column].where(inside, OTHER)
        return pooled


#: Name and version of the JSON layout; readers refuse other versions.
_FORMAT, _SCHEMA = "memberbound recipe", 1


@dataclass(frozen=True)
class Recipe:
    """One rule per column, in the order of the table, then an optional pooling of rare cells.

    ``optional`` columns, such as a target to predict, may be missing in new rows; no other column's
    rule uses them.

    Examples:
        >>> import pandas as pd
        >>> recipe = Recipe((("age", Bins((35,))), ("city", Merge(("a",)))))
        >>> recipe.apply(pd.DataFrame({"age": [99, None], "city": ["z", "a"]})).values.tolist()
        [['>35', '(other)'], ['(missing)', 'a']]
    """

    rules: tuple[tuple[str, Rule], ...]
    pool: Pool | None = None
    optional: tuple[str, ...] = ()

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the coarsened table; leave out columns that the recipe does not have."""
        import pandas as pd

        frame = check_frame(frame)
        rules = [(n, r) for n, r in self.rules if n in frame.columns or n not in self.optional]
        absent = [name for name, _ in rules if name not in frame.columns]
        if absent:
            raise InputError(f"the table must have the recipe's columns, missing: {absent!r}.")
        parts = {n: rule.apply(frame[n]) for n, rule in rules if not isinstance(rule, Drop)}
        out = pd.DataFrame(parts, index=frame.index, columns=list(parts))
        return out if self.pool is None else self.pool.apply(out)

    def steps(self) -> list[str]:
        """Describe the changes to the table, in words; unchanged columns are not mentioned."""
        dropped = [name for name, rule in self.rules if isinstance(rule, Drop)]
        steps = [f"drop {', '.join(dropped)}"] if dropped else []
        for name, rule in self.rules:
            if isinstance(rule, Bins):
                edges = ", ".join(rule.names())
                steps.append(f"put {name} into {len(rule.edges) + 1} bins with edges {edges}")
            elif isinstance(rule, Generalise):
                groups = {group for _, group in rule.groups}
                steps.append(f"generalise {name} to {len(groups)} groups")
            elif isinstance(rule, Merge):
                word = "category" if len(rule.kept) == 1 else "categories"
                kept = ", ".join(rule.kept[:6]) + (", …" if len(rule.kept) > 6 else "")
                steps.append(
                    f"keep {len(rule.kept)} {word} of {name} ({kept}) and merge the others"
                )
        if self.pool is not None:
            count, columns = len(self.pool.cells), ", ".join(self.pool.columns)
            cells = "most frequent combination" if count == 1 else f"{count} frequent combinations"
            steps.append(f"keep the {cells} of {columns} and pool all other rows")
        return steps

    def to_json(self) -> str:
        """Return the recipe as JSON text; nothing is pickled."""
        fields = {
            "format": _FORMAT,
            "schema": _SCHEMA,
            "columns": [{"name": n, "rule": rule.kind, **asdict(rule)} for n, rule in self.rules],
            "pool": None if self.pool is None else asdict(self.pool),
            "optional": self.optional,
        }
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Restore a recipe from :meth:`to_json`."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            raise InputError("a recipe must be JSON text.") from None
        if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
            raise InputError(f"a recipe must be a JSON object with format {_FORMAT!r}.")
        if fields.get("schema") != _SCHEMA:
            raise InputError(f"schema must be {_SCHEMA}, got {fields.get('schema')!r}.")
        try:
            rules = tuple((str(entry["name"]), _rule(entry)) for entry in fields["columns"])
            pool = fields["pool"]
            cells = () if pool is None else tuple(tuple(map(str, c)) for c in pool["cells"])
            pooling = None if pool is None else Pool(tuple(map(str, pool["columns"])), cells)
            return cls(rules, pooling, tuple(map(str, fields["optional"])))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"a recipe must be complete, {error!r} is missing or wrong.") from None


def _rule(entry: Mapping[str, Any]) -> Rule:
    """Return the rule of a JSON object."""
    kind = entry["rule"]
    if kind not in _RULES:
        raise InputError(f"rule must be one of {', '.join(_RULES)}, got {kind!r}.")
    return _RULES[kind](**{n: value for n, value in entry.items() if n not in ("name", "rule")})


def _apply_labels(series: Series, codes: NDArray[np.int64], labels: Sequence[str]) -> Series:
    import pandas as pd

    texts = np.array([*labels, ""], dtype=object)[:-1]
    return pd.Series(texts[codes], index=series.index, name=series.name)


def check_frame(frame: object) -> DataFrame:
    """Return a pandas table with distinct column names and single values."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"the table must be a pandas DataFrame, got {type(frame).__name__!r}.")
    names = list(frame.columns)
    if len(set(names)) != len(names) or not all(isinstance(n, str) for n in names):
        raise InputError(f"the table's columns must have distinct names (text), got {names!r}.")
    for name in names:
        values = frame[name]
        nested = values.dtype == object and values.map(
            lambda value: isinstance(value, (list, dict, set, np.ndarray))
        )
        if np.any(nested):
            raise InputError(
                f"column {name!r} must hold single values, got lists or records. Unpack it first."
            )
    return frame
