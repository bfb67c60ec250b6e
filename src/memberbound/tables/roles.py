"""Roles of columns: number, category, date, identifier or free text.

Roles are inferred here and nowhere else, by scans on the table's engine, and a
:class:`~memberbound.tables.table.Table` keeps them for every verb that reads it.  The same scan
finds the *form* of a column's values (decimal comma, day before month), by which
:mod:`memberbound.tables.columns` reads them: each value on its own, so new rows are read like old
ones.  Blanks, and the words that programs write for a missing value, are missing.

==============  ===================================================================================
role            when
==============  ===================================================================================
``number``      every value is written as a number (``1.5``, ``.5``, ``1.``, ``1e100``; ``1,5``
                where the comma cannot be anything else), or the column is typed so
``date``        every value is a date or a time stamp: ``2020-01-31``, ``2020/01/31``,
                ``31.01.2020``, ``31-01-2020``, ``31 Jan 2020``, ``01/31/2020``, ``31/01/2020``
                where a first part above 12 shows it; each also with a time and a zone
``identifier``  at least 20 values of text that do not repeat (95 % distinct; half of them if the
                name suggests it or the values are UUIDs); whole numbers of 16 digits and more
                likewise; shorter whole numbers only if the name suggests it, or independent rows
                would have repeated: at least 100 of them, so dense that 20 repetitions were to be
                expected, with at most a tenth of these
``text``        at least 20 values, at least half of them of four words or more, half of them
                distinct
``category``    everything else: words, truth values, codes with leading zeros, whole numbers of
                16 digits and more (a double would lose their last digits), columns without a value
==============  ===================================================================================

A column of doubles is never an identifier, and neither is a column of an array.  In a comma-
separated file (and in memory, where no separator is known) a comma followed by three digits in
every value may separate thousands; such a column is a category until it is given a role.

As a number, a date counts days since 1970-01-01 in UTC; a time without a zone is taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from memberbound.errors import InputError
from memberbound.tables.engine import Engine, identifier, literal, reading
from memberbound.tables.exact import query_types
from memberbound.tables.spelling import BLANKS, DATE_SPELLINGS, DATE_TIME, GAPS, SPELLINGS, Form

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType


Role = Literal["number", "category", "date", "identifier", "text"]
ROLES: tuple[Role, ...] = ("number", "category", "date", "identifier", "text")
#: Roles that the user declares, by column.
Roles = Mapping[str, str] | None
#: Minimum number of rows for identifiers and free text.
_FEWEST, _FEWEST_WHOLE = 20, 100
#: Minimum distinct share of an identifier, and of one that its name or spelling suggests.
_DISTINCT, _DISTINCT_NAMED = 0.95, 0.5
#: Number of repetitions expected of independent rows, and the share of it that may occur.
_REPEATS, _REPEATS_LEFT = 20.0, 0.1
#: Columns per scan, because the engine's planning time grows with their square.
_AT_ONCE = 64
#: A text column with at most this many values of at most this many bytes is read by distinct value.
_FEW_VALUES, _FEW_BYTES = 2000, 1000
#: Count distinct values exactly if the engine's estimate is within this factor of the threshold.
_NEARLY = 0.4

#: Numbers that match "point" and no earlier spelling.
_DECIMAL = "[+-]?(0|[1-9][0-9]*)[.]([0-9]{1,2}|[0-9]{4,})"
#: All spellings in one pattern, with one pattern for times, because long patterns are slow.
_ANY_WAY = "|".join(
    f"({pattern})"
    for pattern in (
        *(pattern for name, pattern in SPELLINGS.items() if name not in DATE_SPELLINGS),
        rf"({'|'.join(DATE_SPELLINGS.values())}){DATE_TIME}",
    )
)
#: Whether the text ``t`` is a sentence: four words, so at least seven bytes.
_SENTENCE = f"strlen(t) > 6 AND regexp_full_match(t, {literal(SPELLINGS['sentence'])})"
_BITS = {name: 1 << index for index, name in enumerate([*SPELLINGS, "other"])}

_ID_WORDS = {"id", "ids", "uuid", "guid", "key", "pk", "rowid", "identifier", "ssn", "nbr", "nr"}
_ID_ENDS = _ID_WORDS | {"no", "number", "index"}
#: Usual names of a column of row numbers.
_ROW_NUMBER = re.compile(r"#|№|Unnamed: 0|(?i:index|row|rownum|line)")
_ID_JOINED = re.compile(
    r"(user|customer|client|patient|person|record|case|row|order|member|employee|student|subject|"
    r"passenger|account|session|device|transaction)(id|key|no|nr)"
)


#: Words for persons.
_PERSON_WORDS = {"user", "customer", "client", "patient", "person", "member", "employee", "student"}
_PERSON_WORDS |= {"subject", "passenger", "participant", "insured", "citizen", "resident"}
#: Minimum number of values of a column of persons, if its name has none of these words.
_FEWEST_PERSONS = 20


@dataclass(frozen=True)
class Reading:
    """The role of a column and the form of its values; ``given`` if the user declared them."""

    role: Role
    form: Form = "text"
    whole: bool = False
    given: bool = False

    @property
    def numeric(self) -> bool:
        """Whether a learner sees a number: numbers, dates, and identifiers that are numbers."""
        if self.role == "identifier":
            return self.form in ("number", "comma")
        return self.role in ("number", "date")


#: The reading of every column of an array.
OF_AN_ARRAY = Reading("number", "number")


def check_roles(roles: Roles, columns: Sequence[str], table: str) -> dict[str, Role]:
    """Return the roles that the user gave to columns of a table; reject unknown roles."""
    if roles is not None and not isinstance(roles, Mapping):
        raise InputError(f"roles must map columns to roles, got {roles!r}.")
    for name, role in (roles or {}).items():
        if name not in columns:
            names = ", ".join(map(repr, columns))
            raise InputError(f"roles must name columns of {table} ({names}), got {name!r}.")
        if role not in ROLES:
            raise InputError(
                f"the role of {name!r} must be one of {', '.join(ROLES)}, got {role!r}."
            )
    return dict(roles or {})  # type: ignore[arg-type]  # checked to be roles


def overridden(name: str, reading: Reading, role: Role | None) -> Reading:
    """Return the reading of a column with a declared role; raise if its values do not fit."""
    if role is None:
        return reading
    needed = {"number": ("number", "comma", "date", "day-first"), "date": ("date", "day-first")}
    if role in needed and reading.form not in needed[role]:
        raise InputError(f"column {name!r} must hold {role}s to have the role {role!r}.")
    return replace(reading, role=role, given=True)


@dataclass(frozen=True)
class _Facts:
    """Statistics of a column from one scan."""

    rows: int
    distinct: int
    spellings: frozenset[str] = frozenset()
    sentences: int = 0
    span: int = 0

    def share(self, least: float, fewest: int = _FEWEST) -> bool:
        """Whether at least this share of enough values is distinct."""
        return self.rows >= fewest and self.distinct >= least * self.rows


def infer_roles(
    engine: Engine, view: str, names: Sequence[str], separator: str | None, table: str
) -> dict[str, Reading]:
    """Infer the roles of columns of a view of the embedded engine.

    ``separator`` is that of the CSV file they come from, if any; ``table`` is the name in errors.
    """
    types = query_types(engine.connection, f"SELECT * FROM {view}")
    kinds = {name: _kind(types[name]) for name in names}
    scanned = {name: kind for name, kind in kinds.items() if kind in _LOOKED_AT}
    with reading(table):
        facts = _Scan(engine, view).facts(scanned)
    readings = {}
    for name, kind in kinds.items():
        if kind == "text":
            readings[name] = _role_of_text(name, facts[name], separator)
        elif kind == "whole":
            readings[name] = _whole(name, facts[name])
        elif kind == "other":
            distinct = facts[name].share(_DISTINCT)
            readings[name] = Reading("identifier" if distinct else "category")
        else:
            readings[name] = _TYPED[kind]
    return readings


_LOOKED_AT = ("text", "whole", "other")
_TYPED = {
    "number": Reading("number", "number"),
    "date": Reading("date", "date"),
    "truth": Reading("category", "truth"),
    "opaque": Reading("category"),
}


_WHOLE = {
    *("tinyint", "smallint", "integer", "bigint", "hugeint"),
    *("utinyint", "usmallint", "uinteger", "ubigint"),
}


def _kind(dtype: DuckDBPyType) -> str:
    if dtype.id == "enum" or (dtype.id == "varchar" and str(dtype) != "JSON"):
        return "text"
    if dtype.id in _WHOLE or (dtype.id == "decimal" and dict(dtype.children)["scale"] == 0):
        return "whole"
    if dtype.id == "boolean":
        return "truth"
    if dtype.id in {"float", "double", "decimal", "interval"}:
        return "number"
    if dtype.id == "date" or dtype.id.startswith("timestamp"):
        return "date"
    return "other" if dtype.id in {"uuid", "blob"} else "opaque"


def _spelling_bit() -> str:
    """Return SQL for the spelling of a text ``t`` as a bit; ``s`` is whether it is a sentence."""
    fits = {
        spelling: f"regexp_full_match(t, {literal(pattern)})"
        for spelling, pattern in SPELLINGS.items()
    } | {"sentence": "s"}
    cases = [f"WHEN {fit} THEN {_BITS[spelling]}" for spelling, fit in fits.items()]
    # After whole numbers come the most common spellings, so that few patterns are tried: plain
    # decimals (not with three places, which may be thousands), and texts that match no pattern.
    cases[1:1] = [
        f"WHEN regexp_full_match(t, {literal(_DECIMAL)}) THEN {_BITS['point']}",
        f"WHEN NOT regexp_full_match(t, {literal(_ANY_WAY)}) THEN {_BITS['other']}",
    ]
    return f"CASE {' '.join(cases)} END"


def _present(text: str) -> str:
    """Return SQL for a text without surrounding blanks, null if it is missing."""
    text = f"trim({text}, {_BLANKS})"
    gaps = ", ".join(map(literal, ("", *GAPS)))
    return f"CASE WHEN lower({text}) NOT IN ({gaps}) THEN {text} END"


def _bytes(column: str, kind: str) -> str:
    """Return SQL for a column's exact key: text by its bytes, for any collation."""
    return f"encode(CAST({column} AS VARCHAR))" if kind == "text" else column


class _Scan:
    """Computes statistics of a view's columns in a few passes over its rows."""

    def __init__(self, engine: Engine, view: str) -> None:
        self.engine = engine
        self.view = view

    def fetch(self, select: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.engine.sql(select).fetchall()

    def facts(self, kinds: Mapping[str, str]) -> dict[str, _Facts]:
        """Count values, spellings and distinct values of columns by their kind."""
        found: dict[str, _Facts] = {}
        names = list(kinds)
        for start in range(0, len(names), _AT_ONCE):
            found |= self._look({name: kinds[name] for name in names[start : start + _AT_ONCE]})
        return found

    def _look(self, kinds: Mapping[str, str]) -> dict[str, _Facts]:
        parts = []
        for name, kind in kinds.items():
            column = identifier(name)
            ends = {"text": f"max(strlen({column})), 0", "other": "0, 0"}.get(
                kind, f"min(CAST({column} AS HUGEINT)), max(CAST({column} AS HUGEINT))"
            )
            distinct = f"approx_count_distinct({_bytes(column, kind)})"
            parts.append(f"[count({column}), {distinct}, {ends}]")
        (line,) = self.fetch(f"SELECT {', '.join(parts)} FROM {self.view}")
        seen = {n: [int(v or 0) for v in values] for n, values in zip(kinds, line, strict=True)}
        facts = {}
        repeated: list[str] = []
        others: list[str] = []
        for name, (rows, estimate, low, high) in seen.items():
            if kinds[name] == "text":
                few = estimate <= _FEW_VALUES and low <= _FEW_BYTES
                (repeated if few and 2 * estimate <= rows else others).append(name)
                continue
            count = self._count_distinct(name, kinds[name], rows, estimate)
            facts[name] = _Facts(rows, count)
            if kinds[name] == "whole":
                long = max(abs(low), abs(high)) >= 10**15
                spellings = frozenset({"long"} if long else {"whole"} if rows else ())
                facts[name] = replace(facts[name], spellings=spellings, span=high - low + 1)
        return facts | self._texts(repeated, True) | self._texts(others, False)

    def _texts(self, names: list[str], repeated: bool) -> dict[str, _Facts]:
        """Return the facts of columns of text, from their distinct values if they are repeated.

        The values of all columns are stacked, because the engine compiles a pattern at every
        occurrence, which takes longer than the scan of a small table.
        """
        if not names:
            return {}
        indices = f"unnest([{', '.join(map(str, range(len(names))))}]) AS i"
        columns = [f"CAST({identifier(name)} AS VARCHAR)" for name in names]
        if repeated:
            counts = ", ".join(f"histogram(encode({column}))" for column in columns)
            maps = f"SELECT {indices}, unnest([{counts}]) AS m FROM {self.view}"
            stacked = "i, decode(unnest(map_keys(m))) AS v, unnest(map_values(m)) AS n"
            stacked = f"SELECT {stacked} FROM ({maps})"
            distinct = "count(DISTINCT encode(t))"
        else:
            values = f"unnest([{', '.join(columns)}]) AS v"
            stacked = f"SELECT {indices}, {values}, 1 AS n FROM {self.view}"
            distinct = "approx_count_distinct(encode(t))"
        present = f"SELECT i, n, {_present('v')} AS t FROM ({stacked})"
        lines = self.fetch(
            f"SELECT i, sum(n), {distinct}, bit_or({_spelling_bit()}), sum(n) FILTER (s) "
            f"FROM (SELECT *, {_SENTENCE} AS s FROM ({present}) WHERE t IS NOT NULL) GROUP BY i"
        )
        facts = dict.fromkeys(names, _Facts(0, 0))
        for index, *numbers in lines:
            rows, count, bits, sentences = (int(value or 0) for value in numbers)
            spellings = frozenset(s for s, bit in _BITS.items() if bits & bit)
            name, column = names[index], _present(identifier(names[index]))
            if not repeated:
                count = self._count_distinct(name, "text", rows, count)
            facts[name] = _Facts(rows, count, spellings, sentences)
            if spellings == {"whole"} and facts[name].share(_DISTINCT):
                wide = f"CAST(replace({column}, '+', '') AS HUGEINT)"
                ((low, high),) = self.fetch(f"SELECT min({wide}), max({wide}) FROM {self.view}")
                facts[name] = replace(facts[name], span=high - low + 1)
        return facts

    def _count_distinct(self, name: str, kind: str, rows: int, estimate: int) -> int:
        """Return the number of distinct values, exactly if hardly any of them repeat."""
        if not rows or estimate < _NEARLY * rows:
            return estimate
        column = _present(identifier(name)) if kind == "text" else identifier(name)
        present = f"{self.view} WHERE {column} IS NOT NULL GROUP BY {_bytes(column, kind)}"
        ((count,),) = self.fetch(f"SELECT count(*) FROM (SELECT 1 FROM {present})")
        return int(count)


#: Characters that may surround a value, in the engine's notation.
_BLANKS = " || ".join(f"chr({ord(blank)})" for blank in BLANKS)


def _whole(name: str, facts: _Facts) -> Reading:
    """Return the reading of a column of whole numbers: a measurement, a code or an identifier."""
    if not facts.rows:
        return Reading("category", "number")
    if "long" in facts.spellings:
        role: Role = (
            "identifier" if facts.share(_DISTINCT) or _role_from_name(name, facts) else "category"
        )
        return Reading(role, "number", whole=True)
    expected = facts.rows * (facts.rows - 1) / (2 * max(facts.span, 1))
    repeats = facts.rows - facts.distinct
    dense = (
        facts.share(_DISTINCT, _FEWEST_WHOLE)
        and expected >= _REPEATS
        and repeats <= _REPEATS_LEFT * expected
    )
    role = "identifier" if dense or _role_from_name(name, facts) else "number"
    return Reading(role, "number", whole=True)


def _role_from_name(name: str, facts: _Facts) -> bool:
    return facts.share(_DISTINCT_NAMED) and says_identifier(name)


def says_identifier(name: str) -> bool:
    """Return whether a column's name suggests an identifier.

    Examples:
        >>> [says_identifier(n) for n in ("id", "PassengerId", "patient_nbr", "#", "paid", "age")]
        [True, True, True, True, False, False]
    """
    if _ROW_NUMBER.fullmatch(name.strip()):
        return True
    words = _name_words(name)
    if not words:
        return False
    joined = "".join(words)
    return words[0] in _ID_WORDS or words[-1] in _ID_ENDS or bool(_ID_JOINED.fullmatch(joined))


def _name_words(name: str) -> list[str]:
    return [w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+", name)]


def fewest_persons(name: str) -> int | None:
    """Return the minimum number of distinct values of a column of persons; None for other names.

    Examples:
        >>> [fewest_persons(name) for name in ("Patient-Nr", "customer", "ward_id", "age")]
        [2, 2, 20, None]
    """
    if _PERSON_WORDS & set(_name_words(name)):
        return 2
    return _FEWEST_PERSONS if says_identifier(name) else None


def _role_of_text(name: str, facts: _Facts, separator: str | None) -> Reading:
    """Return the reading of a text column, by the spellings of all its values."""
    seen = facts.spellings
    if not seen:
        return Reading("category")
    if seen <= {"whole", "long"}:
        return _whole(name, facts)
    groups = {"thousand", "thousands"} if "thousands" in seen else set()
    if seen <= {"whole", "long", "grouped", "point"} | groups:
        return Reading("number", "number")
    commas = seen <= {"whole", "long", "grouped", "groups", "thousand", "comma"}
    # Every value has three digits after a comma: thousands or thousandths, unless the file has
    # another separator.
    if commas and ("comma" in seen or separator not in (None, ",")):
        return Reading("number", "comma")
    slashes = {"slash", "slash-day", "slash-month"}
    if seen <= {"year", "day"} | slashes and not {"slash-day", "slash-month"} <= seen:
        form: Form = "day-first" if "slash-day" in seen else "date"
        return Reading("date", form)
    if seen == {"truth"}:
        return Reading("category", "truth")
    if 2 * facts.sentences >= facts.rows and facts.share(_DISTINCT_NAMED):
        return Reading("text")
    least = _DISTINCT_NAMED if seen == {"uuid"} or says_identifier(name) else _DISTINCT
    role: Role = "identifier" if facts.share(least) else "category"
    return Reading(role)
