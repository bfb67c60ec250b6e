"""The command line: one verb of the contract per command.

Exit codes: 0 done, 2 bad input (one sentence on standard error), 1 anything else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from memberbound._version import __version__
from memberbound.cli.auditing import audit
from memberbound.cli.exporting import export
from memberbound.cli.face import app
from memberbound.cli.papers import reproduce
from memberbound.cli.populations import population
from memberbound.cli.privacy import explain
from memberbound.cli.protection import predict, protect
from memberbound.cli.results import theorems
from memberbound.cli.serving import serve
from memberbound.cli.studying import study
from memberbound.cli.tables import certify, harden, plan
from memberbound.errors import InputError, MemberboundError

__all__ = [
    "app",
    "audit",
    "certify",
    "explain",
    "export",
    "harden",
    "main",
    "plan",
    "population",
    "predict",
    "protect",
    "reproduce",
    "serve",
    "study",
    "theorems",
]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"memberbound {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


def _guarded(run: Callable[[], object]) -> int:
    """Run a command and turn what goes wrong into one sentence and an exit code."""
    code: int
    try:
        finished = run()
    except InputError as problem:
        message, code = str(problem), 2
    except (MemberboundError, OSError) as problem:
        message, code = str(problem), 1
    except KeyboardInterrupt:
        message, code = "stopped.", 1
    except Exception as problem:
        # Typer carries its own copy of click, so its errors are known by what they can say.
        described = getattr(problem, "format_message", None)
        if type(problem).__name__ == "Abort":
            message, code = "stopped.", 1
        elif described is None:
            raise
        else:
            message, code = described(), getattr(problem, "exit_code", 2)
    else:
        return finished if isinstance(finished, int) else 0
    sys.stderr.write(f"memberbound: {' '.join(message.split())}\n")
    return code


def main() -> None:
    """Entry point of the ``memberbound`` command."""
    command = typer.main.get_command(app)
    arguments = sys.argv[1:] or ["--help"]
    sys.exit(
        _guarded(lambda: command.main(arguments, prog_name="memberbound", standalone_mode=False))
    )
