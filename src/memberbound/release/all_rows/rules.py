"""Represent public rules between columns, and apply them to drawn rows.

Rules are public statements, like bounds: they never depend on the rows and cost no privacy budget.
``derived`` and ``unique`` columns are not measured.  All rules are applied to drawn rows, as
post-processing, in this order:

1. ``at_most``: the second column of a pair is raised to the first if it is smaller;
2. ``implies``, in the order of the file, until nothing changes; ``derived`` columns are computed
   again whenever their source changes, so a condition always sees the current value;
3. ``unique``: fresh whole numbers.

Step 2 terminates, and no later step undoes an earlier one: rules without that guarantee are
rejected when they are read (:mod:`.rules_section`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.release.all_rows.bounds import Bounds, Range, forms_of
from memberbound.tables.cells import Beside, Cells, Intervals, LabelCells, Rest
from memberbound.tables.columns import label_of, read_column, read_value
from memberbound.tables.spelling import EPOCH, Form, iso_date, number_label
from memberbound.tables.values import CodedValues, Values

if TYPE_CHECKING:
    import pandas as pd

#: Whole numbers below this are exact; days since 1970 of the years 1 to 9999.
_MOST_WHOLE, _FIRST_DAY, _LAST_DAY = 2.0**53, -719_162, 2_932_896
Mask = NDArray[np.bool_]
#: Return the values of a column by its name.
Reader = Callable[[str], Values]


# ── The kinds of rules ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Condition:
    """A column has one of some labels, or (without labels) a number from ``low`` to ``high``."""

    column: str
    labels: tuple[str, ...] | None
    low: float = -math.inf
    high: float = math.inf

    def holds(self, values: Values) -> Mask:
        """Return a mask of the values that meet the condition."""
        if self.labels is not None:
            return values.positions(self.labels) >= 0
        numbers = values.numbers
        return (numbers >= self.low) & (numbers <= self.high)

    def __str__(self) -> str:
        if self.labels is not None:
            return f"{self.column} = {' or '.join(label or 'missing' for label in self.labels)}"
        low = f"{number_label(self.low)} ≤ " if self.low > -math.inf else ""
        high = f" ≤ {number_label(self.high)}" if self.high < math.inf else ""
        return f"{low}{self.column}{high}"


@dataclass(frozen=True)
class Implication:
    """A rule that sets a column to a value if all conditions hold."""

    conditions: tuple[Condition, ...]
    column: str
    number: float
    label: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return (self.column, *(condition.column for condition in self.conditions))

    def breaks(self, read: Reader) -> Mask:
        """Return for every row whether it breaks the rule."""
        mask = read(self.column).positions([self.label]) < 0
        for condition in self.conditions:
            mask &= condition.holds(read(condition.column))
        return mask

    def __str__(self) -> str:
        conditions = " and ".join(map(str, self.conditions))
        return f"{conditions} implies {self.column} = {self.label or 'missing'}"


@dataclass(frozen=True)
class DerivedColumn:
    """A column that is a function of another one: of the group between edges, or of the label.

    A number that equals an edge belongs to the group above it.
    """

    column: str
    source: str
    edges: tuple[float, ...]
    keys: tuple[str, ...]
    outcomes: tuple[object, ...]
    #: Form of the values in the real column.
    form: Form = "any"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return (self.column, self.source)

    def values(self, source: Values) -> CodedValues:
        """Return the derived values; missing where the source has no group or entry."""
        groups: Cells = LabelCells(self.keys)
        if self.edges:
            groups = Intervals.between_cuts(self.edges)
        codes = Beside((groups, Rest())).cell_of(source)
        outcomes = [*map(read_value, self.outcomes), (math.nan, "")]
        # A given text is a value, even one that usually denotes a missing value.
        given = [value if isinstance(value, str) else "" for value in (*self.outcomes, None)]
        labels = [label or text for (_, label), text in zip(outcomes, given, strict=True)]
        return CodedValues(codes, np.array([number for number, _ in outcomes]), labels)

    def series(self, source: Values) -> pd.Series[object]:
        """Return the derived values as a column: whole numbers, numbers or texts."""
        import pandas as pd

        derived = self.values(source)
        given = [value for value in self.outcomes if value is not None]
        if given and not any(isinstance(value, str | bool) for value in given):
            whole = all(isinstance(value, int) for value in given)
            numbers = pd.Series(derived.numbers, dtype="Float64" if whole else "float64")
            return numbers.astype("Int64") if whole else numbers
        texts = np.array([label or None for label in derived.texts], dtype=object)
        return pd.Series(texts[derived.codes], dtype=object)

    def breaks(self, read: Reader) -> Mask:
        """Return for every row whether it breaks the rule."""
        derived = self.values(read(self.source))
        labels = [label_of(label, self.form) for label in derived.texts]
        distinct = list(dict.fromkeys(labels))
        expected = np.array([distinct.index(label) for label in labels])[derived.codes]
        return np.asarray(expected != read(self.column).positions(distinct))

    def __str__(self) -> str:
        return f"{self.column} derived from {self.source}"


@dataclass(frozen=True)
class Order:
    """A pair of columns: where both are known, the first number or date is at most the second."""

    first: str
    second: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return (self.first, self.second)

    def breaks(self, read: Reader) -> Mask:
        """Return a mask of the rows that break the rule; dates are not compared to numbers."""
        first, second = read(self.first), read(self.second)
        return np.asarray((first.numbers > second.numbers) & (first.dates == second.dates))

    def __str__(self) -> str:
        return f"{self.first} at most {self.second}"


@dataclass(frozen=True)
class Rules:
    """All rules of a bounds file."""

    bounds: Bounds
    derived: tuple[DerivedColumn, ...] = ()
    implied: tuple[Implication, ...] = ()
    orders: tuple[Order, ...] = ()
    unique: tuple[str, ...] = ()

    def check(
        self, columns: Iterable[str], target: str | None, unit: str | None, rows: int
    ) -> None:
        """Reject rules that do not fit a table with these columns, without reading values."""
        known = set(columns)
        for name in (*(c for rule in self.between_columns for c in rule.columns), *self.unique):
            if name not in known:
                raise InputError(
                    f"rules must be about columns that are drawn, got {name!r}. Leave the rule "
                    "out, or the column in."
                )
            if name == unit:
                raise InputError(
                    f"rules must not be about the unit, got {name!r}, which has fresh numbers."
                )
        for kind, names in (
            ("derived", [rule.column for rule in self.derived]),
            ("implied", [rule.column for rule in self.implied]),
            ("raised by at_most", [rule.second for rule in self.orders]),
            ("unique", self.unique),
        ):
            if target in names:
                raise InputError(
                    f"the target must not be {kind}, got {target!r}: a rule would fix the label."
                )
        for name in self.unique:
            bound = self.bounds.get(name)
            if not isinstance(bound, Range):
                continue
            held = math.floor(bound.high) - math.ceil(bound.low) + 1
            if held < rows or bound.low < -_MOST_WHOLE or bound.low + rows > _MOST_WHOLE:
                raise InputError(
                    f"the range of the unique column {name!r} must hold {rows} whole numbers, got "
                    f"{[bound.low, bound.high]!r}."
                )

    @property
    def between_columns(self) -> tuple[Order | Implication | DerivedColumn, ...]:
        """All rules except those about a single column."""
        return (*self.orders, *self.implied, *self.derived)

    @property
    def empty(self) -> bool:
        """Whether there is no rule."""
        return not (self.between_columns or self.unique)

    def select_measured(self, columns: Iterable[str]) -> list[str]:
        """Return the columns to measure: all except derived and unique ones."""
        free = {*self.unique, *(rule.column for rule in self.derived)}
        return [name for name in columns if name not in free]

    def apply(self, frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
        """Apply the rules to drawn rows, and order the columns as ``names``.

        Guarantee: a function of the drawn rows and the rules.
        Edge cases: a rule about a column that is not drawn (free text) is left out, and so is a
        column that is derived from it.
        """
        import pandas as pd

        rows = _Rows(frame, self)
        for order in filter(rows.have, self.orders):
            rows.raise_second(order)
        # A rule that no other triggers holds after the first round, the rules it triggers after the
        # next, and so on.
        implied = [*filter(rows.have, self.implied)]
        for _ in implied:
            changes = [rows.follow(rule) for rule in implied]
            if not any(changes):
                break
        derived = {name: rule.series(rows.read(rule.source)) for name, rule in rows.derived.items()}
        columns = {**rows.columns, **derived}
        for name in self.unique:
            first = math.ceil(getattr(self.bounds.get(name), "low", 1.0))
            columns[name] = pd.Series(np.arange(first, first + len(frame)))
        return pd.DataFrame({name: columns[name] for name in names if name in columns})

    def broken_shares(self, table: Mapping[str, Values]) -> dict[str, float]:
        """Return the share of rows that break a rule, for every rule broken by some row.

        The result is for the owner of the rows only.
        """
        shares = {str(r): float(np.mean(r.breaks(table.__getitem__))) for r in self.between_columns}
        for name in self.unique:
            values = table[name]
            given = len(values) - int(values.absent.sum())
            shares[f"{name} unique"] = (given - values.distinct) / max(len(values), 1)
        return {name: share for name, share in shares.items() if share > 0}


class _Rows:
    """Drawn rows that rules modify; derived columns are computed on access."""

    def __init__(self, frame: pd.DataFrame, rules: Rules) -> None:
        free = {*rules.unique, *(rule.column for rule in rules.derived)}
        self.columns = {str(n): frame[n] for n in frame.columns if n not in free}
        self.bounds, self.forms = rules.bounds, forms_of(rules.bounds)
        self.derived: dict[str, DerivedColumn] = {}
        for rule in rules.derived:  # sources first
            if rule.source in self.columns or rule.source in self.derived:
                self.derived[rule.column] = rule
        self._values: dict[str, Values] = {}

    def have(self, rule: Order | Implication) -> bool:
        """Return whether all columns of a rule are drawn."""
        return all(name in self.columns or name in self.derived for name in rule.columns)

    def read(self, name: str) -> Values:
        """Return the current values of a column."""
        if name not in self._values:
            if name in self.derived:
                rule = self.derived[name]
                self._values[name] = rule.values(self.read(rule.source))
            else:
                self._values[name] = read_column(self.columns[name], self.forms.get(name, "any"))
        return self._values[name]

    def put(self, name: str, mask: Mask, number: Any, label: Any) -> None:
        """Set a column at some rows, keeping its type if it can hold the values."""
        if not mask.any():
            return
        bound = self.bounds.get(name)
        form = bound.form if isinstance(bound, Range) else "any"
        self.columns[name] = _put(self.columns[name], mask, number, label, form)
        self._values = {
            column: values
            for column, values in self._values.items()
            if column != name and column not in self.derived
        }

    def follow(self, rule: Implication) -> bool:
        """Apply a rule to the rows that break it; return whether any row did."""
        mask = rule.breaks(self.read)
        self.put(rule.column, mask, rule.number, rule.label)
        return bool(mask.any())

    def raise_second(self, order: Order) -> None:
        """Raise the second column of a pair to the first where it is smaller."""
        mask = order.breaks(self.read)
        first, second = self.read(order.first), self.read(order.second)
        raised = first.numbers[mask]
        known = second.numbers[~np.isnan(second.numbers)]
        if np.all(known == np.floor(known)):
            raised = np.ceil(raised)  # whole numbers stay whole, days stay days
        pairs = zip(raised.tolist(), first.dates[mask].tolist(), strict=True)
        labels = [iso_date(number) if dated else number_label(number) for number, dated in pairs]
        self.put(order.second, mask, raised, labels)


def _put(
    column: pd.Series[object], mask: Mask, number: Any, label: Any, form: Form
) -> pd.Series[object]:
    """Replace values of a column at some rows, by one value or one per row.

    Edge cases: a column of numbers or times becomes a text column if it cannot hold a value.
    """
    kind = getattr(column.dtype, "kind", "O")
    column = column.astype("Int64") if kind in "iu" else column.copy()
    dated = bool(np.all((number >= _FIRST_DAY) & (number <= _LAST_DAY)))
    if isinstance(label, str) and not label:
        column[mask] = None
    elif kind in "iuf" and np.all(np.abs(number) < _MOST_WHOLE):
        if kind != "f" and np.any(number != np.floor(number)):
            column = column.astype("Float64")
        column[mask] = number
    elif kind == "M" and dated:
        micros = np.rint(np.asarray(number) * 86_400) * 1e6
        column[mask] = micros.astype(np.int64).astype("datetime64[us]")
    else:
        if "%" in form and dated:
            days = np.atleast_1d(number).tolist()
            label = [(EPOCH + timedelta(days=day)).strftime(form) for day in days]
            label = label if np.ndim(number) else label[0]
        column = column.astype(object)
        column[mask] = label
    return column
