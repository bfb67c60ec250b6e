"""The verb ``export``: what a release or a study says, in the form that somebody else expects.

What everybody may see is made from a :class:`~memberbound.report.publication.Publication`, what is
for the owner of the rows from a :class:`~memberbound.report.model.Report`, and what is signed from
a :class:`~memberbound.report.decision.Case`, which may hold both.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from memberbound.answers import INTERNAL, Answer, OmitEmpty, computed
from memberbound.declarations import Force, InputFile, Option, OutputFile
from memberbound.errors import InputError, MemberboundError, one_of
from memberbound.files import PrivateFolder, check_output, written_whole
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
from memberbound.report.prose import OWNER_ONLY
from memberbound.report.publication import Publication, model_card

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
    browser = find_browser() if target.suffix.lower() == ".pdf" else None
    case = case_of(report, release, about)
    exported = case.exported(chosen.audience)
    if browser is None:
        maker = render_decision if chosen.text is None else chosen.text
        content, pages = maker(case).encode("utf-8"), None
    else:
        from memberbound.report.page import render

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


# ── PDF, through the print of a browser that is there already ─────────────────────────────────────
#
# The page is rendered into a private folder and printed by a headless Chromium, Chrome or Edge with
# a profile of its own, which is thrown away, and without a network.

#: Commands of Debian, Fedora, the makers' packages and Windows.
_COMMANDS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "microsoft-edge-stable",
    "msedge",
)
#: Where macOS and Windows keep browsers that are on no search path.
_PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
    r"%ProgramFiles(x86)%\Microsoft\Edge\Application\msedge.exe",
)
_QUIET = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # containers give it little room
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pdf-header-footer",
    # The report needs no network; nothing that it holds is to reach one.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
#: Milliseconds of the page's own clock for its figures; it runs as fast as the work allows.
_DRAWING = 30_000
_SECONDS = 180.0
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def find_browser(path: str | os.PathLike[str] | None = None) -> str:
    """Return the browser to print with: the one named, there or in CHROME_BIN, or the first."""
    path = path or os.environ.get("CHROME_BIN")
    if path is not None:
        program = shutil.which(str(path))
        if program is None:
            raise InputError(f"CHROME_BIN must be a program that can be run, got {str(path)!r}.")
        return program
    places = (os.path.expandvars(place) for place in _PLACES)
    for candidate in (*_COMMANDS, *places):
        program = shutil.which(candidate)
        if program is not None:
            return program
    raise InputError(
        "a PDF needs Chromium, Chrome or Edge, and none was found. Install one (on Debian: apt-get "
        "install chromium), name it in the variable CHROME_BIN, or print the page from any browser."
    )


def print_pdf(
    page: str,
    *,
    browser: str | os.PathLike[str] | None = None,
    least: int = 1,
    seconds: float = _SECONDS,
) -> bytes:
    """Return a page as PDF; fewer sheets than it must have are taken for a failure.

    Args:
        page: the HTML, which needs nothing else.
        browser: the program; searched for unless given.
        least: number of sheets at least.
        seconds: time limit.
    """
    program = find_browser(browser)
    with PrivateFolder() as folder:
        source, target = folder / "report.html", folder / "report.pdf"
        source.write_text(page, encoding="utf-8")
        _run([program, *_flags(folder, target), source.as_uri()], folder, seconds)
        printed = target.read_bytes() if target.is_file() else b""
    if not printed.startswith(b"%PDF-") or b"%%EOF" not in printed[-1024:]:
        raise MemberboundError(
            f"{program} printed no PDF. Where its sandbox is not allowed, as in some containers, "
            "print report.html from another browser."
        )
    if page_count(printed) < least:
        raise MemberboundError(f"{program} printed {page_count(printed)} pages, too few.")
    return printed


def page_count(printed: bytes) -> int:
    """Return the number of pages of a PDF as browsers write it, with plain page objects."""
    return len(_PAGE.findall(printed))


def _flags(folder: Path, target: Path) -> list[str]:
    flags = [
        *_QUIET,
        f"--user-data-dir={folder / 'profile'}",
        f"--virtual-time-budget={_DRAWING}",
        f"--print-to-pdf={target}",
    ]
    # Chromium refuses to run as root with its sandbox, and only then it may be left out.
    if sys.platform != "win32" and os.geteuid() == 0:
        flags.append("--no-sandbox")
    return flags


def _run(command: list[str], folder: Path, seconds: float) -> None:
    """Run the browser to its end or to the time limit, with all the processes that it starts."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            code = process.wait(timeout=seconds)
        except BaseException as problem:
            _end(process)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise MemberboundError(
                    f"{command[0]} did not print within {seconds:g} seconds."
                ) from None
            raise
    if code != 0:
        raise MemberboundError(f"{command[0]} ended with code {code} and printed nothing.")


def _end(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        # The session is the browser's own, so this ends its helpers and nobody else.
        os.killpg(process.pid, signal.SIGKILL)
