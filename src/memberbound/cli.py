"""The command line: one verb of the contract per command.

Exit codes: 0 done, 2 bad input (one sentence on standard error), 1 anything else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import typer

from memberbound._version import __version__
from memberbound.errors import InputError, MemberboundError

__all__ = ["app", "main"]

app = typer.Typer(
    name="memberbound",
    help="How often can anybody be right about who was in the training set?",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: memberbound explain --epsilon 8 --delta 1e-5",
)


class _Result(Protocol):
    def to_dict(self) -> dict[str, object]: ...

    def summary(self) -> str: ...


JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def _print(result: _Result, as_json: bool) -> None:
    if as_json:
        text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False, indent=2)
    else:
        text = result.summary()
    typer.echo(text)


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


@app.command()
def explain(  # noqa: PLR0917  # Typer reads options from positional parameters
    epsilon: Annotated[float | None, typer.Option(help="ε of (ε, δ)-DP.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ; 0 if left out with --epsilon, else 1e-5.")
    ] = None,
    gdp: Annotated[float | None, typer.Option(metavar="MU", help="μ of Gaussian DP.")] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="DP-SGD: noise over clipping norm.")
    ] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="DP-SGD: Poisson sampling rate, batch over data size.")
    ] = None,
    steps: Annotated[float | None, typer.Option(help="DP-SGD: number of steps.")] = None,
    nu: Annotated[float, typer.Option(help="MIS: probability of a fresh test point.")] = 0.5,
    lam: Annotated[float, typer.Option(help="MIS: weight of a missed member.")] = 1.0,
    prior: Annotated[
        float, typer.Option(help="Share of candidates who were in, for the accuracy.")
    ] = 0.5,
    fpr: Annotated[
        list[float] | None, typer.Option(help="False-positive rate for the TPR; may be repeated.")
    ] = None,
    adjacency: Annotated[
        str | None,
        typer.Option(
            metavar="replace-one|add-remove",
            help="What “out” means; replace-one for ε and μ, add-remove for DP-SGD.",
        ),
    ] = None,
    target_advantage: Annotated[
        float | None, typer.Option(help="Inverse: largest TPR - FPR that you accept.")
    ] = None,
    target_tpr: Annotated[
        float | None, typer.Option(help="Inverse: largest TPR that you accept at --fpr.")
    ] = None,
    target_eta: Annotated[
        float | None, typer.Option(help="Inverse: largest η; 0.05 is “right 55 % of the time”.")
    ] = None,
    target_security: Annotated[float | None, typer.Option(help="Inverse: smallest MIS.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the ROC into this file (.png .svg .pdf .html).")
    ] = None,
    json_: JsonFlag = False,
) -> None:
    r"""Say what a DP guarantee means for somebody guessing membership.

    \b
    memberbound explain --epsilon 8 --delta 1e-5
    memberbound explain --gdp 1 --fpr 0.01 --fpr 0.001 --plot roc.png
    memberbound explain --noise-multiplier 1 --sample-rate 0.01 --steps 1000
    memberbound explain --target-advantage 0.1
    memberbound explain --target-tpr 0.05 --fpr 0.01 --sample-rate 0.01 --steps 1000
    """
    from memberbound.explanation import explain as explain_

    if plot is not None:
        from memberbound.report.roc import check_target

        check_target(plot)
    result = explain_(
        epsilon=epsilon,
        delta=delta,
        gdp=gdp,
        noise_multiplier=noise_multiplier,
        sample_rate=sample_rate,
        steps=steps,  # type: ignore[arg-type]  # checked to be whole, with a sentence
        nu=nu,
        lam=lam,
        prior=prior,
        fpr=fpr or None,
        adjacency=adjacency,  # type: ignore[arg-type]  # checked, with a sentence
        target_advantage=target_advantage,
        target_tpr=target_tpr,
        target_eta=target_eta,
        target_security=target_security,
    )
    if plot is not None:
        from memberbound.report.roc import save_roc

        typer.echo(f"wrote {save_roc(result, plot)}", err=True)
    _print(result, json_)


@app.command()
def theorems(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A result (A25-T14) or a paper (L24).")
    ] = None,
    json_: JsonFlag = False,
) -> None:
    r"""List every result of the five papers: what holds, what is wrong, what is implemented.

    Asking for a single erratum computes its counterexample.

    \b
    memberbound theorems
    memberbound theorems L24
    memberbound theorems I24-T8
    """
    from memberbound.ledger import theorems as theorems_

    _print(theorems_(id), json_)


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
