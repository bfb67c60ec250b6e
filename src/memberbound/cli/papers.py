"""``reproduce``: the papers' figures and tables, redone and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, progress_bar, show

__all__ = ["reproduce"]


@app.command()
def reproduce(  # noqa: PLR0917  # Typer reads options from positional parameters
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A figure (L24-F1), a paper (L24), or all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what can be redone.")] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for figures and their data.")
    ] = Path("reproduction"),
    trials: Annotated[
        float | None, typer.Option(metavar="T", help="Random populations to average over.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with MNIST, for A25-Tab1; or MEMBERBOUND_DATA."),
    ] = None,
    seed: Annotated[float, typer.Option(help="Makes the result repeatable.")] = 0,
    json_: JsonFlag = False,
) -> None:
    """Redo figures of the papers, with the data behind them, and check what the papers say.

    \b
    memberbound reproduce --list
    memberbound reproduce L24-F2 --out figures
    memberbound reproduce all --out figures
    """
    from memberbound.papers.reproduction import reproduce as reproduce_

    if id is None or list_:
        show(reproduce_(), json_)
        return
    with progress_bar(f"reproducing {id}") as progress:
        result = reproduce_(
            id,
            out=out,
            data=data,
            trials=trials,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            seed=seed,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            progress=progress,
        )
    for path in (*result.figures, *result.files):
        typer.echo(f"wrote {path}", err=True)
    show(result, json_)
