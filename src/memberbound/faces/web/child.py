"""The child process of a job or of short questions: requests in, answers out, as lines of JSON.

Work is done apart from the server so that it can be stopped, so that its memory and its files are
limited by the operating system, and so that a file that crashes a parser takes only itself along.

* in: lines ``{"verb", "options"}``; a job also has ``{"folder", "table", "names"}``;
* out: lines ``{"progress": {"done", "total", "label"}}``, then ``{"answer"}`` or ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NotRequired, TextIO, TypedDict

from memberbound.declarations import Keywords
from memberbound.errors import MemberboundError
from memberbound.faces.endings import debugging, ending, is_memory_error
from memberbound.verbs.explain import Explanation, explain

__all__ = [
    "INPUTS",
    "OUTPUTS",
    "QUESTIONS",
    "SCRATCH",
    "Events",
    "Request",
    "limit_resources",
    "main",
    "renamed",
    "sentence_of",
]

#: The parts of a job's private folder.
INPUTS, OUTPUTS, SCRATCH = "in", "out", "tmp"
_NICENESS = 5


class Request(TypedDict):
    """What to do; for a job also where, with which table, and how its inputs are called outside."""

    verb: str
    options: Keywords
    folder: NotRequired[str]
    table: NotRequired[str | None]
    names: NotRequired[dict[str, str]]


def limit_resources(memory: int, disk: int) -> None:
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


class Events:
    """Writes events for the server; progress at most a few times a second."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._last = (0.0, "")

    def write(self, event: dict[str, object]) -> None:
        """Write one event."""
        text = json.dumps(event, allow_nan=False)
        with self._lock:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def progress(self, done: int, total: int | None, label: str) -> None:
        """Write how far the work is."""
        now, last = time.monotonic(), self._last
        if label == last[1] and done != total and now - last[0] < 0.1:
            return
        self._last = (now, label)
        self.write({"progress": {"done": done, "total": total, "label": label}})


def sentence_of(problem: BaseException, request: Request, tracebacks: Path | None = None) -> str:
    """Return one sentence for people, with the names they gave."""
    job = "folder" in request
    if is_memory_error(problem) or isinstance(problem, RecursionError):
        text = (
            "The job needed more memory than a job may use. Use fewer rows or columns."
            if job
            else "the question must need less memory; choose less extreme values."
        )
    elif (
        not job
        and isinstance(problem, (ArithmeticError, ValueError))
        and (not isinstance(problem, MemberboundError))
    ):
        # Values at the edge of double precision; the verbs name those they know of.
        text = f"the values must be less extreme ({type(problem).__name__})."
    else:
        # The text of an unexpected error may quote somebody's record: it stays with the server.
        text = " ".join(ending(problem, tracebacks)[0].split())
    names = dict(request.get("names", {}))
    if job:
        names[request["folder"]] = "the job's folder"
    return str(renamed(text, names))


def renamed(value: object, names: dict[str, str]) -> object:
    """Replace our names of the inputs by the ones they were given, everywhere in an answer."""
    if isinstance(value, str):
        for ours, theirs in names.items():
            value = value.replace(ours, theirs)
        return value
    if isinstance(value, dict):
        return {key: renamed(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [renamed(item, names) for item in value]
    return value


# ── Short questions ───────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=64)
def _explanation(key: str) -> Explanation:
    """The page asks for numbers and chart of one setting; both come from one explanation."""
    return explain(**json.loads(key))


def _explained(options: Keywords) -> dict[str, object]:
    return _explanation(json.dumps(options, sort_keys=True)).to_dict()


def _explanation_chart(options: Keywords) -> dict[str, object]:
    """Return the certified ceiling of the ROC as a chart."""
    from memberbound.report.answer_charts import explanation_chart

    explanation = _explanation(json.dumps(options["options"], sort_keys=True))
    return explanation_chart(explanation).to_dict(options["scale"])


def _report(options: Keywords) -> dict[str, object]:
    """Return a ``report.json`` from somewhere as a page whose own script is the only one that runs.

    The nonce of the script is drawn here, so that nothing in the report can know it.
    """
    from memberbound.report.charts import sandwich_chart
    from memberbound.report.model import checked
    from memberbound.report.page import render

    nonce, report = secrets.token_urlsafe(16), checked(options)
    chart = sandwich_chart(report, "worst") or sandwich_chart(report, "average")
    return {
        "page": render(report, nonce),
        "scripts": f"'nonce-{nonce}'",
        "chart": None if chart is None else chart.to_dict(),
    }


QUESTIONS: dict[str, Callable[[Keywords], dict[str, object]]] = {
    "explain": _explained,
    "explain chart": _explanation_chart,
    "report": _report,
}


# ── The process ───────────────────────────────────────────────────────────────────────────────────


def _answer(request: Request, events: Events, workers: int) -> dict[str, Any]:
    """Answer a question, or do a job in its private folder."""
    if "folder" not in request:
        return QUESTIONS[request["verb"]](request["options"])
    from memberbound.faces.web.inspection import inspected
    from memberbound.faces.web.work import performed

    folder = Path(request["folder"])
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / SCRATCH)
    os.umask(0o077)
    os.chdir(folder / OUTPUTS)
    table, options = request.get("table"), request["options"]
    if request["verb"] == "inspect":
        assert table is not None
        return dict(inspected(Path(table), **options))
    answer = performed(request["verb"], table, options, events.progress, workers)
    # Charts are markup: a name that somebody gave a file has no place in it.
    names = request.get("names", {})
    parts = {part: renamed(answer[part], names) for part in answer if part != "charts"}
    return answer | parts


def respond(
    request: Request, events: Events, workers: int = 1, tracebacks: Path | None = None
) -> None:
    """Write the answer to a request, or the sentence that refuses it."""
    try:
        events.write({"answer": _answer(request, events, workers)})
    except Exception as problem:
        if debugging():
            traceback.print_exc()
        events.write({"error": sentence_of(problem, request, tracebacks)})


def main(stream: socket.socket, memory: int, disk: int, workers: int) -> None:
    """Answer requests until the stream ends."""
    tracebacks = Path(tempfile.gettempdir())
    limit_resources(memory, disk)
    channel = stream.makefile("rw", encoding="utf-8")
    events = Events(channel)
    for line in iter(channel.readline, ""):
        respond(json.loads(line), events, workers, tracebacks)
    # Threads of engines must not hold up the end.
    os._exit(0)
