"""``study``: the main job, from a table to a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, show, stages_bar
from memberbound.cli.tables import Columns, DatabaseTable, Roles, named, roled

__all__ = ["study"]

_OUT = Path("memberbound-study")


@app.command()
def study(  # noqa: PLR0917  # Typer reads options from positional parameters
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="CSV, Parquet, Arrow, …; the embedded table if left out."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that the learner predicts.")
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="logistic, tree, … or package.module:factory."),
    ] = None,
    eta: Annotated[
        float | None, typer.Option(help="Nobody may be right more than 1/2 + eta; 0.05.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(metavar="every|average", help="Whom the recommendation protects; every."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="An epsilon to translate for these records; 8.")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta; 1e-5.")] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Of each certificate and interval; 0.95.")
    ] = None,
    shadows: Annotated[
        float | None, typer.Option(metavar="S", help="Models trained for each audit; 64.")
    ] = None,
    extra_rows: Annotated[
        float | None, typer.Option(help="Rows that could still be collected; 0.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with these options, source and out.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"Folder for report.html and report.json; {_OUT} if left out."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the study in --out.")] = False,
    force: Annotated[bool, typer.Option(help="Replace the report in --out.")] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Where finished fits are kept; nowhere if left out.")
    ] = None,
    workers: Annotated[float, typer.Option(help="Processes; -1 is all cores.")] = -1,
    columns: Columns = None,
    roles: Roles = None,
    table: DatabaseTable = None,
    seed: Annotated[
        float | None, typer.Option(help="Makes the result repeatable; 0 if left out.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Certify a table, audit a learner, protect it, and say what to do: as one report.

    \b
    memberbound study
    memberbound study people.csv --target income --learner logistic --eta 0.05 --out study
    memberbound study --config study.yaml --resume
    """
    from memberbound.studies import study as study_
    from memberbound.studies.question import read_configuration

    place = out
    if place is None and (config is None or read_configuration(config).get("out") is None):
        place = _OUT
    with stages_bar() as bar, _stopped():
        result = study_(
            file,
            target=target,
            learner=learner,
            eta=eta,
            record=record,
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            shadows=shadows,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            extra_rows=extra_rows,  # type: ignore[arg-type]  # likewise
            columns=named(columns),
            roles=roled(roles),
            database_table=table,
            config=config,
            out=place,
            resume=resume,
            force=force,
            cache=cache,
            workers=workers,  # type: ignore[arg-type]  # likewise
            seed=seed,  # type: ignore[arg-type]  # likewise
            progress=_announced(bar),
        )
    show(result, json_)
    if open_:
        import webbrowser

        webbrowser.open(Path(result.files[0]).resolve().as_uri())
    if not result.complete:
        raise typer.Exit(1)


@contextmanager
def _stopped() -> Iterator[None]:
    """Say after Ctrl-C what is left and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("memberbound: stopped. Go on with the same command and --resume.", err=True)
        raise typer.Exit(1) from None


def _announced(bar: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
    """Return the progress; where no bar can be drawn it says when a step begins."""
    if sys.stderr.isatty():
        return bar
    said: list[str] = []

    def advance(title: str, done: int, total: int) -> None:
        del done, total
        if title not in said:
            said.append(title)
            typer.echo(f"── {title}", err=True)

    return advance
