"""A25-Tab1: networks on MNIST, as it is and discretised; their accuracy and what bounds the leak.

Images are replaced by the centre of their cluster.  The paper counts clusters as the atoms of the
law; what a classifier is trained on are pairs (cluster, label).  Both readings are computed: C_K,
the bound C_K/(2√n) of A25-C15, the worst case A25-T14 at the observed frequencies (these three are
estimates) and the certificate X5, from the images that no clustering was made of.

MNIST is read from files that the user has; nothing is downloaded.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError
from memberbound.iid.certificates import certify_counts
from memberbound.iid.profiles import CountProfile
from memberbound.iid.worst_case import leak_from_diversity
from memberbound.numerics import one_thread
from memberbound.papers.reproduction import (
    DATA_VARIABLE,
    Average,
    Check,
    Findings,
    MissingDataError,
    Progress,
    Row,
    Run,
    Sweep,
    above,
    below,
    near,
    trend,
)
from memberbound.report.drawing import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from sklearn.neural_network import MLPClassifier

# ---- the data set ------------------------------------------------------------------------------

PACKED = "mnist.npz"
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
CLASSES = 10
_HELP = "Where to get it: the how-to page 'Reproduce the papers' figures'."

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as rows of numbers in [0, 1] with their labels 0 … 9, as the data set splits them."""

    train: Images
    train_labels: Labels
    test: Images
    test_labels: Labels

    @classmethod
    def read(cls, folder: Path | None) -> Digits:
        """Read ``mnist.npz``; refuse a folder without it and files that are something else."""
        if folder is None:
            raise MissingDataError(
                f"{DATA_VARIABLE} must name a folder with {PACKED}, got nothing. {_HELP}"
            )
        path = folder / PACKED
        if not path.is_file():
            raise MissingDataError(
                f"the data folder must hold {PACKED}, got {str(folder)!r} without it. {_HELP}"
            )
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in ARRAYS}
        except KeyError as missing:
            raise InputError(
                f"{path} must hold the arrays {', '.join(ARRAYS)}, got {missing.args[0]}"
            ) from None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            raise InputError(f"{path} must be a file that numpy can load.") from None
        train, test = (_images(name, arrays[name]) for name in ("x_train", "x_test"))
        if train.shape[1] != test.shape[1]:
            raise InputError("images of MNIST must have one size, got two.")
        return cls(
            train,
            _labels("y_train", arrays["y_train"], len(train)),
            test,
            _labels("y_test", arrays["y_test"], len(test)),
        )


def _images(name: str, images: NDArray[Any]) -> Images:
    if images.dtype != np.uint8 or images.ndim != 3 or len(images) == 0:
        raise InputError(
            f"{name} must be images of whole numbers from 0 to 255 (uint8, 3 axes), "
            f"got {images.dtype} of shape {images.shape}."
        )
    return np.asarray(images.reshape(len(images), -1) / np.float32(255), dtype=np.float32)


def _labels(name: str, labels: NDArray[Any], count: int) -> Labels:
    whole = np.issubdtype(labels.dtype, np.integer) and labels.shape == (count,)
    if not whole or labels.min() < 0 or labels.max() >= CLASSES:
        raise InputError(f"{name} must be one label from 0 to 9 for each of {count} images.")
    return labels.astype(np.int64)


# ---- the table ---------------------------------------------------------------------------------


#: Stands for the images as they are, in the place of a number of clusters.
RAW = 0
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Setting:
    """The setting of the table; tests use a smaller one."""

    sizes: tuple[int, ...] = (1000, 5000, 10_000)
    clusters: tuple[int, ...] = (20, 50, 100)
    #: Images per clustering, used for nothing else.
    set_aside: int = 1000
    width: int = 256
    rate: float = 0.01
    iterations: int = 500
    #: Images per iteration; the paper does not say.
    batch: int = 200

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of clusters, with 0 for the raw images."""
        return (RAW, *self.clusters)


def train_network(
    x: Images, y: Labels, setting: Setting, rng: np.random.Generator
) -> MLPClassifier:
    """Return scikit-learn's network after that many steps of Adam on the cross-entropy."""
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(
        (setting.width, setting.width),
        alpha=0.0,
        batch_size=min(setting.batch, len(y)),
        learning_rate_init=setting.rate,
        shuffle=False,
        random_state=int(rng.integers(2**31)),
    )
    # The products are small: more threads than one cost more than they save.
    with one_thread():
        for rows in _passes(len(y), setting, rng):
            network.partial_fit(x[rows], y[rows], classes=np.arange(CLASSES))
    return network


def _passes(count: int, setting: Setting, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Return the rows in a new order for every pass, cut so that the iterations come out."""
    size = min(setting.batch, count)
    left = setting.iterations
    while left:
        batches = min(count // size, left)
        yield rng.permutation(count)[: batches * size]
        left -= batches


def scores(
    probabilities: NDArray[np.float32] | NDArray[np.float64], labels: Labels
) -> dict[str, float]:
    """Return the share of right labels, of right yes-or-no answers per digit, and the mean AUC."""
    from sklearn.metrics import roc_auc_score

    truth = labels[:, None] == np.arange(CLASSES)
    present = truth.any(axis=0)
    return {
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == labels)),
        "yes_no_accuracy": float(np.mean((probabilities > 0.5) == truth)),
        "auc": float(roc_auc_score(truth[:, present], probabilities[:, present])),
    }


def leaks(counts: NDArray[np.int64], n: int, reading: str) -> dict[str, float]:
    """Return C_K and the bounds on Δ for atoms that were seen so often."""
    certificate = certify_counts(CountProfile.from_counts(counts), n, CONFIDENCE)
    diversity = certificate.c_k_plug_in_estimate
    return {
        f"c_k_{reading}_estimate": diversity,
        f"delta_{reading}_formula_estimate": leak_from_diversity(diversity, n),
        f"delta_{reading}_worst_estimate": certificate.delta_plug_in_estimate,
        f"delta_{reading}_certified": certificate.delta_upper,
    }


def measured(
    digits: Digits, setting: Setting, rng: np.random.Generator, step: Callable[[], None]
) -> dict[tuple[int, int], dict[str, float]]:
    """Return the quantities of every cell of the table, by n and number of clusters.

    One draw of clusterings and training sets; ``step`` is called after every cell.
    """
    order = rng.permutation(len(digits.train))
    # What remains: the rows that training sets are drawn from, and that the law is read off.
    rest = order[len(setting.clusters) * setting.set_aside :]
    sets = {n: rng.choice(rest, n, replace=False) for n in setting.sizes}
    table = {}
    for place, clusters in enumerate(setting.columns):
        if clusters == RAW:
            cells, test_cells = _distinct(digits.train), _distinct(digits.test)
            centres, test = None, digits.test
        else:
            own = order[(place - 1) * setting.set_aside : place * setting.set_aside]
            centres, cells, test_cells = clustered(digits, clusters, own, rng)
            test = centres[test_cells]
        pairs = cells * CLASSES + digits.train_labels
        for n, rows in sets.items():
            images = digits.train[rows] if centres is None else centres[cells[rows]]
            network = train_network(images, digits.train_labels[rows], setting, rng)
            values = scores(network.predict_proba(test), digits.test_labels)
            right = network.predict(digits.test) == digits.test_labels
            values["accuracy_on_raw_images"] = float(np.mean(right))
            values["accuracy_ceiling"] = best_accuracy(test_cells, digits.test_labels)
            for reading, atoms in (("clusters", cells), ("pairs", pairs)):
                values |= leaks(np.bincount(atoms[rest]), n, reading)
            table[n, clusters] = values
            step()
    return table


def clustered(
    digits: Digits, clusters: int, own: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Images, Labels, Labels]:
    """Return centres of the clusters of some images, and the cluster of every image."""
    from sklearn.cluster import MiniBatchKMeans

    fitted = MiniBatchKMeans(clusters, random_state=int(rng.integers(2**31)))
    fitted.fit(digits.train[own])
    train, test = (fitted.predict(x).astype(np.int64) for x in (digits.train, digits.test))
    return fitted.cluster_centers_.astype(np.float32), train, test


def _distinct(images: Images) -> Labels:
    """Return a number for every image, the same for equal images only."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in images])


def best_accuracy(cells: Labels, labels: Labels) -> float:
    """Return the accuracy that no classifier of the cluster alone exceeds on these images."""
    table = np.zeros((int(cells.max()) + 1, CLASSES), dtype=np.int64)
    np.add.at(table, (cells, labels), 1)
    return float(table.max(axis=1).sum() / len(labels))


def tabulated(
    digits: Digits, setting: Setting, trials: int, seed: int, progress: Progress | None = None
) -> Findings:
    """Fill the table."""
    needed = len(setting.clusters) * setting.set_aside + max(setting.sizes)
    if len(digits.train) < needed:
        raise InputError(f"the training images must be at least {needed}, got {len(digits.train)}.")
    total, done = trials * len(setting.sizes) * len(setting.columns), 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    tables = [
        measured(digits, setting, np.random.default_rng((seed, 25, 3, trial)), step)
        for trial in range(trials)
    ]
    columns = setting.columns
    sweeps = {
        n: Sweep(
            "clusters",
            tuple(map(float, columns)),
            {
                name: np.array([[table[n, k][name] for table in tables] for k in columns])
                for name in tables[0][n, RAW]
            },
        )
        for n in setting.sizes
    }
    rows: list[Row] = [{"records": n} | row for n, sweep in sweeps.items() for row in sweep.rows()]
    single: list[Row] = [
        {"records": n} | row for n, sweep in sweeps.items() for row in sweep.trial_rows()
    ]
    return Findings(rows, single, table_checks(sweeps), lambda: readings_figure(sweeps))


# ---- what the paper prints in and about it -----------------------------------------------------


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
#: Other readings of "accuracy", and how far one may be from the printed numbers.
ACCURACIES = {
    "accuracy_on_raw_images": "share of right labels on raw test images",
    "yes_no_accuracy": "share of right yes-or-no answers, ten per test image",
    "auc": "mean area under the ten ROC curves",
}
SAME = 0.01

Cell = tuple[int, int]
Sweeps = Mapping[int, Sweep]


def table_checks(sweeps: Sweeps) -> tuple[Check, ...]:
    """Return the claims about the cells that were measured; none where nothing is printed."""
    measured = [(n, int(k)) for n, sweep in sweeps.items() for k in sweep.values]
    printed = [cell for cell in measured if cell in ACCURACY]
    bounded = [cell for cell in printed if cell in LEAK]
    if not bounded:
        return ()
    return (
        *_bounds(sweeps, bounded),
        *_accuracies(sweeps, printed, bounded),
        *_text(sweeps, bounded),
    )


def _at(sweeps: Sweeps, cell: Cell, quantity: str) -> Average:
    return sweeps[cell[0]].at(quantity, float(cell[1]))


def _column(clusters: int) -> str:
    return "raw images" if clusters == RAW else f"K = {clusters}"


def _bounds(sweeps: Sweeps, cells: list[Cell]) -> list[Check]:
    """Return the claims about C_K and the bounds on Δ."""
    checks = []
    for k, n in sorted({k: n for n, k in reversed(cells)}.items()):
        c_k = _at(sweeps, (n, k), "c_k_clusters_estimate")
        checks.append(
            near(f"K = {k}: C_K(P), counted over clusters", DIVERSITY[k], c_k, share=0.05)
        )
    for reading, words in READINGS.items():
        for n, k in cells:
            claim = f"n = {n}, K = {k}: Δ ≤ {LEAK[n, k]:g}; certified, {words}"
            bound = _at(sweeps, (n, k), f"delta_{reading}_certified")
            checks.append(below(claim, LEAK[n, k], bound, limit=LEAK[n, k]))
    ratios = {
        cell: _at(sweeps, cell, "delta_pairs_worst_estimate").mean / LEAK[cell] for cell in cells
    }
    n, k = min(cells, key=lambda cell: ratios[cell])
    claim = (
        "the printed bounds hold for a learner that releases the counts of pairs; its leak "
        "(A25-T14 at the observed frequencies) over the printed bound, the smallest such "
        f"ratio, at n = {n}, K = {k}"
    )
    checks.append(below(claim, 1.0, Average(ratios[n, k], math.nan, 1), limit=1.0))
    excess = max(leak_from_diversity(DIVERSITY[k], n) - LEAK[n, k] for n, k in cells)
    claim = (
        "the printed bounds are C_K/(2√n) of the printed C_K; largest amount by which one "
        "lies below it (at most 0)"
    )
    return [*checks, Check(claim, 0.0, excess, math.nan, excess <= 0)]


def _accuracies(sweeps: Sweeps, cells: list[Cell], clustered: list[Cell]) -> list[Check]:
    """Return the claims about accuracy: as printed, in other readings, and whether possible."""
    checks = []
    for n, k in cells:
        likewise = "" if k == RAW else ", discretised likewise"
        claim = f"n = {n}, {_column(k)}: accuracy on test images{likewise}"
        checks.append(near(claim, ACCURACY[n, k], _at(sweeps, (n, k), "accuracy"), share=0.02))
    for quantity, words in ACCURACIES.items():
        averages = {cell: _at(sweeps, cell, quantity) for cell in cells}
        away = {cell: abs(averages[cell].mean - ACCURACY[cell]) for cell in cells}
        n, k = worst = max(cells, key=lambda cell: away[cell])
        claim = (
            f"the printed accuracies are the {words}; largest difference, at n = {n}, {_column(k)}"
        )
        difference = replace(averages[worst], mean=away[worst])
        checks.append(below(claim, 0.0, difference, limit=SAME))
    for k in sorted({k for _, k in clustered}):
        best = max((cell for cell in clustered if cell[1] == k), key=lambda cell: ACCURACY[cell])
        claim = (
            f"K = {k}: an accuracy of {ACCURACY[best]:g} is possible; the best that any "
            "classifier of the cluster reaches on the test images"
        )
        ceiling = _at(sweeps, best, "accuracy_ceiling")
        checks.append(above(claim, ACCURACY[best], ceiling, limit=ACCURACY[best]))
    return checks


def _text(sweeps: Sweeps, cells: list[Cell]) -> list[Check]:
    """Return the claims of section 6.2 in words."""
    checks = []
    if {(1000, 20), (1000, 50), (1000, 100)} <= set(cells):
        raw = sweeps[1000].trials_at("accuracy", RAW)
        for k, loss, words in ((20, 0.025, "almost 2.5 %"), (50, 0.02, "2 %"), (100, 0.02, "2 %")):
            lost = Average.of(raw - sweeps[1000].trials_at("accuracy", k))
            claim = f"n = 1000, K = {k}: discretising costs {words} of accuracy"
            checks.append(near(claim, loss, lost, share=0.25))
    falling = {
        "accuracy": "accuracy",
        "delta_clusters_certified": "the bound on Δ, clusters as atoms,",
        "delta_pairs_certified": "the bound on Δ, pairs as atoms,",
    }
    for n in sorted({n for n, _ in cells}):
        ks = [float(k) for m, k in cells if m == n]
        for quantity, words in falling.items():
            claim = f"n = {n}: {words} falls with fewer clusters"
            checks.append(trend(claim, sweeps[n], quantity, rising=True, values=ks))
    return checks


# ---- drawing -----------------------------------------------------------------------------------


def readings_figure(sweeps: Sweeps) -> Figure:
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


def _draw_accuracy(axes: Axes, sweeps: Sweeps, columns: tuple[float, ...]) -> None:
    places = list(range(len(columns)))
    spread = [(i - (len(sweeps) - 1) / 2) * 0.16 for i in range(len(sweeps))]
    for (n, sweep), shift in zip(sweeps.items(), spread, strict=True):
        at = [x + shift for x in places]
        averages = [sweep.at("accuracy", k) for k in columns]
        last = n == list(sweeps)[-1]
        axes.errorbar(
            at,
            [a.mean for a in averages],
            [2 * a.standard_error for a in averages],
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


# ---- the experiment ----------------------------------------------------------------------------


def table_1(folder: Path | None) -> Run:
    """Read MNIST, and return what runs A25-Tab1 on it."""
    digits = Digits.read(folder)
    return lambda trials, seed, progress: tabulated(digits, Setting(), trials, seed, progress)
