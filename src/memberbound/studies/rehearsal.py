"""Rehearsals: releases of all rows, scored on rows that they were not made from.

Every score of a study is taken on the same splits, so that two of them differ by what was done and
not by who was asked.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import accuracy_score, r2_score

from memberbound.learners.examples import Examples, Labels
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.bounds import Bounds
from memberbound.release.all_rows.learner_forms import private_form
from memberbound.release.all_rows.models import fit_private
from memberbound.release.randomness import InsecureSource
from memberbound.tables.in_memory import Records

#: A rehearsal is made of four fifths of at most so many rows; where these are too few for it, of
#: nineteen twentieths.
_TRAINED = (4 / 5, 19 / 20)
_MOST_ROWS = 200_000
#: Fewest rows → how many trials, and how many in a quick study: a score on many rows varies less
#: from split to split.
_TRIALS = {50_000: (1, 1), 20_000: (4, 1), 10_000: (4, 2), 0: (8, 4)}

#: Rows by their numbers; answers about rows; how such answers are learnt from rows, with a seed.
Rows = NDArray[np.intp]
Predict = Callable[[Rows], Labels]
Train = Callable[[Rows, int], Predict]


@dataclass(frozen=True)
class Score:
    """Mean score of models on records outside their training sets, and that of one fixed answer."""

    name: Literal["accuracy", "R²"]
    estimate: float
    models: int
    chance: float


def score_beside_chance(examples: Examples, estimate: float, models: int) -> Score:
    """Return a score beside that of one fixed answer: the commonest class, or the mean."""
    if examples.task == "regression":
        return Score("R²", estimate, models, 0.0)
    chance = float(np.bincount(examples.target).max() / examples.rows)
    return Score("accuracy", estimate, models, chance)


def held_out_score(
    examples: Examples, train: Train, seed: int, *, quick: bool = False
) -> Score | None:
    """Return the mean score of models on rows outside their training rows; None if there is none.

    A split depends on the number of rows and the seed alone.  A training that fails is left out.
    """
    trials = next(times for rows, times in _TRIALS.items() if examples.rows >= rows)[quick]
    for share in _TRAINED:
        rng, scores = np.random.default_rng(seed), []
        for trial in range(trials):
            order = rng.permutation(examples.rows)[:_MOST_ROWS]
            inside, outside = np.split(order, [int(share * len(order))])
            score = _split_score(examples, train, inside, outside, seed + trial)
            if score is not None:
                scores.append(score)
        if scores:
            return score_beside_chance(examples, float(np.mean(scores)), len(scores))
    return None


def _split_score(
    examples: Examples, train: Train, inside: Rows, outside: Rows, seed: int
) -> float | None:
    metric = r2_score if examples.task == "regression" else accuracy_score
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = train(inside, seed)(outside)
            score = float(metric(examples.target[outside], answers))
    except Exception:  # a learner may raise anything
        return None
    return score if math.isfinite(score) else None


def training_of(learner: BaseEstimator, examples: Examples) -> Train:
    """Return how a learner is trained on some of the rows."""

    def train(rows: Rows, seed: int) -> Predict:
        model = clone(learner)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(examples.features[rows], examples.target[rows])
        return lambda others: model.predict(examples.features[others])

    return train


class PrivateRows(BaseEstimator):  # type: ignore[misc]
    """The private learner of a table's records, which it is given by their numbers.

    It is asked about ``questions``, one row per record, where ``table`` has more.
    Rows and noise come from seeds, so this protects nobody.
    """

    def __init__(
        self,
        table: Records,
        target: str,
        classes: tuple[str, ...] = (),
        *,
        questions: Records | None = None,
        learner: str = "logistic",
        eta: float = 0.05,
        bounds: Bounds | None = None,
        random_state: int = 0,
    ) -> None:
        self.table = table
        self.target = target
        self.classes = classes
        self.questions = questions
        self.learner = learner
        self.eta = eta
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: FloatArray, _y: Labels) -> PrivateRows:
        """Train on the rows with the numbers in ``X``; the table has their targets."""
        self.released_ = fit_private(
            self.table.taken(_places(X)),
            self.target,
            eta=self.eta,
            learner=str(private_form(self.learner)),
            bounds=self.bounds,
            source=InsecureSource(self.random_state),
        )
        if self.released_.class_names:
            self.classes_ = np.arange(len(self.classes))
            self._places = [self.classes.index(name) for name in self.released_.class_names]
        return self

    def trained(self, rows: Rows, seed: int) -> Predict:
        """Train on some of the rows with the noise of a seed, and answer for others."""
        same = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        model = PrivateRows(**same | {"random_state": seed})
        model.fit(rows[:, None].astype(np.float64), np.empty(0))
        return lambda others: model.predict(others[:, None].astype(np.float64))

    def _rows(self, X: FloatArray) -> Records:
        asked = self.table if self.questions is None else self.questions
        return asked.taken(_places(X))

    def predict(self, X: FloatArray) -> Labels:
        """Return codes of classes, or numbers."""
        if not self.released_.class_names:
            return self.released_.predict(self._rows(X))
        return np.asarray(self.classes_[self._scores(X).argmax(axis=1)])

    def _scores(self, X: FloatArray) -> FloatArray:
        encoded = self.released_.encoded(self._rows(X))[0]
        return self._of_all_classes(self.released_.ranking(encoded), -np.inf)

    def _of_all_classes(self, columns: FloatArray, otherwise: float) -> FloatArray:
        """Return columns of the released classes among those of all classes."""
        values = np.full((len(columns), len(self.classes_)), otherwise)
        values[:, self._places] = columns
        return values

    @available_if(lambda self: bool(self.classes) and private_form(self.learner) != "svm")
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return class probabilities, in the order of the codes."""
        return self._of_all_classes(self.released_.predict_proba(self._rows(X)), 0.0)

    @available_if(lambda self: private_form(self.learner) == "svm")
    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return scores of classes, of two classes the second one's."""
        scores = self._scores(X)
        return scores[:, 1] if scores.shape[1] == 2 else scores


def _places(X: FloatArray) -> Rows:
    return np.asarray(X, dtype=np.float64)[:, 0].astype(np.intp)
