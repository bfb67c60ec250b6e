"""What a job does: call the verb, keep its dictionary as it is, and add charts and files.

Runs in the child process, in the job's folder of outputs; ``table`` and the files among the
options are paths of our own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.declarations import Keywords
from memberbound.faces.web.work import Answer
from memberbound.quantities import marked, significant

if TYPE_CHECKING:
    from memberbound.iid.records import RecordLeaks
    from memberbound.report.drawing import Chart
    from memberbound.tables import Table
    from memberbound.verbs.population import Comparison, PopulationAnswer

__all__ = ["load_all", "outputs_of", "performed"]

Progress = Callable[[int, int | None, str], None]

#: Names of the outputs.
HARDENED, RECIPE, RECORDS = "hardened", "recipe.json", "records"
_BINS = 40
_TICK = 0.2
#: A plot may hold up its answer this long; with fewer points than these it is left out.
_SWEEP_SECONDS, _FEWEST_POINTS = 30.0, 7


def performed(
    verb: str, table: str | None, options: Keywords, progress: Progress, workers: int = 1
) -> Answer:
    """Return ``{"result", "plots", "charts"}`` of a verb, or what it raises.

    ``workers`` models of an audit are trained at the same time, as threads: the limits of memory
    and time are those of this process, and whatever stops it stops them.
    """
    from joblib import parallel_config

    given = options | {"workers": workers} if verb == "audit" else options
    with parallel_config(backend="threading"):
        return _VERBS[verb](table, given, progress)


def outputs_of(verb: str, options: Keywords) -> dict[str, str]:
    """Return the files that a job writes, by the argument that names them."""
    written: dict[str, str] = {}
    if verb == "harden":
        written = {"out": f"{HARDENED}.parquet", "recipe": RECIPE}
    elif verb == "bounds":
        written = {"out": "bounds.yaml"}
    elif verb == "protect":
        ending = "skops" if options.get("statistic") is None else "safetensors"
        written = {"out": f"release.{ending}"}
    elif verb == "study":
        written = {"out": "study"}
    if options.get("records"):
        written["records"] = f"{RECORDS}.{'parquet' if verb == 'certify' else 'csv'}"
    return written


def load_all() -> None:
    """Import what the verbs will import, so that a forked process starts its job at once."""
    from importlib import import_module

    for name in ("pandas", "pyarrow.dataset", "duckdb", "ibis.backends.duckdb", "scipy.special"):
        import_module(name)
    for name in ("ensemble", "linear_model", "neighbors", "neural_network", "pipeline", "tree"):
        import_module(f"sklearn.{name}")
    for verb in ("audit", "bounds", "certify", "explain", "harden", "plan", "population"):
        import_module(f"memberbound.verbs.{verb}")
    for name in ("matplotlib.style", "matplotlib.backends.backend_svg"):
        import_module(name)
    for name in ("verbs.protect", "studies", "report.page", "faces.web.answering"):
        import_module(f"memberbound.{name}")


@contextmanager
def _watched(table: str, label: str, progress: Progress) -> Iterator[Table]:
    """Open a table and tell how far the engine is with its query while the block runs."""
    from memberbound.tables import Table, open_table

    class Lent(Table):
        """A table that stays open when the verb is done with it, because it is still watched."""

        def close(self) -> None:
            """Leave closing to the owner."""

    progress(0, None, label)
    with open_table(table) as opened:
        done = threading.Event()

        def look() -> None:
            while not done.wait(_TICK):
                share = -1.0 if opened.engine is None else opened.engine.connection.query_progress()
                if share > 0:  # -1 while the engine cannot tell
                    progress(min(int(share), 100), 100, label)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield Lent(opened.expr, opened.name, opened.engine, opened.path)
        finally:
            done.set()
            thread.join()


def _inspect(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.faces.web.uploads import inspected

    assert table is not None
    progress(0, None, "looking at the file")
    return _answer(dict(inspected(Path(table), **options)))


def _certify(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.report.charts import leaks_chart
    from memberbound.verbs.certify import certify

    if options.pop("records", False):
        options["records"] = f"{RECORDS}.parquet"
    if table is None:
        progress(0, None, "computing the worst case")
        return _answer(certify(**options).to_dict())
    with _watched(table, "counting cells", progress) as opened:
        result = certify(opened, **options)
    assert result.leaks is not None
    answer: dict[str, Any] = result.to_dict()
    plot = _leak_histogram(result.leaks)
    leak, unit = answer["record_leak"], answer["unit"]
    rows = "rows" if unit is None else f"values of “{unit}”"
    words = (
        f"Histogram of the certified leak of the {rows}: half of them {_leak(leak['median'])}; "
        f"the worst {_leak(leak['max'])}."
    )
    chart = leaks_chart(plot["edges"], {rows: plot["rows"]}, leak["exposed_above"] or 0.5, words)
    return _answer(answer, {"record_leak": plot}, leaks=chart)


def _plan(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.verbs.plan import plan

    if table is None:
        progress(0, None, "searching")
        return _answer(plan(**options).to_dict())
    with _watched(table, "counting cells", progress) as opened:
        return _answer(plan(opened, **options).to_dict())


def _harden(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.faces.web.uploads import without_formulas
    from memberbound.files import write_table
    from memberbound.hardening import cell_profile
    from memberbound.iid.records import record_leaks
    from memberbound.report.charts import frontier_chart, leaks_chart
    from memberbound.tables import count_profile
    from memberbound.verbs.harden import harden

    progress(0, None, "searching for a recipe")
    result = harden(table, out=f"{HARDENED}.parquet", recipe=RECIPE, **options)
    write_table(without_formulas(result.table), Path(f"{HARDENED}.csv"))
    level = float(result.after["confidence"])
    assert table is not None
    with _watched(table, "counting cells", progress) as opened:
        before = count_profile(opened, result.counted)
    after = cell_profile(result.table)
    answer: dict[str, Any] = result.to_dict()
    was, now = (_leak_histogram(record_leaks(each, None, level)) for each in (before, after))
    worst = [_leak(answer[when]["record_leak"]["max"]) for when in ("before", "after")]
    leaks = leaks_chart(
        was["edges"],
        {"rows before": was["rows"], "rows after": now["rows"]},
        answer["after"]["record_leak"]["exposed_above"] or 0.5,
        f"Leak of the rows: the worst before {worst[0]}; after {worst[1]}.",
    )
    plots: dict[str, object] = {"record_leak_before": was, "record_leak_after": now}
    return _answer(answer, plots, leaks=leaks, frontier=frontier_chart(answer))


def _population(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.report.charts import attackers_chart, success_chart, swept_epsilons
    from memberbound.verbs.population import population

    if options.pop("records", False):
        options["records"] = f"{RECORDS}.csv"
    progress(0, None, "reading records")
    label = "bounding every record"
    result = population(table, progress=lambda done, total: progress(done, total, label), **options)
    plots = _swept(result, swept_epsilons(result), progress)
    compared = {name: getattr(result.compared, name) for name in _ATTACKERS}
    bars = attackers_chart(
        {_ATTACKERS[name]: upper for name, upper in compared.items()}, result.blind
    )
    lines = None
    if plots:
        curves = plots["success"]
        lines = success_chart(
            curves["epsilon"],
            {name: curves[name] for name in _ATTACKERS},
            compared,
            asked=(result.epsilon, f"ε = {significant(result.epsilon, 'given')}"),
            level=(result.blind, "blind guessing"),
            axis="ε of the mechanism, worst case over all data sets",
        )
    return _answer(result.to_dict(), plots, attackers=bars, success=lines)


#: Name among the swept curves → for people.
_ATTACKERS = {
    "worst_case": "worst case",
    "population": "these records",
    "practical": "practical attacker",
}


def _swept(answer: PopulationAnswer, epsilons: list[float], progress: Progress) -> dict[str, Any]:
    """Return the success bounds of the three attackers at other ε, for a plot."""
    from memberbound.errors import MemberboundError

    # The answer waits for its plot: a slow one gets fewer points, spread over the same range.
    count = len(epsilons)
    order = dict.fromkeys(i for step in (8, 4, 2, 1) for i in range(0, count, step))
    begun = time.monotonic()
    found: dict[int, Comparison] = {}
    for index in order:
        progress(len(found), count, "other values of ε")
        try:
            (found[index],) = answer.sweep([epsilons[index]])
        except MemberboundError:  # the answer stands without its plot
            return {}
        if time.monotonic() - begun > _SWEEP_SECONDS:
            break
    if len(found) < _FEWEST_POINTS and len(found) < count:
        return {}
    swept = [found[index] for index in sorted(found)]
    epsilons = [epsilons[index] for index in sorted(found)]
    return {
        "success": {
            "epsilon": epsilons,
            "worst_case": [point.worst_case for point in swept],
            "population": [point.population for point in swept],
            "practical": [point.practical for point in swept],
            "blind": answer.blind,
        }
    }


def _audit(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.report.charts import attacks_chart
    from memberbound.verbs.audit import audit

    if options.pop("records", False):
        options["records"] = f"{RECORDS}.csv"
    progress(0, None, "reading the table")
    result = audit(
        table,
        progress=lambda done, total: progress(done, total, "training models"),
        **options,
    )
    answer: dict[str, Any] = result.to_dict()
    return _answer(answer, attacks=attacks_chart(answer["attacks"], answer["confidence"]))


def _bounds(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.verbs.bounds import bounds

    progress(0, None, "looking at the columns")
    assert table is not None
    return _answer(bounds(table, out="bounds.yaml", **options).to_dict())


def _protect(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.faces.web.answering import ceiling_points
    from memberbound.report.charts import ceiling_chart
    from memberbound.verbs.protect import protect

    progress(0, None, "reading the table")
    out = "release.skops" if options.get("statistic") is None else "release.safetensors"
    result = protect(
        table,
        out=out,
        workers=1,
        progress=lambda done, total: progress(done, total, "calibrating the noise"),
        **options,
    )
    budget = getattr(result.released, "budget", None)
    plots: dict[str, object] = {"success": {"upper": result.success_upper, "blind": result.blind}}
    answer: dict[str, Any] = result.to_dict()
    roc = None
    if budget is not None:  # all rows: the whole curve is known
        curve = budget.curve()
        plots["roc"] = ceiling_points(curve)
        rates = [float(rate) for rate in answer["curve"]["replace_one"]["tpr_upper"]]
        roc = ceiling_chart({"no attack gets above this": curve.roc}, rates, "this release")
    return _answer(answer, plots, roc=roc)


def _study(table: str | None, options: Keywords, progress: Progress) -> Answer:
    from memberbound.studies import study

    progress(0, None, "reading the table")

    def advance(step: str, done: int, total: int) -> None:
        progress(done, total, step)

    return _answer(study(table, out=".", workers=1, progress=advance, **options).to_dict())


def _answer(
    result: dict[str, Any], plots: dict[str, Any] | None = None, **charts: Chart | None
) -> Answer:
    """Return an answer with those of its charts that there are."""
    made: dict[str, object] = {
        name: chart.to_dict() for name, chart in charts.items() if chart is not None
    }
    return {"result": result, "plots": plots or {}, "charts": made}


def _leak(upper: float) -> str:
    return str(marked(upper, "certificate", "leak", 6))


def _leak_histogram(leaks: RecordLeaks) -> dict[str, Any]:
    """Rows by certified leak, in equal bins and in bins of equal ratio.

    Bins are closed on the right: a row in (a, b] is certified to leak at most b.
    """
    rows = np.asarray(leaks.profile.count * leaks.profile.cells, dtype=np.int64)
    found: dict[str, Any] = {}
    for name, edges in (
        ("", np.linspace(0.0, 1.0, _BINS + 1)),
        ("_log", np.append(0.0, np.geomspace(1e-4, 1.0, _BINS + 1))),
    ):
        place = np.clip(np.searchsorted(edges, leaks.leak, side="left") - 1, 0, edges.size - 2)
        filled = np.zeros(edges.size - 1, dtype=np.int64)
        np.add.at(filled, place, rows)
        found[f"edges{name}"] = edges.tolist()
        found[f"rows{name}"] = filled.tolist()
    return found


_VERBS: dict[str, Callable[[str | None, Keywords, Progress], Answer]] = {
    "audit": _audit,
    "bounds": _bounds,
    "certify": _certify,
    "harden": _harden,
    "inspect": _inspect,
    "plan": _plan,
    "population": _population,
    "protect": _protect,
    "study": _study,
}
