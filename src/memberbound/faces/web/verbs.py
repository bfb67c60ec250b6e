"""What a job does: call a verb as it is declared, and keep its dictionary as it is.

Runs in the child process, in the job's folder of outputs; ``table`` and the files among the
options are paths of our own.  Which parameter is the table, which are files to be written, which
one is told of progress: all of that is read from the declaration, for every verb alike.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from memberbound.declarations import Keywords, Parameter, Verb
from memberbound.faces.command_line import MEASURING, VERBS, verb_named
from memberbound.faces.terminal import blocks
from memberbound.faces.web.work import Answer

__all__ = ["JOBS", "load_all", "outputs_of", "performed"]

Progress = Callable[[int, int | None, str], None]

#: Verbs that are no jobs: questions that are answered at once, and work on files of one's own.
_NO_JOBS = ("explain", "compare", "export", "predict", "reproduce", "theorems", "serve")
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
    verb: str, table: str | None, options: Keywords, progress: Progress, workers: int = 1
) -> Answer:
    """Return ``{"result", "charts", "summary"}`` of a verb, or what it raises.

    ``workers`` models of an audit are trained at the same time, as threads: the limits of memory
    and time are those of this process, and whatever stops it stops them.
    """
    from joblib import parallel_config

    from memberbound.faces.web.charts import charts_of
    from memberbound.tables.engine import observed_queries

    if verb == "inspect":
        return _inspect(table, options, progress)
    declared = verb_named(verb)
    progress(0, None, "reading the table" if table else "computing")

    def advance(*event: str | int) -> None:
        *stage, done, total = event
        progress(int(done), int(total), str(stage[0]) if stage else "computing")

    def ask(label: str, percent: float) -> None:
        progress(min(int(percent), 100), 100, label)

    given = options | outputs_of(verb, options, run=True)
    if given.get("records") is False:
        del given["records"]
    for parameter in declared.parameters:
        if parameter.kind == "table":
            given[parameter.name] = table
        elif parameter.kind == "progress":
            given[parameter.name] = advance
        elif parameter.name == "workers":
            # One, where a verb knows processes only: each would have the memory of a whole job.
            given["workers"] = workers if "backend" in declared.by_name else 1
    with parallel_config(backend="threading"), observed_queries(ask):
        answer = declared.function(**given)
        assert answer is not None
        charts = charts_of(answer, table, progress)
    _write_for_spreadsheets(declared)
    summary = blocks(answer.summary(), measures=verb in MEASURING)
    return {"result": answer.to_dict(), "charts": charts, "summary": summary}


def _inspect(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.faces.web.uploads import inspected

    assert table is not None
    progress(0, None, "looking at the file")
    return {"result": dict(inspected(Path(table), **options)), "charts": {}, "summary": []}


def outputs_of(verb: str, options: Keywords, *, run: bool = False) -> dict[str, str]:
    """Return the files that a job writes, by the argument that names them.

    A folder is the job's own while it runs, and has a name in what is shown to others.
    """
    declared = verb_named(verb)
    written = {
        p.name: "." if run and p.kind == "folder" else _output_name(declared, p, options)
        for p in declared.of_kind("out", "folder")
    }
    for parameter in declared.of_kind("records"):
        if options.get(parameter.name):
            written[parameter.name] = _output_name(declared, parameter, options)
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


def _write_for_spreadsheets(verb: Verb) -> None:
    """Write each table that a verb wrote as Parquet once more, for people, as harmless CSV."""
    import pandas as pd

    from memberbound.faces.web.uploads import without_formulas
    from memberbound.files import write_table

    for parameter in verb.of_kind("out"):
        path = Path(_output_name(verb, parameter, {}))
        if path.suffix == ".parquet" and path.exists():
            write_table(without_formulas(pd.read_parquet(path)), path.with_suffix(".csv"))


def load_all() -> None:
    """Import what the verbs will import, so that a forked process starts its job at once."""
    for name in ("pandas", "pyarrow.dataset", "duckdb", "ibis.backends.duckdb", "scipy.special"):
        import_module(name)
    for name in ("ensemble", "linear_model", "neighbors", "neural_network", "pipeline", "tree"):
        import_module(f"sklearn.{name}")
    for verb in ("explain", *JOBS):
        verb_named(verb)
    for name in ("matplotlib.style", "matplotlib.backends.backend_svg"):
        import_module(name)
    for name in ("answering", "charts", "uploads"):
        import_module(f"memberbound.faces.web.{name}")
    for name in ("report.charts", "report.page", "tables.counting"):
        import_module(f"memberbound.{name}")
