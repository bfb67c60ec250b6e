"""What a fit gives away as numbers: its parameters, or its predictions on a fixed query set."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError
from memberbound.numerics.rounding import FloatArray
from memberbound.release.half.fitting import with_public_coins
from memberbound.release.half.least_noise import Rows, Statistic

# ── A fitted estimator as a vector of numbers, and back ───────────────────────────────────────────
#
# The vector has one length whatever the subset: classes are the population's, and a class that a
# subset lacks gets fixed values.  The way back fills a *shell*: an estimator fitted on a few made-
# up rows, so that nothing of the secret fit but the released vector reaches it.

#: Classes of any kind, or numbers.
Labels = NDArray[Any]

#: Variances of naive Bayes are kept above this share of the population's: a class of one member
#: would otherwise have a logarithm of about -20, and the whole price would be paid for it.
_LEAST_VARIANCE = 1e-3
#: Released logarithms are cut here before exponentiation; e^±300 is far from over- and underflow.
_LARGEST_LOGARITHM = 300.0


@dataclass(frozen=True, eq=False)
class Population:
    """All records: features, target if any, and the classes of a classification."""

    features: FloatArray
    target: Labels | None = None
    classes: Labels | None = None

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.features)

    @property
    def outputs(self) -> int:
        """Numbers that a linear model predicts per row: classes beyond two, else one."""
        if self.classes is not None:
            return 1 if len(self.classes) == 2 else len(self.classes)
        if self.target is None or self.target.ndim == 1:
            return 1
        return int(self.target.shape[1])


class Adapter(ABC):
    """How an estimator becomes a vector and a vector an estimator."""

    def prepared(self, estimator: BaseEstimator, population: Population) -> BaseEstimator:
        """Return the unfitted estimator that is fitted on every subset."""
        del population
        return with_public_coins(clone(estimator))

    @abstractmethod
    def dimension(self, estimator: BaseEstimator, population: Population) -> int:
        """Return the length of the vector."""

    @abstractmethod
    def parameters(self, model: BaseEstimator, population: Population) -> FloatArray:
        """Return the vector of a model fitted on some subset."""

    @abstractmethod
    def set_parameters(
        self, model: BaseEstimator, vector: FloatArray, population: Population
    ) -> None:
        """Write a vector into a shell."""

    def shell(self, estimator: BaseEstimator, population: Population) -> BaseEstimator:
        """Return an estimator in the fitted state that knows of no subset."""
        return _made_up_fit(estimator, population)

    def of_one_class(self, place: int, rows: int, population: Population) -> FloatArray | None:
        """Return the vector of a subset with one class only, or None if the learner copes."""
        del place, rows, population
        return None


def _made_up_fit(estimator: BaseEstimator, population: Population) -> BaseEstimator:
    """Fit on a few rows that are the same for every population of this shape."""
    model = with_public_coins(clone(estimator))
    groups = 2 if population.classes is None else len(population.classes)
    width = population.features.shape[1]
    rows = np.sin(np.arange(1.0, 4 * groups * width + 1)).reshape(-1, width)
    target: Labels
    if population.classes is not None:
        target = np.repeat(population.classes, 4)
    elif population.target is not None and population.target.ndim == 2:
        target = np.cos(np.arange(1.0, len(rows) * population.outputs + 1)).reshape(len(rows), -1)
    else:
        target = np.cos(np.arange(1.0, len(rows) + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, target)
    return model


class _Linear(Adapter):
    """Coefficients, then intercepts if the model has them.

    ``softmax``: rows are scores up to a common shift, so they are centred, and an absent class has
    zeros: the mean score, which the largest present score is never below.  Otherwise one score per
    class against the rest, and an absent class has the constant score -1, its own perfect fit.
    """

    def __init__(self, *, softmax: bool = False) -> None:
        self.softmax = softmax

    def dimension(self, estimator: BaseEstimator, population: Population) -> int:
        width = population.features.shape[1] + bool(estimator.fit_intercept)
        return population.outputs * int(width)

    def parameters(self, model: BaseEstimator, population: Population) -> FloatArray:
        table = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        if model.fit_intercept:
            heights = np.broadcast_to(np.ravel(model.intercept_), (len(table),))
            table = np.column_stack([table, heights])
        if population.classes is not None and population.outputs > 1:
            table = self._every_class(table, model, population.classes)
        return np.asarray(table.ravel())

    def _every_class(self, table: FloatArray, model: BaseEstimator, classes: Labels) -> FloatArray:
        if len(table) == 1:
            # A binary fit has one row of scores: the second class's, minus that of the first.
            table = np.vstack([-table, table]) / (2.0 if self.softmax else 1.0)
        full = np.zeros((len(classes), table.shape[1]))
        if not self.softmax and model.fit_intercept:
            full[:, -1] = -1.0
        full[np.searchsorted(classes, model.classes_)] = (
            table - table.mean(axis=0) if self.softmax else table
        )
        return full

    def of_one_class(self, place: int, rows: int, population: Population) -> FloatArray | None:
        # The logarithm of the odds with one made-up member of the other side, or the perfect ±1.
        height = float(np.log(rows + 1.0)) if self.softmax else 1.0
        width = population.features.shape[1] + 1
        table = np.zeros((population.outputs, width))
        if population.outputs == 1:
            table[0, -1] = height if place else -height
        else:
            table[:, -1] = 0.0 if self.softmax else -1.0
            table[place, -1] = height
            table[:, -1] -= table[:, -1].mean() if self.softmax else 0.0
        return table.ravel()

    def set_parameters(
        self, model: BaseEstimator, vector: FloatArray, population: Population
    ) -> None:
        table = vector.reshape(population.outputs, -1)
        flat = np.ndim(model.coef_) == 1
        if model.fit_intercept:
            heights = table[:, -1].copy()
            model.intercept_ = float(heights[0]) if np.ndim(model.intercept_) == 0 else heights
            table = table[:, :-1]
        model.coef_ = table[0].copy() if flat else table.copy()


class _GaussianBayes(Adapter):
    """Class means, logarithms of variances, and logarithms of smoothed class shares.

    An absent class has the population's mean and variance.  Shares are (members + ½)/(rows + K/2);
    given ``priors`` are not released.
    """

    def dimension(self, estimator: BaseEstimator, population: Population) -> int:
        width = 2 * population.features.shape[1] + (estimator.priors is None)
        return len(_classes(population)) * int(width)

    def parameters(self, model: BaseEstimator, population: Population) -> FloatArray:
        classes = _classes(population)
        there = np.searchsorted(classes, model.classes_)
        means, floor = population.features.mean(axis=0), self._floor(population)
        theta = np.tile(means, (len(classes), 1))
        spread = np.tile(np.maximum(population.features.var(axis=0), floor), (len(classes), 1))
        counts = np.zeros(len(classes))
        theta[there], counts[there] = model.theta_, model.class_count_
        spread[there] = np.maximum(model.var_, floor)
        parts = [theta.ravel(), np.log(spread).ravel()]
        if model.priors is None:
            parts.append(np.log((counts + 0.5) / (counts.sum() + 0.5 * len(classes))))
        return np.concatenate(parts)

    @staticmethod
    def _floor(population: Population) -> FloatArray:
        spread = population.features.var(axis=0)
        # A constant feature gets the share of the widest one, or of 1.
        return np.asarray(
            _LEAST_VARIANCE * np.where(spread > 0, spread, float(spread.max()) or 1.0)
        )

    def set_parameters(
        self, model: BaseEstimator, vector: FloatArray, population: Population
    ) -> None:
        groups, width = len(_classes(population)), population.features.shape[1]
        theta, spread, shares = np.split(vector, [groups * width, 2 * groups * width])
        model.theta_ = theta.reshape(groups, width).copy()
        model.var_ = np.exp(_cut(spread)).reshape(groups, width)
        if model.priors is None:
            weights = np.exp(_cut(shares - shares.max()))
            model.class_prior_ = weights / weights.sum()
        model.epsilon_ = 0.0


class _Centres(Adapter):
    """Centres of k-means, every fit started from public centres and put into their order.

    The public centres are those of the whole population; without them a relabelling of the clusters
    would look like a large movement.
    """

    def __init__(self) -> None:
        self._reference: FloatArray | None = None

    def reference(self, estimator: BaseEstimator, population: Population) -> FloatArray:
        """Return the population's centres."""
        if self._reference is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = with_public_coins(clone(estimator)).fit(population.features)
            self._reference = np.array(model.cluster_centers_, dtype=np.float64)
        return self._reference

    def prepared(self, estimator: BaseEstimator, population: Population) -> BaseEstimator:
        start = self.reference(estimator, population)
        model = with_public_coins(clone(estimator))
        return model.set_params(init=start, n_init=1)

    def dimension(self, estimator: BaseEstimator, population: Population) -> int:
        return int(estimator.n_clusters) * int(population.features.shape[1])

    def parameters(self, model: BaseEstimator, population: Population) -> FloatArray:
        del population
        centres = np.asarray(model.cluster_centers_, dtype=np.float64)
        start = np.asarray(model.init, dtype=np.float64)
        cost = np.square(start[:, None, :] - centres[None, :, :]).sum(axis=2)
        return np.asarray(centres[linear_sum_assignment(cost)[1]].ravel())

    def set_parameters(
        self, model: BaseEstimator, vector: FloatArray, population: Population
    ) -> None:
        model.cluster_centers_ = vector.reshape(-1, population.features.shape[1]).copy()
        # Attributes that prediction does not need are cleared.
        model.labels_ = np.zeros(0, dtype=np.int32)
        model.inertia_ = float("nan")

    def shell(self, estimator: BaseEstimator, population: Population) -> BaseEstimator:
        groups, width = int(estimator.n_clusters), population.features.shape[1]
        rows = np.arange(1.0, groups * width + 1).reshape(groups, width)
        return with_public_coins(clone(estimator)).set_params(init=rows, n_init=1).fit(rows)


@dataclass(frozen=True, eq=False)
class PairAdapter(Adapter):
    """A user's own pair: ``parameters(model) -> vector`` and ``set_parameters(model, vector)``.

    The model that ``set_parameters`` fills was fitted on made-up rows, so it must overwrite all
    that matters for predictions.  The vector must have the same length on every subset.
    """

    read: Callable[[BaseEstimator], ArrayLike]
    write: Callable[[BaseEstimator, FloatArray], object]

    def dimension(self, estimator: BaseEstimator, population: Population) -> int:
        """Return the length on the shell."""
        return int(self.parameters(self.shell(estimator, population), population).size)

    def parameters(self, model: BaseEstimator, population: Population) -> FloatArray:
        """Call the user's function."""
        del population
        return np.ravel(np.asarray(self.read(model), dtype=np.float64))

    def set_parameters(
        self, model: BaseEstimator, vector: FloatArray, population: Population
    ) -> None:
        """Call the user's function."""
        del population
        self.write(model, vector)


#: What a user may give: an Adapter, or anything with the two functions.
EstimatorAdapter = Adapter | object


def adapter_for(estimator: BaseEstimator, own: EstimatorAdapter | None = None) -> Adapter:
    """Return the adapter of an estimator, or wrap a user's.

    Out of the box: LogisticRegression, Ridge, LinearRegression, RidgeClassifier, LinearSVC,
    GaussianNB, KMeans.  ``given`` is an :class:`Adapter`, an object with ``parameters`` and
    ``set_parameters``, or a pair of such functions.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> people = Population(np.eye(5)[:, :2], np.arange(5.0))
        >>> adapter = adapter_for(Ridge())
        >>> adapter.dimension(Ridge(), people)
        3
    """
    if isinstance(own, Adapter):
        return own
    if isinstance(own, tuple) and len(own) == 2 and all(callable(f) for f in own):
        return PairAdapter(*own)
    if own is not None:
        pair = [getattr(own, name, None) for name in ("parameters", "set_parameters")]
        if not all(callable(f) for f in pair):
            raise InputError(
                "adapter must have functions parameters(model) and set_parameters(model, vector), "
                f"got {own!r}."
            )
        return PairAdapter(*pair)  # type: ignore[arg-type]
    name = type(estimator).__name__
    home = type(estimator).__module__.partition(".")[0]
    if home == "sklearn" and name in _MAKERS:
        return _MAKERS[name]()
    raise InputError(
        f"estimator must be one of {', '.join(sorted(_MAKERS))}, or come with an adapter (or with "
        f"query rows), got {name}. Put scalers before HalfPrivate, not inside."
    )


_MAKERS: dict[str, Callable[[], Adapter]] = {
    "GaussianNB": _GaussianBayes,
    "KMeans": _Centres,
    "LinearRegression": _Linear,
    "LinearSVC": _Linear,
    "LogisticRegression": lambda: _Linear(softmax=True),
    "Ridge": _Linear,
    "RidgeClassifier": _Linear,
}


def _classes(population: Population) -> Labels:
    if population.classes is None:
        raise InputError("target must have classes for naive Bayes, got none.")
    return population.classes


def _cut(logarithms: FloatArray) -> FloatArray:
    return np.asarray(np.clip(logarithms, -_LARGEST_LOGARITHM, _LARGEST_LOGARITHM))


# ── Statistics of fitted estimators: what fitting on a subset of the population yields ────────────


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """The parameter vector of an estimator fitted on a subset: a Statistic.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> from memberbound.release.half.parameters import adapter_for
        >>> people = Population(np.arange(6.0)[:, None], np.arange(6.0))
        >>> slope, height = FittedParameters.of(Ridge(alpha=1e-9), people)(np.arange(4))
        >>> round(float(slope), 6), abs(round(float(height), 6))
        (1.0, 0.0)
    """

    estimator: BaseEstimator
    adapter: Adapter
    population: Population
    dimension: int

    @classmethod
    def of(
        cls, estimator: BaseEstimator, population: Population, adapter: Adapter | None = None
    ) -> FittedParameters:
        """Prepare an unfitted estimator."""
        how = adapter_for(estimator, adapter)
        size = how.dimension(estimator, population)
        return cls(how.prepared(estimator, population), how, population, size)

    def fitted(self, rows: Rows) -> BaseEstimator:
        """Return a fresh fit on these records."""
        people = self.population
        model = clone(self.estimator)
        if people.target is None:
            return model.fit(people.features[rows])
        return model.fit(people.features[rows], people.target[rows])

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and return the vector."""
        people = self.population
        if people.classes is not None and people.target is not None:
            present = np.unique(people.target[rows])
            if len(present) == 1:
                place = int(np.searchsorted(people.classes, present[0]))
                fixed = self.adapter.of_one_class(place, len(rows), people)
                if fixed is not None:
                    # The last column is the intercept's; without an intercept the vector is zero.
                    return fixed if fixed.size == self.dimension else np.zeros(self.dimension)
        return self.adapter.parameters(self.fitted(rows), people)

    @cached_property
    def _shell(self) -> BaseEstimator:
        return self.adapter.shell(self.estimator, self.population)

    def model(self, vector: FloatArray) -> BaseEstimator:
        """Return an estimator with this vector, which knows nothing else of any subset."""
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError("a released parameter vector must be finite and of the right length.")
        shell = copy.deepcopy(self._shell)
        self.adapter.set_parameters(shell, vector, self.population)
        return shell


def clipped_rows(rows: FloatArray, radius: float | None) -> FloatArray:
    """Scale every row that is longer than the radius to that length; None leaves all as they are.

    Examples:
        >>> clipped_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 2.5).tolist()
        [[1.5, 2.0], [0.3, 0.4]]
    """
    if radius is None:
        return rows
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.where(lengths > radius, radius / np.maximum(lengths, radius), 1.0))


# ── Private predictions on a fixed query set, for learners without a parameter vector ─────────────
#
# The release is the table of predicted probabilities (or numbers) on public query rows.  The answer
# to any other row would be a second release, so it is refused.


class PredictionTable(BaseEstimator):  # type: ignore[misc]
    """Released answers: what a model says about the rows of ``query``, and about no other.

    ``table`` has a row per query row: one column for two classes (the second one's probability) or
    for a regression, else a column per class.  It is noisy; ``predict_proba`` maps it to
    probabilities, which is post-processing.

    Examples:
        >>> table, names = np.array([[0.75], [-0.2]]), np.array(["no", "yes"])
        >>> answers = PredictionTable(np.eye(2), table, names)
        >>> answers.predict(np.eye(2)).tolist(), answers.predict_proba(np.eye(2)).tolist()
        (['yes', 'no'], [[0.25, 0.75], [1.0, 0.0]])
    """

    def __init__(self, query: FloatArray, table: FloatArray, classes: Labels | None = None) -> None:
        self.query = query
        self.table = table
        self.classes = classes

    def _answers(self, rows: ArrayLike) -> FloatArray:
        wanted = np.asarray(rows, dtype=np.float64)
        if wanted.ndim != 2 or wanted.shape[1] != self.query.shape[1]:
            raise InputError(
                f"rows must have {self.query.shape[1]} columns, got shape {wanted.shape!r}."
            )
        # Adding 0.0 makes -0.0 and 0.0 the same bytes.
        places = {row.tobytes(): place for place, row in enumerate(self.query + 0.0)}
        numbers = [places.get(row.tobytes()) for row in np.ascontiguousarray(wanted + 0.0)]
        missing = sum(place is None for place in numbers)
        if missing:
            raise InputError(
                f"rows must be among the {len(self.query)} released query rows, got {missing} that "
                "are not. An answer to another row would be a second release: put it into query=."
            )
        return np.asarray(self.table[np.array(numbers, dtype=np.int64)])

    def predict(self, rows: ArrayLike) -> Labels:
        """Return classes or numbers."""
        answers = self._answers(rows)
        if self.classes is None:
            return answers[:, 0] if answers.shape[1] == 1 else answers
        return np.asarray(self.classes[_probabilities(answers).argmax(axis=1)])

    def predict_proba(self, rows: ArrayLike) -> FloatArray:
        """Return probabilities of the classes."""
        answers = self._answers(rows)
        if self.classes is None:
            raise AttributeError("a regression has no predict_proba.")
        return _probabilities(answers)


def _probabilities(answers: FloatArray) -> FloatArray:
    """Return the nearest probabilities: rows projected onto the simplex."""
    if answers.shape[1] == 1:
        second = np.clip(answers, 0.0, 1.0)
        return np.hstack([1.0 - second, second])
    # Euclidean projection: subtract the threshold at which the positive parts add up to one.
    order = -np.sort(-answers, axis=1)
    sums = np.cumsum(order, axis=1) - 1.0
    ranks = np.arange(1, answers.shape[1] + 1)
    count = (order * ranks > sums).sum(axis=1)
    threshold = np.take_along_axis(sums, count[:, None] - 1, 1) / count[:, None]
    return np.asarray(np.maximum(answers - threshold, 0.0))


@dataclass(frozen=True, eq=False)
class FittedPredictions:
    """Predictions on ``query`` of an estimator fitted on a subset, flattened: a Statistic.

    ``asked`` is the query as published; ``query`` the same rows as the estimator gets them.
    """

    estimator: BaseEstimator
    population: Population
    query: FloatArray
    asked: FloatArray

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        population: Population,
        query: FloatArray,
        asked: FloatArray | None = None,
    ) -> FittedPredictions:
        """Prepare an unfitted estimator."""
        if query.ndim != 2 or len(query) == 0 or query.shape[1] != population.features.shape[1]:
            raise InputError(
                f"query must be rows of {population.features.shape[1]} features, "
                f"got shape {query.shape!r}."
            )
        published = query if asked is None else asked
        return cls(with_public_coins(clone(estimator)), population, query, published)

    @property
    def dimension(self) -> int:
        """Query rows times released columns."""
        return len(self.query) * self.population.outputs

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and answer the query."""
        people = self.population
        if people.target is None:
            raise InputError("y must be given for private predictions, got None.")
        target, classes = people.target[rows], people.classes
        if classes is not None and len(np.unique(target)) == 1:
            # Many learners refuse a single class; its probability is 1.
            answers = np.tile(classes == target[0], (len(self.query), 1)).astype(np.float64)
            return self._columns(answers)
        model = clone(self.estimator).fit(people.features[rows], target)
        if classes is None:
            return np.ravel(np.asarray(model.predict(self.query), dtype=np.float64))
        answers = np.zeros((len(self.query), len(classes)))
        if hasattr(model, "predict_proba"):
            present = np.searchsorted(classes, model.classes_)
            answers[:, present] = model.predict_proba(self.query)
        else:
            predicted = np.searchsorted(classes, model.predict(self.query))
            answers[np.arange(len(predicted)), predicted] = 1.0
        return self._columns(answers)

    @staticmethod
    def _columns(answers: FloatArray) -> FloatArray:
        return np.ravel(answers[:, 1:] if answers.shape[1] == 2 else answers)

    def model(self, vector: FloatArray) -> PredictionTable:
        """Return the table of answers with this vector."""
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError("released predictions must be finite and of the right length.")
        table = vector.reshape(len(self.query), -1).copy()
        return PredictionTable(self.asked.copy(), table, self.population.classes)


# ── Which statistic an estimator releases: its parameters or its predictions ──────────────────────


class Learnable(Statistic, Protocol):
    """A Statistic from whose vector a model can be made."""

    def model(self, vector: FloatArray) -> BaseEstimator:
        """Return a model with this vector that knows nothing else of any subset."""
        ...
