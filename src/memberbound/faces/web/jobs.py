"""Jobs: verbs that take long, a few at a time, in child processes, with progress and cancel."""

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
from memberbound.faces.web.processes import Limits, Processes, RefusedError, perform
from memberbound.faces.web.schemas import Equivalent, Options, equivalent
from memberbound.faces.web.uploads import Upload, Uploads, make_folders

State = Literal["queued", "running", "done", "failed", "cancelled"]
_ENDED = ("done", "failed", "cancelled")


@dataclass
class Job:
    """One piece of work and what became of it."""

    id: str
    verb: str
    folder: Path
    request: Request
    equivalent: Equivalent
    #: What the user calls the table; nothing where the job has none.
    data: str | None = None
    state: State = "queued"
    progress: dict[str, object] | None = None
    result: dict[str, object] | None = None
    charts: dict[str, object] = field(default_factory=dict)
    summary: list[object] = field(default_factory=list)
    error: str | None = None
    files: dict[str, int] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    task: asyncio.Task[None] | None = None

    @property
    def seconds(self) -> float:
        """How long the job has run."""
        if self.started is None:
            return 0.0
        return round((self.ended or time.monotonic()) - self.started, 3)

    def to_dict(self, *, whole: bool = True) -> dict[str, object]:
        """Return the job as the owner sees it, without its result in a list."""
        status: dict[str, object] = {
            "job": self.id,
            "verb": self.verb,
            "data": self.data,
            "state": self.state,
            "progress": self.progress,
            "seconds": self.seconds,
            "error": None if self.error is None else {"message": self.error},
            "files": [{"name": name, "bytes": size} for name, size in self.files.items()],
            "command": self.equivalent.command,
            "python": self.equivalent.python,
        }
        answer = {"result": self.result, "charts": self.charts, "summary": self.summary}
        return status | (answer if whole else {})


class Jobs:
    """The jobs of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits, processes: Processes) -> None:
        self._folder = folder
        self._limits = limits
        self._processes = processes
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Job:
        try:
            return self._jobs[id]
        except KeyError:
            raise RefusedError(404, "job must be one that is still kept, got another.") from None

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def add(self, verb: str, table: Upload | None, options: Options, lookup: Uploads) -> Job:
        """Queue a job; its inputs are linked into its own folder at once.

        ``lookup`` finds the uploads that the options name.
        """
        waiting = sum(job.state == "queued" for job in self)
        if waiting >= self._limits.queued:
            raise RefusedError(
                429, f"at most {self._limits.queued} jobs may wait here; try again when one ended."
            )
        arguments = options.arguments()
        files = {
            name: lookup[arguments[name]]
            for name in options.files
            if isinstance(arguments.get(name), str)
        }
        declaration = verb_named(verb)
        encodings = {u.encoding for u in (table, *files.values()) if u is not None and u.is_text}
        if len(encodings) > 1:
            raise InputError("the CSV files of a job must share one encoding, got several.")
        if "encoding" in declaration.by_name and encodings - {None}:
            (arguments["encoding"],) = encodings
        texts = {name: arguments.pop(name) for name in options.documents if name in arguments}
        documents = {name: f"{name}.yaml" for name in texts}
        # A request says only whether there are records; the server names their file.
        shown = {name: value for name, value in arguments.items() if name != "records"}
        shown |= {name: upload.name for name, upload in files.items()} | documents
        data = None if table is None else table.name
        same = equivalent(declaration, data, shown, outputs_of(declaration, arguments))
        id = secrets.token_urlsafe(16)
        folder = self._folder / id
        paths: dict[str, str] = {}
        names: dict[str, str] = {}
        try:
            inputs = make_folders(folder)
            # What was typed as a file lies among the outputs, to be taken along.
            for name, text in texts.items():
                document = folder / OUTPUTS / documents[name]
                document.touch(mode=0o600, exist_ok=False)
                document.write_text(text, encoding="utf-8")
            for role, upload in (files | ({} if table is None else {"": table})).items():
                place = inputs / (role or "table") / upload.plain_name
                _link(upload.path, place)
                paths[role] = f"../{place.relative_to(folder)}"
                names[paths[role]] = upload.name
        except OSError:  # no room
            shutil.rmtree(folder, ignore_errors=True)
            raise
        request: Request = {
            "verb": verb,
            "folder": str(folder),
            "table": paths.pop("", None),
            "options": arguments | paths | documents,
            "names": names,
        }
        job = Job(id, verb, folder, request, same, data)
        self._jobs[id] = job
        self._next()
        return job

    def _next(self) -> None:
        """Start what may be started, and forget the oldest jobs that have ended."""
        running = sum(job.state == "running" for job in self)
        for job in self:
            if running >= self._limits.running:
                break
            if job.state == "queued":
                job.state, job.started = "running", time.monotonic()
                running += 1
                job.task = asyncio.get_running_loop().create_task(self._run(job))
                self._tasks.add(job.task)
                job.task.add_done_callback(self._tasks.discard)
        ended = [job for job in self if job.state in _ENDED]
        for job in ended[: max(0, len(self._jobs) - self._limits.kept_jobs)]:
            del self._jobs[job.id]
            shutil.rmtree(job.folder, ignore_errors=True)

    async def _run(self, job: Job) -> None:
        def progress(event: dict[str, object]) -> None:
            job.progress = event

        try:
            seconds = self._limits.job_seconds
            request = {**job.request}
            answer = await perform(self._processes, self._limits, request, seconds, progress)
            job.result, job.charts = answer["result"], answer["charts"]
            job.summary = answer["summary"]
            job.files = _listed(job.folder / OUTPUTS)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
        except MemberboundError as problem:
            job.state, job.error = "failed", str(problem)
        except Exception as problem:
            job.state, job.error = "failed", f"The job failed ({type(problem).__name__})."
        finally:
            job.ended = time.monotonic()
            _delete_parts(job.folder, keep_outputs=job.state == "done")
            self._next()

    async def cancel(self, id: str) -> Job:
        """Stop a job and free its files; one that has ended is forgotten."""
        job = self[id]
        if job.state in _ENDED:
            del self._jobs[id]
            shutil.rmtree(job.folder, ignore_errors=True)
            return job
        if job.task is not None:
            job.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await job.task
        # A task that is cancelled before its first step never ran its own clean-up.
        if job.state not in _ENDED:
            job.state = "cancelled"
        _delete_parts(job.folder, keep_outputs=job.state == "done")
        self._next()
        return job

    def file(self, id: str, name: str) -> Path:
        """Return the path of an output that the job listed."""
        job = self[id]
        if name not in job.files:
            raise RefusedError(404, "name must be one of the job's files, got another.")
        return job.folder / OUTPUTS / name

    async def close(self) -> None:
        """Stop everything."""
        for job in self:
            if job.state == "queued":
                job.state = "cancelled"
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _link(source: Path, place: Path) -> None:
    """Link a file into a new folder, or copy it where the file system has no links."""
    place.parent.mkdir(mode=0o700)
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)


def _listed(folder: Path) -> dict[str, int]:
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    return {path.name: path.stat().st_size for path in paths}


def _delete_parts(folder: Path, *, keep_outputs: bool) -> None:
    """Delete what a job that has ended no longer needs."""
    for name in (INPUTS, SCRATCH, *(() if keep_outputs else (OUTPUTS,))):
        shutil.rmtree(folder / name, ignore_errors=True)
