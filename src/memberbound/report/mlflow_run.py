"""Log a promise or a study to MLflow.

Readers of a tracking server are unknown, so public and owner-only entries are made from different
types.  Metrics are grouped by kind, so that no chart mixes upper bounds with lower ones.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memberbound.errors import InputError, MemberboundError
from memberbound.report import words
from memberbound.report.evidence import model_card
from memberbound.report.markdown import clean
from memberbound.report.model import Report
from memberbound.report.page import render
from memberbound.report.publication import Publication

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: Artifact folder of the files, and prefix of all names.
_FOLDER = "memberbound"
_GROUPS = {"certified": "upper", "estimated": "estimate", "measured": "lower"}
#: The smallest limits of the MLflow versions that the extra allows.
_NAME_LENGTH, _PARAMETER_LENGTH, _TAG_LENGTH = 250, 500, 5000
#: The password in an address.
_SECRET = re.compile(r"//[^/\s]+@")
#: Prefix of MLflow's own address of a run.
_RUN = "runs:/"


@dataclass(frozen=True)
class RunEntry:
    """Metrics, parameters, tags and lazily made files of a run."""

    run_name: str
    note: str
    metrics: Mapping[str, float]
    parameters: Mapping[str, str]
    tags: Mapping[str, str]
    files: Mapping[str, Callable[[], str]]


def published_entry(published: Publication, stated: Mapping[str, str] | None = None) -> RunEntry:
    """Return the public entry: the promise, the declared facts and the model card."""
    promise = published.promise
    record = promise.protects.replace(" ", "-")
    names = ("name", "rows", "columns", "target", "learner", "eta")
    return RunEntry(
        f"membership promise for {clean(published.name)}"[:_NAME_LENGTH],
        "The promise about membership; memberbound/MODEL_CARD.md has it in full.",
        {f"{_FOLDER}/certified/{promise.game}/{record}/accuracy_upper": promise.accuracy_upper},
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
        {f"{_FOLDER}/MODEL_CARD.md": lambda: model_card(published, stated)},
    )


def owner_entry(report: Report, stated: Mapping[str, str] | None = None) -> RunEntry:
    """Return the owner-only entry: all findings of a study."""
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
    if report.audit is not None:
        metrics["measured/model/exposed_records_lower"] = report.audit.records.exposed_records
    settings = asdict(report.question) | {"columns": None, "data_columns": len(data.columns)}
    settings |= {f"data_{name}": getattr(data, name) for name in ("name", "rows", "task", "sha256")}
    note = f"{words()['owner_only']}\n\n{clean(verdict.sentence)}\n\n{clean(verdict.advice)}"
    return RunEntry(
        f"membership study of {clean(data.name)}"[:_NAME_LENGTH],
        note[:_TAG_LENGTH],
        {f"{_FOLDER}/{name}": float(value) for name, value in metrics.items()},
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
            f"{_FOLDER}/report.html": lambda: render(report),
            f"{_FOLDER}/report.json": report.to_json,
        },
    )


def _sentences(texts: tuple[str, ...]) -> str:
    return " ".join(f"{text.removesuffix('.')}." for text in texts)


def _texts(values: Mapping[str, object], length: int = _PARAMETER_LENGTH) -> dict[str, str]:
    """Return values as texts of at most this length, by their names in a run."""
    texts = {f"{_FOLDER}.{name}": clean(v) for name, v in values.items() if v is not None}
    return {n: t if len(t) <= length else f"{t[: length - 1]}…" for n, t in texts.items()}


def log_entry(entry: RunEntry, destination: str | None = None) -> dict[str, object]:
    """Log an entry to the run ``runs:/ID``, else to the active run, else to a new one.

    Any other ``destination`` names the experiment of the new run.  MLflow's environment variables
    give the server and the default experiment.  Refuse a run that holds another entry's parameters.
    """
    if find_spec("mlflow") is None:
        raise InputError(
            "format 'mlflow' needs MLflow: install the extra mlflow, "
            "pip install 'memberbound[mlflow]'."
        )
    # MLflow sends telemetry unless this is set.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.exceptions import MlflowException

    try:
        return _log(entry, destination)
    except MlflowException as problem:
        bad = problem.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
        first = _SECRET.sub("//", str(problem).strip()).partition("\n")[0]
        sentence = f"MLflow refused the report: {first.split('. ')[0].rstrip('.')}."
        raise (InputError if bad else MemberboundError)(sentence) from problem


def _log(entry: RunEntry, destination: str | None) -> dict[str, object]:
    import mlflow
    from mlflow.entities import Metric, Param, RunTag

    client, active = mlflow.MlflowClient(), mlflow.active_run()
    run_id = os.environ.get("MLFLOW_RUN_ID") if active is None else active.info.run_id
    if destination is not None and destination.startswith(_RUN):
        run_id, destination = destination.removeprefix(_RUN).strip("/"), None
    if run_id is not None and destination is not None:
        raise InputError(
            f"out must be left out while a run is active, got {destination!r}. "
            "The report goes to that run."
        )
    if run_id is None:
        tags = {"mlflow.runName": entry.run_name, "mlflow.note.content": entry.note}
        run = client.create_run(_experiment_id(client, destination), tags=tags)
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
