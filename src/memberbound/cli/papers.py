"""``reproduce``: the papers' figures and tables, redone and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, show

__all__ = ["reproduce"]


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, where a person is watching."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@app.command()
def reproduce(
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
    seed: Annotated[float, typer.Option(help="Makes the result repeatable.")] = 0,
    json_: JsonFlag = False,
) -> None:
    r"""Redo figures of the papers, with the data behind them, and check what the papers say.

    \b
    memberbound reproduce --list
    memberbound reproduce L24-F2 --out figures
    memberbound reproduce all --out figures
    """
    from memberbound.reproduction import reproduce as reproduce_

    if id is None or list_:
        show(reproduce_(), json_)
        return
    with _bar(f"reproducing {id}") as progress:
        result = reproduce_(
            id,
            out=out,
            trials=trials,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            seed=seed,  # type: ignore[arg-type]  # checked to be whole, with a sentence
            progress=progress,
        )
    for path in (*result.figures, *result.files):
        typer.echo(f"wrote {path}", err=True)
    show(result, json_)
