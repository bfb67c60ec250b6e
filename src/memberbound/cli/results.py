"""``theorems``: the ledger on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, show

__all__ = ["theorems"]


@app.command()
def theorems(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A result (A25-T14) or a paper (L24).")
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """List every result of the five papers: what holds, what is wrong, what is implemented.

    Asking for a single erratum computes its counterexample.

    \b
    memberbound theorems
    memberbound theorems L24
    memberbound theorems I24-T8
    """
    from memberbound.papers.ledger import theorems as theorems_

    show(theorems_(id), json_)
