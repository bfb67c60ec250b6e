"""Access control: checks before every request, and headers of every answer.

A page on the internet can make a browser send requests to this machine.  So the Host header must
name this server (against DNS rebinding), a request that a foreign page started is refused, and
nothing is shared across origins.  With a token, every request must carry it.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import secrets
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memberbound.faces.endings import debugging, keep_traceback
from memberbound.faces.web.limits import Limits, format_size
from memberbound.faces.web.processes import RefusedError

_LOG = logging.getLogger("memberbound.faces.web")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE = ("GET", "HEAD", "OPTIONS")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")

#: Content-Security-Policy of everything that is not a view.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; frame-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


def view_policy(script_source: str) -> str:
    """Return the Content-Security-Policy of an opened report: own scripts, no network, no origin.

    Styles are inline in the report; a style cannot read or send anything here.
    """
    return (
        f"sandbox allow-scripts allow-downloads; default-src 'none'; script-src {script_source}; "
        f"style-src {script_source}; img-src data: blob:; connect-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'"
    )


@dataclass(frozen=True)
class Policy:
    """The access policy of a server.

    Args:
        hosts: names under which the server may be addressed, besides loopback's.
        any_address: whether every literal IP address is one of them (bound to all interfaces).
        token: secret that every request must carry, if any.
    """

    hosts: tuple[str, ...] = ()
    any_address: bool = False
    token: str | None = None

    def accepts_host(self, host: str) -> bool:
        """Return whether a Host header names this server."""
        match = _HOST.fullmatch(host.lower())
        if match is None:
            return False
        name = match[1].strip("[]")
        if name in _LOOPBACK or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.any_address


class AccessControl:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, policy: Policy, limits: Limits) -> None:
        self._app = app
        self._policy = policy
        self._limits = limits
        # The value of the cookie: a browser never stores the token itself.
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_protected(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _protect(MutableHeaders(scope=message))
            await send(message)

        request = Request(scope, receive)
        try:
            self._check_origin(request)
            answer = self._check_token(request)
            self._check_length(request)
        except RefusedError as problem:
            answer = refusal(problem.status, str(problem))
        except ValueError:  # a header that cannot be read, such as an impossible port
            answer = refusal(400, "the request's headers cannot be read.")
        if answer is None:
            try:
                await self._app(scope, receive, send_protected)
                return
            except Exception as problem:
                if started:
                    raise
                # Send the details to a private file and the terminal, not to the page.
                path = keep_traceback(problem)
                name = type(problem).__name__
                _LOG.error("a request failed (%s), see %s", name, path, exc_info=debugging())
                answer = refusal(500, "the server failed at this request.")
        await answer(scope, receive, send_protected)

    def _check_origin(self, request: Request) -> None:
        headers, method = request.headers, request.method
        host = headers.get("host", "")
        if not self._policy.accepts_host(host):
            raise RefusedError(
                403, "the Host header must name this server; use the address that it printed."
            )
        foreign = headers.get("sec-fetch-site") not in (None, "same-origin", "none")
        navigated = headers.get("sec-fetch-mode") == "navigate" and method == "GET"
        page = method in _SAFE and not request.scope["path"].startswith("/api/")
        if foreign and not (page and navigated):
            raise RefusedError(403, "the request must come from this server's own pages.")
        origin = headers.get("origin")
        if method not in _SAFE and origin is not None:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or parts.netloc.lower() != host.lower():
                raise RefusedError(403, "the request must come from this server's own pages.")

    def _check_token(self, request: Request) -> Response | None:
        """Refuse a request without the token; exchange a link with the token for a cookie."""
        token = self._policy.token
        if token is None:
            return None
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(bearer.strip(), token):
            return None
        cookie = f"memberbound_{(request.scope.get('server') or ('', 0))[1]}"
        if _same(request.cookies.get(cookie, ""), self._session):
            return None
        sent = request.query_params.get("token", "")
        if request.method != "GET" or not _same(sent, token):
            raise RefusedError(
                401,
                "the token is missing or wrong; open the address that the server printed, or send "
                "Authorization: Bearer with it.",
            )
        query = urlencode([p for p in request.query_params.multi_items() if p[0] != "token"])
        # A path with two leading slashes would lead to another server.  The path is decoded; a line
        # break in it must not end the header.
        target = "/" + quote(request.scope["path"].lstrip("/\\")) + (f"?{query}" if query else "")
        redirect = Response(status_code=303, headers={"location": target})
        # Not Strict: a link to a calculation in web mail would then arrive without the cookie.
        # Foreign pages gain nothing from it: see _check_origin.
        redirect.set_cookie(cookie, self._session, httponly=True, samesite="lax")
        return redirect

    def _check_length(self, request: Request) -> None:
        """Refuse a body that is too large, or without a declared length.

        Uploads are streamed and counted where they are stored.
        """
        if request.method in _SAFE or request.scope["path"] == "/api/files":
            return
        most = self._limits.body_bytes
        length = request.headers.get("content-length", "0")
        if "transfer-encoding" in request.headers or int(length) not in range(most + 1):
            raise RefusedError(
                413, f"the request must be at most {format_size(most)}, and declare its size."
            )


def _protect(headers: MutableHeaders) -> None:
    """Add the headers that an answer has not set itself."""
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    if "content-security-policy" not in headers:
        headers["content-security-policy"] = _PAGE_POLICY
        headers["x-frame-options"] = "DENY"


def _same(value: str, secret: str) -> bool:
    return hmac.compare_digest(value.encode(), secret.encode())


def refusal(status: int, sentence: str) -> Response:
    """Return the answer that refuses a request."""
    return JSONResponse({"error": sentence}, status_code=status)
