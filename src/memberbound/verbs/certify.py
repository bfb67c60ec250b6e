"""The verb ``certify``: how much can *any* learner leak about the rows of this table?"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from memberbound.answers import INTERNAL, IidAnswer, computed
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Force,
    InputFile,
    Law,
    Names,
    RecordsFile,
    Table,
)
from memberbound.errors import InputError, fraction, whole_number
from memberbound.files import in_encoding
from memberbound.games import IidGame
from memberbound.iid.certificates import (
    Certified,
    certified_law,
    certified_table,
    certified_uniform,
    certify_beyond_the_table,
    certify_counts,
)
from memberbound.iid.profiles import CountProfile, JointProfile
from memberbound.iid.record_leak import RecordLeaks, record_leaks
from memberbound.iid.worst_case import checked_law
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.quantities import at_confidence, marked, percent, significant

# ── What a record is, in words ────────────────────────────────────────────────────────────────────

ONE_ROW_PER_PERSON = (
    "One person is one row; where somebody may have several, name the column that says whose they "
    "are (unit)."
)


def of_unit(unit: str) -> str:
    """Return what a record is when it is all rows of one person."""
    return f"value of “{unit}”"


def independent_units(unit: str, when: str = "") -> str:
    """Return what is assumed in place of independent rows."""
    return (
        f"One record is one value of “{unit}” with all its rows; these records are independent "
        f"draws from one distribution{when}."
    )


def rows_in_words(count: int, unit: str | None, kind: str = "") -> str:
    """Return how many records, and what a record is.

    >>> rows_in_words(17, None, "training "), rows_in_words(17, "patient", "training ")
    ('17 training rows', '17 different values of “patient” (each with all its rows)')
    """
    if unit is None:
        return f"{count} {kind}rows"
    return f"{count} different values of “{unit}” (each with all its rows)"


# ── The answer ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Certification(IidAnswer, Certified, Limited):
    """A certificate for a table or a law.

    With a ``unit`` every number of rows, trained on or exposed, is one of different values of that
    column, each with all its rows.
    """

    VERB: ClassVar = "certify"
    FAILS_ON: ClassVar = ("ceiling",)
    COMPARED: ClassVar = "the certified attack success on the average row, for any learner"

    game: IidGame
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    unit: str | None = None
    records: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    leaks: RecordLeaks | None = field(default=None, metadata=INTERNAL)

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return what a limit is about: the accuracy of any attack on any learner, average row.

        Where a missed member has a weight λ other than 1 the accuracy is weighted; over the largest
        there is, ν + λ(1 - ν), it is the accuracy where a share ν/(ν + λ(1 - ν)) are fresh points.
        """
        del on
        missed, alarm = self.game.lam * (1 - self.game.nu), self.game.nu
        one = "row" if self.unit is None else of_unit(self.unit)
        most = min(1.0, up(self.accuracy_upper / down(alarm + missed)))
        if self.game.lam == 1:
            most = self.accuracy_upper
        blind = max(alarm, missed) / (alarm + missed)
        return (Success(f"any attack on any learner, average {one}", blind, ceiling=most),)

    @computed
    def sentence(self) -> str:
        """A sentence a data steward can pass on."""
        sure = at_confidence(self.confidence)
        one = "row" if self.unit is None else of_unit(self.unit)
        if self.delta_upper >= 1:
            return (
                f"No guarantee{sure}: with {rows_in_words(self.n, self.unit)} in {self.atoms} "
                f"different cells, some learner could reveal the average {one} completely. "
                "Use coarser or fewer columns."
            )
        right = percent(min(1.0, self.accuracy_upper), "upper")
        if self.unit is None:
            return (
                f"Whatever is trained on {self.n} such rows, nobody is right about the average "
                f"row's membership more than {right} of the time{sure}."
            )
        return (
            f"Whatever is trained on {rows_in_words(self.n, self.unit)}, nobody is right about the "
            f"membership of the average {one} more than {right} of the time{sure}."
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the numbers of the table of the command line."""
        leak = self.record_leak
        one, many = "row", "rows"
        if self.unit is not None:
            one, many = "value", f"values of “{self.unit}”"
        rows: list[tuple[str, object]] = [
            (many, "–" if self.rows is None else self.rows),
            (f"training {one}s n", self.n),
            ("cells", self.atoms),
            ("leak Δ, any learner", marked(self.delta_upper, "certificate", "delta", 6)),
            ("security MIS", marked(self.security_lower, "certificate", "security", 6)),
            ("method", self.method),
        ]
        if self.delta_plug_in_estimate is not None:
            estimate = significant(self.delta_plug_in_estimate, "estimate", 4)
            rows.append(("plug-in Δ (estimate only)", f"≈ {estimate}"))
        rows += [
            (f"leak limit for {name}", marked(value, "certificate", "leak", 6))
            for name, value in (
                (f"half of the {one}s", leak.median),
                (f"99 % of the {one}s", leak.p99),
                (f"every {one}", leak.max),
            )
        ]
        if leak.exposed_rows is not None:
            limit = significant(leak.exposed_above, "given")
            rows.append((f"{one}s without a useful guarantee (leak > {limit})", leak.exposed_rows))
        return rows


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────


@in_encoding
def certify(
    table: Table | None = None,
    *,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    n: int | None = None,
    confidence: float = 0.95,
    nu: float = 0.5,
    lam: float = 1.0,
    probabilities: Law | None = None,
    uniform: int | None = None,
    reference: InputFile | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    records: RecordsFile | None = None,
    force: Force = False,
) -> Certification:
    """Certify how much any learner at all can leak about the rows of this table.

    Give one of: a ``table`` (a file or an object, see :mod:`memberbound.tables.source`), the
    ``probabilities`` of a known law, or ``uniform`` = K equally likely atoms (the last two with
    ``n``).

    Guarantee: with probability ≥ ``confidence`` over the rows of the table, ``delta_upper`` bounds
    the leak Δ of every learner trained on ``n`` rows (average record), and ``record_leak`` the
    leak about each row; each of the two holds with that confidence by itself.
    Theorem: A25-T14 for a law; X5 (n ≤ N) or X16 (n > N), X7 and X15 for a table.
    Assumes: the rows (with ``unit``, the units) are independent draws from one distribution.
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
        database_table: the table inside a DuckDB or SQLite file.
        encoding: encoding of CSV files, such as latin-1 or cp1252; UTF-8 unless named.
        records: write every row with its certified leak to this file (.csv, .csv.gz or .parquet).
        force: overwrite ``records``.

    Command line:
        memberbound certify people.csv --columns education,sex,income
        memberbound certify visits.parquet --unit patient --records leaks.parquet
        memberbound certify --uniform 316 --n 32561

    Examples:
        >>> certify(uniform=316, n=32561).security_lower > 0.96
        True
    """
    game = IidGame(float(nu), float(lam))
    sources = {"a table": table, "probabilities": probabilities, "uniform": uniform}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise InputError(
            "certify needs exactly one of a table, probabilities and uniform, got "
            f"{' and '.join(given) or 'none of them'}."
        )
    if table is None:
        options = (columns, roles, reference, unit, database_table, records)
        if n is None:
            raise InputError("n must be given with a distribution: the number of rows trained on.")
        if any(option is not None for option in options):
            raise InputError(
                "columns, roles, reference, unit, database_table and records apply only to a table."
            )
        return _certify_law(game, n, probabilities, uniform)
    fraction("confidence", confidence, open_left=True, open_right=True)
    if n is not None:
        whole_number("n", n)
    if unit is not None and reference is not None:
        raise InputError("a reference must be counted by rows, so unit must be left out.")
    from memberbound.tables.counting import count_pair_profile, count_profile, write_records
    from memberbound.tables.table import chosen_columns, opened_table

    with opened_table(table, database_table) as opened:
        selection = chosen_columns(opened, columns, roles, unit)
        chosen = list(selection.columns)
        joint = None
        if reference is None:
            profile = count_profile(opened, chosen, unit)
        else:
            pair = count_pair_profile(opened, reference, chosen)
            joint = JointProfile(pair.train, pair.reference, pair.cells)
            profile = joint.training()
        result = certify_profile(profile, n, confidence, game=game, reference=joint, unit=unit)
        if records is not None:
            assert result.leaks is not None
            leaks = zip(profile.count.tolist(), result.leaks.leak.tolist(), strict=True)
            write_records(opened, chosen, dict(leaks), records, unit=unit, overwrite=force)
        whose_rows = () if unit is not None else (ONE_ROW_PER_PERSON,)
        return replace(
            result,
            assumptions=(*result.assumptions, *selection.assumption, *whose_rows),
            warnings=(*result.warnings, *selection.notes),
            roles=selection.roles,
            records=None if records is None else str(records),
        )


def certify_profile(
    profile: CountProfile,
    n: int | None = None,
    confidence: float = 0.95,
    *,
    game: IidGame | None = None,
    reference: JointProfile | None = None,
    unit: str | None = None,
) -> Certification:
    """Certify from the counts of counts alone; see :func:`certify`.

    With ``unit`` the profile counts different values of that column, each with all its rows.
    """
    rules = game or IidGame()
    size = profile.rows if n is None else whole_number("n", n)
    if size > profile.rows:
        counted = certify_beyond_the_table(profile, size, confidence, reference)
        extra = () if rules.gamma == 1 else ("X13",)
    else:
        counted = certify_counts(
            profile, size, confidence, nu=rules.nu, lam=rules.lam, reference=reference
        )
        extra = ()
    leaks = record_leaks(profile, size, confidence)
    assumptions = [f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in counted.assumptions]
    same = "rows that agree in them are the same to it."
    warnings = counted.warnings
    if unit is not None:
        who = f"values of “{unit}”"
        assumptions[0] = independent_units(unit)
        same = f"{who} whose rows agree in them, in whatever order, are the same to it."
        warnings = tuple(
            w.replace(f"{profile.rows} rows", f"{profile.rows} {who}") for w in warnings
        )
    return Certification(
        **vars(certified_table(counted, leaks, rules)),
        game=rules,
        theorems=(*counted.theorems, *extra, "X7", "X15"),
        assumptions=(
            *assumptions,
            f"A learner sees the chosen columns only, and {same}",
            "The leak of the table and the leaks of its records each hold with the stated "
            "confidence by themselves.",
        ),
        warnings=warnings,
        unit=unit,
        leaks=leaks,
    )


def _certify_law(
    game: IidGame, n: int, probabilities: object, uniform: int | None
) -> Certification:
    """Certify a known law: exact, without sampling (A25-T14, X7)."""
    if uniform is not None:
        certified = certified_uniform(uniform, n, game)
    else:
        certified = certified_law(read_probabilities(probabilities), n, game)
    return Certification(
        **vars(certified),
        game=game,
        theorems=("A25-T14", "X7"),
        assumptions=("The rows are independent draws from exactly the distribution given.",),
    )


def read_probabilities(source: object) -> FloatArray:
    """Return the atoms of a law from a file (one column, or one named p) or an array.

    What has probability 0 is no atom, and is left out.
    """
    if isinstance(source, (str, os.PathLike)):
        from memberbound.tables.in_memory import column_names, read_population

        path = Path(source)
        columns, _ = column_names(path)
        named = [c for c in columns if str(c).lower() in ("probability", "probabilities", "p")]
        if len(columns) > 1 and len(named) != 1:
            raise InputError(
                f"{path} must hold one column of probabilities, or one named 'probability', got "
                f"the columns {', '.join(map(repr, columns))}."
            )
        column = named[0] if named else columns[0]
        source = read_population(path, [column], numeric=True).values
    law, _, _ = checked_law(np.asarray(source, dtype=np.float64).ravel())
    return law[law > 0]
