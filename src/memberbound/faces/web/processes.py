"""Child processes: forked from one that has everything loaded, or fresh ones.

Loading the libraries takes longer than most questions, so on Linux the fork server of
``multiprocessing`` loads them once (:mod:`memberbound.faces.web.preload`) and forks a child per
request.  Where that cannot be had (Windows has no fork; the system libraries of macOS start threads
of their own and break in a forked child) or fails, a child is spawned.

Server and child talk over a socket, in lines of JSON, never pickle: a file that takes over a parser
must not take over the server.  A child leads a process group of its own, with which it is killed,
and ends with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from memberbound.faces.endings import debugging
from memberbound.faces.web.gate import RefusedError

__all__ = ["Processes", "Worker", "kill_group"]

_PRELOAD = "memberbound.faces.web.preload"
_FORKS = sys.platform == "linux"
#: Seconds in which a process must have started, and the fork server loaded everything.
_STARTING = 120.0
#: The exit code that ``multiprocessing`` gives where nobody is left to know it.
_FORK_SERVER_ENDED = 255
#: Starting a process polls all others, and an exit code can be read only once.
_LOCK = threading.Lock()


# ── The server's side ─────────────────────────────────────────────────────────────────────────────


class Worker:
    """A child process, and the server's end of the socket."""

    def __init__(self, pid: int, ended: asyncio.Future[int], kill: Callable[[], None]) -> None:
        self.pid = pid
        self._ended = ended
        self._kill = kill
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal; nothing while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Return the exit code when the child has ended."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> None:
        """Kill the child and all it started, and wait for its end."""
        if not self._ended.done():
            self._kill()
        self.writer.close()
        await self.wait()


def kill_group(pid: int) -> None:
    """Kill a child and all it started."""
    with contextlib.suppress(ProcessLookupError):  # it has no group yet, or all have ended
        os.killpg(pid, signal.SIGKILL)


class Processes:
    """Starts the child processes of one server."""

    def __init__(self, *, forks: bool = _FORKS) -> None:
        self._forks = forks
        self._forked = False

    def warm_up(self) -> None:
        """Load everything before the first request."""
        if self._forks:
            _fork_context()
            from multiprocessing import forkserver

            forkserver.ensure_running()

    async def start(self, module: str, *arguments: int, line: int = 2**20) -> Worker:
        """Start a process that runs ``main`` of a module with its end of the socket.

        ``line`` bounds the lines it may write.
        """
        if self._forks:
            try:
                worker = await _started(_fork_context(), module, arguments, line)
                self._forked = True
                return worker
            except (OSError, EOFError):  # the fork server has ended, or there is no room for more
                # One that has never had a child would not have one at the second try.
                self._forks = self._forked
        return await _started(multiprocessing.get_context("spawn"), module, arguments, line)


def _fork_context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOAD])
    return context


def _settle(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[int], outcome: int | Exception
) -> None:
    """Set the outcome of a future from another thread."""

    def act() -> None:
        if future.done():  # nobody waits any more
            return
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(act)


async def _started(context: Any, module: str, arguments: tuple[int, ...], line: int) -> Worker:
    loop = asyncio.get_running_loop()
    born: asyncio.Future[int] = loop.create_future()
    ended: asyncio.Future[int] = loop.create_future()
    ours, theirs = socket.socketpair()
    # A daemon for this process, which must not wait for it when it ends.
    process = context.Process(target=_live, args=(theirs, module, arguments), daemon=True)

    def follow() -> None:
        try:
            with theirs, _LOCK:
                process.start()
        except Exception as problem:
            _settle(loop, born, problem)
            return
        _settle(loop, born, process.pid)
        wait([process.sentinel])
        with _LOCK:
            process.join()
        if hasattr(os, "killpg"):
            kill_group(process.pid)
            if process.exitcode == _FORK_SERVER_ENDED:  # the child may live on
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        _settle(loop, ended, process.exitcode)

    def kill() -> None:
        if hasattr(os, "killpg"):
            kill_group(process.pid)
        process.kill()

    threading.Thread(target=follow, daemon=True, name="follows a child process").start()
    try:
        async with asyncio.timeout(_STARTING):
            worker = Worker(await born, ended, kill)
        worker.reader, worker.writer = await asyncio.open_connection(sock=ours, limit=line)
    except BaseException as problem:
        # A child that was not told its request ends when the socket does.
        ours.close()
        if isinstance(problem, TimeoutError):
            raise RefusedError(503, "no process could be started here in time.") from None
        raise
    return worker


# ── The child's side ──────────────────────────────────────────────────────────────────────────────


def _live(stream: socket.socket, module: str, arguments: tuple[int, ...]) -> None:
    """Be the child: apart from the server, silent, and gone when the server is."""
    multiprocessing.current_process().daemon = False  # it may start processes of its own
    if hasattr(os, "setsid"):
        os.setsid()
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        for handle in (0, 1) if debugging() else (0, 1, 2):
            os.dup2(nothing.fileno(), handle)
    preloaded = sys.modules.get(_PRELOAD)
    if preloaded is not None:
        preloaded.become_independent()
    threading.Thread(target=_end_with_server, daemon=True).start()
    import_module(module).main(stream, *arguments)


def _end_with_server() -> None:
    server = multiprocessing.parent_process()
    assert server is not None
    server.join()
    if hasattr(os, "killpg"):
        kill_group(os.getpid())
    os._exit(1)
