"""Certified ceiling, audited floor, and their ratio, of releases by ``protect-half``.

    .venv/bin/python benchmarks/sandwich.py --data FOLDER [--only NAME …] [--json FILE]

The ceiling is the certificate of the calibration, the floor X24's attack on what is released
(95 %), the estimate what that attack reaches.  For means and histograms the noise is that of the
crowd (X21), for logistic regression by refitting that of several partners (X20); "plain" is the
ratio at the noise of the coupling alone (X1), as it was before either.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from protect_data import counts, population
from sklearn.linear_model import LogisticRegression

from memberbound.attacks.noisy_releases import audit_release
from memberbound.games import SubsetGame
from memberbound.release.calibration import Calibration
from memberbound.release.half.least_noise import FreshSubsets, Statistic
from memberbound.release.half.parameters import FittedParameters, Population, clipped_rows
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.statistics import (
    SumStatistic,
    calibrate_sum,
    histogram,
    mean,
)
from memberbound.release.noise import GaussianNoise

ETA = 0.05
DATA = ("breast-cancer", "heart", "adult", "digits")
LEARNERS = ("mean", "histogram", "logistic, refitted")
Row = dict[str, Any]


def shortened(people: Population, length: float) -> Population:
    """Rows no longer than ``length`` times √d."""
    radius = length * np.sqrt(people.features.shape[1])
    return Population(clipped_rows(people.features, radius), people.target, people.classes)


def statistic_of(learner: str, name: str, people: Population, folder: Path) -> Statistic:
    """What is released."""
    if learner == "mean":
        return mean(shortened(people, 2.0).features)
    if learner == "histogram":
        if name == "adult":
            return counts(name, folder)
        # The corner of an image is always white: how much ink it has instead.
        column = people.features.mean(axis=1) if name == "digits" else people.features[:, 0]
        edges = np.quantile(column, np.linspace(0, 1, 6))
        edges[[0, -1]] += (-1.0, 1.0)
        return histogram(column, bins=edges)
    rows = Population(clipped_rows(people.features, 3.0), people.target, people.classes)
    return FittedParameters.of(LogisticRegression(C=0.1, max_iter=1000), rows)


def calibrated(
    statistic: Statistic, game: SubsetGame, refit: int
) -> tuple[Calibration, Calibration]:
    """The sharpest calibration, and that of the coupling with one neighbour alone."""
    if isinstance(statistic, SumStatistic):
        return (
            calibrate_sum(statistic, game, eta=ETA, crowd=True),
            calibrate_sum(statistic, game, eta=ETA),
        )
    fresh = FreshSubsets(game, 1)
    given: Any = {"eta": ETA, "method": "neighbour", "pairs": refit}
    return (
        calibrate(statistic, fresh, partners=15, **given),
        calibrate(statistic, fresh, partners=1, **given),
    )


def slack(certified: float, estimate: float, floor: float) -> str:
    """Say which side is slack where the ratio is above 1.5."""
    if floor <= 0 or certified / floor <= 1.5:
        return ""
    above, below = certified / max(estimate, 1e-12), estimate / max(floor, 1e-12)
    return "ceiling" if above > below**2 else "floor" if below > above**2 else "both"


def rows(names: list[str], learners: list[str], args: argparse.Namespace) -> Iterator[Row]:
    for name in names:
        people = population(name, args.data, args.records)
        for learner in learners:
            try:
                statistic = statistic_of(learner, name, people, args.data)
            except (KeyError, FileNotFoundError) as problem:
                print(f"{name}, {learner}: left out, {problem}", file=sys.stderr)
                continue
            records = people.records
            if isinstance(statistic, SumStatistic):
                records = len(statistic.vectors)
            whom = ("average",) if learner == "logistic, refitted" else ("average", "every")
            for record in whom:
                start = time.perf_counter()
                game = SubsetGame(records, records // 2, record)
                best, plain = calibrated(statistic, game, args.pairs)
                certified = 2 * best.certificate.value
                row: Row = {
                    "data": name,
                    "learner": learner,
                    "record": record,
                    "records": records,
                    "dimension": statistic.dimension,
                    "noise": best.noise_scale,
                    "noise_plain": plain.noise_scale,
                    "theorems": list(best.certificate.theorems),
                    "certified": certified,
                }
                if not isinstance(best.noise, GaussianNoise):
                    yield row | {
                        "estimate": None,
                        "floor": None,
                        "ratio": None,
                        "slack": "no noise",
                    }
                    continue
                found = audit_release(
                    statistic,
                    best.noise,
                    game,
                    targets=args.targets,
                    training=200,
                    seed=7,
                    workers=args.workers,
                )
                bound = found.average if record == "average" else found.worst
                ratio = certified / bound.lower if bound.lower > 0 else None
                yield row | {
                    "estimate": bound.estimate,
                    "floor": bound.lower,
                    "ratio": ratio,
                    "slack": slack(certified, bound.estimate, bound.lower),
                    "seconds": time.perf_counter() - start,
                }


def shown(found: list[Row]) -> str:
    """The table as Markdown."""

    def number(value: float | None, digits: int = 3) -> str:
        return "–" if value is None else f"{value:.{digits}f}"

    lines = [
        "| data | learner | record | N | d | noise (X1 alone) | certified | attack ≈ | floor "
        "| ratio | slack |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        cells = (
            *(row[key] for key in ("data", "learner", "record", "records", "dimension")),
            f"{row['noise']:.3g} ({row['noise_plain']:.3g})",
            *(number(row[key]) for key in ("certified", "estimate", "floor")),
            number(row["ratio"], 2),
            row["slack"],
        )
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(), help="folder with adult and heart")
    parser.add_argument("--only", nargs="*", default=list(DATA), help="data sets")
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS))
    parser.add_argument("--records", type=int, default=None, help="records at most")
    parser.add_argument("--targets", type=int, default=2000, help="models that are attacked")
    parser.add_argument("--pairs", type=int, default=500, help="circles of the refitted learner")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    found = []
    for row in rows(args.only, args.learners, args):
        found.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if args.json is not None:
            args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    text = shown(found)
    if args.markdown is not None:
        args.markdown.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
