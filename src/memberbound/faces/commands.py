"""Commands: typed options from a verb's declaration, and its answer as output."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from memberbound.declarations import AnswerLike, Keywords, Option, Parameter, Verb
from memberbound.errors import InputError, MemberboundError
from memberbound.faces.endings import StoppedError
from memberbound.faces.terminal import preview_lines, print_text
from memberbound.faces.typed_text import join_names, number, python_value
from memberbound.files import check_output
from memberbound.limits import Limit, Limited, write_junit

#: Headings of a command's options, in their order.
_GROUPS = ("Address", "Data", "Question", "Computation", "Limit", "Output")
#: Long-running verbs, which preview their input at a terminal.
_PREVIEWED = ("audit-learner", "certify", "harden", "protect", "protect-half", "study")
#: Kinds of parameters without an option: progress, handled here, and Python objects.
_NOT_TYPED = ("progress", "hidden")
#: Typer type and help placeholder by kind of argument; default: text.
_TYPES: dict[str, tuple[Any, str | None]] = {
    "number": (str, "number"),
    "numbers by column": (list[str], None),
    "rates": (list[str], "rate"),
    "files": (list[str], None),
    "several": (list[str], None),
    "switch": (bool, ""),
    "text": (str, "TEXT"),
    "text by column": (list[str], None),
    "whole": (str, "N"),
} | dict.fromkeys(("law", "points", "out", "records", "folder", "cache"), (Path, None))


def _typer_parameter(parameter: Parameter) -> inspect.Parameter:
    """Return the Typer parameter for one parameter of a verb."""
    hint, metavar = _TYPES.get(parameter.kind, (str, None))
    typed_default = parameter.option.typed_default
    default: Any = parameter.default if typed_default is None else typed_default
    if hint is Path:
        default = None if default in (None, True, False) else Path(default)
    elif hint == list[str]:
        default = None
    elif parameter.kind in ("names", "numbers"):
        default = join_names(default) if default else None
    elif hint is str and default is not None:
        default = str(default)
    # Escape square brackets, which are markup on the help page.
    settings: dict[str, Any] = {
        "help": escape(parameter.help),
        "metavar": metavar if parameter.metavar is None else parameter.metavar,
    }
    if parameter.positional:
        note = typer.Argument(**settings)
    else:
        note = typer.Option(_flags(parameter), rich_help_panel=parameter.group, **settings)
    if parameter.required:
        default = inspect.Parameter.empty
    elif default is None:
        hint = hint | None
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        parameter.name, kind, default=default, annotation=Annotated[hint, note]
    )


def _flags(parameter: Parameter) -> str:
    """Return the option names; a switch that is on or unset by default has a ``--no-`` form."""
    if parameter.kind != "switch" or parameter.default is False:
        return parameter.flag
    return f"{parameter.flag}/--no-{parameter.flag.removeprefix('--')}"


#: Options of the command line only.
_NO_CACHE = Parameter("no_cache", Option("switch"), False, "Keep no fits.")
_PLOT = Parameter(
    "plot",
    Option("out", metavar="FILE"),
    None,
    "Draw the answer into this file (.png .svg .pdf).",
)
_JSON = Parameter(
    "json_", Option("switch", flag="--json"), False, "Print one JSON object and nothing else."
)
#: Draws the answer of a verb into a file.
Drawing = Callable[[Any, Path], Path]


@dataclass(frozen=True)
class _Command:
    """A command: runs its verb with the typed options."""

    verb: Verb
    drawing: Drawing | None = None

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters with an option."""
        return [p for p in self.verb.parameters if p.kind not in _NOT_TYPED]

    def signature(self) -> inspect.Signature:
        """Return the signature for Typer: the verb's parameters and the command's own."""
        own = {
            _NO_CACHE: any(p.option.typed_default for p in self.verb.of_kind("cache")),
            _PLOT: self.drawing is not None,
            _JSON: self.verb.answers,
        }
        groups = sorted(
            (*self.parameters, *self.verb.limit_parameters, *(p for p, has in own.items() if has)),
            key=lambda p: -1 if p.positional else _GROUPS.index(p.group),
        )
        return inspect.Signature([_typer_parameter(parameter) for parameter in groups])

    def __call__(
        self,
        *,
        plot: Path | None = None,
        json_: bool = False,
        fail_above: str | None = None,
        fail_on: str | None = None,
        junit: Path | None = None,
        **typed: object,
    ) -> None:
        """Run the verb, list the written files, print the answer and check the limit."""
        if plot is not None:
            from memberbound.report.drawing import check_target

            check_target(plot)
        most = None if fail_above is None else number("fail_above", fail_above)
        limit = self.limit(most, fail_on, junit)
        result = self.answer(typed)
        for parameter in self.verb.of_kind("out", "records"):
            if typed.get(parameter.name) is not None:
                typer.echo(f"wrote {typed[parameter.name]}", err=True)
        if plot is not None and self.drawing is not None:
            typer.echo(f"wrote {self.drawing(result, plot)}", err=True)
        if result is not None:
            show(result, json_, measures=self.verb.measures)
            if limit is not None and _above(result, limit, junit):
                raise typer.Exit(3)
            if refuted := getattr(result, "refuted_claim", None):
                typer.echo(f"claim refuted: {refuted}", err=True)
                raise typer.Exit(3)
            if failure := getattr(result, "failure", None):
                raise MemberboundError(failure)

    def limit(self, most: float | None, on: str | None, junit: Path | None) -> Limit | None:
        """Return the typed limit; raise before any work is done if it is invalid."""
        if most is None:
            for flag, value in (("fail_on", on), ("junit", junit)):
                if value is not None:
                    raise InputError(f"{flag} must come with fail_above, got {str(value)!r} alone.")
            return None
        limit = Limit(most, on)  # type: ignore[arg-type]  # one_of checks it
        limit.part(self.verb.fails_on, self.verb.name)  # type: ignore[arg-type]
        if junit is not None:
            # Every build overwrites its report.
            check_output(junit, name="junit", formats=(".xml",), force=True)
        return limit

    def answer(self, typed: Keywords) -> AnswerLike | None:
        """Return the verb's answer to the typed options."""
        values = {p.name: python_value(p, typed[p.name]) for p in self.parameters}
        for parameter in self.verb.of_kind("cache"):
            if values[parameter.name] is None and parameter.option.typed_default:
                values[parameter.name] = not typed["no_cache"]
        if typed.get("config") is not None:
            self.leave_to_configuration(typed, values)
        positional = [values.pop(p.name) for p in self.parameters if p.positional]
        if self.verb.name in _PREVIEWED and at_terminal():
            _print_preview(positional[0], typed)
        with ExitStack() as stack:
            for parameter in self.verb.of_kind("progress"):
                values[parameter.name] = stack.enter_context(_progress_bar(parameter))
            return self.verb.function(*positional, **values)

    def leave_to_configuration(self, typed: Keywords, values: Keywords) -> None:
        """Drop a default if the configuration file sets a value."""
        from memberbound.verbs.study.question import read_configuration

        configuration = read_configuration(typed["config"])
        for parameter in self.parameters:
            name, option = parameter.name, parameter.option
            untouched = str(typed[name]) == option.typed_default
            if option.configured and untouched and configuration.get(name) is not None:
                values[name] = None


def command(verb: Verb, drawing: Drawing | None = None) -> Callable[..., None]:
    """Return the function that Typer registers as the command of a verb.

    ``drawing`` plots the answer and adds the option ``--plot``.
    """
    act = _Command(verb, drawing)
    hint = " Continue with the same command and --resume." if "resume" in verb.by_name else ""

    def run(**typed: Any) -> None:
        try:
            act(**typed)
        except KeyboardInterrupt as stop:
            notes = " ".join(getattr(stop, "__notes__", ()))
            raise StoppedError(f"stopped. {notes}".rstrip() + hint) from None

    signature = act.signature()
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: item.annotation for name, item in signature.parameters.items()}
    run.__name__ = verb.function.__name__
    # click keeps the line breaks of a paragraph that starts with a backspace.
    run.__doc__ = "\n".join([verb.summary, "", "\b", *verb.examples])
    return run


def show(result: AnswerLike, as_json: bool, *, measures: bool = False) -> None:
    """Print a result on standard output, as one JSON object or as text."""
    if as_json:
        # The dictionary has them too, but a user who redirects it should see them.
        for note in getattr(result, "warnings", ()):
            typer.echo(f"note: {note.rstrip('.')}.", err=True)
        text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
        # A file name need not be valid UTF-8, so escape invalid bytes as in JSON.
        typer.echo(text.encode("utf-8", "backslashreplace").decode("utf-8"))
    else:
        text = result.summary().encode("utf-8", "backslashreplace").decode("utf-8")
        print_text(text, measures=measures)


def at_terminal() -> bool:
    """Return whether standard error is a terminal."""
    return sys.stderr.isatty()


def _print_preview(source: object, typed: Keywords) -> None:
    """Print a preview of how a file is read; the verb reports its errors."""
    if isinstance(source, Path):
        with suppress(MemberboundError, OSError):
            for line in preview_lines(source, typed.get("database_table"), typed.get("encoding")):
                print_text(line, stream=sys.stderr)


def _above(result: AnswerLike, limit: Limit, junit: Path | None) -> bool:
    """Check an answer against a limit; report on standard error and, if given, in a JUnit file."""
    assert isinstance(result, Limited)
    outcome = result.held_to(limit)
    if junit is not None:
        write_junit(outcome, junit)
        typer.echo(f"wrote {junit}", err=True)
    typer.echo(f"{outcome.outcome}: {outcome.sentence}", err=True)
    return outcome.exceeded


@contextmanager
def _progress_bar(parameter: Parameter) -> Iterator[Callable[..., None]]:
    """Show a progress bar with the remaining time on standard error.

    Yield the callback of the verb: with (done, total) if the declaration names a single stage, else
    with (stage, done, total).  Without a terminal, only the start of each stage is printed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    label = parameter.option.metavar
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeLeft())
    stages: list[str] = []
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(label or "", total=None)

        def advance(stage: str, done: int, total: int) -> None:
            if label is None and not console.is_terminal and stage not in stages:
                stages.append(stage)
                typer.echo(f"── {stage}", err=True)
            bar.update(task, description=stage, completed=done, total=total)

        yield advance if label is None else lambda done, total: advance(label, done, total)
