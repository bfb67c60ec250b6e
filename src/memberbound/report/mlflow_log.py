"""A study or a release beside the training run that it belongs to, in MLflow.

Who can read a tracking server is not known here, so there are two kinds of entries, made from two
types: :func:`published_entry` for everybody, and :func:`owner_entry`, which holds what was computed
from the rows.  Metrics are grouped by kind (``memberbound/certified/…``, ``…/estimated/…``,
``…/measured/…``), so that no chart shows a ceiling among floors.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from memberbound.errors import InputError, MemberboundError
from memberbound.report import prose
from memberbound.report.model import Report, plain
from memberbound.report.page import render
from memberbound.report.publication import Publication, clean, model_card

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: Folder of the run's artifacts that holds the files, and what all names begin with.
_PLACE = "memberbound"
_GROUPS = {"certificate": "certified", "estimate": "estimated", "audit": "measured"}
#: The smallest limits of the MLflow versions that the extra allows.
_PARAMETER_LENGTH, _TAG_LENGTH = 500, 5000
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
    parameters: Mapping[str, object]
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
    settings = {name: getattr(published, name) for name in names} | dict(stated or {})
    entry = Entry(
        f"membership promise for {clean(published.name)}",
        "What is promised about membership; memberbound/MODEL_CARD.md says it in full.",
        metrics,
        settings,
        {"audience": "public"},
        {"MODEL_CARD.md": lambda: model_card(published, stated)},
    )
    return _fitted(entry, published)


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
    for item in report.exposure:
        exposed = report.records_of(item.subject)["exposed_records"]
        metrics[f"measured/{item.subject}/exposed_records_lower"] = exposed
    settings = plain(report.question) | {"columns": None, "data_columns": len(data.columns)}
    settings |= {f"data_{name}": getattr(data, name) for name in ("name", "rows", "task", "sha256")}
    tags = {"audience": "owner only", "level": verdict.level, "schema": report.schema}
    tags |= {"status": report.status, "verdict": verdict.sentence, "advice": verdict.advice}
    entry = Entry(
        f"membership study of {clean(data.name)}",
        f"{prose.OWNER_ONLY}\n\n{clean(verdict.sentence)}\n\n{clean(verdict.advice)}",
        metrics,
        settings | dict(stated or {}),
        tags,
        {"report.html": lambda: render(report), "report.json": report.to_json},
    )
    return _fitted(entry, report)


def _fitted(entry: Entry, source: Report | Publication) -> Entry:
    """Return an entry with names and lengths that MLflow takes, and what the numbers rest on."""
    tags = dict(entry.tags) | {
        "version": source.version,
        "game": source.game,
        "protects": source.protects,
        "theorems": ", ".join(source.theorems),
        "assumptions": " ".join(f"{text.removesuffix('.')}." for text in source.assumptions),
    }
    return Entry(
        entry.run_name[:250],
        entry.note[:_TAG_LENGTH],
        {f"{_PLACE}/{name}": float(value) for name, value in entry.metrics.items()},
        {
            f"{_PLACE}.{name}": _cut(value, _PARAMETER_LENGTH)
            for name, value in entry.parameters.items()
            if value is not None
        },
        {f"{_PLACE}.{name}": _cut(text, _TAG_LENGTH) for name, text in tags.items()},
        {f"{_PLACE}/{name}": text for name, text in entry.files.items()},
    )


def _cut(value: object, length: int) -> str:
    text = clean(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


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
