"""The verb ``export``: for everybody a model card or an MLflow run, for the owner all of a report.

Formats for everybody are made from a :class:`~memberbound.report.publication.Publication`, those
for the owner of the rows from a :class:`~memberbound.report.model.Report`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from memberbound.answers import INTERNAL, Answer, OmitEmpty, computed
from memberbound.declarations import Force, Option, OutputFile
from memberbound.errors import InputError, one_of
from memberbound.files import check_output, write_text, written_whole
from memberbound.games import NeighbourGame, SubsetGame
from memberbound.report.model import Report, checked, read
from memberbound.report.prose import OWNER_ONLY
from memberbound.report.publication import Publication

__all__ = ["ENDINGS", "FORMATS", "PUBLISHED", "Export", "checked_report", "export"]

#: Format → endings of the file that it is written to; MLflow has a run instead.
ENDINGS: dict[str, tuple[str, ...]] = {
    "model-card": (".md", ".markdown"),
    "mlflow": (),
    "mlflow-owner": (),
    "pdf": (".pdf",),
    "decision": (".pdf",),
}
FORMATS = tuple(ENDINGS)
#: Formats for everybody; the others are for the owner of the rows.
PUBLISHED = ("model-card", "mlflow")
_CERTIFICATE = ".certificate.json"
#: Options that only some formats have a use for.
_OPTIONS = {
    "browser": ("pdf", "decision"),
    "run_id": ("mlflow", "mlflow-owner"),
    "experiment": ("mlflow", "mlflow-owner"),
    "tracking_uri": ("mlflow", "mlflow-owner"),
}
_NAMES = {
    "model-card": "model card section",
    "mlflow": "MLflow run",
    "mlflow-owner": "MLflow run for the owner",
    "pdf": "PDF",
    "decision": "decision, two pages to sign,",
}


@dataclass(frozen=True, eq=False, repr=False)
class Export(Answer):
    """What was exported and where it is: a file, or a run of MLflow."""

    VERB: ClassVar = "export"

    format: str
    exported: Report | Publication = field(metadata=INTERNAL)
    out: str | None = None
    pages: OmitEmpty[int | None] = None
    run_id: OmitEmpty[str | None] = None
    experiment_id: OmitEmpty[str | None] = None
    tracking_uri: OmitEmpty[str | None] = None
    metrics: OmitEmpty[int | None] = None
    files: OmitEmpty[list[str] | None] = None

    @cached_property
    def game(self) -> NeighbourGame | SubsetGame:
        """The game of what was exported."""
        what = self.exported
        return what.subset_game if isinstance(what, Report) else what.played

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """What the numbers rest on."""
        return self.exported.theorems

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """What they assume."""
        return self.exported.assumptions

    @computed
    def audience(self) -> Literal["public", "owner"]:
        """Whom what was exported is for."""
        return "public" if isinstance(self.exported, Publication) else "owner"

    @computed
    def status(self) -> str | None:
        """Whether each step of the study has an answer; nothing of that is published."""
        return self.exported.status if isinstance(self.exported, Report) else None

    @computed
    def report_version(self) -> str:
        """The version that made what was exported."""
        return self.exported.version

    def summary(self) -> str:
        """Return what was exported, and where to, as a short text."""
        what = self.exported
        if isinstance(what, Report):
            lines = [f"{_NAMES[self.format]} of a {what.status} study: {what.verdict.sentence}"]
            lines.append(OWNER_ONLY)
        else:
            of = "the release" if what.released else "the settings of a study of"
            lines = [
                f"{_NAMES[self.format]} about {of} {what.name}, for everybody: it holds nothing "
                "that was computed from the rows and not paid for."
            ]
        names = ("out", "pages", "run_id", "experiment_id", "tracking_uri", "metrics", "files")
        for name in names:
            value = getattr(self, name)
            if value is not None:
                shown = ", ".join(value) if isinstance(value, list) else value
                lines.append(f"{'file' if name == 'out' else name.replace('_', ' ')}: {shown}")
        return "\n".join(lines)


def export(
    report: Annotated[object, Option("file", metavar="REPORT")],
    *,
    format: Literal["model-card", "mlflow", "mlflow-owner", "pdf", "decision"],
    out: OutputFile | None = None,
    force: Force = False,
    browser: Annotated[str | os.PathLike[str], Option("file", metavar="PATH")] | None = None,
    run_id: Annotated[str, Option("text", metavar="ID")] | None = None,
    experiment: Annotated[str, Option("text", metavar="NAME")] | None = None,
    tracking_uri: Annotated[str, Option("text", metavar="URI")] | None = None,
) -> Export:
    """Export a model card or an MLflow run for everybody, or a whole report for its owner.

    A model card and ``mlflow`` are for everybody: they hold what a release's certificate says, or
    what the settings of a study promise, and nothing that was computed from the rows.  The other
    formats hold the whole report, and are for the owner of the rows.
    Numbers keep their kind: what is certified, estimated and measured is told apart in each format,
    and what is rounded for people is rounded so that it stays a bound.
    Edge cases: a partial report is exported and says that it is partial; a file is written whole or
    not at all; an option of another format is refused.

    Args:
        report: the file ``report.json``, its dictionary, or what ``study`` returned; for everybody
            also the certificate that ``protect`` wrote beside a release.
        format: for everybody ``model-card`` or ``mlflow``; for the owner ``mlflow-owner``, ``pdf``
            (the whole report) or ``decision`` (two pages to sign: verdict, chart, remedy, limit,
            assumptions).
        out: file to write (``.md``, ``.pdf``); not for MLflow.
        force: overwrite ``out``.
        browser: for ``pdf`` and ``decision``: path of Chromium, Chrome or Edge (default: found
            automatically).
        run_id: for MLflow: the run (default: the active run, or a new one).
        experiment: for MLflow: experiment for the new run.
        tracking_uri: for MLflow: server or store (default: as MLflow is configured).

    Command line:
        memberbound export model.skops.certificate.json --format model-card --out MODEL_CARD.md
        memberbound export report.json --format pdf --out report.pdf
        memberbound export report.json --format decision --out decision.pdf
        memberbound export report.json --format mlflow --experiment releases
    """
    one_of("format", format, FORMATS)
    options = {
        "browser": browser,
        "run_id": run_id,
        "experiment": experiment,
        "tracking_uri": tracking_uri,
    }
    for name, owners in _OPTIONS.items():
        if options[name] is not None and format not in owners:
            raise InputError(
                f"{name} must be left out with format {format!r}, got {str(options[name])!r}. "
                f"It is an option of format {owners[0]!r}."
            )
    if not ENDINGS[format]:
        if out is not None:
            raise InputError(
                f"out must be left out with format {format!r}, got {str(out)!r}. The report goes "
                "to a run; name it with run_id, or its experiment."
            )
        from memberbound.report.mlflow_log import log_entry, owner_entry, published_entry

        place = {"run_id": run_id, "experiment": experiment, "tracking_uri": tracking_uri}
        if format == "mlflow":
            published = published_of(report)
            return Export(format, published, **log_entry(published_entry(published), **place))
        content = checked_report(report)
        return Export(format, content, **log_entry(owner_entry(content), **place))
    if out is None:
        raise InputError(f"out must be given with format {format!r}: the file to write.")
    target = check_output(os.fspath(out), formats=ENDINGS[format], force=force)
    if format == "model-card":
        from memberbound.report.model_card import model_card

        published = published_of(report)
        write_text(model_card(published), target, force=force)
        return Export(format, published, str(out))
    from memberbound.report.pdf import find_browser, page_count, print_pdf

    program = find_browser(browser)
    content = checked_report(report)
    printed = print_pdf(content, decision=format == "decision", browser=program)
    written_whole(target, lambda draft: draft.write_bytes(printed), force)
    return Export(format, content, str(out), pages=page_count(printed))


def published_of(source: object) -> Publication:
    """Return what may be published: of a release by its certificate, else of a study."""
    if isinstance(source, (str, os.PathLike)) and str(source).endswith(_CERTIFICATE):
        from memberbound.release.saving import verified

        # The certificate of a file that was changed or exchanged is refused.
        return Publication.of_release(verified(Path(str(source).removesuffix(_CERTIFICATE))))
    return Publication.of_study(checked_report(source))


def checked_report(report: object) -> Report:
    """Return a checked report, from a file, a dictionary or a study."""
    if isinstance(report, (str, os.PathLike)):
        return read(report)
    # A study keeps its report; the class itself belongs to a stage above this one.
    content = getattr(report, "report", report)
    if isinstance(content, Report):
        return content
    if isinstance(content, Mapping):
        return checked(content)
    raise InputError(
        "report must be a file, the dictionary that it holds, or what study returned, got "
        f"{type(report).__name__}."
    )
