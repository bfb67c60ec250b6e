"""Short questions, seen from the server: a few processes answer them, the others wait in turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from memberbound.errors import InputError
from memberbound.faces.web.child import killed, spawned
from memberbound.faces.web.limits import Limits
from memberbound.faces.web.refusals import RefusedError

__all__ = ["Calculations"]

#: Seconds in which a process must be ready; a busy machine takes its time.
_STARTING = 120.0


async def _staying() -> bool:
    return False


class Calculations:
    """A bounded number of processes and of questions that wait for one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._turn = asyncio.Semaphore(limits.calculations)
        self._idle: list[asyncio.subprocess.Process] = []
        self._warming: asyncio.Task[None] | None = None
        self._waiting = 0

    async def ask(
        self,
        verb: str,
        options: dict[str, Any],
        gone: Callable[[], Awaitable[bool]] = _staying,
    ) -> dict[str, Any]:
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

    async def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._idle.pop() if self._idle else None
        if process is None or process.returncode is not None:
            process = await self._started()
        seconds = self._limits.calculation_seconds
        try:
            async with asyncio.timeout(seconds):
                reply = await _exchanged(process, request)
        except TimeoutError:
            await killed(process)
            raise InputError(
                f"the question must be answerable within {seconds:g} seconds here, got one that "
                "takes longer. The command line has no such limit."
            ) from None
        except BaseException:
            await killed(process)
            raise
        self._idle.append(process)
        if "error" in reply:
            raise InputError(reply["error"])
        answer: dict[str, Any] = reply["answer"]
        return answer

    async def _started(self) -> asyncio.subprocess.Process:
        """Start a process and wait until it is ready, which does not count as time to answer."""
        memory = str(self._limits.calculation_memory_bytes)
        process = await spawned(
            "memberbound.faces.web.answering", memory, line=self._limits.answer_bytes
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(_STARTING):
                ready = await process.stdout.readline()
        except BaseException:
            await killed(process)
            raise
        if not ready:
            await killed(process)
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
            await killed(self._idle.pop())


async def _exchanged(
    process: asyncio.subprocess.Process, request: dict[str, Any]
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
    except (ConnectionError, ValueError):  # it died, or its line is longer than allowed
        line = b""
    if not line:
        raise InputError("the question must need less memory; choose less extreme values.")
    reply: dict[str, Any] = json.loads(line)
    return reply
