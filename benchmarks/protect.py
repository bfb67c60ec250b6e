"""What does a certified η cost, and what would other protections at the same η cost?

    python benchmarks/protect.py [--section logistic sums] [--dataset heart adult …] [--quick]
                                 [--json FILE] [--data DIR]
    python benchmarks/protect.py --markdown FILE …

Section ``logistic``: accuracy of released logistic regressions on the records outside the training
half.  Section ``sums``: root-mean-square error of a released mean or histogram over the sampling
error of a half.  Every method gets every setting of C and clip radius in ``SETTINGS``, and the one
best for it is shown.  ``--json`` is written after every setting; ``--markdown`` turns such files
into the tables of docs/protect-benchmark.md.  Rivals: benchmarks/rivals.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rivals
from sklearn.linear_model import LogisticRegression

from memberbound.errors import MemberboundError
from memberbound.games import SubsetGame
from memberbound.protection.calibration import FreshSubsets
from memberbound.protection.centre import calibrate_izzo
from memberbound.protection.estimator import MembershipPrivate
from memberbound.protection.fitted_parameters import clipped_rows
from memberbound.protection.learning import calibrated, chosen_method, learnable
from memberbound.protection.noise import NoiseLaw
from memberbound.protection.parameters import Population
from memberbound.protection.randomness import InsecureSource
from memberbound.protection.statistics import histogram, mean
from memberbound.protection.sums import SumStatistic, calibrate_sum
from memberbound.protection.tuning import noise_shape

Row = dict[str, Any]
ETAS = (0.05, 0.1)
RECORDS = ("average", "every")
CALIBRATE, OUTPUTS, EVALUATE = 1, 2, 3
ITERATIONS = 2000

#: (C, clip radius) tried by every method.
SMALL = ((1.0, None), (0.1, 3.0), (0.01, None), (0.01, 3.0), (0.001, 3.0))
SETTINGS: dict[str, tuple[tuple[float, float | None], ...]] = {
    "breast-cancer": SMALL,
    "heart": SMALL,
    "adult": ((0.1, 3.0), (0.01, 3.0), (0.001, 3.0)),
    "acs": ((0.1, 3.0), (0.01, 3.0), (0.001, 3.0)),
    "digits": ((0.01, 8.0), (0.001, 8.0)),
    "mnist": ((0.01, 7.0), (0.001, 7.0)),
}
#: Column, and what it is called in the table.
METHODS = {
    "ours": "memberbound",
    "ours-tuned": "memberbound, tuned",
    "izzo": "I24 corrected",
    "pac": "PAC",
    "pac-shared": "PAC, shared",
    "dp-tv": "sensitivity",
    "dp-gaussian": "DP output, δ=1e-5",
    "dp-pure": "DP output, δ=0",
    "dp-objective": "DP objective",
}


# ---- data ---------------------------------------------------------------------------------------


def _standard(table: np.ndarray) -> np.ndarray:
    spread = table.std(axis=0)
    return (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _one_hot(column: Any) -> np.ndarray:
    values = np.asarray(column, dtype=str)
    coded = (values[:, None] == np.unique(values)[None, :]).astype(float)
    return np.asarray(coded - coded.mean(axis=0))


def _pixels(images: np.ndarray) -> np.ndarray:
    """Centred, with one scale for all pixels: rows are about √d long."""
    moved = images - images.mean(axis=0)
    return np.asarray(moved / moved.std())


def _breast_cancer(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    table, target = load_breast_cancer(return_X_y=True)
    return _standard(table), target


def _digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    return _pixels(images), target


def _mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "mnist.npz") as stored:
        images, target = stored["x_train"][:20000], stored["y_train"][:20000]
    pooled = images.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(len(images), 49)
    return _pixels(pooled), target


def _heart(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    table = pd.read_csv(folder / "heart_disease.csv.gz")
    numeric = ["age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak", "ca"]
    filled = table[numeric].astype(float)
    filled = filled.fillna(filled.median())
    kinds = [_one_hot(table[name]) for name in ("cp", "restecg", "slope", "thal")]
    return np.hstack([_standard(filled.to_numpy()), *kinds]), (table["num"] > 0).to_numpy(int)


def _adult_table(folder: Path) -> Any:
    import pandas as pd

    return pd.read_csv(folder / "adult_train.csv.gz", keep_default_na=False)


def _adult(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = _adult_table(folder)
    numeric = table[["age", "education_num", "hours_per_week"]].to_numpy(float)
    money = np.log1p(table[["capital_gain", "capital_loss"]].to_numpy(float))
    names = ("workclass", "marital_status", "occupation", "relationship", "race", "sex")
    kinds = [_one_hot(table[name]) for name in names]
    target = table["income"].str.contains(">50K").to_numpy(int)
    return np.hstack([_standard(np.hstack([numeric, money])), *kinds]), target


def _acs_table(folder: Path) -> Any:
    import pandas as pd

    table = pd.read_csv(folder / "nist_acs_ma2019.csv.gz", keep_default_na=False, dtype=str)
    return table[(table["AGEP"].astype(float) >= 18) & (table["PINCP"] != "N")]


def _acs(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    table = _acs_table(folder)
    numeric = table[["AGEP", "EDU"]].to_numpy(float)
    names = ("SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "DPHY")
    target = (table["PINCP"].astype(float) > 50_000).to_numpy(int)
    return np.hstack([_standard(numeric), *(_one_hot(table[name]) for name in names)]), target


READERS: dict[str, tuple[Callable[[Path], tuple[np.ndarray, np.ndarray]], int]] = {
    "breast-cancer": (_breast_cancer, 568),
    "heart": (_heart, 920),
    "adult": (_adult, 4000),
    "acs": (_acs, 4000),
    "digits": (_digits, 1796),
    "mnist": (_mnist, 3000),
}


def chosen_rows(records: int, most: int) -> np.ndarray:
    """The same even number of rows for everybody."""
    return np.sort(np.random.default_rng(0).permutation(records)[: min(records // 2 * 2, most)])


# ---- logistic regression ------------------------------------------------------------------------


class Remembered:
    """A statistic that is computed once for every subset."""

    def __init__(self, statistic: Any) -> None:
        self.statistic, self.dimension = statistic, statistic.dimension
        self.known: dict[bytes, np.ndarray] = {}

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the statistic of these rows."""
        key = rows.tobytes()
        if key not in self.known:
            self.known[key] = self.statistic(rows)
        return self.known[key]


@dataclass(frozen=True)
class Effort:
    """How much is computed."""

    pairs: int
    subsets: int
    halves: int
    draws: int


class Contest:
    """One data set under one setting: all methods are scored on the same halves."""

    def __init__(
        self, people: Population, c: float, clip: float | None, effort: Effort, seed: int
    ) -> None:
        self.people, self.c, self.clip, self.effort = people, c, clip, effort
        self.game = SubsetGame(people.records, people.records // 2)
        self.fresh = FreshSubsets(self.game, seed)
        self.learner = LogisticRegression(C=c, max_iter=ITERATIONS)
        self.features = clipped_rows(people.features, clip)
        self.convex = self.statistic("convex")
        self.halves = self.fresh.spawned(EVALUATE).subsets(effort.halves)
        self.codes = np.searchsorted(people.classes, people.target)
        self.remembered: dict[str, Remembered] = {}

    def statistic(self, method: str) -> Any:
        return learnable(
            self.learner, self.people, method=method, size=self.game.size, clip=self.clip
        )

    def kept(self, name: str, statistic: Any) -> Remembered:
        return self.remembered.setdefault(name, Remembered(statistic))

    def accuracy(self, parameters: Callable[[np.ndarray, int], np.ndarray], statistic: Any) -> Row:
        """Mean accuracy outside the halves with its standard error."""
        found = []
        for rows in self.halves:
            outside = np.setdiff1d(np.arange(self.people.records), rows)
            scores = []
            for draw in range(self.effort.draws):
                model = statistic.model(parameters(rows, draw))
                scores.append(model.score(self.features[outside], self.people.target[outside]))
            found.append(np.mean(scores))
        error = float(np.std(found, ddof=1) / np.sqrt(len(found)))
        return {"released": float(np.mean(found)), "released_se": error}

    def with_noise(self, law: NoiseLaw, statistic: Any, kept: Remembered) -> Row:
        source = InsecureSource(7)
        scored = self.accuracy(lambda rows, draw: kept(rows) + law.draw(source), statistic)
        return scored | {"noise_scale": law.rms}

    def clean(self) -> float:
        kept, one = self.kept("convex", self.convex), self.convex
        outside = [np.setdiff1d(np.arange(self.people.records), rows) for rows in self.halves]
        return float(
            np.mean(
                [
                    one.model(kept(rows)).score(self.features[rest], self.people.target[rest])
                    for rows, rest in zip(self.halves, outside, strict=True)
                ]
            )
        )

    def ours(self, record: Any, eta: float) -> Row:
        """What MembershipPrivate does without tuning; its fits are shared between the etas."""
        method = chosen_method("auto", record, self.learner, self.people, parameters=True)
        statistic = self.statistic(method)
        kept = self.kept("convex" if method == "convex" else "refitted", statistic)
        found = calibrated(
            kept if method != "convex" else statistic,
            self.fresh.spawned(CALIBRATE),
            eta=eta,
            record=record,
            method=method,
            confidence=0.95,
            pairs=self.effort.pairs,
            shape=noise_shape(statistic, self.learner, None),
            workers=1,
        )
        certified = {"certified": found.certificate.value, "by": method}
        return self.with_noise(found.noise, statistic, kept) | certified

    def izzo(self, eta: float) -> Row:
        kept = self.kept("convex", self.convex)
        stream = self.fresh.spawned(OUTPUTS)
        tried = [
            calibrate_izzo(kept, stream, eta=eta, moment=m, subsets=self.effort.subsets, workers=1)
            for m in (2.0, 8.0)
        ]
        best = min(tried, key=lambda found: found.noise_scale)
        return self.with_noise(best.noise, self.convex, kept)

    def pac(self, budget: float) -> Row | None:
        kept = self.kept("convex", self.convex)
        halves = self.fresh.spawned(OUTPUTS).subsets(self.effort.subsets)
        law = rivals.pac_noise(np.array([kept(rows) for rows in halves]), budget)
        return None if law is None else self.with_noise(law, self.convex, kept)

    @property
    def radius(self) -> float:
        longest = float(np.linalg.norm(self.people.features, axis=1).max())
        return float(np.hypot(longest if self.clip is None else min(self.clip, longest), 1.0))

    def dp(self, kind: str, eta: float) -> Row:
        weight, classes = self.convex.risk.regularisation, len(self.people.classes)
        if kind != "objective":
            moved = rivals.risk_sensitivity(self.radius, classes, self.game.size, weight)
            law = rivals.dp_noise(kind, eta, moved, self.convex.dimension)
            return self.with_noise(law, self.convex, self.kept("convex", self.convex))
        rng = np.random.default_rng(11)

        def perturbed(rows: np.ndarray, draw: int) -> np.ndarray:
            found = rivals.objective_perturbation(
                self.convex.risk.design[rows],
                self.codes[rows],
                classes=classes,
                radius=self.radius,
                weight=weight,
                epsilon=rivals.epsilon_of(eta),
                rng=rng,
            )
            return found.ravel()

        return self.accuracy(perturbed, self.convex)

    def lines(self) -> Iterator[Row]:
        """Yield one row for every method, record and eta."""
        for eta in ETAS:
            budgets = {
                "pac": rivals.information_of(eta),
                "pac-shared": rivals.shared_budget(eta, self.people.records),
            }
            jobs: list[tuple[str, tuple[str, ...], Callable[[], Row | None]]] = [
                ("ours", (who,), lambda who=who: self.ours(who, eta)) for who in RECORDS
            ]
            jobs.append(("izzo", RECORDS, lambda: self.izzo(eta)))
            jobs.append(("pac", RECORDS, lambda: self.pac(budgets["pac"])))
            jobs.append(("pac-shared", ("average",), lambda: self.pac(budgets["pac-shared"])))
            for kind in ("tv", "gaussian", "pure", "objective"):
                jobs.append((f"dp-{kind}", RECORDS, lambda kind=kind: self.dp(kind, eta)))
            for method, records, job in jobs:
                began = time.perf_counter()
                try:
                    found = job()
                except MemberboundError as error:
                    found = {"released": None, "problem": str(error)}
                seconds = time.perf_counter() - began
                for record in records if found is not None else ():
                    about = {"method": method, "record": record, "eta": eta, "seconds": seconds}
                    yield about | (found or {})


def logistic(name: str, folder: Path, effort: Effort, quick: bool) -> Iterator[Row]:
    people = population(name, folder, 400 if quick else None)
    chance = float(np.unique(people.target, return_counts=True)[1].max() / people.records)
    for c, clip in SETTINGS[name][-2:] if quick else SETTINGS[name]:
        contest = Contest(people, c, clip, effort, 5)
        about = {
            "section": "logistic",
            "dataset": name,
            "records": people.records,
            "dimension": contest.convex.dimension,
            "chance": chance,
            "C": c,
            "clip": clip,
            "clean": contest.clean(),
        }
        for line in contest.lines():
            yield about | line


def tuned(name: str, folder: Path, effort: Effort, quick: bool) -> Iterator[Row]:
    """MembershipPrivate as a user calls it, with tuning."""
    people = population(name, folder, 400 if quick else None)
    chance = float(np.unique(people.target, return_counts=True)[1].max() / people.records)
    for eta in ETAS:
        for record in RECORDS:
            base = LogisticRegression(max_iter=ITERATIONS)
            asked = {"eta": eta, "record": record, "n_jobs": 1, "insecure_seed": 5}
            model = MembershipPrivate(base, pairs=effort.pairs, **asked)
            began = time.perf_counter()
            model.fit(people.features, people.target)
            seconds = time.perf_counter() - began
            option = model.configuration_
            contest = Contest(people, option.value or 1.0, option.clip, effort, 5)
            method = chosen_method("auto", record, base, people, parameters=True)
            statistic = contest.statistic(method)
            law = model.calibration_.noise
            yield {
                "section": "logistic",
                "dataset": name,
                "records": people.records,
                "dimension": statistic.dimension,
                "chance": chance,
                "C": contest.c,
                "clip": option.clip,
                "clean": contest.clean(),
                "method": "ours-tuned",
                "record": record,
                "eta": eta,
                "seconds": seconds,
                "certified": model.certificate_.value,
                "by": method,
            } | contest.with_noise(law, statistic, Remembered(statistic))


def population(name: str, folder: Path, most: int | None) -> Population:
    reader, size = READERS[name]
    features, target = reader(folder)
    rows = chosen_rows(len(features), min(size, most or size))
    return Population(features[rows], target[rows], np.unique(target[rows]))
