"""A scikit-learn estimator of the papers' game, a secret half of a public table; its rehearsal."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from memberbound.errors import InputError, fraction, one_of, positive
from memberbound.games import SubsetGame
from memberbound.learners.capabilities import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.release.calibration import (
    Calibration,
    FreshSubsets,
    Progress,
    Rows,
    checked_eta,
    promised_eta,
)
from memberbound.release.half.fitting import evaluated
from memberbound.release.half.methods import (
    MODEL_METHODS,
    Configuration,
    Scores,
    Trial,
    calibrate,
    chosen_method,
    configurations,
    learnable,
    scored,
    tuned,
)
from memberbound.release.half.parameters import (
    Labels,
    Learnable,
    Population,
    adapter_for,
    clipped_rows,
)
from memberbound.release.half.releasing import (
    calibration_seed_from,
    checked_train,
    released,
    secret_subset,
    source_from_seed,
)
from memberbound.release.randomness import InsecureSource, RandomSource

__all__ = [
    "HalfPrivate",
    "Rehearsal",
    "ReleasedLearner",
    "released_learner",
]

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


def _has(name: str) -> Callable[[HalfPrivate], bool]:
    def check(self: HalfPrivate) -> bool:
        # Before fit: what the base promises; after: what the released model can do.
        return hasattr(getattr(self, "released_", self.estimator), name)

    return check


class HalfPrivate(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit an estimator on a secret half of a public table and release it with certified noise.

    ``fit(X, y)`` takes the *population*, which is public.  A uniformly random half becomes the
    training set; nobody who knows all records, but not which half was drawn, is right about the
    average (or every) record's membership more than ``eta`` above blind guessing (which is right
    50 % of the time, a little more for an odd number of records).  Who is in the table itself is
    not protected: for that there is :class:`MembershipPrivate`.

    Args:
        estimator: LogisticRegression, Ridge, LinearRegression, RidgeClassifier, LinearSVC,
            GaussianNB, KMeans; any other with ``adapter=`` or ``release="predictions"``.
        eta: the promise, in (0, ½).
        record: whom it protects: ``"every"`` or ``"average"``.
        method: ``"neighbour"`` (refitted pairs), ``"moment"`` (every record, any learner),
            ``"izzo"`` (for comparison), or ``"auto"``: neighbour for the average record, and for
            every record where that takes few fits, else moment.
        tune: choose clip radius and regularisation for the best released score.
        confidence: of the certificate, over the calibration's subsets.
        clip: scale rows longer than this down to it, in ``fit`` and in ``predict``.
        release: ``"parameters"``, or ``"predictions"`` on the rows of ``query``.
        query: public rows whose predictions are released.
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

    released_: Any
    scores_: Scores | None
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
        release: str = "parameters",
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
        self.release = release
        self.query = query
        self.pairs = pairs
        self.adapter = adapter
        self.n_jobs = n_jobs
        self.insecure_seed = insecure_seed
        self.calibration_seed = calibration_seed

    def __sklearn_tags__(self) -> Any:
        """Be a classifier, a regressor or a clusterer as the base is."""
        tags = super().__sklearn_tags__()
        base = get_tags(self.estimator)
        tags.estimator_type = base.estimator_type
        tags.classifier_tags = base.classifier_tags
        tags.regressor_tags = base.regressor_tags
        tags.target_tags = base.target_tags
        tags.non_deterministic = self.insecure_seed is None
        return tags

    # ---- fitting --------------------------------------------------------------------------

    def _checked(self) -> None:
        checked_eta(self.eta)
        one_of("record", self.record, ("average", "every"))
        one_of("method", self.method, MODEL_METHODS)
        one_of("release", self.release, ("parameters", "predictions"))
        fraction("confidence", self.confidence, open_left=True, open_right=True)
        if self.clip is not None:
            positive("clip", self.clip)
        if (self.release == "predictions") != (self.query is not None):
            raise InputError(
                "query must be given for release='predictions', and only then: the public rows "
                "whose predictions are released."
            )

    def _population(self, X: ArrayLike, y: ArrayLike | None) -> Population:
        if y is None:
            wanted = get_tags(self.estimator).target_tags.required
            if wanted:
                raise InputError(
                    "y must be given: the base requires y to be passed, but the target y is None."
                )
            features = validate_data(self, X, dtype=np.float64)
            target = classes = None
        else:
            several = bool(get_tags(self.estimator).target_tags.multi_output)
            features, target = validate_data(
                self, X, y, dtype=np.float64, multi_output=several, y_numeric=False
            )
            classes = None
        if len(features) < 4:
            raise InputError(
                f"X must have at least 4 records, got n_samples={len(features)}. "
                "A half of fewer hides nobody."
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
                population; left out, half of the records are drawn here.
            progress: called with (done, total) while the certificate is computed.
        """
        self._checked()
        population = self._population(X, y)
        for name in ("classes_", "released_"):
            self.__dict__.pop(name, None)
        # Its size is public, its members are looked at after calibration only.
        size = population.records // 2
        given: Rows | None = None
        if train is not None:
            given = checked_train(train, population.records)
            size = int(given.size)
        source = source_from_seed(self.insecure_seed)
        seed = calibration_seed_from(source, self.calibration_seed)
        game = SubsetGame(population.records, size, self.record)  # type: ignore[arg-type]
        promised_eta(self.eta, game)
        fresh = FreshSubsets(game, seed)
        statistic, calibration = self._calibrated(population, fresh, progress)
        calibration = self._with_assumptions(calibration, source, given is not None)
        secret = secret_subset(game, source) if given is None else given
        found = released(statistic, calibration, secret, source)
        self.released_ = statistic.model(found.values)
        self.calibration_ = calibration
        self.certificate_ = calibration.certificate
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
            query=query,
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
    ) -> Scores | None:
        if self.release != "parameters":
            return None  # nobody knows the target of the query rows
        subsets = fresh.subsets(_SCORED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.array([evaluated(statistic, rows)[0] for rows in subsets])
            return scored(
                statistic,
                subsets,
                values,
                calibration.noise,
                population,
                clip=self.configuration_.clip,
                seed=2,
                further=True,
            )

    @staticmethod
    def _with_assumptions(
        calibration: Calibration, source: RandomSource, given: bool
    ) -> Calibration:
        said = calibration.certificate.assumptions
        said += (_GIVEN_TRAIN,) * given + (_INSECURE,) * (not source.secure)
        return replace(calibration, certificate=replace(calibration.certificate, assumptions=said))

    # ---- using the release ----------------------------------------------------------------

    def _rows(self, X: ArrayLike) -> Any:
        check_is_fitted(self, "released_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        if self.release == "predictions":
            return np.asarray(rows)
        return clipped_rows(rows, self.configuration_.clip)

    @available_if(_has("predict"))
    def predict(self, X: ArrayLike) -> Labels:
        """Predict with the released model."""
        return np.asarray(self.released_.predict(self._rows(X)))

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the released model's class probabilities."""
        rows = self._rows(X)
        return np.asarray(self.released_.predict_proba(rows))

    @available_if(_has("decision_function"))
    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the released model's scores."""
        rows = self._rows(X)
        return np.asarray(self.released_.decision_function(rows))

    @available_if(_has("transform"))
    def transform(self, X: ArrayLike) -> FloatArray:
        """Transform with the released model (distances to k-means centres)."""
        rows = self._rows(X)
        return np.asarray(self.released_.transform(rows))

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return accuracy, R², or the base's own score without a target."""
        from sklearn.metrics import accuracy_score, r2_score

        if y is None:
            rows = self._rows(X)
            return float(self.released_.score(rows))
        said = self.predict(X)
        return float(accuracy_score(y, said) if hasattr(self, "classes_") else r2_score(y, said))


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
        found = []
        for row, value in zip(features, target.tolist(), strict=True):
            key = _key(row, value)
            known = self.places.get(key, ())
            if used[key] >= len(known):
                raise InputError("rows must come from the population of the release, got another.")
            found.append(known[used[key]])
            used[key] += 1
        return np.sort(np.array(found, dtype=np.int64))


def _can(name: str) -> Callable[[ReleasedLearner], bool]:
    def check(self: ReleasedLearner) -> bool:
        return hasattr(getattr(self, "released_", None), name)

    return check


class ReleasedLearner(BaseEstimator):  # type: ignore[misc]
    """Fit the protected learner on given rows of its population, with fresh noise from a seed.

    For audits only: halves and noise come from seeds, so this protects nobody.
    """

    def __init__(self, rehearsal: Rehearsal, random_state: int = 0) -> None:
        self.rehearsal = rehearsal
        self.random_state = random_state

    def fit(self, X: FloatArray, y: Labels) -> ReleasedLearner:
        """Train on these rows and add the noise of the release."""
        plan = self.rehearsal
        source = InsecureSource(self.random_state)
        rows = plan.rows(np.asarray(X, dtype=np.float64), np.asarray(y))
        found = released(plan.statistic, plan.calibration, rows, source)
        self.released_ = plan.statistic.model(found.values)
        if hasattr(self.released_, "classes_"):
            self.classes_ = self.released_.classes_
        return self

    def _rows(self, X: FloatArray) -> FloatArray:
        return clipped_rows(np.asarray(X, dtype=np.float64), self.rehearsal.clip)

    def predict(self, X: FloatArray) -> Labels:
        """Predict with the noisy model."""
        return np.asarray(self.released_.predict(self._rows(X)))

    @available_if(_can("predict_proba"))
    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the noisy model's class probabilities."""
        return np.asarray(self.released_.predict_proba(self._rows(X)))

    @available_if(_can("decision_function"))
    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return the noisy model's scores."""
        return np.asarray(self.released_.decision_function(self._rows(X)))


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
    calibration = model.calibration_
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
    return ReleasedLearner(Rehearsal(statistic, calibration, option.clip, dict(places)))
