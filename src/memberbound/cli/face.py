"""What every command shares: the application, ``--json``, and how a result is printed."""

from __future__ import annotations

import json
from typing import Annotated, Protocol

import typer

__all__ = ["JsonFlag", "app", "show"]

app = typer.Typer(
    name="memberbound",
    help="How often can anybody be right about who was in the training set?",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: memberbound explain --epsilon 8 --delta 1e-5",
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


class Result(Protocol):
    """What a verb returns: the dictionary of the contract and a readable text."""

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        ...

    def summary(self) -> str:
        """Return a short readable table."""
        ...


def show(result: Result, as_json: bool) -> None:
    """Print a result on standard output, as one JSON object or as text."""
    if as_json:
        text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    else:
        text = result.summary()
    typer.echo(text)
