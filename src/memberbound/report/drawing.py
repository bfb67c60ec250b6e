"""A chart: drawn by matplotlib, shown as SVG in a page, written as SVG, PNG or PDF.

Colours have the names of the report's style sheet: in a page an SVG takes the page's light or dark
scheme, and a file of its own brings both.  Texts stay texts.  Everything is drawn without pyplot,
and under one lock, because matplotlib's settings belong to the whole process.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from memberbound.errors import InputError
from memberbound.files import written_whole
from memberbound.quantities import Mark

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
#: From the Okabe–Ito palette, for the figures of the papers.
BLUE, ORANGE, GREY, GREEN = "#0072B2", "#D55E00", "#555555", "#009E73"

Cell = str | Mark | None
View = Literal["", "linear", "log", "both"]
#: Handle and text of each line of a legend.
Legend = Sequence[tuple[Any, str]]

#: Pixels: one drawing serves a page, where it is stretched a little, and a phone.
_WIDTH, _FILE_WIDTH = 440, 640
TEXT, SMALL = 13.0, 12.0
#: Width of an average character in units of its size.
_CHARACTER = 0.54
DOTTED: Any = (0, (1, 2))
DASHED: Any = (0, (5, 2.5))
DASH_DOT: Any = (0, (5, 2, 1, 2))
LONG_DASH: Any = (0, (9, 3))

# ── A chart and its files ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Chart:
    """A picture, what it shows in words, and its numbers as a table.

    ``draw`` takes a width in pixels and a view: other axes for the same data, the first by default.
    """

    id: str
    title: str
    alt: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    draw: Callable[[float, View], Figure]
    views: tuple[View, ...] = ("",)

    def figure(self, width: float = _WIDTH, view: View | None = None) -> Figure:
        """Return the matplotlib figure."""
        with _settings():
            return self.draw(width, self.views[0] if view is None else view)

    def svg(self, view: View | None = None, *, alone: bool = False) -> str:
        """Return an ``svg`` element: for a page with the report's style sheet, or ``alone``."""
        shown = self.views[0] if view is None else view
        name = "-".join(filter(None, (self.id, shown)))
        return _svg(self.figure(view=shown), name, self.title, self.alt, alone=alone)

    def to_dict(self, view: View | None = None) -> dict[str, object]:
        """Return the content of an SVG file, its words and its numbers, for a web page."""
        return {
            "title": self.title,
            "alt": self.alt,
            "svg": self.svg(view, alone=True),
            "columns": list(self.columns),
            "rows": [["–" if cell is None else str(cell) for cell in row] for row in self.rows],
        }

    def save(self, path: str | Path) -> Path:
        """Write PNG, SVG or PDF, with all views beside each other."""
        both = len(self.views) > 1
        figure = self.figure(2 * _WIDTH if both else _FILE_WIDTH, "both" if both else None)
        _put_title(figure, self.title)
        return save(figure, path, title=self.title, caption=self.alt)


def check_target(path: str | Path) -> Path:
    """Return the path of a plot that can be written, or refuse it before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InputError(f"plot must be a file ending in {', '.join(FORMATS)}, got {str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(f"plot must be in an existing folder, got {str(path)!r}.")
    if target.is_dir():
        raise InputError(f"plot must be a file, got the folder {str(path)!r}.")
    return target


def save(figure: Figure, path: str | Path, *, title: str, caption: str) -> Path:
    """Write a figure as PNG, SVG or PDF; an SVG holds its title and caption.

    The file appears whole or not at all, and the same figure gives the same file.
    """
    target = check_target(path)
    kind = target.suffix.lower()

    def write_draft(draft: Path) -> None:
        if kind in (".png", ".pdf"):
            about = {"Title": title} | ({"CreationDate": None} if kind == ".pdf" else {})
            with _settings(), _halos(figure):
                figure.savefig(draft, format=kind[1:], dpi=160, facecolor="white", metadata=about)
            return
        svg = _svg(figure, "chart", title, caption, alone=True)
        draft.write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{svg}\n', "utf-8")

    written_whole(target, write_draft, force=True)
    return target


def _put_title(figure: Figure, title: str) -> None:
    """Make a figure higher by a title."""
    width, height = figure.get_size_inches()
    whole = height + 34 / 72
    for axes in figure.axes:
        box, share = axes.get_position(), height / whole
        axes.set_position((box.x0, box.y0 * share, box.width, box.height * share))
    figure.set_size_inches(width, whole)
    place = {"x": 8 / 72 / width, "y": 1 - 8 / 72 / whole, "va": "top"}
    figure.text(s=cut_text(title, 72 * width - 16), fontsize=TEXT, color=colour("ink"), **place)


# ── Settings and colours ──────────────────────────────────────────────────────────────────────────

_LOCK = threading.RLock()
_OWN_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "memberbound",
    # A text of a file may hold dollar signs.
    "text.parse_math": False,
    "hatch.linewidth": 1.4,
    "figure.dpi": 72,
}


@contextmanager
def _settings() -> Iterator[None]:
    """Draw with matplotlib's defaults and ours, whatever the process has set."""
    from matplotlib import style

    with _LOCK, warnings.catch_warnings(), style.context(["default", _OWN_SETTINGS]):
        # The reader's fonts draw the text; the one it is measured with may lack a character.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@cache
def palette() -> tuple[dict[str, str], dict[str, str]]:
    """Return the colours of the report's style sheet by their names, light and dark.

    >>> light, dark = palette()
    >>> light["certified"], dark["certified"]
    ('#0067a0', '#6cbdf0')
    """
    sheet = files("memberbound.report").joinpath("templates", "report.css").read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part))
        for part in sheet.split("@media screen and (prefers-color-scheme: dark)")[:2]
    )
    return light, dark


def colour(name: str) -> str:
    """Return a colour of the light scheme; an SVG has its name in place of it."""
    return palette()[0][name]


def _variable(colour: str) -> str:
    """Return the custom property for a colour of the light scheme; other colours stay."""
    name = next((name for name, value in palette()[0].items() if value == colour), None)
    return colour if name is None else f"var(--{name})"


@contextmanager
def _halos(figure: Figure) -> Iterator[None]:
    """Let lines pass behind texts, as the style of an SVG does."""
    from matplotlib.patheffects import withStroke
    from matplotlib.text import Text

    effects = {text: text.get_path_effects() for text in figure.findobj(Text)}
    for text in effects:
        text.set_path_effects([withStroke(linewidth=3, foreground="white")])
    yield
    for text, before in effects.items():
        text.set_path_effects(before)


# ── matplotlib's SVG, made fit for a page ─────────────────────────────────────────────────────────

_LONG_NUMBER = re.compile(r"-?\d+\.\d\d+")
_FONT = re.compile(r"(?P<style>italic)? ?(?P<weight>\d+|bold)? ?(?P<size>[\d.]+)px")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
#: Styles that a page or the root sets once for all.
_INHERITED = {"font-family", "font-stretch", "font-variant", "stroke-linejoin", "stroke-miterlimit"}
_HALO = "text{paint-order:stroke;stroke:var(--card);stroke-width:6px}"
_FAMILY = 'system-ui,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans",sans-serif'


def _svg(figure: Figure, id: str, title: str, words: str, *, alone: bool) -> str:
    """Return a figure as an ``svg`` element with a name and a description, and no ``style``.

    ``alone`` brings the colours of both schemes along.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    source = io.BytesIO()
    canvas: Any = FigureCanvasSVG(figure)
    with _settings():
        canvas.print_svg(source, metadata={"Date": None})
    drawn = ElementTree.fromstring(source.getvalue())
    box = _short(drawn.get("viewBox", ""))
    root = ElementTree.Element("svg", {"viewBox": box, "role": "img", "stroke-linejoin": "round"})
    for tag, attribute, text in (
        ("title", "aria-labelledby", title),
        ("desc", "aria-describedby", words),
    ):
        root.set(attribute, f"{id}-{tag}")
        ElementTree.SubElement(root, tag, {"id": f"{id}-{tag}"}).text = _printable(text)
    style = ElementTree.SubElement(root, "style") if alone else None
    for node in drawn:
        root.extend(_cleaned(node, id))
    if style is not None:
        _, _, width, height = box.split()
        root.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height}
        used = set(re.findall(r"var\(--([a-z-]+)\)", ElementTree.tostring(root, "unicode")))
        light, dark = (
            ";".join(f"--{name}:{colours[name]}" for name in sorted(used | {"card", "ink"}))
            for colours in palette()
        )
        style.text = (
            f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
            f"svg{{background:var(--card);font-family:{_FAMILY}}}{_HALO}"
        )
    return ElementTree.tostring(root, "unicode")


def _cleaned(node: ElementTree.Element, id: str) -> list[ElementTree.Element]:
    """Return what is left of an element of matplotlib's: itself, its children, or nothing."""
    tag = node.tag.rpartition("}")[2]
    if tag in ("metadata", "style"):
        return []
    clean = ElementTree.Element(tag, _attributes(node, tag, id) | _styles(node, id))
    if tag in ("text", "tspan"):
        clean.text = node.text
        clean.attrib.setdefault("fill", "var(--ink)")
    name = node.get("id", "")
    if name.startswith("mark-"):
        kind, _, words = name.partition("|")
        clean.set("class", kind)
        if words:
            ElementTree.SubElement(clean, "title").text = words
    for child in node:
        clean.extend(_cleaned(child, id))
    if tag == "g" and not clean.attrib:
        return list(clean)
    invisible = (
        clean.get("fill") == "none" and "stroke" not in clean.attrib and "id" not in clean.attrib
    )
    empty = tag in ("g", "defs") and len(clean) == 0
    return [] if empty or (tag == "path" and invisible) else [clean]


def _attributes(node: ElementTree.Element, tag: str, id: str) -> dict[str, str]:
    """Return the attributes but the style; ids begin with that of the chart."""
    attributes: dict[str, str] = {}
    for key_, value in node.attrib.items():
        name = key_.rpartition("}")[2]
        if name in ("href", "clip-path"):
            attributes[name] = value.replace("#", f"#{id}-")
        elif name == "id":
            # Groups are named for people; what is referred to is named by a hash.
            if tag not in ("g", "text"):
                attributes[name] = f"{id}-{value}"
        elif name != "style" and not value.startswith("rotate(-0 "):
            attributes[name] = _short(value)
    return attributes


def _styles(node: ElementTree.Element, id: str) -> dict[str, str]:
    """Return the style as attributes: a page's policy refuses style attributes."""
    styles: dict[str, str] = {}
    for declaration in filter(None, node.get("style", "").split(";")):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            font = _FONT.match(value)
            parts = {} if font is None else font.groupdict()
            styles |= {f"font-{part}": text for part, text in parts.items() if text}
        elif name not in _INHERITED:
            if value.startswith("url("):
                styles[name] = value.replace("#", f"#{id}-")
            else:
                styles[name] = _variable(value) if value.startswith("#") else _short(value)
    if "font-size" in styles:
        styles["font-size"] = styles["font-size"].removesuffix("px")
    return styles


def _short(text: str) -> str:
    """Return numbers with one decimal, which is a tenth of a pixel."""
    return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), text)


def _printable(text: str) -> str:
    """Return a text that XML can hold."""
    return _UNPRINTABLE.sub("�", text)


def cut_text(text: str, room: float, size: float = TEXT) -> str:
    """Return as much of a text as fits; the table of a chart has the whole."""
    line = _printable(" ".join(text.split()))
    most = max(8, int(room / (_CHARACTER * size)))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


# ── Pieces that charts share ──────────────────────────────────────────────────────────────────────


def make_axes(
    width: float,
    height: float,
    legend: Legend = (),
    *,
    left: float = 48,
    right: float = 14,
    top: float = 30,
    rows: int = 1,
    columns: int = 1,
    gap: float = 34,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes of this height in pixels, row by row, and a legend below them."""
    from matplotlib.figure import Figure

    handle = 34.0
    most = max(16, int((width - handle - 12) / (_CHARACTER * SMALL)))
    texts = ["\n".join(wrap(_printable(text), most)) for _, text in legend]
    lines = sum(text.count("\n") + 1 for text in texts)
    below = 42 + (15.6 * lines + 5 * len(texts) + 4 if texts else 0)
    whole = top + rows * height + (rows - 1) * gap + below
    figure = Figure(figsize=(width / 72, whole / 72), dpi=72, facecolor="none")
    wide = width / columns - left - right
    panels = []
    for row in range(rows):
        for column in range(columns):
            x, y = left + column * width / columns, below + (rows - 1 - row) * (height + gap)
            panels.append(
                figure.add_axes(
                    (x / width, y / whole, wide / width, height / whole), facecolor="none"
                )
            )
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(colour("edge"))
        axes.tick_params(colors=colour("edge"), labelcolor=colour("ink"), labelsize=SMALL)
        axes.grid(visible=True, color=colour("grid"), linewidth=1)
        axes.set_axisbelow(True)
    if texts:
        shown = figure.legend(
            [handle for handle, _ in legend],
            texts,
            loc="lower left",
            bbox_to_anchor=(4 / width, 2 / whole),
            frameon=False,
            fontsize=SMALL,
            labelcolor=colour("ink"),
            labelspacing=0.4,
            handlelength=handle / SMALL,
            handletextpad=0.6,
            borderpad=0,
            borderaxespad=0,
        )
        for text in shown.get_texts():
            text.set_linespacing(1.3)
    return figure, panels


def label_axes(axes: Axes, x: str, y: str = "", pad: float = 8) -> None:
    """Write what the axes show: below, and above the vertical one, where it need not be turned."""
    axes.set_xlabel(_printable(x), fontsize=SMALL, color=colour("quiet"), labelpad=5)
    if y:
        axes.set_title(_printable(y), loc="left", fontsize=SMALL, color=colour("quiet"), pad=pad)


def set_ticks(axis: Axis, values: Sequence[float], texts: Sequence[str]) -> None:
    """Set the ticks and what stands at them."""
    from matplotlib.ticker import NullLocator

    axis.set_ticks(list(values), labels=list(texts))
    axis.set_minor_locator(NullLocator())


def set_percent_ticks(axis: Axis, first: int, last: int, step: int) -> None:
    """Set ticks in percent, the ends included."""
    ticks = range(first, last + 1, step)
    set_ticks(axis, [tick / 100 for tick in ticks], [f"{tick} %" for tick in ticks])


def tag_mark(artist: Artist, kind: str, words: str = "") -> None:
    """Name an artist that shows data; a pointer that rests on it in a page shows the words."""
    artist.set_gid(f"mark-{kind}" + (f"|{_printable(words)}" if words else ""))


def write_text(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Write a text at a place of the axes."""
    usual: dict[str, Any] = {"fontsize": SMALL, "color": colour("ink"), "va": "center"}
    axes.text(x, y, _printable(text), **usual | look)


def draw_vertical(axes: Axes, x: float, color: str, dash: Any, up: float = 1.0) -> None:
    """Draw a vertical line, which may reach above the axes."""
    at: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 1.5}
    axes.plot([x, x], [0, up], color=colour(color), ls=dash, lw=1.5, **at)


def name_line(axes: Axes, x: float, text: str, up: float, *, left: bool) -> None:
    """Write what a vertical line is, at this share of the height, on its left or right."""
    axes.annotate(
        _printable(text),
        (x, up),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if left else 4, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        fontsize=SMALL,
        color=colour("ink"),
        annotation_clip=False,
    )


def line_key(**look: Any) -> Any:
    """Return the line of a legend that looks like this."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)


def patch_key(**look: Any) -> Any:
    """Return the patch of a legend that looks like this."""
    from matplotlib.patches import Patch

    return Patch(**look)


def bar_style(color: str, hatch: str = "") -> dict[str, Any]:
    """Return how bars of one colour look, filled or hatched."""
    shade = colour(color)
    return {"fc": "none" if hatch else shade, "ec": shade, "hatch": hatch, "lw": 1.4}
