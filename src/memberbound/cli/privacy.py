"""``explain``: DP parameters in, attack bounds out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, show

__all__ = ["explain"]


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
    """Say what a DP guarantee means for somebody guessing membership.

    \b
    memberbound explain --epsilon 8 --delta 1e-5
    memberbound explain --gdp 1 --fpr 0.01 --fpr 0.001 --plot roc.png
    memberbound explain --noise-multiplier 1 --sample-rate 0.01 --steps 1000
    memberbound explain --target-advantage 0.1
    memberbound explain --target-tpr 0.05 --fpr 0.01 --sample-rate 0.01 --steps 1000
    """
    from memberbound.explanation import explain as explain_

    if plot is not None:
        from memberbound.report.figure import check_target

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
    show(result, json_)
