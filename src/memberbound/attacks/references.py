"""Reference models of a given model: trained on records that the attacker knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from memberbound.attacks.evidence import Evidence, framed
from memberbound.attacks.shadows import Progress, ShadowRun, train_shadows
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError, whole_number
from memberbound.learners.augmented import AugmentedQueries, Shape
from memberbound.learners.examples import Examples, Labels, Learner
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["References", "RowsOf", "known_half", "train_references"]


@dataclass(frozen=True, eq=False)
class References:
    """Reference models, and what they say of every record.

    Attributes:
        known: the records whose membership the attacker knows.
        without: models trained on three quarters of the known records each.
        with_and_without: models trained on random halves of *all* records.
    """

    known: BoolArray
    without: ShadowRun | None = None
    with_and_without: ShadowRun | None = None

    @property
    def runs(self) -> tuple[ShadowRun, ...]:
        """What was trained."""
        return tuple(run for run in (self.without, self.with_and_without) if run is not None)

    @property
    def models(self) -> int:
        """Number of models."""
        return sum(run.signals.models for run in self.runs)

    @property
    def seconds(self) -> float:
        """Seconds of the fits, predictions included."""
        return float(sum(run.timings.sum() for run in self.runs))


def known_half(evidence: Evidence, seed: int) -> BoolArray:
    """Return a uniform half of the members and of the others, whatever the order of the rows."""
    member, rng = evidence.member, evidence.generator(seed, "known half")
    known = np.zeros(len(member), dtype=np.bool_)
    for side in (member, ~member):
        places = rng.permutation(np.flatnonzero(side))
        known[places[: len(places) // 2]] = True
    return known


def train_references(
    evidence: Evidence,
    learner: str | Learner,
    *,
    models: int = 32,
    seed: int = 0,
    n_jobs: int = -1,
    cache: str | None = None,
    images: Shape | None = None,
    progress: Progress | None = None,
    without: bool = True,
    with_and_without: bool = False,
) -> References:
    """Train reference models on records of both kinds.

    ``without`` trains ``models`` of them on parts of a random half of the records, for attacks
    whose intervals hold on the other half; ``with_and_without`` trains as many on random halves of
    all records, for attacks that compare models with and without a record.

    ``learner`` is ``"same"`` (the given model's own kind) or an unfitted estimator, both trained on
    the rows as the model gets them; or a short name or ``package.module:factory``, trained on
    encoded columns.
    """
    from memberbound.learners import learner_from_name

    if evidence.rows is None:
        raise InputError("learner must be left out for a table of predictions: there are no rows.")
    whole_number("shadows", models, at_least=2)
    known = known_half(evidence, seed)
    # The training sets are drawn from the content too: the order of the rows must not matter.
    start = int(evidence.generator(seed, "reference models").integers(2**63))
    if learner == "same":
        features, estimator = _by_row_number(evidence, _unfitted_copy(evidence), images)
    elif not isinstance(learner, str) and images is None:
        features, estimator = _by_row_number(evidence, learner)
    else:
        features = _encoded(evidence, known) if images is None else _pixels(evidence, known)
        estimator = (
            learner_from_name(learner, evidence.task) if isinstance(learner, str) else learner
        )
        # Queried as the given model is: with an image and its shifted copies.
        estimator = estimator if images is None else AugmentedQueries(estimator, images)
    names = tuple(f"x{i}" for i in range(features.shape[1]))
    truth = np.asarray(evidence.truth)
    examples = Examples(features, truth, evidence.task, names, evidence.classes, "the records")

    def train(among: BoolArray | None) -> ShadowRun:
        return train_shadows(
            examples,
            estimator,
            models=models,
            seed=start,
            n_jobs=n_jobs,
            cache=cache,
            among=among,
            progress=progress,
        )

    return References(
        known, train(known) if without else None, train(None) if with_and_without else None
    )


class RowsOf(BaseEstimator):  # type: ignore[misc]
    """An estimator trained on rows of a table that are named by their numbers.

    Shadow training passes arrays of numbers, and a pipeline needs its table.  So the table is a
    parameter, and the array holds row numbers.
    """

    def __init__(self, estimator: object, rows: object, classes: object = None) -> None:
        self.estimator = estimator
        self.rows = rows
        self.classes = classes

    def _taken(self, numbers: FloatArray) -> DataFrame | Labels:
        places = np.asarray(numbers[:, 0], dtype=np.intp)
        rows = self.rows
        return rows[places] if isinstance(rows, np.ndarray) else rows.iloc[places]  # type: ignore[attr-defined]

    def _codes(self, labels: Labels) -> Labels:
        names = np.asarray(self.classes).tolist()
        return np.array([names.index(c) for c in np.asarray(labels).tolist()])

    def fit(self, X: FloatArray, y: Labels) -> RowsOf:
        """Train a copy of the estimator on the rows of these numbers."""
        from sklearn.base import clone

        target = y if self.classes is None else np.asarray(self.classes)[np.asarray(y)]
        self.model_ = clone(self.estimator).fit(self._taken(X), target)
        if self.classes is not None:
            self.classes_ = self._codes(getattr(self.model_, "classes_", np.unique(target)))
        return self

    def predict(self, X: FloatArray) -> Labels:
        """Return the numbers of the classes, or values."""
        answers = np.asarray(self.model_.predict(self._taken(X)))
        return answers if self.classes is None else self._codes(answers)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the copy's probabilities."""
        return np.asarray(self.model_.predict_proba(self._taken(X)), dtype=np.float64)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return the copy's decision values."""
        return np.asarray(self.model_.decision_function(self._taken(X)), dtype=np.float64)


def _unfitted_copy(evidence: Evidence) -> Learner:
    from sklearn.base import clone

    model = None if evidence.model is None else evidence.model.model
    try:
        copy: Learner = clone(model)
    except TypeError:
        raise InputError(
            "learner must be named: 'same' trains the given model's own kind anew, which only a "
            f"scikit-learn estimator allows, got {type(model).__name__}."
        ) from None
    return copy


def _by_row_number(
    evidence: Evidence, learner: Learner, images: Shape | None = None
) -> tuple[FloatArray, Learner]:
    """Return row numbers as features, and a learner that looks the rows up."""
    assert evidence.model is not None
    classes = None
    if evidence.classes:
        own = getattr(evidence.model.model, "classes_", None)
        classes = np.arange(len(evidence.classes)) if own is None else np.asarray(own)
    rows = evidence.model.matched(evidence.rows)
    if images is not None:
        learner, rows = AugmentedQueries(learner, images), np.asarray(rows, dtype=np.float64)
    numbers = np.arange(len(evidence.member), dtype=np.float64)[:, None]
    return numbers, RowsOf(learner, rows, classes)


def _pixels(evidence: Evidence, known: BoolArray) -> FloatArray:
    """Return images as rows of pixels; one scale brings those of the known records to 1."""
    rows = np.asarray(evidence.rows, dtype=np.float64)
    flat = rows.reshape(len(rows), -1)
    return np.asarray(flat / (np.abs(flat[known]).max() or 1.0))


def _encoded(evidence: Evidence, known: BoolArray) -> FloatArray:
    """Return the columns as learners take them; the encoding is fitted on the known records."""
    from memberbound.learners import encoded_rows, examples_of
    from memberbound.tables.in_memory import read_population

    frame = framed(evidence.rows)
    label = "target"
    while label in frame.columns:
        label += "_"
    codes = np.asarray(evidence.truth)
    labelled = frame.assign(**{label: [str(c) for c in codes] if evidence.classes else codes})
    population = read_population(labelled[known].reset_index(drop=True), target=label)
    examples = examples_of(population, evidence.task)
    assert examples.encoder is not None
    rows, _ = encoded_rows(examples.encoder, examples.columns, frame)
    return rows
