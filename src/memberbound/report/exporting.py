"""The verb ``export``: what a release or a study says, in the form that somebody else expects.

What everybody may see is made from a :class:`~memberbound.report.publication.Publication`, what is
for the owner of the rows from a :class:`~memberbound.report.model.Report`, and what is signed from
a :class:`~memberbound.report.publication.Case`, which may hold both.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from memberbound.answers import INTERNAL, Answer, OmitEmpty, computed
from memberbound.declarations import Force, InputFile, Option, OutputFile
from memberbound.errors import InputError, MemberboundError, one_of
from memberbound.files import check_output, written_whole
from memberbound.games import NeighbourGame, SubsetGame
from memberbound.report import words
from memberbound.report.documents import (
    SIZES,
    checklist,
    clean,
    cyclonedx,
    dpia_annex,
    model_card,
    promised,
    registry_entry,
    render_decision,
    sacro_record,
)
from memberbound.report.model import Report
from memberbound.report.page import find_browser, page_count, print_pdf, render
from memberbound.report.publication import Case, Publication

if TYPE_CHECKING:
    from mlflow import MlflowClient

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
        return what.subset_game if isinstance(what, Report) else what.game

    @cached_property
    def theorems(self) -> tuple[str, ...]:
        """What the numbers rest on."""
        what = self.exported
        return what.theorems if isinstance(what, Report) else what.promise.theorems

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
            lines.append(words()["owner_only"])
        else:
            of = "the settings of a study of" if what.file is None else "the release"
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

    Command line:
        memberbound export model.json.certificate.json --format decision --out decision.pdf
        memberbound export report.json --release model.json --format decision --out decision.pdf
        memberbound export model.json.certificate.json --format model-card --out MODEL_CARD.md
        memberbound export report.json --format pdf --out report.pdf
    """
    chosen = FORMATS[one_of("format", format, tuple(FORMATS))]
    place = None if out is None else os.fspath(out)
    if not chosen.endings:
        case = Case.of(report, release, about)
        exported = case.exported(chosen.audience)
        if isinstance(exported, Publication):
            entry = published_entry(exported, case.stated(public=True))
        else:
            entry = owner_entry(exported, case.stated())
        return Export(format, exported, **log_entry(entry, place))
    if place is None:
        raise InputError(f"out must be given with format {format!r}: the file to write.")
    target = check_output(place, formats=chosen.endings, force=force)
    browser = find_browser() if target.suffix.lower() == ".pdf" else None
    case = Case.of(report, release, about)
    exported = case.exported(chosen.audience)
    if browser is None:
        maker = chosen.text or render_decision
        content, pages = maker(case).encode("utf-8"), None
    else:
        content = (_print_decision if format == "decision" else _print_report)(case, browser)
        pages = page_count(content)
    written_whole(target, lambda draft: draft.write_bytes(content), force)
    # A record about a given model says what was measured of it, not what a remedy would promise.
    about_release = chosen.audience == "source" and (format != "sacro" or case.file is not None)
    promise = promised(case)[0] if about_release else None
    return Export(format, exported, promise, str(out), pages=pages)


def _print_report(case: Case, browser: str) -> bytes:
    least = 2 if case.studied.complete else 1
    return print_pdf(render(case.studied, stated=case.stated()), browser=browser, least=least)


def _print_decision(case: Case, browser: str) -> bytes:
    """Return the decision on two sheets, in the largest type with which it fits."""
    for size in SIZES:
        content = print_pdf(render_decision(case, size), browser=browser, least=2)
        if page_count(content) == 2:
            return content
    name, text = case.about.longest
    raise InputError(
        f"about must be short enough for two pages, got {len(text)} characters in {name!r}."
    )


# ── MLflow ────────────────────────────────────────────────────────────────────────────────────────
#
# Who can read a tracking server is not known here, so there are two kinds of entries, made from two
# types.  Metrics are grouped by kind, so that no chart shows a ceiling among floors.

#: Folder of the run's artifacts that holds the files, and what all names begin with.
_PLACE = "memberbound"
_GROUPS = {"certified": "upper", "estimated": "estimate", "measured": "lower"}
#: The smallest limits of the MLflow versions that the extra allows.
_NAME_LENGTH, _PARAMETER_LENGTH, _TAG_LENGTH = 250, 500, 5000
#: The password in an address.
_SECRET = re.compile(r"//[^/\s]+@")
#: What MLflow's own address of a run begins with.
_RUN = "runs:/"


@dataclass(frozen=True)
class Entry:
    """What a run gets: names with values, and files, which are made when they are needed."""

    run_name: str
    note: str
    metrics: Mapping[str, float]
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    files: Mapping[str, Callable[[], str]]


def published_entry(published: Publication, stated: Mapping[str, str] | None = None) -> Entry:
    """Return what everybody may see: the promise, what was declared, and the model card."""
    promise = published.promise
    record = promise.protects.replace(" ", "-")
    names = ("name", "rows", "columns", "target", "learner", "eta")
    return Entry(
        f"membership promise for {clean(published.name)}"[:_NAME_LENGTH],
        "What is promised about membership; memberbound/MODEL_CARD.md says it in full.",
        {f"{_PLACE}/certified/{promise.game}/{record}/accuracy_upper": promise.accuracy_upper},
        _texts({name: getattr(published, name) for name in names} | dict(stated or {})),
        _texts(
            {
                "audience": "public",
                "game": promise.game,
                "protects": promise.protects,
                "theorems": ", ".join(promise.theorems),
                "assumptions": _sentences(published.assumptions),
                "version": published.version,
            },
            _TAG_LENGTH,
        ),
        {f"{_PLACE}/MODEL_CARD.md": lambda: model_card(published, stated)},
    )


def owner_entry(report: Report, stated: Mapping[str, str] | None = None) -> Entry:
    """Return everything that a study found, which is for the owner of the rows only."""
    verdict, data = report.verdict, report.data
    metrics: dict[str, float] = {}
    for row in report.sandwich:
        for group, side in _GROUPS.items():
            value = getattr(row, f"accuracy_{side}")
            if value is not None:
                metrics[f"{group}/{row.subject}/{row.record}-record/accuracy_{side}"] = value
    for remedy in report.remedies:
        if remedy.score_after_estimate is not None:
            metrics[f"estimated/{remedy.id}/score_estimate"] = remedy.score_after_estimate
    audit = report.answer("audit")
    if audit is not None:
        metrics["measured/model/exposed_records_lower"] = audit["records"]["exposed_records"]
    settings = asdict(report.question) | {"columns": None, "data_columns": len(data.columns)}
    settings |= {f"data_{name}": getattr(data, name) for name in ("name", "rows", "task", "sha256")}
    note = f"{words()['owner_only']}\n\n{clean(verdict.sentence)}\n\n{clean(verdict.advice)}"
    return Entry(
        f"membership study of {clean(data.name)}"[:_NAME_LENGTH],
        note[:_TAG_LENGTH],
        {f"{_PLACE}/{name}": float(value) for name, value in metrics.items()},
        _texts(settings | dict(stated or {})),
        _texts(
            {
                "audience": "owner only",
                "level": verdict.level,
                "schema": report.schema,
                "status": report.status,
                "verdict": verdict.sentence,
                "advice": verdict.advice,
                "game": report.game,
                "protects": report.protects,
                "theorems": ", ".join(report.theorems),
                "assumptions": _sentences(report.assumptions),
                "version": report.version,
            },
            _TAG_LENGTH,
        ),
        {
            f"{_PLACE}/report.html": lambda: render(report),
            f"{_PLACE}/report.json": report.to_json,
        },
    )


def _sentences(texts: tuple[str, ...]) -> str:
    return " ".join(f"{text.removesuffix('.')}." for text in texts)


def _texts(values: Mapping[str, object], length: int = _PARAMETER_LENGTH) -> dict[str, str]:
    """Return values as texts of at most this length, with the names that they have in a run."""
    texts = {f"{_PLACE}.{name}": clean(v) for name, v in values.items() if v is not None}
    return {n: t if len(t) <= length else f"{t[: length - 1]}…" for n, t in texts.items()}


def log_entry(entry: Entry, place: str | None = None) -> dict[str, Any]:
    """Log an entry to the run ``runs:/ID``, else the active one, else a new one.

    Another ``place`` names the experiment of the new run; without one, and for the server, MLflow's
    environment variables count.  A run that holds the parameters of another entry is refused.
    """
    if find_spec("mlflow") is None:
        raise InputError(
            "format 'mlflow' needs MLflow: install the extra mlflow, "
            "pip install 'memberbound[mlflow]'."
        )
    # MLflow reports calls to its makers unless told otherwise.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.exceptions import MlflowException

    try:
        return _log(entry, place)
    except MlflowException as problem:
        bad = problem.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
        first = _SECRET.sub("//", str(problem).strip()).partition("\n")[0]
        sentence = f"MLflow refused the report: {first.split('. ')[0].rstrip('.')}."
        raise (InputError if bad else MemberboundError)(sentence) from problem


def _log(entry: Entry, place: str | None) -> dict[str, Any]:
    import mlflow
    from mlflow.entities import Metric, Param, RunTag

    client, active = mlflow.MlflowClient(), mlflow.active_run()
    run_id = os.environ.get("MLFLOW_RUN_ID") if active is None else active.info.run_id
    if place is not None and place.startswith(_RUN):
        run_id, place = place.removeprefix(_RUN).strip("/"), None
    if run_id is not None and place is not None:
        raise InputError(
            f"out must be left out while a run is active, got {place!r}. "
            "The report goes to that run."
        )
    if run_id is None:
        tags = {"mlflow.runName": entry.run_name, "mlflow.note.content": entry.note}
        run = client.create_run(_experiment_id(client, place), tags=tags)
    else:
        run = client.get_run(run_id)
        for name, value in entry.parameters.items():
            logged = run.data.params.get(name, value)
            if logged != value:
                raise InputError(
                    f"out must be a run without another study's report, got {run_id!r}, "
                    f"where {name} is {logged!r} and not {value!r}."
                )
    now = int(time.time() * 1000)
    try:
        client.log_batch(
            run.info.run_id,
            metrics=[Metric(name, value, now, 0) for name, value in entry.metrics.items()],
            params=[Param(name, str(value)) for name, value in entry.parameters.items()],
            tags=[RunTag(name, value) for name, value in entry.tags.items()],
        )
        for name, text in entry.files.items():
            client.log_text(run.info.run_id, text(), name)
    except BaseException:
        if run_id is None:
            client.set_terminated(run.info.run_id, status="FAILED")
        raise
    if run_id is None:
        client.set_terminated(run.info.run_id)
    return {
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
        "tracking_uri": _SECRET.sub("//", mlflow.get_tracking_uri()),
        "metrics": len(entry.metrics),
        "files": list(entry.files),
    }


def _experiment_id(client: MlflowClient, name: str | None) -> str:
    if name is None and (id := os.environ.get("MLFLOW_EXPERIMENT_ID")):
        return id
    name = name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if not name:
        return "0"
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)
