"""The child process of a job or a question: one request in, one answer out, as JSON.

Work is done apart from the server so that it can be stopped, so that its memory and its files are
limited by the operating system, and so that a file that crashes a parser takes only itself along.

* in: ``{"verb", "options"}``; work with files also has ``{"folder", "table", "names"}``;
* out: ``{"progress": {"done", "total", "label"}}``, then ``{"answer"}`` or ``{"error"}``.

A job calls a verb as it is declared: which parameter is the table, which are files to be written,
which one hears of progress is read from the declaration, for every verb alike.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from memberbound.declarations import Answer, Keywords, Verb
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.faces.endings import debugging, ending, is_memory_error
from memberbound.faces.terminal import blocks

#: The parts of a private folder.
INPUTS, OUTPUTS, SCRATCH = "in", "out", "tmp"
#: Models that an audit trains at the same time, as threads, all within the memory of its job.
_WORKERS = 2
_NICENESS = 5


class Request(TypedDict):
    """What to do; with files also where, with which table, and how they are called outside."""

    verb: str
    options: Keywords
    folder: NotRequired[str]
    table: NotRequired[str | None]
    names: NotRequired[dict[str, str]]


# ── Short questions ───────────────────────────────────────────────────────────────────────────────


def _explained(options: Keywords) -> dict[str, Any]:
    from memberbound.verbs.explain import explain

    return explain(**options).to_dict()


def _explanation_page(options: Keywords) -> dict[str, Any]:
    """Return an explanation as its page shows it, with the certified ceiling of the ROC."""
    from memberbound.report.charts import explanation_chart
    from memberbound.verbs.explain import explain

    explanation = explain(**options["options"])
    chart = explanation_chart(explanation).to_dict(options["scale"])
    return _shown(explanation, verb_named("explain")) | {"charts": {"roc": chart}}


def _report(options: Keywords) -> dict[str, Any]:
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


_QUESTIONS: dict[str, Callable[[Keywords], dict[str, Any]]] = {
    "explain": _explained,
    "explain page": _explanation_page,
    "report": _report,
}


# ── Jobs ──────────────────────────────────────────────────────────────────────────────────────────

Progress = Callable[[int, int | None, str], None]

#: Verbs that are no jobs: questions that are answered at once, and work on files of one's own.
_NO_JOBS = {"explain", "compare", "export", "ledger", "predict", "reproduce", "theorems", "serve"}
#: Verbs that run as jobs, in processes of their own.
JOBS = tuple(name for name in VERBS if name not in _NO_JOBS)


def performed(
    name: str, table: str | None, options: Keywords, progress: Progress
) -> dict[str, Any]:
    """Return ``{"result", "charts", "summary"}`` of a verb, or what it raises."""
    from joblib import parallel_config

    from memberbound.report.charts import charts_of

    verb = verb_named(name)
    progress(0, None, "reading the table" if table else "computing")

    def advance(*event: str | int) -> None:
        *stage, done, total = event
        progress(int(done), int(total), str(stage[0]) if stage else "computing")

    arguments = options | outputs_of(verb, options)
    for parameter in verb.parameters:
        if parameter.kind == "table":
            arguments[parameter.name] = table
        elif parameter.kind == "progress":
            arguments[parameter.name] = advance
        elif parameter.kind == "folder":  # the job's own
            arguments[parameter.name] = "."
        elif parameter.name == "workers" and (name != "audit" or "model" in options):
            # An audit trains only where there is a model.  One worker where a verb knows processes
            # only: each would have the memory of a whole job.
            arguments["workers"] = _WORKERS if name == "audit-learner" else 1
    with parallel_config(backend="threading"):
        answer = verb.function(**arguments)
        assert answer is not None
        charts = {n: c.to_dict() for n, c in charts_of(answer, table, progress).items()}
    return _shown(answer, verb) | {"charts": charts}


def _shown(answer: Answer, verb: Verb) -> dict[str, Any]:
    """Return the dictionary of an answer, and its summary in parts."""
    summary = blocks(answer.summary(), measures=verb.measures)
    return {"result": answer.to_dict(), "summary": summary}


def outputs_of(verb: Verb, options: Keywords) -> dict[str, str | None]:
    """Return the files that a job writes, by the argument that names them."""
    files: dict[str, str | None] = {}
    for parameter in verb.parameters:
        if parameter.kind == "records" and parameter.name in options:
            files[parameter.name] = "records.csv" if options[parameter.name] else None
        elif parameter.name == "recipe":
            files["recipe"] = "recipe.json"
        elif parameter.name == "out":
            files["out"] = _output_name(verb, options)
    return files


def _output_name(verb: Verb, options: Keywords) -> str:
    """Return the name of an output: a release by what is released, a table as CSV."""
    if verb.of_kind("folder"):
        return verb.name
    if verb.name == "bounds":
        return "bounds.yaml"
    if options.get("statistic") is not None:
        return "release.json"
    return "release.skops" if verb.of_kind("learner") else f"{verb.name}.csv"


# ── The process ───────────────────────────────────────────────────────────────────────────────────


class Events:
    """Sends events to the server; progress at most a few times a second."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._last = (0.0, "")

    def write(self, event: dict[str, object]) -> None:
        """Send one event."""
        text = json.dumps(event, allow_nan=False)
        with self._lock:
            self._send(text.encode())

    def progress(self, done: int, total: int | None, label: str) -> None:
        """Send how far the work is."""
        now, last = time.monotonic(), self._last
        if label == last[1] and done != total and now - last[0] < 0.1:
            return
        self._last = (now, label)
        self.write({"progress": {"done": done, "total": total, "label": label}})


def _answer(request: Request, progress: Progress) -> dict[str, Any]:
    """Answer a question, or work on files in a private folder."""
    if "folder" not in request:
        return _QUESTIONS[request["verb"]](request["options"])
    folder = Path(request["folder"])
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / SCRATCH)
    os.umask(0o077)
    os.chdir(folder / OUTPUTS)
    table, options = request.get("table"), request["options"]
    if request["verb"] == "inspect":
        from memberbound.faces.web.inspection import inspect

        assert table is not None
        return inspect(Path(table), **options)
    answer = performed(request["verb"], table, options, progress)
    # Charts are markup: a name that somebody gave a file has no place in it.
    names = request.get("names", {})
    return answer | {part: renamed(answer[part], names) for part in ("result", "summary")}


def respond(request: Request, events: Events, tracebacks: Path | None = None) -> None:
    """Send the answer to a request, or the sentence that refuses it."""
    try:
        events.write({"answer": _answer(request, events.progress)})
    except Exception as problem:
        if debugging():
            traceback.print_exc()
        events.write({"error": sentence_of(problem, request, tracebacks)})


def sentence_of(problem: BaseException, request: Request, tracebacks: Path | None = None) -> str:
    """Return one sentence for people, with the names they gave."""
    if is_memory_error(problem) or isinstance(problem, RecursionError):
        text = "This needs more memory than it may use here: ask for less, or for fewer rows."
    else:
        # The text of an unexpected error may quote somebody's record: it stays with the server.
        text = " ".join(ending(problem, tracebacks)[0].split())
    names = dict(request.get("names", {}))
    if "folder" in request:
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


def main(stream: Connection, memory: int, disk: int) -> None:
    """Answer one request: apart from the server, silent, and ended when the server is."""
    multiprocessing.current_process().daemon = False  # it may start processes of its own
    if hasattr(os, "setsid"):
        os.setsid()
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        for handle in (0, 1) if debugging() else (0, 1, 2):
            os.dup2(nothing.fileno(), handle)
    threading.Thread(target=_end_with_server, daemon=True).start()
    if "memberbound.faces.web.preload" in sys.modules:
        _become_independent()
    tracebacks = Path(tempfile.gettempdir())
    limit_resources(memory, disk)
    respond(json.loads(stream.recv_bytes()), Events(stream.send_bytes), tracebacks)


def _become_independent() -> None:
    """Make a forked child what a fresh process would be, but for its libraries.

    NumPy's shared generator gets a state of its own, as that of ``random`` does by itself; noise of
    releases comes from the operating system.  Linear algebra gets its cores back.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    np.random.seed()  # noqa: NPY002
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    counts = [int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()]
    threadpool_limits([*counts, len(os.sched_getaffinity(0))][0], user_api="blas")


def _end_with_server() -> None:
    server = multiprocessing.parent_process()
    assert server is not None
    server.join()
    os.killpg(0, 9) if hasattr(os, "killpg") else os._exit(1)
