"""The command line: its help page, its commands and its exit codes.

Exit codes: 0 done, 2 bad input (one sentence on standard error), 3 done but above a given limit,
1 anything else; 130 and 143 after Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from memberbound._version import __version__
from memberbound.declarations import Verb, function_name, read_verb
from memberbound.errors import InputError
from memberbound.faces.commands import command
from memberbound.faces.endings import INTERRUPTED, handle_sigterm, print_ending
from memberbound.scratch import remove_leftovers

#: Verbs by heading of the help page, each with the first sentence of its docstring.
_PANELS = {
    "Everything in one report": {
        "study": (
            "Certify a table, attack and protect a model, and recommend what to do: one report."
        ),
        "compare": "Compare two reports: the findings before and after, and all other changes.",
        "export": "Export a release or a study as a page to sign, a card, evidence or MLflow run.",
    },
    "Models": {
        "bounds": "Write a template for the public facts about a table's columns.",
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
        "certify": "Certify an upper bound on the leak of any learner about the rows of a table.",
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
            "Show the joint guarantee of all releases about the same people, and the budget left."
        ),
        "explain": (
            "Translate a DP guarantee into attack success, or find the parameters for a target."
        ),
        "population": (
            "Translate ε into attack success on these records, or find the ε for a target."
        ),
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
#: Every command, in the order of the help page.
VERBS = tuple(name for members in _PANELS.values() for name in members)


def verb_named(name: str) -> Verb:
    """Return the declaration of a verb."""
    import memberbound

    return read_verb(getattr(memberbound, function_name(name)))


def _version(show: bool) -> None:
    if show:
        typer.echo(f"memberbound {__version__}")
        raise typer.Exit


def application(chosen: Iterable[str] = VERBS, listed: Iterable[str] = ()) -> typer.Typer:
    """Build the command line of some verbs, importing their modules for the declarations.

    Verbs that are only in ``listed`` are not imported, and appear on the help page and in
    suggestions.
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
    # OpenMP reads this when a library loads it: threads that wait sleep instead of spinning.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
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
