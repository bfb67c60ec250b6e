"""Child processes seen from the server: one per job, and a few that answer short questions.

Loading the libraries takes longer than most questions, so on Linux the fork server of
``multiprocessing`` loads them once (:mod:`memberbound.faces.web.preload`) and forks a child per
request.  Where that is impossible (Windows has no fork; the system libraries of macOS start threads
of their own and break in a forked child) or fails, a child is spawned.

Server and child talk over a socket, in lines of JSON, never pickle: a file that takes over a parser
must not take over the server.  A child leads a process group of its own, with which it is killed,
and ends with the server.  :mod:`memberbound.faces.web.child` is the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from memberbound.declarations import Keywords
from memberbound.errors import InputError, MemberboundError, positive, whole_number
from memberbound.faces.endings import debugging

_CHILD = "memberbound.faces.web.child"
_PRELOAD = "memberbound.faces.web.preload"
_FORKS = sys.platform == "linux"
#: Seconds in which a process must be ready, and the fork server have loaded everything.
_STARTING = 120.0
#: The exit code that ``multiprocessing`` reports when the fork server has ended.
_FORK_SERVER_ENDED = 255
#: Starting a process polls all others, and an exit code can be read only once.
_LOCK = threading.Lock()

Event = dict[str, object]


# ── How much one server gives away, and how it refuses a request ──────────────────────────────────

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


class RefusedError(MemberboundError):
    """A request that is answered with a status of its own and ``{"error": sentence}``."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


# ── A child process ───────────────────────────────────────────────────────────────────────────────


class EndedError(MemberboundError):
    """A child ended without an answer, or its answer is too large."""


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
        """The exit code, or minus the signal; ``None`` while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def ask(
        self, request: Keywords, progress: Callable[[Event], None] = lambda _: None
    ) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            InputError: what the child refused, as one sentence.
            EndedError: the child ended, or its answer is longer than a line may be.
        """
        with contextlib.suppress(ConnectionError):
            self.writer.write(json.dumps(request).encode() + b"\n")
            await self.writer.drain()
            try:
                async for line in self.reader:
                    event = json.loads(line)
                    if "progress" in event:
                        progress(event["progress"])
                    elif "error" in event:
                        raise InputError(str(event["error"]))
                    else:
                        answer: dict[str, Any] = event["answer"]
                        return answer
            except ValueError as problem:  # the stream's, for a line over the limit
                if isinstance(problem, InputError):
                    raise
                raise EndedError("the answer is too large") from None
        code = await self.wait()
        raise EndedError(f"signal {-code}" if code < 0 else f"exit code {code}")

    async def wait(self) -> int:
        """Return the exit code when the child has ended."""
        return await asyncio.shield(self._ended)

    async def kill(self) -> None:
        """Kill the child and all it started, and wait for its end."""
        if not self._ended.done():
            self._kill()
        self.writer.close()
        await self.wait()


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

    async def start(self, *arguments: int, module: str = _CHILD, line: int = 2**20) -> Worker:
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


async def _started(context: Any, module: str, arguments: tuple[int, ...], line: int) -> Worker:
    """Start a process, and return when it has imported its module."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[int] = loop.create_future()
    ended: asyncio.Future[int] = loop.create_future()
    ours, theirs = socket.socketpair()
    # A daemon for this process, which must not wait for it when it ends.
    process = context.Process(target=_run_child, args=(theirs, module, arguments), daemon=True)

    def follow() -> None:
        try:
            with theirs, _LOCK:
                process.start()
        except Exception as problem:
            _settle(loop, started, problem)
            return
        _settle(loop, started, process.pid)
        wait([process.sentinel])
        with _LOCK:
            process.join()
        _kill_group(process.pid)
        if process.exitcode == _FORK_SERVER_ENDED:  # the child may live on
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        _settle(loop, ended, process.exitcode)

    def kill() -> None:
        _kill_group(process.pid)
        process.kill()

    threading.Thread(target=follow, daemon=True, name="follows a child process").start()
    try:
        async with asyncio.timeout(_STARTING):
            worker = Worker(await started, ended, kill)
            worker.reader, worker.writer = await asyncio.open_connection(sock=ours, limit=line)
            ready = await worker.reader.readline()
    except BaseException as problem:
        # A child without a request ends when the socket does.
        ours.close()
        if isinstance(problem, TimeoutError):
            raise RefusedError(503, "no process could be started here in time.") from None
        raise
    if not ready:
        await worker.kill()
        raise RefusedError(503, "no process could be started here.")
    return worker


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


def _kill_group(pid: int) -> None:
    """Kill a child and all it started, where the system has process groups."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):  # it has no group yet, or all have ended
            os.killpg(pid, signal.SIGKILL)


# ── Jobs and questions ────────────────────────────────────────────────────────────────────────────


async def perform(
    processes: Processes,
    limits: Limits,
    request: Keywords,
    seconds: float,
    progress: Callable[[Event], None] = lambda _: None,
) -> dict[str, Any]:
    """Return the answer of a process of its own, which has ended then.

    Raises:
        InputError: what the verb refused, as one sentence.
        EndedError: the process died, or the time was up.
    """
    memory, disk, workers = limits.job_memory_bytes, limits.job_disk_bytes, limits.workers
    worker = await processes.start(memory, disk, workers, line=limits.answer_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await worker.ask(request, progress)
    except TimeoutError:
        raise EndedError(
            f"The job was stopped after {seconds:g} seconds, which is the longest a job may take "
            "here."
        ) from None
    except EndedError as problem:
        raise EndedError(
            f"The job ended without an answer ({problem}); it may have needed more than the "
            f"{sized(memory)} of memory that a job may use."
        ) from None
    finally:
        await worker.kill()


async def _never_left() -> bool:
    return False


class Calculations:
    """A bounded number of processes, and of questions that wait for one."""

    def __init__(self, limits: Limits, processes: Processes) -> None:
        self._limits = limits
        self._processes = processes
        self._turn = asyncio.Semaphore(limits.calculations)
        self._idle: list[Worker] = []
        self._warming: asyncio.Task[None] | None = None
        self._waiting = 0

    async def ask(
        self, verb: str, options: Keywords, left: Callable[[], Awaitable[bool]] = _never_left
    ) -> dict[str, Any]:
        """Return the answer to a question; ``left`` says whether nobody wants it any more."""
        if self._waiting >= self._limits.waiting:
            raise RefusedError(429, "too many questions are waiting here; try again soon.")
        self._waiting += 1
        try:
            async with self._turn:
                if await left():
                    raise RefusedError(400, "the request was given up.")
                return await self._answer({"verb": verb, "options": options})
        finally:
            self._waiting -= 1

    async def _answer(self, request: Keywords) -> dict[str, Any]:
        worker = self._idle.pop() if self._idle else None
        if worker is None or worker.returncode is not None:
            worker = await self._start()
        seconds = self._limits.calculation_seconds
        reusable = False
        try:
            async with asyncio.timeout(seconds):
                answer = await worker.ask(request)
            reusable = True
            return answer
        except InputError:
            reusable = True
            raise
        except TimeoutError:
            raise InputError(
                f"the question must be answerable within {seconds:g} seconds here, got one that "
                "takes longer. The command line has no such limit."
            ) from None
        except EndedError:
            raise InputError(
                "the question must need less memory; choose less extreme values."
            ) from None
        finally:
            if reusable:
                self._idle.append(worker)
            else:
                await worker.kill()

    async def _start(self) -> Worker:
        """Start a process that writes no file."""
        limits = self._limits
        memory = limits.calculation_memory_bytes
        return await self._processes.start(memory, 0, 1, line=limits.answer_bytes)

    def warm_up(self) -> None:
        """Start a process before the first question."""

        async def start() -> None:
            self._idle.append(await self._start())

        self._warming = asyncio.get_running_loop().create_task(start())

    async def close(self) -> None:
        """End the processes."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        while self._idle:
            await self._idle.pop().kill()


# ── The beginning of a child ──────────────────────────────────────────────────────────────────────


def _run_child(stream: socket.socket, module: str, arguments: tuple[int, ...]) -> None:
    """Run a module in the child: apart from the server, silent, and ended when the server is."""
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
    main = import_module(module).main
    stream.sendall(b"\n")  # ready
    main(stream, *arguments)


def _end_with_server() -> None:
    server = multiprocessing.parent_process()
    assert server is not None
    server.join()
    _kill_group(os.getpid())
    os._exit(1)
