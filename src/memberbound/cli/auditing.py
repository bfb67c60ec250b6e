"""``audit``: scores or a table in, what attacks reached out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, progress_bar, show
from memberbound.cli.tables import Columns, DatabaseTable, Roles, named, roled

__all__ = ["audit"]


@app.command()
def audit(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Scores of one model (columns score, member), or with --target a population.",
        ),
    ],
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Audit a learner that predicts this column.")
    ] = None,
    learner: Annotated[
        str, typer.Option(metavar="NAME", help="logistic, tree, … or package.module:factory.")
    ] = "logistic",
    shadows: Annotated[float, typer.Option(metavar="S", help="Models to train on halves.")] = 64,
    attacks: Annotated[
        str | None, typer.Option(metavar="loss,lira,…", help="Attacks; a good choice if left out.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of each interval.")] = 0.95,
    fpr: Annotated[
        list[float] | None, typer.Option(help="False-positive rate for the TPR; may be repeated.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="A release's .certificate.json, to hold the audit against."),
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Write the exposure of every record into this .csv file.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Where finished fits are kept, so that a stopped run goes on; the user's cache "
            "folder if left out."
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no fits.")] = False,
    backend: Annotated[
        str, typer.Option(metavar="processes|sequential|dask", help="Where models are trained.")
    ] = "processes",
    workers: Annotated[float, typer.Option(help="Processes; -1 is all cores.")] = -1,
    columns: Columns = None,
    roles: Roles = None,
    table: DatabaseTable = None,
    seed: Annotated[float, typer.Option(help="Makes the result repeatable.")] = 0,
    force: Annotated[bool, typer.Option(help="Overwrite --records.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Measure what membership attacks reach, with intervals that hold.

    \b
    memberbound audit scores.csv
    memberbound audit people.csv --target income --learner random-forest --cache fits
    memberbound audit people.csv --target income --attacks loss,lira,rmia --shadows 128
    """
    from memberbound.auditing import audit as audit_
    from memberbound.auditing.cache import default_cache

    folder = cache
    if folder is None and target is not None and not no_cache:
        folder = default_cache()
    with progress_bar("training models") as progress:
        result = audit_(
            file,
            target=target,
            learner=learner,
            shadows=shadows,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            attacks=named(attacks),
            confidence=confidence,
            fpr=fpr or (0.1, 0.01, 0.001),
            columns=named(columns),
            roles=roled(roles),
            database_table=table,
            certificate=certificate,
            records_out=records,
            force=force,
            cache=folder,
            backend=backend,
            workers=int(workers),
            seed=seed,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            progress=progress,
        )
    if records is not None:
        typer.echo(f"wrote {records}", err=True)
    show(result, json_)
