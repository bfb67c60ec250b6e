"""The application: routes, their descriptions, and how errors are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from memberbound._version import __version__
from memberbound.errors import MemberboundError
from memberbound.faces.web.assets import assets
from memberbound.faces.web.desk import Desk
from memberbound.faces.web.gate import Gate, Policy
from memberbound.faces.web.limits import Limits
from memberbound.faces.web.refusals import RefusedError, first_sentence
from memberbound.faces.web.routes import REFUSALS, router

__all__ = ["application"]

_ABOUT = (
    "The verbs of memberbound over HTTP, with the same dictionaries as `memberbound VERB --json`. "
    'A refused request is answered with {"error": sentence}.'
)
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
    async def index() -> Response:
        return _asset("index.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return _asset("icon.svg")

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str) -> Response:
        return _asset(name)

    def _asset(name: str) -> Response:
        found = pages.get(name)
        if found is None:
            raise RefusedError(404, _PHRASES[404])
        return Response(found.content, media_type=found.type)

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

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: Exception) -> JSONResponse:
        del request
        assert isinstance(problem, RequestValidationError)
        return refused(422, first_sentence(list(problem.errors())))

    @app.exception_handler(HTTPException)
    async def other(request: Request, problem: Exception) -> JSONResponse:
        del request
        assert isinstance(problem, HTTPException)
        sentence: Any = _PHRASES.get(problem.status_code, str(problem.detail))
        return refused(problem.status_code, str(sentence))
