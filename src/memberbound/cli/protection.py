"""``protect`` and ``predict``: a noisy model or statistic with its certificate, and its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, progress_bar, show
from memberbound.cli.tables import Columns, DatabaseTable, Roles, named, numbers, roled

__all__ = ["predict", "protect"]


@app.command()
def protect(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The population, a row per record.")],
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that the learner predicts.")
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="logistic (default), ridge, … or module:factory."),
    ] = None,
    statistic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead of a learner: mean, sum, histogram, covariance or quantiles.",
        ),
    ] = None,
    eta: Annotated[
        float, typer.Option(metavar="H", help="Points above blind guessing: 0.05 allows 5.")
    ] = 0.05,
    record: Annotated[
        str, typer.Option(metavar="average|every", help="Whom the promise is made to.")
    ] = "average",
    method: Annotated[
        str,
        typer.Option(
            metavar="neighbour|convex|moment|izzo", help="How the noise is certified; auto chooses."
        ),
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(help="Model (.skops) or values (.safetensors); its certificate goes beside."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="How sure the calibration is.")] = 0.95,
    tune: Annotated[
        bool, typer.Option(help="Choose clip radius and regularisation with the noise.")
    ] = True,
    clip: Annotated[
        float | None, typer.Option(metavar="R", help="Scale longer rows onto this norm.")
    ] = None,
    pairs: Annotated[
        float | None, typer.Option(help="Pairs (or subsets) to refit; chosen if left out.")
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(help="Public rows whose predictions are released (trees, forests, k-NN)."),
    ] = None,
    bins: Annotated[
        str | None, typer.Option(metavar="1,2,…", help="Edges of a histogram's bins.")
    ] = None,
    levels: Annotated[
        str | None, typer.Option(metavar="p,q,…", help="Levels of the quantiles; quartiles.")
    ] = None,
    size: Annotated[
        float | None, typer.Option(metavar="K", help="Records drawn; half if left out.")
    ] = None,
    columns: Columns = None,
    roles: Roles = None,
    table: DatabaseTable = None,
    workers: Annotated[float | None, typer.Option(help="Processes; all cores if left out.")] = None,
    insecure_seed: Annotated[
        float | None,
        typer.Option(help="For tests only: draw training set and noise from this seed."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite --out.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Train on a secret half and release the result with noise that is proved to be enough.

    \b
    memberbound protect patients.csv --target ill --eta 0.05 --out model.skops
    memberbound protect patients.csv --target ill --record every --method convex
    memberbound protect patients.csv --statistic mean --columns age,bmi --eta 0.02
    """
    from memberbound.protection import protect as protect_

    with progress_bar("calibrating the noise") as progress:
        result = protect_(
            file,
            target=target,
            learner=learner,
            statistic=statistic,
            eta=eta,
            record=record,
            method=method,
            confidence=confidence,
            tune=tune,
            clip=clip,
            pairs=pairs,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            query=query,
            bins=None if bins is None else numbers("bins", bins),
            levels=None if levels is None else numbers("levels", levels),
            size=size,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            columns=named(columns),
            roles=roled(roles),
            database_table=table,
            out=out,
            force=force,
            workers=workers,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            insecure_seed=insecure_seed,  # type: ignore[arg-type]  # checked to be whole
            progress=progress,
        )
    if out is not None:
        typer.echo(f"wrote {out} and its certificate", err=True)
    show(result, json_)


@app.command()
def predict(  # noqa: PLR0917  # Typer reads options from positional parameters
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What protect --out wrote.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Raw rows, with a header.")],
    out: Annotated[
        Path | None, typer.Option(help="File for the answers: CSV, Parquet or Arrow.")
    ] = None,
    table: DatabaseTable = None,
    force: Annotated[bool, typer.Option(help="Overwrite --out.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Apply a released model to raw rows; columns are found by name.

    The answers are a column prediction and, for classifiers, a column probability_<class> each.

    \b
    memberbound predict model.skops new-patients.csv --out answers.csv
    """
    from memberbound.protection import predict as predict_

    show(predict_(model, file, out=out, force=force, database_table=table), json_)
