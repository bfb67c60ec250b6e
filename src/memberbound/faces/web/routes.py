"""The endpoints: each is a thin face of a verb of the contract."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.requests import ClientDisconnect

from memberbound._version import __version__
from memberbound.faces.command_line import verb_named
from memberbound.faces.requests import described, equivalent
from memberbound.faces.web.desk import Desk
from memberbound.faces.web.gate import view_policy
from memberbound.faces.web.models import (
    Accepted,
    Argument,
    Equivalents,
    Error,
    ExplainOptions,
    Health,
    JobList,
    JobRequest,
    JobStatus,
    LawOptions,
    Roc,
    UploadedFile,
    View,
)
from memberbound.faces.web.refusals import RefusedError
from memberbound.faces.web.uploads import shown_name

__all__ = ["REFUSALS", "VERBS", "router"]

VERBS = ("explain", "plan", "certify", "harden", "population", "audit", "protect", "study")

_REASONS = {
    400: "The request is no JSON document.",
    401: "The token is missing or wrong.",
    403: "The request was started by a foreign page, or the Host header names another server.",
    404: "There is no such thing, or it is no longer kept.",
    408: "The upload stopped.",
    413: "The request is too large.",
    422: "The input cannot be used; the sentence says what would be right.",
    429: "Too much is waiting already.",
}
#: Every refusal has the same form.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": reason} for status, reason in _REASONS.items()
}
#: The same for answers that are no JSON, where FastAPI would describe the refusals as such too.
_PLAIN: dict[int | str, dict[str, Any]] = {
    status: {
        "description": reason,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for status, reason in _REASONS.items()
}
_CONTRACT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The dictionary of the contract, exactly as `--json` prints it."}
}

router = APIRouter(prefix="/api")


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
Id = Annotated[str, Path(min_length=1, max_length=64)]


@router.get("/health", response_model=Health)
async def health(desk: AtDesk) -> dict[str, Any]:
    """Return the version, the limits and the verbs of this server."""
    return {"version": __version__, "limits": desk.limits.to_dict(), "verbs": list(VERBS)}


@router.get("/verbs", response_model=dict[str, list[Argument]])
async def verbs() -> dict[str, list[dict[str, Any]]]:
    """Return what may be asked of each verb: the arguments' names, kinds, help and limits."""
    return {name: described(verb_named(name)) for name in VERBS}


@router.post("/explain", responses=_CONTRACT)
async def explain(desk: AtDesk, request: Request, options: ExplainOptions) -> dict[str, Any]:
    """Say what a DP guarantee means for membership, or find the parameter a promise allows."""
    return await desk.calculations.ask("explain", options.given(), request.is_disconnected)


@router.post("/explain/roc", response_model=Roc)
async def explain_roc(desk: AtDesk, request: Request, options: ExplainOptions) -> dict[str, Any]:
    """Return the certified ceiling of the ROC, from above, for linear and log-log plots."""
    return await desk.calculations.ask("roc", options.given(), request.is_disconnected)


@router.post("/explain/equivalents", response_model=Equivalents)
async def explain_equivalents(options: ExplainOptions) -> dict[str, str]:
    """Return the same question on the command line and in Python."""
    return vars(equivalent(verb_named("explain"), None, options.given()))


@router.post("/plan", responses=_CONTRACT)
async def plan(desk: AtDesk, request: Request, options: LawOptions) -> dict[str, Any]:
    """Say how many rows are enough, for a known law; for a file, start a job."""
    return await desk.calculations.ask("plan", options.given(), request.is_disconnected)


@router.post("/plan/equivalents", response_model=Equivalents)
async def plan_equivalents(options: LawOptions) -> dict[str, str]:
    """Return the same question on the command line and in Python."""
    return vars(equivalent(verb_named("plan"), None, options.given()))


@router.post(
    "/files",
    response_model=UploadedFile,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def upload(
    desk: AtDesk,
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=1000, description="Only shown.")],
) -> dict[str, Any]:
    """Keep a table (.csv, .csv.gz, .parquet, .arrow, .feather) while the server lives."""
    try:
        return (await desk.uploads.add(name, request.stream())).to_dict()
    except ClientDisconnect:
        raise RefusedError(400, "the upload was given up.") from None


@router.get("/files/{file}", response_model=UploadedFile)
async def uploaded(desk: AtDesk, file: Id) -> dict[str, Any]:
    """Return what is known about an upload."""
    return desk.uploads[file].to_dict()


@router.delete("/files/{file}", status_code=204, response_class=Response, responses=_PLAIN)
async def forget_file(desk: AtDesk, file: Id) -> None:
    """Delete an upload."""
    desk.uploads.delete(file)


@router.post("/jobs", response_model=Accepted, status_code=202)
async def start(desk: AtDesk, asked: Annotated[JobRequest, Body()]) -> dict[str, str]:
    """Start long work; its state and its result are at ``/api/jobs/{job}``."""
    table = None if asked.file is None else desk.uploads[asked.file]
    return {"job": desk.jobs.add(asked.verb, table, asked.options, desk.uploads).id}


@router.get("/jobs", response_model=JobList)
async def jobs(desk: AtDesk) -> dict[str, Any]:
    """Return all jobs that are kept, without their results."""
    return {"jobs": [job.to_dict(whole=False) for job in desk.jobs]}


@router.get("/jobs/{job}", response_model=JobStatus)
async def job_state(desk: AtDesk, job: Id) -> Response:
    """Return a job with its result."""
    # Encoded as it is: the result is the verb's own dictionary.
    return JSONResponse(desk.jobs[job].to_dict())


@router.delete("/jobs/{job}", response_model=JobStatus)
async def cancel(desk: AtDesk, job: Id) -> Response:
    """Cancel a job and free its files; a job that has ended is forgotten."""
    return JSONResponse((await desk.jobs.cancel(job)).to_dict())


@router.get(
    "/jobs/{job}/files/{name}",
    response_class=Response,
    responses=_PLAIN
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
async def download(desk: AtDesk, job: Id, name: Annotated[str, Path(max_length=200)]) -> Response:
    """Download one of the files that a job listed."""
    path = desk.jobs.file(job, name)
    return FileResponse(path, filename=shown_name(name), media_type="application/octet-stream")


@router.post("/report", response_model=View)
async def open_report(desk: AtDesk, report: Annotated[dict[str, Any], Body()]) -> dict[str, str]:
    """Check a ``report.json`` and keep it as a page."""
    rendered = await desk.calculations.ask("report", report)
    return {"view": desk.views.add(rendered["page"], rendered["scripts"])}


@router.get("/views/{view}", response_class=HTMLResponse, responses=_PLAIN)
async def view(desk: AtDesk, view: Id) -> Response:
    """Return a report as a page, without network and without an origin."""
    page, scripts = desk.views[view]
    return HTMLResponse(page, headers={"content-security-policy": view_policy(scripts)})
