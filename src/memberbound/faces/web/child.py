"""A child process seen from the server: started with limits, followed, stopped with all it started.

See :mod:`memberbound.faces.web.work` for the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memberbound.errors import InputError, MemberboundError
from memberbound.faces.web.limits import Limits, sized
from memberbound.faces.web.work import ANSWER, INPUTS, OUTPUTS, SCRATCH

__all__ = ["Child", "StoppedError", "killed", "prepared", "spawned"]

#: Longest line of the protocol.
_LINE = 2**20


class StoppedError(MemberboundError):
    """The child ended without an answer, or did not end in time."""


def prepared(folder: Path) -> Path:
    """Make the private folders of a job and return the one of its inputs."""
    folder.mkdir(mode=0o700)
    for name in (INPUTS, OUTPUTS, SCRATCH):
        (folder / name).mkdir(mode=0o700)
    return folder / INPUTS


async def spawned(module: str, *arguments: str, line: int = _LINE) -> asyncio.subprocess.Process:
    """Start a module of ours as a process with pipes; ``line`` bounds the lines it may write."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if os.environ.get("MEMBERBOUND_TRACE") else asyncio.subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "MEMBERBOUND_TOKEN"},
        # A group of its own, so that it can be stopped with everything it starts.
        start_new_session=True,
        limit=line,
    )


async def killed(process: asyncio.subprocess.Process) -> None:
    """Kill a process and all it started, and wait for its end."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


class Child:
    """One process that performs one request."""

    def __init__(self, process: asyncio.subprocess.Process, limits: Limits) -> None:
        self._process = process
        self._limits = limits

    @classmethod
    async def start(cls, limits: Limits, *, warm: bool = False) -> Child:
        """Start a process that waits for its request."""
        process = await spawned(
            "memberbound.faces.web.work",
            *(str(limits.job_memory_bytes), str(limits.job_disk_bytes), str(int(warm))),
        )
        return cls(process, limits)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def perform(
        self,
        request: dict[str, Any],
        seconds: float,
        progress: Callable[[dict[str, Any]], None],
    ) -> dict[str, Any]:
        """Send the request and return the answer.

        Raises:
            InputError: what the verb refused, as one sentence.
            StoppedError: the process died, or the time was up.
        """
        assert self._process.stdin is not None
        try:
            async with asyncio.timeout(seconds):
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                with contextlib.suppress(ConnectionError):
                    await self._process.stdin.drain()
                await self._followed(progress)
        except TimeoutError:
            raise StoppedError(
                f"The job was stopped after {seconds:g} seconds, which is the longest a job may "
                "take here."
            ) from None
        finally:
            await self.stop()
        return await asyncio.to_thread(self._answer, Path(request["folder"]))

    async def _followed(self, progress: Callable[[dict[str, Any]], None]) -> None:
        """Read events until the last one."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
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

    def _answer(self, folder: Path) -> dict[str, Any]:
        path = folder / ANSWER
        if path.stat().st_size > self._limits.answer_bytes:
            raise StoppedError(
                f"The job's answer is larger than {sized(self._limits.answer_bytes)}; ask for less."
            )
        answer: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return answer

    async def stop(self) -> None:
        """Kill the process and all it started, and wait for its end."""
        await killed(self._process)
