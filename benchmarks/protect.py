"""What does a certified η cost, and what would other protections at the same η cost?

    python benchmarks/protect.py [--section logistic sums] [--dataset heart adult …] [--quick]
                                 [--json FILE] [--data DIR]
    python benchmarks/protect.py --markdown FILE …

Section ``logistic``: accuracy of released logistic regressions on the records outside the training
half.  Section ``sums``: root-mean-square error of a released mean or histogram over the sampling
error of a half.  Every method gets every setting of C and clip radius in ``SETTINGS``, and the one
best for it is shown.  ``--json`` is written after every setting; ``--markdown`` turns such files
into the tables of docs/protect-benchmark.md.  Rivals: rivals.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import rivals
from protect_data import READERS, population
from protect_sums import ETAS, RECORDS, Row, sums
from protect_tables import shown, table
from sklearn.linear_model import LogisticRegression

from memberbound.errors import MemberboundError
from memberbound.games import SubsetGame
from memberbound.release.calibration import FreshSubsets
from memberbound.release.estimator import MembershipPrivate
from memberbound.release.methods import calibrate, learnable, noise_shape
from memberbound.release.noise import NoiseLaw
from memberbound.release.parameters import Population, clipped_rows
from memberbound.release.randomness import InsecureSource
from memberbound.release.refitting import calibrate_izzo

#: ``auto`` takes the neighbour form for the average record; the convex form is tried for it too.
#: Method, record, and whether the noise is shaped; round noise suits the convex form's worst case.
OURS = (
    ("neighbour", "average", True),
    ("convex", "average", True),
    ("convex", "every", True),
    ("convex", "every", False),
)
CALIBRATE, OUTPUTS, EVALUATE = 1, 2, 3
ITERATIONS = 2000

#: (C, clip radius) tried by every method.
SMALL = ((1.0, None), (0.1, 3.0), (0.01, None), (0.01, 3.0), (0.001, 3.0))
SETTINGS: dict[str, tuple[tuple[float, float | None], ...]] = {
    "breast-cancer": SMALL,
    "heart": SMALL,
    "adult": ((0.1, 3.0), (0.01, 3.0), (0.001, 3.0), (1e-4, 3.0)),
    "acs": ((0.1, 3.0), (0.01, 3.0), (0.001, 3.0), (1e-4, 3.0)),
    "digits": ((0.01, 8.0), (0.001, 8.0), (1e-4, 8.0)),
    "mnist": ((0.01, 7.0), (0.001, 7.0), (1e-4, 7.0)),
}
#: From this many records on the convex form is for every record only, and by its worst case: what
#: sampled subsets add takes hundreds of them (minutes each time).
MANY = 1000


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
    convex: int
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
        """Return rows ↦ parameters as this method fits them."""
        return learnable(
            self.learner, self.people, method=method, size=self.game.size, clip=self.clip
        )

    def kept(self, name: str, statistic: Any) -> Remembered:
        """Return the statistic with its memory."""
        return self.remembered.setdefault(name, Remembered(statistic))

    def accuracy(
        self,
        parameters: Callable[[np.ndarray, int], np.ndarray],
        statistic: Any,
        draws: int | None = None,
    ) -> Row:
        """Mean accuracy outside the halves with its standard error."""
        found = []
        for rows in self.halves:
            outside = np.setdiff1d(np.arange(self.people.records), rows)
            scores = []
            for draw in range(draws or self.effort.draws):
                model = statistic.model(parameters(rows, draw))
                scores.append(model.score(self.features[outside], self.people.target[outside]))
            found.append(np.mean(scores))
        error = float(np.std(found, ddof=1) / np.sqrt(len(found)))
        return {"released": float(np.mean(found)), "released_se": error}

    def with_noise(self, law: NoiseLaw, statistic: Any, kept: Remembered) -> Row:
        """Score releases with this noise."""
        source = InsecureSource(7)
        scored = self.accuracy(lambda rows, _: kept(rows) + law.draw(source), statistic)
        return scored | {"noise_scale": law.rms, "clean": self.clean(statistic, kept)}

    def clean(self, statistic: Any, kept: Remembered) -> float:
        """Mean accuracy outside the halves without noise."""
        found = self.accuracy(lambda rows, _: kept(rows), statistic, draws=1)
        return float(found["released"])

    def ours(self, method: str, record: Any, eta: float, *, shaped: bool = True) -> Row:
        """What MembershipPrivate does without tuning; its fits are shared between the etas."""
        statistic = self.statistic(method)
        # Two subsets: the sampled part then never beats the worst case.
        convex = self.effort.convex if self.people.records < MANY else 2
        kept = self.kept("convex" if method == "convex" else "refitted", statistic)
        found = calibrate(
            kept if method != "convex" else statistic,
            replace(self.fresh.spawned(CALIBRATE), game=replace(self.game, record=record)),
            eta=eta,
            method=method,
            confidence=0.95,
            pairs=convex if method == "convex" else self.effort.pairs,
            shape=noise_shape(statistic, self.learner, None) if shaped else None,
            workers=1,
        )
        certified = {"certified": found.certificate.value, "by": method, "shaped": shaped}
        return self.with_noise(found.noise, statistic, kept) | certified

    def izzo(self, eta: float) -> Row:
        """Score I24's noise with the Gamma radius, M = 2 or 8, whichever is less."""
        kept = self.kept("convex", self.convex)
        stream = self.fresh.spawned(OUTPUTS)
        tried = [
            calibrate_izzo(kept, stream, eta=eta, moment=m, subsets=self.effort.subsets, workers=1)
            for m in (2.0, 8.0)
        ]
        best = min(tried, key=lambda found: found.noise_scale)
        return self.with_noise(best.noise, self.convex, kept)

    def pac(self, budget: float) -> Row | None:
        """Score PAC-style noise; None when the budget allows none."""
        kept = self.kept("convex", self.convex)
        halves = self.fresh.spawned(OUTPUTS).subsets(self.effort.subsets)
        spread = rivals.covariance_of(np.array([kept(rows) for rows in halves]))
        law = rivals.pac_noise(spread, budget)
        return None if law is None else self.with_noise(law, self.convex, kept)

    @property
    def radius(self) -> float:
        """Length of the longest row that the clip radius allows, the constant included."""
        longest = float(np.linalg.norm(self.people.features, axis=1).max())
        return float(np.hypot(longest if self.clip is None else min(self.clip, longest), 1.0))

    def dp(self, kind: str, eta: float) -> Row:
        """Score differential privacy at the ε of η."""
        weight, classes = self.convex.risk.regularisation, len(self.people.classes)
        if kind != "objective":
            moved = rivals.risk_sensitivity(self.radius, classes, self.game.size, weight)
            law = rivals.dp_noise(kind, eta, moved, self.convex.dimension)
            return self.with_noise(law, self.convex, self.kept("convex", self.convex))
        rng = np.random.default_rng(11)

        def perturbed(rows: np.ndarray, _: int) -> np.ndarray:
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

        clean = self.clean(self.convex, self.kept("convex", self.convex))
        return self.accuracy(perturbed, self.convex) | {"clean": clean}

    def jobs(self, eta: float) -> list[tuple[str, tuple[str, ...], Callable[[], Row | None]]]:
        """Return method, records that it protects, and how it is scored."""
        budget = rivals.information_of(eta)
        shared = rivals.shared_budget(eta, self.people.records)
        found: list[tuple[str, tuple[str, ...], Callable[[], Row | None]]] = [
            ("ours", (who,), lambda way=way, who=who, fit=fit: self.ours(way, who, eta, shaped=fit))
            for way, who, fit in OURS
            if self.people.records < MANY or (way, who) != ("convex", "average")
        ]
        found.append(("izzo", RECORDS, lambda: self.izzo(eta)))
        found.append(("pac", RECORDS, lambda: self.pac(budget)))
        found.append(("pac-shared", ("average",), lambda: self.pac(shared)))
        for kind in ("tv", "gaussian", "pure", "objective"):
            found.append((f"dp-{kind}", RECORDS, lambda kind=kind: self.dp(kind, eta)))
        return found

    def lines(self) -> Iterator[Row]:
        """Yield one row for every method, record and eta."""
        for eta in ETAS:
            for method, records, job in self.jobs(eta):
                began = time.perf_counter()
                try:
                    found = job()
                except (MemberboundError, np.linalg.LinAlgError) as error:
                    found = {"released": None, "problem": str(error)}
                seconds = time.perf_counter() - began
                for record in records if found is not None else ():
                    about = {"method": method, "record": record, "eta": eta, "seconds": seconds}
                    yield about | (found or {})


def logistic(
    name: str, folder: Path, effort: Effort, quick: bool, which: list[int] | None
) -> Iterator[Row]:
    people = population(name, folder, 400 if quick else None)
    chance = float(np.unique(people.target, return_counts=True)[1].max() / people.records)
    settings = SETTINGS[name][-2:] if quick else SETTINGS[name]
    for place, (c, clip) in enumerate(settings):
        if which is not None and place not in which:
            continue
        contest = Contest(people, c, clip, effort, 5)
        about = {
            "section": "logistic",
            "dataset": name,
            "records": people.records,
            "dimension": contest.convex.dimension,
            "chance": chance,
            "C": c,
            "clip": clip,
        }
        for line in contest.lines():
            yield about | line


def tuned(
    name: str, folder: Path, effort: Effort, quick: bool, _: list[int] | None
) -> Iterator[Row]:
    """MembershipPrivate as a user calls it, with tuning."""
    people = population(name, folder, 400 if quick else None)
    chance = float(np.unique(people.target, return_counts=True)[1].max() / people.records)
    for eta in ETAS:
        for record in RECORDS:
            base = LogisticRegression(max_iter=ITERATIONS)
            asked = {"eta": eta, "record": record, "n_jobs": 1, "insecure_seed": 5}
            model = MembershipPrivate(
                base,
                game="subset",
                pairs=effort.pairs if record == "average" else effort.convex,
                **asked,
            )
            began = time.perf_counter()
            model.fit(people.features, people.target)
            seconds = time.perf_counter() - began
            option = model.configuration_
            contest = Contest(people, option.value or 1.0, option.clip, effort, 5)
            method = model.calibration_.method
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
                "method": "ours-tuned",
                "record": record,
                "eta": eta,
                "seconds": seconds,
                "certified": model.certificate_.value,
                "by": method,
            } | contest.with_noise(law, statistic, Remembered(statistic))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--section", nargs="+", default=["sums", "logistic", "tuned"])
    parser.add_argument("--dataset", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--setting", nargs="+", type=int, help="numbers in SETTINGS, from 0")
    parser.add_argument("--quick", action="store_true", help="400 records, two settings")
    parser.add_argument("--convex", type=int, default=150, help="subsets of the convex form")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, nargs="+", help="print tables of JSON files")
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data files")
    given = parser.parse_args()
    if given.markdown:
        rows = [row for file in given.markdown for row in json.loads(file.read_text("utf-8"))]
        print("\n\n".join(table(rows, what) for what in ("accuracy", "noise", "error")))
        return
    warnings.simplefilter("ignore")
    print("diffprivlib:", rivals.diffprivlib_problem() or "works", flush=True)
    effort = Effort(150, 64, 150, 4, 2) if given.quick else Effort(300, given.convex, 300, 10, 3)
    parts: list[tuple[str, Callable[[], Iterator[Row]]]] = []
    if "sums" in given.section:
        parts.append(("sums", lambda: sums(given.data, effort.subsets, given.dataset)))
    for section, run in (("logistic", logistic), ("tuned", tuned)):
        for name in given.dataset if section in given.section else ():
            asked = (name, given.data, effort, given.quick, given.setting)
            parts.append((name, lambda run=run, asked=asked: run(*asked)))
    found: list[Row] = []
    for name, part in parts:
        try:
            for row in part():
                print(shown(row), flush=True)
                found.append(row)
                if given.json is not None:
                    given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
