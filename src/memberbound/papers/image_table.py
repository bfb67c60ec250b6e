"""Table 1 of A25: the leak of models that are trained on discretised MNIST.

Images are replaced by the centre of their cluster.  The paper counts clusters as the atoms of the
law; a classifier is trained on pairs (cluster, label).  Both readings are computed: C_K, the bound
C_K/(2√n) of A25-C15, the worst case A25-T14 at the observed frequencies (these three are estimates)
and the certificate X5, from the images that were not used for clustering.  MNIST is read from a
file that the user has; nothing is downloaded.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memberbound.declarations import Progress
from memberbound.errors import InputError
from memberbound.iid.certificates import certify_counts
from memberbound.iid.profiles import CountProfile
from memberbound.iid.worst_case import leak_from_diversity
from memberbound.papers.iid_figures import Single, Whole
from memberbound.papers.reproduction import (
    DATA_VARIABLE,
    Average,
    FigureRun,
    Findings,
    Measured,
    MissingDataError,
    Sweep,
    above,
    below,
    near,
    run_sweep,
    trend,
)
from memberbound.report.drawing import BLUE, GREY, ORANGE
from memberbound.threads import one_thread
from memberbound.verbs.reproduce import ClaimCheck

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sklearn.neural_network import MLPClassifier

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
CLASSES = 10


@dataclass(frozen=True, eq=False)
class Digits:
    """Images as rows of numbers in [0, 1] with their labels 0 … 9, in the split of the data set."""

    train: Single
    train_labels: Whole
    test: Single
    test_labels: Whole

    @classmethod
    def read(cls, folder: Path | None) -> Digits:
        """Read ``mnist.npz``; refuse a folder without it and files with other content."""
        if folder is None or not (folder / "mnist.npz").is_file():
            raise MissingDataError(
                f"data or {DATA_VARIABLE} must name a folder with mnist.npz, "
                f"got {'nothing' if folder is None else repr(str(folder))}. "
                "Where to get it: the how-to page 'Reproduce the papers' figures'."
            )
        path = folder / "mnist.npz"
        try:
            with np.load(path, allow_pickle=False) as stored:
                x, y, x0, y0 = (np.asarray(stored[name]) for name in ARRAYS)
        except (KeyError, OSError, ValueError, EOFError, zipfile.BadZipFile):
            raise InputError(
                f"{path} must be a file of numpy with the arrays {', '.join(ARRAYS)}."
            ) from None
        if x.shape[1:] != x0.shape[1:]:
            raise InputError("images of MNIST must have one size, got two.")
        return cls(*_check_images("train", x, y), *_check_images("test", x0, y0))


def _check_images(
    part: str, images: NDArray[np.uint8], labels: NDArray[np.generic]
) -> tuple[Single, Whole]:
    """Return images as rows in [0, 1], and labels as whole numbers from 0 to 9."""
    if images.dtype != np.uint8 or images.ndim != 3 or len(images) == 0:
        raise InputError(
            f"x_{part} must be images of whole numbers from 0 to 255 (uint8, 3 axes), "
            f"got {images.dtype} of shape {images.shape}."
        )
    count = len(images)
    if labels.shape != (count,) or not np.isin(labels, np.arange(CLASSES)).all():
        raise InputError(f"y_{part} must be one label from 0 to 9 for each of {count} images.")
    pixels = images.reshape(count, -1) / np.float32(255)
    return np.asarray(pixels, dtype=np.float32), labels.astype(np.int64)


# ── The measurements ──────────────────────────────────────────────────────────────────────────────

#: The images as they are, in place of a number of clusters.
RAW = 0


@dataclass(frozen=True)
class Setting:
    """The setting of the table; tests use a smaller one."""

    sizes: tuple[int, ...] = (1000, 5000, 10_000)
    clusters: tuple[int, ...] = (20, 50, 100)
    #: Images per clustering, not used elsewhere.
    set_aside: int = 1000
    width: int = 256
    rate: float = 0.01
    iterations: int = 500
    #: Images per iteration; the paper does not give it.
    batch: int = 200

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of clusters, with 0 for the raw images."""
        return (RAW, *self.clusters)


def train_network(x: Single, y: Whole, setting: Setting, rng: np.random.Generator) -> MLPClassifier:
    """Return scikit-learn's network after this number of Adam steps on the cross-entropy."""
    from sklearn.neural_network import MLPClassifier

    size = min(setting.batch, len(y))
    network = MLPClassifier(
        (setting.width, setting.width),
        alpha=0.0,
        batch_size=size,
        learning_rate_init=setting.rate,
        shuffle=False,
        random_state=int(rng.integers(2**31)),
    )
    left = setting.iterations
    # The products are small: more threads than one cost more than they save.
    with one_thread:
        while left:
            # Every pass takes the rows in a new order, cut so that the iterations come out.
            batches = min(len(y) // size, left)
            rows = rng.permutation(len(y))[: batches * size]
            network.partial_fit(x[rows], y[rows], classes=np.arange(CLASSES))
            left -= batches
    return network


def leaks(counts: Whole, n: int, reading: str) -> dict[str, float]:
    """Return C_K and the bounds on Δ for atoms with these counts."""
    certificate = certify_counts(CountProfile.from_counts(counts), n, 0.95)
    diversity = certificate.c_k_plug_in.value
    return {
        f"c_k_{reading}_estimate": diversity,
        f"delta_{reading}_formula_estimate": leak_from_diversity(diversity, n),
        f"delta_{reading}_worst_estimate": certificate.delta_plug_in.value,
        f"delta_{reading}_certified": certificate.delta_upper,
    }


def measure_setting(digits: Digits, setting: Setting, rng: np.random.Generator) -> Measured:
    """Return the quantities of every cell, all n of one clustering after another's.

    One draw of clusterings and training sets.
    """
    order = rng.permutation(len(digits.train))
    # The remaining rows: training sets are drawn from them, and they define the law.
    rest = order[len(setting.clusters) * setting.set_aside :]
    sets = {n: rng.choice(rest, n, replace=False) for n in setting.sizes}
    table = []
    for index, clusters in enumerate(setting.columns):
        if clusters == RAW:
            cells, test_cells = distinct(digits.train), distinct(digits.test)
            images, test = digits.train, digits.test
        else:
            own = order[(index - 1) * setting.set_aside : index * setting.set_aside]
            centres, cells, test_cells = cluster_images(digits, clusters, own, rng)
            images, test = centres[cells], centres[test_cells]
        pairs = cells * CLASSES + digits.train_labels
        for n, rows in sets.items():
            network = train_network(images[rows], digits.train_labels[rows], setting, rng)
            right = network.predict(test) == digits.test_labels
            values = {
                "accuracy": float(np.mean(right)),
                "accuracy_ceiling": best_accuracy(test_cells, digits.test_labels),
            }
            for reading, atoms in (("clusters", cells), ("pairs", pairs)):
                values |= leaks(np.bincount(atoms[rest]), n, reading)
            table.append(values)
    return table


def cluster_images(
    digits: Digits, clusters: int, own: Whole, rng: np.random.Generator
) -> tuple[Single, Whole, Whole]:
    """Return centres of the clusters of some images, and the cluster of every image."""
    from sklearn.cluster import MiniBatchKMeans

    fitted = MiniBatchKMeans(clusters, random_state=int(rng.integers(2**31)))
    fitted.fit(digits.train[own])
    train, test = (fitted.predict(x).astype(np.int64) for x in (digits.train, digits.test))
    return fitted.cluster_centers_.astype(np.float32), train, test


def distinct(images: Single) -> Whole:
    """Return a number for every image, the same for equal images only."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in images])


def best_accuracy(cells: Whole, labels: Whole) -> float:
    """Return the accuracy that no classifier of the cluster alone exceeds on these images."""
    table = np.zeros((int(cells.max()) + 1, CLASSES), dtype=np.int64)
    np.add.at(table, (cells, labels), 1)
    return float(table.max(axis=1).sum() / len(labels))


def tabulate(
    digits: Digits, setting: Setting, trials: int, seed: int, progress: Progress | None = None
) -> Findings:
    """Fill the table."""
    needed = len(setting.clusters) * setting.set_aside + max(setting.sizes)
    if len(digits.train) < needed:
        raise InputError(f"the training images must be at least {needed}, got {len(digits.train)}.")

    def measure(trial: int) -> Measured:
        return measure_setting(digits, setting, np.random.default_rng((seed, 25, 3, trial)))

    columns, sizes = tuple(map(float, setting.columns)), setting.sizes
    cells = run_sweep(
        "cell", range(len(columns) * len(sizes)), trials, measure, progress
    ).quantities
    sweeps = {
        n: Sweep("clusters", columns, {name: rows[i :: len(sizes)] for name, rows in cells.items()})
        for i, n in enumerate(sizes)
    }
    return Findings(
        [{"records": n} | row for n, sweep in sweeps.items() for row in sweep.rows()],
        [{"records": n} | row for n, sweep in sweeps.items() for row in sweep.trial_rows()],
        table_checks(sweeps),
        lambda: _readings_figure(sweeps),
    )


def table_1(folder: Path | None) -> FigureRun:
    """Read MNIST, and return what runs A25-Tab1 on it."""
    digits = Digits.read(folder)

    def run(trials: int, seed: int, progress: Progress | None, *, n: int | None = None) -> Findings:
        setting = Setting() if n is None else Setting(sizes=(n,))
        return tabulate(digits, setting, trials, seed, progress)

    return run


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
Sweeps = Mapping[int, Sweep]


def table_checks(sweeps: Sweeps) -> tuple[ClaimCheck, ...]:
    """Return the claims about the table; none for settings outside the paper."""
    if {(n, int(k)) for n, sweep in sweeps.items() for k in sweep.values} != set(ACCURACY):
        return ()
    return (*_bound_checks(sweeps), *_accuracy_checks(sweeps), *_trend_checks(sweeps))


def _bound_checks(sweeps: Sweeps) -> Iterator[ClaimCheck]:
    """Return the claims about C_K and the bounds on Δ."""
    for k, printed in DIVERSITY.items():
        c_k = sweeps[1000].at("c_k_clusters_estimate", k)
        yield near(f"K = {k}: C_K(P), counted over clusters", printed, c_k, share=0.05)
    for reading, words in READINGS.items():
        for (n, k), printed in LEAK.items():
            claim = f"n = {n}, K = {k}: Δ ≤ {printed:g}; certified, {words}"
            bound = sweeps[n].at(f"delta_{reading}_certified", k)
            yield below(claim, printed, bound, limit=printed)
    ratios = {
        (n, k): sweeps[n].at("delta_pairs_worst_estimate", k).mean / printed
        for (n, k), printed in LEAK.items()
    }
    n, k = min(ratios, key=lambda cell: ratios[cell])
    claim = (
        "the printed bounds hold for a learner that releases the counts of pairs; its leak "
        "(A25-T14 at the observed frequencies) over the printed bound, the smallest such "
        f"ratio, at n = {n}, K = {k}"
    )
    yield below(claim, 1.0, Average(ratios[n, k], math.nan), limit=1.0)
    excess = max(leak_from_diversity(DIVERSITY[k], n) - LEAK[n, k] for n, k in LEAK)
    claim = (
        "the printed bounds are C_K/(2√n) of the printed C_K; largest amount by which one "
        "lies below it (at most 0)"
    )
    yield ClaimCheck(claim, 0.0, excess, math.nan, excess <= 0)


def _accuracy_checks(sweeps: Sweeps) -> Iterator[ClaimCheck]:
    """Return the claims about accuracy: its size, its ceiling, and the loss by discretising."""
    for (n, k), printed in ACCURACY.items():
        images = "test images, discretised likewise" if k else "test images"
        claim = f"n = {n}, {f'K = {k}' if k else 'raw images'}: accuracy on {images}"
        yield near(claim, printed, sweeps[n].at("accuracy", k), share=0.02)
    for k in DIVERSITY:
        best = max(printed for (_, column), printed in ACCURACY.items() if column == k)
        claim = (
            f"K = {k}: an accuracy of {best:g} is possible; the best that any "
            "classifier of the cluster reaches on the test images"
        )
        yield above(claim, best, sweeps[1000].at("accuracy_ceiling", k), limit=best)
    raw = sweeps[1000].trials_at("accuracy", RAW)
    for k, loss, words in ((20, 0.025, "almost 2.5 %"), (50, 0.02, "2 %"), (100, 0.02, "2 %")):
        lost = Average.of(raw - sweeps[1000].trials_at("accuracy", k))
        claim = f"n = 1000, K = {k}: discretising costs {words} of accuracy"
        yield near(claim, loss, lost, share=0.25)


def _trend_checks(sweeps: Sweeps) -> Iterator[ClaimCheck]:
    falling = {
        "accuracy": "accuracy",
        "delta_clusters_certified": "the bound on Δ, clusters as atoms,",
        "delta_pairs_certified": "the bound on Δ, pairs as atoms,",
    }
    for n, sweep in sweeps.items():
        for quantity, words in falling.items():
            claim = f"n = {n}: {words} falls with fewer clusters"
            yield trend(claim, sweep, quantity, rising=True, values=list(DIVERSITY))


def _readings_figure(sweeps: Sweeps) -> Figure:
    """Draw accuracy and the bounds on Δ, cell by cell, beside the printed ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    accuracies = {
        "accuracy": ("ours", BLUE, "o"),
        "accuracy_ceiling": ("best possible from the cluster", GREY, "_"),
    }
    bounds = {
        "delta_pairs_certified": ("certified, pairs (covers the classifier)", BLUE, "o"),
        "delta_clusters_certified": ("certified, clusters", GREY, "s"),
    }
    for axes, series, printed, heading in (
        (left, accuracies, ACCURACY, "accuracy on test images"),
        (right, bounds, LEAK, "bound on the leak Δ"),
    ):
        cells = [(n, int(k)) for n, s in sweeps.items() for k in s.values if k or axes is left]
        for quantity, (words, colour, marker) in series.items():
            means = [sweeps[n].at(quantity, k).mean for n, k in cells]
            axes.plot(means, marker, color=colour, label=words, ms=9)
        axes.plot([printed.get(cell, math.nan) for cell in cells], "D", color=ORANGE,
                  label="printed")  # fmt: skip
        names = [f"n = {n}, {f'K = {k}' if k else 'raw'}" for n, k in cells]
        axes.set_xticks(range(len(cells)), names, rotation=60, ha="right")
        axes.set_ylim(bottom=0)
        axes.set_title(heading)
        axes.grid(visible=True, alpha=0.25)
        axes.legend()
    figure.suptitle("A25-Tab1: discretised MNIST", fontsize=12)
    return figure
