"""The command line: one command per verb, generated from its declaration.

Exit codes: 0 done, 2 bad input (one sentence on standard error), 3 done but above a given limit,
1 anything else; 130 and 143 after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import csv
import inspect
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from memberbound._version import __version__
from memberbound.declarations import (
    AnswerLike,
    Keywords,
    Option,
    Parameter,
    Verb,
    function_name,
    read_verb,
)
from memberbound.errors import InputError, MemberboundError, finite_number
from memberbound.faces.endings import INTERRUPTED, StoppedError, handle_sigterm, print_ending
from memberbound.faces.terminal import preview_lines, print_text
from memberbound.files import check_output
from memberbound.limits import Limit, Limited, write_junit
from memberbound.scratch import remove_leftovers

#: Heading of the help page → its verbs, each with the first sentence of its docstring.
_PANELS = {
    "Everything in one report": {
        "study": (
            "Certify a table, attack and protect a model, and recommend what to do: one report."
        ),
        "compare": "Compare two reports: what was found before and after, and what else changed.",
        "export": "Export a release or a study as a page to sign, a card, evidence or MLflow run.",
    },
    "Models": {
        "bounds": "Write a template in which to state what is public about a table's columns.",
        "protect": "Train a model on all rows without revealing who is in the data.",
        "predict": "Apply a model released by protect or protect-half to raw rows.",
        "audit": (
            "Measure what membership inference attacks on a model achieve, with confidence "
            "intervals."
        ),
        "audit-learner": (
            "Measure what attacks on models of a learner achieve, with confidence intervals."
        ),
    },
    "Tables": {
        "synthesize": ("Generate a synthetic table without revealing who is in the original."),
        "audit-table": "Measure what membership inference attacks on a synthetic table achieve.",
        "certify": "Certify how much any learner whatsoever can leak about the rows of a table.",
        "plan": "Find how many training rows a certified target requires.",
        "harden": "Coarsen a table until no learner trained on it can leak too much, certified.",
    },
    "Text": {
        "protect-text": (
            "Fine-tune a language model without revealing which documents it was trained on."
        ),
        "audit-text": (
            "Measure which documents a fine-tuned language model leaks, with confidence intervals."
        ),
    },
    "Numbers": {
        "summarize": ("Release statistics of all rows without revealing who is in the data."),
        "verify": "Recompute the certificate of a release, and check that it belongs to the file.",
        "ledger": (
            "Show what all releases about the same people guarantee together, and the budget left."
        ),
        "explain": (
            "Translate a DP guarantee into attack success, or find the parameters for a target."
        ),
        "population": "Compute what ε means for these records, or the ε that a target allows.",
    },
    "Papers": {
        "protect-half": "Release a model or a statistic of a secret random half of a public table.",
        "reproduce": "Reproduce figures and tables of the papers, and check the papers' claims.",
        "theorems": ("List the papers' results with status, errata, and the function to call."),
    },
    "In the browser": {
        "serve": "Open the web calculator: the same answers, with sliders and file upload.",
    },
}
#: Headings of a command's options, in their order.
_GROUPS = ("Address", "Data", "Question", "Computation", "Limit", "Output")
#: Every command, in the order of the help page.
VERBS = tuple(name for members in _PANELS.values() for name in members)
#: Long-running verbs, which preview their input at a terminal.
_PREVIEWED = ("audit-learner", "certify", "harden", "protect", "protect-half", "study")
#: Kinds of parameters without an option: progress is handled here, the others are Python objects.
_NOT_TYPED = ("progress", "hidden")


def verb_named(name: str) -> Verb:
    """Return the declaration of a verb."""
    import memberbound

    return read_verb(getattr(memberbound, function_name(name)))


# ── from typed text to Python values ──────────────────────────────────────────────────────────────


def names(name: str, text: str) -> list[str]:
    """Split ``a,b,c``; a name that contains a comma can be quoted as in CSV."""
    try:
        items = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:  # a line break outside quotes
        items = []
    if not items or not all(items):
        raise InputError(f"{name} must be names separated by commas, got {text!r}.")
    return items


def join_names(values: Iterable[object]) -> str:
    """Join names by commas, as the inverse of :func:`names`.

    >>> join_names(["age", "height, cm"]), names("columns", join_names(["age", "height, cm"]))
    ('age,"height, cm"', ['age', 'height, cm'])
    """
    return ",".join(_quote(str(value)) for value in values)


def _quote(text: str) -> str:
    plain = text == text.strip() and not any(mark in text for mark in ',"\r\n')
    return text if plain else '"' + text.replace('"', '""') + '"'


def number(name: str, text: str) -> float:
    """Parse a number; the verb decides whether infinity is allowed."""
    try:
        return float(text)
    except ValueError:
        return finite_number(name, text)  # raises the error


def numbers(name: str, text: str) -> list[float]:
    """Parse numbers separated by commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{name} must be numbers separated by commas, got {text!r}.") from None


def by_column(name: str, pairs: Iterable[str]) -> dict[str, str]:
    """Parse COL=VALUE options."""
    values: dict[str, str] = {}
    for text in pairs:
        column, sign, value = text.rpartition("=") if name == "roles" else text.partition("=")
        if not (column and sign and value):
            what = "ROLE" if name == "roles" else "VALUE"
            raise InputError(f"{name} must be given as COLUMN={what}, got {text!r}.")
        if column in values:
            raise InputError(f"{name} must name a column once, got {column!r} twice.")
        values[column] = value
    return values


def whole(name: str, text: str) -> float:
    """Parse a whole number, also as 1e6; the verb refuses any other number."""
    value = finite_number(name, text)
    return int(value) if value == int(value) else value


def _parse_path(name: str, text: str) -> str | Path:
    """Parse the name of a file, or its address."""
    del name
    return text if "://" in text else Path(text)


#: Kind of an argument → parser of its text; other kinds are passed on unchanged.
_READERS: dict[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(("table", "file", "document"), _parse_path),
    "files": lambda name, texts: [_parse_path(name, text) for text in texts],
    "whole": whole,
    "number": number,
    "rates": lambda name, texts: [number(name, text) for text in texts],
    "names": names,
    "numbers": numbers,
    "numbers by column": lambda name, texts: {
        column: numbers(f"{name} of {column!r}", text)
        for column, text in by_column(name, texts).items()
    },
    "text by column": by_column,
    "roles": lambda name, text: by_column(name, names(name, text)),
}


def _python_value(parameter: Parameter, typed: object) -> object:
    """Convert a typed value to the verb's argument."""
    if typed is None or typed == []:
        return parameter.default
    read = _READERS.get(parameter.kind)
    return typed if read is None else read(parameter.name, typed)


# ── a command from a declaration ──────────────────────────────────────────────────────────────────


#: Kind of an argument → its Typer type and its placeholder on the help page; default: text.
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
    """Return the option names; a switch that is on by default, or unset, gets a ``--no-`` form."""
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
        """Return the typed limit, or refuse it before any work is done."""
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
        values = {p.name: _python_value(p, typed[p.name]) for p in self.parameters}
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


# ── output for people ─────────────────────────────────────────────────────────────────────────────


def show(result: AnswerLike, as_json: bool, *, measures: bool = False) -> None:
    """Print a result on standard output, as one JSON object or as text."""
    if as_json:
        # The dictionary has them too, but a user who pipes it elsewhere should see them.
        for note in getattr(result, "warnings", ()):
            typer.echo(f"note: {note.rstrip('.')}.", err=True)
        text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
        # A file name need not be valid UTF-8: escape its odd bytes like JSON.
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


def _version(show: bool) -> None:
    if show:
        typer.echo(f"memberbound {__version__}")
        raise typer.Exit


def application(chosen: Iterable[str] = VERBS, listed: Iterable[str] = ()) -> typer.Typer:
    """Build the command line of some verbs, importing their modules for the declarations.

    Verbs in ``listed`` only are not imported: they appear on the help page and in suggestions.
    """
    from memberbound.report import DRAWINGS

    app = typer.Typer(
        name="memberbound",
        help="How often can anybody be right about who was in the training set?",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Start with: memberbound study, or memberbound explain --epsilon 8 --delta 1e-5",
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
        ] = False,
    ) -> None:
        del version

    panels = {name: title for title, members in _PANELS.items() for name in members}
    purposes = {name: text for members in _PANELS.values() for name, text in members.items()}
    for name in chosen:
        verb = verb_named(name)
        app.command(name, rich_help_panel=panels[name], epilog=_choices(verb))(
            command(verb, DRAWINGS.get(name))
        )
    for name in listed:
        app.command(name, rich_help_panel=panels[name], help=purposes[name])(_out_of_place)
    return app


def _out_of_place() -> None:
    raise InputError("the verb must be the first argument, as in: memberbound certify people.csv.")


def _choices(verb: Verb) -> str | None:
    """Return the names of learners or attacks, for the end of a help page."""
    sentences = []
    if verb.of_kind("learner") and verb.name != "predict":
        from memberbound.learners.names import LEARNERS

        names = verb.of_kind("learner")[0].option.choices or LEARNERS
        sentences.append(f"Learners: {', '.join(names)}, or package.module:factory.")
    if "attacks" in verb.by_name:
        from memberbound.attacks.attacks import ATTACKS
        from memberbound.attacks.texts import LEARNED, TEXT_ATTACKS

        listed = (*TEXT_ATTACKS, LEARNED) if verb.name == "audit-text" else tuple(ATTACKS)
        sentences.append(f"Attacks: {', '.join(listed)}.")
    return "\n\n".join(sentences) or None


def _run_guarded(run: Callable[[], object]) -> int:
    """Run a command and turn errors into one sentence and an exit code."""
    try:
        with handle_sigterm():
            code = run()
            sys.stdout.flush()
            if code == INTERRUPTED:  # Typer's code for an interrupt while parsing options
                raise KeyboardInterrupt
    except BaseException as problem:
        if isinstance(problem, (SystemExit, GeneratorExit)):
            raise
        return print_ending(problem)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the ``memberbound`` command."""
    arguments = sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:]
    arguments = arguments or ["--help"]
    # Let ``package.module:factory`` find files in the working directory, after installed packages.
    sys.path.append(str(Path.cwd()))
    # Import only the requested verb; the help page and a wrong name need none.
    chosen = [name for name in arguments[:1] if name in VERBS]
    listed = () if chosen else VERBS

    def run() -> object:
        remove_leftovers(tempfile.gettempdir())
        group = typer.main.get_command(application(chosen, listed))
        return group.main(arguments, prog_name="memberbound", standalone_mode=False)

    sys.exit(_run_guarded(run))
