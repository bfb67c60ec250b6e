"""Static SVG of the report's figures: no script, no network, light and dark by the page's colours.

A figure is described as Plotly describes one (:mod:`memberbound.report.plots`); this module draws
the few things that the report uses: bars, lines, markers, texts and lines across.  Colours are
custom properties of the page's style sheet, so one drawing serves both schemes and paper.  A text
of the report is escaped where it is drawn and nowhere else marked up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import pairwise
from typing import Any

__all__ = ["drawn"]

#: Width of a character in units of its size, for texts that must fit.
_CHARACTER = 0.54
_SMALLEST = 9.0
_DASHES = {"dot": "2 4", "dash": "8 4", "dashdot": "8 3 2 3"}
_TAG = re.compile(r"</?([bi])>")
_ANCHORS = {"left": "start", "center": "middle", "right": "end"}
Spec = Mapping[str, Any]


def drawn(id: str, data: Sequence[Spec], layout: Spec, width: float) -> str:
    """Return one figure as an ``svg`` element of this width; ids in it begin with ``id``."""
    return _Figure(id, layout, float(width)).draw(data)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0").replace("-0.0", "0")


def _colour(value: object) -> str:
    """Return a colour of the style sheet by its name, or nothing for a transparent one."""
    text = str(value)
    if text.startswith("@"):
        return f"var(--{escape(text[1:])})"
    return "none"


@dataclass(frozen=True)
class _Axis:
    """One axis: what it is told, and the pixels that it covers."""

    spec: Spec
    start: float
    end: float

    @property
    def log(self) -> bool:
        return self.spec.get("type") == "log"

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        return self.near(math.log10(value) if self.log else value)

    def near(self, place: float) -> float:
        """Return the pixel of a place in the units of the range: powers on a logarithmic axis."""
        low, high = map(float, self.spec["range"])
        return self.start + (place - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return where the ticks are and what stands there."""
        if "tickvals" in self.spec:
            texts = self.spec["ticktext"]
            return [(self.at(v), t) for v, t in zip(self.spec["tickvals"], texts, strict=True)]
        low, high = self.spec["range"]
        step = _round_step((high - low) / self.spec.get("nticks", 6))
        first = math.ceil(low / step - 1e-9)
        values = [i * step for i in range(first, int(high / step + 1e-9) + 1)]
        return [(self.near(value), f"{value:.10g}") for value in values]


def _round_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least as wide as asked for."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))


@dataclass
class _Figure:
    id: str
    layout: Spec
    width: float
    patterns: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        margin = self.layout["margin"]
        self.height = float(self.layout["height"])
        self.left, self.right = float(margin["l"]), self.width - margin["r"]
        if any(self._axis_spec(y).get("visible", True) for y in self._vertical()):
            self.left = max(self.left, 44.0)
        self.top, self.bottom = float(margin["t"]), self.height - margin["b"]
        self.x = _Axis(self.layout["xaxis"], self.left, self.right)
        self.y = {}
        for name in self._vertical():
            spec = self._axis_spec(name)
            low, high = spec.get("domain", (0, 1))
            room = self.bottom - self.top
            self.y[name] = _Axis(spec, self.bottom - low * room, self.bottom - high * room)

    def _vertical(self) -> list[str]:
        return [name.replace("axis", "") for name in self.layout if name.startswith("yaxis")]

    def _axis_spec(self, name: str) -> Spec:
        spec: Spec = self.layout[f"yaxis{name[1:]}"]
        return spec

    def draw(self, data: Sequence[Spec]) -> str:
        """Return the element: axes, lines across, data, texts."""
        parts = [*self._axes(), *(self._across(shape) for shape in self.layout.get("shapes", ()))]
        for trace in data:
            parts += self._trace(trace)
        parts += [self._note(note) for note in self.layout.get("annotations", ())]
        size = f"0 0 {_number(self.width)} {_number(self.height)}"
        defs = f"<defs>{''.join(self.patterns)}</defs>" if self.patterns else ""
        return f'<svg viewBox="{size}" aria-hidden="true">{defs}{"".join(parts)}</svg>'

    # Axes

    def _axes(self) -> Iterator[str]:
        top = min(axis.end for axis in self.y.values())
        low = self.bottom
        ticks = self.x.ticks()
        # What does not fit beside its neighbour is left out; the grid stays.
        room = max((len(text) for _, text in ticks), default=1) * 12 * _CHARACTER + 8
        every = max(1, math.ceil(room * len(ticks) / max(self.right - self.left, 1)))
        for place, (x, text) in enumerate(ticks):
            yield f'<path class="grid" d="M{_number(x)} {_number(top)}V{_number(low)}"/>'
            if (len(ticks) - 1 - place) % every == 0:
                last = x > self.right - 8
                where = min(x + 8, self.width - 2) if last else x
                yield _text(text, where, low + 18, 12, anchor="end" if last else "middle")
        title = self.x.spec["title"]["text"]
        middle = (self.left + self.right) / 2
        size = _fitting(title, 12, self.width - 8)
        yield _text(title, middle, low + 40, size, anchor="middle", colour="quiet")
        for axis in self.y.values():
            if not axis.spec.get("visible", True):
                continue
            for y, text in axis.ticks():
                across = f"M{_number(self.left)} {_number(y)}H{_number(self.right)}"
                yield f'<path class="grid" d="{across}"/>'
                yield _text(text, self.left - 6, y + 4, 12, anchor="end")
            title = axis.spec["title"]["text"]
            if title:
                middle = (axis.start + axis.end) / 2
                yield _text(title, 12, middle, 12, anchor="middle", colour="quiet", turned=True)

    # Data

    def _trace(self, trace: Spec) -> Iterator[str]:
        if trace["type"] == "bar":
            yield from self._bars(trace)
            return
        axis = self.y[trace.get("yaxis", "y")]
        points = [
            (self.x.at(x), axis.at(y))
            for x, y in zip(trace["x"], trace["y"], strict=True)
            if not (self.x.log and x <= 0) and not (axis.log and y <= 0)
        ]
        points = [(x, y) for x, y in points if x >= self.left - 1]
        if not points:
            return
        if "lines" in trace["mode"]:
            yield self._line(trace, points)
        if "markers" in trace["mode"]:
            marker = trace["marker"]
            most = marker.get("maxdisplayed", len(points)) or len(points)
            every = max(1, math.ceil(len(points) / most))
            texts = trace.get("text") or trace.get("hovertext") or [""] * len(points)
            for i in range(0, len(points), every):
                yield _marker(marker, *points[i], str(texts[i]) if i < len(texts) else "")

    def _line(self, trace: Spec, points: Sequence[tuple[float, float]]) -> str:
        line = trace["line"]
        if line.get("shape") == "hvh":
            points = _steps(points)
        path = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        dash = _DASHES.get(str(line.get("dash", "")))
        attributes = f'stroke="{_colour(line["color"])}" stroke-width="{line["width"]}" fill="none"'
        if dash:
            attributes += f' stroke-dasharray="{dash}"'
        if "opacity" in trace:
            attributes += f' opacity="{trace["opacity"]}"'
        title = _title(str(trace.get("name", "")))
        return f'<path class="mark-line" d="{path}" {attributes}>{title}</path>'

    def _bars(self, trace: Spec) -> Iterator[str]:
        level = trace.get("orientation") == "h"
        axis = self.y[trace.get("yaxis", "y")]
        xs, ys = trace["x"], trace["y"]
        step = (xs[1] - xs[0]) * (1 - self.layout.get("bargap", 0)) if len(xs) > 1 else 1.0
        texts = trace.get("text") or [""] * len(xs)
        said = trace.get("hovertext") or [""] * len(xs)
        look = self._filling(trace["marker"])
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if level:
                base = trace.get("base", [max(0.0, self.x.spec["range"][0])])[i]
                half = trace["width"][i] / 2
                ends = (self.x.at(base), self.x.at(base + x if "base" in trace else x))
                tops = (axis.at(y + half), axis.at(y - half))
            else:
                ends = (self.x.at(x - step / 2), self.x.at(x + step / 2))
                tops = (axis.at(y), axis.at(0))
            if ends[1] < self.left or (not level and y == 0):
                continue
            left, wide = max(min(ends), self.left), max(ends) - max(min(ends), self.left)
            box = f'x="{_number(left)}" y="{_number(min(tops))}" width="{_number(wide)}"'
            high = f'height="{_number(max(tops) - min(tops))}"'
            title = _title(str(said[i]))
            yield f'<rect class="mark-bar" {box} {high} {look}>{title}</rect>'
            if texts[i] and not level:
                yield _text(str(texts[i]), sum(ends) / 2, min(tops) - 4, 10, anchor="middle")

    def _filling(self, marker: Spec) -> str:
        colour = _colour(marker.get("color"))
        pattern = marker.get("pattern", {})
        edge = marker.get("line", {})
        shown = f'fill="{colour}"'
        if pattern.get("shape"):
            tone = _colour(pattern.get("fgcolor", marker.get("color")))
            shown = f'fill="url(#{self._pattern(str(pattern["shape"]), tone)})"'
        if edge.get("width"):
            shown += f' stroke="{_colour(edge["color"])}" stroke-width="{edge["width"]}"'
        if "opacity" in marker:
            shown += f' fill-opacity="{marker["opacity"]}"'
        return shown

    def _pattern(self, shape: str, tone: str) -> str:
        name = f"{self.id}-{len(self.patterns)}"
        lines = "M-2 2 2-2M0 8 8 0M6 10 10 6" + ("M0 0 8 8" if shape == "x" else "")
        self.patterns.append(
            f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<path d="{lines}" stroke="{tone}" stroke-width="1.6" fill="none"/></pattern>'
        )
        return name

    # Texts and lines across

    def _across(self, shape: Spec) -> str:
        def place(ref: str, axis: _Axis, value: float) -> float:
            if ref != "paper":
                return axis.at(value)
            return axis.start + value * (axis.end - axis.start)

        paper = _Axis(self.y["y"].spec, self.bottom, self.top)
        ends = [
            (
                place(shape["xref"], self.x, shape[f"x{i}"]),
                place(
                    shape["yref"],
                    paper if shape["yref"] == "paper" else self.y["y"],
                    shape[f"y{i}"],
                ),
            )
            for i in (0, 1)
        ]
        path = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in ends)
        line = shape["line"]
        dash = _DASHES[line["dash"]]
        tone = f'stroke="{_colour(line["color"])}" stroke-width="{line["width"]}"'
        return f'<path d="{path}" {tone} stroke-dasharray="{dash}" fill="none"/>'

    def _note(self, note: Spec) -> str:
        x, y = note["x"], note["y"]
        across = self.left + x * (self.right - self.left)
        x = across if note["xref"] == "paper" else self.x.near(x)
        up = self.bottom - y * (self.bottom - self.top)
        y = up if note["yref"] == "paper" else self.y["y"].near(y)
        font = note.get("font", {})
        size = float(font.get("size", 13))
        x += note.get("xshift", 0)
        y += {"top": 0.9, "middle": 0.35, "bottom": -0.2}[note["yanchor"]] * size
        anchor = _ANCHORS[note["xanchor"]]
        room = self.width - x - 2 if anchor == "start" else x - 2
        if anchor == "start" and room < 60:  # a label at the right edge
            anchor, room, x = "end", x - 2, x - 8
        colour = str(font.get("color", "@ink"))[1:]
        size = _fitting(note["text"], size, room)
        return _text(note["text"], x, y, size, anchor=anchor, colour=colour, room=room)


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return points of a line that changes its height halfway between two."""
    found = [points[0]]
    for (x0, y0), (x1, y1) in pairwise(points):
        found += [((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1)]
    return [*found, points[-1]]


def _marker(marker: Spec, x: float, y: float, said: str) -> str:
    symbol, half = str(marker["symbol"]), float(marker["size"]) / 2
    shape = symbol.removesuffix("-open")
    edge = marker.get("line", {})
    fill = _colour(marker["color"])
    look = f'fill="{fill}"'
    if symbol.endswith("-open"):
        look = f'fill="var(--card)" stroke="{fill}" stroke-width="1.8"'
    elif edge:
        look += f' stroke="{_colour(edge["color"])}" stroke-width="{edge["width"]}"'
    paths: dict[str, list[tuple[float, float]]] = {
        "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        "diamond": [(0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)],
        "triangle-right": [(-0.8, -1), (1, 0), (-0.8, 1)],
        # A shield.
        "pentagon": [(0, -1), (0.9, -0.7), (0.8, 0.3), (0, 1.1), (-0.8, 0.3), (-0.9, -0.7)],
    }
    if shape in paths:
        corners = (f"{_number(x + a * half)} {_number(y + b * half)}" for a, b in paths[shape])
        return f'<path class="mark-point" d="M{"L".join(corners)}Z" {look}>{_title(said)}</path>'
    place = f'cx="{_number(x)}" cy="{_number(y)}" r="{_number(half)}"'
    return f'<circle class="mark-point" {place} {look}>{_title(said)}</circle>'


def _title(text: str) -> str:
    """Return what a pointer that rests on a mark shows; the text comes escaped for Plotly."""
    return f"<title>{escape(unescape(text), quote=False)}</title>" if text else ""


def _plain(text: str) -> str:
    return unescape(_TAG.sub("", text))


def _fitting(text: str, size: float, room: float) -> float:
    """Return the largest size, from a smallest one on, at which a text fits."""
    wide = max(1, len(_plain(text))) * _CHARACTER
    return max(_SMALLEST, min(size, room / wide))


def _text(
    text: str,
    x: float,
    y: float,
    size: float,
    *,
    anchor: str = "start",
    colour: str = "ink",
    turned: bool = False,
    room: float = math.inf,
) -> str:
    """Return a text; ``<b>`` and ``<i>`` in it are ours, everything else is shown as it is."""
    most = room / (_CHARACTER * size) if math.isfinite(room) else math.inf
    shown = _plain(text)
    if len(shown) > most + 1:
        inner = escape(shown[: max(1, int(most) - 1)].rstrip() + "…", quote=False)
    else:
        inner = _spans(text)
    place = f'x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}"'
    if anchor != "start":
        place += f' text-anchor="{anchor}"'
    if turned:
        place += f' transform="rotate(-90 {_number(x)} {_number(y)})"'
    return f'<text class="halo" {place} fill="var(--{escape(colour)})">{inner}</text>'


def _spans(text: str) -> str:
    """Return the pieces of a text, bold and italic ones as spans, each escaped anew."""
    found, open_, start = [], "", 0
    for tag in [*_TAG.finditer(text), None]:
        piece = text[start : len(text) if tag is None else tag.start()]
        shown = escape(unescape(piece), quote=False)
        if shown:
            found.append(f'<tspan class="{open_}">{shown}</tspan>' if open_ else shown)
        if tag is not None:
            open_ = "" if tag.group().startswith("</") else tag.group(1)
            start = tag.end()
    return "".join(found)
