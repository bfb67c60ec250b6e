"""Where child processes come from: a process that has everything loaded is forked for each.

Loading the libraries takes longer than most questions, so one process does it once and forks a
child per request, which starts at once and shares the memory of what is loaded.  A fork copies only
the thread that asks for it, so nothing but imports runs in the parent: no thread, no engine, no
linear algebra.  Where that cannot be had (Windows has no fork; the system libraries of macOS start
threads of their own and break in a forked child) or fails, a child is a fresh process.

Between server and nursery runs a socket that keeps messages apart, JSON in both directions:

* in: ``{"fork": number, "kind", "arguments"}`` with the socket that becomes the child's standard
  input and output, and ``{"kill": number}``;
* out: ``{"born": number, "pid"}`` or ``{"failed": number}``, and ``{"ended": number, "code"}``.

When the server is gone, its side of the socket closes, and the nursery ends with all its children.
When the nursery is gone, the server ends them, and the next request starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Literal, NoReturn

from memberbound.faces.endings import debugging

__all__ = ["Forked", "Nursery", "Process", "killed", "main"]

Kind = Literal["work", "answering"]
#: Longest message between server and nursery.
_MESSAGE = 4096
#: Seconds in which a nursery must have loaded everything; a busy machine takes its time.
_LOADING = 120.0
_FORKS = sys.platform == "linux"


# ── The server's side ─────────────────────────────────────────────────────────────────────────────


class Forked:
    """A child of the nursery, with what is used of ``asyncio.subprocess.Process``."""

    def __init__(
        self, nursery: _Running, number: int, pid: int, ended: asyncio.Future[int]
    ) -> None:
        self._nursery = nursery
        self._number = number
        self._ended = ended
        self.pid = pid
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal; nothing while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Return the exit code when the child has ended."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill the child and all it started.

        The nursery does it, which alone knows for sure that the number is still this child's.
        """
        self._nursery.send({"kill": self._number})


Process = Forked | asyncio.subprocess.Process


async def killed(process: Process) -> None:
    """Kill a process and all it started, and wait for its end."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if isinstance(process, Forked) or not hasattr(os, "killpg"):
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


async def _spawned(module: str, *arguments: str, **streams: Any) -> asyncio.subprocess.Process:
    """Start a module of ours as a process."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", f"memberbound.faces.web.{module}", *arguments),
        stderr=None if debugging() else asyncio.subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "MEMBERBOUND_TOKEN"},
        # A group of its own, so that it can be stopped with everything it starts.
        start_new_session=True,
        **streams,
    )


class _Running:
    """One nursery that was started, and its children."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._numbers = count()
        self._births: dict[int, asyncio.Future[int]] = {}
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._pids: dict[int, int] = {}
        #: Whether it has ever had a child; one that has not is not worth a second try.
        self.fertile = False
        self.alive = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._hear)

    @classmethod
    async def start(cls) -> _Running:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                process = await _spawned("nursery", stdin=theirs, stdout=asyncio.subprocess.DEVNULL)
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(process, ours)

    def send(self, message: dict[str, object], *handles: int) -> None:
        """Send a message; one that is gone or does not listen is lost."""
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], list(handles))
        except OSError:
            self.lose()

    def _hear(self) -> None:
        while self.alive:
            try:
                message = self._control.recv(_MESSAGE)
            except BlockingIOError:
                return
            except ConnectionError:
                message = b""
            if not message:
                self.lose()
                return
            event = json.loads(message)
            if "born" in event:
                self.fertile = True
                self._pids[event["born"]] = event["pid"]
                _set(self._births.pop(event["born"]), event["pid"])
            elif "failed" in event:
                self._ends.pop(event["failed"])
                _set(self._births.pop(event["failed"]), 0)
            else:
                self._pids.pop(event["ended"], None)
                _set(self._ends.pop(event["ended"]), event["code"])

    async def fork(self, kind: Kind, arguments: tuple[int, ...], line: int) -> Forked | None:
        """Return a new child; nothing where there can be none."""
        if not self.alive:
            return None
        ours, theirs = socket.socketpair()
        number = next(self._numbers)
        birth = self._births[number] = self._loop.create_future()
        end = self._ends[number] = self._loop.create_future()
        try:
            with theirs:
                asked: dict[str, object] = {"fork": number, "kind": kind, "arguments": arguments}
                self.send(asked, theirs.fileno())
            pid = await birth
            if not pid:
                ours.close()
                return None
            child = Forked(self, number, pid, end)
            child.stdout, child.stdin = await asyncio.open_connection(sock=ours, limit=line)
        except BaseException:
            # A child that was not told its request ends when its standard input does.
            ours.close()
            raise
        return child

    def lose(self) -> None:
        """Count it and all its children as gone, and see to it that they are."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control)
        self._control.close()
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for birth in self._births.values():
            _set(birth, 0)
        for end in self._ends.values():
            _set(end, -signal.SIGKILL)

    async def close(self) -> None:
        """End it with all its children, and wait for that."""
        self.lose()
        # It would end by itself now that its socket is closed; but perhaps it is still loading.
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _set(future: asyncio.Future[int], value: int) -> None:
    if not future.done():  # somebody may have given up waiting
        future.set_result(value)


class Nursery:
    """Starts processes for one server: forks where that is possible, else fresh ones."""

    def __init__(self, *, forks: bool = _FORKS) -> None:
        self._forks = forks
        self._running: asyncio.Task[_Running] | None = None

    def warm_up(self) -> None:
        """Load everything before the first request."""
        if self._forks and self._running is None:
            self._running = asyncio.get_running_loop().create_task(_Running.start())

    async def process(self, kind: Kind, *arguments: int, line: int = 2**20) -> Process:
        """Start a process with pipes; ``line`` bounds the lines it may write."""
        while self._forks:
            self.warm_up()
            assert self._running is not None
            task = self._running
            try:
                # Shielded: one request that is given up must not stop it for the others.
                running = await asyncio.shield(task)
            except OSError:
                self._running = None
                break
            try:
                async with asyncio.timeout(_LOADING):
                    child = await running.fork(kind, arguments, line)
                if child is not None:
                    return child
            except TimeoutError:
                running.lose()
            except OSError:
                break
            if running.alive:
                break  # no memory or no number for one more process: perhaps for a fresh one
            await running.close()
            if self._running is task:
                self._running = None
                if not running.fertile:
                    self._forks = False
        pipe = asyncio.subprocess.PIPE
        words = (str(argument) for argument in arguments)
        return await _spawned(kind, *words, stdin=pipe, stdout=pipe, limit=line)

    async def close(self) -> None:
        """End everything that was forked."""
        self._forks = False
        if self._running is not None:
            with contextlib.suppress(OSError):
                await (await self._running).close()


# ── The nursery's side ────────────────────────────────────────────────────────────────────────────

#: What keeps libraries from starting threads and from taking memory in advance, while they load.
#: Memory in advance would count against the limit of every child.
_QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    kept = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def loaded() -> list[Any]:
    """Import everything, without a thread, and return the random generators that this made."""
    with _quiet():
        from memberbound.faces.web.verbs import load_all

        load_all()
    from numpy.random import BitGenerator

    gc.collect()
    kinds = (BitGenerator, random.Random)
    found = [thing for thing in gc.get_objects() if issubclass(type(thing), kinds)]
    # Collecting garbage writes to what it looks at, which would then no longer be shared.
    gc.freeze()
    return found


def renewed(generators: list[Any]) -> None:
    """Give a forked child coins of its own: those of its siblings start from the same state.

    Noise of releases comes from the operating system, which keeps no state here; but learners and
    libraries draw from generators that were made by importing them.
    """
    for generator in generators:
        if isinstance(generator, random.Random):
            generator.seed()
        else:
            generator.state = type(generator)().state


def _as_many_threads_as_otherwise() -> None:
    """Let linear algebra use the cores that it uses in a fresh process."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    given = (os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    counts = [int(text) for text in given if text.isdigit() and int(text) > 0]
    threadpool_limits([*counts, len(os.sched_getaffinity(0))][0], user_api="blas")


def _end(pid: int) -> None:
    """Kill a child and all it started; while it is not waited for, the number is its own."""
    with contextlib.suppress(ProcessLookupError):  # it has no group yet
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT if _FORKS else 0


class _Parent:
    """The process that forks: one thread, which waits for messages and for ends of children."""

    def __init__(self, control: socket.socket, generators: list[Any]) -> None:
        self._control = control
        self._generators = generators
        self._children: dict[int, int] = {}  # pid → number
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Do what is asked until the server is gone; then end with all children."""
        poll = select.poll()
        for source in (self._control.fileno(), self._woken):
            poll.register(source, select.POLLIN)
        with contextlib.suppress(ConnectionError):
            while True:
                ready = {source for source, _ in poll.poll()}
                if self._woken in ready:
                    os.read(self._woken, _MESSAGE)
                self._bury()
                if self._control.fileno() in ready and not self._heard():
                    break
        for pid in self._children:
            _end(pid)
        os._exit(0)

    def _heard(self) -> bool:
        """Do what one message asks; false when there will be no more."""
        message, handles, _, _ = socket.recv_fds(self._control, _MESSAGE, 1)
        if not message:
            return False
        asked = json.loads(message)
        for handle in handles:
            self._fork(asked["fork"], asked["kind"], asked["arguments"], handle)
        for pid in [pid for pid, number in self._children.items() if number == asked.get("kill")]:
            _end(pid)
        return True

    def _fork(self, number: int, kind: Kind, arguments: list[int], handle: int) -> None:
        try:
            # A library may start a thread after all: what it has locked would stay so in a child.
            alone = len([*Path("/proc/self/task").iterdir()]) == 1
            pid = os.fork() if alone else -1
        except OSError:
            pid = -1
        if pid == 0:
            self._live(kind, arguments, handle)
        os.close(handle)
        if pid < 0:
            self._tell({"failed": number})
        else:
            self._children[pid] = number
            self._tell({"born": number, "pid": pid})

    def _live(self, kind: Kind, arguments: list[int], handle: int) -> NoReturn:
        """Be the child: what a fresh process would be, but for its libraries."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(handle, 0)
            os.dup2(handle, 1)
            for own in (self._control.detach(), self._woken, self._waker, handle):
                os.close(own)
            renewed(self._generators)
            _as_many_threads_as_otherwise()
            import_module(f"memberbound.faces.web.{kind}").main(*arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def _bury(self) -> None:
        """Tell the ends of children, and end what they leave."""
        while self._children and (found := os.waitid(os.P_ALL, 0, _ENDED)) is not None:
            _end(found.si_pid)
            _, status = os.waitpid(found.si_pid, 0)
            code = os.waitstatus_to_exitcode(status)
            self._tell({"ended": self._children.pop(found.si_pid), "code": code})

    def _tell(self, event: dict[str, object]) -> None:
        self._control.send(json.dumps(event).encode())


def main() -> None:
    """Load everything, then fork a child per request until the server is gone."""
    control = socket.socket(fileno=os.dup(0))
    _Parent(control, loaded()).run()


if __name__ == "__main__":
    main()
