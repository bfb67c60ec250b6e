"""The verb ``plan``: how many rows, or persons, are needed?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from memberbound.answers import Given, IidAnswer, Lower, OmitEmpty, computed
from memberbound.certificate import Certificate
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    Law,
    Names,
    TableLike,
)
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame, independent_records, record_name
from memberbound.iid.certificates import smallest_certifiable_leak
from memberbound.iid.count_record import CountRecord
from memberbound.iid.profiles import CountProfile
from memberbound.iid.sample_sizes import (
    MAX_PLAN,
    smallest_n_for_law,
    smallest_n_for_records,
    smallest_n_for_table,
    smallest_n_for_uniform,
)
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import (
    at_confidence,
    at_prices,
    confident,
    decimals,
    significant,
    vacuous,
)


@dataclass(frozen=True, repr=False)
class Plan(IidAnswer):
    """The number of rows that meets the target(s); ``None`` if no number can be certified.

    With a ``unit`` it is the number of persons: distinct values of that column, each with all its
    rows.
    """

    VERB: ClassVar = "plan"

    n_required: int | None
    security: Given | None
    record_leak: Given | None
    source: str
    confidence: Lower
    game: IidGame
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    rows: int | None = None
    atoms: int | None = None
    reason: str | None = None
    unit: str | None = None
    roles: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    #: The counts from which ``verify`` recomputes the number.
    derivation: OmitEmpty[CountRecord | None] = None

    @property
    def certificate(self) -> Certificate | None:
        """The certified security MIS of ``n_required`` rows, or None."""
        if self.n_required is None or self.security is None:
            return None
        promise = (self.game, self.theorems, self.assumptions, self.confidence)
        return Certificate("security", self.security, "lower", *promise)

    def summary_notes(self) -> tuple[str, ...]:
        """Return no notes: the sentence includes them."""
        return ()

    @computed
    def sentence(self) -> str:
        """The number of rows needed for the target(s), or why there is none."""
        wishes, one = [], record_name(self.unit)
        if self.security is not None:
            at = at_prices(self.game.nu, self.game.lam)
            wishes.append(f"MIS ≥ {significant(self.security, 'given')} (average {one}, {at})")
        if self.record_leak is not None:
            whom = "record" if self.rows is None else _describe_records(self.unit)
            most = significant(self.record_leak, "given")
            wishes.append(f"a leak of at most {most} for every {whom}")
        sure = "" if self.confidence == 1 else f", confidence {confident(self.confidence)}"
        wish = " and ".join(wishes)
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        if self.n_required is None:
            sure = at_confidence(self.confidence)
            return f"No number of {one}s is certified to give {wish}{sure}. {self.reason}{notes}"
        needed = f"{self.n_required} training {one}s"
        return f"{needed} give {wish}, whatever the learner ({self.source}{sure}).{notes}"


def plan(
    table: TableLike | None = None,
    *,
    security: float | None = None,
    record_leak: float | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    probabilities: Law | None = None,
    uniform: int | None = None,
    confidence: float = 0.95,
    nu: float = 0.5,
    lam: float = 1.0,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
) -> Plan:
    """Find how many training rows a certified target requires.

    The source is a known law (``probabilities``), K equally likely atoms (``uniform``) or a
    ``table`` from an unknown law.  Identifier columns of a table are dropped unless selected with
    ``columns`` or ``roles`` (column → role).

    Guarantee: training on ``n_required`` rows meets the target(s) for every learner, for a table
    with probability ≥ ``confidence`` over its rows; from a table, ``record_leak`` covers
    records with values that occur in it.
    Theorem: A25-T14 for a law, X7 for records; X5, X15 and X16 for a table.
    Assumes: the rows are independent draws from the law, now and later.
    Edge cases: ``n_required`` is ``None`` if no n can be certified; ``reason`` explains why.

    Args:
        table: rows like those that will be trained on.
        security: smallest acceptable MIS.
        record_leak: largest acceptable leak for any row.
        columns: the columns a learner sees (default: all but identifiers).
        roles: column → number, category, date, identifier or text, to correct the inferred role.
        confidence: of an answer computed from a table.
        unit: column that identifies the person; all rows of a person are one record.

    Command line:
        memberbound plan --security 0.95 --uniform 316
        memberbound plan people.csv --columns education,sex --security 0.98
        memberbound plan --record-leak 0.1 --probabilities law.csv

    Examples:
        >>> plan(security=0.95, uniform=100).n_required
        6293
    """
    if security is None and record_leak is None:
        raise InputError("plan needs a target: security, record_leak or both, got none.")
    for name, value in (("security", security), ("record_leak", record_leak)):
        if value is not None:
            fraction(name, value, open_left=True, open_right=True)
    game = IidGame(float(nu), float(lam))
    if sum(source is not None for source in (table, probabilities, uniform)) != 1:
        raise InputError("plan needs exactly one of a table, probabilities and uniform.")
    if table is None:
        if any(option is not None for option in (columns, roles, unit, database_table)):
            raise InputError("columns, roles, unit and database_table apply only to a table.")
        law = None
        if probabilities is not None:
            from memberbound.tables.public_rows import read_probabilities

            law = read_probabilities(probabilities, encoding)
        record = CountRecord(uniform=uniform) if law is None else CountRecord.of_law(law)
        return plan_for_law(security, record_leak, game, law, record)
    fraction("confidence", confidence, open_left=True, open_right=True)
    from memberbound.tables.counting import count_profile, select_columns
    from memberbound.tables.opening import use_table

    with use_table(table, database_table, encoding=encoding) as opened:
        selection = select_columns(opened, columns, roles, unit)
        profile = count_profile(opened, list(selection.columns), unit)
    found = plan_for_counts(profile, security, record_leak, confidence, game=game, unit=unit)
    return replace(
        found,
        assumptions=(*found.assumptions, *selection.assumption),
        roles=selection.roles,
        warnings=selection.notes,
        derivation=CountRecord.of_table(profile).named(selection.columns),
    )


def plan_for_counts(
    profile: CountProfile,
    security: float | None,
    record_leak: float | None,
    confidence: float,
    *,
    game: IidGame,
    unit: str | None = None,
) -> Plan:
    """Plan from the counts of counts alone; see :func:`plan`."""
    needed = smallest_n_for_table(profile, security, record_leak, confidence)
    covered = (
        f"A record-leak target covers every {_describe_records(unit)}; there is no certificate "
        "for others."
    )
    return Plan(
        needed,
        security,
        record_leak,
        "a table of unknown distribution",
        confidence,
        game,
        ("A25-T14", "X5", "X7", "X15", "X16"),
        (*independent_records(unit, ", now and later"), covered),
        rows=profile.rows,
        atoms=profile.atoms,
        reason=None if needed is not None else _why_none(profile, confidence, unit),
        unit=unit,
        derivation=CountRecord.of_table(profile),
    )


def _describe_records(unit: str | None) -> str:
    """Describe the records that a table covers."""
    if unit is None:
        return "row with values that occur in the table"
    return "person with rows that occur in the table"


def _why_none(profile: CountProfile, confidence: float, unit: str | None) -> str:
    """Explain why no number of rows can be certified from these counts."""
    smallest = smallest_certifiable_leak(profile, confidence)
    singles = int(profile.cells[0]) if profile.count[0] == 1 else 0
    reason = "too few rows repeat to certify anything. Use fewer or coarser columns."
    if not vacuous(smallest, "delta"):
        reason = (
            f"leaks below about {decimals(smallest, 'upper', 3)} cannot be certified from it, and "
            "cells seen once not at all."
        )
    return (
        f"The table's {profile.rows} {record_name(unit)}s fall into {profile.atoms} cells, "
        f"{singles} of them seen once; {reason}"
    )


def plan_for_law(
    security: float | None,
    record_leak: float | None,
    game: IidGame,
    law: FloatArray | None,
    record: CountRecord | None,
) -> Plan:
    """Plan for a known law, or the uniform atoms of the record, exactly (A25-T14, X7)."""
    enough: list[int | None] = []
    if law is None:
        assert record is not None
        atoms = whole_number("uniform", record.uniform)
        rarest, source = 1 / atoms, f"{atoms} equally likely values"
        if security is not None:
            enough.append(smallest_n_for_uniform(security, atoms, game.nu, game.lam))
    else:
        atoms, rarest, source = int(law.size), float(law.min()), f"{law.size} probabilities"
        if security is not None:
            enough.append(smallest_n_for_law(security, law, game.nu, game.lam))
    if record_leak is not None:
        enough.append(smallest_n_for_records(record_leak, rarest * (1 - 1e-15)))
    needed = None if None in enough else max(n for n in enough if n is not None)
    return Plan(
        needed,
        security,
        record_leak,
        source,
        1.0,
        game,
        ("A25-T14", "X7"),
        ("The rows are independent draws from exactly the distribution given.",),
        atoms=atoms,
        reason=None if needed else f"More than {MAX_PLAN:,} rows would be needed.",
        derivation=record,
    )
