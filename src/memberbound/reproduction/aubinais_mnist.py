"""A25-Tab1: networks on MNIST, as it is and discretised; their accuracy and what bounds the leak.

Images are replaced by the centre of their cluster.  The paper counts clusters as the atoms of the
law; what a classifier is trained on are pairs (cluster, label).  Both readings are computed: C_K,
the bound C_K/(2√n) of A25-C15, the worst case A25-T14 at the observed frequencies (these three are
estimates) and the certificate X5, from the images that no clustering was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from memberbound.discrete.atoms import leak_from_diversity
from memberbound.discrete.certificates import certify_counts
from memberbound.discrete.counts import CountProfile
from memberbound.errors import InputError
from memberbound.games import IidGame
from memberbound.reproduction.aubinais_mnist_claims import RAW, readings_figure, table_checks
from memberbound.reproduction.experiment import Experiment, Findings, Run
from memberbound.reproduction.mnist import CLASSES, Digits, Images, Labels, data_folder
from memberbound.reproduction.sweep import Progress, Row, Sweep

__all__ = ["TABLE_1", "Setting", "Trial", "tabulated", "train_network"]

GAME = IidGame()
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


def train_network(x: Images, y: Labels, setting: Setting, rng: np.random.Generator) -> Any:
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
    with threadpool_limits(1):
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


def scores(probabilities: NDArray[np.floating[Any]], labels: Labels) -> dict[str, float]:
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


@dataclass(frozen=True, eq=False)
class Trial:
    """One draw of clusterings and training sets."""

    digits: Digits
    setting: Setting
    seed: tuple[int, ...]

    def measure(self, step: Callable[[], None]) -> dict[tuple[int, int], dict[str, float]]:
        """Return the quantities of every cell of the table, by n and number of clusters."""
        setting, digits = self.setting, self.digits
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(len(digits.train))
        aside = len(setting.clusters) * setting.set_aside
        # What remains: the rows that training sets are drawn from, and that the law is read off.
        rest = order[aside:]
        sets = {n: rng.choice(rest, n, replace=False) for n in setting.sizes}
        found = {}
        for place, clusters in enumerate(setting.columns):
            if clusters == RAW:
                cells, test_cells = _distinct(digits.train), _distinct(digits.test)
                centres, test = None, digits.test
            else:
                own = order[(place - 1) * setting.set_aside : place * setting.set_aside]
                centres, cells, test_cells = self._clustering(clusters, own, rng)
                test = centres[test_cells]
            pairs = cells * CLASSES + digits.train_labels
            for n, rows in sets.items():
                images = digits.train[rows] if centres is None else centres[cells[rows]]
                network = train_network(images, digits.train_labels[rows], setting, rng)
                values = scores(network.predict_proba(test), digits.test_labels)
                values["accuracy_on_raw_images"] = float(
                    np.mean(network.predict(digits.test) == digits.test_labels)
                )
                values["accuracy_ceiling"] = best_accuracy(test_cells, digits.test_labels)
                for reading, atoms in (("clusters", cells), ("pairs", pairs)):
                    values |= leaks(np.bincount(atoms[rest]), n, reading)
                found[n, clusters] = values
                step()
        return found

    def _clustering(
        self, clusters: int, own: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Images, Labels, Labels]:
        """Return centres, and the cluster of every training and test image."""
        from sklearn.cluster import MiniBatchKMeans

        found = MiniBatchKMeans(clusters, random_state=int(rng.integers(2**31)))
        found.fit(self.digits.train[own])
        train, test = (
            found.predict(x).astype(np.int64) for x in (self.digits.train, self.digits.test)
        )
        return found.cluster_centers_.astype(np.float32), train, test


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
    digits: Digits,
    setting: Setting,
    trials: int,
    seed: int,
    progress: Progress | None = None,
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

    found = [Trial(digits, setting, (seed, 25, 3, trial)).measure(step) for trial in range(trials)]
    sweeps = {n: _sweep(n, setting, found) for n in setting.sizes}
    rows: list[Row] = [{"records": n} | row for n, sweep in sweeps.items() for row in sweep.rows()]
    single: list[Row] = [
        {"records": n} | row for n, sweep in sweeps.items() for row in sweep.trial_rows()
    ]
    return Findings(rows, single, table_checks(sweeps), lambda: readings_figure(sweeps))


def _sweep(n: int, setting: Setting, found: list[dict[tuple[int, int], dict[str, float]]]) -> Sweep:
    names = found[0][n, RAW]
    return Sweep(
        "clusters",
        tuple(map(float, setting.columns)),
        {
            name: np.array([[one[n, k][name] for one in found] for k in setting.columns])
            for name in names
        },
    )


def _reading(data: Path | None) -> Run:
    digits = Digits.read(data)
    return lambda trials, seed, progress: tabulated(digits, Setting(), trials, seed, progress)


def _run(trials: int, seed: int, progress: Progress | None) -> Findings:
    return _reading(data_folder(None))(trials, seed, progress)


TABLE_1 = Experiment(
    "A25-Tab1",
    "MNIST as it is and in 20, 50, 100 clusters: accuracy, and bounds on the leak",
    3,
    GAME,
    _run,
    ("A25-C15", "A25-T14", "A25-eq18", "X5"),
    (
        "The training images of MNIST are independent draws from one law. (They come from some "
        "250 writers, so this is doubtful; the paper assumes it too.)",
        f"A certificate holds with {CONFIDENCE:.0%} confidence by itself, for the clustering of "
        "its trial.",
        "The images that a clustering was made of are not protected: the centres are released.",
    ),
    (
        "Atoms: the paper's C_K counts clusters. A classifier is trained on pairs (cluster, "
        "label), so only the second reading bounds its leak; a learner that releases how often "
        "each pair occurs exceeds the printed bounds.",
        "Accuracy is measured on the test images, discretised like the training images. A "
        "classifier of 20 clusters cannot be right more often than the commonest label of every "
        "cluster is; the printed 0.96 and more are far above that ceiling, so they are not "
        "ten-class accuracies on discretised images. None of the other readings that were tried "
        "(raw test images; right yes-or-no answers per digit; mean area under the ROC curve) "
        "gives the printed numbers.",
        "Three of the nine printed bounds are C_K/(2√n) rounded down. They hold all the same with "
        "clusters as atoms: the certificates are below them.",
        "Not printed: the size of a batch (200 here), the start of the network (scikit-learn's), "
        "the options of MiniBatchKMeans (its defaults), how often the runs were repeated, and "
        "what ± means. Here every trial draws new clusterings, training sets and starts; the "
        "paper fixes its clusterings.",
        "C_K is counted over all training images that no clustering was made of.",
    ),
    _reading,
)
