"""Public bounds of columns: ranges and categories, from a mapping or a file.

Bounds are public knowledge: using them costs no privacy budget.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from memberbound.errors import InputError, finite_number
from memberbound.files import read_document
from memberbound.numerics.rounding import FloatArray
from memberbound.tables.columns import label_of, read_value
from memberbound.tables.spelling import Form, check_format, with_words

# ── Bounds of a column ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Range:
    """A public range of numbers or days, with the form in which the column writes them."""

    low: float
    high: float
    form: Form = "any"
    #: Public edges of bins, including the ends of the range; empty: bins are chosen automatically.
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        low, high = finite_number("low", self.low), finite_number("high", self.high)
        if self.edges:
            inner = [finite_number("edges", edge) for edge in self.edges]
            first, last = [low] * (inner[0] != low), [high] * (inner[-1] != high)
            edges = (*first, *inner, *last)
            if any(a >= b for a, b in pairwise(edges)):
                raise InputError(
                    "edges must be numbers in increasing order, inside the range where one is "
                    f"given, got {_abbreviate(self.edges)}."
                )
            object.__setattr__(self, "edges", edges)
        # Half of the width is a divisor, so it must not underflow to 0.
        if not 4 * sys.float_info.min <= high - low < math.inf:
            raise InputError(f"a range must be [low, high] with low < high, got {[low, high]!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def half(self) -> float:
        """Half of the width."""
        return (self.high - self.low) / 2

    @property
    def middle(self) -> float:
        """The midpoint, computed without overflow."""
        return self.low + self.half

    def scale(self, numbers: FloatArray) -> FloatArray:
        """Map the range to [-1, 1]; clip numbers outside it, and keep NaN.

        Examples:
            >>> Range(0.0, 10.0).scale(np.array([-3.0, 5.0, 10.0])).tolist()
            [-1.0, 0.0, 1.0]
        """
        inside = np.clip(numbers, self.low, self.high)
        return np.clip((inside - self.middle) / self.half, -1.0, 1.0)

    def rescale(self, scaled: FloatArray) -> FloatArray:
        """Map [-1, 1] back to the range; clip numbers outside [-1, 1]."""
        return np.asarray(self.middle + self.half * np.clip(scaled, -1.0, 1.0))


@dataclass(frozen=True)
class Categories:
    """A column of values from a public list; all other values count as *other*.

    The empty label denotes missing values; if listed, they form a category.  A listed word such as
    ``none`` or ``null`` is a value of the column, not a missing one.
    """

    labels: tuple[str, ...]
    form: Form = "any"

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            # Do not quote them: they may be a column of a secret table.
            raise InputError(
                f"categories must be different values, got {len(self.labels)} of which "
                f"{len(set(self.labels))} differ."
            )
        object.__setattr__(self, "form", with_words(self.form, self.labels))


Bounds = Mapping[str, Range | Categories]
_DECIMALS = {".": "number", ",": "comma"}
#: The entry of a bounds document that holds rules between columns.
RULES = "rules"
#: Keys of a column's bound.
_BOUND_KEYS = {"range", "categories", "edges", "decimal", "format"}
#: Endings of files that can hold bounds.
_DOCUMENTS = (".yaml", ".yml", ".json", ".txt", "")


def _bound(stated: object) -> Range | Categories:
    if isinstance(stated, Range | Categories):
        return stated
    kind, entries, form = "", stated, "any"
    if isinstance(stated, Mapping):
        kinds = [key for key in stated if key not in ("decimal", "format")]
        if len(stated) <= len(kinds) + 1 and set(kinds) in ({"edges"}, {"edges", "range"}):
            return _range_with_edges(stated)
        if kinds in (["range"], ["categories"]) and len(stated) <= 2:
            kind, entries, form = str(kinds[0]), stated[kinds[0]], _form(stated)
    if isinstance(entries, Sequence) and not isinstance(entries, str) and entries:
        ends = None if kind == "categories" else _ends(entries, form)
        if ends is not None:
            return Range(*ends, form)
        if kind != "range":
            form = with_words(form, (value for value in entries if isinstance(value, str)))
            return Categories(tuple(label_of(value, form) for value in entries), form)
    raise InputError(
        "a bound must be [low, high], a list of categories, {edges: [a, b, c]}, or {range: [low, "
        f"high]}} with decimal or format, got {_abbreviate(stated)}. "
        "Two numbers (or dates) that are categories are written {categories: [0, 1]}."
    )


def _range_with_edges(stated: Mapping[object, object]) -> Range:
    """Return a range with public bin edges; its ends default to the outer edges."""
    form, given = _form(stated), stated["edges"]
    edges: list[float] = []
    if isinstance(given, Sequence) and not isinstance(given, str):
        edges = [_end(value, form) for value in given]
    ends: object = stated.get("range", (edges[0], edges[-1]) if len(edges) > 1 else ())
    ends = _ends(ends, form) if isinstance(ends, Sequence) else None
    if ends is None or not edges or any(map(math.isnan, edges)):
        raise InputError(
            f"edges must be at least two numbers (or dates) in increasing order, got "
            f"{_abbreviate(given)}."
        )
    return Range(*ends, form, tuple(edges))


def _ends(stated: Sequence[object], form: Form) -> tuple[float, float] | None:
    """Return the ends of a range (two numbers or two dates), or None for anything else."""
    if len(stated) != 2:
        return None
    low, high = (_end(value, form) for value in stated)
    return None if math.isnan(low) or math.isnan(high) else (low, high)


def _end(value: object, form: Form) -> float:
    if isinstance(value, bool):
        return math.nan
    if not isinstance(value, str):
        return read_value(value)[0]
    # A text is an end only if it is an unambiguous date: "1" is a category.
    forms = (form,) if "%" in form else ()
    days = [read_value(value, way)[0] for way in (*forms, "date", "day-first")]
    meanings = {day for day in days if not math.isnan(day)}
    return meanings.pop() if len(meanings) == 1 else math.nan


def _form(stated: Mapping[object, object]) -> Form:
    if "decimal" in stated:
        mark = stated["decimal"]
        if mark not in _DECIMALS:
            raise InputError(f"decimal must be '.' or ',', got {mark!r}.")
        return _DECIMALS[str(mark)]
    if "format" in stated:
        return check_format(str(stated["format"]))
    return "any"


def _abbreviate(stated: object) -> str:
    """Abbreviate a value for an error message; a longer one may be a secret column."""
    text = repr(stated)
    if isinstance(stated, Sequence | Mapping) and not isinstance(stated, str) and len(stated) > 2:
        return f"a {type(stated).__name__} of {len(stated)} entries"
    return text if len(text) <= 60 else f"{text[:57]}…"


#: Public facts about columns: a mapping, or a YAML or JSON file that holds one.
PublicDocument = Mapping[str, object] | str | os.PathLike[str] | None


def is_rules(stated: object) -> bool:
    """Return whether the entry ``rules`` holds rules, rather than bounds of such a column."""
    return isinstance(stated, Mapping) and not (stated and set(stated) <= _BOUND_KEYS)


def read_statements(stated: PublicDocument) -> Mapping[str, object]:
    """Return a bounds document unparsed: the mapping itself, or the content of a file."""
    if stated is None:
        return {}
    table: object = stated
    if isinstance(stated, str | os.PathLike):
        if Path(stated).suffix.lower() not in _DOCUMENTS:
            # It may be the secret table, so do not read it.
            raise InputError(
                f"bounds must be a YAML or JSON file, got {Path(stated).name!r}. "
                "memberbound bounds FILE writes a template for the columns of a table."
            )
        table = read_document(stated, "bounds", words=True)
    if not isinstance(table, Mapping):
        # It may be the secret table itself, so do not quote it.
        raise InputError(
            "bounds must map columns to ranges or categories (memberbound bounds writes a "
            f"template), got {type(table).__name__}."
        )
    return table


def read_bounds(stated: PublicDocument) -> dict[str, Range | Categories]:
    """Read public bounds from a mapping, or from a YAML or JSON file that holds one.

    Rules are skipped (:mod:`.rules_section`).  If there are rules, a column that is itself named
    ``rules`` has its bound in their entry ``column``.

    Examples:
        >>> public = read_bounds(
        ...     {"ward": {"categories": [1, 2]}, "kg": {"range": [0, 300], "decimal": ","}}
        ... )
        >>> public["ward"].labels, public["kg"]
        (('1', '2'), Range(low=0.0, high=300.0, form='comma', edges=()))
    """
    table = read_statements(stated)
    if is_rules(table.get(RULES)):
        section = table[RULES]
        assert isinstance(section, Mapping)
        table = {**table, RULES: section.get("column")}
    bounds = {}
    for name, value in table.items():
        # Skip empty entries of a template.
        if value is not None:
            try:
                bounds[str(name)] = _bound(value)
            except InputError as problem:
                raise InputError(f"bounds of {str(name)!r}: {problem}") from None
    return bounds


def forms_of(bounds: Bounds) -> dict[str, Form]:
    """Return the forms of the bounded columns."""
    return {name: bound.form for name, bound in bounds.items()}
