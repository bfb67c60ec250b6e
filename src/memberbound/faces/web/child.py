"""The child process of a job or a question, which reads and writes JSON.

Work runs outside the server so that it can be cancelled, the operating system can limit its memory
and files, and a file that crashes a parser affects nothing else.

* in: ``{"verb", "options"}``; work with files also has ``{"folder", "table", "names"}``;
* out: ``{"progress": {"done", "total", "label"}}``, then ``{"answer"}`` or ``{"error"}``.

A job calls a verb by its declaration, which determines the table, the output files and the progress
callback, for every verb alike.
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
from typing import NotRequired, TypedDict

from memberbound.declarations import AnswerLike, Keywords, Verb
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.faces.endings import debugging, ending, is_memory_error
from memberbound.faces.terminal import blocks

#: The subfolders of a private folder.
INPUTS, OUTPUTS, SCRATCH = "in", "out", "tmp"
#: Models that an audit trains concurrently, as threads within the memory of its job.
_WORKERS = 2
_NICENESS = 5


class Request(TypedDict):
    """A request: the verb and its options; with files, also folder, table and original names."""

    verb: str
    options: Keywords
    folder: NotRequired[str]
    table: NotRequired[str | None]
    names: NotRequired[dict[str, str]]


# ── Short questions ───────────────────────────────────────────────────────────────────────────────


def _explain(options: Keywords) -> dict[str, object]:
    from memberbound.verbs.explain import explain

    return explain(**options).to_dict()


def _explanation_page(options: Keywords) -> dict[str, object]:
    """Return an explanation for its page, with the certified upper bound on the ROC."""
    from memberbound.report.answer_charts import explanation_chart
    from memberbound.verbs.explain import explain

    explanation = explain(**options["options"])
    chart = explanation_chart(explanation).to_dict(options["scale"])
    return _answer_fields(explanation, verb_named("explain")) | {"charts": {"roc": chart}}


def _report(options: Keywords) -> dict[str, object]:
    """Render a given ``report.json`` as a page in which only its own script runs.

    The nonce of the script is generated here, so nothing in the report can contain it.
    """
    from memberbound.report.model import parse_report
    from memberbound.report.page import render
    from memberbound.report.sandwich import sandwich_chart

    nonce, report = secrets.token_urlsafe(16), parse_report(options)
    chart = sandwich_chart(report, "worst") or sandwich_chart(report, "average")
    return {
        "page": render(report, nonce),
        "scripts": f"'nonce-{nonce}'",
        "chart": None if chart is None else chart.to_dict(),
    }


_QUESTIONS: dict[str, Callable[[Keywords], dict[str, object]]] = {
    "explain": _explain,
    "explain page": _explanation_page,
    "report": _report,
}


# ── Jobs ──────────────────────────────────────────────────────────────────────────────────────────

SendProgress = Callable[[int, int | None, str], None]

#: Verbs that do not run as jobs: quick questions, and work on the user's own files.
_NO_JOBS = {"explain", "predict", "reproduce", "theorems", "serve"}
#: Verbs that run as jobs, each in its own process.
JOBS = tuple(name for name in VERBS if name not in _NO_JOBS)


def run_verb(
    name: str, table: str | None, options: Keywords, progress: SendProgress
) -> dict[str, object]:
    """Run a verb and return ``{"result", "charts", "summary"}``; exceptions propagate."""
    from joblib import parallel_config

    from memberbound.report.answer_charts import charts_of

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
        elif parameter.kind == "folder":  # the folder of the job
            arguments[parameter.name] = "."
        elif parameter.name == "workers" and (name != "audit" or "model" in options):
            # An audit trains only if there is a model.  Use one worker for verbs that support only
            # processes: each would have the memory of a whole job.
            arguments["workers"] = _WORKERS if name == "audit-learner" else 1
    with parallel_config(backend="threading"):
        answer = verb.function(**arguments)
        assert answer is not None
        charts = {n: c.to_dict() for n, c in charts_of(answer, table, progress).items()}
    return _answer_fields(answer, verb) | {"charts": charts}


def _answer_fields(answer: AnswerLike, verb: Verb) -> dict[str, object]:
    """Return the dictionary of an answer, and its summary in blocks."""
    summary = blocks(answer.summary(), measures=verb.measures)
    return {"result": answer.to_dict(), "summary": summary}


def outputs_of(verb: Verb, options: Keywords) -> dict[str, str | None]:
    """Return the output files of a job, keyed by argument."""
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
    """Return the name of an output: by kind for a release, CSV for a table."""
    if verb.of_kind("folder"):
        return verb.name
    if verb.name == "bounds":
        return "bounds.yaml"
    if verb.name == "export":
        from memberbound.verbs.export import WEB_FORMATS

        chosen = str(options.get("format"))
        return f"{chosen}{WEB_FORMATS.get(chosen, '')}"
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
        """Send the progress of the work."""
        now, last = time.monotonic(), self._last
        if label == last[1] and done != total and now - last[0] < 0.1:
            return
        self._last = (now, label)
        self.write({"progress": {"done": done, "total": total, "label": label}})


def _answer(request: Request, progress: SendProgress) -> dict[str, object]:
    """Answer a question, or run a job on files in a private folder."""
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
    answer = run_verb(request["verb"], table, options, progress)
    # Charts are markup, so keep user-supplied file names out of them.
    names = request.get("names", {})
    return answer | {part: rename_inputs(answer[part], names) for part in ("result", "summary")}


def respond(request: Request, events: Events, tracebacks: Path | None = None) -> None:
    """Send the answer to a request, or an error sentence."""
    try:
        events.write({"answer": _answer(request, events.progress)})
    except Exception as problem:
        if debugging():
            traceback.print_exc()
        events.write({"error": sentence_of(problem, request, tracebacks)})


def sentence_of(problem: BaseException, request: Request, tracebacks: Path | None = None) -> str:
    """Return an error as one sentence, with the user's file names."""
    if is_memory_error(problem) or isinstance(problem, RecursionError):
        text = "This needs more memory than it may use here: take fewer rows or smaller settings."
    else:
        # The text of an unexpected error may quote a record, so it stays on the server.
        text = " ".join(ending(problem, tracebacks)[0].split())
    names = dict(request.get("names", {}))
    if "folder" in request:
        names[request["folder"]] = "the job's folder"
    return str(rename_inputs(text, names))


def rename_inputs(value: object, names: dict[str, str]) -> object:
    """Replace internal names of the inputs by the user's, everywhere in an answer."""
    if isinstance(value, str):
        for ours, theirs in names.items():
            value = value.replace(ours, theirs)
        return value
    if isinstance(value, dict):
        return {key: rename_inputs(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rename_inputs(item, names) for item in value]
    return value


def limit_resources(memory: int, disk: int) -> None:
    """Limit the memory and file sizes of this process and its children."""
    try:
        import resource
    except ImportError:  # unavailable on this system: the time limit remains
        return
    for kind, most in (
        # Limit private memory in use, not reserved address space, of which the engines use plenty.
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, disk),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (limit, limit))
    os.nice(_NICENESS)


def main(stream: Connection, memory: int, disk: int) -> None:
    """Answer one request in a separate, silent process that ends with the server."""
    multiprocessing.current_process().daemon = False  # it may start child processes
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
    """Reset a forked child to the state of a fresh process, except for loaded libraries.

    Reseed NumPy's global generator, as ``random`` does by itself; the noise of releases comes from
    the operating system.  Restore the cores of linear algebra.
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
