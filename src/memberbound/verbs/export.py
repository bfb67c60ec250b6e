"""The verb ``export``: write a release or a study in the formats of other tools, or to sign.

Public exports are made from a :class:`~memberbound.report.publication.Publication`, owner-only ones
from a :class:`~memberbound.report.model.Report`, and pages to sign from a
:class:`~memberbound.report.publication.Case`, which may hold both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from memberbound.answers import INTERNAL, Answer, OmitEmpty, computed
from memberbound.declarations import Force, InputFile, Option, OutputFile
from memberbound.errors import InputError, one_of
from memberbound.files import check_output, write_atomically
from memberbound.games import NeighbourGame, SubsetGame
from memberbound.leaves import load_leaf
from memberbound.report import words
from memberbound.report.decision import SIZES, describe_promise, dpia_annex, render_decision
from memberbound.report.model import Report
from memberbound.report.page import render
from memberbound.report.printing import find_browser, page_count, print_pdf
from memberbound.report.publication import Case, Publication

#: Readers of a format: the public, the owner of the rows, or the readers of its source.
Audience = Literal["public", "owner", "source"]


@dataclass(frozen=True)
class Format:
    """An export format: its name, readers, file endings and renderer.

    A format without endings goes to MLflow; one without a renderer is printed by a browser.
    """

    name: str
    audience: Audience
    endings: tuple[str, ...] = ()
    text: Callable[[Case], str] | None = None


def _card(case: Case) -> str:
    return str(load_leaf("evidence").model_card(case.published, case.statements(public=True)))


def _registry_entry(case: Case) -> str:
    return str(load_leaf("evidence").registry_entry(case.published, case.about))


def _cyclonedx(case: Case) -> str:
    return str(load_leaf("evidence").cyclonedx(case.published))


def _in_toto(case: Case) -> str:
    return str(load_leaf("evidence").in_toto(case))


def _sacro_record(case: Case) -> str:
    return str(load_leaf("evidence").sacro_record(case))


def _checklist(case: Case) -> str:
    return str(load_leaf("evidence").checklist(case))


EXPORT_FORMATS = {
    "model-card": Format(
        "model card section",
        "public",
        (".md", ".markdown"),
        _card,
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
        _registry_entry,
    ),
    "cyclonedx": Format(
        "CycloneDX document",
        "public",
        (".json",),
        _cyclonedx,
    ),
    "in-toto": Format("in-toto statement", "public", (".json",), _in_toto),
    "sacro": Format(
        "record for an output checker",
        "source",
        (".json",),
        _sacro_record,
    ),
    "checklist": Format("checklist", "source", (".md", ".markdown"), _checklist),
}


#: Endings of the formats on the web, which neither start a browser nor write to MLflow.
WEB_FORMATS = {
    name: kind.endings[-1] if name == "decision" else kind.endings[0]
    for name, kind in EXPORT_FORMATS.items()
    if name != "pdf" and kind.endings
}


@dataclass(frozen=True, eq=False, repr=False)
class Export(Answer):
    """The result of an export: its format, and the file or MLflow run that holds it."""

    VERB: ClassVar = "export"

    format: str
    exported: Report | Publication = field(metadata=INTERNAL)
    #: The guarantee, for an export about a release.
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
        """The game of the exported guarantee or study."""
        what = self.exported
        return what.subset_game if isinstance(what, Report) else what.game

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """Theorems behind the numbers."""
        what = self.exported
        return what.theorems if isinstance(what, Report) else what.promise.theorems

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions behind the numbers."""
        return self.exported.assumptions

    @computed
    def audience(self) -> Literal["public", "owner"]:
        """Readers of the export."""
        return "public" if isinstance(self.exported, Publication) else "owner"

    @computed
    def status(self) -> str | None:
        """Whether every step of the study has an answer (owner only)."""
        return self.exported.status if isinstance(self.exported, Report) else None

    @computed
    def report_version(self) -> str:
        """The version of memberbound that made the source."""
        return self.exported.version

    def summary(self) -> str:
        """Return a short text about the export and where it is."""
        what, name = self.exported, EXPORT_FORMATS[self.format].name
        if isinstance(what, Report):
            lines = [f"{name} of a {what.status} study: {self.promise or what.verdict.sentence}"]
            lines.append(words()["owner_only"])
        else:
            of = "the settings of a study of" if what.file is None else "the release"
            lines = [
                f"{name} about {of} {what.name}, safe to publish: each number "
                "in it is public or paid for."
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
    format: Annotated[
        Literal[
            "model-card",
            "decision",
            "dpia",
            "dp-registry",
            "cyclonedx",
            "in-toto",
            "sacro",
            "checklist",
            "pdf",
            "mlflow",
            "mlflow-owner",
        ],
        Option("choice", web_choices=tuple(WEB_FORMATS)),
    ],
    release: InputFile | None = None,
    about: InputFile | None = None,
    out: OutputFile | None = None,
    force: Force = False,
) -> Export:
    """Export a release or a study as a page to sign, a card, evidence or MLflow run.

    Public formats hold the certificate of a release, or the promise that a study's settings make,
    and nothing computed from the rows.  Exports of a study's report are for the owner of the rows.
    Every format distinguishes certified, estimated and measured numbers, and rounds bounds to the
    safe side.
    Edge cases: an export of a partial report is marked as partial; a file is written whole or not
    at all.

    Args:
        report: the certificate of a released file, or a study: ``report.json``, its dictionary, or
            the result of ``study``.
        format: to sign: ``decision`` (two pages) or ``dpia`` (annex of an impact assessment); for
            everybody ``model-card``, ``mlflow``, ``dp-registry``, ``cyclonedx`` or ``in-toto`` (to
            sign with cosign or GPG); for an output
            checker ``sacro``; for an auditor ``checklist``; for the owner ``pdf`` (the whole
            report) or ``mlflow-owner``.
        release: the released file that the study led to, next to its certificate; with a
            certificate that is not next to its file, that file.
        about: YAML file with further facts: purpose, controller, who chose the limit, …
        out: file to write; for MLflow a run (``runs:/ID``) or an experiment's name (default: the
            active run, or a new one).

    Command line:
        memberbound export model.json.certificate.json --format decision --out decision.pdf
        memberbound export report.json --release model.json --format decision --out decision.pdf
        memberbound export model.json.certificate.json --format model-card --out MODEL_CARD.md
        memberbound export report.json --format pdf --out report.pdf
    """
    chosen = EXPORT_FORMATS[one_of("format", format, tuple(EXPORT_FORMATS))]
    destination = None if out is None else os.fspath(out)
    if not chosen.endings:
        case = Case.of(report, release, about)
        exported = case.source_for(chosen.audience)
        runs = load_leaf("mlflow")
        if isinstance(exported, Publication):
            entry = runs.published_entry(exported, case.statements(public=True))
        else:
            entry = runs.owner_entry(exported, case.statements())
        return Export(format, exported, **runs.log_entry(entry, destination))
    if destination is None:
        raise InputError(f"out must be given with format {format!r}: the file to write.")
    target = check_output(destination, formats=chosen.endings, force=force)
    browser = find_browser() if target.suffix.lower() == ".pdf" else None
    case = Case.of(report, release, about)
    exported = case.source_for(chosen.audience)
    if browser is None:
        maker = chosen.text or render_decision
        content, pages = maker(case).encode("utf-8"), None
    else:
        content = (_print_decision if format == "decision" else _print_report)(case, browser)
        pages = page_count(content)
    private = not isinstance(exported, Publication)
    write_atomically(target, lambda draft: draft.write_bytes(content), force, private=private)
    # A record about a given model states measurements, not the guarantee of a remedy.
    about_release = chosen.audience == "source" and (format != "sacro" or case.file is not None)
    promise = describe_promise(case)[0] if about_release else None
    return Export(format, exported, promise, str(out), pages=pages)


def _print_report(case: Case, browser: str) -> bytes:
    least = 2 if case.studied.complete else 1
    return print_pdf(render(case.studied, stated=case.statements()), browser=browser, least=least)


def _print_decision(case: Case, browser: str) -> bytes:
    """Print the decision on two pages, in the largest font that fits."""
    for size in SIZES:
        content = print_pdf(render_decision(case, size), browser=browser, least=2)
        if page_count(content) == 2:
            return content
    name, text = case.about.longest
    raise InputError(
        f"about must be short enough for two pages, got {len(text)} characters in {name!r}."
    )
