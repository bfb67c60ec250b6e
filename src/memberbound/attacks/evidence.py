"""What is known of a model that exists: its answers to members and others, and reference models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator

from memberbound.attacks.shadows import Progress, ShadowRun, train_shadows
from memberbound.attacks.signals import BoolArray, Signals, signals_from
from memberbound.attacks.splits import content_generator
from memberbound.errors import InputError, whole_number
from memberbound.learners.augmented import AugmentedQueries, Shape
from memberbound.learners.capabilities import available_if
from memberbound.learners.examples import Examples, Labels, Learner, Task
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.numerics.rounding import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "Evidence",
    "References",
    "RowsOf",
    "framed",
    "known_half",
    "train_references",
]

#: Answers that are asked for twice, to see whether the model is deterministic.
_TWICE = 200


# ── The evidence: what the model answers about members and non-members ────────────────────────────


@dataclass(frozen=True, eq=False)
class Evidence:
    """Answers of one model to its members and to other records, with the truth.

    Attributes:
        answers: what the model says, a row per record.
        truth: number of the true class in ``classes``, or the target of a regression.
        member: who is a member.
        classes: the classes; empty for a regression.
        rows: the records as the model gets them; None where only answers are known.
        model: the model; None where only answers are known.
        notes: what a reader has to know.
    """

    answers: Answers
    truth: Labels
    member: BoolArray
    classes: tuple[str, ...] = ()
    rows: DataFrame | Labels | None = None
    model: TrainedModel | None = None
    notes: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        """What the model predicts."""
        return "regression" if self.answers.access == "values" else "classification"

    @property
    def signals(self) -> Signals:
        """The usual signals, (1, N)."""
        return signals_from(self.answers, self.truth)

    def generator(self, seed: int, purpose: str) -> np.random.Generator:
        """Return coins that depend on the seed, the purpose and all that is known of the records.

        Rows go in where they are known: labels alone may be the same for many tables.
        """
        import pandas as pd

        content = [np.asarray(self.answers.table), np.asarray(self.truth), self.member]
        if self.rows is not None:
            hashes = pd.util.hash_pandas_object(framed(self.rows), index=False)
            content.append(np.asarray(hashes))
        return content_generator(seed, *content, purpose=purpose)

    def __getitem__(self, kept: BoolArray) -> Evidence:
        """Return some of the records."""
        rows = None if self.rows is None else self.rows[kept]
        return Evidence(
            self.answers[kept],
            self.truth[kept],
            self.member[kept],
            self.classes,
            rows,
            self.model,
            self.notes,
        )

    @classmethod
    def of(
        cls,
        model: TrainedModel,
        rows: DataFrame | Labels,
        target: Sequence[object] | Labels,
        member: BoolArray,
        *,
        name: str = "the target",
    ) -> Evidence:
        """Ask a model about rows; the same rows once more, to see whether it is deterministic.

        Edge cases: NaN, the same answer to every record and a class that the model does not know
        are refused in a sentence.
        """
        found = cls.from_answers(model.answers(rows), target, member, name=name)
        notes = [*model.notes, *found.notes]
        first = np.arange(len(member)) < _TWICE
        again = model.answers(rows[first]).table
        before = found.answers[first].table
        same = (
            np.array_equal(again, before)
            if before.dtype.kind not in "fc"
            else np.allclose(np.asarray(again, dtype=np.float64), before, rtol=1e-6, atol=1e-9)
        )
        if not same:
            notes.append(
                "The model is not deterministic: asked twice, it answered differently. The numbers "
                "are about one answer per record; an attacker who asks often may reach more"
            )
        return cls(
            found.answers, found.truth, found.member, found.classes, rows, model, tuple(notes)
        )

    @classmethod
    def from_answers(
        cls,
        answers: Answers,
        target: Sequence[object] | Labels,
        member: BoolArray,
        *,
        name: str = "the target",
    ) -> Evidence:
        """Check answers and find the true class of each row; see :meth:`of`."""
        table = answers.table
        if table.dtype.kind == "f" and not np.isfinite(np.asarray(table, dtype=np.float64)).all():
            bad = ~np.isfinite(np.asarray(table, dtype=np.float64).reshape(len(table), -1)).all(1)
            raise InputError(
                "the model's answers must be finite numbers, got NaN or infinity for "
                f"{int(bad.sum())} of {len(table)} records (the first in row "
                f"{int(np.flatnonzero(bad)[0]) + 1})."
            )
        if answers.probabilities is not None and (answers.probabilities < 0).any():
            raise InputError("probabilities must be at least 0, got a negative one.")
        if len(table) and bool((table == table[:1]).all()):
            raise InputError(
                "the model must tell records apart, got the same answer to all "
                f"{len(table)} records. Nothing about membership can be learnt from it."
            )
        if answers.access == "values":
            return cls(answers, _numbers(target, name), member)
        return cls._of_classes(answers, np.asarray(target), member, name)

    @classmethod
    def _of_classes(
        cls, answers: Answers, target: Labels, member: BoolArray, name: str
    ) -> Evidence:
        given = [_key(v) for v in target.tolist()]
        if answers.classes is None:
            said = [_key(v) for v in np.asarray(answers.labels).tolist()]
            known = sorted(set(given) | set(said))
        else:
            known = [_key(v) for v in np.asarray(answers.classes).tolist()]
            said = [
                _key(v) for v in (answers.labels if answers.labels is not None else []).__iter__()
            ]
        place = {key: index for index, key in enumerate(known)}
        notes: tuple[str, ...] = ()
        names = sorted(set(given))
        numbered = known == [str(index) for index in range(len(known))]
        if numbered and len(names) == len(known) and not set(names) & set(known):
            # LightGBM, XGBoost and torch keep the numbers of classes, not their names.
            place, known = {key: index for index, key in enumerate(names)}, names
            shown = ", ".join(f"{index} = {key}" for index, key in enumerate(names[:5]))
            notes = (
                f"The model numbers its classes; they were taken for {name} in alphabetical order "
                f"({shown}{' …' if len(names) > 5 else ''})",
            )
        strange = [v for v in given if v not in place]
        if strange:
            shown = ", ".join(known[:5]) + (" …" if len(known) > 5 else "")
            raise InputError(
                f"{name} must hold classes that the model knows ({shown}), got {strange[0]!r} in "
                f"{strange.count(strange[0])} rows."
            )
        truth = np.array([place[v] for v in given], dtype=np.int64)
        if answers.labels is not None:
            codes = np.array([place.get(v, -1) for v in said], dtype=np.int64)
            answers = Answers(labels=codes, classes=np.arange(len(known)))
        return cls(answers, truth, member, tuple(known), notes=notes)


def _key(value: object) -> str:
    """Return a class as text: 1, 1.0 and numpy's 1 are one class."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value.item() if isinstance(value, np.generic) else value)


def _numbers(target: Sequence[object] | Labels, name: str) -> FloatArray:
    try:
        values = np.asarray(target, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if not np.isfinite(values).all():
        raise InputError(f"{name} must hold finite numbers, as the model predicts, got others.")
    return values


# ── Reference models: trained on what the attacker knows, asked about everybody ───────────────────


class RowsOf(BaseEstimator):  # type: ignore[misc]
    """A given model's own kind, trained anew on raw rows that are named by their numbers.

    Shadow training hands out arrays of numbers; a pipeline wants its table.  So the table is a
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

    def fit(self, X: FloatArray, y: Labels) -> RowsOf:
        """Train a copy of the model on the rows of these numbers."""
        from sklearn.base import clone

        target = y if self.classes is None else np.asarray(self.classes)[np.asarray(y)]
        self.model_ = clone(self.estimator).fit(self._taken(X), target)
        if self.classes is not None:
            names = np.asarray(self.classes).tolist()
            found = getattr(self.model_, "classes_", np.unique(target))
            self.classes_ = np.array([names.index(c) for c in np.asarray(found).tolist()])
        return self

    def predict(self, X: FloatArray) -> Labels:
        """Return the numbers of the classes, or values."""
        said = np.asarray(self.model_.predict(self._taken(X)))
        if self.classes is None:
            return said
        names = np.asarray(self.classes).tolist()
        return np.array([names.index(c) for c in said.tolist()])

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the copy's probabilities."""
        return np.asarray(self.model_.predict_proba(self._taken(X)), dtype=np.float64)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return the copy's decision values."""
        return np.asarray(self.model_.decision_function(self._taken(X)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class References:
    """Models trained on three quarters of the known records each, and what they say of everybody.

    ``known`` are the records whose membership the attacker was told.
    """

    known: BoolArray
    run: ShadowRun | None = None
    #: Models on random halves of *all* records, some with the record and some without.
    pool: ShadowRun | None = None

    @property
    def runs(self) -> tuple[ShadowRun, ...]:
        """What was trained."""
        return tuple(run for run in (self.run, self.pool) if run is not None)

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
    backend: str = "processes",
    cache: str | None = None,
    images: Shape | None = None,
    progress: Progress | None = None,
    apart: bool = True,
    pool: bool = False,
) -> References:
    """Train reference models on records of both kinds.

    ``apart`` trains ``models`` of them on parts of a random half of the records, for attacks whose
    intervals hold on the other half; ``pool`` trains as many on random halves of all records, for
    attacks that compare models with and without a record.

    ``learner`` is ``"same"`` (the given model's own kind) or an unfitted estimator, both trained on
    the rows as the model gets them; or a short name or ``package.module:factory``, trained on
    encoded columns.
    """
    from memberbound.learners import examples_of, learner_from_name

    if evidence.rows is None:
        raise InputError("learner must be left out for a table of predictions: there are no rows.")
    known = known_half(evidence, seed)
    # Halves of all records are coins too: the place of a record must not decide how often it is in.
    start = int(evidence.generator(seed, "reference models").integers(2**63))
    task = evidence.task
    codes = np.asarray(evidence.truth)
    if isinstance(learner, str) and learner == "same":
        features, estimator = _raw(evidence, _unfitted_copy(evidence), images)
    elif not isinstance(learner, str) and images is None:
        features, estimator = _raw(evidence, learner)
    else:
        features = (
            _encoded(evidence, known, examples_of) if images is None else _pixels(evidence, known)
        )
        estimator = learner_from_name(learner, task) if isinstance(learner, str) else learner
        # Asked as the given model is: about a picture and its moved copies.
        estimator = estimator if images is None else AugmentedQueries(estimator, images)
    names = tuple(f"x{i}" for i in range(features.shape[1]))
    examples = Examples(features, codes, task, names, evidence.classes, "the records")
    whole_number("shadows", models, at_least=2)

    def train(among: BoolArray | None) -> ShadowRun:
        return train_shadows(
            examples,
            estimator,
            models=models,
            seed=start,
            n_jobs=n_jobs,
            backend=backend,
            cache=cache,
            among=among,
            progress=progress,
        )

    first = train(known) if apart else None
    return References(known, first, train(None) if pool else None)


def _unfitted_copy(evidence: Evidence) -> Learner:
    from sklearn.base import clone

    model = None if evidence.model is None else evidence.model.model
    try:
        fresh: Learner = clone(model)
    except TypeError:
        raise InputError(
            "learner must be named: 'same' trains the given model's own kind anew, which only a "
            f"scikit-learn estimator allows, got {type(model).__name__}."
        ) from None
    return fresh


def _raw(
    evidence: Evidence, fresh: Learner, images: Shape | None = None
) -> tuple[FloatArray, Learner]:
    """Return row numbers as features, and a learner that looks the rows up."""
    assert evidence.model is not None
    classes = None
    if evidence.classes:
        own = getattr(evidence.model.model, "classes_", None)
        classes = np.arange(len(evidence.classes)) if own is None else np.asarray(own)
    rows = evidence.model.matched(evidence.rows)
    if images is not None:
        fresh, rows = AugmentedQueries(fresh, images), np.asarray(rows, dtype=np.float64)
    numbers = np.arange(len(evidence.member), dtype=np.float64)[:, None]
    return numbers, RowsOf(fresh, rows, classes)


def _pixels(evidence: Evidence, known: BoolArray) -> FloatArray:
    """Return pictures as rows of pixels; one scale brings those of the known records to 1."""
    rows = np.asarray(evidence.rows, dtype=np.float64)
    flat = rows.reshape(len(rows), -1)
    return np.asarray(flat / (np.abs(flat[known]).max() or 1.0))


def _encoded(evidence: Evidence, known: BoolArray, encode: Callable[..., Examples]) -> FloatArray:
    """Return the columns as learners take them; the encoding is fitted on the known records."""
    from memberbound.learners import encoded_rows
    from memberbound.tables.in_memory import read_population

    frame = framed(evidence.rows)
    label = _free_name(frame, "target")
    codes = np.asarray(evidence.truth)
    named = frame.assign(**{label: [str(c) for c in codes] if evidence.classes else codes})
    found = encode(
        read_population(named[known].reset_index(drop=True), target=label), evidence.task
    )
    assert found.encoder is not None
    rows, _ = encoded_rows(found.encoder, found.columns, frame)
    return rows


def framed(rows: DataFrame | Labels | None) -> DataFrame:
    """Return records as a table with named columns; pictures are flattened."""
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        return rows.reset_index(drop=True)
    values = np.asarray(rows)
    values = values.reshape(len(values), -1)
    return pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])


def _free_name(frame: DataFrame, wish: str) -> str:
    while wish in frame.columns:
        wish += "_"
    return wish
