"""The verb ``harden``: coarsen a table until no learner can leak too much about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from memberbound.answers import INTERNAL, Answer, EstimateOf, Given, OmitEmpty, computed
from memberbound.certificate import Certificate
from memberbound.declarations import (
    Column,
    ColumnRoles,
    DatabaseTable,
    Encoding,
    ExcelSafe,
    Force,
    InputFile,
    Names,
    NumbersByColumn,
    Option,
    OutputFile,
    TableLike,
)
from memberbound.errors import InputError, fraction, whole_number
from memberbound.files import check_output, write_text
from memberbound.games import IidGame
from memberbound.iid.certificates import leak_certificate
from memberbound.iid.count_record import CountRecord
from memberbound.iid.leak_bounds import LeakBounds
from memberbound.iid.profiles import CountProfile
from memberbound.quantities import at_prices, decimals, marked, significant, vacuous
from memberbound.release.coarse_table import CoarseTable, certify_released, coarse_statement
from memberbound.release.saving import save
from memberbound.tables.coarsening import FrontierPoint, Levels, Search, Wish, cell_profile, choose
from memberbound.tables.columns import read_column
from memberbound.tables.frame_files import check_excel_safe, excel_safe_table
from memberbound.tables.ladders import read_hierarchy
from memberbound.tables.opening import path_of, use_table
from memberbound.tables.public_rows import check_target_role, first_rows
from memberbound.tables.recipe import Recipe, check_frame
from memberbound.tables.references import reference_notes, rows_in_common
from memberbound.tables.roles import Reading
from memberbound.tables.selection import select_by_role
from memberbound.tables.table import Table, check_names

if TYPE_CHECKING:
    from pandas import DataFrame

# ── The answer ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False, repr=False)
class Hardening(Answer):
    """A coarsened table with its certificate.

    ``table`` holds the released rows and ``rules`` the recipe that produced them.  ``before`` and
    ``after`` are the certificates of the input table and of the released rows.
    """

    VERB: ClassVar = "harden"

    table: DataFrame = field(metadata=INTERNAL)
    rules: Recipe = field(metadata=INTERNAL)
    before: LeakBounds
    after: LeakBounds
    steps: tuple[str, ...]
    information_estimate: EstimateOf
    information_kept_estimate: EstimateOf | None
    information_measure: str
    frontier_estimate: tuple[FrontierPoint, ...]
    security: Given | None
    record_leak: Given | None
    target: str | None
    validity: str
    rows_read: int
    rows_fitted: int
    rows_released: int
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    out: str | None = None
    recipe: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    #: The columns used for ``before``.
    counted: tuple[str, ...] = field(default=(), metadata=INTERNAL)
    unit: str | None = field(default=None, metadata=INTERNAL)
    #: The counts of the released rows, from which ``verify`` recomputes ``after``.
    derivation: OmitEmpty[CountRecord | None] = None
    game: IidGame = field(default_factory=IidGame)

    @property
    def certificate(self) -> Certificate:
        """The certified leak Δ of every learner trained on the released rows (average record)."""
        after = self.after
        return leak_certificate(
            after.delta_upper, self.game, self.theorems, self.assumptions, after.confidence
        )

    @computed
    def sentence(self) -> str:
        """The certificate of the released rows as a sentence."""
        return hardening_sentence(
            self.before.security_lower, self.after, self.validity, self.unit, self.game
        )

    def summary(self) -> str:
        """Return the answer as a short text."""

        def row(name: str, pick: Callable[[LeakBounds], object]) -> str:
            return f"{name:<34}{pick(self.before)!s:>18} → {pick(self.after)}"

        def leak(value: float, quantity: str) -> str:
            return str(marked(value, "certificate", quantity, 6))

        lines = [
            self.sentence,
            "",
            f"{'':<34}{'before':>18}   after",
            row("cells", lambda side: side.atoms),
            row("leak Δ, any learner", lambda side: leak(side.delta_upper, "delta")),
            row("leak limit for every row", lambda side: leak(side.record_leak.max, "leak")),
            row("rows without a useful guarantee", lambda side: side.record_leak.exposed_rows),
        ]
        if self.information_kept_estimate is not None:
            kept = marked(self.information_kept_estimate, "estimate")
            lines.append(
                f"{self.information_measure} kept: {kept} of the best coarsening tried, "
                "on the fitting rows"
            )
        lines += ["", *(f"- {step}" for step in self.steps), *self.summary_notes()]
        return "\n".join(lines)


def hardening_sentence(
    before: float, after: LeakBounds, validity: str, unit: str | None, game: IidGame
) -> str:
    """Return the certificate as a sentence."""
    stated = coarse_statement(after, validity, unit)
    if vacuous(after.delta_upper, "delta"):
        return stated
    old, new = (
        marked(security, "certificate", "security", 6)
        for security in (before, after.security_lower)
    )
    prices = at_prices(game.nu, game.lam)
    return f"{stated.removesuffix('.')}: MIS {new} (before: {old}; {prices})."


# ── The verb ──────────────────────────────────────────────────────────────────────────────────────

_ASSUMPTIONS = (
    "the certificate covers the hardened table as released, not figures about the original table "
    "or the estimates of this report",
    "the bounds on the average record and on single records hold with the stated confidence each",
    "the command was run once: the certificate does not cover a choice among several runs",
)


def harden(
    table: TableLike,
    *,
    security: float | None = None,
    record_leak: float | None = None,
    target: Column | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    unit: Column | None = None,
    database_table: DatabaseTable | None = None,
    encoding: Encoding | None = None,
    keep: Names = (),
    out: OutputFile | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    force: Force = False,
    excel_safe: ExcelSafe = False,
    bins: NumbersByColumn | None = None,
    hierarchies: Annotated[
        Mapping[str, str | Path | Mapping[str, object]],
        Option("text by column", flag="--hierarchy", metavar="COL=FILE", web=False),
    ]
    | None = None,
    reference: InputFile | None = None,
    recipe: OutputFile | None = None,
) -> Hardening:
    """Coarsen a table until no learner trained on it can leak too much, certified.

    Guarantee: with probability ≥ ``confidence`` over the rows, ``after.delta_upper`` ≥ Δ of
    *every* learner trained on the released rows (average record); likewise
    ``after.record_leak.max`` for every released row.  The recipe is chosen without the released
    rows, so the guarantee covers everything made from them, including the decision to release, even
    against an attacker who sees the recipe.
    Theorem: A25-T14, X5, X7, X15, X18 (``proofs/hardening.md``).
    Assumes: i.i.d. rows, one row per person.  A quarter of the rows (at most 50 000) is used to fit
    the recipe and is not released; the certificate does not cover what the recipe reveals about
    them.  With a ``reference`` all rows are released; it must be independent of them: no person in
    common with ``table``, and neither table selected after seeing the other.  The rows to release
    are selected by position and seed, so the seed reveals which were selected.
    Edge cases: a table that cannot be made safe enough raises :class:`InputError`, which reports
    the best value reached; nothing is written.

    Args:
        table: a file or a table.
        security: MIS to certify, in (0, 1).
        record_leak: largest acceptable leak for any released row, in (0, 1).
        target: column to predict later; the recipe preserves information about it (by default,
            about the whole row).
        columns: columns to release (default: all but identifiers and free text).
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, to correct
            the role inferred from the fitting rows.
        unit: column that identifies the person; only each person's first row is used, so that a
            record is a person.
        keep: columns that must not be changed.
        out: file for the coarser table (.csv, .csv.gz, .parquet, .arrow, .feather); its
            certificate is written beside it.
        confidence: of each certificate.
        seed: seed of the split, for reproducible results.
        force: overwrite ``out`` and ``recipe``.
        bins: column → edges of its finest bins.
        hierarchies: column → nested groups with lists of values as leaves (a YAML file, or a
            mapping).
        reference: another table with the same columns on which to choose the recipe, so that all
            rows of ``table`` are released: independent rows of other people, not the same people a
            year earlier. The table itself is rejected, and a warning counts shared rows.
        recipe: write the recipe to this JSON file.

    Command line:
        memberbound harden people.csv --security 0.95 --target income --out safe.parquet
        memberbound harden people.csv --record-leak 0.2 --keep sex --out safe.csv --plot cost.png

    Examples:
        >>> import numpy as np, pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 4000), "id": range(4000)})
        >>> frame["y"] = (frame["sex"] == "f") ^ (rng.random(4000) < 0.1)
        >>> result = harden(frame, security=0.9, target="y")
        >>> result.steps[0], result.table.columns.tolist(), result.after.delta_upper <= 0.1
        ('drop id', ['sex', 'y'], True)
    """
    if security is None and record_leak is None:
        raise InputError("security or record_leak must be given, got neither.")
    for name, value in (("security", security), ("record_leak", record_leak)):
        if value is not None:
            fraction(name, value, open_left=True, open_right=True)
    both = sorted(set(bins or {}) & set(hierarchies or {}))
    if both:
        raise InputError(f"a column must have bins or a hierarchy, got both for {both!r}.")
    wish = Wish(
        security,
        record_leak,
        target,
        (keep,) if isinstance(keep, str) else tuple(keep),
        {column: [float(edge) for edge in edges] for column, edges in (bins or {}).items()},
        {column: read_hierarchy(each) for column, each in (hierarchies or {}).items()},
        fraction("confidence", confidence, open_left=True, open_right=True),
        whole_number("seed", seed, at_least=0),
    )
    check_excel_safe(out, excel_safe=excel_safe)
    out_path = None if out is None else check_output(Path(out), source=path_of(table), force=force)
    recipe_path = (
        None
        if recipe is None
        else check_output(Path(recipe), name="recipe", formats=(".json",), force=force)
    )
    targets = () if target is None else (target,)
    with use_table(table, database_table, encoding=encoding) as opened:
        named = None if columns is None else (*opened.choose(columns), *targets)
        frame = _read(opened, named, unit, targets)
        used = (*targets, *wish.keep, *wish.edges, *wish.hierarchies)
        check_names(used, list(frame.columns), opened.name)
        other_source = opened if reference is None else reference
        with use_table(other_source, beside=opened, encoding=encoding) as fitted:
            other = None if reference is None else _read(fitted, list(frame.columns), unit)
            fitting, others = _split_rows(frame, other, wish.seed)
            # Infer roles from the fitting rows: a released row must not change the recipe (X18).
            with fitted.with_frame(fitting) as seen:
                readings = seen.readings(roles=roles)
            shared: tuple[str, ...] = ()
            if reference is not None:
                joint = rows_in_common(*(_with_numbers(r, readings, ()) for r in (others, fitting)))
                shared = reference_notes(opened, fitted, list(frame.columns), joint)
    if target is not None:
        check_target_role(target, readings[target])
    selection = select_by_role(
        readings,
        columns,
        apart=targets,
        named=(*wish.keep, *wish.edges, *wish.hierarchies),
    )
    fitting, others = (
        _with_numbers(rows, readings, (*wish.keep, *targets)) for rows in (fitting, others)
    )
    search, state = choose(fitting, len(others), wish, selection)
    rules, released, profile, certified = _release(search, state, others, wish)
    assert state is not None
    counted = [c for c in frame.columns if c not in selection.left_out]
    information = search.information([*search.front(), state], wish.seed)
    most, kept = max(information.values()), information[state]
    person = "a person has one row"
    notes = (*opened.header_notes, *shared, *selection.notes)
    if unit is not None:
        person = f"a person is one value of {unit!r}, of whom the first row is used"
        notes = (*notes, f"one person is one value of {unit!r}, by the first row")
    result = Hardening(
        table=released,
        rules=rules,
        before=certify_released(cell_profile(frame[counted]), wish.confidence),
        after=certified,
        steps=tuple(rules.steps()),
        information_estimate=kept,
        information_kept_estimate=kept / most if most > 0 else None,
        information_measure="entropy of a row" if target is None else f"information about {target}",
        frontier_estimate=search.frontier(information),
        security=wish.security,
        record_leak=wish.record_leak,
        target=target,
        validity="split" if reference is None else "reference",
        rows_read=len(frame),
        rows_fitted=len(fitting),
        rows_released=len(released),
        theorems=("A25-T14", "X5", "X7", "X15", "X18"),
        assumptions=(
            f"the rows are independent draws from one distribution, and {person}",
            *_ASSUMPTIONS,
            _independence(len(fitting), split=reference is None),
        ),
        roles=selection.roles,
        warnings=notes,
        counted=tuple(counted),
        unit=unit,
        derivation=CountRecord.of_table(profile).named(released.columns),
        out=None if out_path is None else str(out_path),
        recipe=None if recipe_path is None else str(recipe_path),
    )
    if recipe_path is not None:
        write_text(rules.to_json(), recipe_path, force=force)
    if out_path is not None:
        written = excel_safe_table(released) if excel_safe else released
        save(_saved_table(result, written), out_path, force=force)
    return result


def _saved_table(result: Hardening, written: DataFrame) -> CoarseTable:
    """Return the released rows as they are written, with the fields of their certificate."""
    assert result.derivation is not None
    promise = (result.after, result.certificate, result.derivation)
    return CoarseTable(written, *promise, result.validity, result.unit)


# ── Reading the tables ────────────────────────────────────────────────────────────────────────────

#: Minimum number of rows; fewer certify nothing useful.
_LEAST_ROWS = 20


def _read(
    table: Table, columns: Sequence[str] | None, unit: str | None, used: Sequence[str] = ()
) -> DataFrame:
    """Return some columns of a table (default: all), with values as in the file.

    With ``unit``, which must not be among the ``used`` columns, keep the first row of each unit.
    """
    frame = table.frame
    if unit is not None:
        frame, _ = first_rows(frame, unit, table.name, used=used)
    frame = check_frame(frame)
    if len(frame) < _LEAST_ROWS:
        raise InputError(f"{table.name} must have at least {_LEAST_ROWS} rows, got {len(frame)}.")
    if columns is None:
        return frame
    check_names(columns, list(frame.columns), table.name)
    return frame[[c for c in frame.columns if c in columns]]


def _with_numbers(
    frame: DataFrame, readings: Mapping[str, Reading], kept: Collection[str]
) -> DataFrame:
    """Parse columns of numbers stored as text; unparsable values become missing.

    Columns in ``kept`` are unchanged, because the recipe does not touch them in new rows either.
    Dates remain texts; their rule parses them.
    """
    from pandas.api import types

    written = [
        c
        for c in frame.columns
        if c not in kept
        and readings[c].role == "number"
        and readings[c].form in ("number", "comma")
        and not types.is_numeric_dtype(frame[c])
        and not types.is_timedelta64_dtype(frame[c])
    ]
    parsed = frame.copy(deep=False)
    for column in written:  # assign() takes no column named self
        parsed[column] = read_column(frame[column], readings[column].form).numbers
    return parsed


# ── Split the rows, and certify one recipe (X18) ──────────────────────────────────────────────────

#: Share and maximum number of rows used to fit a recipe; rows used for fitting are not released.
_FIT_SHARE, _FIT_ROWS = 0.25, 50_000


def _independence(fitted: int, *, split: bool) -> str:
    """Explain why the certificate holds although the recipe was chosen on data."""
    if split:
        return (
            f"the recipe was fitted and chosen on {fitted} rows that are not released; what the "
            "recipe reveals about those rows is not certified; rows were selected for release by "
            "position and seed, so anyone who knows both knows which were selected"
        )
    return (
        f"the recipe was fitted and chosen on {fitted} rows of a reference table that are "
        "independent of the released ones (no person is in both); what the recipe reveals about "
        "those rows is not certified"
    )


def _split_rows(
    frame: DataFrame, reference: DataFrame | None, seed: int
) -> tuple[DataFrame, DataFrame]:
    """Return the rows to fit on and the rows to release."""
    order = np.random.default_rng(seed)
    if reference is not None:
        # With more rows than will be certified, the search would overestimate cell sizes.
        size = min(len(reference), len(frame), _FIT_ROWS)
        chosen = np.sort(order.permutation(len(reference))[:size])
        return reference.iloc[chosen][list(frame.columns)], frame
    size = min(int(_FIT_SHARE * len(frame) + 0.5), _FIT_ROWS)
    chosen = np.zeros(len(frame), dtype=bool)
    chosen[order.permutation(len(frame))[:size]] = True
    return frame[chosen], frame[~chosen]


def _release(
    search: Search, state: Levels | None, rows: DataFrame, wish: Wish
) -> tuple[Recipe, DataFrame, CountProfile, LeakBounds]:
    """Apply the chosen recipe and certify the released rows, or raise if they miss the target.

    Exactly one recipe is tried: the decision not to release is a function of the coarsened rows,
    but trying a second recipe would be a choice based on the released rows (X18).
    """
    best = min(score.leak for score in search.scores.values())
    reached = f"the best expected was security ≈ {decimals(max(0.0, 1 - best), 'estimate', 6)}"
    if state is not None:
        recipe = search.recipe(state)
        table = recipe.apply(rows).reset_index(drop=True)
        if table.shape[1] > 0:
            profile = cell_profile(table)
            certified = certify_released(profile, wish.confidence)
            most = 1.0 if wish.record_leak is None else wish.record_leak
            if certified.delta_upper <= wish.leak and certified.record_leak.max <= most:
                return recipe, table, profile, certified
            reached = (
                "the chosen recipe certifies only security "
                f"{marked(certified.security_lower, 'certificate', 'security', 6)} and record leak "
                f"{marked(certified.record_leak.max, 'certificate', 'leak', 6)}"
            )
    limits = {"security": wish.security, "record leak": wish.record_leak}
    wanted = [f"{n} {significant(v, 'given')}" for n, v in limits.items() if v is not None]
    raise InputError(
        f"{' and '.join(wanted)} must be within reach of {len(rows)} released rows, but "
        f"{reached}. Keep fewer columns, give a coarser target, or ask for less."
    )
