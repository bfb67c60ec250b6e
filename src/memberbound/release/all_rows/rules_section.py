"""Read and check the section ``rules`` of a bounds file, before any budget is spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np

from memberbound.errors import InputError
from memberbound.release.all_rows.bounds import RULES, Bounds, Categories, Range, is_rules
from memberbound.release.all_rows.cells import OTHER
from memberbound.release.all_rows.rules import (
    Condition,
    DerivedColumn,
    Implication,
    Mask,
    Order,
    Rules,
)
from memberbound.tables.columns import read_value
from memberbound.tables.spelling import number_label
from memberbound.tables.values import CodedValues, Values

_KINDS = ("derived", "implies", "at_most", "unique")


def read_rules(document: Mapping[str, object], bounds: Bounds) -> Rules:
    """Read the rules of a bounds document, and check them against its bounds and one another.

    Examples:
        >>> groups = {"from": "age", "edges": [18, 65], "labels": ["child", "adult", "old"]}
        >>> rules = read_rules({"rules": {"derived": {"age_group": groups}}}, {})
        >>> [str(rule) for rule in rules.derived]
        ['age_group derived from age']
    """
    section = document.get(RULES)
    if not is_rules(section):
        return Rules(bounds)
    assert isinstance(section, Mapping)
    for kind in section:
        if kind not in (*_KINDS, "column"):
            raise InputError(f"rules must be {', '.join(_KINDS)} or column, got {kind!r}.")
    derived = _mapping("derived", section.get("derived") or {}, "columns to how they are derived")
    reader = _Reader(bounds, frozenset(map(str, derived)))
    rules = Rules(
        bounds,
        reader.derivations(derived),
        reader.implications(_list("implies", section.get("implies"))),
        reader.orders(_list("at_most", section.get("at_most"))),
        tuple(map(str, _list("unique", section.get("unique")))),
    )
    _check_roles(rules)
    _check_end(rules)
    return rules


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────


def _mapping(name: str, given: object, what: str) -> Mapping[object, object]:
    if not isinstance(given, Mapping):
        raise InputError(f"{name} must map {what}, got {given!r}.")
    return given


def _list(name: str, given: object) -> Sequence[object]:
    if given is None:
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(f"{name} must be a list, got {given!r}.")
    return given


def _check_keys(name: str, given: Mapping[object, object], *forms: set[str]) -> None:
    if set(given) not in forms:
        ways = " or ".join(", ".join(sorted(form)) for form in forms)
        raise InputError(f"{name} must have the keys {ways}, got {sorted(map(str, given))}.")


@dataclass(frozen=True)
class _Reader:
    """Parses rules, given the public bounds of columns and the names of derived ones."""

    bounds: Bounds
    derived: frozenset[str]

    def derivations(self, given: Mapping[object, object]) -> tuple[DerivedColumn, ...]:
        """Read derived columns, sorted with sources first."""
        rules = {str(column): self.derivation(str(column), how) for column, how in given.items()}
        order = _sort_names(
            {name: [rule.source] for name, rule in rules.items()}, "derived columns"
        )
        return tuple(rules[name] for name in order if name in rules)

    def derivation(self, column: str, how: object) -> DerivedColumn:
        """Read the derivation of one column."""
        name = f"derived column {column!r}"
        how = _mapping(name, how, "from, and edges with labels or a map")
        _check_keys(name, how, {"from", "edges", "labels"}, {"from", "map"})
        source = str(how["from"])
        edges: tuple[float, ...] = ()
        keys: tuple[str, ...] = ()
        if "map" in how:
            entries = _mapping(f"map of {name}", how["map"], "values to values")
            keys = tuple(self.value(source, key)[1] for key in entries)
            outcomes = tuple(entries.values())
            bound = self.bounds.get(source)
            for label in bound.labels if isinstance(bound, Categories) else ():
                if label and label not in keys:
                    raise InputError(f"map of {name} must have every category, lacks {label!r}.")
            if not keys or len(set(keys)) < len(keys):
                raise InputError(f"map of {name} must have different values, got {list(entries)}.")
        else:
            given, outcomes = _list("edges", how["edges"]), tuple(_list("labels", how["labels"]))
            edges = tuple(self.number(source, edge) for edge in given)
            if not edges or any(a >= b for a, b in pairwise(edges)) or math.isnan(sum(edges)):
                raise InputError(f"edges of {name} must be increasing numbers, got {list(given)}.")
            if len(outcomes) != len(edges) + 1:
                raise InputError(
                    f"labels of {name} must be one more than its {len(edges)} edges, got "
                    f"{len(outcomes)}."
                )
        for outcome in outcomes:
            self.value(column, outcome)
        form = self.bounds[column].form if column in self.bounds else "any"
        return DerivedColumn(column, source, edges, keys, outcomes, form)

    def implications(self, given: Sequence[object]) -> tuple[Implication, ...]:
        """Read implications: one for every column that a rule sets."""
        rules = []
        for entry in given:
            rule = _mapping("a rule of implies", entry, "if and then")
            _check_keys("a rule of implies", rule, {"if", "then"})
            conditions = _mapping("if", rule["if"], "columns to values")
            outcomes = _mapping("then", rule["then"], "columns to values")
            if not conditions or not outcomes:
                raise InputError(f"if and then must name columns, got {dict(rule)!r}.")
            held = tuple(self.condition(str(c), value) for c, value in conditions.items())
            for column, value in outcomes.items():
                rules.append(Implication(held, str(column), *self.value(str(column), value)))
        return tuple(rules)

    def condition(self, column: str, given: object) -> Condition:
        """Read a condition: a value, a list of values, or ends of a range."""
        if isinstance(given, Mapping):
            name = f"the condition on {column!r}"
            ends = {"at_least", "at_most"}
            _check_keys(name, given, {"at_least"}, {"at_most"}, ends)
            low = self.number(column, given.get("at_least", -math.inf))
            high = self.number(column, given.get("at_most", math.inf))
            if not low <= high:
                raise InputError(f"{name} must be numbers that can hold, got {dict(given)!r}.")
            return Condition(column, None, low, high)
        values = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        if not values:
            raise InputError(f"the condition on {column!r} must list a value, got none.")
        return Condition(column, tuple(self.value(column, value)[1] for value in values))

    def orders(self, given: Sequence[object]) -> tuple[Order, ...]:
        """Read pairs with the first column at most the second, sorted along chains."""
        rules = []
        for entry in given:
            pair = [str(name) for name in _list("a pair of at_most", entry)]
            if len(pair) != 2:
                raise InputError(f"at_most must be pairs of columns, got {entry!r}.")
            first, second = (self.numbers_of(name, "at_most") for name in pair)
            if first and second and (first.low > second.high or first.high > second.high):
                raise InputError(
                    f"the range of {pair[0]!r} must end at {number_label(second.high)} or before, "
                    f"like that of {pair[1]!r}, got {number_label(first.high)}."
                )
            rules.append(Order(*pair))
        after: dict[str, list[str]] = {}
        for rule in rules:
            after.setdefault(rule.second, []).append(rule.first)
        order = list(_sort_names(after, "columns of at_most"))
        return tuple(sorted(rules, key=lambda rule: order.index(rule.second)))

    def numbers_of(self, column: str, rule: str) -> Range | None:
        """Return the range of a column; reject categories."""
        bound = self.bounds.get(column)
        if isinstance(bound, Categories):
            raise InputError(
                f"{rule} must be about numbers or dates, got the categories {column!r}."
            )
        return bound

    def number(self, column: str, given: object) -> float:
        """Parse a number or date like the column's values; NaN if it is neither."""
        bound = self.numbers_of(column, "edges, at_least and at_most")
        return read_value(given, "any" if bound is None else bound.form)[0]

    def value(self, column: str, given: object) -> tuple[float, str]:
        """Parse a value of a column as a number and a label; reject impossible values."""
        if isinstance(given, Mapping | list | tuple):
            raise InputError(f"a value of {column!r} must be a text or a number, got {given!r}.")
        bound = self.bounds.get(column)
        number, label = read_value(given, "any" if bound is None else bound.form)
        if column in self.derived and isinstance(given, str):
            label = label or given
        if isinstance(bound, Categories) and label not in (*bound.labels, "", OTHER):
            raise InputError(
                f"a value of {column!r} in a rule must be one of its categories, got {given!r}."
            )
        if isinstance(bound, Range) and label and not bound.low <= number <= bound.high:
            ends = [number_label(bound.low), number_label(bound.high)]
            raise InputError(
                f"a value of {column!r} in a rule must be in its range, {' to '.join(ends)}, got "
                f"{given!r}."
            )
        return number, label


def _sort_names(before: Mapping[str, Iterable[str]], what: str) -> tuple[str, ...]:
    """Sort names topologically; reject cycles."""
    try:
        return tuple(TopologicalSorter(before).static_order())
    except CycleError as circle:
        names = " → ".join(circle.args[1])
        raise InputError(
            f"{what} must not depend on each other in a circle, got {names}."
        ) from None


# ── Consistency ───────────────────────────────────────────────────────────────────────────────────


def _check_roles(rules: Rules) -> None:
    """Reject a column that two rules would set."""
    derived = {rule.column for rule in rules.derived}
    ordered = {name for rule in rules.orders for name in rule.columns}
    used = {name for rule in rules.between_columns for name in rule.columns}
    for name in rules.unique:
        if name in used or rules.unique.count(name) > 1:
            raise InputError(f"the unique column {name!r} must be in no other rule.")
        if isinstance(rules.bounds.get(name), Categories):
            raise InputError(f"a unique column must not have categories, got {name!r}.")
    for name in sorted(ordered & derived):
        raise InputError(f"at_most must be about columns that are drawn, got the derived {name!r}.")
    for rule in rules.implied:
        if rule.column in derived:
            raise InputError(f"the derived column {rule.column!r} must not be implied as well.")
        if rule.column in ordered and rule.label:
            raise InputError(
                f"{rule.column!r} is in at_most, so that a rule must imply nothing but a missing "
                f"value (null) for it, got {rule.label!r}."
            )


def _check_end(rules: Rules) -> None:
    """Reject contradictory implications, which might never terminate.

    After a rule is applied to a row, the row has its outcome and meets its conditions on other
    columns. The rule *triggers* another one if such a row may now break that rule because of the
    column just set. Without a cycle of triggers, every row changes finitely often.  Whether such a
    row exists is decided exactly, column by column, on one value of each kind that the rules can
    distinguish.
    """
    if len(rules.implied) < 2:
        return
    derived = {rule.column: rule for rule in rules.derived}
    values = _representatives(rules)

    def read(column: str) -> tuple[str, Values]:
        """Return the ultimate source of a column, and the derived values."""
        if column not in derived:
            return column, values[column]
        root, source = read(derived[column].source)
        return root, derived[column].values(source)

    reached: list[dict[str, Mask]] = []
    broken: list[dict[str, Mask]] = []
    for rule in rules.implied:
        held: dict[str, Mask] = {}
        for condition in rule.conditions:
            root, there = read(condition.column)
            held[root] = held.get(root, True) & condition.holds(there)
        right = values[rule.column].positions([rule.label]) >= 0
        reached.append({**held, rule.column: right})
        broken.append({**held, rule.column: held.get(rule.column, True) & ~right})
    triggers = {
        later: [
            earlier
            for earlier, after in enumerate(reached)
            if rules.implied[earlier].column in before
            and all((before[name] & after.get(name, True)).any() for name in before)
            and all(mask.any() for mask in after.values())
        ]
        for later, before in enumerate(broken)
    }
    try:
        TopologicalSorter(triggers).prepare()
    except CycleError as circle:
        first, second = (str(rules.implied[index]) for index in circle.args[1][:2])
        raise InputError(
            f"rules must not contradict each other, got {first!r} and {second!r}, which can both "
            "apply to a row."
        ) from None


def _representatives(rules: Rules) -> dict[str, Values]:
    """Return, for every source column, one value of each kind that rules can distinguish."""
    entries: dict[str, set[tuple[float, str]]] = {}
    for rule in rules.implied:
        entries.setdefault(rule.column, set()).add((rule.number, rule.label))
        for condition in rule.conditions:
            known = entries.setdefault(condition.column, set())
            known |= {(read_value(label)[0], label) for label in condition.labels or ()}
            known |= {(end, number_label(end)) for end in (condition.low, condition.high)}
    for derivation in rules.derived:
        known = entries.setdefault(derivation.source, set())
        known |= {(read_value(label)[0], label) for label in derivation.keys}
        known |= {(edge, number_label(edge)) for edge in derivation.edges}
    columns: dict[str, Values] = {}
    for name, known in entries.items():
        numbers = sorted({number for number, _ in known if math.isfinite(number)}) or [0.0]
        between = [(a + b) / 2 for a, b in pairwise(numbers)]
        between += [np.nextafter(numbers[0], -math.inf), np.nextafter(numbers[-1], math.inf)]
        known |= {(number, number_label(number)) for number in between}
        # A text in no rule, and a missing value.
        pairs = [*known, (math.nan, "\0"), (math.nan, "")]
        codes = np.arange(len(pairs))
        columns[name] = CodedValues(codes, np.array([n for n, _ in pairs]), [t for _, t in pairs])
    return columns
