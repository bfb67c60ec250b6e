"""The verb ``bounds``: write a template for the public facts about a table's columns."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from memberbound.answers import INTERNAL, Answer, computed
from memberbound.declarations import DatabaseTable, Encoding, Force, OutputFile, TableLike
from memberbound.files import check_output, write_text
from memberbound.games import NeighbourGame
from memberbound.tables.opening import path_of, use_table

_HEAD = """\
# What is public about the columns, for: memberbound protect FILE --target COL --bounds THIS
# Fill in what you would know without the table, never its own smallest or largest value:
# this file counts as published.
#   numbers      age: [0, 120]
#   categories   sex: [F, M]             anything else counts as "other"
#   two numbers that are categories      ward: {categories: [1, 2]}
#   dates        seen: [2020-01-01, 2025-12-31]
#   bins         age: {edges: [18, 30, 45, 65]}      used by synthesize, boosting and histograms
#   none and "null" in a list of categories are values; null without quotes is a missing one
#   how texts are written, where one could mean two things (1,234 or 03/02/2021):
#     weight: {range: [0, 300], decimal: ","}      seen: {range: […], format: "%d/%m/%Y"}
# Rules between columns, for synthesize, which makes every new row follow them:
#   rules:
#     derived:   # computed from another column, not measured; 18 is in "adult", 65 in "old"
#       age_group: {from: age, edges: [18, 65], labels: [child, adult, old]}
#       school_years: {from: school, map: {primary: 4, secondary: 12}}
#     implies:   # equal to a value, one of a list, or {at_least: 1, at_most: 2}
#       - {if: {internet: "no"}, then: {online_backup: no internet}}
#     at_most: [[admitted, discharged]]      # the first is never above the second
#     unique: [patient]                      # fresh whole numbers
# A column that is itself called rules has its bounds here, or as column: under the rules.
# An entry that stays empty is left to noisy histograms, which cost a part of the budget.
# OWNER ONLY: a comment behind a column is guessed from the rows, and one record can change it.
# Delete these comments before anybody else sees the file.
"""
#: Prefix of every guess in the file.
_MARK = "# OWNER ONLY:"
_HINTS = {
    "number": "numbers: [low, high]",
    "category": "categories: [one, another]",
    "date": "dates: [first, last]",
    "identifier": "identifier: leave it out with --columns",
    "text": "free text: leave it out with --columns",
}
#: Hints for columns that need a declared format.
_WRITTEN = {
    "comma": 'numbers: {range: [low, high], decimal: ","}',
    "day-first": 'dates: {range: [first, last], format: "%d/%m/%Y"}',
}
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: Names that YAML would read as something else.
_WORDS = ("false", "n", "no", "null", "off", "on", "true", "y", "yes")


@dataclass(frozen=True, repr=False)
class BoundsTemplate(Answer):
    """A template for a bounds file: every column without values; ``columns`` has guessed kinds.

    The guesses depend on single records, so they are for the owner of the rows only.
    """

    VERB: ClassVar = "bounds"

    columns: dict[str, str]
    out: str | None = None
    forms: Mapping[str, str] = field(default_factory=dict, metadata=INTERNAL)
    source: str = field(default="FILE", metadata=INTERNAL)
    game: NeighbourGame = field(default_factory=NeighbourGame)
    theorems: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @computed
    def template(self) -> str:
        """The file."""
        names = {name: _quote(name) for name in self.columns}
        width = max(map(len, names.values())) + 1
        hints = {c: _WRITTEN.get(self.forms.get(c, ""), _HINTS[k]) for c, k in self.columns.items()}
        lines = [f"{names[c] + ':':<{width}}  {_MARK} {hint}" for c, hint in hints.items()]
        return _HEAD + "\n".join(lines) + "\n"

    @computed
    def owner_only(self) -> tuple[str, ...]:
        """The keys that must not be published, because they are guesses from the rows."""
        return ("columns", "template")

    def summary(self) -> str:
        """Return the file's text, or instructions if it was written."""
        if self.out is None:
            return self.template.rstrip("\n")
        told = ["--bounds", self.out, "--out"]
        rows = ["memberbound", "synthesize", self.source, *told, "new-rows.csv"]
        model = ["memberbound", "protect", self.source, "--target", "COLUMN", *told, "model.json"]
        return (
            f"{len(self.columns)} columns. Fill in {self.out} with what is public knowledge, and "
            "delete the comments marked OWNER ONLY before you share it. Then, for new rows or for "
            f"a model:\n{shlex.join(rows)}\n{shlex.join(model)}"
        )


def bounds(
    table: TableLike,
    *,
    out: OutputFile | None = None,
    force: Force = False,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
) -> BoundsTemplate:
    """Write a template for the public facts about a table's columns.

    It contains no value of the table, because bounds count as published.  The comments next to
    columns are guesses from the rows, for their owner only: delete them before sharing the file.

    Args:
        table: a file or a table, one record per row.
        out: YAML file to write (default: print it).

    Command line:
        memberbound bounds patients.csv --out bounds.yaml

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": [31.5, 47.25, 82.0], "sex": ["F", "M", "F"]})
        >>> print(bounds(people).template.splitlines()[-2])
        age:  # OWNER ONLY: numbers: [low, high]
    """
    if out is not None:
        check_output(Path(out), formats=(".yaml", ".yml"), source=path_of(table), force=force)
    with use_table(table, database_table, encoding=encoding) as opened:
        readings = opened.local.readings()
    kinds: dict[str, str] = {name: reading.role for name, reading in readings.items()}
    forms = {n: r.form for n, r in readings.items() if r.role in ("number", "date")}
    path = path_of(table)
    source = "FILE" if path is None else str(path)
    answer = BoundsTemplate(kinds, None if out is None else str(out), forms, source)
    if out is not None:
        write_text(answer.template, Path(out), force=force)
    return answer


def _quote(name: str) -> str:
    plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)
