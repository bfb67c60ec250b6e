"""The verb ``certify``: how much can *any* learner leak about the rows of this table?"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NotRequired, TypedDict

import numpy as np

from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Force,
    InputFile,
    Law,
    Names,
    Option,
    RecordsFile,
    Table,
    Whole,
)
from memberbound.errors import InputError, fraction, nonnegative, whole_number
from memberbound.games import IidGame
from memberbound.iid.certificates import CountCertificate, certify_counts
from memberbound.iid.planning import leak_beyond_the_table
from memberbound.iid.profiles import CountProfile, JointProfile
from memberbound.iid.records import RecordLeak, RecordLeaks, record_leaks
from memberbound.iid.worst_case import checked_law, leak_of_law, leak_of_uniform
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.binomial import Atoms, half_deviation_upper
from memberbound.numerics.rounding import FloatArray, down, shared_confidence, up, up_array
from memberbound.quantities import (
    Certificate,
    Readable,
    Sides,
    at_confidence,
    common_fields,
    json_number,
    marked,
    percent,
    significant,
)

if TYPE_CHECKING:
    from memberbound.tables.source import Table as OpenTable

__all__ = [
    "CERTIFIED",
    "Certification",
    "accuracy_from_leak",
    "certified_fields",
    "certify",
    "certify_law",
    "certify_profile",
    "certify_uniform",
    "independent_units",
    "of_unit",
    "read_probabilities",
    "rows_in_words",
    "security_from_leak",
    "whose_rows",
]

# ── The answer of ``certify``: how much any learner can leak about the rows of a table or a law

#: Sides of what :func:`certified_fields` returns.
CERTIFIED: Sides = {
    "accuracy_upper": "upper",
    "c_k_plug_in_estimate": "estimate",
    "confidence": "lower",
    "delta_plug_in_estimate": "estimate",
    "delta_upper": "upper",
    "record_leak": {"exposed_above": "given", "max": "upper", "median": "upper", "p99": "upper"},
    "security_lower": "lower",
}


def of_unit(unit: str) -> str:
    """Return what a record is when it is all rows of one person."""
    return f"value of “{unit}”"


def independent_units(unit: str, when: str = "") -> str:
    """Return what is assumed in place of independent rows."""
    return (
        f"One record is one value of “{unit}” with all its rows; these records are independent "
        f"draws from one law{when}."
    )


def rows_in_words(count: int, unit: str | None, kind: str = "") -> str:
    """Return how many records, and what a record is.

    >>> rows_in_words(17, None, "training "), rows_in_words(17, "patient", "training ")
    ('17 training rows', '17 different values of “patient” (each with all its rows)')
    """
    if unit is None:
        return f"{count} {kind}rows"
    return f"{count} different values of “{unit}” (each with all its rows)"


def security_from_leak(leak: float) -> float:
    """Return MIS = 1 - Δ from below (A25-T6)."""
    return 1.0 if leak == 0.0 else max(0.0, down(1.0 - leak))


def accuracy_from_leak(leak: float, game: IidGame) -> float:
    """Return the best (weighted) accuracy max(ν, λ(1-ν)) + min(1, 1/γ)·ν·Δ from above (A25-T6)."""
    missed, alarm = game.lam * (1 - game.nu), game.nu
    base, gain = max(alarm, missed), min(alarm, missed) * leak
    # Being right every time is the most there is.
    return base if gain == 0.0 else min(up(base + gain, 8), alarm + missed)


def whose_rows(unit: str | None) -> str:
    """Return the assumption about persons and rows.

    >>> whose_rows("patient")
    "One record is all rows that share one value of 'patient'."
    """
    if unit is not None:
        return f"One record is all rows that share one value of {unit!r}."
    return (
        "One person is one row; where somebody may have several, name the column that says whose "
        "they are (unit)."
    )


class Certified(TypedDict):
    """What is certified, and beside it what is only estimated; ``c_k`` is that of a law."""

    rows: int | None
    n: int
    atoms: int
    delta_upper: float
    security_lower: float
    accuracy_upper: float
    delta_plug_in_estimate: float | None
    c_k_plug_in_estimate: float | None
    c_k: NotRequired[float]
    confidence: float
    method: str
    record_leak: RecordLeak


def certified_fields(
    certificate: CountCertificate,
    leaks: RecordLeaks,
    game: IidGame,
    exposed_above: float = 0.5,
) -> Certified:
    """Return the keys that ``certify`` and ``harden`` share."""
    return {
        "rows": certificate.rows,
        "n": certificate.n,
        "atoms": certificate.atoms,
        "delta_upper": certificate.delta_upper,
        "security_lower": security_from_leak(certificate.delta_upper),
        "accuracy_upper": accuracy_from_leak(certificate.delta_upper, game),
        "delta_plug_in_estimate": json_number(certificate.delta_plug_in_estimate),
        "c_k_plug_in_estimate": json_number(certificate.c_k_plug_in_estimate),
        "confidence": certificate.confidence,
        "method": certificate.method,
        "record_leak": leaks.to_dict(exposed_above),
    }


class ExposedCell(TypedDict):
    """Values that few rows share, and what may leak about such a row."""

    rows: int
    leak_upper: float
    values: dict[str, object]


@dataclass(frozen=True, eq=False, repr=False)
class Certification(Readable, Limited):
    """A certificate for a table or a law; ``fields`` are the keys of the contract.

    With a ``unit`` every number of rows, trained on or exposed, is one of different values of that
    column, each with all its rows.
    """

    SIDES: ClassVar[Sides] = {
        **CERTIFIED,
        "c_k": "estimate",
        "exposed_cells": {"leak_upper": "upper", "values": "given"},
        "lam": "given",
        "nu": "given",
    }

    VERB: ClassVar = "certify"
    FAILS_ON: ClassVar = ("ceiling",)
    COMPARED: ClassVar = "the certified attack accuracy on the average row, for any learner"

    fields: Certified
    game: IidGame
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    records_out: str | None = None
    exposed: tuple[ExposedCell, ...] = ()
    unit: str | None = None
    leaks: RecordLeaks | None = field(default=None, repr=False)
    roles: dict[str, str] = field(default_factory=dict)

    @property
    def delta_upper(self) -> float:
        """Largest leak Δ of any learner, average record."""
        return float(self.fields["delta_upper"])

    @property
    def security_lower(self) -> float:
        """MIS of every learner."""
        return float(self.fields["security_lower"])

    def certificate(self) -> Certificate:
        """Return the main number as a certificate."""
        return Certificate(
            "security",
            self.security_lower,
            "lower",
            self.game,
            self.theorems,
            self.assumptions,
            float(self.fields["confidence"]),
        )

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return what a limit is about: the accuracy of any attack on any learner, average row.

        Where a missed member has a weight λ other than 1 the accuracy is weighted; over the largest
        there is, ν + λ(1 - ν), it is the accuracy where a share ν/(ν + λ(1 - ν)) are fresh points.
        """
        del on
        missed, alarm = self.game.lam * (1 - self.game.nu), self.game.nu
        one = "row" if self.unit is None else of_unit(self.unit)
        most = min(1.0, up(self.fields["accuracy_upper"] / down(alarm + missed)))
        if self.game.lam == 1:
            most = self.fields["accuracy_upper"]
        blind = max(alarm, missed) / (alarm + missed)
        return (Success(f"any attack on any learner, average {one}", blind, ceiling=most),)

    def to_dict(self) -> dict[str, object]:
        """Return the dictionary of the contract."""
        result = common_fields("certify", self.game, self.theorems, self.assumptions)
        result |= self.fields
        return result | {
            "nu": self.game.nu,
            "lam": self.game.lam,
            "warnings": list(self.warnings),
            "unit": self.unit,
            "records": self.records_out,
            "exposed_cells": list(self.exposed),
            "roles": dict(self.roles),
            "sentence": self.sentence,
        }

    @property
    def sentence(self) -> str:
        """A sentence a data steward can pass on."""
        f = self.fields
        sure = at_confidence(f["confidence"])
        one = "row" if self.unit is None else of_unit(self.unit)
        if f["delta_upper"] >= 1:
            return (
                f"Nothing can be certified{sure}: with {rows_in_words(f['n'], self.unit)} in "
                f"{f['atoms']} different cells some learner could give away the average {one} "
                "completely; coarser or fewer columns would help."
            )
        right = percent(min(1.0, f["accuracy_upper"]), "upper")
        if self.unit is None:
            return (
                f"Whatever is trained on {f['n']} such rows, nobody is right about the average "
                f"row's membership more than {right} of the time{sure}."
            )
        return (
            f"Whatever is trained on {rows_in_words(f['n'], self.unit)}, nobody is right about the "
            f"membership of the average {one} more than {right} of the time{sure}."
        )

    def summary(self) -> str:
        """Return the short readable table of the command line."""
        f = self.fields
        leak = f["record_leak"]
        one, many = "row", "rows"
        if self.unit is not None:
            one, many = "value", f"values of “{self.unit}”"
        rows: list[tuple[str, object]] = [
            (many, "–" if f["rows"] is None else f"{f['rows']}"),
            (f"training {one}s n", f"{f['n']}"),
            ("cells", f"{f['atoms']}"),
            ("leak Δ, any learner", marked(f["delta_upper"], "certificate", "delta", 6)),
            ("security MIS", marked(f["security_lower"], "certificate", "security", 6)),
            ("method", f"{f['method']}"),
        ]
        if f["delta_plug_in_estimate"] is not None:
            seen = significant(f["delta_plug_in_estimate"], "estimate", 4)
            rows.append(("plug-in Δ (estimate only)", f"≈ {seen}"))
        rows += [
            (f"record leak, {name}", marked(value, "certificate", "leak", 6))
            for name, value in (
                (f"median {one}", leak["median"]),
                (f"99 % of {one}s", leak["p99"]),
                (f"worst {one}", leak["max"]),
            )
        ]
        if leak["exposed_rows"] is not None:
            limit = significant(leak["exposed_above"], "given")
            rows.append((f"{one}s that may leak > {limit}", leak["exposed_rows"]))
        width = max(len(name) for name, _ in rows)
        table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        shown = "".join(
            f"\nexposed: {cell['rows']} row(s), leak "
            f"{marked(cell['leak_upper'], 'certificate', 'leak', 6)}: "
            + ", ".join(f"{name}={value}" for name, value in cell["values"].items())
            for cell in self.exposed
        )
        return f"{self.sentence}\n\n{table}{notes}{shown}"


# ── Certificates for a known law: exact, without sampling (A25-T14, X7) ───────────────────────────

#: Column names that are taken for the probabilities when a file has several columns.
_NAMES = ("probability", "probabilities", "p")


def read_probabilities(source: object) -> FloatArray:
    """Return the atoms of a law from a file (one column, or one named p) or an array.

    What has probability 0 is no atom, and is left out.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _atoms(np.asarray(source, dtype=np.float64).ravel())
    from memberbound.tables.in_memory import column_names, read_population

    path = Path(source)
    columns, _ = column_names(path)
    named = [c for c in columns if str(c).lower() in _NAMES]
    if len(columns) > 1 and len(named) != 1:
        raise InputError(
            f"{path} must hold one column of probabilities, or one named 'probability', got "
            f"the columns {', '.join(map(repr, columns))}."
        )
    column = named[0] if named else columns[0]
    return _atoms(read_population(path, [column], numeric=True).values[:, 0])


def _atoms(probabilities: FloatArray) -> FloatArray:
    law, _, _ = checked_law(probabilities)
    return law[law > 0]


def certify_law(law: FloatArray, n: int, game: IidGame) -> Certification:
    """Return the exact worst case of a law with these atoms, all positive, at training size n."""
    size = whole_number("n", n)
    leak = leak_of_law(law, size, game.nu, game.lam)
    record = np.minimum(up_array(half_deviation_upper(size, law) / law, 8), 1.0)
    c_k = float(np.sqrt(law * (1 - law)).sum())
    order = np.argsort(record)
    share = np.cumsum(law[order])
    median, p99 = (
        float(record[order][min(int(np.searchsorted(share, q)), law.size - 1)]) for q in (0.5, 0.99)
    )
    spread = (median, p99, float(record.max()))
    return _answer(leak, (size, int(law.size), c_k), spread, game)


def certify_uniform(atoms: int, n: int, game: IidGame) -> Certification:
    """Return the exact worst case of K equally likely atoms."""
    size, total = whole_number("n", n), whole_number("uniform", atoms)
    leak = leak_of_uniform(total, size, game.nu, game.lam)
    share = float(half_deviation_upper(size, Atoms.uniform(total))[0])
    record = min(1.0, share * total * (1 + 1e-14))
    c_k = float(np.sqrt(total - 1))
    return _answer(leak, (size, total, c_k), (record, record, record), game)


def _answer(
    leak: float, law: tuple[int, int, float], record: tuple[float, float, float], game: IidGame
) -> Certification:
    n, atoms, c_k = law
    median, p99, worst = record
    fields: Certified = {
        "rows": None,
        "n": n,
        "atoms": atoms,
        "delta_upper": leak,
        "security_lower": security_from_leak(leak),
        "accuracy_upper": accuracy_from_leak(leak, game),
        "delta_plug_in_estimate": None,
        "c_k_plug_in_estimate": None,
        "c_k": c_k,
        "confidence": 1.0,
        "method": "exact worst case of the law",
        "record_leak": {
            "median": median,
            "p99": p99,
            "max": worst,
            "exposed_rows": None,
            "exposed_above": None,
        },
    }
    return Certification(
        fields,
        game,
        ("A25-T14", "X7"),
        ("The rows are independent draws from exactly the law given.",),
    )


# ── The verb ``certify``: how much can *any* learner leak about the rows of this table? ───────────


def certify(
    table: Table | None = None,
    *,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    n: Whole | None = None,
    confidence: float = 0.95,
    nu: float = 0.5,
    lam: float = 1.0,
    probabilities: Law | None = None,
    uniform: Annotated[int, Option("whole", metavar="K")] | None = None,
    reference: InputFile | None = None,
    unit: Column | None = None,
    source: Annotated[str, Option("text", metavar="URL", web=False)] | None = None,
    database_table: DatabaseTable | None = None,
    exposed_above: float = 0.5,
    list_exposed: Annotated[int, Option("whole", metavar="K", most=1000)] = 0,
    records: RecordsFile | None = None,
    force: Force = False,
) -> Certification:
    """Certify how much any learner at all can leak about the rows of this table.

    Give one of: a ``table`` (a file or an object that :func:`memberbound.tables.open_table` reads),
    the ``probabilities`` of a known law, or ``uniform`` = K equally likely atoms (the last two with
    ``n``).

    Guarantee: with probability ≥ ``confidence`` over the rows of the table, ``delta_upper`` bounds
    the leak Δ of every learner trained on ``n`` rows (average record), and ``record_leak`` the
    leak about each row; each of the two holds with that confidence by itself.
    Theorem: A25-T14 for a law; X5 (n ≤ N) or X16 (n > N), X7 and X15 for a table.
    Assumes: the rows (with ``unit``, the units) are independent draws from one law.
    Edge cases: rows that are all distinct give 1: nothing can be certified, and that is an answer.

    Args:
        table: a file or a table; missing values count as a category of their own.
        columns: the columns a learner sees (default: all but identifiers).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role; identifiers are left out.
        n: number of training rows, or of persons with ``unit`` (default: the whole table).
        confidence: of each certificate.
        nu: probability that the tested record is not a member.
        lam: weight of a missed member.
        probabilities: instead of a table: the probability of each distinct record, as an array or a
            file with one column.
        uniform: instead of a table: number of equally likely records.
        reference: further, independent rows from the same source that are not trained on.
        unit: column that identifies the person; all rows of a person are one record, and persons
            are counted instead of rows.
        source: instead of a file: the address of a database in which the table is counted,
            ``postgres://user@host/database#table``, ``spark://host:7077#table``.
        database_table: the table inside a DuckDB or SQLite file, or at an address.
        exposed_above: count rows with a larger certified leak as exposed.
        list_exposed: how many exposed cells to list with their values, rarest first.
        records: write every row with its certified leak to this file (.csv, .csv.gz or .parquet).
        force: overwrite ``records``.

    Command line:
        memberbound certify people.csv --columns education,sex,income
        memberbound certify visits.parquet --unit patient --records leaks.parquet
        memberbound certify --uniform 316 --n 32561
        memberbound certify --source postgres://reader@db.example.org/clinic --table visits

    Examples:
        >>> certify(uniform=316, n=32561).security_lower > 0.96
        True
    """
    game = IidGame(float(nu), float(lam))
    if source is not None and table is not None:
        raise InputError("source must be left out when a table is given.")
    table = source if table is None else table
    given = [
        name
        for name, value in (
            ("a table", table),
            ("probabilities", probabilities),
            ("uniform", uniform),
        )
        if value is not None
    ]
    if len(given) != 1:
        raise InputError(
            "certify needs exactly one of a table, probabilities and uniform, got "
            + (" and ".join(given) or "none of them")
            + "."
        )
    if table is None:
        listed = list_exposed or None
        options = (columns, roles, reference, unit, database_table, records, listed)
        return _of_law(game, n, probabilities, uniform, *options)
    fraction("confidence", confidence, open_left=True, open_right=True)
    above = nonnegative("exposed_above", exposed_above)
    shown = whole_number("list_exposed", list_exposed, at_least=0)
    if n is not None:
        whole_number("n", n)
    from memberbound.tables.counting import count_pair_profile, count_profile, write_records
    from memberbound.tables.in_memory import is_array
    from memberbound.tables.roles import chosen_columns
    from memberbound.tables.source import open_table

    with open_table(table, database_table) as opened:
        selection = chosen_columns(opened, columns, roles, unit, array=is_array(table))
        chosen = list(selection.columns)
        joint = None
        if reference is not None:
            if unit is not None:
                raise InputError("a reference must be counted by rows, so unit must be left out.")
            pair = count_pair_profile(opened, reference, chosen)
            joint = JointProfile(pair.train, pair.reference, pair.cells)
            profile = joint.training()
        else:
            profile = count_profile(opened, chosen, unit)
        result = certify_profile(
            profile, n, confidence, game=game, reference=joint, exposed_above=above, unit=unit
        )
        result = replace(
            result,
            assumptions=(*result.assumptions, *selection.assumption),
            warnings=(*result.warnings, *selection.notes),
            roles=selection.roles,
        )
        if unit is None:
            result = replace(result, assumptions=(*result.assumptions, whose_rows(unit)))
        leaks = result.leaks
        assert leaks is not None
        if shown:
            if unit is not None:
                raise InputError("exposed cells are listed by rows, so unit must be left out.")
            result = replace(result, exposed=_rarest(opened, chosen, leaks, above, shown))
        if records is None:
            return result
        by_count = {int(c): float(v) for c, v in zip(profile.count, leaks.leak, strict=True)}
        write_records(opened, chosen, by_count, records, unit=unit, overwrite=force)
    return replace(result, records_out=str(records))


def certify_profile(
    profile: CountProfile,
    n: int | None = None,
    confidence: float = 0.95,
    *,
    game: IidGame | None = None,
    reference: JointProfile | None = None,
    exposed_above: float = 0.5,
    unit: str | None = None,
) -> Certification:
    """Certify from the counts of counts alone; see :func:`certify`.

    With ``unit`` the profile counts different values of that column, each with all its rows.
    """
    rules = game or IidGame()
    size = profile.rows if n is None else whole_number("n", n)
    if size > profile.rows:
        found = _beyond(profile, size, confidence, reference)
        if rules.gamma != 1:
            found = replace(found, theorems=(*found.theorems, "X13"))
    else:
        found = certify_counts(
            profile, size, confidence, nu=rules.nu, lam=rules.lam, reference=reference
        )
    leaks = record_leaks(profile, size, confidence)
    assumptions = [_sentence(text) for text in found.assumptions]
    same = "rows that agree in them are the same to it."
    warnings = found.warnings
    if unit is not None:
        who = f"values of “{unit}”"
        assumptions[0] = independent_units(unit)
        same = f"{who} whose rows agree in them, in whatever order, are the same to it."
        warnings = tuple(
            w.replace(f"{profile.rows} rows", f"{profile.rows} {who}") for w in warnings
        )
    return Certification(
        certified_fields(found, leaks, rules, exposed_above),
        rules,
        (*found.theorems, "X7", "X15"),
        (
            *assumptions,
            f"A learner sees the chosen columns only, and {same}",
            "The leak of the table and the leaks of its records each hold with the stated "
            "confidence by themselves.",
        ),
        warnings,
        unit=unit,
        leaks=leaks,
    )


def _beyond(
    profile: CountProfile, n: int, confidence: float, reference: JointProfile | None
) -> CountCertificate:
    """More training rows than the table has (X16), or the table's own leak, which never rises."""
    half = shared_confidence(confidence, 2)
    inside = certify_counts(profile, None, half, reference=reference)
    outside = leak_beyond_the_table(profile, n, half)
    best = min(inside.delta_upper, outside)
    method = "extrapolated count function" if outside <= inside.delta_upper else inside.method
    return replace(
        inside,
        delta_upper=best,
        method=method,
        confidence=confidence,
        n=n,
        theorems=("A25-T14", "X5", "X16"),
        candidates={**inside.candidates, "extrapolated count function": outside},
    )


def _rarest(
    table: OpenTable, columns: Sequence[str], leaks: RecordLeaks, above: float, shown: int
) -> tuple[ExposedCell, ...]:
    """Return the rarest exposed cells, their values and what is certified about them."""
    from memberbound.tables.counting import cell_counts

    by_count = {int(c): float(v) for c, v in zip(leaks.profile.count, leaks.leak, strict=True)}
    limit = max((c for c, v in by_count.items() if v > above), default=0)
    if limit == 0:
        return ()
    name = "rows"
    while name in table.columns:
        name += "_"
    found: list[tuple[int, dict[str, object]]] = []
    for batch in cell_counts(table, columns, at_most=limit, count_name=name):
        found += [(row.pop(name), row) for row in batch.to_pylist()]
        # Never more than a batch and the list itself in memory.
        found = heapq.nsmallest(shown, found, key=lambda item: (item[0], str(item[1])))
    return tuple(
        {"rows": count, "leak_upper": by_count[count], "values": _plain(values)}
        for count, values in found
    )


def _plain(values: dict[str, object]) -> dict[str, object]:
    """Values as JSON can hold them."""
    return {
        str(name): value
        if value is None or isinstance(value, (str, int, bool))
        else (value if isinstance(value, float) and math.isfinite(value) else str(value))
        for name, value in values.items()
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _of_law(
    game: IidGame,
    n: int | None,
    probabilities: object,
    uniform: int | None,
    *table_options: object,
) -> Certification:
    if n is None:
        raise InputError("n must be given with a law: the number of rows trained on.")
    if any(option is not None for option in table_options):
        raise InputError(
            "columns, roles, reference, unit, database_table, records and list_exposed apply only "
            "to a table."
        )
    if uniform is not None:
        return certify_uniform(uniform, n, game)
    return certify_law(read_probabilities(probabilities), n, game)
