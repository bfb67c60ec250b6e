"""Child processes seen from the server: one per job, and a few that answer short questions.

Each comes from :mod:`memberbound.faces.web.processes`, has limits, is followed, and is stopped with
all it started; see :mod:`memberbound.faces.web.work` and
:mod:`memberbound.faces.web.answering` for the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from memberbound.declarations import Keywords
from memberbound.errors import InputError, MemberboundError
from memberbound.faces.web.gate import Limits, RefusedError, sized
from memberbound.faces.web.processes import Processes, Worker
from memberbound.faces.web.work import ANSWER, INPUTS, OUTPUTS, SCRATCH, Answer, Request

__all__ = [
    "Calculations",
    "Child",
    "StoppedError",
    "prepared",
]

# ── One child: started with limits, followed, stopped with all it started ─────────────────────────


class StoppedError(MemberboundError):
    """The child ended without an answer, or did not end in time."""


def prepared(folder: Path) -> Path:
    """Make the private folders of a job and return the one of its inputs."""
    folder.mkdir(mode=0o700)
    for name in (INPUTS, OUTPUTS, SCRATCH):
        (folder / name).mkdir(mode=0o700)
    return folder / INPUTS


class Child:
    """One process that performs one request."""

    def __init__(self, process: Worker, limits: Limits) -> None:
        self._process = process
        self._limits = limits

    @classmethod
    async def start(cls, processes: Processes, limits: Limits) -> Child:
        """Start a process that waits for its request."""
        most = (limits.job_memory_bytes, limits.job_disk_bytes, limits.workers)
        return cls(await processes.start("memberbound.faces.web.work", *most), limits)

    async def perform(
        self,
        request: Request,
        seconds: float,
        progress: Callable[[dict[str, object]], None],
    ) -> Answer:
        """Send the request and return the answer.

        Raises:
            InputError: what the verb refused, as one sentence.
            StoppedError: the process died, or the time was up.
        """
        try:
            async with asyncio.timeout(seconds):
                self._process.writer.write(json.dumps(request).encode() + b"\n")
                with contextlib.suppress(ConnectionError):
                    await self._process.writer.drain()
                await self._followed(progress)
        except TimeoutError:
            raise StoppedError(
                f"The job was stopped after {seconds:g} seconds, which is the longest a job may "
                "take here."
            ) from None
        finally:
            await self.stop()
        return await asyncio.to_thread(self._answer, Path(request["folder"]))

    async def _followed(self, progress: Callable[[dict[str, object]], None]) -> None:
        """Read events until the last one."""
        with contextlib.suppress(ConnectionError):
            async for line in self._process.reader:
                event = json.loads(line)
                if "progress" in event:
                    progress(event["progress"])
                elif "error" in event:
                    raise InputError(str(event["error"]))
                else:
                    return
        code = await self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise StoppedError(
            f"The job ended without an answer ({how}); it may have needed more than the "
            f"{sized(self._limits.job_memory_bytes)} of memory that a job may use."
        )

    def _answer(self, folder: Path) -> Answer:
        path = folder / ANSWER
        if path.stat().st_size > self._limits.answer_bytes:
            raise StoppedError(
                f"The job's answer is larger than {sized(self._limits.answer_bytes)}; ask for less."
            )
        answer: Answer = json.loads(path.read_text(encoding="utf-8"))
        return answer

    async def stop(self) -> None:
        """Kill the process and all it started, and wait for its end."""
        await self._process.kill()


# ── Short questions: a few processes answer them, the others wait in turn ─────────────────────────

#: Seconds in which a process must be ready; a busy machine takes its time.
_STARTING = 120.0


async def _staying() -> bool:
    return False


class Calculations:
    """A bounded number of processes and of questions that wait for one."""

    def __init__(self, limits: Limits, processes: Processes) -> None:
        self._limits = limits
        self._processes = processes
        self._turn = asyncio.Semaphore(limits.calculations)
        self._idle: list[Worker] = []
        self._warming: asyncio.Task[None] | None = None
        self._waiting = 0

    async def ask(
        self,
        verb: str,
        options: Keywords,
        gone: Callable[[], Awaitable[bool]] = _staying,
    ) -> dict[str, object]:
        """Return the answer to a question; ``gone`` says whether anybody still wants it."""
        if self._waiting >= self._limits.waiting:
            raise RefusedError(429, "too many questions are waiting here; try again soon.")
        self._waiting += 1
        try:
            async with self._turn:
                if await gone():
                    raise RefusedError(400, "the request was given up.")
                return await self._answered({"verb": verb, "options": options})
        finally:
            self._waiting -= 1

    async def _answered(self, request: dict[str, object]) -> dict[str, object]:
        process = self._idle.pop() if self._idle else None
        if process is None or process.returncode is not None:
            process = await self._started()
        seconds = self._limits.calculation_seconds
        try:
            async with asyncio.timeout(seconds):
                reply = await _exchanged(process, request)
        except TimeoutError:
            await process.kill()
            raise InputError(
                f"the question must be answerable within {seconds:g} seconds here, got one that "
                "takes longer. The command line has no such limit."
            ) from None
        except BaseException:
            await process.kill()
            raise
        self._idle.append(process)
        if "error" in reply:
            raise InputError(reply["error"])
        answer: dict[str, object] = reply["answer"]
        return answer

    async def _started(self) -> Worker:
        """Start a process and wait until it is ready, which does not count as time to answer."""
        memory = self._limits.calculation_memory_bytes
        most = self._limits.answer_bytes
        module = "memberbound.faces.web.answering"
        process = await self._processes.start(module, memory, line=most)
        try:
            async with asyncio.timeout(_STARTING):
                ready = await process.reader.readline()
        except BaseException:
            await process.kill()
            raise
        if not ready:
            await process.kill()
            raise RefusedError(503, "no process for calculations could be started here.")
        return process

    def warm_up(self) -> None:
        """Start a process before the first question."""

        async def start() -> None:
            self._idle.append(await self._started())

        self._warming = asyncio.get_running_loop().create_task(start())

    async def close(self) -> None:
        """End the processes."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        while self._idle:
            await self._idle.pop().kill()


async def _exchanged(process: Worker, request: dict[str, object]) -> Keywords:
    try:
        process.writer.write(json.dumps(request).encode() + b"\n")
        await process.writer.drain()
        line = await process.reader.readline()
    except (ConnectionError, ValueError):  # it died, or its line is longer than allowed
        line = b""
    if not line:
        raise InputError("the question must need less memory; choose less extreme values.")
    reply: Keywords = json.loads(line)
    return reply
