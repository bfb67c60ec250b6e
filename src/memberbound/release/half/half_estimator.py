"""The papers' game in scikit-learn: an estimator of a secret half of a public table.

:class:`HalfPrivate` releases another estimator, :class:`TableModel` adds the columns of the table,
:class:`ReleasedLearner` repeats a release for audits.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from memberbound.errors import InputError, fraction, one_of, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.learners import encoded_rows, raw_rows
from memberbound.learners.examples import as_numbers, as_texts
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.quantities import Certificate
from memberbound.release.calibration import Calibration
from memberbound.release.half.fitting import evaluated
from memberbound.release.half.least_noise import FreshSubsets, Progress, Rows, promised_eta
from memberbound.release.half.methods import (
    MODEL_METHODS,
    Configuration,
    Trial,
    calibrate,
    calibration_seed_from,
    checked_train,
    chosen_method,
    configurations,
    learnable,
    released,
    scored,
    secret_subset,
    tuned,
)
from memberbound.release.half.parameters import (
    Labels,
    Learnable,
    PairAdapter,
    Population,
    PredictionTable,
    adapter_for,
    clipped_rows,
)
from memberbound.release.model_quality import Score
from memberbound.release.noise import (
    GaussianNoise,
    NoNoise,
    NormExponentialNoise,
    ScaledNorm,
    checked_eta,
)
from memberbound.release.private_estimator import PrivateEstimator, released_can
from memberbound.release.randomness import InsecureSource, source_from_seed
from memberbound.tables.columns import label_of

# ── A scikit-learn estimator that releases another one with a certified η ─────────────────────────
#
# The order matters and is the guarantee: first everything is chosen and certified on fresh subsets
# of the population; only then is the secret half drawn, fitted once, and released with noise.

#: Streams of fresh subsets: for tuning, for scores, for the certificate.
_TUNE, _SCORE, _CERTIFY = 11, 13, 14
_SCORED = 8

_GIVEN_TRAIN = (
    "train= was drawn uniformly from the population, by its owner and apart from this calibration."
)
_INSECURE = "Training set and noise come from a seed: nobody who may know it is protected."


class HalfPrivate(PrivateEstimator):
    """Fit an estimator on a secret half of a public table and release it with certified noise.

    ``fit(X, y)`` takes the *population*, which is public.  A uniformly random half becomes the
    training set; nobody who knows all records, but not which half was drawn, is right about the
    average (or every) record's membership more than ``eta`` above blind guessing (which is right
    50 % of the time, a little more for an odd number of records).  Who is in the table itself is
    not protected: for that there is :class:`MembershipPrivate`.

    Args:
        estimator: LogisticRegression, Ridge, LinearRegression, RidgeClassifier, LinearSVC,
            GaussianNB, KMeans; any other with ``adapter=`` or ``query=``.
        eta: the promise, in (0, ½).
        record: whom it protects: ``"every"`` or ``"average"``.
        method: ``"neighbour"`` (refitted pairs), ``"moment"`` (every record, any learner),
            ``"izzo"`` (for comparison), or ``"auto"``: neighbour for the average record, and for
            every record where that takes few fits, else moment.
        tune: choose clip radius and regularisation for the best released score.
        confidence: of the certificate, over the calibration's subsets.
        clip: scale rows longer than this down to it, in ``fit`` and in ``predict``.
        size: records that are drawn; None: half of them.
        query: public rows; predictions on these are released, not parameters.
        pairs: how many pairs (or subsets) to refit; default by the calibrator.
        adapter: an object with ``parameters(model)`` and ``set_parameters(model, vector)``.
        n_jobs: worker processes; None decides by the work.
        insecure_seed: for tests only: training set and noise from a seed.
        calibration_seed: seed of the calibration's subsets (public; never that of the secret).

    Attributes: ``certificate_``, ``calibration_``, ``released_`` (the noisy model), ``classes_``,
    ``n_features_in_``, ``configuration_`` (what tuning chose), ``trials_``, ``scores_`` (estimates
    on fresh subsets, not on the secret) and ``secure_``.  Neither the clean model nor the training
    rows are kept.

    Guarantee, Theorem, Assumes: ``certificate_`` says them.  Scale and encode features *before*, on
    the whole population, which is public.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(400, n_features=5, random_state=0)
        >>> asked = {"record": "average", "eta": 0.2, "tune": False, "pairs": 20}
        >>> half = HalfPrivate(LogisticRegression(), insecure_seed=1, **asked)
        >>> half.fit(X, y).certificate_.game.record
        'average'
    """

    scores_: tuple[Score, ...]
    trials_: tuple[Trial, ...]

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        eta: float = 0.05,
        record: str = "every",
        method: str = "auto",
        tune: bool = True,
        confidence: float = 0.95,
        clip: float | None = None,
        size: int | None = None,
        query: ArrayLike | None = None,
        pairs: int | None = None,
        adapter: Any = None,
        n_jobs: int | None = None,
        insecure_seed: int | None = None,
        calibration_seed: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.record = record
        self.method = method
        self.tune = tune
        self.confidence = confidence
        self.clip = clip
        self.size = size
        self.query = query
        self.pairs = pairs
        self.adapter = adapter
        self.n_jobs = n_jobs
        self.insecure_seed = insecure_seed
        self.calibration_seed = calibration_seed

    def _checked(self) -> None:
        checked_eta(self.eta)
        one_of("record", self.record, ("average", "every"))
        one_of("method", self.method, MODEL_METHODS)
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        if self.clip is not None:
            positive("clip", self.clip)
        if self.size is not None:
            whole_number("size", self.size)

    @property
    def release(self) -> str:
        """What is released: ``"parameters"``, or ``"predictions"`` on the rows of ``query``."""
        answers = isinstance(getattr(self, "released_", None), PredictionTable)
        return "predictions" if answers or self.query is not None else "parameters"

    def _population(self, X: ArrayLike, y: ArrayLike | None) -> Population:
        tags = get_tags(self.estimator).target_tags
        target = classes = None
        if y is not None:
            features, target = validate_data(
                self, X, y, dtype=np.float64, multi_output=bool(tags.multi_output), y_numeric=False
            )
        elif tags.required:
            raise InputError(
                "y must be given: the base requires y to be passed, but the target y is None."
            )
        else:
            features = validate_data(self, X, dtype=np.float64)
        if len(features) < 4:
            raise InputError(
                f"X must have at least 4 records, got n_samples={len(features)}. "
                "With fewer there is nobody to hide among."
            )
        if target is not None and is_classifier(self.estimator):
            check_classification_targets(target)
            if target.ndim != 1:
                raise InputError("y must be one class per record, got several columns.")
            classes = np.unique(target)
            if len(classes) < 2:
                raise InputError("y must have at least two classes, got one class only.")
        elif target is not None:
            target = np.asarray(target, dtype=np.float64)
        return Population(features, target, classes)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        train: ArrayLike | None = None,
        *,
        progress: Progress = None,
    ) -> HalfPrivate:
        """Calibrate on fresh subsets, then draw (or take) the training set, fit it and release.

        Args:
            X: features of the whole population.
            y: its target.
            train: a mask or row numbers of a training set that was drawn uniformly from the
                population; left out, it is drawn here.
            progress: called with (done, total) while the certificate is computed.
        """
        self._checked()
        population = self._population(X, y)
        for name in ("classes_", "released_"):
            self.__dict__.pop(name, None)
        # Its size is public, its members are looked at after calibration only.
        own = None if train is None else checked_train(train, population.records)
        size = population.records // 2 if self.size is None else self.size
        size = size if own is None else int(own.size)
        source = source_from_seed(self.insecure_seed)
        seed = calibration_seed_from(source, self.calibration_seed)
        game = SubsetGame(population.records, size, self.record)  # type: ignore[arg-type]
        promised_eta(self.eta, game)
        statistic, calibration = self._calibrated(population, FreshSubsets(game, seed), progress)
        assumptions = calibration.certificate.assumptions
        assumptions += (_GIVEN_TRAIN,) * (own is not None) + (_INSECURE,) * (not source.secure)
        self.certificate_ = replace(calibration.certificate, assumptions=assumptions)
        self.calibration_ = replace(calibration, certificate=self.certificate_)
        secret = secret_subset(game, source) if own is None else own
        noisy = released(statistic, self.calibration_, secret, source)
        self.released_ = statistic.model(noisy.values)
        self.secure_ = source.secure
        if population.classes is not None:
            self.classes_ = population.classes
        return self

    def _calibrated(
        self, population: Population, fresh: FreshSubsets, progress: Progress
    ) -> tuple[Learnable, Calibration]:
        """Choose and certify without the secret, which does not exist yet."""
        parameters = self.release == "parameters"
        adapter = adapter_for(self.estimator, self.adapter) if parameters else None
        # An adapter of ours may remember the population it has seen: each statistic gets its own.
        adapter = None if self.adapter is None else adapter
        method = chosen_method(
            self.method,
            fresh.game,
            eta=self.eta,
            confidence=self.confidence,
            pairs=self.pairs,
        )
        options = [Configuration(self.clip)]
        if self.tune and parameters:
            options = configurations(self.estimator, population, clip=self.clip)
        query = None if parameters else np.asarray(self.query, dtype=np.float64)
        option, self.trials_ = tuned(
            self.estimator,
            population,
            fresh.spawned(_TUNE),
            eta=self.eta,
            method=method,
            options=options,
            adapter=adapter,
        )
        statistic = learnable(
            option.applied(self.estimator),
            population,
            clip=option.clip,
            adapter=adapter,
            query=query,
        )
        calibration = calibrate(
            statistic,
            fresh.spawned(_CERTIFY),
            eta=self.eta,
            method=method,
            confidence=self.confidence,
            pairs=self.pairs,
            workers=self.n_jobs,
            progress=progress,
        )
        self.configuration_ = option
        self.scores_ = self._scores(statistic, calibration, population, fresh.spawned(_SCORE))
        return statistic, calibration

    def _scores(
        self,
        statistic: Learnable,
        calibration: Calibration,
        population: Population,
        fresh: FreshSubsets,
    ) -> tuple[Score, ...]:
        """Score releases of fresh subsets on the records outside them."""
        if self.release != "parameters":
            return ()  # the target of the query rows is unknown
        subsets = fresh.subsets(_SCORED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = scored(
                statistic,
                subsets,
                np.array([evaluated(statistic, rows)[0] for rows in subsets]),
                calibration.noise,
                population,
                clip=self.configuration_.clip,
                seed=2,
                ranked=True,
            )
        if scores is None:
            return ()
        clean, noisy = scores
        # Scores of a constant answer, from the population, which is public.
        constant = {"R²": 0.0, "AUC": 0.5}
        if population.classes is not None and population.target is not None:
            _, counts = np.unique(population.target, return_counts=True)
            constant["accuracy"] = float(counts.max() / counts.sum())
            constant["balanced accuracy"] = 1 / len(counts)
        return tuple(
            Score(name, clean[name], noisy[name], constant.get(name))
            for name in noisy
            if name in clean
        )

    def _read(self, X: ArrayLike) -> Any:
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        if self.release == "predictions":
            return np.asarray(rows)
        return clipped_rows(rows, self.configuration_.clip)

    @available_if(released_can("transform"))
    def transform(self, X: ArrayLike) -> FloatArray:
        """Transform with the released model (distances to k-means centres)."""
        return np.asarray(self.released_.transform(self._rows(X)))

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return accuracy, R², or the base's own score without a target."""
        from sklearn.metrics import accuracy_score, r2_score

        if y is None:
            return float(self.released_.score(self._rows(X)))
        rule = accuracy_score if hasattr(self, "classes_") else r2_score
        return float(rule(y, self.predict(X)))


# ── A protected release as a learner, so that it can be repeated on many halves and attacked ──────
#
# The noise law stays the one that was calibrated; halves and noise are new each time.  This is what
# an audit of a protected release needs: the release itself is made once and cannot be repeated.


def _key(features: FloatArray, target: object) -> tuple[bytes, object]:
    # Adding 0.0 makes -0.0 and 0.0 the same bytes.
    return (features + 0.0).tobytes(), target


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The statistic of a release, its noise, and the population it knows its rows by."""

    statistic: Learnable
    calibration: Calibration
    clip: float | None
    places: dict[tuple[bytes, object], list[int]] = field(repr=False)

    def rows(self, features: FloatArray, target: Labels) -> Rows:
        """Return the row numbers of these records; equal records are interchangeable."""
        used: dict[tuple[bytes, object], int] = defaultdict(int)
        rows = []
        for row, value in zip(features, target.tolist(), strict=True):
            key = _key(row, value)
            places = self.places.get(key, ())
            if used[key] >= len(places):
                raise InputError("rows must come from the population of the release, got another.")
            rows.append(places[used[key]])
            used[key] += 1
        return np.sort(np.array(rows, dtype=np.int64))


class ReleasedLearner(PrivateEstimator):
    """Fit the protected learner on given rows of its population, with fresh noise from a seed.

    For audits only: halves and noise come from seeds, so this protects nobody.
    """

    estimator = None

    def __init__(self, rehearsal: Rehearsal, random_state: int = 0) -> None:
        self.rehearsal = rehearsal
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Have the tags of any estimator."""
        return BaseEstimator.__sklearn_tags__(self)

    def fit(self, X: FloatArray, y: Labels) -> ReleasedLearner:
        """Train on these rows and add the noise of the release."""
        plan = self.rehearsal
        rows = plan.rows(np.asarray(X, dtype=np.float64), np.asarray(y))
        noisy = released(plan.statistic, plan.calibration, rows, InsecureSource(self.random_state))
        self.released_ = plan.statistic.model(noisy.values)
        if hasattr(self.released_, "classes_"):
            self.classes_ = self.released_.classes_
        return self

    def _read(self, X: ArrayLike) -> FloatArray:
        return clipped_rows(np.asarray(X, dtype=np.float64), self.rehearsal.clip)


def released_learner(model: HalfPrivate, X: FloatArray, y: Labels) -> ReleasedLearner:
    """Return a fitted :class:`HalfPrivate` as a learner on rows of its population (X, y).

    The same statistic, clip radius, regularisation and noise law as in the release.

    Edge cases: predictions on query rows are no parameters and are refused.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(100, n_features=4, random_state=0)
        >>> asked = {"eta": 0.2, "record": "average", "tune": False, "pairs": 20}
        >>> model = HalfPrivate(LogisticRegression(), **asked)
        >>> learner = released_learner(model.fit(X, y), X, y)
        >>> learner.fit(X[:50], y[:50]).predict_proba(X).shape
        (100, 2)
    """
    if model.release != "parameters":
        raise InputError(f"release must be 'parameters' to be repeated, got {model.release!r}.")
    population = model._population(X, y)  # the same reading of X and y as in fit
    option = model.configuration_
    own = None if model.adapter is None else adapter_for(model.estimator, model.adapter)
    statistic = learnable(
        option.applied(model.estimator),
        population,
        clip=option.clip,
        adapter=own,
    )
    places: dict[tuple[bytes, object], list[int]] = defaultdict(list)
    for number, (row, value) in enumerate(
        zip(population.features, np.asarray(y).tolist(), strict=True)
    ):
        places[_key(row, value)].append(number)
    rehearsal = Rehearsal(statistic, model.calibration_, option.clip, dict(places))
    return ReleasedLearner(rehearsal)


# ── A released model with the columns of its table: raw rows in, answers out ──────────────────────


def _model_can(name: str) -> Callable[[TableModel], bool]:
    return lambda self: hasattr(self.model, name)


class TableModel(BaseEstimator):  # type: ignore[misc]
    """What ``protect-half`` releases and saves: it takes the columns of the table, by name.

    Scales, categories and class names come from the whole population, which is public in the game
    that the certificate is about.

    Args:
        model: the released model on encoded features.
        encoder: makes the features of raw rows; None: the rows are numbers as they are.
        columns: names of the columns it takes, in any order; None: all, in the table's order.
        target: name of the column that it predicts.
        class_values: the classes as that column has them.

    Attributes: ``classes_``, ``certificate_``, ``calibration_``.
    """

    def __init__(
        self,
        model: HalfPrivate,
        encoder: Any = None,
        columns: tuple[str, ...] | None = None,
        target: str | None = None,
        class_values: Labels | None = None,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.columns = columns
        self.target = target
        self.class_values = class_values

    @classmethod
    def of(cls, model: HalfPrivate | TableModel) -> TableModel:
        """Return a model that takes tables: a fitted HalfPrivate takes numbers."""
        if isinstance(model, TableModel):
            return model
        names = getattr(model, "feature_names_in_", None)
        columns = None if names is None else tuple(map(str, names))
        return cls(model, columns=columns, class_values=getattr(model, "classes_", None))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self.model, "released_")

    @property
    def calibration_(self) -> Calibration:
        """How the noise was found to be enough."""
        return self.model.calibration_

    @property
    def certificate_(self) -> Certificate:
        """What is promised."""
        return self.model.certificate_

    @property
    def classes_(self) -> Labels:
        """The classes as the target's column has them, in the order of the probabilities."""
        if self.class_values is None:
            raise AttributeError("a regression has no classes.")
        return np.asarray(self.class_values)

    def encoded(
        self, table: object, database_table: str | None = None, *, strict: bool | None = None
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the features of raw rows, and what has to be said about them.

        ``strict`` refuses categories that the model has never seen.
        """
        if self.encoder is not None:
            return encoded_rows(
                self.encoder,
                tuple(self.columns or ()),
                table,
                ignore=self.target,
                database_table=database_table,
                strict=bool(strict),
            )
        wanted = self.model.n_features_in_ if self.columns is None else tuple(self.columns)
        frame, notices, name = raw_rows(table, wanted, database_table=database_table)
        try:
            rows = np.ascontiguousarray(frame.to_numpy(dtype=np.float64))
        except (TypeError, ValueError):
            rows = np.full((1, 1), np.nan)
        if not np.isfinite(rows).all():
            raise InputError(
                f"{name} must hold finite numbers in {', '.join(frame.columns)}: this model was "
                "fitted on an array of them."
            )
        # A model fitted on named columns takes named columns.
        return rows if self.columns is None else frame.astype(np.float64), notices

    def predict(self, table: object) -> Labels:
        """Return classes or numbers for the rows of a file, a frame or an array."""
        return self.answered(self.encoded(table)[0])

    @available_if(_model_can("predict_proba"))
    def predict_proba(self, table: object) -> FloatArray:
        """Return probabilities in the order of ``classes_``."""
        return np.asarray(self.model.predict_proba(self.encoded(table)[0]))

    @available_if(_model_can("decision_function"))
    def decision_function(self, table: object) -> FloatArray:
        """Return the released model's scores."""
        return np.asarray(self.model.decision_function(self.encoded(table)[0]))

    def answered(self, rows: FloatArray) -> Labels:
        """Return classes or numbers for encoded rows."""
        answers = np.asarray(self.model.predict(rows))
        # With an encoder the inner model knows classes by their numbers.
        if self.encoder is None or self.class_values is None:
            return answers
        return np.asarray(self.classes_[answers.astype(np.int64)])

    def probabilities(self, rows: FloatArray) -> FloatArray | None:
        """Return probabilities of encoded rows, or None where the model has none."""
        if self.class_values is None or not hasattr(self.model, "predict_proba"):
            return None
        return np.asarray(self.model.predict_proba(rows))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as text, in the order of the probabilities."""
        return tuple(label_of(c, "text") for c in self.classes_.tolist())

    def score(self, table: object, target: ArrayLike) -> float:
        """Return accuracy or R² of the rows of a table."""
        from sklearn.metrics import accuracy_score, r2_score

        rule = r2_score if self.class_values is None else accuracy_score
        return float(rule(np.asarray(target), self.predict(table)))


#: What a file of skops can hold as an estimator.
ESTIMATORS = (TableModel, HalfPrivate)
#: Types of ours inside; skops refuses every other it does not know.
TRUSTED = tuple(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in (
        SubsetGame,
        as_numbers,
        as_texts,
        Calibration,
        HalfPrivate,
        NormExponentialNoise,
        GaussianNoise,
        NoNoise,
        ScaledNorm,
        PairAdapter,
        PredictionTable,
        TableModel,
        Configuration,
        Score,
        Trial,
        Certificate,
    )
)
