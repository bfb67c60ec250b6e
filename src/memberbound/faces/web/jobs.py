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

from memberbound.errors import MemberboundError
from memberbound.faces.command_line import verb_named
from memberbound.faces.terminal import Block
from memberbound.faces.web.child import Child, prepared
from memberbound.faces.web.gate import Limits, RefusedError
from memberbound.faces.web.processes import Processes
from memberbound.faces.web.requests import Equivalent, Options, equivalent
from memberbound.faces.web.uploads import Upload, Uploads
from memberbound.faces.web.verbs import outputs_of
from memberbound.faces.web.work import INPUTS, OUTPUTS, SCRATCH, Request

__all__ = ["Job", "Jobs", "State"]

State = Literal["queued", "running", "done", "failed", "cancelled"]
_ENDED = ("done", "failed", "cancelled")


@dataclass
class Job:
    """One piece of work and what became of it."""

    id: str
    verb: str
    folder: Path
    request: Request
    shown: Equivalent
    #: What the user calls the table; nothing where the job has none.
    data: str | None = None
    state: State = "queued"
    progress: dict[str, object] | None = None
    result: dict[str, object] | None = None
    charts: dict[str, object] = field(default_factory=dict)
    summary: list[Block] = field(default_factory=list)
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
        found: dict[str, object] = {
            "job": self.id,
            "verb": self.verb,
            "data": self.data,
            "state": self.state,
            "progress": self.progress,
            "seconds": self.seconds,
            "error": None if self.error is None else {"message": self.error},
            "files": [{"name": name, "bytes": size} for name, size in self.files.items()],
            "command": self.shown.command,
            "python": self.shown.python,
        }
        answer = {"result": self.result, "charts": self.charts, "summary": self.summary}
        return found | (answer if whole else {})


class Jobs:
    """The jobs of one server, oldest first."""

    def __init__(self, folder: Path, limits: Limits, processes: Processes) -> None:
        self._folder = folder
        self._limits = limits
        self._processes = processes
        self._found: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        folder.mkdir(mode=0o700)

    def __getitem__(self, id: str) -> Job:
        try:
            return self._found[id]
        except KeyError:
            raise RefusedError(404, "job must be one that is still kept, got another.") from None

    def __iter__(self) -> Iterator[Job]:
        return iter(self._found.values())

    def add(self, verb: str, table: Upload | None, options: Options, lookup: Uploads) -> Job:
        """Queue a job; its inputs are linked into its own folder at once.

        ``lookup`` finds the uploads that the options name.
        """
        waiting = sum(job.state == "queued" for job in self)
        if waiting >= self._limits.queued:
            raise RefusedError(
                429, f"at most {self._limits.queued} jobs may wait here; try again when one ended."
            )
        asked = options.given()
        named: dict[str, Upload] = {
            name: lookup[asked[name]] for name in options.files if isinstance(asked.get(name), str)
        }
        written = outputs_of(verb, asked)
        plain = {name: value for name, value in asked.items() if name != "records"}
        texts = {name: asked.pop(name) for name in options.documents if name in asked}
        documents = {name: f"{name}.yaml" for name in texts}
        shown = equivalent(
            verb_named(verb),
            None if table is None else table.name,
            plain | {name: upload.name for name, upload in named.items()} | documents,
            written,
        )
        id = secrets.token_urlsafe(16)
        inputs = self._prepared(id, {documents[name]: text for name, text in texts.items()})
        names: dict[str, str] = {}

        def linked(upload: Upload, role: str) -> str:
            place = inputs / role / upload.plain_name
            place.parent.mkdir(mode=0o700)
            try:
                os.link(upload.path, place)
            except OSError:  # a file system without links
                self._copied(id, upload.path, place)
            ours = f"../{INPUTS}/{role}/{upload.plain_name}"
            names[ours] = upload.name
            return ours

        source = None if table is None else linked(table, "table")
        request: Request = {
            "verb": verb,
            "folder": str(self._folder / id),
            "table": source,
            "options": asked
            | {name: linked(upload, name) for name, upload in named.items()}
            | documents,
            "names": names,
        }
        job = Job(
            id, verb, self._folder / id, request, shown, None if table is None else table.name
        )
        self._found[id] = job
        self._next()
        return job

    def _prepared(self, id: str, documents: dict[str, str]) -> Path:
        """Make the folders of a job; where there is no room for them nothing is left.

        What was typed as a file lies among the outputs, to be taken along.
        """
        try:
            inputs = prepared(self._folder / id)
            for name, text in documents.items():
                document = self._folder / id / OUTPUTS / name
                document.touch(mode=0o600, exist_ok=False)
                document.write_text(text, encoding="utf-8")
            return inputs
        except OSError:
            shutil.rmtree(self._folder / id, ignore_errors=True)
            raise

    def _copied(self, id: str, source: Path, place: Path) -> None:
        try:
            shutil.copyfile(source, place)
        except OSError:
            shutil.rmtree(self._folder / id, ignore_errors=True)
            raise

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
        for job in ended[: max(0, len(self._found) - self._limits.kept_jobs)]:
            del self._found[job.id]
            shutil.rmtree(job.folder, ignore_errors=True)

    async def _run(self, job: Job) -> None:
        def progress(event: dict[str, object]) -> None:
            job.progress = event

        try:
            child = await Child.start(self._processes, self._limits)
            try:
                answer = await child.perform(job.request, self._limits.job_seconds, progress)
            finally:
                await child.stop()
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
            _emptied(job.folder, keep_outputs=job.state == "done")
            self._next()

    async def cancel(self, id: str) -> Job:
        """Stop a job and free its files; one that has ended is forgotten."""
        job = self[id]
        if job.state in _ENDED:
            del self._found[id]
            shutil.rmtree(job.folder, ignore_errors=True)
            return job
        if job.task is not None:
            job.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await job.task
        # A task that is cancelled before its first step never ran its own clean-up.
        if job.state not in _ENDED:
            job.state = "cancelled"
        _emptied(job.folder, keep_outputs=job.state == "done")
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


def _listed(folder: Path) -> dict[str, int]:
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    return {path.name: path.stat().st_size for path in found}


def _emptied(folder: Path, *, keep_outputs: bool) -> None:
    """Delete what a job that has ended no longer needs."""
    for name in (INPUTS, SCRATCH, *(() if keep_outputs else (OUTPUTS,))):
        shutil.rmtree(folder / name, ignore_errors=True)
