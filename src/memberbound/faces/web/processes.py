"""Send requests to child processes, one process per request.

Loading the libraries takes longer than most questions, so on Linux the fork server of
``multiprocessing`` loads them once (:mod:`memberbound.faces.web.preload`) and forks a child per
request.  Elsewhere a child is spawned: Windows has no fork, and the system libraries of macOS start
threads and break in a forked child.

Server and child exchange JSON, never pickle: a file that exploits a parser must not take over the
server.  A child leads its own process group, which is killed as a whole, and ends with the server.
:mod:`memberbound.faces.web.child` is the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from memberbound.errors import InputError, MemberboundError
from memberbound.faces.web import child
from memberbound.faces.web.limits import Limits, format_size

#: Starting a process polls all others, and an exit code can be read only once; hence a lock.
_LOCK = threading.Lock()

Event = dict[str, object]
T = TypeVar("T")
#: Returns once the client has disconnected.
Left = Callable[[], Awaitable[object]]


class RefusedError(MemberboundError):
    """A refused request, answered with its own status and ``{"error": sentence}``."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class EndedError(MemberboundError):
    """A child ended without an answer, took too long, or its answer is too large."""


def _context() -> SpawnContext | ForkServerContext:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["memberbound.faces.web.preload"])
    return context


def warm_up() -> None:
    """Load the libraries before the first request."""
    if sys.platform == "linux":
        _context()
        from multiprocessing import forkserver

        forkserver.ensure_running()


async def perform(
    request: child.Request,
    limits: Limits,
    seconds: float,
    progress: Callable[[Event], None] = lambda _: None,
) -> dict[str, object]:
    """Run a request in a new process and return its answer after the process has ended.

    ``seconds`` count from the start of the process, which may wait for libraries to load;
    ``progress`` is called from another thread.

    Raises:
        InputError: the verb rejected the input.
        EndedError: the process died or exceeded its time limit.
    """
    context = _context()
    ours, theirs = context.Pipe()
    arguments = (theirs, limits.job_memory_bytes, limits.job_disk_bytes)
    # A daemon, so that this process does not wait for it on exit.
    process = context.Process(target=child.main, args=arguments, daemon=True)
    given_up = threading.Event()
    loop = asyncio.get_running_loop()
    started: asyncio.Future[None] = loop.create_future()

    def converse() -> dict[str, object]:
        try:
            with theirs, _LOCK:
                process.start()
            loop.call_soon_threadsafe(started.set_result, None)
            if given_up.is_set():
                raise EOFError
            ours.send_bytes(json.dumps(request).encode())
            return _answer(ours, limits.answer_bytes, progress)
        finally:
            ours.close()
            _kill(process)
            with _LOCK:
                process.join()

    work = asyncio.create_task(asyncio.to_thread(converse))
    try:
        await asyncio.wait((work, started), return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(seconds):
            return await asyncio.shield(work)
    except TimeoutError:
        raise EndedError(
            f"This was stopped after {seconds:g} seconds, the time limit here. "
            "The command line has no such limit."
        ) from None
    except (EOFError, OSError) as problem:
        memory = format_size(limits.job_memory_bytes)
        raise EndedError(
            f"This ended without an answer; it may have needed more than the {memory} of memory "
            "that it may use here, or its answer is too large."
        ) from problem
    finally:
        given_up.set()
        if not work.done():
            _kill(process)
            await asyncio.wait([work])
            work.exception()  # retrieve the expected error of abandoned work


async def unless_left(left: Left, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``; cancel it as soon as the client disconnects.

    Raises:
        RefusedError: the client disconnected first, so the answer is discarded.
    """
    task, watch = asyncio.create_task(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise RefusedError(400, "the request was abandoned.")
        return task.result()
    finally:
        for waiting in (task, watch):
            waiting.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


def _answer(
    stream: Connection, longest: int, progress: Callable[[Event], None]
) -> dict[str, object]:
    """Read events until the answer, or raise the error of the child."""
    while True:
        event = json.loads(stream.recv_bytes(longest))
        if "progress" in event:
            progress(event["progress"])
        elif "error" in event:
            raise InputError(str(event["error"]))
        else:
            answer: dict[str, object] = event["answer"]
            return answer


def _kill(process: BaseProcess) -> None:
    """Kill a child and its process group, if the system supports groups."""
    if process.pid is not None:
        if hasattr(os, "killpg"):
            # The group does not exist yet, or has ended.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
