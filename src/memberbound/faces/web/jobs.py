"""Jobs: long-running verbs in child processes, a few at a time, with progress and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from memberbound.errors import InputError, MemberboundError
from memberbound.faces.command_line import verb_named
from memberbound.faces.web.child import INPUTS, OUTPUTS, SCRATCH, Request, outputs_of
from memberbound.faces.web.limits import Limits
from memberbound.faces.web.processes import RefusedError, perform
from memberbound.faces.web.schemas import Options, equivalent
from memberbound.faces.web.uploads import Upload, Uploads, make_folders

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
_ENDED = ("done", "failed", "cancelled")


@dataclass
class Job:
    """One run of a verb with its state and its result."""

    id: str
    verb: str
    folder: Path
    request: Request
    #: The equivalent command and Python call.
    equivalents: dict[str, str]
    #: The user's name of the table; None without a table.
    data: str | None = None
    state: JobState = "queued"
    progress: dict[str, object] | None = None
    answer: dict[str, object] = field(default_factory=dict)
    error: str | None = None
    files: dict[str, int] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    task: asyncio.Task[None] | None = None

    def to_dict(self, *, whole: bool = True) -> dict[str, object]:
        """Return the job for its owner; ``whole=False`` omits the result, for lists."""
        now = self.ended or time.monotonic()
        status: dict[str, object] = {
            "job": self.id,
            "verb": self.verb,
            "data": self.data,
            "state": self.state,
            "progress": self.progress,
            "seconds": 0.0 if self.started is None else round(now - self.started, 3),
            "error": None if self.error is None else {"message": self.error},
            "files": [{"name": name, "bytes": size} for name, size in self.files.items()],
            **self.equivalents,
        }
        answer: dict[str, object] = {"result": None, "charts": {}, "summary": []}
        return status | (answer | self.answer if whole else {})


class Jobs:
    """The jobs of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._turn = asyncio.Semaphore(limits.running)
        self._jobs: dict[str, Job] = {}
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Job:
        try:
            return self._jobs[id]
        except KeyError:
            raise RefusedError(404, "job must be one that is still kept, got another.") from None

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def add(self, verb: str, table: Upload | None, options: Options, uploads: Uploads) -> Job:
        """Queue a job and link its inputs into its own folder."""
        if sum(job.state == "queued" for job in self) >= self._limits.queued:
            raise RefusedError(
                429, f"at most {self._limits.queued} jobs may wait here; try again when one ended."
            )
        arguments = options.arguments()
        files = {
            name: uploads[arguments[name]]
            for name in options.files
            if isinstance(arguments.get(name), str)
        }
        declaration = verb_named(verb)
        encodings = {u.encoding for u in (table, *files.values()) if u is not None and u.is_text}
        if len(encodings) > 1:
            raise InputError("the CSV files of a job must share one encoding, got several.")
        if "encoding" in declaration.by_name and encodings - {None}:
            (arguments["encoding"],) = encodings
        if table is not None and table.sheet and "database_table" in declaration.by_name:
            arguments["database_table"] = table.sheet
        texts = {name: arguments.pop(name) for name in options.documents if name in arguments}
        documents = {name: f"{name}.yaml" for name in texts}
        named = {name: upload.name for name, upload in files.items()} | documents
        data = None if table is None else table.name
        outputs = outputs_of(declaration, arguments)
        equivalents = equivalent(declaration, data, arguments | named | outputs)
        id = secrets.token_urlsafe(16)
        folder = self._folder / id
        paths: dict[str, str] = {}
        names: dict[str, str] = {}
        try:
            inputs = make_folders(folder)
            # Store files typed as text among the outputs, so that they can be downloaded.
            for name, text in texts.items():
                document = folder / OUTPUTS / documents[name]
                document.touch(mode=0o600, exist_ok=False)
                document.write_text(text, encoding="utf-8")
            for role, upload in (files | ({} if table is None else {"table": table})).items():
                destination = inputs / role / upload.plain_name
                _link(upload.path, destination)
                paths[role] = f"../{destination.relative_to(folder)}"
                names[paths[role]] = upload.name
        except OSError:  # no room
            shutil.rmtree(folder, ignore_errors=True)
            raise
        request: Request = {
            "verb": verb,
            "folder": str(folder),
            "table": paths.pop("table", None),
            "options": arguments | paths | documents,
            "names": names,
        }
        job = Job(id, verb, folder, request, equivalents, data)
        self._jobs[id] = job
        job.task = asyncio.create_task(self._run(job))
        ended = [job for job in self if job.state in _ENDED]
        for old in ended[: max(0, len(self._jobs) - self._limits.kept_jobs)]:
            self._forget(old)
        return job

    def _forget(self, job: Job) -> None:
        del self._jobs[job.id]
        shutil.rmtree(job.folder, ignore_errors=True)

    async def _run(self, job: Job) -> None:
        def progress(event: dict[str, object]) -> None:
            job.progress = event

        try:
            async with self._turn:
                job.state, job.started = "running", time.monotonic()
                seconds = self._limits.job_seconds
                job.answer = await perform(job.request, self._limits, seconds, progress)
            job.files = _list_files(job.folder / OUTPUTS)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except MemberboundError as problem:
            job.state, job.error = "failed", str(problem)
        except Exception as problem:
            job.state, job.error = "failed", f"The job failed ({type(problem).__name__})."
        finally:
            job.ended = time.monotonic()
            _delete_parts(job)

    async def cancel(self, id: str) -> Job:
        """Cancel a job and free its files; a finished job is deleted."""
        job = self[id]
        if job.state in _ENDED:
            self._forget(job)
            return job
        assert job.task is not None
        job.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await job.task
        # A task cancelled before its first step never ran its cleanup.
        if job.state not in _ENDED:
            job.state = "cancelled"
            _delete_parts(job)
        return job

    def file(self, id: str, name: str) -> Path:
        """Return the path of a listed output."""
        job = self[id]
        if name not in job.files:
            raise RefusedError(404, "name must be one of the job's files, got another.")
        return job.folder / OUTPUTS / name

    async def close(self) -> None:
        """Cancel all jobs."""
        tasks = [job.task for job in self if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _link(source: Path, destination: Path) -> None:
    """Link a file into a new folder, or copy it if the file system has no links."""
    destination.parent.mkdir(mode=0o700)
    try:
        os.link(source, destination)
    except OSError:
        shutil.copyfile(source, destination)


def _list_files(folder: Path) -> dict[str, int]:
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    return {path.name: path.stat().st_size for path in paths}


def _delete_parts(job: Job) -> None:
    """Delete the files that a finished job no longer needs."""
    for name in (INPUTS, SCRATCH, *(() if job.state == "done" else (OUTPUTS,))):
        shutil.rmtree(job.folder / name, ignore_errors=True)
