"""Does protection hold, and how far below its certificate do attacks stay?

    python benchmarks/holds.py [--section exact shadows] [--eta 0.05 0.1 0.2] [--json FILE]

Section ``exact``: a mean and a classifier on few records, where the outputs of all subsets are
known and the attacker is Bayes-optimal.  Section ``shadows``: logistic regression on half of the
breast-cancer rows against two likelihood-ratio attacks with hundreds of retrained models, a linear
one and a mixture of densities; the stronger one is shown.  Every line gives the certificate, the
attack's result on the average and on the most exposed record (95 % intervals, a Bonferroni share
each) and the gap to the certificate.  The column covered by the certificate is marked; ``FAIL`` is
printed if the attack's lower end exceeds the certificate.  A negative gap within the interval is
measurement noise.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

# The attacks are the tests' oracle.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from memberbound.games import SubsetGame
from memberbound.numerics.means import betting_lower, betting_upper
from memberbound.release.calibration import Calibration
from memberbound.release.half.fitting import FreshSubsets
from memberbound.release.half.linear_fits import FittedParameters, Population
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.statistics import clip_rows
from memberbound.release.noise import GaussianNoise
from memberbound.release.randomness import InsecureSource
from oracle.bayes_attack import Attacked, Interval, beliefs, exact_attack

ERROR = 0.05
#: The column that a certificate covers.
NAMED = {"average": "average", "every": "worst"}
Outputs = tuple[np.ndarray, np.ndarray]


class Means:
    """The mean of a table's rows."""

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.dimension = table, table.shape[1]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the mean of these rows."""
        return self.table[rows].mean(axis=0)


def members_of(subsets: np.ndarray, size: int) -> np.ndarray:
    members = np.zeros((len(subsets), size), dtype=bool)
    members[np.arange(len(subsets))[:, None], subsets] = True
    return members


def line(setting: str, found: Calibration, attacked: Attacked, attack: str) -> dict[str, Any]:
    certified = 0.5 + found.certificate.value
    named = attacked.average if found.record == "average" else attacked.worst
    return {
        "setting": setting,
        "method": found.method,
        "record": found.record,
        "eta": found.eta,
        "certified": certified,
        "confidence": found.certificate.confidence,
        "noise_scale": found.noise_scale,
        "attack": attack,
        "average": vars(attacked.average),
        "worst": vars(attacked.worst),
        "gap": certified - named.estimate,
        "holds": named.lower <= certified,
    }


def format_row(one: dict[str, Any]) -> str:
    def cell(name: str) -> str:
        values = Interval(**one[name])
        mark = "*" if name == NAMED[one["record"]] else " "
        return f"{values.estimate:.4f} [{values.lower:.4f}, {values.upper:.4f}]{mark}"

    return (
        f"{one['setting']:<31}{one['method']:<10}{one['record']:<8}{one['eta']:<6g}"
        f"{one['certified']:<10.4f}{cell('average'):<26}{cell('worst'):<26}"
        f"{one['gap']:<9.4f}{one['attack']:<8}{'PASS' if one['holds'] else 'FAIL'}"
    )


HEAD = (
    f"{'setting':<31}{'method':<10}{'record':<8}{'eta':<6}{'certified':<10}"
    f"{'average record':<26}{'most exposed record':<26}{'gap':<9}{'attack':<8}holds"
)


# ---- section "exact": all subsets known ---------------------------------------------------------


def exact_settings() -> Iterator[tuple[str, Any, int]]:
    rng = np.random.default_rng(0)
    yield "mean, N=12, d=1", Means(rng.normal(size=(12, 1))), 12
    yield "mean, N=12, d=3", Means(rng.normal(size=(12, 3))), 12
    heavy = rng.standard_t(2, size=(12, 3))
    yield "heavy mean, N=12, d=3", Means(heavy), 12
    features = rng.normal(size=(10, 2))
    features[0] *= 4
    target = (features @ [1.0, -0.5] + rng.normal(size=10) > 0).astype(int)
    yield "logistic, N=10, d=3", classifier(features, target, 1.0), 10


def exact(etas: list[float], draws: int) -> Iterator[dict[str, Any]]:
    for name, statistic, size in exact_settings():
        subsets = np.array(list(combinations(range(size), size // 2)))
        outputs = np.array([statistic(rows) for rows in subsets])
        members = members_of(subsets, size)
        fresh = FreshSubsets(SubsetGame(size, size // 2), 1)
        for eta in etas:
            for found in calibrations(statistic, fresh, eta, exact=True):
                attacked = exact_attack(
                    found.noise, outputs, members, draws=draws, seed=3, error=ERROR
                )
                yield line(name, found, attacked, "Bayes")


def calibrations(
    statistic: Any, fresh: FreshSubsets, eta: float, *, exact: bool
) -> Iterator[Calibration]:
    given: Any = {"eta": eta, "workers": 1}
    for record in ("average", "every") if exact else ("average",):
        stream = replace(fresh, game=replace(fresh.game, record=record))
        yield calibrate(statistic, stream, method="neighbour", **given)
    yield calibrate(statistic, fresh, method="moment", **given)
    yield calibrate(statistic, fresh, method="izzo", **given)


# ---- section "shadows": a real learner ----------------------------------------------------------


def classifier(features: np.ndarray, target: np.ndarray, c: float) -> FittedParameters:
    people = Population(features, target, np.arange(2))
    return FittedParameters.of(LogisticRegression(C=c, max_iter=2000), people)


def breast_cancer(c: float, clip: float | None) -> FittedParameters:
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    table, target = load_breast_cancer(return_X_y=True)
    features = StandardScaler().fit_transform(table)[:568]
    return classifier(clip_rows(features, clip), target[:568], c)


def retrain(fitted: FittedParameters, count: int, seed: int) -> Outputs:
    records = fitted.population.records
    subsets = FreshSubsets(SubsetGame(records, records // 2), seed).subsets(count)
    outputs = np.array([fitted(rows) for rows in subsets])
    return outputs, members_of(np.array(subsets), records)


def shadow_attack(
    law,
    shadows: tuple[np.ndarray, np.ndarray],
    targets: tuple[np.ndarray, np.ndarray],
    *,
    releases: int,
    seed: int,
    error: float = 1e-6,
) -> Attacked:
    """Accuracy of the likelihood-ratio attack with shadow models, on other subsets' releases.

    In and out are compared by the mean density over shadows with and without the record.  The most
    exposed record is picked on one half of the targets and measured on the other.
    """
    rng = np.random.default_rng(seed)
    outputs, members = targets
    values = np.zeros(members.shape)
    share = shadows[1].mean(axis=0)
    for turn in range(releases):
        seen = outputs + law.draw(InsecureSource(int(rng.integers(2**31)) + turn), len(outputs))
        inside = beliefs(law, seen, shadows[0], shadows[1].astype(float))
        guess = inside / share > (1 - inside) / (1 - share)
        values += (guess == members) / releases
    return _pick(values, error)


def linear_attack(
    law, shadows: tuple[np.ndarray, np.ndarray], targets: tuple[np.ndarray, np.ndarray],
    *, error: float = 1e-6,
) -> Attacked:  # fmt: skip
    """Accuracy of the linear likelihood-ratio attack on Gaussian noise, averaged over the noise."""
    outputs, members = shadows[0], shadows[1].astype(float)
    count_in = members.sum(axis=0)[:, None]
    mean_in = members.T @ outputs / count_in
    mean_out = (1 - members).T @ outputs / (len(outputs) - count_in)
    spread = np.cov(outputs.T).reshape(outputs.shape[1], -1)
    noise = law.scale**2 * np.eye(outputs.shape[1])
    direction = np.linalg.solve(spread + noise, (mean_in - mean_out).T).T
    middle = ((mean_in + mean_out) / 2 * direction).sum(axis=1)
    width = np.sqrt(np.einsum("ri,ij,rj->r", direction, noise, direction))
    score = (targets[0] @ direction.T - middle) / width
    says_in = np.vectorize(math.erfc)(-score / math.sqrt(2)) / 2
    return _pick(np.where(targets[1], says_in, 1 - says_in), error)


def _pick(values: np.ndarray, error: float) -> Attacked:
    half = len(values) // 2
    index = int(values[:half].mean(axis=0).argmax())
    average = _bets(values.mean(axis=1), error / 2)
    worst = _bets(values[half:, index], error / 2)
    return Attacked(average, worst, values.mean(axis=0))


def _bets(values: np.ndarray, error: float) -> Interval:
    """Betting interval: much narrower than Bernstein's for hundreds of targets."""
    level = math.log(2 / error)
    column = np.clip(values, 0.0, 1.0)[:, None]
    lower, upper = betting_lower(column, level)[0], betting_upper(column, level)[0]
    return Interval(float(values.mean()), float(lower), float(upper))


def strongest(found: Calibration, shadows: Outputs, targets: Outputs) -> tuple[str, Attacked]:
    """The better attack on the record that the certificate covers."""
    tried = {
        "mixture": shadow_attack(
            found.noise, shadows, targets, releases=16, seed=9, error=ERROR / 2
        )
    }
    if isinstance(found.noise, GaussianNoise):
        tried["linear"] = linear_attack(found.noise, shadows, targets, error=ERROR / 2)

    def share_reached(name: str) -> float:
        one = tried[name]
        return (one.average if found.record == "average" else one.worst).estimate

    best = max(tried, key=share_reached)
    return best, tried[best]


def shadows(etas: list[float], models: int) -> Iterator[dict[str, Any]]:
    for c, clip in ((1.0, None), (0.01, None), (0.01, 3.0)):
        fitted = breast_cancer(c, clip)
        name = f"breast cancer, C={c:g}" + ("" if clip is None else f", clip {clip:g}")
        known, targets = retrain(fitted, models, 101), retrain(fitted, models, 102)
        records = fitted.population.records
        fresh = FreshSubsets(SubsetGame(records, records // 2), 1)
        for eta in etas:
            for found in calibrations(fitted, fresh, eta, exact=False):
                attack, attacked = strongest(found, known, targets)
                yield line(name, found, attacked, attack)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--section", nargs="+", default=["exact", "shadows"])
    parser.add_argument("--eta", nargs="+", type=float, default=[0.05, 0.1, 0.2])
    parser.add_argument("--draws", type=int, default=20_000, help="releases per exact attack")
    parser.add_argument(
        "--models", type=int, default=1000, help="shadow models, and as many targets"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(f"memberbound {version('memberbound')}, Python {platform.python_version()}\n\n{HEAD}")
    found = []
    for section, budget in ((exact, given.draws), (shadows, given.models)):
        if section.__name__ in given.section:
            for one in section(given.eta, budget):
                print(format_row(one), flush=True)
                found.append(one)
    ratios = [
        (one["certified"] - 0.5) / (one[NAMED[one["record"]]]["estimate"] - 0.5)
        for one in found
        if one["method"] == "neighbour"
    ]
    held = all(one["holds"] for one in found)
    print(f"\n{len(found)} lines; every attack below its certificate: {'PASS' if held else 'FAIL'}")
    if ratios:
        print(f"neighbour, certified/attacked advantage: median {np.median(ratios):.2f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
