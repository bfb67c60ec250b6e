"""A recipe: how each column of a table is coarsened, row by row, written down as JSON.

A recipe is a function of one row.  That is what makes a certificate possible: the coarsened rows of
an i.i.d. sample are again i.i.d., from the image of the law (``proofs/hardening.md``).  Every value
has a stated place, also one that was never seen: numbers beyond the outer edges fall into the outer
bins, unknown categories into ``(other)``, missing ones into ``(missing)``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.tables.columns import Values, iso_date, number_label

if TYPE_CHECKING:
    from pandas import DataFrame, Series

OTHER, MISSING = "(other)", "(missing)"


def labels_of(series: Series) -> tuple[NDArray[np.int64], list[str]]:
    """Return codes and texts of a column's values, with missing ones as ``(missing)``.

    A text is its own label, blanks around it left out; a value's label depends on that value alone.
    """
    codes, labels = Values.of(series, "text").coded()
    # Values that differ as objects may share their text (39 and "39"): one label, one code.
    index: dict[str, int] = {}
    for label in labels:
        index.setdefault(label or MISSING, len(index))
    dense = np.array([index[label or MISSING] for label in labels], dtype=np.int64)
    return dense[codes], list(index)


def exact_codes(series: Series) -> NDArray[np.int64]:
    """Number the values of a column; what any program could tell apart gets two numbers."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(series.dtype, pd.StringDtype):
        # Arrow compares all bytes of a text; half of a surrogate pair has none and is coded below.
        with contextlib.suppress(UnicodeError, pa.ArrowException):
            texts = pa.array(series.to_numpy(dtype=object, na_value=None), pa.large_string())
            codes = texts.dictionary_encode(null_encoding="encode").indices
            return np.asarray(codes, dtype=np.int64)
    if series.dtype.kind == "O":
        # 1, 1.0 and True are equal to Python but differ in a written file: tell them apart.  Not by
        # pandas, whose version 2 compares texts up to their first zero byte.
        spelled = ((type(v).__name__, v if isinstance(v, str) else repr(v)) for v in series)
        seen: dict[tuple[str, str] | None, int] = {}
        present = pd.notna(series).to_numpy()
        keys = (key if there else None for key, there in zip(spelled, present, strict=True))
        return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f":
        # By their bits, so that -0.0 is not 0.0; NaN says that a value is missing.
        values = series.to_numpy(dtype=np.float64)
        series = pd.Series(np.where(np.isnan(values), np.nan, values).view(np.int64))
    return np.asarray(pd.factorize(series, use_na_sentinel=False)[0], dtype=np.int64)


def numbers_of(
    series: Series, form: str = "number"
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the column as floats (NaN where it is no number), and where a value is missing."""
    values = Values.of(series, form)
    return values.numbers, values.positions([""]) == 0


class _Rule:
    """What happens to a column; its fields are those of its JSON object, ``kind`` its name."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields; those with their default are left out."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(cast(Any, self))}
        return {"rule": self.kind} | {n: v for n, (v, default) in values.items() if v != default}


@dataclass(frozen=True)
class Keep(_Rule):
    """The column as it is."""

    kind = "keep"

    def apply(self, series: Series) -> Series:
        """Return the column unchanged, but for the sign of zero, which would tell rows apart."""
        return series + 0.0 if series.dtype.kind == "f" else series

    def describe(self, column: str) -> str:
        """Return the step in words."""
        return f"keep {column} as it is"


@dataclass(frozen=True)
class Drop(_Rule):
    """The column is left out."""

    kind = "drop"

    def apply(self, series: Series) -> Series:
        """Nothing is left of the column."""
        del series

    def describe(self, column: str) -> str:
        """Return the step in words."""
        return f"drop {column}"


@dataclass(frozen=True)
class Bins(_Rule):
    """Numbers by interval: up to and including the first edge, …, above the last edge.

    Intervals are closed on the right, so an edge at a frequent smallest value (zero capital gain)
    separates it from the rest.
    """

    kind = "bins"
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
        """Return the edges as people read them."""
        return [number_label(e) for e in self.edges]

    def labels(self) -> list[str]:
        """Return the names of the bins, then those of values that are no numbers."""
        names = self.names()
        inner = [f"({a}, {b}]" for a, b in pairwise(names)]
        return [f"<={names[0]}", *inner, f">{names[-1]}", MISSING, OTHER]

    def codes(self, series: Series) -> NDArray[np.int64]:
        """Return the position in :meth:`labels` of every value."""
        values, missing = numbers_of(series, self.form)
        codes = np.searchsorted(np.asarray(self.edges), values, side="left").astype(np.int64)
        bins = len(self.edges) + 1
        return np.where(missing, bins, np.where(np.isnan(values), bins + 1, codes))

    def apply(self, series: Series) -> Series:
        """Return the names of the bins."""
        return _labelled(series, self.codes(series), self.labels())

    def describe(self, column: str) -> str:
        """Return the step in words."""
        edges = ", ".join(self.names())
        return f"put {column} into {len(self.edges) + 1} bins with edges {edges}"


@dataclass(frozen=True)
class Dates(Bins):
    """Dates by interval, as :class:`Bins`; the edges are days since 1970-01-01 in UTC."""

    kind = "dates"
    form: str = "date"

    def names(self) -> list[str]:
        """Return the edges as dates; with the time where it is not midnight."""
        return [iso_date(edge) for edge in self.edges]


@dataclass(frozen=True)
class Generalise(_Rule):
    """Categories by their group; a value that is not listed becomes ``(other)``."""

    kind = "generalise"
    groups: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        pairs = tuple((str(value), str(group)) for value, group in self.groups)
        object.__setattr__(self, "groups", pairs)

    def apply(self, series: Series) -> Series:
        """Return the group of every value."""
        codes, names = labels_of(series)
        table = {MISSING: MISSING} | dict(self.groups)
        return _labelled(series, codes, [table.get(name, OTHER) for name in names])

    def describe(self, column: str) -> str:
        """Return the step in words."""
        size = len({group for _, group in self.groups})
        return f"generalise {column} to {size} groups"


@dataclass(frozen=True)
class Merge(_Rule):
    """Listed categories stay, every other one becomes ``(other)``."""

    kind = "merge"
    kept: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", tuple(map(str, self.kept)))

    def apply(self, series: Series) -> Series:
        """Return every value's own name or ``(other)``; a missing value is a category as well."""
        codes, names = labels_of(series)
        kept = set(self.kept)
        return _labelled(series, codes, [name if name in kept else OTHER for name in names])

    def describe(self, column: str) -> str:
        """Return the step in words."""
        names = ", ".join(self.kept[:6]) + (", …" if len(self.kept) > 6 else "")
        size = len(self.kept)
        word = "category" if size == 1 else "categories"
        return f"keep {size} {word} of {column} ({names}) and merge the others"


Rule = Keep | Drop | Bins | Dates | Merge | Generalise
_RULES: dict[str, type[Rule]] = {r.kind: r for r in (Keep, Drop, Bins, Dates, Merge, Generalise)}


@dataclass(frozen=True)
class Pool:
    """Rows whose coarsened values over ``columns`` are no listed cell become ``(other)`` there.

    The other columns (the target, columns to keep) stay, so the rule never looks at them.
    """

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the table with rare combinations pooled; the pooled columns become text."""
        import pandas as pd

        texts = {c: _labelled(frame[c], *labels_of(frame[c])) for c in self.columns}
        listed = pd.MultiIndex.from_tuples(self.cells, names=self.columns) if self.cells else None
        if listed is None:
            inside = np.zeros(len(frame), dtype=bool)
        else:
            rows = pd.MultiIndex.from_arrays([texts[c] for c in self.columns])
            inside = rows.isin(listed)
        pooled = {c: texts[c].where(inside, OTHER) for c in self.columns}
        return frame.assign(**pooled)

    def describe(self) -> str:
        """Return the step in words."""
        count = len(self.cells)
        kept = (
            "the most frequent combination" if count == 1 else f"the {count} frequent combinations"
        )
        return f"keep {kept} of {', '.join(self.columns)} and pool all other rows"


@dataclass(frozen=True)
class Recipe:
    """One rule per column, in the order of the table, then an optional pooling of rare cells."""

    rules: tuple[tuple[str, Rule], ...]
    pool: Pool | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that a table must have."""
        return tuple(name for name, _ in self.rules)

    @property
    def released(self) -> tuple[str, ...]:
        """Columns of the coarsened table."""
        return tuple(name for name, rule in self.rules if not isinstance(rule, Drop))

    def apply(self, frame: DataFrame, optional: Collection[str] = ()) -> DataFrame:
        """Return the coarsened table; columns the recipe does not know are left out.

        Only ``optional`` columns may be absent (a target that is yet to be predicted).
        """
        import pandas as pd

        rules = [(n, rule) for n, rule in self.rules if n in frame.columns or n not in optional]
        absent = [name for name, _ in rules if name not in frame.columns]
        if absent:
            raise InputError(f"the table must have the recipe's columns, missing: {absent!r}.")
        parts = {n: rule.apply(frame[n]) for n, rule in rules if not isinstance(rule, Drop)}
        out = pd.DataFrame(parts, index=frame.index, columns=list(parts))
        return out if self.pool is None else self.pool.apply(out)

    def steps(self) -> list[str]:
        """Return what happens to the table, in words; columns that stay are not mentioned."""
        dropped = [name for name, rule in self.rules if isinstance(rule, Drop)]
        steps = [Drop().describe(", ".join(dropped))] if dropped else []
        steps += [r.describe(name) for name, r in self.rules if not isinstance(r, (Keep, Drop))]
        return steps if self.pool is None else [*steps, self.pool.describe()]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields; :meth:`from_dict` gives back an equal recipe."""
        return {
            "columns": [{"name": name, **rule.to_dict()} for name, rule in self.rules],
            "pool": None if self.pool is None else vars(self.pool),
        }

    @classmethod
    def from_dict(cls, fields: object) -> Recipe:
        """Return the recipe that :meth:`to_dict` described."""
        if not isinstance(fields, Mapping):
            raise InputError(f"a recipe must be a JSON object, got {type(fields).__name__}.")
        try:
            rules = tuple((str(entry["name"]), _rule(entry)) for entry in fields["columns"])
            pool = fields.get("pool")
            cells = () if pool is None else tuple(tuple(map(str, c)) for c in pool["cells"])
            pooling = None if pool is None else Pool(tuple(map(str, pool["columns"])), cells)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"a recipe must be complete, {error!r} is missing or wrong.") from None
        return cls(rules, pooling)


def _labelled(series: Series, codes: NDArray[np.int64], labels: Sequence[str]) -> Series:
    import pandas as pd

    texts = np.array([*labels, ""], dtype=object)[:-1]
    return pd.Series(texts[codes], index=series.index, name=series.name)


def _rule(entry: Mapping[str, Any]) -> Rule:
    """Return the rule of a JSON object."""
    kind = entry["rule"]
    if kind not in _RULES:
        raise InputError(f"rule must be one of {', '.join(_RULES)}, got {kind!r}.")
    return _RULES[kind](**{n: value for n, value in entry.items() if n not in ("name", "rule")})
