"""What a page draws beside an answer: one list of charts for all verbs.

A chart is made from what an answer has (leaks of rows, a sweep over ε, attacks, the budget of a
release), whichever verb it answers; an answer without it has no such chart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from memberbound.quantities import marked, significant

if TYPE_CHECKING:
    from memberbound.iid.records import RecordLeaks
    from memberbound.report.drawing import Chart
    from memberbound.subset.settings import Comparison

__all__ = ["charts_of", "histogram", "swept"]

Progress = Callable[[int, int | None, str], None]
Charts = dict[str, "Chart | None"]

_BINS = 40
#: A chart may hold up its answer this long; with fewer points than these it is left out.
_SWEEP_SECONDS, _FEWEST_POINTS = 30.0, 7
#: Name among the swept curves → for people.
_ATTACKERS = {
    "worst_case": "worst case",
    "population": "these records",
    "practical": "practical attacker",
}


def charts_of(answer: Any, table: str | None, progress: Progress) -> dict[str, object]:
    """Return every chart that an answer has, by its name."""
    result = answer.to_dict()
    charts: Charts = {}
    if table is not None and getattr(answer, "leaks", None) is not None:
        charts |= _leaks(answer, result)
    if table is not None and hasattr(answer, "counted"):
        charts |= _leaks_before_and_after(answer, result, table, progress)
    if hasattr(answer, "sweep"):
        charts |= _attackers(answer, progress)
    if result.get("attacks"):
        from memberbound.report.charts import attacks_chart

        charts["attacks"] = attacks_chart(result["attacks"], result["confidence"])
    if (budget := getattr(answer, "budget", None)) is not None:
        from memberbound.report.charts import ceiling_chart

        rates = [float(rate) for rate in result["curve"]["replace_one"]["tpr_upper"]]
        curves = {"no attack gets above this": budget.curve().roc}
        charts["roc"] = ceiling_chart(curves, rates, "this release")
    return {name: chart.to_dict() for name, chart in charts.items() if chart is not None}


def _leaks(answer: Any, result: dict[str, Any]) -> Charts:
    """Rows by their certified leak."""
    from memberbound.report.charts import leaks_chart

    edges, counts = histogram(answer.leaks)
    leak, unit = result["record_leak"], result["unit"]
    rows = "rows" if unit is None else f"values of “{unit}”"
    words = (
        f"Histogram of the certified leak of the {rows}: half of them {_leak(leak['median'])}; "
        f"the worst {_leak(leak['max'])}."
    )
    return {"leaks": leaks_chart(edges, {rows: counts}, leak["exposed_above"] or 0.5, words)}


def _leaks_before_and_after(
    answer: Any, result: dict[str, Any], table: str, progress: Progress
) -> Charts:
    """The same of a table and of a coarser one, and what another target would cost."""
    from memberbound.iid.records import record_leaks
    from memberbound.report.charts import frontier_chart, leaks_chart
    from memberbound.tables.coarsening_search import cell_profile
    from memberbound.tables.counting import count_profile
    from memberbound.tables.table import open_table

    level = answer.after.confidence
    progress(0, None, "counting cells")
    with open_table(table) as opened:
        before = count_profile(opened, answer.counted)
    (edges, was), (_, now) = (
        histogram(record_leaks(profile, None, level))
        for profile in (before, cell_profile(answer.table))
    )
    worst = [_leak(result[when]["record_leak"]["max"]) for when in ("before", "after")]
    leaks = leaks_chart(
        edges,
        {"rows before": was, "rows after": now},
        result["after"]["record_leak"]["exposed_above"] or 0.5,
        f"Leak of the rows: the worst before {worst[0]}; after {worst[1]}.",
    )
    return {"leaks": leaks, "frontier": frontier_chart(result)}


def histogram(leaks: RecordLeaks) -> tuple[list[float], list[int]]:
    """Return the edges of equal bins, and the rows whose certified leak lies in each.

    Bins are closed on the right: a row in (a, b] is certified to leak at most b.
    """
    rows = np.asarray(leaks.profile.count * leaks.profile.cells, dtype=np.int64)
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    place = np.clip(np.searchsorted(edges, leaks.leak, side="left") - 1, 0, _BINS - 1)
    filled = np.zeros(_BINS, dtype=np.int64)
    np.add.at(filled, place, rows)
    return edges.tolist(), filled.tolist()


def _attackers(answer: Any, progress: Progress) -> Charts:
    """The success bounds of three attackers, here and at other ε."""
    from memberbound.report.charts import attackers_chart, success_chart, swept_epsilons

    compared = {name: getattr(answer.compared, name) for name in _ATTACKERS}
    named = {_ATTACKERS[name]: upper for name, upper in compared.items()}
    charts: Charts = {"attackers": attackers_chart(named, answer.success_blind)}
    points = swept(answer, swept_epsilons(answer), progress)
    if points:
        charts["success"] = success_chart(
            list(points),
            {name: [getattr(point, name) for point in points.values()] for name in _ATTACKERS},
            compared,
            asked=(answer.epsilon, f"ε = {significant(answer.epsilon, 'given')}"),
            level=(answer.success_blind, "blind guessing"),
            axis="ε of the mechanism, worst case over all data sets",
        )
    return charts


def swept(answer: Any, epsilons: list[float], progress: Progress) -> dict[float, Comparison]:
    """Return the bounds at other ε; nothing where they fail or take too long.

    The answer waits for its chart: a slow one gets fewer points, spread over the same range.
    """
    from memberbound.errors import MemberboundError

    count = len(epsilons)
    order = dict.fromkeys(i for step in (8, 4, 2, 1) for i in range(0, count, step))
    begun = time.monotonic()
    points: dict[int, Comparison] = {}
    for index in order:
        progress(len(points), count, "other values of ε")
        try:
            (points[index],) = answer.sweep([epsilons[index]])
        except MemberboundError:  # the answer stands without its chart
            return {}
        if time.monotonic() - begun > _SWEEP_SECONDS:
            break
    if len(points) < _FEWEST_POINTS and len(points) < count:
        return {}
    return {epsilons[index]: points[index] for index in sorted(points)}


def _leak(upper: float) -> str:
    return str(marked(upper, "certificate", "leak", 6))
