"""``export``: a study's report for a model card, a tracking server or a printer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memberbound.cli.face import JsonFlag, app, show

__all__ = ["export"]


@app.command()
def export(  # noqa: PLR0917  # Typer reads options from positional parameters
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="report.json of a study.")],
    format: Annotated[
        str, typer.Option(metavar="model-card|mlflow|pdf", help="What to make of the report.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write: .md for a model card, .pdf for a PDF."),
    ] = None,
    browser: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="pdf: Chromium, Chrome or Edge, if not found by itself."),
    ] = None,
    run_id: Annotated[
        str | None, typer.Option(metavar="ID", help="mlflow: log to this run, not to a new one.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="mlflow: experiment of the new run.")
    ] = None,
    tracking_uri: Annotated[
        str | None, typer.Option(metavar="URI", help="mlflow: server or store; its own default.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite --out.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Turn the report of a study into a model card section, an MLflow run or a PDF.

    \b
    memberbound export report.json --format model-card --out MODEL_CARD.md
    memberbound export report.json --format pdf --out report.pdf
    memberbound export report.json --format mlflow --experiment releases
    """
    from memberbound.report.exporting import export as export_

    result = export_(
        report,
        format=format,
        out=out,
        force=force,
        browser=browser,
        run_id=run_id,
        experiment=experiment,
        tracking_uri=tracking_uri,
    )
    if out is not None:
        typer.echo(f"wrote {out}", err=True)
    show(result, json_)
