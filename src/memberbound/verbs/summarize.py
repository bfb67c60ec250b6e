"""The verb ``summarize``: release statistics of all rows that hide every record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

from memberbound.answers import Given, Sided
from memberbound.declarations import (
    Column,
    DatabaseTable,
    Encoding,
    Eta,
    Force,
    Hidden,
    InsecureSeed,
    LedgerFile,
    Memory,
    Names,
    Numbers,
    Option,
    OutputFile,
    PublicBounds,
    Rates,
    TableLike,
)
from memberbound.errors import InputError, fractions, one_of
from memberbound.learners.refits import Scheduler, connect
from memberbound.quantities import significant
from memberbound.release.all_rows.bounds import forms_of, read_bounds
from memberbound.release.all_rows.summaries import TABLE_STATISTICS, release_table_statistic
from memberbound.release.calibration import VECTOR_ENDINGS
from memberbound.release.precision import NumberInterval
from memberbound.release.randomness import source_from_seed
from memberbound.release.release_step import ReleaseStep
from memberbound.tables.records import read_secret_columns
from memberbound.verbs.protection import Protection, unit_and_seed_notes


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Summary(Protection):
    """Numbers of all rows, in the neighbour game."""

    VERB: ClassVar = "summarize"

    values: Annotated[tuple[float, ...], Sided("given")]
    names: tuple[str, ...]
    #: Standard errors and 95 % intervals of the values, in their order.
    intervals: tuple[NumberInterval, ...]
    #: The ranges to which numbers were clipped, by column; intervals are for clipped numbers.
    ranges: dict[str, tuple[Given, Given]]

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """The theorems behind the certificate, and behind the intervals."""
        return (*super().theorems, "X32")

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return the table rows of the release, and the learnt ranges of clipped columns."""
        learnt = [
            (f"{name} clipped to", f"[{significant(low, 'given')}, {significant(high, 'given')}]")
            for name, (low, high) in self.ranges.items()
            if name not in self.bounds
        ]
        return [*super().summary_rows(), *learnt]


def summarize(
    source: TableLike,
    *,
    statistic: Annotated[str, Option("choice", choices=TABLE_STATISTICS)],
    eta: Eta = 0.05,
    columns: Names | None = None,
    bounds: PublicBounds | None = None,
    bins: Numbers | None = None,
    levels: Annotated[Sequence[float], Option("numbers", metavar="p,q,…")] | None = None,
    consistent: bool = False,
    baseline: Rates | None = None,
    unit: Column | None = None,
    ledger: LedgerFile | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    memory: Memory | None = None,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    insecure_seed: InsecureSeed | None = None,
) -> Summary:
    """Release statistics of all rows without revealing who is in the data.

    Guarantee: no attacker who knows all other records and sees the numbers is right about any
    record's membership more than ``eta`` above blind guessing.  This holds with certainty for every
    record of any table.
    Theorem: X22 (proofs/gradient-descent.md, claims 1, 3, 5 and 6), for persons X26.
    Assumes: one release; the number of rows (of persons, with ``unit``), the columns' names and
    declared types, and the bounds are public.
    Edge cases: numbers are clipped to the range of their column; a noisy count can be negative.
    ``intervals`` has two 95 % intervals for every value: for the table's value without noise, and
    for the population's (X32).  They are for clipped numbers and do not cover the effect of
    clipping.

    Args:
        source: a file or a table, one record per row.
        statistic: ``mean``, ``sum``, ``covariance`` or ``quantiles`` of columns of numbers; a
            ``histogram`` of one column, or a ``contingency`` table of several.
        columns: columns to use (default: all).
        bins: public edges of a histogram of numbers.
        levels: levels of the quantiles (default: quartiles).
        consistent: make counts nonnegative and add them up to the number of rows (of persons); the
            intervals stay those of the noisy counts.
        unit: column that identifies the person; each person counts once, with the mean of their
            rows (a sum adds up persons' means; a count is of persons, split in fractions if their
            rows differ).
        out: file for the numbers (.json, .safetensors; .csv or .xlsx with names and intervals);
            their certificate is written beside it.

    Command line:
        memberbound summarize patients.csv --statistic mean --columns age,bmi --bounds bounds.yaml
        memberbound summarize patients.csv --statistic histogram --columns ward --out wards.csv
        memberbound summarize patients.csv --statistic contingency --columns sex,ward --consistent

    Examples:
        >>> import pandas
        >>> people = pandas.DataFrame({"age": [k % 80 for k in range(900)]})
        >>> result = summarize(people, statistic="mean", bounds={"age": [0, 80]}, insecure_seed=1)
        >>> exact = float(people["age"].mean())
        >>> bool(abs(result.released.values[0] - exact) < 2)
        True
        >>> result.intervals[0].table_lower < exact < result.intervals[0].table_upper
        True
    """
    one_of("statistic", statistic, TABLE_STATISTICS)
    if levels is not None and statistic != "quantiles":
        raise InputError("levels apply only to quantiles.")
    seed, guesses = insecure_seed, fractions("baseline", baseline)
    step = ReleaseStep("summarize", source, eta, out, ledger, seed, VECTOR_ENDINGS, force)
    public = read_bounds(bounds)
    with connect(scheduler, client) as cluster:
        table = read_secret_columns(
            source,
            forms_of(public),
            columns=columns,
            unit=unit,
            database_table=database_table,
            encoding=encoding,
            memory=memory,
            spread=None if cluster is None else cluster.spread,
        )
        released = step.run(
            statistic,
            lambda reserve: release_table_statistic(
                table,
                statistic,
                eta=eta,
                bounds=public,
                bins=bins,
                levels=levels,
                consistent=consistent,
                source=source_from_seed(seed),
                reserve=reserve,
            ),
        )
        return Summary(
            calibration=released.calibration,
            released=released,
            what=statistic,
            warnings=(
                *table.notes,
                *unit_and_seed_notes(unit, seed, persons=len(table), table=table),
            ),
            values=tuple(released.values.tolist()),
            names=released.names,
            intervals=released.intervals,
            ranges=dict(released.ranges),
            bounds=tuple(sorted(name for name in public if name in table.columns)),
            columns=tuple(table.columns),
            baseline=guesses,
            out=None if out is None else str(out),
        )
