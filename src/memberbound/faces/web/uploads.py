"""Store uploaded tables and models in private files, inspect them, and forget the oldest.

A child process with limits on memory, disk and time opens a table once, with the reader of all
verbs, and reports its rows and columns or the reason for refusing it.  Inspections have separate
slots, so that a slow file delays neither questions nor jobs, and end when the client disconnects.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memberbound.errors import InputError
from memberbound.faces.web.child import INPUTS, OUTPUTS, SCRATCH, Request
from memberbound.faces.web.limits import Limits, format_size
from memberbound.faces.web.processes import Left, RefusedError, perform, unless_left
from memberbound.files import codec_named
from memberbound.tables.source import CONVERSIONS, FOREIGN_ENDINGS

_TEXTS = (".csv", ".tsv", ".csv.gz")
_WORKBOOKS = (".xlsx", ".xlsm")
_TABLES = (*_TEXTS, ".parquet", ".arrow", ".feather", *FOREIGN_ENDINGS)
#: Model formats that execute no code when read; others are for the command line only.
_MODELS = (".skops", ".onnx")
#: Releases, certificates and ledgers, which are read as data in the job.
_RECORDS = (".json", ".safetensors")


@dataclass(frozen=True)
class Upload:
    """One table or model: its id, the user's name for it, its path and its contents."""

    file: str
    name: str
    path: Path
    bytes: int
    rows: int | None
    columns: list[dict[str, str]]
    encoding: str | None = None
    sheet: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether it is a CSV file."""
        return ending_of(self.path.name) in _TEXTS

    @property
    def plain_name(self) -> str:
        """The given name reduced to letters, digits and dashes, for quoting in reports."""
        ending = ending_of(self.path.name)
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", self.name[: -len(ending)]).strip("-")[:60]
        return f"{stem or 'table'}{ending}"

    def to_dict(self) -> dict[str, object]:
        """Return the upload for its owner; a model has no rows and no columns."""
        return {name: value for name, value in vars(self).items() if name != "path"}


class Uploads:
    """The uploads of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._turn = asyncio.Semaphore(limits.inspections)
        self._uploads: dict[str, Upload] = {}
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Upload:
        try:
            return self._uploads[id]
        except KeyError:
            raise RefusedError(
                404, "file must be the id of an upload that is still kept, got another."
            ) from None

    def delete(self, id: str) -> None:
        """Delete an upload; jobs that use it keep their own link."""
        upload = self[id]
        del self._uploads[id]
        shutil.rmtree(upload.path.parents[1], ignore_errors=True)

    async def add(
        self,
        name: str,
        stream: AsyncIterator[bytes],
        left: Left,
        encoding: str = "",
        sheet: str = "",
    ) -> Upload:
        """Store a stream of bytes as a table or a model; a refused one leaves nothing behind.

        ``left`` is awaited after the stream has ended, and its return ends the inspection.
        """
        shown = display_name(name)
        ending = ending_of(shown)
        declared = encoding if ending in _TEXTS and codec_named(encoding or None) else None
        chosen = sheet or None if ending in _WORKBOOKS else None
        id = secrets.token_urlsafe(16)
        folder = self._folder / id
        try:
            path = make_folders(folder) / f"table{ending}"
            size = await self._store(stream, path)
            content: dict[str, Any] = {"rows": None, "columns": []}
            if ending not in (*_MODELS, *_RECORDS):  # these are read in the job
                content = await unless_left(
                    left, self._inspect(folder, path, shown, declared, chosen)
                )
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        upload = Upload(id, shown, path, size, **content, encoding=declared, sheet=chosen)
        self._uploads[id] = upload
        while len(self._uploads) > self._limits.kept_files:
            self.delete(next(iter(self._uploads)))
        return upload

    async def _store(self, stream: AsyncIterator[bytes], path: Path) -> int:
        size, most = 0, self._limits.upload_bytes
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            async for block in stream:
                size += len(block)
                if size > most:
                    raise RefusedError(
                        413,
                        f"the file must be at most {format_size(most)}, got more. The command line "
                        "has no such limit.",
                    )
                await asyncio.to_thread(file.write, block)
        if size == 0:
            raise InputError("the file must hold a table, got an empty file.")
        return size

    async def _inspect(
        self, folder: Path, path: Path, shown: str, encoding: str | None, sheet: str | None
    ) -> dict[str, Any]:
        limits = self._limits
        relative = f"../{INPUTS}/{path.name}"
        request: Request = {
            "verb": "inspect",
            "folder": str(folder),
            "table": relative,
            "options": {
                "encoding": encoding,
                "sheet": sheet,
                "most_bytes": limits.upload_bytes,
                "most_columns": limits.columns,
            },
            "names": {relative: shown},
        }
        for_size = path.stat().st_size / limits.inspection_bytes_per_second
        seconds = round(limits.inspection_seconds + for_size, 1)
        async with self._turn:
            return await perform(request, limits, seconds)


def make_folders(folder: Path) -> Path:
    """Create the private folders of a job and return the folder of its inputs."""
    folder.mkdir(mode=0o700)
    for name in (INPUTS, OUTPUTS, SCRATCH):
        (folder / name).mkdir(mode=0o700)
    return folder / INPUTS


def display_name(name: str) -> str:
    """Return the last part of a name, without characters special to terminals or paths."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable())[-200:].lstrip()


def ending_of(name: str) -> str:
    """Return the supported ending of a file name, or refuse it."""
    known = (*_TABLES, *_MODELS, *_RECORDS)
    endings = [ending for ending in known if name.lower().endswith(ending)]
    if not endings:
        conversion = CONVERSIONS.get(Path(name).suffix.lower(), "")
        raise InputError(
            f"the file's name must end in {', '.join(_TABLES)} (a table), {', '.join(_MODELS)} "
            f"(a model) or {', '.join(_RECORDS)} (a release or its certificate), "
            f"got {name[-80:]!r}.{conversion}"
        )
    return max(endings, key=len)
