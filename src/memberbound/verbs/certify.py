"""The verb ``certify``: how much can *any* learner leak about the rows of this table?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from memberbound.answers import INTERNAL, IidAnswer, OmitEmpty, computed
from memberbound.certificate import Certificate
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    ExcelSafe,
    Force,
    InputFile,
    Law,
    Names,
    RecordsFile,
    TableLike,
)
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame, independent_records, record_name
from memberbound.iid.certificates import certify_counts, leak_certificate
from memberbound.iid.count_record import CountRecord
from memberbound.iid.leak_bounds import (
    LeakBounds,
    certified_law,
    certified_table,
    certified_uniform,
    certify_beyond_the_table,
)
from memberbound.iid.profiles import CountProfile, JointProfile
from memberbound.iid.record_leak import RecordLeaks, record_leaks
from memberbound.limits import Limited, Part, Success
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import at_confidence, at_prices, marked, percent, significant
from memberbound.tables.frame_files import check_excel_safe

# ── The answer ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Certification(IidAnswer, LeakBounds, Limited):
    """A certificate for a table or a known distribution.

    With a ``unit``, persons are counted instead of rows: distinct values of that column, each with
    all its rows.
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
    #: The counts from which ``verify`` recomputes the bounds.
    derivation: OmitEmpty[CountRecord | None] = None
    leaks: RecordLeaks | None = field(default=None, metadata=INTERNAL)

    @property
    def certificate(self) -> Certificate:
        """The certified leak Δ of every learner (average record)."""
        return leak_certificate(
            self.delta_upper, self.game, self.theorems, self.assumptions, self.confidence
        )

    def successes(self, on: Part) -> tuple[Success, ...]:
        """Return the success rate to check against a limit: any attack on the average row."""
        del on
        whom = f"any attack on any learner, average {record_name(self.unit)}"
        return (Success(whom, self.game.blind, ceiling=self.accuracy_upper),)

    @computed
    def sentence(self) -> str:
        """The certificate as a sentence that a data steward can pass on.

        The success rate depends on ν, the share of tested records that are not members, but not on
        λ, the weight of a missed member.
        """
        sure = at_confidence(self.confidence)
        one = record_name(self.unit)
        if self.accuracy_upper >= 1:
            return (
                f"No guarantee{sure}: with {self.n} {one}s in {self.atoms} different cells, some "
                f"learner could reveal the average {one} completely. Use coarser or fewer columns."
            )
        odds = ""
        if self.game.nu != 0.5:
            odds = (
                f" when {percent(self.game.nu, 'given')} of the tested {one}s are not members "
                f"(blind guessing: {percent(self.game.blind, 'upper')})"
            )
        right = percent(self.accuracy_upper, "upper")
        return (
            f"Whatever is trained on {self.n} such {one}s, nobody is right about the average "
            f"{one}'s membership more than {right} of the time{sure}{odds}."
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the rows of the command line's table."""
        leak, one = self.record_leak, record_name(self.unit)
        at = at_prices(self.game.nu, self.game.lam)
        priced = "" if self.game == IidGame() else f" ({at})"
        rows: list[tuple[str, object]] = [
            (f"{one}s", "–" if self.rows is None else self.rows),
            (f"training {one}s n", self.n),
            ("cells", self.atoms),
            (f"leak Δ, any learner{priced}", marked(self.delta_upper, "certificate", "delta", 6)),
            (f"security MIS{priced}", marked(self.security_lower, "certificate", "security", 6)),
        ]
        if self.accuracy_weighted_upper is not None:
            most = significant(self.accuracy_weighted_upper, "upper")
            rows.append((f"weighted accuracy (A25, {at})", f"≤ {most}"))
        rows.append(("method", self.method))
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


def certify(
    table: TableLike | None = None,
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
    excel_safe: ExcelSafe = False,
) -> Certification:
    """Certify an upper bound on the leak of any learner about the rows of a table.

    Pass exactly one of: a ``table`` (a file or an object, see :mod:`memberbound.tables.source`),
    the ``probabilities`` of a known distribution, or ``uniform`` = K equally likely atoms (the last
    two with ``n``).

    Guarantee: with probability ≥ ``confidence`` over the rows of the table, ``delta_upper`` bounds
    the leak Δ of every learner trained on ``n`` rows (average record), and ``record_leak`` the
    leak about each row; each of the two holds with that confidence on its own.
    Theorem: A25-T14 for a law; X5 (n ≤ N) or X16 (n > N), X7 and X15 for a table.
    Assumes: the rows (with ``unit``, the units) are independent draws from one distribution.
    Edge cases: if all rows are distinct the bound is 1, a valid but vacuous result.

    Args:
        table: a file or a table; missing values count as a category of their own.
        columns: the columns a learner sees (default: all but identifiers).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the inferred role; identifiers are left out.
        n: number of training rows, or of persons with ``unit`` (default: the whole table).
        confidence: of each certificate.
        reference: additional rows from the same source, independent of the table's and not used for
            training; the table itself is rejected, and a warning counts shared rows.
        unit: column that identifies the person; all rows of a person are one record, and persons
            are counted instead of rows.
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
    named = [name for name, value in sources.items() if value is not None]
    if len(named) != 1:
        raise InputError(
            "certify needs exactly one of a table, probabilities and uniform, got "
            f"{' and '.join(named) or 'none of them'}."
        )
    check_excel_safe(records, excel_safe=excel_safe, name="records")
    if table is None:
        options = (columns, roles, reference, unit, database_table, records)
        if n is None:
            raise InputError("n must be given with a distribution: the number of rows trained on.")
        if any(option is not None for option in options):
            raise InputError(
                "columns, roles, reference, unit, database_table and records apply only to a table."
            )
        return _certify_law(game, n, probabilities, uniform, encoding)
    fraction("confidence", confidence, open_left=True, open_right=True)
    if n is not None:
        whole_number("n", n)
    if unit is not None and reference is not None:
        raise InputError("a reference must be counted by rows, so unit must be left out.")
    from memberbound.tables.counting import (
        count_pair_profile,
        count_profile,
        select_columns,
        write_records,
    )
    from memberbound.tables.opening import use_table
    from memberbound.tables.references import reference_notes

    with use_table(table, database_table, encoding=encoding) as opened:
        selection = select_columns(opened, columns, roles, unit)
        chosen = list(selection.columns)
        joint = None
        shared: tuple[str, ...] = ()
        if reference is None:
            profile = count_profile(opened, chosen, unit)
        else:
            with use_table(reference, beside=opened, encoding=encoding) as other:
                joint = JointProfile(*count_pair_profile(opened, other, chosen))
                shared = reference_notes(opened, other, chosen, joint)
            profile = joint.training()
        result = certify_profile(profile, n, confidence, game=game, reference=joint, unit=unit)
        if records is not None:
            assert result.leaks is not None
            leaks = zip(profile.count.tolist(), result.leaks.leak.tolist(), strict=True)
            write_records(
                opened,
                chosen,
                dict(leaks),
                records,
                unit=unit,
                overwrite=force,
                excel_safe=excel_safe,
            )
        return replace(
            result,
            assumptions=(*result.assumptions, *selection.assumption),
            warnings=(*result.warnings, *shared, *selection.notes),
            roles=selection.roles,
            derivation=CountRecord.of_table(profile, joint).named(chosen),
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

    With ``unit`` the profile counts distinct values of that column, each with all its rows.
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
    # The first assumption is that the rows are independent; the others come from the method.
    further = [f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in counted.assumptions[1:]]
    one = record_name(unit)
    same = f"{one}s that agree in them"
    if unit is not None:
        same = "persons whose rows agree in them, in whatever order,"
    rows = f"{profile.rows} rows"
    return Certification(
        **vars(certified_table(counted, leaks, rules)),
        game=rules,
        theorems=(*counted.theorems, *extra, "X7", "X15"),
        assumptions=(
            *independent_records(unit),
            *further,
            f"A learner sees the chosen columns only, and {same} are the same to it.",
            "The leak of the table and the leaks of its records each hold with the stated "
            "confidence by themselves.",
        ),
        warnings=tuple(w.replace(rows, f"{profile.rows} {one}s") for w in counted.warnings),
        unit=unit,
        derivation=CountRecord.of_table(profile, reference),
        leaks=leaks,
    )


def _certify_law(
    game: IidGame, n: int, probabilities: object, uniform: int | None, encoding: str | None
) -> Certification:
    """Certify a known law exactly, without sampling (A25-T14, X7)."""
    if uniform is not None:
        return certify_law(CountRecord(uniform=uniform), None, n, game)
    from memberbound.tables.public_rows import read_probabilities

    law = read_probabilities(probabilities, encoding)
    return certify_law(CountRecord.of_law(law), law, n, game)


def certify_law(
    record: CountRecord | None, law: FloatArray | None, n: int, game: IidGame
) -> Certification:
    """Certify a law (None: the record's uniform atoms); see :func:`certify`."""
    if law is None:
        assert record is not None
        assert record.uniform is not None
        certified = certified_uniform(record.uniform, n, game)
    else:
        certified = certified_law(law, n, game)
    return Certification(
        **vars(certified),
        game=game,
        derivation=record,
        theorems=("A25-T14", "X7"),
        assumptions=("The rows are independent draws from exactly the distribution given.",),
    )
