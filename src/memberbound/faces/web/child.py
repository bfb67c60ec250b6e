"""The child process of a job or of short questions: requests in, answers out, as lines of JSON.

Work is done apart from the server so that it can be stopped, so that its memory and its files are
limited by the operating system, and so that a file that crashes a parser takes only itself along.

* in: lines ``{"verb", "options"}``; a job also has ``{"folder", "table", "names"}``;
* out: lines ``{"progress": {"done", "total", "label"}}``, then ``{"answer"}`` or ``{"error"}``.

A job calls a verb as it is declared: which parameter is the table, which are files to be written,
which one hears of progress is read from the declaration, for every verb alike.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TextIO, TypedDict

from memberbound.declarations import Keywords, Parameter, Verb
from memberbound.errors import MemberboundError
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.faces.endings import debugging, ending, is_memory_error
from memberbound.faces.terminal import blocks
from memberbound.quantities import Side, marked, mu_row, percent, significant, vacuous
from memberbound.verbs.explain import Explanation, explain

if TYPE_CHECKING:
    from pandas import DataFrame

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


def _explained(options: Keywords) -> dict[str, Any]:
    return _explanation(json.dumps(options, sort_keys=True)).to_dict()


def _figures(options: Keywords) -> dict[str, object]:
    """Return the numbers of an explanation as the page shows them: as texts, in their order."""
    answer = _explained(options)
    choosing = any(name.startswith("target_") for name in options)
    prior, blind = answer["prior"], max(answer["prior"], 1 - answer["prior"])
    delta, sigma = significant(answer["delta"], "given"), answer.get("noise_multiplier")

    def figure(name: str, text: object, label: str | None = None, *, big: bool = False) -> Keywords:
        return {"name": name, "text": str(text), "label": label, "big": big}

    def ceiling(value: float | None, quantity: str = "accuracy", places: int | None = None) -> str:
        return str(marked(value, "certificate", quantity, places))

    side: Side = "given" if answer["notion"] == "(ε, δ)-DP" else "upper"
    if side == "given" and choosing:
        side = "lower"  # a larger one would break the promise
    text = ("≤ " if side == "upper" else "= ") + significant(answer["epsilon"], side)
    text = "no finite ε" if answer["epsilon"] is None else text
    chosen = choosing and sigma is None
    label = f"Take ε (at δ = {delta})" if chosen else f"ε at δ = {delta}"
    settings = [figure("epsilon", text, label, big=chosen)]
    if sigma is not None:
        text = significant(sigma, "upper" if choosing else "given")
        use = "Use a noise multiplier of" if choosing else None
        settings.insert(0, figure("noise_multiplier", f"= {text}", use, big=choosing))
    label = "Attack success at most"
    label += "" if prior == 0.5 else f", when {percent(prior, 'given')} were in"
    success = ceiling(answer["accuracy_upper"])
    figures = [figure("accuracy_upper", success, label, big=True)]
    for rate, value in answer["tpr_upper"].items():
        label = f"Members identified at {percent(float(rate), 'given')} false alarms"
        figures.append(figure("tpr_upper", ceiling(value), label))
    for before, value in (answer.get("guess_upper") or {}).items():
        label = f"A guess right {percent(float(before), 'given')} of the time before"
        figures.append(figure("guess_upper", ceiling(value), label))
    for name, quantity in (("advantage_upper", "advantage"), ("eta_upper", "eta")):
        figures.append(figure(name, ceiling(answer[name], quantity, 6)))
    if not vacuous(answer["eta_upper"], "eta"):
        _, text = mu_row(answer["mu_upper"], answer["mu_regret_upper"])
        figures.append(figure("mu_upper", text))
    for name in ("security_lower", "security_lower_iid"):
        if answer[name] is not None:
            figures.append(figure(name, ceiling(answer[name], "security", 6)))
    figures.append(figure("precision_upper", ceiling(answer["precision_upper"])))
    first = settings[:1] if choosing else []
    rate = min(answer["tpr_upper"], key=lambda rate: abs(float(rate) - 0.01), default=None)
    return {
        "figures": [*first, *figures, *settings[len(first) :]],
        "share": answer["accuracy_upper"],
        "blind": blind,
        "way": f"From blind guessing ({percent(blind, 'upper')}) to always right: {success}.",
        # One line of the table of other settings.
        "epsilon": significant(answer["epsilon"], "lower", 4),
        "success": success,
        "rate": None if rate is None else percent(float(rate), "given"),
        "identified": "–" if rate is None else ceiling(answer["tpr_upper"][rate]),
    }


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
    "explain figures": _figures,
    "report": _report,
}


# ── Jobs ──────────────────────────────────────────────────────────────────────────────────────────

Progress = Callable[[int, int | None, str], None]

#: Verbs that are no jobs: questions that are answered at once, and work on files of one's own.
_NO_JOBS = {"explain", "compare", "export", "ledger", "predict", "reproduce", "theorems", "serve"}
#: Verbs that run as jobs, in processes of their own.
JOBS = tuple(name for name in VERBS if name not in _NO_JOBS)

#: What outputs are called, where the rule of :func:`_output_name` would call them otherwise.
_OUTPUT_NAMES = {
    ("bounds", "out"): "bounds.yaml",
    ("certify", "records"): "records.parquet",
    ("harden", "out"): "hardened.parquet",
    ("harden", "recipe"): "recipe.json",
}


def performed(
    name: str, table: str | None, options: Keywords, progress: Progress, workers: int = 1
) -> dict[str, Any]:
    """Return ``{"result", "charts", "summary"}`` of a verb, or what it raises.

    ``workers`` models of an audit are trained at the same time, as threads: the limits of memory
    and time are those of this process, and whatever stops it stops them.
    """
    from joblib import parallel_config

    from memberbound.report.answer_charts import charts_of
    from memberbound.tables.engine import observed_queries

    verb = verb_named(name)
    progress(0, None, "reading the table" if table else "computing")

    def advance(*event: str | int) -> None:
        *stage, done, total = event
        progress(int(done), int(total), str(stage[0]) if stage else "computing")

    def advance_query(label: str, percent: float) -> None:
        progress(min(int(percent), 100), 100, label)

    arguments = options | outputs_of(verb, options, run=True)
    if arguments.get("records") is False:
        del arguments["records"]
    for parameter in verb.parameters:
        if parameter.kind == "table":
            arguments[parameter.name] = table
        elif parameter.kind == "progress":
            arguments[parameter.name] = advance
        elif parameter.name == "workers" and (name != "audit" or "model" in options):
            # An audit trains only where there is a model.  One worker where a verb knows processes
            # only: each would have the memory of a whole job.
            arguments["workers"] = workers if name == "audit-learner" else 1
    with parallel_config(backend="threading"), observed_queries(advance_query):
        answer = verb.function(**arguments)
        assert answer is not None
        charts = {n: c.to_dict() for n, c in charts_of(answer, table, progress).items()}
    _write_for_spreadsheets(verb)
    summary = [asdict(block) for block in blocks(answer.summary(), measures=verb.measures)]
    return {"result": answer.to_dict(), "charts": charts, "summary": summary}


def outputs_of(verb: Verb, options: Keywords, *, run: bool = False) -> dict[str, str]:
    """Return the files that a job writes, by the argument that names them.

    A folder is the job's own while it runs, and has a name in what is shown to others.
    """
    files = {
        p.name: "." if run and p.kind == "folder" else _output_name(verb, p, options)
        for p in verb.of_kind("out", "folder")
    }
    for parameter in verb.of_kind("records"):
        if options.get(parameter.name):
            files[parameter.name] = _output_name(verb, parameter, options)
    return files


def _output_name(verb: Verb, parameter: Parameter, options: Keywords) -> str:
    """Return the name of an output: a release by what is released, a table as Parquet."""
    name = _OUTPUT_NAMES.get((verb.name, parameter.name))
    if name is not None:
        return name
    if parameter.kind == "folder":
        return verb.name
    if parameter.kind == "records":
        return "records.csv"
    if options.get("statistic") is not None:
        return "release.safetensors"
    return "release.skops" if verb.of_kind("learner") else f"{verb.name}.parquet"


def load_all() -> None:
    """Import what the verbs will import, so that a forked process starts its job at once."""
    for name in ("pandas", "pyarrow.dataset", "duckdb", "ibis.backends.duckdb", "scipy.special"):
        import_module(name)
    for name in ("ensemble", "linear_model", "neighbors", "neural_network", "pipeline", "tree"):
        import_module(f"sklearn.{name}")
    for name in ("explain", *JOBS):
        verb_named(name)
    for name in ("matplotlib.style", "matplotlib.backends.backend_svg"):
        import_module(name)
    for name in ("faces.web.uploads", "report.answer_charts", "report.page", "tables.counting"):
        import_module(f"memberbound.{name}")


# ── Text that a spreadsheet would take for a formula is marked as text before it is exported ──────

# A cell that starts like this is computed when a spreadsheet opens the file; the last four are the
# full-width forms of the first four.  Quotes before it are counted, so that marking is one-to-one
# and no two cells become equal.
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def harmless(cell: object) -> object:
    """Return a text with a quote before it where a spreadsheet would compute it.

    Numbers stay numbers, and everything but text stays as it is.

    Examples:
        >>> harmless("=1+2"), harmless("-3.5"), harmless("a=b"), harmless(None)
        ("'=1+2", '-3.5', 'a=b', None)
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell


def without_formulas(frame: DataFrame) -> DataFrame:
    """Return a pandas table whose cells and column names are harmless in a spreadsheet."""
    import pandas as pd

    safe = frame.copy()
    for position in range(safe.shape[1]):
        column = safe.iloc[:, position]
        if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
            text = column.astype(object)
            safe.isetitem(position, text.map(harmless, na_action="ignore"))
    safe.columns = [harmless(str(name)) for name in safe.columns]
    return safe


def _write_for_spreadsheets(verb: Verb) -> None:
    """Write each table that a verb wrote as Parquet once more, for people, as harmless CSV."""
    import pandas as pd

    from memberbound.files import write_table

    for parameter in verb.of_kind("out"):
        path = Path(_output_name(verb, parameter, {}))
        if path.suffix == ".parquet" and path.exists():
            write_table(without_formulas(pd.read_parquet(path)), path.with_suffix(".csv"))


# ── The process ───────────────────────────────────────────────────────────────────────────────────


def _answer(request: Request, events: Events, workers: int) -> dict[str, Any]:
    """Answer a question, or do a job in its private folder."""
    if "folder" not in request:
        return QUESTIONS[request["verb"]](request["options"])
    from memberbound.faces.web.uploads import inspected

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
