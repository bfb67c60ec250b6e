"""``population``: records in, what ε means for them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, progress_bar, show
from memberbound.cli.tables import Columns, DatabaseTable, Roles, named, roled

__all__ = ["population"]


@app.command()
def population(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="One record per row; the numeric columns are used."),
    ],
    mechanism: Annotated[
        str, typer.Option(metavar="gaussian|exponential", help="How the release is made noisy.")
    ] = "gaussian",
    query: Annotated[
        str, typer.Option(metavar="mean|sum", help="What is released with Gaussian noise.")
    ] = "mean",
    epsilon: Annotated[
        float | None, typer.Option(help="ε over all data sets; the noise follows from it.")
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Instead of ε: standard deviation of the noise.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ; 1e-5 for Gaussian noise, 0 for exponential.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(metavar="C", help="Scale longer records onto this norm.")
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="Exponential: one candidate per row (L2 loss).")
    ] = None,
    losses: Annotated[
        Path | None, typer.Option(help="Exponential: losses, records × candidates, instead.")
    ] = None,
    sensitivity: Annotated[
        float | None,
        typer.Option(help="How far one replaced record moves the query or the mean loss."),
    ] = None,
    target_pmp: Annotated[
        float | None, typer.Option(metavar="E", help="Inverse: largest ε̃ that you accept.")
    ] = None,
    target_success: Annotated[
        float | None, typer.Option(help="Inverse: largest success rate that you accept.")
    ] = None,
    size: Annotated[
        float | None, typer.Option(metavar="K", help="Records drawn; half of them if left out.")
    ] = None,
    releases: Annotated[
        float, typer.Option(help="Independent Gaussian answers, taken as one joint release.")
    ] = 1,
    columns: Columns = None,
    roles: Roles = None,
    table: DatabaseTable = None,
    confidence: Annotated[
        float, typer.Option(help="Where subsets are sampled: how sure the bound is.")
    ] = 0.95,
    subsets: Annotated[
        float | None, typer.Option(help="How many subsets to sample; chosen if left out.")
    ] = None,
    seed: Annotated[float, typer.Option(help="Makes sampled subsets repeatable.")] = 0,
    records: Annotated[
        Path | None, typer.Option(help="Write the bounds of every record into this .csv file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw success against ε into this file.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite --records.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Say what ε means for the records of a known population.

    \b
    memberbound population patients.csv --epsilon 10 --clip 5 --plot success.png
    memberbound population patients.csv --target-success 0.55 --clip 5
    memberbound population xy.csv --mechanism exponential --candidates c.csv --epsilon 5 --clip 9
    """
    from memberbound.populations import population as population_

    if plot is not None:
        from memberbound.report.figure import check_target

        check_target(plot)
    with progress_bar("bounding every record") as progress:
        result = population_(
            file,
            mechanism=mechanism,
            query=query,
            epsilon=epsilon,
            sigma=sigma,
            delta=delta,
            clip=clip,
            sensitivity=sensitivity,
            candidates=candidates,
            losses=losses,
            size=size,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            target_pmp=target_pmp,
            target_success=target_success,
            releases=releases,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            columns=named(columns),
            roles=roled(roles),
            database_table=table,
            confidence=confidence,
            subsets=subsets,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            seed=seed,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            records_out=records,
            force=force,
            progress=progress,
        )
    if records is not None:
        typer.echo(f"wrote {records}", err=True)
    if plot is not None:
        from memberbound.report.success import save_success

        typer.echo(f"wrote {save_success(result, plot)}", err=True)
    show(result, json_)
