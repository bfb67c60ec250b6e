"""Charts as files and as parts of a page: the same every time, safe, and readable by everybody."""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import memberbound
from commands import python
from memberbound.report import answer_charts, charts
from memberbound.report.drawing import PLOT_FORMATS, Chart, palette
from memberbound.tables.coarsening import FrontierPoint
from report import sample as reports
from report.sample import typed

#: Markup, mathematics of matplotlib's, characters that XML forbids, and some that no font here has.
AWKWARD = "<b>&amp;$x^2$ \x00\x1b\ud800 \u6771\u4eac |mark-x 5 % \\frac{1}{"


def leaks(unit: str | None = None) -> Chart:
    profile = SimpleNamespace(count=np.array([1, 9, 5, 12_345]), cells=np.array([1, 1, 1, 1]))
    each = SimpleNamespace(profile=profile, leak=np.array([0.74, 0.5, 0.125, 1.0]))
    record_leak = SimpleNamespace(median=1.0, max=1.0, exposed_above=0.5)
    return answer_charts.leaks_chart(
        SimpleNamespace(leaks=each, record_leak=record_leak, unit=unit)
    )


def every_chart() -> dict[str, Chart]:
    """One chart of each kind, with real numbers."""
    report = typed(reports.sample())
    explanation = memberbound.explain(epsilon=1.0, delta=1e-5, adjacency="add-remove")
    attacks = {
        "loss": {"accuracy": {"estimate": 0.61, "lower": 0.55, "upper": 0.7}},
        "idle": {"accuracy": {"estimate": 0.49, "lower": 0.45, "upper": 0.52}},
    }
    frontier = SimpleNamespace(
        frontier_estimate=(
            FrontierPoint(security=0.9, information=0.2),
            FrontierPoint(security=0.5, information=0.7),
            FrontierPoint(security=math.nan, information=0.9),
        ),
        after=SimpleNamespace(delta_upper=0.08),
        information_estimate=0.19,
        information_measure="information about income",
        security=0.9,
    )
    made = (
        charts.sandwich_chart(report, "worst"),
        charts.roc_chart(report),
        charts.exposure_chart(report),
        charts.remedies_chart(report),
        answer_charts.explanation_chart(explanation),
        answer_charts.attacks_chart(attacks, 0.95),
        answer_charts.frontier_chart(frontier),
        leaks(),
    )
    return {chart.id: chart for chart in made if chart is not None}


CHARTS = every_chart()
assert len(CHARTS) == 8


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_an_svg_is_named_described_and_fit_for_a_strict_page(chart: Chart) -> None:
    for view in chart.views:
        text = chart.svg(view)
        root = ElementTree.fromstring(text)
        assert root.get("role") == "img"
        by_id = {node.get("id"): node for node in root.iter() if node.get("id")}
        assert by_id[root.get("aria-labelledby")].text == chart.title
        assert by_id[root.get("aria-describedby")].text == chart.alt
        # Content that a policy blocks, that contains the date, or that would load resources.
        assert not re.search(r"[ <]style\b", text)
        assert not {"metadata", "script", "image", "foreignObject"} & {n.tag for n in root.iter()}
        assert "http" not in text
        # Every referenced element exists, under a name that is unique on the page.
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids))
        assert all(name.startswith(f"{chart.id}-") for name in ids)
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(ids)
        # Texts are texts, and every colour follows the scheme.
        assert len(list(root.iter("text"))) > 3
        assert re.findall(r'="#[0-9a-fA-F]{3,6}"', text) == []
        assert len(text) < 60_000


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_a_standalone_file_has_both_colour_schemes(chart: Chart) -> None:
    text = str(chart.to_dict()["svg"])
    light, dark = re.findall(r":root\{([^}]*)\}", text)
    assert "@media (prefers-color-scheme:dark)" in text
    used = set(re.findall(r"var\(--([a-z-]+)\)", text))
    for scheme, colours in zip((light, dark), palette(), strict=True):
        given = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", scheme))
        assert set(given) == used
        assert given == {name: colours[name] for name in used}


def ambiguous(light: dict[str, str], dark: dict[str, str]) -> set[str]:
    """Light colours of charts with more than one dark counterpart."""
    darks: dict[str, set[str]] = {}
    for name in CHART_COLOURS:
        darks.setdefault(light[name], set()).add(dark[name])
    return {colour for colour, found in darks.items() if len(found) > 1}


def test_a_colour_of_the_light_scheme_has_one_dark_one() -> None:
    """Charts are drawn in light colours, and the names are put in place of them."""
    light, dark = palette()
    assert ambiguous(light, dark) == set()
    assert ambiguous(light | {"measured": light["quiet"]}, dark) == {light["quiet"]}


CHART_COLOURS = (
    *("ink", "card", "quiet", "edge", "grid", "stripe", "certified", "estimated", "measured"),
    *("danger", "given", "model", "noise-every", "worst-case", "in-population", "practical"),
)


@pytest.mark.parametrize("ending", PLOT_FORMATS)
def test_the_same_chart_gives_the_same_file(ending: str, tmp_path: Path) -> None:
    chart = CHARTS["ceiling"]
    first, second = (chart.save(tmp_path / f"{name}{ending}").read_bytes() for name in "ab")
    assert first == second
    assert len(first) > 5_000
    other = CHARTS["frontier"].save(tmp_path / f"c{ending}").read_bytes()
    assert other != first


def test_threads_and_settings_of_the_process_change_nothing() -> None:
    import matplotlib

    expected = {name: chart.svg() for name, chart in CHARTS.items()}
    strange = {
        "font.size": 31.0,
        "axes.facecolor": "red",
        "svg.fonttype": "path",
        "lines.marker": "x",
    }
    with matplotlib.rc_context(strange), ThreadPoolExecutor(6) as pool:
        before = dict(matplotlib.rcParams)
        drawn = list(pool.map(lambda name: (name, CHARTS[name].svg()), CHARTS))
        assert dict(matplotlib.rcParams) == before
    assert all(text == expected[name] for name, text in drawn)


def test_awkward_texts_stay_texts(recwarn: Any) -> None:
    report = typed(reports.sample())
    rows = tuple(replace(row, label=AWKWARD) for row in report.sandwich)
    sandwich = charts.sandwich_chart(replace(report, sandwich=rows), "worst")
    assert sandwich is not None
    assert sandwich.rows[0][0] == AWKWARD, "the table has the whole text"
    for alone in (True, False):
        root = ElementTree.fromstring(sandwich.svg(alone=alone).encode("utf-8"))
        texts = " ".join(node.text or "" for node in root.findall(".//{*}text"))
        assert "<b>&amp;$x^2$" in texts
        assert "\u6771\u4eac" in texts
    tags = {node.tag for node in root.iter()}
    assert tags <= set(
        re.findall(r"\w+", "svg title desc g path defs use clipPath rect text pattern")
    )
    assert [str(w.message) for w in recwarn if "Glyph" in str(w.message)] == []


def test_tables_hold_the_data_of_the_charts() -> None:
    rows = {row[0]: row[1] for row in leaks().rows}
    assert rows == {"0.125": "5", "0.5": "9", "0.75": "1", "1": "12,345"}
    frontier = CHARTS["frontier"]
    assert [[str(cell) for cell in row] for row in frontier.rows] == [
        ["≈ 0.9", "≈ 0.2", "≈ 28.57 %"],
        ["≈ 0.5", "≈ 0.7", "≈ 100 %"],
    ]
    ceiling = memberbound.explain(epsilon=1.0, delta=1e-5, adjacency="add-remove")
    curve = ceiling.guarantee.curve
    for rate, shown, _ in CHARTS["ceiling"].rows:
        assert len(str(rate)) <= len("0.0001 %"), "a round rate, written as one"
        value = float(str(rate).removesuffix(" %")) / 100
        if str(shown).startswith("≤ "):
            printed = float(str(shown).removeprefix("≤ ").removesuffix(" %")) / 100
            assert curve.tpr(value) <= printed + 1e-12 <= curve.tpr(value) + 1.001e-4
        else:
            assert curve.tpr(value) > 0.9999


def sweep(
    grid: list[float],
    curve: list[float],
    coupled: list[float | None] | None = None,
    epsilon: float = 1.0,
) -> Chart:
    """The chart of a population's answer: one attacker everywhere, another one not."""
    rest = {"worst_case": None, "population": None}
    points = [
        SimpleNamespace(practical=height, coupled=other, **rest)
        for height, other in zip(curve, coupled or [None] * len(grid), strict=True)
    ]
    compared = SimpleNamespace(practical=0.9, coupled=None, **rest)
    answer = SimpleNamespace(compared=compared, epsilon=epsilon, delta=0.0, success_blind=0.5)
    return answer_charts.success_chart(grid, points, answer)


def test_a_vacuous_bound_is_not_drawn_as_a_bound() -> None:
    curve = [0.6, 0.9, 0.99995, 1.0]
    grid = [0.5, 1.0, 2.0, 4.0]
    chart = sweep(grid, curve, coupled=[0.7, None, 0.9, 0.9])
    (line,) = chart.figure().findobj(lambda a: (a.get_gid() or "").startswith("mark-line"))
    assert line.get_ydata()[:2] == pytest.approx(curve[:2])
    assert all(math.isnan(y) for y in line.get_ydata()[2:])
    shown = [str(row[1]) for row in chart.rows]
    assert shown == ["≤ 60 %", "≤ 90 %", "no useful bound (< 100 %)", "no guarantee"]


@pytest.mark.filterwarnings("error")
def test_charts_of_extreme_answers_are_drawn() -> None:
    for options in (
        {"epsilon": 800.0},
        {"epsilon": 0.0, "delta": 0.0},
        {"epsilon": 0.0, "delta": 1.0},
        {"epsilon": 1.0, "fpr": [0.0, 1e-9, 1.0]},
    ):
        chart = answer_charts.explanation_chart(memberbound.explain(**options))
        assert all("≤ 100 %" not in str(cell) for row in chart.rows for cell in row)
        for view in chart.views:
            assert "nan" not in chart.svg(view).lower()
    assert sweep([1.0], [0.6], epsilon=math.inf).svg()


QUIET = """
import sys, memberbound, memberbound.report.page, memberbound.verbs.study.studying
from memberbound.report.answer_charts import explanation_chart
explanation = memberbound.explain(epsilon=1.0)
print({"matplotlib", "plotly", "pydantic"} & set(sys.modules))
explanation_chart(explanation).svg()
print("matplotlib.figure" in sys.modules, "matplotlib.pyplot" in sys.modules)
"""


def test_matplotlib_comes_with_the_first_chart_and_pydantic_with_reading() -> None:
    assert python("-c", QUIET).stdout.splitlines() == ["set()", "True False"]
