"""Who may ask, how much one server gives away, and how a request is refused."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from memberbound.errors import MemberboundError, positive, whole_number
from memberbound.faces.endings import debugging, keep_traceback

__all__ = [
    "GIB",
    "MIB",
    "Gate",
    "Limits",
    "Policy",
    "RefusedError",
    "first_sentence",
    "page_policy",
    "sized",
    "view_policy",
]

# ── How much one server gives away: sizes, rows, times and numbers of things at once ──────────────

MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits of a server; sizes are in bytes and times in seconds.

    Edge cases: ``running=0`` accepts jobs and starts none, which tests use.
    """

    upload_bytes: int = 2 * GIB
    unpacked_bytes: int = 8 * GIB
    rows: int = 50_000_000
    columns: int = 2_000
    body_bytes: int = 4 * MIB
    report_bytes: int = 32 * MIB
    answer_bytes: int = 64 * MIB
    job_memory_bytes: int = 4 * GIB
    job_disk_bytes: int = 16 * GIB
    job_seconds: float = 3600.0
    inspection_seconds: float = 600.0
    silence_seconds: float = 60.0
    running: int = 2
    #: Models that an audit trains at the same time, all within the memory of its job.
    workers: int = 2
    queued: int = 6
    kept_jobs: int = 30
    kept_files: int = 20
    kept_views: int = 10
    calculations: int = 2
    calculation_memory_bytes: int = 2 * GIB
    calculation_seconds: float = 20.0
    waiting: int = 1000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("seconds"):
                positive(name, value)
            else:
                whole_number(name, value, at_least=0 if name in ("running", "queued") else 1)

    def to_dict(self) -> dict[str, float]:
        """Return the limits as the health endpoint shows them."""
        return asdict(self)


def sized(count: float) -> str:
    """Return a number of bytes as people write it.

    Examples:
        >>> sized(2 * GIB), sized(1536), sized(10)
        ('2 GiB', '1.5 KiB', '10 bytes')
    """
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:g} bytes"


# ── Answers that say no: a status and one sentence, as ``{"error": sentence}`` ────────────────────


class RefusedError(MemberboundError):
    """A request that is answered with a status of its own."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def first_sentence(problems: Sequence[Mapping[str, Iterable[object]]]) -> str:
    """Return the first of pydantic's complaints as a sentence, without quoting the input."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place[:200] or 'the request'}: {message}."


# ── Who may ask: the checks before every request, and the headers of every answer ─────────────────
#
# A page on the internet can make a browser send requests to this machine.  So the Host header must
# name this server (against DNS rebinding), a request that a foreign page started is refused, and
# nothing is ever shared across origins.  With a token, every request must carry it.

Scope = MutableMapping[str, Any]
Message = Scope
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOG = logging.getLogger("memberbound.faces.web")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE = ("GET", "HEAD", "OPTIONS")
#: JSON deeper than this is no question of ours.
_DEPTH = 40
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
# Possessive, and with or without its end: whatever is sent, every character is looked at once.
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
#: Larger bodies are checked beside the event loop.
_LARGE = 2**18
_CSP = b"content-security-policy"


def page_policy() -> str:
    """Content-Security-Policy of our own pages and of everything else that is not a view."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; frame-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


def view_policy(script_source: str) -> str:
    """Content-Security-Policy of a report from somewhere: its own scripts, no network, no origin.

    Styles stand in the report itself, and a style cannot read or send anything here.
    """
    return (
        f"sandbox allow-scripts allow-downloads; default-src 'none'; script-src {script_source}; "
        f"style-src {script_source}; img-src data: blob:; connect-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'"
    )


_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)


@dataclass(frozen=True)
class Policy:
    """Whose requests are answered.

    Args:
        hosts: names under which the server may be addressed, besides loopback's.
        any_address: whether every literal IP address is one of them (bound to all interfaces).
        token: secret that every request must carry, if any.
    """

    hosts: tuple[str, ...] = ()
    any_address: bool = False
    token: str | None = None

    def addressed(self, host: str) -> bool:
        """Whether a Host header names this server."""
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found[1].strip("[]")
        if name in _LOOPBACK or name in self.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.any_address


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: App, *, policy: Policy, limits: Limits) -> None:
        self._app = app
        self._policy = policy
        self._limits = limits
        # What the cookie holds: a browser never stores the token itself.
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                own = {name.lower() for name, _ in message["headers"]}
                added = [pair for pair in _HEADERS if pair[0] not in own]
                if _CSP not in own:
                    added.append((_CSP, page_policy().encode()))
                    added.append((b"x-frame-options", b"DENY"))
                message["headers"] = [*message["headers"], *added]
            await send(message)

        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        try:
            self._check_origin(scope, headers)
            redirect = self._check_token(scope, headers)
            if redirect is None:
                receive = await self._body(scope, headers, receive)
        except RefusedError as refusal:
            await _answer(guarded, refusal.status, [], {"error": str(refusal)})
            return
        except ValueError:  # a header that cannot be read, such as an impossible port
            await _answer(guarded, 400, [], {"error": "the request's headers cannot be read."})
            return
        if redirect is not None:
            await _answer(guarded, 303, redirect, {})
            return
        try:
            await self._app(scope, receive, guarded)
        except Exception as problem:
            if started:
                raise
            # Nobody's fault but ours; what happened goes to a file and the terminal, not the page.
            path = keep_traceback(problem)
            _LOG.error(
                "a request failed (%s), see %s", type(problem).__name__, path, exc_info=debugging()
            )
            await _answer(guarded, 500, [], {"error": "the server failed at this request."})

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self._policy.addressed(host):
            raise RefusedError(
                403, "the Host header must name this server; use the address that it printed."
            )
        site = headers.get("sec-fetch-site")
        navigated = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        outside = scope["path"].startswith("/api/") or scope["method"] not in _SAFE
        foreign = site is not None and site not in ("same-origin", "none")
        if foreign and (outside or not navigated):
            raise RefusedError(403, "the request must come from this server's own pages.")
        origin = headers.get("origin")
        if scope["method"] not in _SAFE and origin is not None:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or parts.netloc.lower() != host.lower():
                raise RefusedError(403, "the request must come from this server's own pages.")

    def _check_token(
        self, scope: Scope, headers: dict[str, str]
    ) -> list[tuple[bytes, bytes]] | None:
        """Refuse a request without the token; a link that carries it is exchanged for a cookie."""
        token = self._policy.token
        if token is None:
            return None
        bearer = headers.get("authorization", "")
        if bearer[:7].lower() == "bearer " and _same(bearer[7:].strip(), token):
            return None
        cookie = f"memberbound_{(scope.get('server') or ('', 0))[1]}"
        try:
            sent = SimpleCookie(headers.get("cookie", "")).get(cookie)
        except CookieError:
            sent = None
        if sent is not None and _same(sent.value, self._session):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if scope["method"] == "GET" and given and _same(given[0], token):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            # A path that starts with two slashes would lead to another server.
            # The path comes decoded; a line break in it must not end the header.
            target = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
            # Not Strict: a link to a calculation in somebody's web mail would then arrive without
            # the cookie.  Foreign pages get nothing for it: see _check_origin.
            stored = f"{cookie}={self._session}; HttpOnly; SameSite=Lax; Path=/"
            return [
                (b"location", target.encode()),
                (b"set-cookie", stored.encode()),
            ]
        raise RefusedError(
            401,
            "the token is missing or wrong; open the address that the server printed, or send "
            "Authorization: Bearer with it.",
        )

    async def _body(self, scope: Scope, headers: dict[str, str], receive: Receive) -> Receive:
        """Read a JSON body within its limit and refuse what no parser should see.

        Uploads are streamed and counted where they are stored.
        """
        if scope["method"] in _SAFE or scope["path"] == "/api/files":
            return receive
        report = scope["path"] == "/api/report"
        limit = self._limits.report_bytes if report else self._limits.body_bytes
        length = headers.get("content-length", "0")
        body = bytearray()
        more = True
        too_large = RefusedError(413, f"the request must be at most {sized(limit)}, got more.")
        if not length.isdecimal() or int(length) > limit:
            raise too_large
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusedError(400, "the request ended early.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                raise too_large
        whole = bytes(body)
        if len(whole) > _LARGE:
            await asyncio.to_thread(_check_json, whole)
        elif whole:
            _check_json(whole)
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": whole, "more_body": False}

        return again


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _check_json(body: bytes) -> None:
    """Refuse what is no JSON: NaN, infinities, halves of characters, and what is nested deeply."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(400, "the request must be JSON in UTF-8, got other bytes.") from None
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _DEPTH:
            raise RefusedError(400, f"the request must be nested at most {_DEPTH} deep.")
    try:
        found = json.loads(text, parse_constant=_no_constant)
        if "\\u" in text:  # half of a character can be written so, and could never be sent back
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise RefusedError(400, "the request must be a JSON document, got none.") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


async def _answer(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], content: dict[str, str]
) -> None:
    body = json.dumps(content).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*start, *headers]})
    await send({"type": "http.response.body", "body": body})
