"""Attacks on a model that exists: its members against fresh records (the model game).

Two kinds of attack.  Some read one answer of the model and no other record: loss, confidence,
entropy, modified entropy, and whether the label is right.  Others learn first: from the truth about
a random half of the records, or from reference models trained on that half.  Such an attack is
measured on the other half only, which its rule has never seen, so the intervals of
proofs/audit-intervals.md hold as they stand (claims 1 to 4 want the rule fixed before the records
are drawn; proofs/given-models.md claim 1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator

from memberbound.attacks.attacks import OFFLINE_A, Duel, clip_of, lira, rmia, statistic
from memberbound.attacks.scores import (
    ScoreAudit,
    Scores,
    audit_pair,
    interval_fields,
    without_ends,
)
from memberbound.attacks.shadows import Progress, ShadowRun, train_shadows
from memberbound.attacks.signals import BoolArray, Signals, gradient_norms, signals_from
from memberbound.attacks.splits import content_generator
from memberbound.errors import InputError, fraction, whole_number
from memberbound.learners.augmented import AugmentedQueries, Shape
from memberbound.learners.capabilities import available_if
from memberbound.learners.examples import Examples, Labels, Learner, Task
from memberbound.learners.trained import Answers, TrainedModel
from memberbound.numerics.rounding import FloatArray, shared_confidence
from memberbound.numerics.threads import one_thread
from memberbound.quantities import INTERVAL, AuditBound, Sides, json_number

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "ATTACKS_ON_MODELS",
    "AccessLevel",
    "AttackOnModel",
    "Evidence",
    "ModelAudit",
    "References",
    "RowsOf",
    "attack_scores",
    "audit_model",
    "audit_score_table",
    "train_references",
]

#: What an attack has to see of the model: a label, its probabilities (or a regression's number), or
#: the model itself.
AccessLevel = Literal["labels", "values", "probabilities", "parameters"]
_ORDER: dict[str, int] = {"labels": 0, "values": 1, "probabilities": 1, "parameters": 2}
#: Fewer records of either kind are refused.
FEWEST = 20
#: The attack whose scores are given.
SCORES = "scores"
#: Rearrangements behind a p-value.
SHUFFLES = 1999
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


# ── The attacks.  Every score is oriented: higher means "member" ──────────────────────────────────


@dataclass(frozen=True, eq=False)
class _Case:
    """What an attack may look at."""

    evidence: Evidence
    signals: Signals
    known: BoolArray
    references: References | None
    _kept: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def chances(self) -> FloatArray | None:
        """Probabilities of all classes, (N, K); None where the model does not give them."""
        answers = self.evidence.answers
        if answers.probabilities is not None:
            total = answers.probabilities.sum(axis=1, keepdims=True)
            return np.asarray(answers.probabilities / np.where(total > 0, total, 1.0))
        if answers.logits is None:
            return None
        moved = np.exp(answers.logits - answers.logits.max(axis=1, keepdims=True))
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))

    @property
    def apart(self) -> ShadowRun:
        """Reference models that no evaluated record is in."""
        assert self.references is not None
        assert self.references.run is not None
        return self.references.run

    def pooled(self) -> Duel:
        """The model against reference models with and without each record."""
        assert self.references is not None
        run = self.references.pool
        assert run is not None
        shadow = _comparable(run.signals, self.signals)
        return Duel(self.signals, shadow, run.membership, run.examples, own=False)

    def outside(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return value, mean, own and shrunk spread of the statistic without the record.

        What is pooled comes from the known records alone: the rule must not look at the others.
        """
        if not self._kept:
            run, known = self.apart, self.known
            shadow = _comparable(run.signals, self.signals)
            duel = Duel(self.signals, shadow, run.membership, run.examples, own=False)
            if self.signals.regression:
                floor = 1e-6 * float(shadow.loss[:, known].mean()) + 1e-300
                value, others = (-np.log(s.loss + floor) for s in (self.signals, shadow))
            else:
                clip = clip_of(_columns(shadow, known))
                value, others = statistic(self.signals, clip), statistic(shadow, clip)
            _, outs = duel.moments(others)
            self._kept.update(
                value=value[0],
                mean=outs.mean[0],
                own=np.sqrt(outs.variance("record", among=known))[0],
                shrunk=np.sqrt(outs.variance("shrunk", among=known))[0],
            )
        return self._kept["value"], self._kept["mean"], self._kept["own"], self._kept["shrunk"]


def _comparable(shadow: Signals, target: Signals) -> Signals:
    """Return the references' signals in the kind of the target's."""
    if shadow.kind == target.kind:
        return shadow
    if target.kind == "labels":
        return Signals(np.where(shadow.correct, 1.0, -1.0), shadow.correct, "labels")
    if {shadow.kind, target.kind} == {"probabilities", "decision values"}:
        # Both are log-odds of the true class; a network's logits are those of its probabilities.
        return Signals(shadow.logit, shadow.correct, target.kind)
    raise InputError(
        f"learner must answer with {target.kind} as the given model does, got {shadow.kind}. Name "
        "a learner of the model's own kind."
    )


def _columns(signals: Signals, kept: BoolArray) -> Signals:
    return Signals(signals.logit[:, kept], signals.correct[:, kept], signals.kind)


def _loss(case: _Case) -> FloatArray:
    return np.asarray(-case.signals.loss[0])


def _confidence(case: _Case) -> FloatArray:
    assert case.chances is not None
    return np.asarray(case.chances.max(axis=1))


def _entropy(case: _Case) -> FloatArray:
    assert case.chances is not None
    return np.asarray((case.chances * np.log(np.maximum(case.chances, 1e-300))).sum(axis=1))


def _modified_entropy(case: _Case) -> FloatArray:
    # Song and Mittal 2021: low only if the model is sure *and* right.
    assert case.chances is not None
    p, rows = case.chances, np.arange(len(case.chances))
    truth = np.asarray(case.evidence.truth)
    own = p[rows, truth]
    against = p * np.log(np.maximum(1 - p, 1e-12))
    total = against.sum(axis=1) - against[rows, truth]
    return np.asarray((1 - own) * np.log(np.maximum(own, 1e-12)) + total)


def _right(case: _Case) -> FloatArray:
    return np.asarray(case.signals.correct[0], dtype=np.float64)


def _gradient(case: _Case) -> FloatArray:
    found = _gradients(case)
    assert found is not None
    return np.asarray(-found)


def _gradients(case: _Case) -> FloatArray | None:
    """Return ‖∇ℓ‖ of the given model where there is a closed form."""
    evidence = case.evidence
    model = None if evidence.model is None else evidence.model.model
    rows = None if evidence.model is None else evidence.model.matched(evidence.rows)
    classes = getattr(model, "classes_", None)
    if model is None or not isinstance(rows, np.ndarray) or rows.ndim != 2:
        return None
    target = evidence.truth if classes is None else np.asarray(classes)[evidence.truth]
    try:
        features = np.asarray(rows, dtype=np.float64)
        found = gradient_norms(model, Examples(features, target, evidence.task, ()))
    except (TypeError, ValueError, AttributeError):
        return None
    return found if found is not None and np.isfinite(found).all() else None


def _calibrated(case: _Case) -> FloatArray:
    value, mean, _, _ = case.outside()
    return np.asarray(value - mean)


def _lira(case: _Case) -> FloatArray:
    value, mean, own, _ = case.outside()
    return np.asarray((value - mean) / own)


def _lira_shrunk(case: _Case) -> FloatArray:
    value, mean, _, shrunk = case.outside()
    return np.asarray((value - mean) / shrunk)


def _rmia(case: _Case) -> FloatArray:
    """Return ln of P(x|θ)/P(x); the share of records below it, RMIA's score, has its order."""
    shadow, out = _comparable(case.apart.signals, case.signals), ~case.apart.membership

    def confidence(signals: Signals) -> FloatArray:
        if not signals.regression:
            return signals.confidence
        scale = np.maximum(signals.loss[:, case.known].mean(axis=1, keepdims=True), 1e-300)
        return np.asarray(np.exp(-signals.loss / (2 * scale)))

    known = confidence(shadow)
    mean = (known * out).sum(axis=0) / np.maximum(out.sum(axis=0), 1)
    prior = ((1 + OFFLINE_A) * mean + (1 - OFFLINE_A)) / 2
    return np.asarray(np.log(np.maximum(confidence(case.signals)[0], 1e-6) / prior))


def _combined(case: _Case) -> FloatArray:
    """Return the log-odds of membership from a classifier that was told about the known half."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = _features(case)
    told = case.evidence.member[case.known]
    weight = balancing_weights(told)
    straight = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    straight.fit(table[case.known], told, logisticregression__sample_weight=weight)
    score = straight.decision_function(table)
    bent = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, learning_rate=0.1, min_samples_leaf=30, random_state=0
    )
    # Threads that wait for each other on a busy machine cost more than they save.
    with one_thread():
        bent.fit(table[case.known], told, sample_weight=weight)
        score = score + bent.decision_function(table)
    return np.asarray(score, dtype=np.float64)


def balancing_weights(member: BoolArray) -> FloatArray | None:
    """Return weights with which members and others weigh the same; None where they do already.

    With weights that are all one a boosted classifier is the same, but scikit-learn looks for the
    quantiles of every column one after the other.
    """
    share = min(max(float(member.mean()), 1e-9), 1 - 1e-9)
    if share == 0.5:
        return None
    return np.where(member, 0.5 / share, 0.5 / (1 - share))


def _features(case: _Case) -> FloatArray:
    """Return (N, F) what the classifier sees of a record: answers, and how unusual they are."""
    logit = case.signals.logit[0]
    columns = [np.arcsinh(logit), np.log(case.signals.loss[0] + 1e-9)]
    if not case.signals.regression:  # "right" is relative to all residuals there
        columns.append(_right(case))
    chances = case.chances
    if chances is not None:
        top = np.sort(chances, axis=1)[:, ::-1][:, :3]
        columns += [_entropy(case), _modified_entropy(case), *np.log(top + 1e-9).T]
        if chances.shape[1] <= 30:
            columns += list(
                (np.asarray(case.evidence.truth)[:, None] == np.arange(chances.shape[1])).T
            )
    if case.signals.regression:
        columns.append(np.asarray(case.evidence.truth, dtype=np.float64))
    if case.references is not None and case.references.run is not None:
        value, mean, own, shrunk = case.outside()
        z = (value - mean) / shrunk
        columns += [
            np.arcsinh(z),
            np.arcsinh((value - mean) / own),
            mean,
            np.log(shrunk),
            _rmia(case),
        ]
        columns += [z * np.abs(np.tanh(z)), value - mean]
    return np.column_stack([np.asarray(c, dtype=np.float64) for c in columns])


@dataclass(frozen=True)
class AttackOnModel:
    """An attack on a given model: what it looks at, and what it has to be given."""

    name: str
    says: str
    access: AccessLevel
    score: Callable[[_Case], FloatArray]
    #: Needs probabilities; reference models; the truth about half of the records.
    table: bool = False
    references: bool = False
    learns: bool = False
    #: Compares models with and without the record: an estimate, no interval.
    pool: bool = False


_ALL = (
    AttackOnModel("loss", "the loss of the true target is low", "probabilities", _loss),
    AttackOnModel("confidence", "the model is sure", "probabilities", _confidence, table=True),
    AttackOnModel(
        "entropy", "its probabilities have low entropy", "probabilities", _entropy, table=True
    ),
    AttackOnModel(
        "modified-entropy", "it is sure and right", "probabilities", _modified_entropy, table=True
    ),
    AttackOnModel("label-only", "the label is right", "labels", _right),
    AttackOnModel("gradient", "the loss gradient is short", "parameters", _gradient),
    AttackOnModel(
        "calibrated-loss",
        "more certain of the truth than models without the record",
        "probabilities",
        _calibrated,
        references=True,
    ),
    AttackOnModel(
        "lira-offline",
        "the same in standard deviations of the record",
        "probabilities",
        _lira,
        references=True,
    ),
    AttackOnModel(
        "lira-shrunk",
        "the same with variances shrunk to the pooled one, for few models",
        "probabilities",
        _lira_shrunk,
        references=True,
    ),
    AttackOnModel(
        "rmia-offline",
        "the truth is likelier than on average over models",
        "probabilities",
        _rmia,
        references=True,
    ),
    AttackOnModel(
        "lira",
        "likelihood ratio of the logit, with the record against without",
        "probabilities",
        lambda case: lira(case.pooled(), variance="shrunk")[0],
        pool=True,
    ),
    AttackOnModel(
        "rmia",
        "likelier than other records, relative to models with and without it",
        "probabilities",
        lambda case: rmia(case.pooled())[0],
        pool=True,
    ),
    AttackOnModel(
        "combined",
        "a classifier that was told about half of the records",
        "probabilities",
        _combined,
        learns=True,
    ),
)
#: Every attack on a given model by name.
ATTACKS_ON_MODELS: dict[str, AttackOnModel] = {a.name: a for a in _ALL}


def access_of(name: str, task: Task) -> AccessLevel:
    """Return what an attack has to see of the model."""
    level = ATTACKS_ON_MODELS[name].access
    return "values" if task == "regression" and level == "probabilities" else level


#: Attacks for the list of records, the strongest first: it is fixed before looking.
_FOR_RECORDS = ("combined", "loss", "label-only")


def _obstacle(attack: AttackOnModel, case: _Case) -> str:
    """Return why an attack cannot run here, or an empty text."""
    labels, numbers = case.signals.kind == "labels", case.signals.regression
    if attack.access == "labels" and numbers:
        return "a regression has no labels"
    if labels and attack.access != "labels":
        return "the model gives labels only"
    if attack.table and (numbers or labels):
        return "there are no probabilities"
    refs = case.references
    if attack.references and (refs is None or refs.run is None):
        return "no learner is named, so there are no reference models"
    if attack.pool and (refs is None or refs.pool is None):
        return "no learner is named, so there are no reference models"
    if attack.name == "gradient" and _gradients(case) is None:
        return "there is no gradient in closed form"
    return ""


def attack_scores(
    evidence: Evidence,
    *,
    attacks: Iterable[str] | None = None,
    references: References | None = None,
    seed: int = 0,
) -> tuple[dict[str, tuple[FloatArray, BoolArray]], tuple[str, ...]]:
    """Return per attack the score of every record and the records it may be measured on.

    Edge cases: an unknown name is refused, and so is a named attack that cannot run here.
    """
    known = known_half(evidence, seed) if references is None else references.known
    case = _Case(evidence, evidence.signals, known, references)
    found: dict[str, tuple[FloatArray, BoolArray]] = {}
    chosen = None if attacks is None else tuple(dict.fromkeys(attacks))
    for name in chosen or ATTACKS_ON_MODELS:
        if name not in ATTACKS_ON_MODELS:
            raise InputError(
                f"attacks on a given model must be among {', '.join(ATTACKS_ON_MODELS)}, got "
                f"{name!r}."
            )
        attack = ATTACKS_ON_MODELS[name]
        reason = _obstacle(attack, case)
        if reason:
            if chosen is not None:
                raise InputError(f"attacks must be able to run here, got {name!r}: {reason}.")
            continue
        learns = attack.learns or attack.references
        score = attack.score(case)
        if np.isnan(score).any():
            raise InputError(f"scores of {name} must be numbers for every record, got NaN.")
        found[name] = score, ~known if learns else np.ones(len(known), dtype=np.bool_)
    notes: tuple[str, ...] = ()
    if references is not None:
        notes = tuple(dict.fromkeys(w for run in references.runs for w in run.warnings))
    return found, notes


# ── The audit ─────────────────────────────────────────────────────────────────────────────────────

_ASSUMPTIONS = (
    "The numbers are about this model and its own members; nothing is said about other models of "
    "the same learner.",
    "The members are the model's whole training set, or records drawn from it uniformly.",
    "The non-members are independent draws from the source of the training records and had no part "
    "in the model (not in tuning or early stopping either).",
    "Each interval of an attack holds with the stated confidence on its own; those of "
    "best_advantage and by_access hold for all attacks at once.",
    "Attacks that learn (combined) or use reference models are told who is a member in a random "
    "half of the records, and are measured on the other half.",
    "lira and rmia compare models with and without each record, trained on halves of all records; "
    "they are estimates without an interval, and their p-value is about no leak at all.",
)


@dataclass(frozen=True, eq=False)
class PointAudit:
    """What an attack reached that no interval of ours covers: estimates and a p-value.

    ``p_value`` is that of "the model is independent of who is a member", by shuffling membership.
    """

    found: ScoreAudit
    p_value: float

    def to_dict(self) -> dict[str, object]:
        """Return the contract's fields; without an interval its ends are missing."""
        fields = without_ends(self.found.to_dict())
        return fields | {"confidence": None, "no_leak_p_value": self.p_value}


def shuffled_p_value(score: FloatArray, member: BoolArray, rng: np.random.Generator) -> float:
    """Return the p-value of the members' rank sum among random rearrangements of membership.

    Guarantee: at most α with probability at most α if membership is exchangeable given the scores.
    Theorem: proofs/given-models.md claims 3 and 4.
    """
    from scipy.stats import rankdata

    ranks = np.rint(2 * rankdata(score)).astype(np.int64)  # ties have half ranks; sums stay exact
    size, seen = int(member.sum()), int(ranks[member].sum())
    reached = sum(
        int(ranks[rng.permutation(len(ranks))[:size]].sum()) >= seen for _ in range(SHUFFLES)
    )
    return (1 + reached) / (1 + SHUFFLES)


@dataclass(frozen=True, eq=False)
class ModelAudit:
    """What attacks reached on one given model; see :func:`audit_model`.

    ``best`` is the attack with the highest proved advantage; ``best_advantage`` is its interval at
    an error shared among all attacks, so that choosing it is paid for; ``by_access`` is the same
    for an attacker who sees labels only, probabilities, or the model.  ``evidence`` is None where
    only scores are known; then nobody knows what the attack had to see.
    """

    SIDES: ClassVar[Sides] = {
        "best_advantage": INTERVAL,
        "by_access": {"*": {"advantage": INTERVAL}},
        "training_seconds": "estimate",
        "attack_seconds": "estimate",
    }

    attacks: dict[str, ScoreAudit]
    best: str
    best_advantage: AuditBound
    by_access: dict[str, AuditBound]
    scores: dict[str, tuple[FloatArray, BoolArray]] = field(repr=False)
    member: BoolArray = field(repr=False)
    confidence: float
    seconds: float
    evidence: Evidence | None = field(default=None, repr=False)
    references: References | None = None
    warnings: tuple[str, ...] = ()
    #: Attacks without an interval.
    estimates: dict[str, PointAudit] = field(default_factory=dict)
    #: What has to be true for the intervals to hold.
    assumptions: tuple[str, ...] = _ASSUMPTIONS

    @property
    def for_records(self) -> str:
        """The attack behind the lists of records and groups, fixed before looking."""
        return next((n for n in _FOR_RECORDS if n in self.attacks), next(iter(self.attacks)))

    def attack_fields(self) -> dict[str, dict[str, object]]:
        """Return the contract's fields per attack, and what each has to see of the model."""
        everything: dict[str, ScoreAudit | PointAudit] = {**self.attacks, **self.estimates}
        fields = {name: found.to_dict() for name, found in everything.items()}
        if self.evidence is None:
            return fields
        task = self.evidence.task
        return {name: found | {"access": access_of(name, task)} for name, found in fields.items()}

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready fields."""
        refs = self.references
        return {
            "attacks": self.attack_fields(),
            "best": self.best,
            "best_advantage": interval_fields(self.best_advantage),
            "by_access": {
                level: {"attack": bound.attack, "advantage": interval_fields(bound)}
                for level, bound in self.by_access.items()
            },
            "members": int(self.member.sum()),
            "non_members": int((~self.member).sum()),
            "reference_models": 0 if refs is None else refs.models,
            "training_seconds": 0.0 if refs is None else json_number(refs.seconds),
            "attack_seconds": json_number(self.seconds),
        }


def audit_model(
    evidence: Evidence,
    *,
    attacks: Iterable[str] | None = None,
    references: References | None = None,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> ModelAudit:
    """Measure attacks on one given model: its members against fresh records.

    Guarantee: each interval of an attack contains its quantity with probability at least
    ``confidence``, given the model; the intervals of ``best_advantage`` and ``by_access`` hold for
    all attacks together with that probability, whichever is looked at.
    Theorem: proofs/audit-intervals.md claims 1 to 4, proofs/given-models.md claim 1.
    Assumes: :attr:`ModelAudit.assumptions`.
    Edge cases: fewer than 20 records of either kind are refused.
    """
    start = time.perf_counter()
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    member, rates = evidence.member, tuple(fpr)
    for name, count in (("members", int(member.sum())), ("non-members", int((~member).sum()))):
        if count < FEWEST:
            raise InputError(f"{name} must be at least {FEWEST} records, got {count}.")
    scores, notes = attack_scores(evidence, attacks=attacks, references=references, seed=seed)
    proved = {n: s for n, s in scores.items() if not ATTACKS_ON_MODELS[n].pool}
    if not proved:
        raise InputError(
            "attacks must include one whose interval is proved, got "
            f"{', '.join(scores)} alone, which compare models with and without a record."
        )
    found, shared, too_few = _intervals(proved, member, sure, rates, seed)
    points = {}
    for name in scores.keys() - proved.keys():
        score, where = scores[name]
        pair = Scores.of(score[where], member[where])
        seen = audit_pair(pair, confidence=sure, fpr=rates, attack=name, seed=seed)
        rng = evidence.generator(seed, f"shuffles of {name}")
        points[name] = PointAudit(seen, shuffled_p_value(score, member, rng))
    levels: dict[str, AuditBound] = {}
    reach = {name: _ORDER[access_of(name, evidence.task)] for name in proved}
    for level in sorted({access_of(n, evidence.task) for n in proved}, key=_ORDER.__getitem__):
        within = [bound for n, bound in shared.items() if reach[n] <= _ORDER[level]]
        levels[level] = _highest(within, sure)
    paid = _highest(list(shared.values()), sure)
    return ModelAudit(
        found,
        paid.attack,
        paid,
        levels,
        scores,
        member,
        sure,
        time.perf_counter() - start,
        evidence,
        references,
        (*evidence.notes, *notes, *too_few),
        {name: points[name] for name in scores if name in points},
    )


def audit_score_table(
    score: FloatArray,
    member: BoolArray,
    *,
    confidence: float = 0.95,
    fpr: Iterable[float] = (0.1, 0.01, 0.001),
    seed: int = 0,
) -> ModelAudit:
    """Measure one attack on one given model from its scores alone, higher for a member.

    Guarantee, Theorem, Assumes, Edge cases: as :func:`memberbound.attacks.scores.audit_scores`.
    """
    start = time.perf_counter()
    sure = fraction("confidence", confidence, open_left=True, open_right=True)
    scores = {SCORES: (score, np.ones(len(score), dtype=np.bool_))}
    found, shared, too_few = _intervals(scores, member, sure, tuple(fpr), seed)
    return ModelAudit(
        found,
        SCORES,
        shared[SCORES],
        {},
        scores,
        np.asarray(member, dtype=np.bool_),
        sure,
        time.perf_counter() - start,
        warnings=too_few,
        assumptions=found[SCORES].assumptions,
    )


def _intervals(
    scores: Mapping[str, tuple[FloatArray, BoolArray]],
    member: BoolArray,
    confidence: float,
    rates: tuple[float, ...],
    seed: int,
) -> tuple[dict[str, ScoreAudit], dict[str, AuditBound], tuple[str, ...]]:
    """Return each attack's intervals, its advantage where all hold at once, and what is missing."""
    found, shared = {}, {}
    each = shared_confidence(confidence, len(scores))
    for name, (score, where) in scores.items():
        pair = Scores.of(score[where], member[where])
        found[name] = audit_pair(pair, confidence=confidence, fpr=rates, attack=name, seed=seed)
        together = audit_pair(pair, confidence=each, fpr=(), attack=name, seed=seed)
        shared[name] = together.advantage
    # One note a rate: attacks that learn are measured on fewer records, and would repeat it.
    too_few: dict[str, str] = {}
    for note in (note for audit in found.values() for note in audit.notes):
        too_few.setdefault(note.partition(":")[0], note)
    return found, shared, tuple(too_few.values())


def _highest(bounds: list[AuditBound], confidence: float) -> AuditBound:
    """Return the interval with the highest floor; they hold together with ``confidence``."""
    best = max(bounds, key=lambda b: (b.lower, b.estimate))
    return AuditBound(
        best.quantity,
        best.estimate,
        best.lower,
        best.upper,
        confidence,
        best.game,
        best.attack,
    )
