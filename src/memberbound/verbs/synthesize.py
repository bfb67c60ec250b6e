"""The verb ``synthesize``: generate a synthetic table that hides every record of the original.

New rows are drawn from noisy counts alone, so any further use of them keeps the guarantee.  The
similarity to the original rows, ``fidelity``, is computed from the secret rows without noise: it is
for the owner of the rows, and is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from memberbound.answers import INTERNAL, Given, computed
from memberbound.certificate import Certificate
from memberbound.declarations import (
    Column,
    DatabaseTable,
    Encoding,
    Eta,
    ExcelSafe,
    Force,
    Hidden,
    InsecureSeed,
    LedgerFile,
    Memory,
    Names,
    Option,
    OutputFile,
    Progress,
    PublicBounds,
    Rates,
    TableLike,
)
from memberbound.errors import InputError, fractions, whole_number
from memberbound.learners.refits import Scheduler, connect
from memberbound.quantities import decimals, marked, percent
from memberbound.release.all_rows.bounds import forms_of, read_bounds, read_statements
from memberbound.release.all_rows.cells import cast_to_declared
from memberbound.release.all_rows.noisy_marginals import (
    MeasuredStatistic,
    estimate_statistic,
    read_marginal,
)
from memberbound.release.all_rows.rules import Rules
from memberbound.release.all_rows.rules_section import read_rules
from memberbound.release.all_rows.synthetic import SyntheticRows, SyntheticTable, fit_synthetic
from memberbound.release.budget import Budget
from memberbound.release.randomness import source_from_seed
from memberbound.release.release_step import ReleaseStep, Reserve
from memberbound.release.saving import save
from memberbound.tables.engine import size_in_bytes
from memberbound.tables.frame_files import (
    FRAME_ENDINGS,
    check_excel_safe,
    check_sheet,
    excel_safe_table,
)
from memberbound.tables.records import Records, read_secret_columns
from memberbound.verbs.fidelity import Fidelity, measure_fidelity, sample_real_rows
from memberbound.verbs.protection import AllRows, unit_and_seed_notes

if TYPE_CHECKING:
    import pandas as pd

_OWN_EYES = (
    "fidelity is computed from the secret rows and covered by no certificate: keep it to yourself, "
    "and choose no table by it, which would publish it"
)
_POST_PROCESSING = (
    "Rows are drawn from noisy counts alone: whatever is done with them keeps the bound, any "
    "number of times. The rows may differ from real ones in any way."
)


#: Maximum number of classes that the text output shows.
_MOST_CLASSES = 6


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Synthesis(AllRows):
    """A synthetic table (``table``) with its certificate."""

    VERB: ClassVar = "synthesize"

    eta: Given
    rows: int
    records: int
    unit: str | None
    target: str | None
    identifiers: tuple[str, ...]
    left_out: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    noise: dict[str, Given]
    certificate: Certificate
    fidelity: Fidelity | None
    table: pd.DataFrame = field(metadata=INTERNAL)
    model: SyntheticTable = field(metadata=INTERNAL)
    owner_only: tuple[str, ...] = ("fidelity", "warnings")

    @property
    def spent(self) -> Budget:
        """The privacy budget of the table."""
        return self.model.budget

    @property
    def members(self) -> int:
        """Number of records."""
        return self.records

    def marginal(self, columns: str | Sequence[str]) -> pd.DataFrame:
        """Return the noisy counts of columns that were measured together, with intervals.

        The counts are unprojected, so some can be negative.  An interval is for the
        table's own count (``table_*``), or for the expected count of as many records of the
        population (``population_*``).
        """
        return read_marginal(self.model.marginals, columns, self.records)

    def interval(self, statistic: Callable[..., float]) -> MeasuredStatistic:
        """Return the mean over all records of a function of columns, with 95 % intervals (X32).

        The function's arguments are columns: ``lambda age, ill: age > 40 and ill == "yes"``.  It is
        evaluated at the values of every cell; a missing number is NaN, a missing category None, an
        unlisted one "other", and a date a text.

        Guarantee: an interval covers in about 95 % of releases, for any table.
        Edge cases: raises unless noisy counts determine the mean; new rows themselves have no
            interval.
        """
        return estimate_statistic(self.model.marginals, statistic, self.records)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions behind the bound."""
        return (*super().assumptions, _POST_PROCESSING)

    @computed
    def persons(self) -> int | None:
        """Number of persons, or None if every row is a record."""
        return None if self.unit is None else self.records

    @computed
    def sentence(self) -> str:
        """Two sentences to pass on with the table: the guarantee, and what is not guaranteed."""
        who, made = "record", f"all {self.records} rows"
        if self.unit is not None:
            who, made = "person", f"all rows of {self.records} persons (values of {self.unit!r})"
        most = percent(self.curve.replace_one.accuracy_upper, "upper")
        public = ", the columns' names and the bounds given" if self.bounds else " and the names"
        number = "number of rows" if self.unit is None else "number of persons"
        return (
            f"Nobody who knows every other {who}, and sees this table and whatever is made of it, "
            f"is right about any {who}'s membership more than {most} of the time (guessing "
            f"blindly: 50 %). Its rows were drawn from noisy counts of {made}, of which only the "
            f"{number}{public} are public. Conclusions drawn from them may not hold for real "
            "people."
        )

    def summary_rows(self) -> list[tuple[str, object]]:
        """Return table rows about the release, its bounds and its fidelity."""
        rows: list[tuple[str, object]] = [
            ("rows", self.rows),
            ("columns", len(self.columns)),
            ("η certified", marked(self.certificate.value, "certificate", "eta", 6)),
            *self.curve_rows(),
        ]
        counts = ", ".join(
            f"{name} ± {decimals(x, 'estimate', 1)}" for name, x in self.noise.items()
        )
        rows.append(("noise of a count", counts))
        for what, names in (("fresh numbers", self.identifiers), ("left out", self.left_out)):
            if names:
                rows.append((what, ", ".join(names)))
        if self.fidelity is not None:
            rows += self._fidelity_rows(self.fidelity)
        if self.out is not None:
            rows.append(("written", self.out))
        return rows

    def _fidelity_rows(self, close: Fidelity) -> list[tuple[str, object]]:
        """Return table rows about the similarity to the real rows."""
        owner = " (owner only)"
        mean = decimals(close.two_way_tvd_estimate, "estimate", 3)
        rows: list[tuple[str, object]] = [
            ("distance of two columns", f"≈ {mean} on average{owner}")
        ]
        rows += [
            (
                "at worst" if pair is close.worst_pairs[0] else "then",
                f"≈ {decimals(pair.tvd_estimate, 'estimate', 3)} "
                f"({' and '.join(pair.columns)}){owner}",
            )
            for pair in close.worst_pairs
        ]
        if self.target is not None and self.target in close.marginals:
            classes = close.marginals[self.target]
            shares = list(zip(*astuple(classes), strict=True))
            shown = ", ".join(
                f"{block} {decimals(new, 'estimate', 3)} ({decimals(real, 'estimate', 3)})"
                for block, real, new in shares[:_MOST_CLASSES]
            )
            more = ", …" if len(shares) > _MOST_CLASSES else ""
            rows.append((f"shares of {self.target} (real)", f"≈ {shown}{more}{owner}"))
        for name, score in close.scores.items():
            new = decimals(score.synthetic_estimate, "estimate", 3)
            real = decimals(score.real_estimate, "estimate", 3)
            constant = decimals(score.constant_estimate, "estimate", 3)
            text = f"≈ {new} (trained on real rows {real}, a constant {constant}){owner}"
            rows.append((f"boosting, {name}", text))
        return rows


#: Approximate peak memory per value of a new row, in bytes.
_BYTES = 48


def synthesize(
    source: TableLike,
    *,
    eta: Eta = 0.05,
    target: Column | None = None,
    bounds: PublicBounds | None = None,
    rows: int | None = None,
    columns: Names | None = None,
    unit: Column | None = None,
    baseline: Rates | None = None,
    ledger: LedgerFile | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    memory: Memory | None = None,
    scheduler: Scheduler | None = None,
    client: Hidden | None = None,
    out: OutputFile | None = None,
    force: Force = False,
    excel_safe: ExcelSafe = False,
    no_fidelity: Annotated[bool, Option("switch", web=False)] = False,
    progress: Progress | None = None,
    insecure_seed: InsecureSeed | None = None,
) -> Synthesis:
    """Generate a synthetic table without revealing who is in the original.

    Guarantee: no attacker who knows all other records and sees the new rows, or anything derived
    from them, is right about any record's membership more than ``eta`` above blind guessing.  This
    holds with certainty for every record of any table.
    Theorem: X25 (proofs/synthetic-tables.md), with ``unit`` X26 (proofs/persons.md).
    Assumes: one release; the number of rows (with ``unit``: of persons), the columns' names and
    declared types, and the bounds are public.
    Edge cases: numbers are clipped to the range of their column; rare values become ``other``;
    identifier columns with few repeated values get fresh numbers; columns of free text are left out
    and listed.

    Args:
        source: a file or a table, one record per row.
        target: column that models will predict; its relation to the others is preserved best.
        rows: number of new rows (default: as many as there are records).
        columns: columns to draw (default: all).
        unit: column that identifies the person; all rows of a person count, with weights that sum
            to at most one, so that a record is a person.
        no_fidelity: leave out the comparison of new with real rows, which takes most of the time.
        progress: called with (stage, done, total) when a stage begins.
        out: file for the new rows (.csv, .parquet, .arrow, .xlsx), with its certificate beside
            it.

    Command line:
        memberbound synthesize people.csv --target ill --eta 0.05 --out safe.parquet
        memberbound synthesize stays.csv --unit patient --bounds bounds.yaml --out safe.csv

    Examples:
        >>> import pandas
        >>> age = [k % 80 for k in range(4000)]
        >>> people = pandas.DataFrame({"age": age, "ill": ["yes" if a > 40 else "no" for a in age]})
        >>> public = {"age": [0, 80], "ill": ["no", "yes"]}
        >>> result = synthesize(people, target="ill", bounds=public, insecure_seed=1)
        >>> result.table.columns.tolist(), len(result.table), result.certificate.value <= 0.05
        (['age', 'ill'], 4000, True)
    """
    if rows is not None:
        rows = whole_number("rows", rows, at_least=1)
    check_excel_safe(out, excel_safe=excel_safe)
    seed, guesses = insecure_seed, fractions("baseline", baseline)
    step = ReleaseStep("synthesize", source, eta, out, ledger, seed, FRAME_ENDINGS, force)
    statements = read_statements(bounds)
    public = read_bounds(statements)
    rules = read_rules(statements, public)
    advance = progress or (lambda _stage, _done, _total: None)
    advance("reading the table", 0, 3)
    with connect(scheduler, client) as cluster:
        records = read_secret_columns(
            source,
            forms_of(public),
            target=target,
            columns=columns,
            unit=unit,
            with_unit=True,
            database_table=database_table,
            encoding=encoding,
            memory=memory,
            spread=None if cluster is None else cluster.spread,
        )
        rules.check(records.columns, target, unit, rows or records.rows)
        # New rows are drawn in one batch; the number of persons is not known yet.
        new = records.rows if rows is None and unit is None else rows or 0
        check_sheet(out, rows or records.rows)
        most = max(size_in_bytes(memory), 2**28) // (_BYTES * len(records.columns))
        if new > most:
            raise InputError(
                f"rows must be at most {most}, or memory larger, got {new} (as many as there are "
                "records unless given): new rows are made in memory."
            )
        drawn = source_from_seed(seed)
        advance("measuring and drawing rows", 1, 3)

        def draw(reserve: Reserve) -> tuple[SyntheticRows, pd.DataFrame]:
            model = fit_synthetic(
                records.select(rules.select_measured(records.columns)),
                eta=eta,
                bounds=public,
                target=target,
                unit=unit,
                source=drawn,
                reserve=reserve,
            )
            frame = model.sample(model.records if rows is None else rows, drawn)
            frame = rules.apply(frame, records.columns)
            model = replace(model, left_out=tuple(c for c in records.columns if c not in frame))
            return SyntheticRows(_cast_columns(frame, records, model), model), frame

        def write(made: tuple[SyntheticRows, pd.DataFrame], path: Path) -> None:
            released = made[0]
            written = excel_safe_table(released.frame) if excel_safe else released.frame
            save(replace(released, frame=written), path, force=force)

        released, frame = step.run("synthetic table", draw, write)
        model = released.model
        done = f"released: {out or 'in memory only (--out names a file)'}"
        notes = unit_and_seed_notes(unit, seed, persons=model.records, table=records)
        # Everything below is for the owner of the rows only.
        fidelity = None
        if no_fidelity:
            advance(done, 3, 3)
        else:
            advance(f"{done}; comparing with the real rows", 2, 3)
            try:
                fidelity = measure_fidelity(model, records, frame)
            except KeyboardInterrupt as stop:
                stop.add_note(f"Before that the table was {done}. Its budget is spent.")
                raise
            advance("compared with the real rows", 3, 3)
        return Synthesis(
            eta=model.eta,
            rows=len(frame),
            columns=tuple(frame.columns),
            records=model.records,
            unit=unit,
            target=target,
            bounds=tuple(sorted(name for name in public if name in records.columns)),
            identifiers=(*model.identifiers, *rules.unique),
            left_out=model.left_out,
            pairs=model.pairs,
            noise=dict(model.noise),
            certificate=model.certificate_,
            fidelity=fidelity,
            out=None if out is None else str(out),
            warnings=(
                *records.notes,
                *notes,
                *_describe_broken_rules(rules, records),
                *([] if fidelity is None else [*filter(None, [fidelity.shortcoming]), _OWN_EYES]),
            ),
            baseline=guesses,
            table=released.frame,
            model=model,
        )


def _cast_columns(frame: pd.DataFrame, records: Records, model: SyntheticTable) -> pd.DataFrame:
    """Cast the new rows to the declared types of the table's columns."""
    forms = {column.cells.name: column.cells.form for column in model.columns}
    typed = {}
    for name in frame.columns:
        kind = None if name in model.identifiers else records.types.get(name)
        typed[name] = cast_to_declared(frame[name], kind, forms.get(name, "any"))
    return type(frame)(typed)


# ── Notes for the owner of the rows only: computed without noise, never stored ────────────────────


def _describe_broken_rules(rules: Rules, records: Records) -> list[str]:
    """Return a note for each rule that some of the real rows break."""
    if rules.empty:
        return []
    shares = rules.broken_shares(sample_real_rows(records))
    return [
        f"{percent(share, 'estimate')} of the real rows break the rule {rule!r}; all new rows "
        "follow it"
        for rule, share in shares.items()
    ]
