"""The child process of a job: one request on its socket, JSON lines out, then it ends.

A job runs apart from the server so that it can be stopped, so that its memory and its files are
limited by the operating system, and so that a file that crashes a parser takes only itself along.
The protocol is JSON in both directions, never pickle:

* in: one line, ``{"verb", "folder", "table", "options", "names"}``;
* out: lines ``{"progress": {"done", "total", "label"}}`` and one last line, ``{"answered": true}``
  (the answer lies in ``answer.json`` of the job's folder) or ``{"error": sentence}``.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypedDict

if TYPE_CHECKING:
    from memberbound.declarations import Keywords
    from memberbound.faces.terminal import Block

__all__ = [
    "ANSWER",
    "INPUTS",
    "OUTPUTS",
    "SCRATCH",
    "Answer",
    "Request",
    "Teller",
    "limited",
    "main",
    "renamed",
    "sentence_of",
]

#: The parts of a job's private folder.
ANSWER, INPUTS, OUTPUTS, SCRATCH = "answer.json", "in", "out", "tmp"
_NICENESS = 5


class Answer(TypedDict):
    """What a job gives: the dictionary of the contract, its charts, and its summary in parts."""

    result: dict[str, Any]
    charts: dict[str, object]
    summary: list[Block]


class Request(TypedDict):
    """One line for the child: what to do, where, and how its inputs are called outside."""

    verb: str
    folder: str
    table: str | None
    options: Keywords
    names: dict[str, str]


def limited(memory: int, disk: int) -> None:
    """Bound the memory and the size of files of this process and of whatever it starts."""
    try:
        import resource
    except ImportError:  # not on this system: the time limit remains
        return
    for kind, most in (
        # Private memory that is really used: reserved address space, of which the engines take
        # plenty, does not count.
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, disk),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))
    os.nice(_NICENESS)


class Teller:
    """Writes events for the server; progress at most a few times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._last = (0.0, "")

    def tell(self, event: dict[str, object]) -> None:
        """Write one event."""
        with self._lock:
            self._stream.write(json.dumps(event) + "\n")
            self._stream.flush()

    def progress(self, done: int, total: int | None, label: str) -> None:
        """Say how far the work is."""
        import time

        now, last = time.monotonic(), self._last
        if label == last[1] and done != total and now - last[0] < 0.1:
            return
        self._last = (now, label)
        self.tell({"progress": {"done": done, "total": total, "label": label}})


def sentence_of(problem: BaseException, request: Request, kept: Path | None = None) -> str:
    """One sentence for people, with the names they gave; tracebacks go to the folder ``kept``."""
    from memberbound.errors import MemberboundError
    from memberbound.faces.endings import keep_traceback

    if isinstance(problem, MemberboundError):
        text = " ".join(str(problem).split())
    elif isinstance(problem, MemoryError) or type(problem).__name__ == "ArrowMemoryError":
        text = "The job needed more memory than a job may use. Use fewer rows or columns."
    elif isinstance(problem, OSError):
        text = f"The job could not write its files: {problem.strerror or type(problem).__name__}."
    else:
        # The text of an unexpected error may quote somebody's record: it stays with the server.
        text = f"The job failed unexpectedly ({type(problem).__name__})."
        if kept is not None and (path := keep_traceback(problem, kept)) is not None:
            text += f" The server keeps the details as {path.name}."
    return str(renamed(text, request["names"] | {request["folder"]: "the job's folder"}))


def renamed(value: object, names: dict[str, str]) -> object:
    """Replace our names of the inputs by the ones they were given, everywhere in an answer."""
    if isinstance(value, str):
        for ours, given in names.items():
            value = value.replace(ours, given)
        return value
    if isinstance(value, dict):
        return {key: renamed(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [renamed(item, names) for item in value]
    return value


def main(stream: socket.socket, memory: int, disk: int, workers: int) -> None:
    """Run the one request of this process."""
    limited(memory, disk)
    channel = stream.makefile("rw", encoding="utf-8")
    line = channel.readline()
    if not line:
        os._exit(0)  # nobody needs it any more
    request: Request = json.loads(line)
    folder = Path(request["folder"])
    kept = Path(tempfile.gettempdir())
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / SCRATCH)
    os.umask(0o077)
    os.chdir(folder / OUTPUTS)
    teller = Teller(channel)
    try:
        from memberbound.faces.web.verbs import performed

        asked = (request["verb"], request["table"], request["options"])
        answer = performed(*asked, teller.progress, workers)
        # Charts are markup, and hold no name of a file.
        parts = {part: renamed(answer[part], request["names"]) for part in ("result", "summary")}
        text = json.dumps(answer | parts, ensure_ascii=False, allow_nan=False)
        (folder / ANSWER).write_text(text, encoding="utf-8")
    except Exception as problem:
        from memberbound.faces.endings import debugging

        if debugging():
            import traceback

            traceback.print_exc()
        teller.tell({"error": sentence_of(problem, request, kept)})
    else:
        teller.tell({"answered": True})
    channel.flush()
    # Threads of engines must not hold up the end.
    os._exit(0)
