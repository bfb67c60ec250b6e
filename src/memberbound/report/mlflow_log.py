"""A study or a release beside the training run that it belongs to, in MLflow.

Who can read a tracking server is not known here, so there are two kinds of entries, made from two
types: :func:`published_entry` for everybody, and :func:`owner_entry`, which holds what was computed
from the rows and says that it is for their owner only.  Metrics are grouped by kind
(``memberbound/certified/…``, ``…/estimated/…``, ``…/measured/…``), so that no chart shows a ceiling
among floors.  MLflow's usage tracking is off while this module works, unless
``MLFLOW_DISABLE_TELEMETRY`` says otherwise.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError, MemberboundError
from memberbound.files import PrivateFolder
from memberbound.report import prose
from memberbound.report.model import Report, plain
from memberbound.report.model_card import clean, model_card
from memberbound.report.page import render
from memberbound.report.publication import Publication

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

__all__ = ["ARTIFACTS", "Entry", "log_entry", "owner_entry", "published_entry"]

#: Folder of the run's artifacts that holds the report.
ARTIFACTS = "memberbound"
_GROUPS = {"certificate": "certified", "estimate": "estimated", "audit": "measured"}
#: The smallest limits of the MLflow versions that the extra allows.
_PARAMETER_LENGTH, _TAG_LENGTH = 500, 5000
#: The password in an address.
_SECRET = re.compile(r"//[^/\s]+@")
#: What MLflow's own address of a run begins with.
_RUN = "runs:/"
#: Characters that the name of a metric cannot have.
_ODD = re.compile(r"[^\w.\- /]")


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
    """Return what everybody may see: promises, what was declared, and the model card."""
    metrics = {
        f"certified/{promise.game}/{promise.protects.replace(' ', '-')}/accuracy_upper": (
            promise.accuracy_upper
        )
        for promise in published.promises
    }
    names = ("name", "rows", "columns", "target", "learner", "eta")
    tags = {"audience": "public", "version": published.version}
    return Entry(
        f"membership promise for {clean(published.name)}",
        "What is promised about membership; memberbound/MODEL_CARD.md says it in full.",
        _metrics(metrics),
        _parameters({name: getattr(published, name) for name in names} | dict(stated or {})),
        _tags(tags, published),
        {"MODEL_CARD.md": lambda: model_card(published, stated)},
    )


def owner_entry(report: Report, stated: Mapping[str, str] | None = None) -> Entry:
    """Return everything that a study found, which is for the owner of the rows only."""
    verdict, data = report.verdict, report.data
    metrics: dict[str, float] = {}
    for row in report.sandwich:
        for number in row.numbers:
            place = f"{_GROUPS[number.kind]}/{row.subject}/{row.record}-record"
            metrics[f"{place}/accuracy_{number.side}"] = number.value
    for subject, estimate in report.scores.items():
        metrics[f"estimated/{subject}/score_estimate"] = estimate
    for entry in report.exposure:
        exposed = entry.records.exposed_records
        metrics[f"measured/{entry.subject}/exposed_records_lower"] = exposed
    settings = plain(report.question)
    del settings["columns"]
    settings |= {f"data_{name}": getattr(data, name) for name in ("name", "rows", "task", "sha256")}
    settings |= {"data_columns": len(data.columns)} | dict(stated or {})
    tags = {name: str(getattr(report, name)) for name in ("version", "schema", "status")}
    tags |= {"level": verdict.level, "verdict": verdict.sentence, "advice": verdict.advice}
    return Entry(
        f"membership study of {clean(data.name)}",
        f"{prose.OWNER_ONLY}\n\n{clean(verdict.sentence)}\n\n{clean(verdict.advice)}",
        _metrics(metrics),
        _parameters(settings),
        _tags(tags | {"audience": "owner only"}, report),
        {"report.html": lambda: render(report), "report.json": report.to_json},
    )


def _metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    return {
        f"{ARTIFACTS}/{_ODD.sub('_', name)}": float(value)
        for name, value in metrics.items()
        if math.isfinite(value)
    }


def _parameters(settings: Mapping[str, object]) -> dict[str, str]:
    """Return parameters as MLflow takes them; settings without a value are left out."""
    return {
        f"{ARTIFACTS}.{name}": _cut(value, _PARAMETER_LENGTH)
        for name, value in settings.items()
        if value is not None
    }


def _tags(tags: Mapping[str, str], source: Report | Publication) -> dict[str, str]:
    """Return tags as MLflow takes them, with what the numbers rest on."""
    sentences = (text if text.endswith(".") else f"{text}." for text in source.assumptions)
    common = {
        "game": source.game,
        "protects": source.protects,
        "theorems": ", ".join(source.theorems),
        "assumptions": " ".join(sentences),
    }
    return {
        f"{ARTIFACTS}.{name}": _cut(value, _TAG_LENGTH)
        for name, value in {**tags, **common}.items()
    }


def _cut(value: object, length: int) -> str:
    text = clean(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


# ── Writing an entry ──────────────────────────────────────────────────────────────────────────────


def log_entry(entry: Entry, place: str | None = None) -> dict[str, Any]:
    """Log an entry to the run ``runs:/ID``, else the active one, else a new one.

    Another ``place`` names the experiment of the new run; without one, and for the server, MLflow's
    environment variables count.  A run that already holds the parameters of another entry is
    refused before anything is logged.
    """
    if find_spec("mlflow") is None:
        raise InputError(
            "format 'mlflow' needs MLflow: install the extra mlflow, "
            "pip install 'memberbound[mlflow]'."
        )
    run_id = experiment = None
    if place is not None and place.startswith(_RUN):
        run_id = place.removeprefix(_RUN).strip("/")
    else:
        experiment = place
    with _no_telemetry(), PrivateFolder() as folder:
        from mlflow.exceptions import MlflowException

        # The files are made before the run, so that a failure leaves no empty run behind.
        files = []
        for name, text in entry.files.items():
            files.append(folder / name)
            files[-1].write_text(text(), encoding="utf-8")
        try:
            return _log(entry, files, run_id, experiment)
        except MlflowException as problem:
            raise MemberboundError(f"MLflow refused the report: {_first(problem)}") from problem


def _log(
    entry: Entry, files: list[Path], run_id: str | None, experiment: str | None
) -> dict[str, Any]:
    import mlflow

    place = mlflow.get_tracking_uri()
    client, active = _client(place), mlflow.active_run()
    if run_id is None:
        run_id = os.environ.get("MLFLOW_RUN_ID") if active is None else active.info.run_id
    if run_id is not None and experiment is not None:
        raise InputError(
            f"out must be left out while a run is active, got {experiment!r}. "
            "The report goes to that run."
        )
    if run_id is None:
        tags = {
            "mlflow.runName": entry.run_name[:250],
            "mlflow.note.content": entry.note[:_TAG_LENGTH],
        }
        run = client.create_run(_experiment_id(client, experiment), tags=tags)
        try:
            _fill(client, run, entry, files)
        except BaseException:
            client.set_terminated(run.info.run_id, status="FAILED")
            raise
        client.set_terminated(run.info.run_id)
    else:
        run = _existing_run(client, run_id, entry, place)
        _fill(client, run, entry, files)
    return {
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
        "tracking_uri": _shown(place),
        "metrics": len(entry.metrics),
        "files": [f"{ARTIFACTS}/{file.name}" for file in files],
    }


def _fill(client: MlflowClient, run: Run, entry: Entry, files: list[Path]) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    for file in files:
        client.log_artifact(run.info.run_id, str(file), ARTIFACTS)
    client.log_batch(
        run.info.run_id,
        metrics=[Metric(name, value, now, 0) for name, value in entry.metrics.items()],
        params=[Param(name, value) for name, value in entry.parameters.items()],
        tags=[RunTag(name, value) for name, value in entry.tags.items()],
    )


def _client(place: str) -> MlflowClient:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        return MlflowClient(tracking_uri=place)
    except MlflowException as problem:
        remedy = (
            "Name a tracking server (http://…), set MLFLOW_ALLOW_FILE_STORE=true for a folder, or "
            "install mlflow instead of mlflow-skinny for a database."
        )
        raise InputError(
            "MLFLOW_TRACKING_URI must be a place that this MLflow can write to, got "
            f"{_shown(place)!r}: {_first(problem)} {remedy}"
        ) from problem


def _existing_run(client: MlflowClient, run_id: str, entry: Entry, place: str) -> Run:
    """Return a run, unless it has other parameters: MLflow refuses those after half of the work."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException as problem:
        if problem.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
        raise InputError(f"out must be a run at {_shown(place)}, got {run_id!r}.") from problem
    for name, value in entry.parameters.items():
        logged = run.data.params.get(name, value)
        if logged != value:
            raise InputError(
                f"out must be a run without another study's report, got {run_id!r}, "
                f"where {name} is {logged!r} and not {value!r}."
            )
    return run


def _experiment_id(client: MlflowClient, name: str | None) -> str:
    if name is None and (id := os.environ.get("MLFLOW_EXPERIMENT_ID")):
        return id
    name = name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if not name:
        return "0"
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name))
    if experiment.lifecycle_stage != "active":
        raise InputError(f"out must be no deleted experiment, got {name!r}. Restore it first.")
    return str(experiment.experiment_id)


@contextmanager
def _no_telemetry() -> Iterator[None]:
    """Keep MLflow from reporting these calls to its makers; the caller's own setting goes first."""
    name = "MLFLOW_DISABLE_TELEMETRY"
    if name in os.environ:
        yield
        return
    os.environ[name] = "true"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _shown(place: str) -> str:
    """Return an address, or a text with one, without the password that it may hold.

    >>> _shown("https://me:secret@tracking.example:5000/x")
    'https://tracking.example:5000/x'
    """
    return _SECRET.sub("//", place)


def _first(problem: Exception) -> str:
    lines = _shown(str(problem).strip()).splitlines()
    return lines[0].split(". ")[0].rstrip(".") + "." if lines else type(problem).__name__
