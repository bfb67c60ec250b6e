"""What ε means for these records, for three attackers who know ever less."""

from __future__ import annotations

import math
from typing import Any

from memberbound.quantities import marked, significant
from memberbound.report.marks import allowed_over
from memberbound.report.plots.drawing import Drawing, Legend, axis, layout, line_at, note, shares

__all__ = ["ATTACKERS", "sweep_drawing"]

#: Key of the sweep, colour, symbol, width, and who that attacker is.
ATTACKERS = (
    (
        "worst_case_upper",
        "worst-case",
        "square",
        "worst case: knows everybody drawn but one, any data set whatever",
    ),
    (
        "population_upper",
        "in-population",
        "diamond",
        "in this population: knows everybody drawn but one, all from this table",
    ),
    (
        "practical_upper",
        "practical",
        "circle",
        "practical: knows this table, but not who was drawn",
    ),
)


def sweep_drawing(report: dict[str, Any]) -> Drawing | None:
    """Return the certified success of the three attackers over ε; nothing without a sweep."""
    said = report["translation"]
    if said is None or said["population"] is None or not said["population"]["sweep"]:
        return None
    people = said["population"]
    sweep = people["sweep"]
    limit = allowed_over(people["blind"], said["eta"])
    allowed = people["blind"] + said["eta"]
    epsilons = [point["epsilon"] for point in sweep]
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": epsilons,
            "y": [point[key] for point in sweep],
            "hoverinfo": "text",
            "hovertext": [
                f"ε = {significant(point['epsilon'], 'lower', 4)}, {who.split(':')[0]}: "
                f"{marked(point[key], 'certificate')}"
                for point in sweep
            ],
            "line": {"color": f"@{color}", "width": 2.5},
            "marker": {"symbol": symbol, "size": 8, "color": f"@{color}"},
        }
        for key, color, symbol, who in ATTACKERS
    ]
    ends = [math.log10(epsilons[0]), math.log10(epsilons[-1])]
    pad = 0.03 * (ends[1] - ends[0]) or 0.1
    ticks = [t for t in _TICKS if epsilons[0] <= t <= epsilons[-1]]
    return Drawing(
        id="sweep",
        alt=_alt(said),
        data=data,
        layout=layout(
            400,
            xaxis=axis(
                f"ε of the release (δ = {significant(said['delta'], 'given')})",
                type="log",
                range=[ends[0] - pad, ends[1] + pad],
                tickvals=ticks,
                ticktext=[significant(t, "given") for t in ticks],
            ),
            yaxis=axis("right at most, worst record", range=[0.49, 1.01], **shares(50, 100, 10)),
            shapes=[
                line_at(said["epsilon"], "@quiet", "dot"),
                line_at(0, "@ink", "dash")
                | {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": allowed, "y1": allowed},
            ],
            annotations=[
                note(
                    f"your ε = {significant(said['epsilon'], 'given')}",
                    math.log10(said["epsilon"]),
                    1,
                    yref="paper",
                    xanchor="right",
                    yanchor="top",
                    xshift=-4,
                    font={"size": 12},
                ),
                note(
                    f"allowed {limit}",
                    0.01,
                    allowed,
                    xref="paper",
                    yanchor="bottom",
                    font={"size": 12},
                ),
            ],
            margin={"l": 58, "r": 16, "t": 12, "b": 52},
        ),
        columns=("ε", "Worst case", "In this population", "Practical"),
        rows=[
            (
                significant(point["epsilon"], "lower", 4),
                *(marked(point[key], "certificate") for key, *_ in ATTACKERS),
            )
            for point in sweep
        ],
        legend=[Legend("line", who, color, "", symbol) for _, color, symbol, who in ATTACKERS],
    )


_TICKS = [d * 10.0**power for power in range(-6, 7) for d in (1, 2, 5)]


def _alt(said: dict[str, Any]) -> str:
    people = said["population"]
    return (
        "Certified success of three attackers over ε. At "
        f"ε = {significant(said['epsilon'], 'given')}: worst case "
        f"{marked(people['worst_case_upper'], 'certificate')}, in this population "
        f"{marked(people['population_upper'], 'certificate')}, practical "
        f"{marked(people['practical_upper'], 'certificate')}; allowed "
        f"{allowed_over(people['blind'], said['eta'])}."
    )
