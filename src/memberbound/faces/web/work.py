"""What a job does: call a verb as it is declared, and keep its dictionary as it is.

Runs in the child process, in the job's folder of outputs; ``table`` and the files among the
options are paths of our own.  Which parameter is the table, which are files to be written, which
one hears of progress: all of that is read from the declaration, for every verb alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memberbound.declarations import Keywords, Parameter, Verb
from memberbound.faces.command_line import VERBS, verb_named
from memberbound.faces.terminal import blocks

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["JOBS", "harmless", "load_all", "outputs_of", "performed", "without_formulas"]

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
    written = {
        p.name: "." if run and p.kind == "folder" else _output_name(verb, p, options)
        for p in verb.of_kind("out", "folder")
    }
    for parameter in verb.of_kind("records"):
        if options.get(parameter.name):
            written[parameter.name] = _output_name(verb, parameter, options)
    return written


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
    for name in ("child", "inspection"):
        import_module(f"memberbound.faces.web.{name}")
    for name in ("report.answer_charts", "report.page", "tables.counting"):
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
