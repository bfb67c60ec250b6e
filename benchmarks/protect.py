"""What does a certified η cost for means and counts of a secret half, against other protections?

    python benchmarks/protect.py [--dataset breast-cancer adult acs] [--json FILE] [--data DIR]
    python benchmarks/protect.py --markdown FILE …

Root-mean-square error of a released mean or histogram relative to the sampling error of a half,
including the bias from clipping.  Every method is run with every clip radius, and its best one is
shown.  ``--markdown`` turns files of ``--json`` into the table of docs/protect-benchmark.md.
Rivals: rivals.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rivals
from protect_data import counts, mean_rows

from memberbound.games import SubsetGame
from memberbound.release.half.fitting import FreshSubsets
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.statistics import clip_rows
from memberbound.release.half.sums import SumStatistic, calibrate_sum, mean

Row = dict[str, Any]
ETAS = (0.05, 0.1)
RECORDS = ("average", "every")
DATASETS = ("breast-cancer", "adult", "acs")
#: Column, and what it is called in the table.
METHODS = {
    "ours": "memberbound",
    "ours-crowd": "memberbound, crowd",
    "ours-shaped": "memberbound, shaped",
    "izzo": "I24 corrected",
    "pac": "PAC",
    "pac-shared": "PAC, shared",
    "dp-tv": "sensitivity",
    "dp-gaussian": "DP output, δ=1e-5",
    "dp-pure": "DP output, δ=0",
}


def sampling_covariance(vectors: np.ndarray) -> np.ndarray:
    """The exact covariance of the sum over a uniform half."""
    half = len(vectors) // 2
    spread = np.atleast_2d(np.cov(vectors, rowvar=False))
    return np.asarray(half * (1 - half / len(vectors)) * spread)


def sum_laws(
    statistic: SumStatistic, eta: float, moved: float, added: float | None, subsets: int
) -> Iterator[tuple[str, tuple[str, ...], rivals.Law | None]]:
    """Yield method, records it protects, law; ``moved`` and ``added``: ℓ₂- and ℓ₁-sensitivity."""
    size, dimension = statistic.vectors.shape
    for who in RECORDS:
        game = SubsetGame(size, size // 2, who)
        yield "ours", (who,), calibrate_sum(statistic, game, eta=eta).noise
        yield "ours-crowd", (who,), calibrate_sum(statistic, game, eta=eta, crowd=True).noise
        yield "ours-shaped", (who,), shaped_sum_noise(statistic, game, eta)
    fresh, plain = FreshSubsets(SubsetGame(size, size // 2), 5), Summed(statistic.vectors)
    asked: Any = {"eta": eta, "pairs": subsets, "workers": 1}
    yield "izzo", RECORDS, calibrate(plain, fresh, method="izzo", **asked).noise
    spread = sampling_covariance(statistic.vectors)
    yield "pac", RECORDS, rivals.pac_noise(spread, rivals.information_of(eta))
    yield "pac-shared", ("average",), rivals.pac_noise(spread, rivals.shared_budget(eta, size))
    for kind in ("tv", "gaussian", "pure"):
        law = rivals.dp_noise(kind, eta, moved, dimension)
        if kind == "pure" and added is not None:
            # Independent Laplace noise of scale b, with variance 2b²; only its rms is used.
            variance = 2 * (added / rivals.epsilon_of(eta)) ** 2
            other = rivals.AxisNoise(np.eye(dimension), np.full(dimension, variance))
            law = min(law, other, key=lambda one: one.rms)
        yield f"dp-{kind}", RECORDS, law


def shaped_sum_noise(statistic: SumStatistic, game: SubsetGame, eta: float) -> rivals.Law:
    """Noise A·z for the sum, from a certificate for A⁻¹·sum: multiplying by A is post-processing.

    A = C^¼ for the covariance C of the vectors, which is the cheapest shape to first order.
    """
    spread, axes = np.linalg.eigh(np.atleast_2d(np.cov(statistic.vectors, rowvar=False)))
    widths = np.maximum(spread, 1e-6 * spread.max()) ** 0.25
    turned = SumStatistic(statistic.vectors @ axes / widths, size=statistic.size)
    found = calibrate_sum(turned, game, eta=eta).noise
    variances = np.square(found.coordinate_rms * widths)
    return rivals.AxisNoise(axes, variances)


class Summed:
    """The plain sum, quicker than the exactly rounded one."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.dimension = vectors, vectors.shape[1]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the sum of these rows."""
        return np.asarray(self.vectors[rows].sum(axis=0))


def sum_settings(folder: Path) -> Iterator[tuple[str, str, Callable[[], Iterator[Row]]]]:
    for name in ("breast-cancer", "adult"):
        yield "mean", name, lambda name=name: mean_settings(mean_rows(name, folder))
    for name in ("adult", "acs"):
        yield "histogram", name, lambda name=name: count_settings(counts(name, folder))


def mean_settings(rows: np.ndarray) -> Iterator[Row]:
    lengths, half = np.linalg.norm(rows, axis=1), len(rows) // 2
    error = np.sqrt(np.trace(sampling_covariance(rows / half)))
    draws = np.random.default_rng(3)
    halves = [draws.permutation(len(rows))[:half] for _ in range(50)]
    for share in (0.25, 0.5, 0.75, 0.9, 1.0):
        clip = float(np.quantile(lengths, share))
        short = clip_rows(rows, clip)
        lost = [np.square((short - rows)[one].mean(axis=0)).sum() for one in halves]
        yield {
            "statistic": mean(short),
            "clip": None if share == 1.0 else clip,
            "moved": 2 * clip / half,
            "added": None,
            "lost": float(np.mean(lost)),
            "error": float(error),
        }


def count_settings(statistic: SumStatistic) -> Iterator[Row]:
    error = float(np.sqrt(np.trace(sampling_covariance(statistic.vectors))))
    yield {
        "statistic": statistic,
        "clip": None,
        "moved": float(np.sqrt(2)),
        "added": 2.0,
        "lost": 0.0,
        "error": error,
    }


def sums(folder: Path, subsets: int, names: list[str]) -> Iterator[Row]:
    for what, name, settings in sum_settings(folder):
        for one in settings() if name in names else ():
            size, dimension = one["statistic"].vectors.shape
            about = {
                "dataset": f"{what}, {name}",
                "records": size,
                "dimension": dimension,
                "clip": one["clip"],
            }
            for eta in ETAS:
                given = (one["statistic"], eta, one["moved"], one["added"], subsets)
                for method, records, law in sum_laws(*given):
                    if law is None:
                        continue
                    total = float(np.sqrt(one["lost"] + law.rms**2) / one["error"])
                    for record in records:
                        yield about | {
                            "method": method,
                            "record": record,
                            "eta": eta,
                            "error": total,
                            "noise_scale": law.rms,
                        }


def table(rows: list[Row]) -> str:
    """One line for every data set, record and eta, each method with its best clip radius."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        where = (row["dataset"], row["record"], row["eta"], row["method"])
        if where not in best or row["error"] < best[where]["error"]:
            best[where] = row
    heads = ["data", "record", "η", *METHODS.values()]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for data, record, eta in sorted({where[:3] for where in best}):
        cells = [best.get((data, record, eta, method)) for method in METHODS]
        first = next(row for row in rows if row["dataset"] == data)
        name = f"{data} (N={first['records']}, d={first['dimension']})"
        shown = [f"{row['error']:.3g}" if row else "n/a" for row in cells]
        lines.append("| " + " | ".join([name, record, f"{eta:g}", *shown]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--subsets", type=int, default=300, help="halves for I24's moments")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, nargs="+", help="print the table of JSON files")
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data files")
    given = parser.parse_args()
    if given.markdown:
        rows = [row for file in given.markdown for row in json.loads(file.read_text("utf-8"))]
        print(table(rows))
        return
    found: list[Row] = []
    try:
        for row in sums(given.data, given.subsets, given.dataset):
            print(json.dumps(row), file=sys.stderr, flush=True)
            found.append(row)
    except FileNotFoundError as error:
        print(f"stopped: {error}", file=sys.stderr)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
