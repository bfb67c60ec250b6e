"""The sandwich chart: certified ceiling, estimate and measured floor on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from memberbound.games import ATTACKERS
from memberbound.quantities import NO_GUARANTEE, Mark, vacuous
from memberbound.report.drawing import (
    DASHED,
    DOTTED,
    SMALL,
    TEXT,
    BarLook,
    Chart,
    ChartView,
    Legend,
    LineLook,
    colour,
    cut_text,
    draw_vertical,
    label_axes,
    line_key,
    make_axes,
    name_line,
    patch_key,
    set_percent_ticks,
    tag_mark,
    wrap_text,
    write_text,
)
from memberbound.report.model import RECORDS, Report, SandwichRow, blind_guess

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Styles of the spans below a certificate, reached by an attack, and without a bound.
_SPANS: dict[str, BarLook] = {
    "band": {"fc": colour("certified"), "alpha": 0.3, "lw": 0},
    "reached": {"fc": colour("measured"), "alpha": 0.85, "lw": 0},
    "open": {"fc": "none", "ec": colour("stripe"), "hatch": "///", "lw": 0},
}
#: Style of the marker for each kind of number.
_MARKERS: dict[str, LineLook] = {
    "ceiling": {"color": colour("certified"), "mec": colour("card"), "marker": "s", "ms": 11},
    "floor": {"color": colour("measured"), "mec": colour("card"), "marker": ">", "ms": 11},
    "estimate": {"mec": colour("estimated"), "mew": 2.4, "mfc": "none", "marker": "o", "ms": 9},
}
#: The span that each kind of number ends, and its legend text.
_KEYS = {
    "ceiling": ("band", "≤ certified ceiling: proved, nobody is right more often"),
    "floor": ("reached", "≥ measured floor: an attack is right at least this often"),
    "estimate": (None, "≈ estimate: what the best attack tried reached; no bound"),
}


def sandwich_chart(report: Report, record: str) -> Chart | None:
    """Return the sandwich of the average or the most exposed record, or None without rows."""
    rows = [row for row in report.sandwich if row.record == record]
    if not rows:
        return None
    blind = max(row.blind for row in rows)
    allowed, limit = report.limit
    alt = f"Attack success on the {RECORDS[record]}, from 50 to 100 percent; allowed are {limit}."
    lines = [(blind, f"blind guessing {blind_guess(blind)}"), (allowed, f"allowed {limit}")]
    return sandwich_of((f"sandwich-{record}", f"The {RECORDS[record]}", alt), rows, lines)


def sandwich_of(
    names: tuple[str, str, str], rows: Sequence[SandwichRow], lines: Sequence[tuple[float, str]]
) -> Chart:
    """Return a chart of spans; ``names`` are id, title and alt, ``lines`` named vertical lines."""
    numbers = [(r.blind, r.accuracy_upper, r.accuracy_estimate, r.accuracy_lower) for r in rows]
    low = min(0.5, *(number for four in numbers for number in four if number is not None))

    def draw(width: float, _view: ChartView) -> Figure:
        height, room = 90 * len(rows), width - 36
        figure, (axes,) = make_axes(width, height, _sandwich_legend(rows))
        axes.set(xlim=(low - 0.012, 1.012), ylim=(-len(rows), 0))
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        set_percent_ticks(axes.xaxis, 10 * int(10 * low + 1e-9), 100, 10)
        label_axes(axes, "attack success")
        for index, row in enumerate(rows):
            _draw_row(axes, row, -index - 0.44)
            write_text(axes, low, -index - 0.17, cut_text(row.label, room), fontsize=TEXT)
            numbers = f"{_shown_numbers(row)}  ·  {ATTACKERS[row.game]}"
            for line, text in enumerate(wrap_text(numbers, room, SMALL, lines=2)):
                write_text(axes, low, -index - 0.71 - 0.18 * line, text)
        # Stack the names, because lines may be close.
        for index, (x, text) in enumerate(lines):
            up = 1 + (9 + 18 * (len(lines) - 1 - index)) / height
            draw_vertical(axes, x, *(("quiet", DOTTED), ("ink", DASHED))[index], up=up)
            name_line(axes, x, text, up, left=x > low + 0.6 * (1 - low))
        return figure

    id, title, alt = names
    return Chart(
        id,
        title,
        f"{alt} {' '.join(map(_sandwich_words, rows))}",
        ("Subject", "Floor, measured", "Estimate", "Ceiling, certified", "Blind guess"),
        [(row.label, row.least, row.seen, row.most, blind_guess(row.blind)) for row in rows],
        draw,
    )


def _points_of(row: SandwichRow) -> list[tuple[str, float, str]]:
    """Return kind, position and text of every number that a row shows."""
    points = []
    if row.accuracy_upper is not None and not vacuous(row.accuracy_upper):
        points.append(("ceiling", row.accuracy_upper, f"certified {row.most}"))
    if row.beaten is not None:
        points.append(("floor", row.beaten, f"measured {row.least}"))
    if row.observed is not None:
        points.append(("estimate", row.observed, f"estimate {row.seen}"))
    return points


def _sandwich_legend(rows: Sequence[SandwichRow]) -> Legend:
    shown = {kind for row in rows for kind, _, _ in _points_of(row)}
    legend: list[tuple[Artist, str]] = []
    for kind, (span, text) in _KEYS.items():
        if kind in shown:
            marker = line_key(**(_MARKERS[kind] | {"ls": ""}))
            if span:  # a pair of handles, which the type stubs lack
                both = cast("Artist", (patch_key(**_SPANS[span]), marker))
            legend.append((both if span else marker, text))
    if any(vacuous(row.accuracy_upper) for row in rows):
        legend.append((patch_key(**_SPANS["open"]), "striped: no guarantee"))
    return legend


def _draw_row(axes: Axes, row: SandwichRow, y: float) -> None:
    """Draw the span that contains the truth, open or closed by a certificate, and its numbers."""
    start = max(row.blind, row.accuracy_lower or row.blind)
    upper = row.accuracy_upper
    spans = [("open", start, 1.0)]
    if upper is not None and not vacuous(upper):
        spans = [("band", start, upper)]
    if start > row.blind:
        spans.append(("reached", row.blind, start))
    for kind, first, last in spans:
        bars = axes.barh(y, max(last - first, 0), 0.23, left=first, **_SPANS[kind])
        tag_mark(bars[0], kind)
    for kind, x, words in _points_of(row):
        (marker,) = axes.plot([x], [y], ls="", clip_on=False, **_MARKERS[kind])
        tag_mark(marker, kind, f"{row.label}: {words}")


def _shown_numbers(row: SandwichRow) -> str:
    """Format the numbers of a row, each with the sign of its kind."""
    parts = [row.least if row.beaten else None, row.seen]
    proved = row.most.kind == "certificate"
    parts.append(row.most if proved else Mark("unproved", NO_GUARANTEE))
    return "  ·  ".join(str(part) for part in parts if part is not None)


def _sandwich_words(row: SandwichRow) -> str:
    parts = [words for _, _, words in reversed(_points_of(row))]
    if row.least is not None and not row.beaten:
        parts.append(str(row.least))
    if row.most.kind != "certificate":
        parts.append(NO_GUARANTEE)
    return f"{row.label}: {', '.join(parts)}."
