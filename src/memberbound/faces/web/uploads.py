"""Tables and models that people send: streamed to private files, inspected, kept, forgotten."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from memberbound.errors import InputError
from memberbound.faces.web.child import INPUTS, OUTPUTS, SCRATCH, Request
from memberbound.faces.web.inspection import Inspection, ending_of
from memberbound.faces.web.processes import Processes, perform
from memberbound.faces.web.server_limits import Limits, RefusedError, sized

__all__ = ["Upload", "Uploads", "make_folders", "shown_name"]

#: Uploads that are received at the same time; the others wait.
_RECEIVED_AT_ONCE = 4


@dataclass(frozen=True)
class Upload:
    """One table or model: its id, what its owner calls it, where it lies, what is in it."""

    file: str
    name: str
    path: Path
    bytes: int
    rows: int | None
    columns: list[dict[str, object]]

    @property
    def plain_name(self) -> str:
        """The given name as far as it is letters, digits and dashes, for reports that quote it."""
        ending = ending_of(self.path.name)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name[: -len(ending)]).strip("-")[:60]
        return f"{stem or 'table'}{ending}"


class Uploads:
    """The uploads of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits, processes: Processes) -> None:
        self._folder = folder
        self._limits = limits
        self._processes = processes
        self._uploads: dict[str, Upload] = {}
        self._receiving = asyncio.Semaphore(_RECEIVED_AT_ONCE)
        self._looking = asyncio.Semaphore(limits.calculations)
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Upload:
        try:
            return self._uploads[id]
        except KeyError:
            raise RefusedError(
                404, "file must be the id of an upload that is still kept, got another."
            ) from None

    def delete(self, id: str) -> None:
        """Forget an upload; jobs that started with it keep their own link to it."""
        upload = self[id]
        del self._uploads[id]
        shutil.rmtree(upload.path.parents[1], ignore_errors=True)

    async def add(self, name: str, stream: AsyncIterator[bytes]) -> Upload:
        """Store a stream of bytes as a table or a model, or refuse it and keep nothing."""
        shown = shown_name(name)
        ending = ending_of(shown)
        id = secrets.token_urlsafe(16)
        folder = self._folder / id
        try:
            path = make_folders(folder) / f"table{ending}"
            async with self._receiving:
                size = await self._stored(stream, path)
            async with self._looking:
                content = await self._inspected(folder, path, shown)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        upload = Upload(id, shown, path, size, content["rows"], content["columns"])
        self._uploads[id] = upload
        while len(self._uploads) > self._limits.kept_files:
            self.delete(next(iter(self._uploads)))
        return upload

    async def _stored(self, stream: AsyncIterator[bytes], path: Path) -> int:
        size = 0
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            while True:
                try:
                    async with asyncio.timeout(self._limits.silence_seconds):
                        block = await anext(stream, None)
                except TimeoutError:
                    raise RefusedError(408, "the upload stopped; try it again.") from None
                if block is None:
                    break
                size += len(block)
                if size > self._limits.upload_bytes:
                    raise RefusedError(
                        413,
                        f"the file must be at most {sized(self._limits.upload_bytes)}, got more. "
                        "The command line has no such limit.",
                    )
                await asyncio.to_thread(file.write, block)
        if size == 0:
            raise InputError("the file must hold a table, got an empty file.")
        return size

    async def _inspected(self, folder: Path, path: Path, shown: str) -> Inspection:
        ours = f"../{INPUTS}/{path.name}"
        request: Request = {
            "verb": "inspect",
            "folder": str(folder),
            "table": ours,
            "options": {
                "rows": self._limits.rows,
                "columns": self._limits.columns,
                "unpacked": self._limits.unpacked_bytes,
            },
            "names": {ours: shown},
        }
        seconds = self._limits.inspection_seconds
        content = await perform(self._processes, self._limits, {**request}, seconds)
        shutil.rmtree(folder / OUTPUTS, ignore_errors=True)
        return Inspection(rows=content["rows"], columns=content["columns"])


def make_folders(folder: Path) -> Path:
    """Make the private folders of a job and return the one of its inputs."""
    folder.mkdir(mode=0o700)
    for name in (INPUTS, OUTPUTS, SCRATCH):
        (folder / name).mkdir(mode=0o700)
    return folder / INPUTS


def shown_name(name: str) -> str:
    """Return the last part of a name, without anything a terminal or a path would act on."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable())[-200:].lstrip()
