"""The verb ``export``: a study's report as a model card, an MLflow run, a PDF, or pages to sign."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from memberbound._version import __version__
from memberbound.declarations import Force, Option, OutputFile
from memberbound.errors import InputError, one_of
from memberbound.files import check_output, write_text, written_whole
from memberbound.quantities import Readable
from memberbound.report.model import Report, checked, read

__all__ = ["ENDINGS", "FORMATS", "Export", "checked_report", "export"]

#: Format → endings of the file that it is written to; MLflow has a run instead.
ENDINGS: dict[str, tuple[str, ...]] = {
    "model-card": (".md", ".markdown"),
    "mlflow": (),
    "pdf": (".pdf",),
    "decision": (".pdf",),
}
FORMATS = tuple(ENDINGS)
#: Options that only some formats have a use for.
_OPTIONS = {
    "browser": ("pdf", "decision"),
    "run_id": ("mlflow",),
    "experiment": ("mlflow",),
    "tracking_uri": ("mlflow",),
}
_NAMES = {
    "model-card": "model card section",
    "mlflow": "MLflow run",
    "pdf": "PDF",
    "decision": "decision, two pages to sign,",
}


@dataclass(frozen=True, eq=False, repr=False)
class Export(Readable):
    """What was exported and where it is; ``details`` depend on the format."""

    format: str
    report: Report = field(repr=False)
    out: str | None = None
    details: Mapping[str, str | int | list[str]] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        """Whether some step of the study has no answer."""
        return not self.report.complete

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields: the report's game, theorems and assumptions, and the place."""
        return {
            "command": "export",
            "version": __version__,
            "game": self.report.game,
            "protects": self.report.protects,
            "theorems": list(self.report.theorems),
            "assumptions": list(self.report.assumptions),
            "format": self.format,
            "out": self.out,
            "status": self.report.status,
            "report_version": self.report.version,
            **self.details,
        }

    def summary(self) -> str:
        """Return what was exported, and where to, as a short text."""
        kind = "partial" if self.partial else "complete"
        lines = [f"{_NAMES[self.format]} of a {kind} study: {self.report.verdict.sentence}"]
        if self.out is not None:
            lines.append(f"file: {self.out}")
        for name, value in self.details.items():
            shown = ", ".join(value) if isinstance(value, list) else value
            lines.append(f"{name.replace('_', ' ')}: {shown}")
        return "\n".join(lines)


def export(
    report: Annotated[object, Option("file", metavar="REPORT")],
    *,
    format: Literal["model-card", "mlflow", "pdf", "decision"],
    out: OutputFile | None = None,
    force: Force = False,
    browser: Annotated[str | os.PathLike[str], Option("file", metavar="PATH")] | None = None,
    run_id: Annotated[str, Option("text", metavar="ID")] | None = None,
    experiment: Annotated[str, Option("text", metavar="NAME")] | None = None,
    tracking_uri: Annotated[str, Option("text", metavar="URI")] | None = None,
) -> Export:
    """Export a report: model card, MLflow, PDF, or a two-page decision to sign.

    Numbers keep their kind: what is certified, estimated and measured is told apart in each format,
    and what is rounded for people is rounded so that it stays a bound.
    Edge cases: a partial report is exported and says that it is partial; a file is written whole or
    not at all; an option of another format is refused.

    Args:
        report: the file ``report.json``, its dictionary, or what ``study`` returned.
        format: ``model-card``, ``mlflow``, ``pdf`` (the whole report) or ``decision`` (two pages to
            sign: verdict, chart, remedy, limit, assumptions).
        out: file to write (``.md``, ``.pdf``); not for ``mlflow``.
        force: overwrite ``out``.
        browser: for ``pdf`` and ``decision``: path of Chromium, Chrome or Edge (default: found
            automatically).
        run_id: for ``mlflow``: the run (default: the active run, or a new one).
        experiment: for ``mlflow``: experiment for the new run.
        tracking_uri: for ``mlflow``: server or store (default: as MLflow is configured).

    Command line:
        memberbound export report.json --format model-card --out MODEL_CARD.md
        memberbound export report.json --format pdf --out report.pdf
        memberbound export report.json --format decision --out decision.pdf
        memberbound export report.json --format mlflow --experiment releases
    """
    one_of("format", format, FORMATS)
    given = {
        "browser": browser,
        "run_id": run_id,
        "experiment": experiment,
        "tracking_uri": tracking_uri,
    }
    for name, owners in _OPTIONS.items():
        if given[name] is not None and format not in owners:
            raise InputError(
                f"{name} must be left out with format {format!r}, got {str(given[name])!r}. "
                f"It is an option of format {owners[0]!r}."
            )
    if format == "mlflow":
        if out is not None:
            raise InputError(
                f"out must be left out with format 'mlflow', got {str(out)!r}. The report goes "
                "to a run; name it with run_id, or its experiment."
            )
        return _to_mlflow(checked_report(report), run_id, experiment, tracking_uri)
    if out is None:
        raise InputError(f"out must be given with format {format!r}: the file to write.")
    target = check_output(os.fspath(out), formats=ENDINGS[format], force=force)
    if format == "model-card":
        from memberbound.report.model_card import model_card

        held = checked_report(report)
        write_text(model_card(held), target, force=force)
        return Export(format, held, str(out))
    from memberbound.report.pdf import find_browser, page_count, print_pdf

    program = find_browser(browser)
    held = checked_report(report)
    printed = print_pdf(held, decision=format == "decision", browser=program)
    written_whole(target, lambda draft: draft.write_bytes(printed), force)
    return Export(format, held, str(out), {"pages": page_count(printed)})


def _to_mlflow(
    report: Report, run_id: str | None, experiment: str | None, tracking_uri: str | None
) -> Export:
    from memberbound.report.mlflow_log import log_report

    details = log_report(report, run_id=run_id, experiment=experiment, tracking_uri=tracking_uri)
    return Export("mlflow", report, None, details)


def checked_report(report: object) -> Report:
    """Return a checked report, from a file, a dictionary or a study."""
    if isinstance(report, (str, os.PathLike)):
        return read(report)
    # A study keeps its report; the class itself belongs to a stage above this one.
    held = getattr(report, "report", report)
    if isinstance(held, Report):
        return held
    if isinstance(held, Mapping):
        return checked(held)
    raise InputError(
        "report must be a file, the dictionary that it holds, or what study returned, got "
        f"{type(report).__name__}."
    )
