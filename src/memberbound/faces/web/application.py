"""The web application: its pages, its endpoints (each a verb), and what surrounds them."""

from __future__ import annotations

import asyncio
import errno
import mimetypes
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect

from memberbound._version import __version__
from memberbound.errors import MemberboundError
from memberbound.faces.command_line import verb_named
from memberbound.faces.web.access import AccessControl, Policy, refusal, view_policy
from memberbound.faces.web.child import JOBS
from memberbound.faces.web.jobs import Jobs
from memberbound.faces.web.processes import Calculations, Limits, Processes, RefusedError
from memberbound.faces.web.schemas import (
    Accepted,
    Error,
    ExplainOptions,
    Figures,
    Health,
    JobList,
    JobRequest,
    JobStatus,
    Picture,
    UploadedFile,
    VerbForm,
    View,
    equivalent,
    verb_form,
)
from memberbound.faces.web.uploads import Upload, Uploads, shown_name
from memberbound.files import PrivateFolder, remove_leftovers

# ── What one running server holds ─────────────────────────────────────────────────────────────────


@dataclass
class Views:
    """Reports that were opened from a file, as pages, oldest first."""

    kept: int
    _pages: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, page: str, scripts: str) -> str:
        """Keep a page with the sources of its scripts, and return its id."""
        id = secrets.token_urlsafe(16)
        self._pages[id] = (page, scripts)
        while len(self._pages) > self.kept:
            del self._pages[next(iter(self._pages))]
        return id

    def __getitem__(self, id: str) -> tuple[str, str]:
        if id not in self._pages:
            raise RefusedError(404, "view must be one that is still kept, got another.")
        return self._pages[id]


class State:
    """The uploads, jobs and views of a server; everything it writes lies in one private folder."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        remove_leftovers()
        self._private = PrivateFolder("memberbound-serve-")
        self.folder = self._private.path
        self.processes = Processes()
        self.calculations = Calculations(limits, self.processes)
        self.uploads = Uploads(self.folder / "files", limits, self.processes)
        self.jobs = Jobs(self.folder / "jobs", limits, self.processes)
        self.views = Views(limits.kept_views)

    def warm_up(self) -> None:
        """Start processes before they are needed."""
        self.processes.warm_up()
        self.calculations.warm_up()

    async def close(self) -> None:
        """Stop all jobs and delete everything."""
        try:
            await self.jobs.close()
            await self.calculations.close()
        finally:
            await asyncio.to_thread(self._private.remove)


# ── The endpoints: each is a thin face of a verb of the contract ──────────────────────────────────

VERBS = ("explain", *JOBS)

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
#: Status → what the OpenAPI document says of it, as FastAPI takes it.
_Responses = dict[int | str, dict[str, Any]]
#: Every refusal has the same form.
_REFUSALS: _Responses = {
    status: {"model": Error, "description": reason} for status, reason in _REASONS.items()
}
#: The same for answers that are no JSON, where FastAPI would describe the refusals as such too.
_PLAIN: _Responses = {
    status: {
        "description": reason,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for status, reason in _REASONS.items()
}
_CONTRACT: _Responses = {
    200: {"description": "The dictionary of the contract, exactly as `--json` prints it."}
}

router = APIRouter(prefix="/api")


def _state(request: Request) -> State:
    state: State = request.app.state.server
    return state


ServerState = Annotated[State, Depends(_state)]
Id = Annotated[str, Path(min_length=1, max_length=64)]
Name = Annotated[str, Path(max_length=200)]


@router.get("/health", response_model=Health)
async def health(state: ServerState) -> dict[str, object]:
    """Return the version, the limits and the verbs of this server."""
    return {"version": __version__, "limits": state.limits.to_dict(), "verbs": list(VERBS)}


@router.get("/verbs", response_model=dict[str, VerbForm])
async def verbs() -> dict[str, VerbForm]:
    """Return what may be asked of each verb: the arguments' names, kinds, help and limits."""
    return {name: verb_form(verb_named(name)) for name in VERBS}


@router.post("/explain", responses=_CONTRACT)
async def explain(
    state: ServerState, request: Request, options: ExplainOptions
) -> dict[str, object]:
    """Say what a DP guarantee means for membership, or find the parameter a promise allows."""
    return await state.calculations.ask("explain", options.arguments(), request.is_disconnected)


@router.post("/explain/figures", response_model=Figures)
async def explain_figures(
    state: ServerState, request: Request, options: ExplainOptions
) -> dict[str, object]:
    """Return an explanation's numbers as texts, and the same question elsewhere."""
    arguments = options.arguments()
    ask = state.calculations.ask
    figures = await ask("explain figures", arguments, request.is_disconnected)
    return figures | dict(equivalent(verb_named("explain"), None, arguments))


@router.post("/explain/chart", response_model=Picture)
async def explain_chart(
    state: ServerState,
    request: Request,
    options: ExplainOptions,
    scale: Literal["linear", "log"] = "linear",
) -> dict[str, object]:
    """Draw the certified ceiling of the ROC."""
    question = {"options": options.arguments(), "scale": scale}
    return await state.calculations.ask("explain chart", question, request.is_disconnected)


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
    state: ServerState,
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=1000, description="Only shown.")],
    encoding: Annotated[str, Query(max_length=40, description="Of a CSV file.")] = "utf-8",
) -> Upload:
    """Keep a table (.csv, .parquet, .arrow, .xlsx, .jsonl, .dta, .sav, …) while the server lives.

    Or a model for ``audit`` (.skops, .onnx), of a kind that runs nothing when it is read.
    """
    try:
        return await state.uploads.add(name, request.stream(), encoding)
    except ClientDisconnect:
        raise RefusedError(400, "the upload was given up.") from None


@router.get("/files/{file}", response_model=UploadedFile)
async def uploaded(state: ServerState, file: Id) -> Upload:
    """Return what is known about an upload."""
    return state.uploads[file]


@router.delete("/files/{file}", status_code=204, response_class=Response, responses=_PLAIN)
async def forget_file(state: ServerState, file: Id) -> None:
    """Delete an upload."""
    state.uploads.delete(file)


@router.post("/jobs", response_model=Accepted, status_code=202)
async def start(state: ServerState, job: Annotated[JobRequest, Body()]) -> dict[str, str]:
    """Start long work; its state and its result are at ``/api/jobs/{job}``."""
    table = None if job.file is None else state.uploads[job.file]
    return {"job": state.jobs.add(job.verb, table, job.options, state.uploads).id}


@router.get("/jobs", response_model=JobList)
async def jobs(state: ServerState) -> dict[str, object]:
    """Return all jobs that are kept, without their results."""
    return {"jobs": [job.to_dict(whole=False) for job in state.jobs]}


@router.get("/jobs/{job}", response_model=JobStatus)
async def job_state(state: ServerState, job: Id) -> Response:
    """Return a job with its result."""
    # Encoded as it is: the result is the verb's own dictionary.
    return JSONResponse(state.jobs[job].to_dict())


@router.delete("/jobs/{job}", response_model=JobStatus)
async def cancel(state: ServerState, job: Id) -> Response:
    """Cancel a job and free its files; a job that has ended is forgotten."""
    return JSONResponse((await state.jobs.cancel(job)).to_dict())


@router.get(
    "/jobs/{job}/files/{name}",
    response_class=Response,
    responses=_PLAIN
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
async def download(
    state: ServerState, job: Id, name: Annotated[str, Path(max_length=200)]
) -> Response:
    """Download one of the files that a job listed."""
    path = state.jobs.file(job, name)
    return FileResponse(path, filename=shown_name(name), media_type="application/octet-stream")


@router.post("/report", response_model=View)
async def open_report(
    state: ServerState, report: Annotated[dict[str, object], Body()]
) -> dict[str, object]:
    """Check a ``report.json`` and keep it as a page."""
    rendered = await state.calculations.ask("report", report)
    view = state.views.add(str(rendered["page"]), str(rendered["scripts"]))
    return {"view": view, "chart": rendered["chart"]}


@router.get("/views/{view}", response_class=HTMLResponse, responses=_PLAIN)
async def view(state: ServerState, view: Id) -> Response:
    """Return a report as a page, without network and without an origin."""
    page, scripts = state.views[view]
    return HTMLResponse(page, headers={"content-security-policy": view_policy(scripts)})


# ── The files of the pages ────────────────────────────────────────────────────────────────────────

# Windows takes the types of files from its registry, which may call scripts plain text.
mimetypes.add_type("text/javascript", ".js")


class _Pages(StaticFiles):
    """Files that a browser may keep, and asks for again each time."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "private, no-cache"
        return response


# ── The application: routes, their descriptions, and how errors are answered ──────────────────────

_ABOUT = (
    "The verbs of memberbound over HTTP, with the same dictionaries as `memberbound VERB --json`. "
    'A refused request is answered with {"error": sentence}.'
)
#: A full or write-protected disk, a quota, a limit on files: nothing that the server did wrong.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_SENTENCES = {
    404: "there is nothing at this address.",
    405: "this address does not take this method.",
}


def application(
    limits: Limits | None = None, policy: Policy | None = None, *, spare: bool = False
) -> FastAPI:
    """Return the web application.

    Args:
        limits: sizes, rows, times and numbers of things at once.
        policy: whose requests are answered; loopback's without a token unless given.
        spare: start processes before the first job and the first question.
    """
    bounds = limits or Limits()
    pages = _Pages(packages=[("memberbound.faces.web", "static")])

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.server = State(bounds)
        try:
            if spare:
                app.state.server.warm_up()
            yield
        finally:
            await app.state.server.close()

    app = FastAPI(
        title="memberbound",
        version=__version__,
        description=_ABOUT,
        openapi_url="/api/openapi.json",
        # The pages of FastAPI load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.include_router(router, responses=_REFUSALS)

    app.mount("/static", GZipMiddleware(pages))

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return await pages.get_response("index.html", request.scope)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon(request: Request) -> Response:
        return await pages.get_response("icon.svg", request.scope)

    for kind in (MemberboundError, OSError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _error)
    app.add_middleware(AccessControl, policy=policy or Policy(), limits=bounds)
    return app


async def _error(request: Request, problem: Exception) -> Response:
    """Answer what goes wrong on purpose with a status and one sentence."""
    del request
    match problem:
        case RefusedError():
            status, sentence = problem.status, str(problem)
        case MemberboundError():
            status, sentence = 422, str(problem)
        case RequestValidationError():
            status, sentence = 422, _first_sentence(problem.errors())
        case HTTPException():
            status = problem.status_code
            sentence = _SENTENCES.get(status, str(problem.detail))
        case OSError(errno=number) if number in _NO_ROOM:
            status, sentence = 413, f"the server has no room to keep this: {problem.strerror}."
        case _:
            raise problem
    return refusal(status, " ".join(sentence.split()))


def _first_sentence(problems: Sequence[Mapping[str, Iterable[object]]]) -> str:
    """Return the first of pydantic's complaints as a sentence, without quoting the input."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place[:200] or 'the request'}: {message}."
