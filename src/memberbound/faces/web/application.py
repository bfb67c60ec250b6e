"""The web application: its pages, its endpoints (each a verb), and what surrounds them."""

from __future__ import annotations

import asyncio
import errno
import functools
import gzip
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from memberbound._version import __version__
from memberbound.errors import MemberboundError
from memberbound.faces.command_line import verb_named
from memberbound.faces.web.desk import Desk
from memberbound.faces.web.gate import (
    Gate,
    Limits,
    Policy,
    RefusedError,
    first_sentence,
    view_policy,
)
from memberbound.faces.web.requests import (
    JOBS,
    Accepted,
    Equivalents,
    Error,
    ExplainOptions,
    Health,
    JobList,
    JobRequest,
    JobStatus,
    Picture,
    Roc,
    UploadedFile,
    VerbForm,
    View,
    described,
    equivalent,
)
from memberbound.faces.web.uploads import shown_name

__all__ = [
    "REFUSALS",
    "VERBS",
    "Asset",
    "application",
    "assets",
    "router",
]

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
REFUSALS: _Responses = {
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


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
Id = Annotated[str, Path(min_length=1, max_length=64)]


@router.get("/health", response_model=Health)
async def health(desk: AtDesk) -> dict[str, object]:
    """Return the version, the limits and the verbs of this server."""
    return {"version": __version__, "limits": desk.limits.to_dict(), "verbs": list(VERBS)}


@router.get("/verbs", response_model=dict[str, VerbForm])
async def verbs() -> dict[str, dict[str, object]]:
    """Return what may be asked of each verb: the arguments' names, kinds, help and limits."""
    return {name: described(verb_named(name)) for name in VERBS}


@router.post("/explain", responses=_CONTRACT)
async def explain(desk: AtDesk, request: Request, options: ExplainOptions) -> dict[str, object]:
    """Say what a DP guarantee means for membership, or find the parameter a promise allows."""
    return await desk.calculations.ask("explain", options.given(), request.is_disconnected)


@router.post("/explain/roc", response_model=Roc)
async def explain_roc(desk: AtDesk, request: Request, options: ExplainOptions) -> dict[str, object]:
    """Return the certified ceiling of the ROC at many rates, from above."""
    return await desk.calculations.ask("roc", options.given(), request.is_disconnected)


@router.post("/explain/chart", response_model=Picture)
async def explain_chart(
    desk: AtDesk,
    request: Request,
    options: ExplainOptions,
    scale: Literal["linear", "log"] = "linear",
) -> dict[str, object]:
    """Draw the certified ceiling of the ROC."""
    asked = {"options": options.given(), "scale": scale}
    return await desk.calculations.ask("explain chart", asked, request.is_disconnected)


@router.post("/explain/equivalents", response_model=Equivalents)
async def explain_equivalents(options: ExplainOptions) -> dict[str, str]:
    """Return the same question on the command line and in Python."""
    return vars(equivalent(verb_named("explain"), None, options.given()))


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
) -> dict[str, object]:
    """Keep a table (.csv, .csv.gz, .parquet, .arrow, .feather) while the server lives.

    Or a model for ``audit`` (.skops, .onnx), of a kind that runs nothing when it is read.
    """
    try:
        return (await desk.uploads.add(name, request.stream())).to_dict()
    except ClientDisconnect:
        raise RefusedError(400, "the upload was given up.") from None


@router.get("/files/{file}", response_model=UploadedFile)
async def uploaded(desk: AtDesk, file: Id) -> dict[str, object]:
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
async def jobs(desk: AtDesk) -> dict[str, object]:
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
async def open_report(
    desk: AtDesk, report: Annotated[dict[str, object], Body()]
) -> dict[str, object]:
    """Check a ``report.json`` and keep it as a page."""
    rendered = await desk.calculations.ask("report", report)
    view = desk.views.add(str(rendered["page"]), str(rendered["scripts"]))
    return {"view": view, "chart": rendered["chart"]}


@router.get("/views/{view}", response_class=HTMLResponse, responses=_PLAIN)
async def view(desk: AtDesk, view: Id) -> Response:
    """Return a report as a page, without network and without an origin."""
    page, scripts = desk.views[view]
    return HTMLResponse(page, headers={"content-security-policy": view_policy(scripts)})


# ── The files of the pages: a fixed list, read from the package once; nothing is found by name ────

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class Asset:
    """The bytes of one file and their type."""

    content: bytes
    type: str

    @functools.cached_property
    def tag(self) -> str:
        """What names this content: a browser that has it need not load it again."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    @functools.cached_property
    def packed(self) -> bytes | None:
        """The content as gzip, where that is much smaller."""
        found = gzip.compress(self.content, 6, mtime=0)
        return found if len(found) < 0.9 * len(self.content) else None

    def answer(self, request: Request) -> Response:
        """Return the file, packed where the browser takes that, or that it has not changed."""
        headers = {"etag": self.tag, "cache-control": "private, no-cache", "vary": _VARY}
        known = request.headers.get("if-none-match", "")
        if self.tag in (part.strip().removeprefix("W/") for part in known.split(",")):
            return Response(status_code=304, headers=headers)
        takes = request.headers.get("accept-encoding", "").lower()
        if re.search(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", takes) and self.packed is not None:
            headers["content-encoding"] = "gzip"
            return Response(self.packed, media_type=self.type, headers=headers)
        return Response(self.content, media_type=self.type, headers=headers)


#: What an answer depends on besides its address.
_VARY = "accept-encoding"


def assets() -> dict[str, Asset]:
    """Return every file of the pages by its name below ``/static/``."""
    found: dict[str, Asset] = {}
    _collect(files("memberbound.faces.web").joinpath("static"), "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, Asset]) -> None:
    for item in folder.iterdir():
        if item.is_dir():
            _collect(item, f"{prefix}{item.name}/", found)
            continue
        ending = "." + item.name.rsplit(".", 1)[-1]
        if ending in _TYPES:
            found[prefix + item.name] = Asset(item.read_bytes(), _TYPES[ending])


# ── The application: routes, their descriptions, and how errors are answered ──────────────────────

_ABOUT = (
    "The verbs of memberbound over HTTP, with the same dictionaries as `memberbound VERB --json`. "
    'A refused request is answered with {"error": sentence}.'
)
#: A full or write-protected disk, a quota, a limit on files: nothing that the server did wrong.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_PHRASES = {
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
    pages = assets()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.desk = Desk(bounds)
        try:
            if spare:
                app.state.desk.warm_up()
            yield
        finally:
            await app.state.desk.close()

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
    app.include_router(router, responses=REFUSALS)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return _asset("index.html", request)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon(request: Request) -> Response:
        return _asset("icon.svg", request)

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(request: Request, name: str) -> Response:
        return await asyncio.to_thread(_asset, name, request)

    def _asset(name: str, request: Request) -> Response:
        found = pages.get(name)
        if found is None:
            raise RefusedError(404, _PHRASES[404])
        return found.answer(request)

    _answer_errors(app)
    app.add_middleware(Gate, policy=policy or Policy(), limits=bounds)
    return app


def _answer_errors(app: FastAPI) -> None:
    """Answer everything that goes wrong on purpose with a status and one sentence."""

    def refused(status: int, sentence: str) -> JSONResponse:
        return JSONResponse({"error": sentence}, status_code=status)

    @app.exception_handler(MemberboundError)
    async def bad_input(request: Request, problem: Exception) -> JSONResponse:
        del request
        status = problem.status if isinstance(problem, RefusedError) else 422
        return refused(status, " ".join(str(problem).split()))

    @app.exception_handler(OSError)
    async def no_room(request: Request, problem: Exception) -> JSONResponse:
        del request
        assert isinstance(problem, OSError)
        if problem.errno not in _NO_ROOM:
            raise problem
        return refused(413, f"the server has no room to keep this: {problem.strerror}.")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: Exception) -> JSONResponse:
        del request
        assert isinstance(problem, RequestValidationError)
        return refused(422, first_sentence(list(problem.errors())))

    @app.exception_handler(HTTPException)
    async def other(request: Request, problem: Exception) -> JSONResponse:
        del request
        assert isinstance(problem, HTTPException)
        sentence = _PHRASES.get(problem.status_code, str(problem.detail))
        return refused(problem.status_code, str(sentence))
