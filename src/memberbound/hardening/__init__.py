"""The verb ``harden``: coarsen a table until any model trained on it is certified to be safe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from memberbound.declarations import (
    Column,
    ColumnRoles,
    Force,
    InputFile,
    Names,
    NumbersByColumn,
    Option,
    OutputFile,
    Seed,
    Table,
)
from memberbound.errors import fraction, one_of, whole_number
from memberbound.files import check_output, write_table, write_text
from memberbound.hardening.choosing import Wish, choose
from memberbound.hardening.evidence import cell_profile, evidence
from memberbound.hardening.frontier import FrontierPoint, frontier
from memberbound.hardening.learners import accuracy_estimates
from memberbound.hardening.question import as_read, check_columns, read, wished
from memberbound.hardening.releasing import VALIDITIES, Parts, Release, released, split_rows
from memberbound.hardening.result import Hardening
from memberbound.tables.population import check_target_role, readings_of
from memberbound.tables.recipe import Keep
from memberbound.tables.roles import Selection, selected

__all__ = ["FrontierPoint", "Hardening", "harden"]

#: Learners are trained by default only where that takes seconds.
_LEARNER_ROWS = 50_000


def harden(
    table: Table,
    *,
    security: float | None = None,
    record_leak: float | None = None,
    target: Column | None = None,
    columns: Names | None = None,
    roles: ColumnRoles | None = None,
    keep: Names = (),
    out: OutputFile | None = None,
    confidence: float = 0.95,
    seed: Seed = 0,
    force: Force = False,
    bins: NumbersByColumn | None = None,
    hierarchies: Annotated[
        Mapping[str, Any],
        Option("text by column", flag="--hierarchy", metavar="COL=FILE", web=False),
    ]
    | None = None,
    validity: Literal["split", "union"] = "split",
    fit_share: float = 0.25,
    reference: InputFile | None = None,
    recipe: OutputFile | None = None,
    learners: bool | None = None,
    width: Annotated[int, Option("whole", web=False)] = 4,
) -> Hardening:
    """Coarsen a table until it is certified that no learner trained on it leaks too much.

    Guarantee: with probability ≥ ``confidence`` over the rows, ``after["delta_upper"]`` ≥ Δ of
    *every* learner trained on the released rows (average record); likewise
    ``after["record_leak"]["max"]`` for every released row.  With ``validity="split"`` (or a
    ``reference``) the recipe was chosen without the released rows, so this covers everything that
    is made from them, the decision to release included, by whoever sees the recipe too.
    Theorem: A25-T14, X5, X7, X15, X18 (``proofs/hardening.md``).
    Assumes: i.i.d. rows, one row per person.  Rows that served to fit the recipe are not released,
    and what the recipe itself says about them is not certified.  A ``reference`` is independent of
    the rows of ``table``: it shares no person with it, and neither was chosen by looking at the
    other.  Rows are picked for release by their place and the seed; whoever knows both knows who
    was picked.
    Edge cases: a table that cannot be made safe enough is an :class:`InputError` that names the
    best value reached; nothing is written then.

    Args:
        table: a file, a pandas table, or anything ``open_table`` reads.
        security: certified MIS to reach, in (0, 1).
        record_leak: largest leak allowed for any single released row, in (0, 1).
        target: column whose information is to be kept; without it, the entropy of the row.
        columns: columns to look at; all but identifiers and free text unless named.
        roles: column → ``number``, ``category``, ``date``, ``identifier`` or ``text``, where the
            role that the fitting rows suggest is not the right one.
        keep: columns that must stay exactly as they are.
        out: file for the hardened table (.csv, .csv.gz, .parquet, .arrow, .feather).
        confidence: 1 - β of each certificate.
        seed: makes the result repeatable.
        force: overwrite ``out`` and ``recipe``.
        bins: column → edges of its finest bins.
        hierarchies: column → hierarchy (a YAML or CSV file, or a mapping).
        validity: ``"split"`` fits and chooses the recipe on a part of the rows and releases the
            others; ``"union"`` releases all rows, admits only plans that no row influences (given
            bins, hierarchies, keeping or dropping) and pays for their number.
        fit_share: share of the rows for fitting with ``"split"`` (at most 50 000 rows).
        reference: another table of the same columns to fit and choose on; then all rows of
            ``table`` are released.  Its rows must be independent of those of ``table``: other
            people, not last year's answers of the same ones.
        recipe: JSON file for the recipe.
        learners: train three learners before and after; by default with a target and at most
            50 000 rows.
        width: width of the beam search.

    Command line:
        memberbound harden people.csv --security 0.95 --target income --out safe.parquet
        memberbound harden people.csv --record-leak 0.2 --keep sex --out safe.csv --plot cost.png

    Examples:
        >>> import numpy as np, pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 4000), "id": range(4000)})
        >>> frame["y"] = (frame["sex"] == "f") ^ (rng.random(4000) < 0.1)
        >>> result = harden(frame, security=0.9, target="y", learners=False)
        >>> result.steps[0], result.table.columns.tolist(), result.after["delta_upper"] <= 0.1
        ('drop id', ['sex', 'y'], True)
    """
    wish = wished(
        security=security,
        record_leak=record_leak,
        target=target,
        keep=keep,
        bins=bins,
        hierarchies=hierarchies,
        confidence=confidence,
        seed=seed,
    )
    one_of("validity", validity, VALIDITIES)
    share = fraction("fit_share", fit_share, open_left=True, open_right=True)
    source = table if isinstance(table, (str, Path)) else None
    wanted = None if out is None else check_output(Path(out), source=source, force=force)
    recipe_path = (
        None
        if recipe is None
        else check_output(Path(recipe), name="recipe", formats=(".json",), force=force)
    )
    frame = read(table, columns, target)
    other = None if reference is None else read(reference)
    check_columns(frame, wish, other)
    parts = split_rows(frame, other, validity, share, wish.seed)
    # Fitting rows decide what a column is: a released row must not change the recipe (X18).
    fitted = table if reference is None else reference
    readings = readings_of(parts.fitting, roles, fitted)
    if target is not None:
        check_target_role(target, readings[target])
    selection = selected(
        readings,
        columns,
        apart=() if target is None else (target,),
        named=(*wish.keep, *wish.edges, *wish.hierarchies),
    )
    if parts.validity != "union":
        parts = Parts(
            as_read(parts.fitting, readings), as_read(parts.released, readings), parts.validity
        )
    choice = choose(
        parts.fitting,
        len(parts.released),
        wish,
        selection,
        data_free=parts.validity == "union",
        width=whole_number("width", width),
    )
    found = released(choice, parts, wish)
    accuracy = _accuracy(found, parts.released, wish, learners, selection)
    counted = [c for c in frame.columns if c not in selection.left_out]
    archive = choice.archive
    told = archive.information([*archive.front(), found.state], wish.seed)
    most, information = max(told.values()), told[found.state]
    result = Hardening(
        table=found.table,
        coarsener=found.coarsener,
        before=evidence(cell_profile(frame[counted]), wish.confidence),
        after=found.after,
        steps=tuple(found.coarsener.recipe_.steps()),
        information_estimate=information,
        information_kept_estimate=information / most if most > 0 else None,
        measure="entropy of a row" if target is None else f"information about {target}",
        frontier=frontier(archive, told),
        security=wish.security,
        record_leak=wish.record_leak,
        target=target,
        validity=parts.validity,
        rows_read=len(frame),
        rows_fitted=0 if parts.validity == "union" else len(parts.fitting),
        theorems=("A25-T14", "X5", "X7", "X15", "X18"),
        assumptions=(*_ASSUMPTIONS, parts.note(choice.candidates)),
        accuracy=accuracy,
        roles=selection.roles,
        warnings=selection.notes,
        counted=tuple(counted),
        out=None if wanted is None else str(wanted),
        recipe_out=None if recipe_path is None else str(recipe_path),
    )
    if recipe_path is not None:
        write_text(found.coarsener.to_json(), recipe_path, force=force)
    if wanted is not None:
        write_table(found.table, wanted, force=force)
    return result


_ASSUMPTIONS = (
    "the rows are independent draws from one law, and a person has one row",
    "certified is the hardened table as released; figures about the original table and the "
    "estimates of this report are not part of it",
    "the bounds on the average record and on single records hold with the stated confidence each",
    "the command was run once: choosing among several runs is a choice that nothing pays for",
)


def _accuracy(
    found: Release, released: Any, wish: Wish, learners: bool | None, selection: Selection
) -> dict[str, Mapping[str, float] | None] | None:
    """Accuracy with the original and with the coarsened features, for the released target."""
    asked = len(released) <= _LEARNER_ROWS if learners is None else learners
    if not asked or wish.target is None:
        return None
    target = found.table[wish.target]
    forms = {c: r.form for c, r in selection.readings.items() if r.numeric}
    kept = {c for c, rule in found.coarsener.recipe_.rules if isinstance(rule, Keep)}
    if found.coarsener.recipe_.pool is not None:
        kept -= set(found.coarsener.recipe_.pool.columns)
    return {
        "before": accuracy_estimates(released[list(selection.columns)], target, forms, wish.seed),
        "after": accuracy_estimates(
            found.table.drop(columns=wish.target),
            target,
            {c: form for c, form in forms.items() if c in kept},
            wish.seed,
        ),
    }
