"""The web application: pages, endpoints for the verbs, and error handling."""

from __future__ import annotations

import asyncio
import errno
import mimetypes
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect

from memberbound._version import __version__
from memberbound.declarations import Keywords
from memberbound.errors import MemberboundError
from memberbound.faces.command_line import verb_named
from memberbound.faces.web.access import AccessControl, Policy, refusal, view_policy
from memberbound.faces.web.child import JOBS
from memberbound.faces.web.jobs import Jobs
from memberbound.faces.web.limits import Limits
from memberbound.faces.web.processes import Left, RefusedError, perform, unless_left, warm_up
from memberbound.faces.web.schemas import ExplainOptions, JobRequest, equivalent, verb_form
from memberbound.faces.web.uploads import Uploads, display_name
from memberbound.scratch import PrivateFolder

# ── The state of a running server ─────────────────────────────────────────────────────────────────


class Server:
    """The uploads, jobs and views of a server; all of its files are in one private folder."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._private = PrivateFolder("memberbound-serve-")
        self.folder = self._private.path
        self._turn = asyncio.Semaphore(limits.questions)
        self.uploads = Uploads(self.folder / "files", limits)
        self.jobs = Jobs(self.folder / "jobs", limits)
        #: Reports opened from a file: page and sources of its scripts, oldest first.
        self.views: dict[str, tuple[str, str]] = {}

    async def ask(self, request: Request, question: str, options: Keywords) -> dict[str, object]:
        """Return the answer to a short question, unless the client disconnects first."""

        async def answer() -> dict[str, object]:
            seconds = self.limits.question_seconds
            async with self._turn:
                return await perform({"verb": question, "options": options}, self.limits, seconds)

        return await unless_left(_disconnection(request), answer())

    async def close(self) -> None:
        """Stop all jobs and delete everything."""
        try:
            await self.jobs.close()
        finally:
            await asyncio.to_thread(self._private.remove)


# ── Endpoints, each a thin wrapper of a verb ──────────────────────────────────────────────────────

_VERBS = ("explain", *JOBS)
_REFUSED = "Refused, with one sentence on the correct input."

router = APIRouter(prefix="/api", responses={"4XX": {"description": _REFUSED}})


def _disconnection(request: Request) -> Left:
    """Return a function that waits until the client disconnects, after its body was read."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return left


def _state(request: Request) -> Server:
    state: Server = request.app.state.server
    return state


ServerState = Annotated[Server, Depends(_state)]
Id = Annotated[str, Path(min_length=1, max_length=64)]
Fields = dict[str, object]


@router.get("/health")
async def health() -> Fields:
    """Return the version of this server."""
    return {"version": __version__}


@router.get("/verbs")
async def verbs() -> Fields:
    """Return the form of each verb: the arguments' names, kinds, help and choices."""
    return {name: verb_form(verb_named(name)) for name in _VERBS}


@router.post("/explain")
async def explain(state: ServerState, request: Request, options: ExplainOptions) -> Fields:
    """Translate a DP guarantee into attack success, or find the parameters for a target.

    The answer is the dictionary of the contract, exactly as ``--json`` prints it.
    """
    return await state.ask(request, "explain", options.arguments())


@router.post("/explain/page")
async def explain_page(
    state: ServerState,
    request: Request,
    options: ExplainOptions,
    scale: Literal["linear", "log"] = "linear",
) -> Fields:
    """Return an explanation in the form of a job's answer: result, summary, charts, commands."""
    arguments = options.arguments()
    shown = await state.ask(request, "explain page", {"options": arguments, "scale": scale})
    return shown | equivalent(verb_named("explain"), None, arguments)


@router.post(
    "/files",
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
    encoding: Annotated[
        str, Query(max_length=40, description="Of a CSV file; empty: detected.")
    ] = "",
    sheet: Annotated[str, Query(max_length=100, description="Of an Excel file.")] = "",
) -> Fields:
    """Store a table (.csv, .parquet, .arrow, .xlsx, .dta, .sav, …) until the server stops.

    Also stores a model for ``audit`` (.skops, .onnx), in formats that run no code when read.
    """
    try:
        left = _disconnection(request)
        added = await state.uploads.add(name, request.stream(), left, encoding, sheet)
        return added.to_dict()
    except ClientDisconnect:
        raise RefusedError(400, "the upload was given up.") from None


@router.get("/files/{file}")
async def uploaded(state: ServerState, file: Id) -> Fields:
    """Return an upload's name, rows and columns."""
    return state.uploads[file].to_dict()


@router.delete("/files/{file}", status_code=204)
async def forget_file(state: ServerState, file: Id) -> None:
    """Delete an upload."""
    state.uploads.delete(file)


@router.post("/jobs", status_code=202)
async def start(state: ServerState, job: Annotated[JobRequest, Body()]) -> Fields:
    """Start a job; its state and its result are at ``/api/jobs/{job}``."""
    table = None if job.file is None else state.uploads[job.file]
    return {"job": state.jobs.add(job.verb, table, job.options, state.uploads).id}


@router.get("/jobs")
async def jobs(state: ServerState) -> Fields:
    """Return all stored jobs, without their results."""
    return {"jobs": [job.to_dict(whole=False) for job in state.jobs]}


@router.get("/jobs/{job}")
async def job_state(state: ServerState, job: Id) -> Response:
    """Return a job; ``result`` is exactly the dictionary of the contract."""
    return JSONResponse(state.jobs[job].to_dict())


@router.delete("/jobs/{job}")
async def cancel(state: ServerState, job: Id) -> Response:
    """Cancel a job and free its files; a finished job is deleted."""
    return JSONResponse((await state.jobs.cancel(job)).to_dict())


@router.get("/jobs/{job}/files/{name}", response_class=Response)
async def download(
    state: ServerState, job: Id, name: Annotated[str, Path(max_length=200)]
) -> Response:
    """Download one of the files that a job listed."""
    path = state.jobs.file(job, name)
    return FileResponse(path, filename=display_name(name), media_type="application/octet-stream")


@router.post("/report")
async def open_report(
    state: ServerState, request: Request, report: Annotated[dict[str, object], Body()]
) -> Fields:
    """Check a ``report.json`` and store it as a page."""
    rendered = await state.ask(request, "report", report)
    view = secrets.token_urlsafe(16)
    state.views[view] = str(rendered["page"]), str(rendered["scripts"])
    while len(state.views) > state.limits.kept_views:
        del state.views[next(iter(state.views))]
    return {"view": view, "chart": rendered["chart"]}


@router.get("/views/{view}", response_class=HTMLResponse)
async def view(state: ServerState, view: Id) -> Response:
    """Return a report as a page without network access and origin."""
    if view not in state.views:
        raise RefusedError(404, "view must be one that is still kept, got another.")
    page, scripts = state.views[view]
    return HTMLResponse(page, headers={"content-security-policy": view_policy(scripts)})


# ── The files of the pages ────────────────────────────────────────────────────────────────────────

# Windows reads file types from its registry, which may map scripts to plain text.
mimetypes.add_type("text/javascript", ".js")


class _Pages(StaticFiles):
    """Static files that a browser may cache and must revalidate."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "private, no-cache"
        return response


# ── The application: routes, descriptions and error responses ─────────────────────────────────────

_ABOUT = (
    "The verbs of memberbound over HTTP, with the same dictionaries as `memberbound VERB --json`. "
    'A refused request is answered with {"error": sentence}.'
)
#: System errors of a full or write-protected disk, a quota or a file limit.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_SENTENCES = {
    404: "there is nothing at this address.",
    405: "this address does not take this method.",
}


def application(
    limits: Limits | None = None, policy: Policy | None = None, *, warm: bool = False
) -> FastAPI:
    """Return the web application.

    Args:
        limits: limits on sizes, times and concurrency.
        policy: access policy; by default, loopback without a token.
        warm: load the libraries before the first job and the first question.
    """
    bounds = limits or Limits()
    pages = _Pages(packages=[("memberbound.faces.web", "static")])

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.server = Server(bounds)
        try:
            if warm:
                warm_up()
            yield
        finally:
            await app.state.server.close()

    app = FastAPI(
        title="memberbound",
        version=__version__,
        description=_ABOUT,
        openapi_url="/api/openapi.json",
        # FastAPI's documentation pages load external scripts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.include_router(router)
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
    """Answer an expected error with a status and one sentence."""
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
            status, sentence = 413, f"the server has no space to store this: {problem.strerror}."
        case _:
            raise problem
    return refusal(status, " ".join(sentence.split()))


def _first_sentence(problems: Sequence[Mapping[str, Iterable[object]]]) -> str:
    """Return the first validation error of pydantic as a sentence, without quoting the input."""
    first = problems[0]
    location = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{location[:200] or 'the request'}: {message}."
