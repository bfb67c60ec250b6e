"""What A25 prints in and about Table 1, held against the measured table, and its picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from memberbound.discrete.atoms import leak_from_diversity
from memberbound.report.figure import BLUE, GREY, ORANGE
from memberbound.reproduction.checks import Check, above, below, near, trend
from memberbound.reproduction.sweep import Average, Sweep

__all__ = ["RAW", "readings_figure", "table_checks"]

#: Stands for the images as they are, in the place of a number of clusters.
RAW = 0
#: C_K as printed, by number of clusters.
DIVERSITY = {20: 4.3, 50: 6.74, 100: 9.20}
#: Accuracy as printed, by n and number of clusters.
ACCURACY = {
    (1000, RAW): 0.989, (1000, 20): 0.963, (1000, 50): 0.968, (1000, 100): 0.986,
    (5000, RAW): 0.993, (5000, 20): 0.967, (5000, 50): 0.971, (5000, 100): 0.984,
    (10_000, RAW): 0.994, (10_000, 20): 0.971, (10_000, 50): 0.977, (10_000, 100): 0.984,
}  # fmt: skip
#: Bound on Δ as printed.
LEAK = {
    (1000, 20): 0.07, (1000, 50): 0.11, (1000, 100): 0.15,
    (5000, 20): 0.03, (5000, 50): 0.05, (5000, 100): 0.07,
    (10_000, 20): 0.02, (10_000, 50): 0.03, (10_000, 100): 0.05,
}  # fmt: skip
READINGS = {"clusters": "atoms are clusters, as printed", "pairs": "atoms are (cluster, label)"}
#: How far a reading of "accuracy" may be from the printed numbers.
SAME = 0.01

Sweeps = Mapping[int, Sweep]


def table_checks(sweeps: Sweeps) -> tuple[Check, ...]:
    """Return the claims about the cells that were measured."""
    measured = [(n, int(k)) for n, sweep in sweeps.items() for k in sweep.values]
    printed = [cell for cell in measured if cell in ACCURACY]
    bounded = [cell for cell in printed if cell in LEAK]
    return (
        *_diversities(sweeps, bounded),
        *_bounds(sweeps, bounded),
        *_accuracies(sweeps, printed),
        *_ceilings(sweeps, bounded),
        *_text(sweeps, bounded),
    )


def _at(sweeps: Sweeps, cell: tuple[int, int], quantity: str) -> Average:
    return sweeps[cell[0]].at(quantity, float(cell[1]))


def _diversities(sweeps: Sweeps, cells: list[tuple[int, int]]) -> list[Check]:
    first = {k: (n, k) for n, k in reversed(cells)}
    return [
        near(
            f"K = {k}: C_K(P), counted over clusters",
            DIVERSITY[k],
            _at(sweeps, cell, "c_k_clusters_estimate"),
            share=0.05,
        )
        for k, cell in sorted(first.items())
    ]


def _bounds(sweeps: Sweeps, cells: list[tuple[int, int]]) -> list[Check]:
    checks = [
        below(
            f"n = {n}, K = {k}: Δ ≤ {LEAK[n, k]:g}; certified, {words}",
            LEAK[n, k],
            _at(sweeps, (n, k), f"delta_{reading}_certified"),
            limit=LEAK[n, k],
        )
        for reading, words in READINGS.items()
        for n, k in cells
    ]
    if cells:
        ratios = {
            (n, k): _at(sweeps, (n, k), "delta_pairs_worst_estimate").mean / LEAK[n, k]
            for n, k in cells
        }
        n, k = least = min(cells, key=lambda cell: ratios[cell])
        checks.append(
            below(
                "the printed bounds hold for a learner that releases the counts of pairs; its leak "
                "(A25-T14 at the observed frequencies) over the printed bound, the smallest such "
                f"ratio, at n = {n}, K = {k}",
                1.0,
                Average(ratios[least], math.nan, 1),
                limit=1.0,
            )
        )
        excess = max(leak_from_diversity(DIVERSITY[k], n) - LEAK[n, k] for n, k in cells)
        text = (
            "the printed bounds are C_K/(2√n) of the printed C_K; largest amount by which one "
            "lies below it (at most 0)"
        )
        checks.append(Check(text, 0.0, excess, math.nan, excess <= 0))
    return checks


def _accuracies(sweeps: Sweeps, cells: list[tuple[int, int]]) -> list[Check]:
    checks = [
        near(
            f"n = {n}, {_column(k)}: accuracy on test images, discretised likewise"
            if k != RAW
            else f"n = {n}, {_column(k)}: accuracy on test images",
            ACCURACY[n, k],
            _at(sweeps, (n, k), "accuracy"),
            share=0.02,
        )
        for n, k in cells
    ]
    readings = {
        "accuracy_on_raw_images": "share of right labels on raw test images",
        "yes_no_accuracy": "share of right yes-or-no answers, ten per test image",
        "auc": "mean area under the ten ROC curves",
    }
    for quantity, words in readings.items() if cells else ():
        averages = {cell: _at(sweeps, cell, quantity) for cell in cells}
        worst = max(cells, key=lambda cell: abs(averages[cell].mean - ACCURACY[cell]))
        away = abs(averages[worst].mean - ACCURACY[worst])
        checks.append(
            below(
                f"the printed accuracies are the {words}; largest difference, at n = {worst[0]}, "
                f"{_column(worst[1])}",
                0.0,
                Average(away, averages[worst].standard_error, averages[worst].trials),
                limit=SAME,
            )
        )
    return checks


def _column(clusters: int) -> str:
    return "raw images" if clusters == RAW else f"K = {clusters}"


def _ceilings(sweeps: Sweeps, cells: list[tuple[int, int]]) -> list[Check]:
    checks = []
    for k in sorted({k for _, k in cells}):
        best = max((cell for cell in cells if cell[1] == k), key=lambda cell: ACCURACY[cell])
        checks.append(
            above(
                f"K = {k}: an accuracy of {ACCURACY[best]:g} is possible; the best that any "
                "classifier of the cluster reaches on the test images",
                ACCURACY[best],
                _at(sweeps, best, "accuracy_ceiling"),
                limit=ACCURACY[best],
            )
        )
    return checks


def _text(sweeps: Sweeps, cells: list[tuple[int, int]]) -> list[Check]:
    """Return the claims of section 6.2 in words."""
    checks = []
    if {(1000, 20), (1000, 50), (1000, 100)} <= set(cells):
        accuracy = sweeps[1000].quantities["accuracy"]
        raw = accuracy[sweeps[1000].place(RAW)]
        for k, loss, words in ((20, 0.025, "almost 2.5 %"), (50, 0.02, "2 %"), (100, 0.02, "2 %")):
            lost = Average.of(raw - accuracy[sweeps[1000].place(k)])
            claim = f"n = 1000, K = {k}: discretising costs {words} of accuracy"
            checks.append(near(claim, loss, lost, share=0.25))
    for n in sorted({n for n, _ in cells}):
        ks = [float(k) for m, k in cells if m == n]
        for quantity, words in (
            ("accuracy", "accuracy"),
            ("delta_clusters_certified", "the bound on Δ, clusters as atoms,"),
            ("delta_pairs_certified", "the bound on Δ, pairs as atoms,"),
        ):
            claim = f"n = {n}: {words} falls with fewer clusters"
            checks.append(trend(claim, sweeps[n], quantity, rising=True, values=ks))
    return checks


# ---- drawing ---------------------------------------------------------------------------------


def readings_figure(sweeps: Sweeps) -> Any:
    """Draw accuracy, and the bounds on Δ for every number of clusters, beside the printed ones."""
    from matplotlib.figure import Figure

    sizes = list(sweeps)
    columns = sweeps[sizes[0]].values
    clusters = [k for k in columns if k != RAW]
    figure = Figure(figsize=(11.5, 4.6), layout="constrained")
    first, *others = figure.subplots(1, 1 + len(clusters), width_ratios=[2, *[1] * len(clusters)])
    _draw_accuracy(first, sweeps, columns)
    for axes, k in zip(others, clusters, strict=True):
        for reading, colour, style, words in (
            ("pairs", BLUE, "-", "certified, pairs (covers the classifier)"),
            ("clusters", GREY, "--", "certified, clusters"),
        ):
            bound = [sweeps[n].at(f"delta_{reading}_certified", k).mean for n in sizes]
            axes.plot(sizes, bound, color=colour, ls=style, marker="o", lw=1.6, label=words)
        paper = {n: LEAK[n, int(k)] for n in sizes if (n, int(k)) in LEAK}
        axes.plot(list(paper), list(paper.values()), "D", color=ORANGE, label="printed")
        axes.set(title=f"K = {k:g}", xlabel="training images n", xscale="log")
        axes.grid(visible=True, alpha=0.25)
    top = max(axes.get_ylim()[1] for axes in others)
    for axes in others:
        axes.set_ylim(0, top)
    others[0].set_ylabel("bound on the leak Δ")
    handles, labels = others[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=3, fontsize=9)
    figure.suptitle("A25-Tab1: discretised MNIST", fontsize=12)
    return figure


def _draw_accuracy(axes: Any, sweeps: Sweeps, columns: tuple[float, ...]) -> None:
    places = list(range(len(columns)))
    spread = [(i - (len(sweeps) - 1) / 2) * 0.16 for i in range(len(sweeps))]
    for (n, sweep), shift in zip(sweeps.items(), spread, strict=True):
        at = [x + shift for x in places]
        found = [sweep.at("accuracy", k) for k in columns]
        last = n == list(sweeps)[-1]
        axes.errorbar(
            at,
            [a.mean for a in found],
            [2 * a.standard_error for a in found],
            fmt="o",
            color=BLUE,
            label="ours (± 2 standard errors)" if last else None,
        )
        cells = [(x, ACCURACY[n, int(k)]) for x, k in zip(at, columns, strict=True)
                 if (n, int(k)) in ACCURACY]  # fmt: skip
        axes.plot(
            [x for x, _ in cells],
            [y for _, y in cells],
            "D",
            color=ORANGE,
            label="printed" if last else None,
        )
    any_sweep = next(iter(sweeps.values()))
    for x, k in zip(places, columns, strict=True):
        top = any_sweep.at("accuracy_ceiling", k).mean
        words = "best possible from the cluster" if x == places[-1] else None
        axes.plot([x - 0.35, x + 0.35], [top, top], color=GREY, ls="--", lw=1.4, label=words)
    names = ["raw" if k == RAW else f"K = {k:g}" for k in columns]
    sizes = ", ".join(str(n) for n in sweeps)
    axes.set(
        xticks=places,
        ylim=(0, 1.04),
        ylabel="accuracy on test images",
        xlabel=f"from left to right: n = {sizes}",
    )
    axes.set_xticklabels(names)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="lower right", fontsize=9)
