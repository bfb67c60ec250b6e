"""Starting the server: where it listens, what it prints, and that it leaves nothing behind."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from memberbound.errors import InputError
from memberbound.faces.web.gate import Limits, Policy

__all__ = ["Listening", "has_display", "is_loopback", "listen"]

#: A shorter token could be guessed over a network.
_SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Listening:
    """Where a server listens and who may talk to it."""

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
        """Return whose requests are answered."""
        own = () if is_loopback(self.host) else (socket.gethostname().lower(), self.host.lower())
        everywhere = self.host in ("0.0.0.0", "::")
        return Policy((*own, *(name.lower() for name in self.names)), everywhere, self.token)

    def bound(self) -> socket.socket:
        """Return a socket that listens; port 0 takes a free one."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # Named as TCP, because asyncio sends small answers at once only where it knows that: else
        # every answer on a kept connection waits 40 ms for an acknowledgement.
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
        """Return the address to open; with a token, it carries it once."""
        name = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{port}/" + (f"?token={quote(self.token)}" if self.token else "")


def listen(
    where: Listening,
    limits: Limits,
    *,
    open_browser: bool,
    tell: Callable[[str], None],
) -> None:
    """Serve until interrupted; ``tell`` is given the address once requests are answered."""
    # Before anything is loaded, which takes its time: a port may be taken.
    listener = where.bound()
    import uvicorn

    from memberbound.faces.web.application import application

    app = application(limits, where.policy(), spare=True)
    address = where.address(listener.getsockname()[1])
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        # Nobody stands between: headers that say otherwise are not believed.
        proxy_headers=False,
        # A page that is still open must not hold up the end.
        timeout_graceful_shutdown=2,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                _started(address, open_browser=open_browser, tell=tell)

    def leave(number: int, frame: object) -> None:
        del frame
        sys.exit(128 + number)

    # uvicorn ends in order at SIGTERM and SIGINT and then raises the signal again.
    signal.signal(signal.SIGTERM, leave)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    with listener:
        Announced(config).run(sockets=[listener])


def _started(address: str, *, open_browser: bool, tell: Callable[[str], None]) -> None:
    tell(address)
    if open_browser:
        # Some systems wait for the browser.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def has_display() -> bool:
    """Whether a browser could be shown; on Unix only where a display is named."""
    if sys.platform in ("win32", "darwin", "cygwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
