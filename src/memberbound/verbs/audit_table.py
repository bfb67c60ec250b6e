"""The verb ``audit-table``: attack a synthetic table, or a synthesizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from memberbound.answers import OmitEmpty
from memberbound.attacks.scores import ASSUMPTIONS
from memberbound.attacks.synthetic_tables import Copies, audit_refits, audit_synthetic
from memberbound.declarations import Encoding, InputFile, Names, Option, Rates, TableLike
from memberbound.errors import InputError, fraction, whole_number
from memberbound.learners.learner import attribute_named
from memberbound.quantities import percent
from memberbound.tables.opening import use_table
from memberbound.verbs.audit_answer import (
    RATES,
    RecordsAnswer,
    audit_fields,
    check_rates,
    records_answer_fields,
)

if TYPE_CHECKING:
    from pandas import DataFrame

_TABLE_ASSUMPTIONS = (
    "The numbers are about this table and its own members, not about other tables of the same "
    "synthesizer.",
    "The members are all records that the table was made from, or records drawn from them "
    "uniformly.",
    "The non-members and the reference are independent draws from the source of the members and "
    "had no part in the table.",
    "Each interval of an attack holds with the stated confidence on its own; that of "
    "best_advantage holds for all attacks at once.",
    "The combined attack is trained on the membership of a random half of the records and measured "
    "on the other half.",
)
_REFIT_ASSUMPTIONS = (
    "The records are known to the attacker; which random half was synthesized is not.",
    "Refits are independent of one another, and the synthesizer is the one that will be used.",
    "Each interval of an attack holds with the stated confidence on its own; that of "
    "best_advantage holds for all attacks at once.",
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TableAudit(RecordsAnswer):
    """Attack results on a synthetic table, or on a synthesizer's tables."""

    VERB: ClassVar = "audit-table"
    ATTACKED: ClassVar = " on the synthetic rows"
    CAUTION: ClassVar = (
        "This is no guarantee: other attacks may achieve more, and a small distance to the closest "
        "row, or a large one, proves nothing by itself."
    )

    theorems: tuple[str, ...] = ("X29",)
    columns: tuple[str, ...]
    refits: int | None = None
    copies: OmitEmpty[Copies | None] = None

    def findings(self) -> Iterator[str]:
        """Yield the number of copied rows, and whether the two sides are comparable."""
        if self.copies is not None:
            inside = percent(self.copies.member_share_estimate, "estimate")
            outside = percent(self.copies.non_member_share_estimate, "estimate")
            yield (
                f"copied rows: {self.copies.members} members ({inside}) are in the table "
                f"and {self.copies.non_members} non-members ({outside}), by chance"
            )
        if self.one_law is not None and self.comparable:
            yield self.one_law.sentence


def audit_table(
    members: TableLike,
    *,
    nonmembers: InputFile | None = None,
    synthetic: InputFile | None = None,
    reference: InputFile | None = None,
    synthesizer: Annotated[object, Option("text", metavar="NAME", web=False)] | None = None,
    refits: int | None = None,
    columns: Names | None = None,
    confidence: float = 0.95,
    fpr: Rates | None = None,
    encoding: Encoding | None = None,
    seed: int = 0,
    progress: Annotated[Callable[..., None], Option("progress", metavar="refits")] | None = None,
) -> TableAudit:
    """Measure what membership inference attacks on a synthetic table achieve.

    Pass an existing table with its members and with fresh records (the model game: this table, its
    own members), or a ``synthesizer``, which is fitted to random halves of the records (the subset
    game).  The attacks are the distance to the closest synthetic row, that distance relative to a
    reference table, a density ratio, the likelihood of pairs of columns, and a classifier that
    combines them.

    Guarantee: each ``lower`` and ``upper`` holds with ``confidence`` for its own attack; that of
    ``best_advantage`` holds for all of them simultaneously, and its lower end also applies to the
    best possible attack.  Nothing here bounds other attacks from above.  Among the ``records``
    listed as members, the expected share of false ones is at most ``false_discovery_rate_upper``;
    refits list none.
    Theorem: proofs/audit-intervals.md, proofs/given-models.md; with refits proofs/bounded-means.md.
    Assumes: the answer's ``assumptions``.
    Edge cases: there is no lower bound if members and non-members differ in their own columns.

    Args:
        members: the records that the table was made from; with a synthesizer, all records.
        nonmembers: records from the same source that had no part in the table.
        synthetic: the synthetic table, from any synthesizer.
        reference: another table of such records, or synthetic rows made from other records
            (default: a third of the non-members).
        synthesizer: ``package.module:factory``; the factory, called without arguments, returns an
            object with ``fit(table)`` and ``sample(rows)``.
        refits: number of times the synthesizer is fitted (default: 64).
        columns: columns to compare (default: all columns that the tables share).
        confidence: of each interval.
        seed: for random halves.

    Command line:
        memberbound audit-table train.csv --nonmembers fresh.csv --synthetic new.csv
        memberbound audit-table people.csv --synthesizer mymodule:factory --fail-above 0.6

    Examples:
        >>> import numpy, pandas
        >>> draws = numpy.random.default_rng(0)
        >>> people = pandas.DataFrame(draws.normal(size=(400, 3)), columns=["a", "b", "c"])
        >>> copied = audit_table(people[:200], nonmembers=people[200:], synthetic=people[:200])
        >>> copied.copies.members, copied.floor > 0.5
        (200, True)
    """
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    start = whole_number("seed", seed, at_least=0)
    chosen = [columns] if isinstance(columns, str) else columns

    def read(source: object) -> DataFrame:
        with use_table(source, encoding=encoding) as table:
            names = [c for c in table.columns if chosen is None or c in chosen]
            if not names:
                raise InputError(f"{table.name} must have one of the columns, got none.")
            return table.frame[names]

    if synthesizer is not None:
        idle = {"nonmembers": nonmembers, "synthetic": synthetic, "reference": reference}
        unread = [name for name, table in (idle | {"fpr": fpr}).items() if table is not None]
        if unread:
            raise InputError(f"{unread[0]} must be left out with a synthesizer, which is refitted.")
        factory = attribute_named(synthesizer) if isinstance(synthesizer, str) else synthesizer
        if not callable(factory):
            raise InputError(f"synthesizer must be a factory, got {type(factory).__name__}.")
        count = 64 if refits is None else refits
        frame = read(members)
        measured, compared = audit_refits(
            frame, factory, refits=count, confidence=sure, seed=start, progress=progress
        )
        half = len(frame) // 2
        return TableAudit(
            **audit_fields(measured),
            assumptions=_REFIT_ASSUMPTIONS,
            columns=compared,
            members=half,
            non_members=len(frame) - half,
            refits=count,
        )
    if nonmembers is None or synthetic is None:
        raise InputError("nonmembers and synthetic must be given, or a synthesizer.")
    if refits is not None:
        raise InputError("refits must be left out without a synthesizer.")
    rates = check_rates(RATES if fpr is None else fpr)
    audit, copies, compared = audit_synthetic(
        read(members),
        read(nonmembers),
        read(synthetic),
        None if reference is None else read(reference),
        confidence=sure,
        fpr=rates,
        seed=start,
    )
    return TableAudit(
        **records_answer_fields(audit),
        assumptions=(*_TABLE_ASSUMPTIONS, ASSUMPTIONS[3]),
        columns=compared,
        copies=copies,
        one_law=audit.law,
    )
