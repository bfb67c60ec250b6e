"""Reference models of a given model: trained on records that the attacker knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import BaseEstimator

from memberbound.attacks.evidence import Evidence, framed
from memberbound.attacks.shadows import KnownRows, Progress, ShadowRun, train_shadows
from memberbound.attacks.signals import BoolArray
from memberbound.errors import InputError
from memberbound.learners.examples import Examples, Labels, Learner
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "References",
    "RowsOf",
    "can_be_rebuilt",
    "known_for_references",
    "known_half",
    "train_references",
]


#: Reference models that are trained where the time allows it.
MODELS = 32
#: Parameters by which estimators are told how many threads to use.
_THREADS = ("n_jobs", "nthread", "num_threads", "thread_count")
#: Fewer members or non-members than this leave fewer than 20 of either to measure on.
FEWEST_RECORDS = 80


@dataclass(frozen=True, eq=False)
class References:
    """Reference models, and what they say of every record.

    Attributes:
        known: the records whose membership the attacker knows.
        run: models trained on all known members, and on known non-members in the place of the
            members that are not known.
    """

    known: BoolArray
    run: ShadowRun

    @property
    def models(self) -> int:
        """Number of models."""
        return self.run.signals.models

    @property
    def seconds(self) -> float:
        """Seconds of the fits, predictions included."""
        return float(self.run.timings.sum())


def known_half(evidence: Evidence, seed: int) -> BoolArray:
    """Return a uniform half of the members and of the others, whatever the order of the rows."""
    sizes = [int(side.sum()) // 2 for side in (evidence.member, ~evidence.member)]
    return _drawn_part(evidence, seed, "known half", *sizes)


def known_for_references(evidence: Evidence, seed: int) -> BoolArray:
    """Return the records that reference models may be trained on.

    A half of the non-members, and all members but a quarter (of the smaller side); of few members
    250 are left to measure, or a half.
    """
    members, others = int(evidence.member.sum()), int((~evidence.member).sum())
    measured = min(members // 2, max(250, min(members, others) // 4))
    return _drawn_part(evidence, seed, "known part", members - measured, others // 2)


def _drawn_part(
    evidence: Evidence, seed: int, purpose: str, members: int, others: int
) -> BoolArray:
    member, rng = evidence.member, evidence.generator(seed, purpose)
    known = np.zeros(len(member), dtype=np.bool_)
    for side, size in ((member, members), (~member, others)):
        known[rng.permutation(np.flatnonzero(side))[:size]] = True
    return known


def train_references(
    evidence: Evidence,
    learner: str | Learner,
    *,
    models: int = MODELS,
    seconds: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> References:
    """Train models as the given one may have been trained, without the records that are measured.

    Each is trained on all known members; known non-members, drawn anew for each, stand in for the
    members that are not known.  So the models differ from each other as the given one would from
    them if a measured record were no member, and known non-members are in some of them and not in
    others, from which attacks learn what a record gains by being in.

    ``learner`` is ``"same"`` (the given model's own kind) or an unfitted estimator, both trained on
    the rows as the model gets them; or a short name or ``package.module:factory``, trained on
    encoded columns.

    Theorem: proofs/given-models.md claims 1 and 4.
    Edge cases: fewer than 80 members or non-members are refused, and so is a time in which fewer
    than four models are trained.
    """
    from memberbound.learners import learner_from_name

    if evidence.rows is None:
        raise InputError("learner must be left out for a table of predictions: there are no rows.")
    member = evidence.member
    few = min(int(member.sum()), int((~member).sum()))
    if few < FEWEST_RECORDS:
        raise InputError(
            f"members and non-members must be at least {FEWEST_RECORDS} each for reference models, "
            f"got {few}."
        )
    known = known_for_references(evidence, seed)
    # The training sets are drawn from the content too: the order of the rows must not matter.
    start = int(evidence.generator(seed, "reference models").integers(2**63))
    if learner == "same":
        features, estimator = _by_row_number(evidence, _unfitted_copy(evidence))
    elif not isinstance(learner, str):
        features, estimator = _by_row_number(evidence, learner)
    else:
        features = _encoded(evidence, known)
        estimator = learner_from_name(learner, evidence.task)
    names = tuple(f"x{i}" for i in range(features.shape[1]))
    truth = np.asarray(evidence.truth)
    examples = Examples(features, truth, evidence.task, names, evidence.classes, "the records")
    # At most a half of the known non-members: attacks learn from those in and those out.
    drawn = min(int((member & ~known).sum()), int((known & ~member).sum()) // 2)
    rows = KnownRows(known & member, known & ~member, drawn)
    run = train_shadows(
        examples,
        estimator,
        models=models,
        seed=start,
        n_jobs=n_jobs,
        known=rows,
        seconds=seconds,
        progress=progress,
    )
    return References(known, run)


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


def can_be_rebuilt(evidence: Evidence) -> bool:
    """Tell whether the given model can be trained again: it is an estimator that clones."""
    try:
        _unfitted_copy(evidence)
    except InputError:
        return False
    return evidence.rows is not None


def _unfitted_copy(evidence: Evidence) -> Learner:
    from sklearn.base import clone

    model = None if evidence.model is None else evidence.model.model
    try:
        copy: Any = clone(model)
    except (TypeError, RuntimeError):
        raise InputError(
            "learner must be named: 'same' trains the given model's own kind anew, which only a "
            f"scikit-learn estimator allows, got {type(model).__name__}."
        ) from None
    # Many are trained side by side: threads of their own would only wait for each other.
    settings = [n for n in copy.get_params(deep=True) if n.split("__")[-1] in _THREADS]
    return cast(Learner, copy.set_params(**dict.fromkeys(settings, 1)) if settings else copy)


def _by_row_number(evidence: Evidence, learner: Learner) -> tuple[FloatArray, Learner]:
    """Return row numbers as features, and a learner that looks the rows up."""
    assert evidence.model is not None
    classes = None
    if evidence.classes:
        own = getattr(evidence.model.model, "classes_", None)
        classes = np.arange(len(evidence.classes)) if own is None else np.asarray(own)
    rows = evidence.model.matched(evidence.rows)
    numbers = np.arange(len(evidence.member), dtype=np.float64)[:, None]
    return numbers, RowsOf(learner, rows, classes)


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
