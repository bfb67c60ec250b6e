"""The verb ``export``: what a release or a study says, in the form that somebody else expects.

What everybody may see is made from a :class:`~memberbound.report.publication.Publication`, what is
for the owner of the rows from a :class:`~memberbound.report.model.Report`, and what is signed from
a :class:`~memberbound.report.decision.Case`, which may hold both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from memberbound.answers import INTERNAL, Answer, OmitEmpty, computed
from memberbound.declarations import Force, InputFile, Option, OutputFile
from memberbound.errors import InputError, one_of
from memberbound.files import check_output, written_whole
from memberbound.games import NeighbourGame, SubsetGame
from memberbound.report.decision import (
    SIZES,
    About,
    Case,
    dpia_annex,
    promised,
    render_decision,
)
from memberbound.report.evidence_files import checklist, cyclonedx, registry_entry, sacro_record
from memberbound.report.model import Report, checked, read
from memberbound.report.model_card import model_card
from memberbound.report.prose import OWNER_ONLY
from memberbound.report.publication import Publication

__all__ = ["FORMATS", "Export", "Format", "case_of", "checked_report", "export"]

_CERTIFICATE = ".certificate.json"
#: Whom a format is for: everybody, the owner of the rows, or whoever may see what it is made from.
Audience = Literal["public", "owner", "source"]


@dataclass(frozen=True)
class Format:
    """What is exported: its name, whom it is for, the endings of its file and what makes it.

    Without endings it goes to a run of MLflow, and without a maker it is printed by a browser.
    """

    name: str
    audience: Audience
    endings: tuple[str, ...] = ()
    text: Callable[[Case], str] | None = None


FORMATS = {
    "model-card": Format(
        "model card section",
        "public",
        (".md", ".markdown"),
        lambda case: model_card(case.published, case.stated(public=True)),
    ),
    "mlflow": Format("MLflow run", "public"),
    "mlflow-owner": Format("MLflow run for the owner", "owner"),
    "pdf": Format("PDF", "owner", (".pdf",)),
    "decision": Format("decision, two pages to sign,", "source", (".pdf", ".html")),
    "dpia": Format("annex of an impact assessment", "source", (".md", ".markdown"), dpia_annex),
    "dp-registry": Format(
        "entry of a registry of deployments",
        "public",
        (".yaml", ".yml"),
        lambda case: registry_entry(case.published, case.about),
    ),
    "cyclonedx": Format(
        "CycloneDX document", "public", (".json",), lambda case: cyclonedx(case.published)
    ),
    "sacro": Format("record for an output checker", "source", (".json",), sacro_record),
    "checklist": Format("checklist", "source", (".md", ".markdown"), checklist),
}


@dataclass(frozen=True, eq=False, repr=False)
class Export(Answer):
    """What was exported and where it is: a file, or a run of MLflow."""

    VERB: ClassVar = "export"

    format: str
    exported: Report | Publication = field(metadata=INTERNAL)
    #: What is promised, where it is about a release and not about what a study found.
    promise: str | None = field(default=None, metadata=INTERNAL)
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
        what, name = self.exported, FORMATS[self.format].name
        if isinstance(what, Report):
            lines = [f"{name} of a {what.status} study: {self.promise or what.verdict.sentence}"]
            lines.append(OWNER_ONLY)
        else:
            of = "the release" if what.released else "the settings of a study of"
            lines = [
                f"{name} about {of} {what.name}, for everybody: it holds nothing "
                "that was computed from the rows and not paid for."
            ]
        keys = ("out", "pages", "run_id", "experiment_id", "tracking_uri", "metrics", "files")
        for key in keys:
            value = getattr(self, key)
            if value is not None:
                shown = ", ".join(value) if isinstance(value, list) else value
                lines.append(f"{'file' if key == 'out' else key.replace('_', ' ')}: {shown}")
        return "\n".join(lines)


def export(
    report: Annotated[object, Option("file", metavar="REPORT")],
    *,
    format: Literal[
        "model-card",
        "decision",
        "dpia",
        "dp-registry",
        "cyclonedx",
        "sacro",
        "checklist",
        "pdf",
        "mlflow",
        "mlflow-owner",
    ],
    release: InputFile | None = None,
    about: InputFile | None = None,
    out: OutputFile | None = None,
    force: Force = False,
) -> Export:
    """Export what a release or a study says as a page to sign, a card, evidence or a run.

    Formats for everybody hold what a release's certificate says, or what the settings of a study
    promise, and nothing that was computed from the rows.  What is made from a study's report is for
    the owner of the rows.
    Numbers keep their kind: what is certified, estimated and measured is told apart in each format,
    and what is rounded for people is rounded so that it stays a bound.
    Edge cases: a partial report is exported and says that it is partial; a file is written whole or
    not at all.

    Args:
        report: the certificate that lies beside a released file, or a study: ``report.json``, its
            dictionary, or what ``study`` returned.
        format: to sign: ``decision`` (two pages) or ``dpia`` (annex of an impact assessment); for
            everybody ``model-card``, ``mlflow``, ``dp-registry`` or ``cyclonedx``; for an output
            checker ``sacro``; for an auditor ``checklist``; for the owner ``pdf`` (the whole
            report) or ``mlflow-owner``.
        release: the released file that the study led to, with its certificate beside it.
        about: YAML file with what only you know: purpose, controller, who chose the limit, …
        out: file to write; for MLflow a run (``runs:/ID``) or an experiment's name (default: the
            active run, or a new one).
        force: overwrite ``out``.

    Command line:
        memberbound export model.json.certificate.json --format decision --out decision.pdf
        memberbound export report.json --release model.json --format decision --out decision.pdf
        memberbound export model.json.certificate.json --format model-card --out MODEL_CARD.md
        memberbound export report.json --format pdf --out report.pdf
    """
    chosen = FORMATS[one_of("format", format, tuple(FORMATS))]
    if not chosen.endings:
        return _logged(format, report, release, about, out)
    if out is None:
        raise InputError(f"out must be given with format {format!r}: the file to write.")
    target = check_output(os.fspath(out), formats=chosen.endings, force=force)
    browser = _browser() if target.suffix.lower() == ".pdf" else None
    case = case_of(report, release, about)
    exported = case.exported(chosen.audience)
    if browser is None:
        maker = render_decision if chosen.text is None else chosen.text
        content, pages = maker(case).encode("utf-8"), None
    else:
        from memberbound.report.page import render
        from memberbound.report.pdf import page_count, print_pdf

        if format == "decision":
            for size in SIZES:
                content = print_pdf(render_decision(case, size), browser=browser, least=2)
                if page_count(content) == 2:
                    break
            else:
                name, text = case.about.longest
                raise InputError(
                    f"about must be short enough for two pages, got {len(text)} characters in "
                    f"{name!r}."
                )
        else:
            page = render(case.studied, stated=case.stated())
            content = print_pdf(page, browser=browser, least=2 if case.studied.complete else 1)
        pages = page_count(content)
    written_whole(target, lambda draft: draft.write_bytes(content), force)
    # A record about a given model says what was measured of it, not what a remedy would promise.
    about_release = chosen.audience == "source" and (format != "sacro" or case.file is not None)
    promise = promised(case)[0] if about_release else None
    return Export(format, exported, promise, str(out), pages=pages)


def _browser() -> str:
    from memberbound.report.pdf import find_browser

    return find_browser()


def _logged(
    format: str,
    report: object,
    release: object,
    about: object,
    out: str | os.PathLike[str] | None,
) -> Export:
    """Log to the run or the experiment that ``out`` names."""
    from memberbound.report.mlflow_log import log_entry, owner_entry, published_entry

    case = case_of(report, release, about)
    exported = case.exported(FORMATS[format].audience)
    if isinstance(exported, Publication):
        entry = published_entry(exported, case.stated(public=True))
    else:
        entry = owner_entry(exported, case.stated())
    return Export(format, exported, **log_entry(entry, None if out is None else os.fspath(out)))


def case_of(report: object, release: object = None, about: object = None) -> Case:
    """Return what is exported: a release by its certificate, a study, or a study and its release.

    A certificate is refused where its file was changed or exchanged.
    """
    stated = About.read(about)  # type: ignore[arg-type]  # a path
    if isinstance(report, (str, os.PathLike)) and str(report).endswith(_CERTIFICATE):
        if release is not None:
            raise InputError(
                f"release must be left out with a certificate, got {str(release)!r}. The "
                "certificate is that of its own file."
            )
        return Case.of(release=_certified(str(report).removesuffix(_CERTIFICATE)), about=stated)
    study = checked_report(report)
    if release is None:
        return Case.of(report=study, about=stated)
    if not isinstance(release, (str, os.PathLike)):
        raise InputError(f"release must be a file, got {type(release).__name__}.")
    if Path(f"{os.fspath(release)}{_CERTIFICATE}").is_file():
        return Case.of(report=study, release=_certified(os.fspath(release)), about=stated)
    return Case.of(report=study, about=stated, uncertified=release)


def _certified(path: str) -> Publication:
    from memberbound.release.saving import verified

    return Publication.of_release(verified(Path(path)))


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
