"""Scikit-learn estimators for the papers' game: a fit on a secret half of a public table.

:class:`HalfPrivate` wraps another estimator; :class:`TableModel` adds the columns of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from memberbound.certificate import Certificate
from memberbound.declarations import Progress
from memberbound.errors import InputError, positive
from memberbound.games import SubsetGame
from memberbound.learners.examples import as_numbers, as_texts, encode_rows
from memberbound.learners.holdout import (
    ModelScores,
    predict_rows,
    quiet_training,
    score_constant,
    score_predictions,
)
from memberbound.learners.learner import Labels
from memberbound.learners.refits import Cluster
from memberbound.learners.trained import available_if
from memberbound.numerics.rounding import FloatArray
from memberbound.release.all_rows.estimator import PrivateEstimator
from memberbound.release.calibration import Calibration
from memberbound.release.half.fitting import FreshSubsets, Rows, evaluate
from memberbound.release.half.least_noise import check_eta
from memberbound.release.half.linear_fits import FittedParameters, Population
from memberbound.release.half.prediction_table import FittedPredictions, PredictionTable
from memberbound.release.half.refitting import calibrate
from memberbound.release.half.secret_draw import calibration_seed_from, release_once, secret_subset
from memberbound.release.half.statistics import clip_rows
from memberbound.release.model_quality import ReleaseScore
from memberbound.release.noise import GaussianNoise, NormExponentialNoise
from memberbound.release.randomness import InsecureSource, source_from_seed
from memberbound.release.release_file import Writer, skops
from memberbound.tables.columns import label_of

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer
    from sklearn.utils import Tags

# ── A scikit-learn estimator that releases another one with a certified η ─────────────────────────
#
# The guarantee depends on the order: first certify everything on fresh subsets of the population;
# only then draw the secret half, fit once, and release with noise.

#: Streams of fresh subsets: for scores, for the certificate.
_SCORE, _CERTIFY = 13, 14
#: Number of subsets to score, and of releases per subset.
_SCORED, _DRAWS = 8, 4

_GIVEN_TRAIN = (
    "train= was drawn uniformly from the population, by its owner and apart from this calibration."
)
_INSECURE = (
    "Training set and noise come from a seed: there is no protection from anyone who may know it."
)


class HalfPrivate(PrivateEstimator):
    """Fit an estimator on a secret half of a public table and release it with certified noise.

    ``fit(X, y)`` takes the *population*, which is public.  A uniformly random half becomes the
    training set; an attacker who knows all records, but not which half was drawn, guesses the
    membership of the average (or every) record with accuracy at most ``eta`` above blind guessing
    (50 %, a little more for an odd number of records).  Membership in the table itself is not
    protected: use :class:`MembershipPrivate` for that.

    Args:
        estimator: LogisticRegression, Ridge, LinearRegression, RidgeClassifier, LinearSVC; any
            other with ``query=``.
        eta: the bound on the attacker's gain, in (0, ½).
        record: the protected record, ``"every"`` or ``"average"``.
        method: ``"neighbour"`` (refitted pairs), ``"moment"`` (every record, any learner),
            ``"izzo"`` (for comparison), or ``"auto"``: neighbour for the average record, and for
            every record if that takes few fits, else moment.
        confidence: confidence of the certificate, over the calibration's subsets.
        clip: clip rows to this norm, in ``fit`` and in ``predict``.
        size: number of records drawn; None: half of them.
        query: public rows; release predictions on these instead of parameters.
        pairs: number of pairs (or subsets) to refit; chosen by the calibrator by default.
        n_jobs: worker processes; None chooses by the amount of work.
        insecure_seed: for tests only: draw the training set and the noise from a seed.

    Attributes: ``certificate_``, ``calibration_``, ``released_`` (the noisy model), ``classes_``,
    ``n_features_in_``, ``scores_`` (estimates on fresh subsets, not on the secret) and ``secure_``.
    Neither the clean model nor the training rows are kept.

    Guarantee, Theorem, Assumes: stated in ``certificate_``.  Scale and encode features
    *beforehand*, on the whole population, which is public.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(400, n_features=5, random_state=0)
        >>> settings = {"record": "average", "eta": 0.2, "pairs": 20}
        >>> half = HalfPrivate(LogisticRegression(), insecure_seed=1, **settings)
        >>> half.fit(X, y).certificate_.game.record
        'average'
    """

    scores_: tuple[ReleaseScore, ...]

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        eta: float = 0.05,
        record: str = "every",
        method: str = "auto",
        confidence: float = 0.95,
        clip: float | None = None,
        size: int | None = None,
        query: ArrayLike | None = None,
        pairs: int | None = None,
        n_jobs: int | None = None,
        insecure_seed: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.eta = eta
        self.record = record
        self.method = method
        self.confidence = confidence
        self.clip = clip
        self.size = size
        self.query = query
        self.pairs = pairs
        self.n_jobs = n_jobs
        self.insecure_seed = insecure_seed

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of the base estimator, for one target."""
        tags = super().__sklearn_tags__()
        tags.target_tags = replace(tags.target_tags, multi_output=False)
        return tags

    @property
    def release(self) -> str:
        """The kind of release: ``"parameters"``, or ``"predictions"`` on the rows of ``query``."""
        answers = isinstance(getattr(self, "released_", None), PredictionTable)
        return "predictions" if answers or self.query is not None else "parameters"

    def _population(self, X: ArrayLike, y: ArrayLike | None) -> Population:
        if y is None:
            raise InputError(
                "y must be given: the base requires y to be passed, but the target y is None."
            )
        features, target = validate_data(self, X, y, dtype=np.float64)
        if len(features) < 4:
            raise InputError(
                f"X must have at least 4 records, got n_samples={len(features)}. "
                "With fewer no record can be hidden."
            )
        if not is_classifier(self.estimator):
            return Population(features, np.asarray(target, dtype=np.float64))
        check_classification_targets(target)
        classes = np.unique(target)
        if len(classes) < 2:
            raise InputError("y must have at least two classes, got one class only.")
        return Population(features, target, classes)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        train: ArrayLike | None = None,
        *,
        cluster: Cluster | None = None,
        progress: Progress | None = None,
    ) -> HalfPrivate:
        """Calibrate on fresh subsets, then draw (or take) the training set, fit once and release.

        Args:
            X: features of the whole population.
            y: target of the whole population.
            train: mask of a training set drawn uniformly from the population; by default, it is
                drawn here.
            cluster: a connected dask cluster that refits (default: processes of this machine).
            progress: called with (done, total) while the certificate is computed.
        """
        if self.clip is not None:
            positive("clip", self.clip)
        population = self._population(X, y)
        for name in ("classes_", "released_"):
            self.__dict__.pop(name, None)
        # The size is public; the members are used only after the calibration.
        own = None if train is None else _mask_indices(train, population.records)
        size = population.records // 2 if self.size is None else self.size
        size = size if own is None else int(own.size)
        source = source_from_seed(self.insecure_seed)
        fresh = FreshSubsets(
            SubsetGame(population.records, size, self.record),  # type: ignore[arg-type]
            calibration_seed_from(source),
        )
        check_eta(self.eta, fresh.game)
        statistic = self._statistic(population)
        calibration = calibrate(
            statistic,
            fresh.spawn(_CERTIFY),
            eta=self.eta,
            method=self.method,
            confidence=self.confidence,
            pairs=self.pairs,
            workers=self.n_jobs,
            cluster=cluster,
            progress=progress,
        )
        assumptions = calibration.certificate.assumptions
        assumptions += (_GIVEN_TRAIN,) * (own is not None) + (_INSECURE,) * (not source.secure)
        self.certificate_ = replace(calibration.certificate, assumptions=assumptions)
        self.calibration_ = replace(calibration, certificate=self.certificate_)
        self.scores_ = ()
        if isinstance(statistic, FittedParameters):  # query rows have no known target
            self.scores_ = _scores(statistic, calibration, fresh.spawn(_SCORE))
        secret = secret_subset(fresh.game, source) if own is None else own
        noisy = release_once(statistic, self.calibration_, secret, source)
        self.released_ = statistic.model(noisy.values)
        self.secure_ = source.secure
        if population.classes is not None:
            self.classes_ = population.classes
        return self

    def _statistic(self, population: Population) -> FittedParameters | FittedPredictions:
        """Return the statistic of clipped rows: parameters, or predictions on ``query``."""
        clipped = replace(population, features=clip_rows(population.features, self.clip))
        if self.query is None:
            return FittedParameters.of(self.estimator, clipped)
        query = np.asarray(self.query, dtype=np.float64)
        return FittedPredictions.of(self.estimator, clipped, query, self.clip)

    def _read(self, X: ArrayLike) -> object:
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return rows if self.release == "predictions" else clip_rows(rows, self.clip)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return accuracy or R²."""
        from sklearn.metrics import accuracy_score, r2_score

        rule = accuracy_score if hasattr(self, "classes_") else r2_score
        return float(rule(y, self.predict(X)))


def _mask_indices(train: ArrayLike, records: int) -> Rows:
    """Return the sorted row indices of a mask."""
    mask = np.asarray(train)
    if mask.dtype != bool or mask.shape != (records,) or not 0 < mask.sum() < records:
        raise InputError(
            f"train must be a mask of {records} entries, some of them True and not all. "
            "The population must be larger than the training set."
        )
    return np.flatnonzero(mask)


def _scores(
    statistic: FittedParameters, calibration: Calibration, fresh: FreshSubsets
) -> tuple[ReleaseScore, ...]:
    """Score releases of fresh subsets on the records outside them.

    The noise comes from a seeded source, because these releases are discarded.
    """
    population, source = statistic.population, InsecureSource(2)
    classes = [] if population.classes is None else list(map(str, population.classes))
    clean: list[ModelScores] = []
    noisy: list[ModelScores] = []
    with quiet_training():
        for rows in fresh.subsets(_SCORED):
            outside = np.setdiff1d(np.arange(population.records), rows)
            value, _ = evaluate(statistic, rows)
            noises = [np.zeros_like(value), *calibration.noise.draw(source, _DRAWS)]
            for draw, noise in enumerate(noises):
                model = statistic.model(value + noise)
                predicted = predict_rows(model, population.features[outside], classes)
                scores = score_predictions(population.target[outside], predicted, classes)
                (noisy if draw else clean).append(scores)
    # The population is public, so the constant is scored on all of it.
    constant = score_constant(population.target, classes)
    means = _means(clean)
    return tuple(
        ReleaseScore(
            name,
            means[name],
            score,
            constant.get(name),
            float(np.std([each[name] for each in noisy], ddof=1)) if len(noisy) > 1 else None,
        )
        for name, score in _means(noisy).items()
        if name in means
    )


def _means(scores: Sequence[ModelScores]) -> ModelScores:
    """Average every score over the models that have it."""
    names = dict.fromkeys(name for each in scores for name in each)
    return {name: float(np.mean([s[name] for s in scores if name in s])) for name in names}


# ── A released model with the columns of its table, for raw rows ──────────────────────────────────


class TableModel(BaseEstimator):  # type: ignore[misc]
    """The model released by ``protect-half``, which takes the columns of the table by name.

    Scales, categories and class names come from the whole population, which is public in the game
    of the certificate.

    Args:
        model: the released model on encoded features.
        encoder: maps raw rows to features.
        columns: names of its input columns, in any order.
        target: name of the predicted column.

    Attributes: ``classes_``, ``certificate_``, ``calibration_``.
    """

    def __init__(
        self,
        model: HalfPrivate,
        encoder: ColumnTransformer,
        columns: tuple[str, ...],
        target: str,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.columns = columns
        self.target = target

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self.model, "released_")

    @property
    def calibration_(self) -> Calibration:
        """The calibration of the noise."""
        return self.model.calibration_

    @property
    def certificate_(self) -> Certificate:
        """The certificate of the release."""
        return self.model.certificate_

    @property
    def classes_(self) -> Labels:
        """The classes as stored in the target column, in the order of the probabilities."""
        return np.asarray(self.model.classes_)

    def encode(
        self,
        table: object,
        database_table: str | None = None,
        *,
        encoding: str | None = None,
        strict: bool | None = None,
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return the features of raw rows, and notices about them.

        ``strict`` rejects unseen categories.
        """
        return encode_rows(
            self.encoder,
            tuple(self.columns),
            table,
            ignore=self.target,
            database_table=database_table,
            encoding=encoding,
            strict=bool(strict),
        )

    def predict(self, table: object) -> Labels:
        """Return classes or numbers for the rows of a file, a frame or an array."""
        return self.predict_encoded(self.encode(table)[0])

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, table: object) -> FloatArray:
        """Return probabilities in the order of ``classes_``."""
        return np.asarray(self.model.predict_proba(self.encode(table)[0]))

    def predict_encoded(self, rows: FloatArray) -> Labels:
        """Return classes or numbers for encoded rows."""
        return np.asarray(self.model.predict(rows))

    def probabilities(self, rows: FloatArray) -> FloatArray | None:
        """Return probabilities of encoded rows, or None if the model has none."""
        can = hasattr(self.model, "predict_proba")
        return np.asarray(self.model.predict_proba(rows)) if can else None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes as text, in the order of the probabilities."""
        return tuple(label_of(c, "text") for c in self.classes_.tolist())

    @property
    def file_endings(self) -> tuple[str, ...]:
        """The supported file endings."""
        return (".skops",)

    def certificate_fields(self) -> dict[str, object]:
        """Return the fields of the certificate."""
        return self.calibration_.certificate_fields(
            "estimator",
            estimator=type(self.model.estimator).__name__,
            release=self.model.release,
            secure_source=self.model.secure_,
            scores={score.name: score for score in self.model.scores_},
        )

    def file_writer(self, path: Path) -> Writer:  # noqa: ARG002
        """Return a function that writes the model with skops, without its seed and its query."""
        model, writer = self.model, skops()
        slim = clone(model).set_params(insecure_seed=None, query=None)
        slim.__dict__ |= {k: v for k, v in model.__dict__.items() if k.endswith("_")}
        if model.release == "predictions":
            # Replace the learner by the table of predictions, to keep foreign code out.
            slim.estimator = model.released_
        whole = type(self)(**(self.get_params(deep=False) | {"model": slim}))
        return lambda draft: writer.dump(whole, draft)


#: Types of this package in a skops file, which refuses unknown types.
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
        PredictionTable,
        TableModel,
        ReleaseScore,
        Certificate,
    )
)
#: A numpy type of column encoders, in addition to our own types.
_TRUSTED_ELSEWHERE = ("numpy.dtype",)


def load_estimator(path: Path, _factory: object = None, _features: object = None) -> TableModel:
    """Load a saved model of a half; reject a file with unknown types."""
    reader, packed = skops(), path.read_bytes()
    allowed = {*TRUSTED, *_TRUSTED_ELSEWHERE}
    foreign = sorted(set(reader.get_untrusted_types(data=packed)) - allowed)
    if foreign:
        raise InputError(f"path must hold known types only, got {', '.join(foreign)}.")
    model = reader.loads(packed, trusted=sorted(allowed))
    if not isinstance(model, TableModel):
        raise InputError(f"path must hold a released model, got {type(model).__name__}.")
    return model
