"""``certify``, ``plan`` and ``harden``: tables in, certificates and safer tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, show
from memberbound.errors import InputError

__all__ = [
    "Columns",
    "DatabaseTable",
    "Roles",
    "certify",
    "harden",
    "named",
    "numbers",
    "plan",
    "roled",
]

TableArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="CSV, Parquet, Arrow, .npy, DuckDB or SQLite; compressed CSV is fine.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="a,b,…", help="Columns that a learner sees; all but identifiers."),
]
Roles = Annotated[
    str | None,
    typer.Option(
        metavar="a=ROLE,…",
        help="What columns are: number, category, date, identifier or text; as they look if left "
        "out. Identifiers are left out.",
    ),
]
Confidence = Annotated[float, typer.Option(help="How sure the certificate is.")]
Probabilities = Annotated[
    Path | None, typer.Option(help="Instead of a table: a file with the law's probabilities.")
]
Uniform = Annotated[
    float | None, typer.Option(metavar="K", help="Instead of a table: K equally likely atoms.")
]
Unit = Annotated[
    str | None, typer.Option(metavar="COL", help="Whose row it is: one person is one record.")
]
DatabaseTable = Annotated[
    str | None, typer.Option("--table", help="The table inside a DuckDB or SQLite file.")
]
Nu = Annotated[float, typer.Option(help="Probability of a fresh test point.")]
Lam = Annotated[float, typer.Option(help="Weight of a missed member.")]


def named(text: str | None) -> list[str] | None:
    """Split a,b,c; a name with a comma in it can be quoted as in CSV."""
    if text is None:
        return None
    import csv

    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:  # a line break outside quotes
        names = []
    if not names or any(not name for name in names):
        raise InputError(f"columns must be names separated by commas, got {text!r}.")
    return names


def roled(text: str | None) -> dict[str, str] | None:
    """Split a=number,b=date; quoted as :func:`named` says, and the last = counts."""
    if text is None:
        return None
    found: dict[str, str] = {}
    for pair in named(text) or []:
        column, sign, role = pair.rpartition("=")
        if not (column and sign and role):
            raise InputError(f"roles must be given as COLUMN=ROLE,…, got {pair!r}.")
        if column in found:
            raise InputError(f"roles must name a column once, got {column!r} twice.")
        found[column] = role
    return found


@app.command()
def certify(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: TableArgument = None,
    columns: Columns = None,
    roles: Roles = None,
    n: Annotated[float | None, typer.Option(help="Training rows; all rows if left out.")] = None,
    confidence: Confidence = 0.95,
    nu: Nu = 0.5,
    lam: Lam = 1.0,
    probabilities: Probabilities = None,
    uniform: Uniform = None,
    reference: Annotated[
        Path | None, typer.Option(help="Further rows of the same law that are not trained on.")
    ] = None,
    unit: Unit = None,
    table: DatabaseTable = None,
    exposed_above: Annotated[
        float, typer.Option(help="Rows that may leak more than this count as exposed.")
    ] = 0.5,
    list_exposed: Annotated[
        float, typer.Option(metavar="K", help="List the K rarest exposed cells with their values.")
    ] = 0,
    records: Annotated[
        Path | None, typer.Option(help="Write the rows with their certified leak (.csv, .parquet).")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite --records.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Certify how much any model whatsoever can leak about the rows it was trained on.

    \b
    memberbound certify people.csv --columns education,sex,income
    memberbound certify visits.parquet --unit patient --records leaks.parquet
    memberbound certify --uniform 316 --n 32561
    """
    from memberbound.certification import certify as certify_

    result = certify_(
        file,
        columns=named(columns),
        roles=roled(roles),
        n=n,  # type: ignore[arg-type]  # checked to be whole, with a sentence
        confidence=confidence,
        nu=nu,
        lam=lam,
        probabilities=probabilities,
        uniform=uniform,  # type: ignore[arg-type]  # checked to be whole, with a sentence
        reference=reference,
        unit=unit,
        database_table=table,
        exposed_above=exposed_above,
        list_exposed=list_exposed,  # type: ignore[arg-type]  # checked to be whole, with a sentence
        records=records,
        force=force,
    )
    if records is not None:
        typer.echo(f"wrote {records}", err=True)
    show(result, json_)


@app.command()
def plan(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: TableArgument = None,
    security: Annotated[float | None, typer.Option(help="Smallest MIS that you accept.")] = None,
    record_leak: Annotated[
        float | None, typer.Option(help="Largest leak that you accept for any row.")
    ] = None,
    columns: Columns = None,
    roles: Roles = None,
    probabilities: Probabilities = None,
    uniform: Uniform = None,
    confidence: Confidence = 0.95,
    nu: Nu = 0.5,
    lam: Lam = 1.0,
    unit: Unit = None,
    table: DatabaseTable = None,
    json_: JsonFlag = False,
) -> None:
    """Say how many rows are enough, whatever is trained on them.

    \b
    memberbound plan --security 0.95 --uniform 316
    memberbound plan people.csv --columns education,sex --security 0.98
    memberbound plan --record-leak 0.1 --probabilities law.csv
    """
    from memberbound.planning import plan as plan_

    result = plan_(
        file,
        security=security,
        record_leak=record_leak,
        columns=named(columns),
        roles=roled(roles),
        probabilities=probabilities,
        uniform=uniform,  # type: ignore[arg-type]  # checked to be whole, with a sentence
        confidence=confidence,
        nu=nu,
        lam=lam,
        unit=unit,
        database_table=table,
    )
    show(result, json_)


def _settings(name: str, given: list[str] | None) -> dict[str, str]:
    """Read COL=VALUE options."""
    found: dict[str, str] = {}
    for text in given or []:
        column, sign, value = text.partition("=")
        if not (column and sign and value):
            raise InputError(f"{name} must be given as COLUMN=VALUE, got {text!r}.")
        found[column] = value
    return found


def numbers(name: str, text: str) -> list[float]:
    """Read numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} must be numbers separated by commas, got {text!r}.") from None


@app.command()
def harden(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The table to make safe.")],
    security: Annotated[float | None, typer.Option(help="Certified MIS to reach.")] = None,
    record_leak: Annotated[
        float | None, typer.Option(help="Largest certified leak for any released row.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Keep most information about this column.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="a,b,…", help="Columns to look at; all but identifiers.")
    ] = None,
    roles: Roles = None,
    keep: Annotated[
        str | None, typer.Option(metavar="a,b,…", help="Columns that must stay as they are.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the hardened table here.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="Write the recipe as JSON here.")] = None,
    confidence: Confidence = 0.95,
    bins: Annotated[
        list[str] | None, typer.Option(metavar="COL=1,2,…", help="Edges of the finest bins.")
    ] = None,
    hierarchy: Annotated[
        list[str] | None, typer.Option(metavar="COL=FILE", help="Generalisation, YAML or CSV.")
    ] = None,
    validity: Annotated[
        str,
        typer.Option(metavar="split|union", help="How the choice of the recipe is paid for."),
    ] = "split",
    fit_share: Annotated[
        float, typer.Option(help="Share of rows that only fit the recipe.")
    ] = 0.25,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Fit the recipe on these rows, of other people than FILE's, and release FILE's."
        ),
    ] = None,
    learners: Annotated[
        bool | None, typer.Option(help="Measure accuracy before and after (small tables: yes).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw information against security into this file.")
    ] = None,
    seed: Annotated[float, typer.Option(help="Makes the result repeatable.")] = 0,
    force: Annotated[bool, typer.Option(help="Overwrite existing files.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Coarsen a table until any model trained on it is certified to be safe.

    \b
    memberbound harden people.csv --security 0.95 --target income --out safe.parquet
    memberbound harden people.csv --record-leak 0.2 --keep sex --out safe.csv --plot frontier.png
    """
    from memberbound.hardening import harden as harden_

    if plot is not None:
        from memberbound.report.figure import check_target

        check_target(plot)
    result = harden_(
        file,
        security=security,
        record_leak=record_leak,
        target=target,
        columns=named(columns),
        roles=roled(roles),
        keep=named(keep) or (),
        out=out,
        recipe_out=recipe,
        confidence=confidence,
        bins={c: numbers(f"bins of {c!r}", v) for c, v in _settings("bins", bins).items()} or None,
        hierarchies=_settings("hierarchy", hierarchy) or None,
        validity=validity,
        fit_share=fit_share,
        reference=reference,
        learners=learners,
        seed=seed,  # type: ignore[arg-type]  # checked to be whole, with a sentence
        force=force,
    )
    for path in (out, recipe):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)
    if plot is not None:
        from memberbound.report.frontier import save_frontier

        typer.echo(f"wrote {save_frontier(result, plot)}", err=True)
    show(result, json_)
