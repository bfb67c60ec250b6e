"""What every command shares: the application, ``--json``, and how a result is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Protocol

import typer

__all__ = ["JsonFlag", "app", "progress_bar", "show", "stages_bar"]

app = typer.Typer(
    name="memberbound",
    help="How often can anybody be right about who was in the training set?",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: memberbound study, or memberbound explain --epsilon 8 --delta 1e-5",
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
        for note in getattr(result, "warnings", ()):
            typer.echo(f"note: {note.rstrip('.')}.", err=True)
        text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    else:
        text = result.summary()
    typer.echo(text)


@contextmanager
def stages_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on standard error while work is done in stages, with the time left.

    Yields what long work calls with (stage, done, total); on something other than a terminal
    nothing is drawn.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeLeft())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)

        def advance(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total)

        yield advance


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for work of one stage; yields what it calls with (done, total)."""
    with stages_bar() as bar:
        bar(label, 0, 1)
        yield lambda done, total: bar(label, done, total)
