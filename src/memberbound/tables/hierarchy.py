"""Hierarchies of categories: a value, its parent, its grandparent.

Two notations, both written by people: nested YAML whose leaves are lists, or a CSV file with one
line per value and one column per level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from memberbound.errors import InputError
from memberbound.tables.recipe import canonical

__all__ = ["Ancestors", "read_hierarchy", "tidy_hierarchy"]

#: Value → its ancestors, nearest first; every value has as many.
Ancestors = dict[str, tuple[str, ...]]


def read_hierarchy(source: str | Path | Mapping[Any, Any]) -> Ancestors:
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
    if not path.is_file():
        raise InputError(f"hierarchy must be an existing file, got {str(path)!r}.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"hierarchy must be a UTF-8 file, got {str(path)!r}.") from None
    if path.suffix.lower() in {".yaml", ".yml"}:
        return tidy_hierarchy(_from_tree(_parsed(text, path)))
    if path.suffix.lower() == ".csv":
        return tidy_hierarchy(_from_lines(text, path))
    raise InputError(f"hierarchy must be a .yaml or .csv file, got {str(path)!r}.")


def tidy_hierarchy(ancestors: Mapping[Any, Sequence[Any]]) -> Ancestors:
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
        named = [canonical(a) for a in line]
        if not named:
            raise InputError(f"a hierarchy must give {value!r} a parent, got none.")
        named += [named[-1]] * (depth - len(named))
        tidy[canonical(value)] = tuple(named)
        for level, (child, parent) in enumerate(pairwise(named)):
            if parents.setdefault((level, child), parent) != parent:
                other = parents[level, child]
                raise InputError(
                    f"a hierarchy must give {child!r} one parent, got {other!r} and {parent!r}."
                )
    return tidy


def _parsed(text: str, path: Path) -> Mapping[Any, Any]:
    import yaml

    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"hierarchy must be readable YAML, got {str(path)!r}.") from None
    if not isinstance(tree, Mapping):
        raise InputError(f"hierarchy must be a mapping from groups to values, got {str(path)!r}.")
    return tree


def _from_tree(tree: Mapping[Any, Any]) -> dict[Any, list[Any]]:
    lines: dict[Any, list[Any]] = {}
    for value, line in _leaves(tree, ()):
        # By name: True and 1 are equal to Python but two categories, 1 and "1" are one.
        name = canonical(value)
        if name in lines:
            raise InputError(f"a hierarchy must list each value once, got {value!r} twice.")
        lines[name] = line
    return lines


def _leaves(tree: Mapping[Any, Any], above: tuple[Any, ...]) -> Iterator[tuple[Any, list[Any]]]:
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


def _from_lines(text: str, path: Path) -> dict[Any, list[Any]]:
    import csv

    rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise InputError(
            f"hierarchy must have a header and lines value,parent,…, got {str(path)!r}."
        )
    lines: dict[Any, list[Any]] = {}
    for row in rows[1:]:
        value, *rest = (cell.strip() for cell in row)
        if value in lines:
            raise InputError(f"a hierarchy must list each value once, got {value!r} twice.")
        lines[value] = [cell for cell in rest if cell]
    return lines
