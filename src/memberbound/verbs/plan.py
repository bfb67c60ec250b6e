"""The verb ``plan``: how many rows, or persons, are enough?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

from memberbound.answers import Answer, Given, Lower, computed
from memberbound.declarations import Column, ColumnRoles, DatabaseTable, Law, Names, Option, Table
from memberbound.errors import InputError, fraction, whole_number
from memberbound.games import IidGame
from memberbound.iid.planning import (
    MAX_PLAN,
    smallest_certifiable_leak,
    smallest_n_for_law,
    smallest_n_for_records,
    smallest_n_for_table,
    smallest_n_for_uniform,
)
from memberbound.quantities import (
    at_confidence,
    confident,
    decimals,
    significant,
    vacuous,
)
from memberbound.verbs.certify import (
    ONE_ROW_PER_PERSON,
    independent_units,
    of_unit,
    read_probabilities,
    rows_in_words,
)

if TYPE_CHECKING:
    from memberbound.tables.roles import Roles
    from memberbound.tables.table import Columns

__all__ = [
    "Plan",
    "plan",
]


@dataclass(frozen=True, repr=False)
class Plan(Answer):
    """The number of rows that meets the target(s); ``None`` where no number can be certified.

    With a ``unit`` it is a number of different values of that column, each with all its rows.
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

    @computed
    def nu(self) -> Given:
        """Probability that the tested record is not a member."""
        return self.game.nu

    @computed
    def lam(self) -> Given:
        """Weight of a missed member."""
        return self.game.lam

    def summary_notes(self) -> tuple[str, ...]:
        """Return nothing: the sentence holds the notes."""
        return ()

    @computed
    def sentence(self) -> str:
        """How many rows are enough for what."""
        wishes = []
        one, many = "row", "rows"
        if self.unit is not None:
            one, many = of_unit(self.unit), f"values of “{self.unit}”"
        if self.security is not None:
            wishes.append(f"MIS ≥ {significant(self.security, 'given')} (average {one})")
        if self.record_leak is not None:
            whom = "record" if self.rows is None else "record whose value occurs in the table"
            if self.unit is not None:
                whom = f"{one} whose rows occur alike in the table"
            most = significant(self.record_leak, "given")
            wishes.append(f"a leak of at most {most} for every {whom}")
        sure = "" if self.confidence == 1 else f", confidence {confident(self.confidence)}"
        wish = " and ".join(wishes)
        notes = "".join(f"\nnote: {w}." for w in self.warnings)
        if self.n_required is None:
            sure = at_confidence(self.confidence)
            return f"No number of {many} is certified to give {wish}{sure}. {self.reason}{notes}"
        needed = rows_in_words(self.n_required, self.unit, "training ")
        return f"{needed} give {wish}, whatever the learner ({self.source}{sure}).{notes}"


def plan(
    table: Table | None = None,
    *,
    security: float | None = None,
    record_leak: float | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    probabilities: Law | None = None,
    uniform: Annotated[int, Option("whole", metavar="K")] | None = None,
    confidence: float = 0.95,
    nu: float = 0.5,
    lam: float = 1.0,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
) -> Plan:
    """Find how many training rows are enough for a certified target.

    The source is a known law (``probabilities``), K equally likely atoms (``uniform``) or a
    ``table`` whose law is unknown.  Of a table the identifiers are left out unless ``columns`` or
    ``roles`` (column → role) say otherwise.

    Guarantee: training on ``n_required`` rows meets the target(s) for every learner, for a table
    with probability ≥ ``confidence`` over its rows; from a table, ``record_leak`` covers the
    records whose values occur in it.
    Theorem: A25-T14 for a law, X7 for records; X5, X15 and X16 for a table.
    Assumes: the rows are independent draws from the law, now and later.
    Edge cases: ``n_required`` is ``None`` where no n can be certified, with the reason.

    Args:
        table: rows of the kind that will be trained on.
        security: smallest acceptable MIS.
        record_leak: largest acceptable leak for any row.
        columns: the columns a learner sees (default: all but identifiers).
        roles: column → number, category, date, identifier or text, to correct the inferred role.
        probabilities: instead of a table: the probability of each distinct record, as an array or a
            file with one column.
        uniform: instead of a table: number of equally likely records.
        confidence: of the answer, where it comes from a table.
        nu: probability that the tested record is not a member.
        lam: weight of a missed member.
        unit: column that identifies the person; all rows of a person are one record.
        database_table: the table inside a DuckDB or SQLite file.

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
    given = [v is not None for v in (table, probabilities, uniform)]
    if sum(given) != 1:
        raise InputError("plan needs exactly one of a table, probabilities and uniform.")
    if table is not None:
        fraction("confidence", confidence, open_left=True, open_right=True)
        return _for_table(
            _Wish(security, record_leak, confidence, game),
            (table, columns, roles, unit, database_table),
        )
    if any(option is not None for option in (columns, roles, unit, database_table)):
        raise InputError("columns, roles, unit and database_table apply only to a table.")
    return _for_law(_Wish(security, record_leak, 1.0, game), probabilities, uniform)


@dataclass(frozen=True)
class _Wish:
    security: float | None
    record_leak: float | None
    confidence: float
    game: IidGame


def _for_law(wish: _Wish, probabilities: object, uniform: int | None) -> Plan:
    if uniform is not None:
        atoms = whole_number("uniform", uniform)
        rarest, source = 1 / atoms, f"{atoms} equally likely atoms"
    else:
        law = read_probabilities(probabilities)
        atoms, rarest, source = int(law.size), float(law.min()), f"a law with {law.size} atoms"
    answers: list[int | None] = []
    if wish.security is not None:
        if uniform is not None:
            found = smallest_n_for_uniform(wish.security, atoms, wish.game.nu, wish.game.lam)
        else:
            found = smallest_n_for_law(wish.security, law, wish.game.nu, wish.game.lam)
        answers.append(found)
    if wish.record_leak is not None:
        answers.append(smallest_n_for_records(wish.record_leak, rarest * (1 - 1e-15)))
    needed = None if None in answers else max(n for n in answers if n is not None)
    return Plan(
        needed,
        wish.security,
        wish.record_leak,
        source,
        1.0,
        wish.game,
        ("A25-T14", "X7"),
        ("The rows are independent draws from exactly the law given.",),
        atoms=atoms,
        reason=None if needed else f"More than {MAX_PLAN:,} rows would be needed.",
    )


def _for_table(wish: _Wish, where: tuple[object, Columns, Roles, str | None, str | None]) -> Plan:
    from memberbound.tables.counting import count_profile
    from memberbound.tables.table import chosen_columns, opened_table

    table, columns, roles, unit, database_table = where
    with opened_table(table, database_table) as opened:
        selection = chosen_columns(opened, columns, roles, unit)
        profile = count_profile(opened, list(selection.columns), unit)
    needed = smallest_n_for_table(profile, wish.security, wish.record_leak, wish.confidence)
    reason = None
    if needed is None:
        smallest = smallest_certifiable_leak(profile, wish.confidence)
        least = decimals(smallest, "upper", 3)
        singles = int(profile.cells[0]) if profile.count[0] == 1 else 0
        reason = (
            f"The table's {rows_in_words(profile.rows, unit)} fall into {profile.atoms} cells, "
            f"{singles} of them seen once; "
            + (
                "too few rows repeat to certify anything. Use fewer or coarser columns."
                if vacuous(smallest, "delta")
                else f"leaks below about {least} cannot be certified from it, and cells seen once "
                "not at all."
            )
        )
    return Plan(
        needed,
        wish.security,
        wish.record_leak,
        "a table of unknown law",
        wish.confidence,
        wish.game,
        ("A25-T14", "X5", "X7", "X15", "X16"),
        (
            *(
                ("The rows are independent draws from one law, now and later.", ONE_ROW_PER_PERSON)
                if unit is None
                else (independent_units(unit, ", now and later"),)
            ),
            "A record-leak target covers records whose values occur in the table; about values "
            "never seen nothing is certified."
            if unit is None
            else f"A record-leak target covers each {of_unit(unit)} whose rows occur alike in the "
            "table; about combinations of rows never seen nothing is certified.",
            *selection.assumption,
        ),
        rows=profile.rows,
        atoms=profile.atoms,
        reason=reason,
        unit=unit,
        roles=selection.roles,
        warnings=selection.notes,
    )
