"""What every command shares: the application, ``--json``, and how a result is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Protocol

import typer

__all__ = ["JsonFlag", "app", "progress_bar", "show"]

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


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while work is done, with the time left.

    Yields what long work calls with (done, total); on something other than a terminal nothing is
    drawn.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield advance
