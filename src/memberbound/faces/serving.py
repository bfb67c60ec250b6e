"""The web server: its address, its access rules, and its shutdown."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from memberbound.errors import InputError, positive, whole_number

if TYPE_CHECKING:
    from memberbound.faces.web.access import Policy
    from memberbound.faces.web.limits import Limits

#: A shorter token could be guessed remotely.
_SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Listening:
    """The address of a server and its access rules."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InputError(f"port must be in [0, 65535], got {self.port!r}.")
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"host must be this machine (127.0.0.1) without a token, got {self.host!r}. "
                "Others could read your data; add --token with a secret of your own."
            )
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise InputError(
                f"token must have at least {_SHORTEST_TOKEN} characters, got {len(self.token)}."
            )

    def policy(self) -> Policy:
        """Return the access policy."""
        from memberbound.faces.web.access import Policy

        own = () if is_loopback(self.host) else (socket.gethostname().lower(), self.host.lower())
        everywhere = self.host in ("0.0.0.0", "::")
        return Policy((*own, *(name.lower() for name in self.names)), everywhere, self.token)

    def bound(self) -> socket.socket:
        """Bind and return the listening socket; port 0 selects a free one."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # Specify TCP, because only then does asyncio disable Nagle's algorithm; otherwise every
        # answer on a kept connection waits 40 ms for an acknowledgement.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
        except OSError as problem:
            listener.close()
            raise InputError(
                f"host and port must be free, got {self.host}:{self.port} "
                f"({problem.strerror or problem})."
            ) from None
        listener.set_inheritable(False)
        return listener

    def address(self, port: int) -> str:
        """Return the address to open, including the token if there is one."""
        name = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{port}/" + (f"?token={quote(self.token)}" if self.token else "")


def limits_from_options(
    max_upload: float, job_memory: float, job_minutes: float, jobs: int
) -> Limits:
    """Return the limits of a server from the options of ``serve``: sizes in GiB, minutes, jobs."""
    from memberbound.faces.web.limits import GIB, Limits

    return Limits(
        upload_bytes=int(positive("max_upload", max_upload) * GIB),
        job_memory_bytes=int(positive("job_memory", job_memory) * GIB),
        job_seconds=60 * positive("job_minutes", job_minutes),
        running=whole_number("jobs", jobs),
    )


def listen(where: Listening, limits: Limits, *, open_browser: bool) -> None:
    """Serve until interrupted; print the address once the server is ready."""
    # Bind before the slow imports, because the port may be in use.
    listener = where.bound()
    import uvicorn

    from memberbound.faces.web.application import application

    app = application(limits, where.policy(), warm=True)
    address = where.address(listener.getsockname()[1])
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        # There is no proxy, so ignore forwarding headers.
        proxy_headers=False,
        # An open page must not delay the shutdown.
        timeout_graceful_shutdown=2,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                print(f"memberbound serves {address} (Ctrl+C ends it)", flush=True)
                if open_browser:  # in a thread: some systems block on the browser
                    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    def leave(number: int, frame: object) -> None:
        del frame
        sys.exit(128 + number)

    # uvicorn shuts down at SIGTERM and SIGINT and then raises the signal again.
    signal.signal(signal.SIGTERM, leave)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    with listener:
        Announced(config).run(sockets=[listener])


def has_display() -> bool:
    """Return whether a browser can open; on Unix, only with a display variable."""
    if sys.platform in ("win32", "darwin", "cygwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
