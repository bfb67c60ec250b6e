"""Draw the pictures of the README and the gallery anew: ``python docs/pictures/draw.py``.

Needs a finished ``make study``, Chromium and Playwright (``make test`` installs the latter).  With
the results of ``benchmarks/text.py`` as a file, draws the picture of the text benchmark only.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from PIL import Image
from playwright.sync_api import sync_playwright
from scipy.optimize import curve_fit
from scipy.special import expit, ndtri
from sklearn.datasets import load_breast_cancer

import memberbound
from memberbound.games import SubsetGame
from memberbound.report.answer_charts import (
    explanation_chart,
    frontier_chart,
    population_chart,
)
from memberbound.report.drawing import BLUE, GREEN, GREY, ORANGE, save_figure
from memberbound.subset.clipping import clipped
from memberbound.subset.crowd import Crowd
from memberbound.subset.gaussian import noise_from_dp
from memberbound.subset.profile import NeighbourProfile

HERE = Path(__file__).resolve().parent
REPORT = HERE.parents[1] / "reports" / "study" / "report.html"


#: ε on the axis of the picture about the crowd.
EPSILONS = np.geomspace(0.5, 40, 10)


def crowd_curves() -> dict[str, list[float]]:
    """Bound how often anybody is right about the worst record, at every ε."""
    table = (
        load_breast_cancer(as_frame=True).frame[["mean radius", "mean texture"]].to_numpy()[:568]
    )
    rows = (table - table.mean(axis=0)) / table.std(axis=0)
    vectors = clipped(rows, 3.0).vectors
    game = SubsetGame(568, 284, "every")
    profile = NeighbourProfile.from_vectors(vectors)
    curves: dict[str, list[float]] = {"dp": [], "pairs": [], "crowd": []}
    for epsilon in EPSILONS:
        sigma = noise_from_dp(float(epsilon), 1e-5, 6.0)
        coupled = profile.accuracy(0.5, sigma)
        crowd = np.minimum(coupled, Crowd.of(vectors, game, sigma).success)
        curves["dp"].append(memberbound.explain(epsilon=float(epsilon), delta=1e-5).accuracy_upper)
        curves["pairs"].append(float(coupled.max()))
        curves["crowd"].append(float(crowd.max()))
    return curves


def crowd_success(path: Path) -> None:
    """Draw :func:`crowd_curves`."""
    curves = crowd_curves()
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    for name, colour, style, says in (
        ("dp", "#8A3470", ":", "≤ any data set (differential privacy)"),
        ("pairs", "#5B6672", "--", "≤ these records, one swapped (L24-P12)"),
        ("crowd", BLUE, "-", "≤ these records, the crowd (X21)"),
    ):
        axes.plot(EPSILONS, curves[name], style, color=colour, label=says)
    axes.set_xscale("log")
    ticks = (0.5, 1, 2, 5, 10, 20, 40)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylim(0.5, 1.005)
    axes.set_xlabel("ε of the noise (δ = 1e-5)")
    axes.set_ylabel("attack success, worst record")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    save_figure(figure, path, title="The crowd hides the record", caption="")


#: η on the axis of the picture about text, and the numbers of documents of its extrapolation.
ETAS, MORE_DOCUMENTS = np.linspace(0.03, 0.32, 59), (100_000, 1_000_000)


def kept_gains(results: Path) -> dict[int, dict[float, float]]:
    """Return the share of the usual gain that private training keeps, by documents and η."""
    lines = [json.loads(line) for line in results.open()]
    kept: dict[int, dict[float, float]] = {}
    loss = {(each["training"], each["documents"]): each.get("loss") for each in lines}
    for each in lines:
        if each["training"] == "private":
            count = each["documents"]
            gain = loss["base", count] - each["loss"]
            usual = loss["base", count] - loss["usual", count]
            kept.setdefault(count, {})[each["eta"]] = gain / usual
    return {count: dict(sorted(kept[count].items())) for count in sorted(kept)}


def log_signal(documents: float, eta: Any) -> Any:
    """Return the logarithm of the number of documents times μ: noise falls with their product."""
    return np.log(documents * 2 * ndtri(0.5 + np.asarray(eta)))


def fit_gains(kept: dict[int, dict[float, float]]) -> Any:
    """Fit the share that is kept by a logistic curve of the logarithm of the signal."""
    points = [(log_signal(n, eta), y) for n, each in kept.items() for eta, y in each.items()]
    signals, shares = np.array(points).T

    def share(signal: Any, top: float, middle: float, slope: float) -> Any:
        return top * expit(slope * (signal - middle))

    fitted, _ = curve_fit(
        share, signals, shares, p0=(0.9, 7.0, 0.5), bounds=([0.3, 3, 0.1], [1, 14, 3])
    )
    return lambda documents, eta: share(log_signal(documents, eta), *fitted)


def draw_text_gains(results: Path, path: Path) -> None:
    """Draw :func:`kept_gains` and the extrapolation of :func:`fit_gains`."""
    kept = kept_gains(results)
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    axes = figure.subplots()
    for (count, each), colour in zip(kept.items(), (ORANGE, GREEN, BLUE), strict=False):
        label = f"{count:,} documents".replace(",", "\u202f")
        axes.plot(list(each), list(each.values()), "o-", color=colour, label=label)
    fitted = fit_gains(kept)
    for count, style in zip(MORE_DOCUMENTS, ("--", ":"), strict=True):
        label = f"{count:,}".replace(",", "\u202f") + ", extrapolated"
        axes.plot(ETAS, fitted(count, ETAS), style, color=GREY, label=label)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylim(0, 1)
    axes.set_xlabel("η: right at most 50 % + η of the time about any document")
    axes.set_ylabel("share of the usual fine-tuning's gain")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    save_figure(figure, path, title="What hiding every document costs", caption="")


def draw() -> None:
    """Draw what needs no browser."""
    patients = load_breast_cancer(as_frame=True).frame
    sizes = patients[["mean radius", "mean texture"]]
    charts = {
        "roc": lambda: explanation_chart(memberbound.explain(epsilon=1.0, delta=1e-5)),
        "population": lambda: population_chart(memberbound.population(sizes, epsilon=8)),
        "frontier": lambda: frontier_chart(
            memberbound.harden(patients, security=0.9, target="target")
        ),
    }
    for name, chart in charts.items():
        path = HERE / f"{name}.png"
        path.unlink(missing_ok=True)
        chart().save(path)
    crowd = HERE / "crowd.png"
    crowd.unlink(missing_ok=True)
    crowd_success(crowd)


def pictured(browser: Any, address: str, name: str, *, height: int, ready: str) -> None:
    """Take a picture of a page's upper part."""
    page = browser.new_page(viewport={"width": 1280, "height": height})
    page.goto(address)
    page.wait_for_selector(ready)
    page.wait_for_timeout(1500)
    page.screenshot(path=str(HERE / f"{name}.png"))
    page.close()


def main() -> None:
    """Draw everything."""
    if len(sys.argv) > 1:
        draw_text_gains(Path(sys.argv[1]), HERE / "text.png")
        return
    if not REPORT.is_file():
        sys.exit("run make study first")
    draw()
    command = [sys.executable, "-m", "memberbound", "serve", "--no-open", "--port", "8765"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(12)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            )
            pictured(browser, REPORT.as_uri(), "report", height=1110, ready=".plot svg")
            address = "http://127.0.0.1:8765/#/explain?epsilon=8&delta=1e-5"
            pictured(browser, address, "calculator", height=1100, ready=".plot[data-drawn]")
            browser.close()
    finally:
        server.terminate()
        server.wait()
    for path in HERE.glob("*.png"):
        # 256 colours are enough for flat pages and lines, and take a third of the room.
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
