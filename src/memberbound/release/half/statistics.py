"""Statistics of a subset that can be released: sums, other numbers, linear models, predictions.

Sums are calibrated here, exactly; all others by refitting.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from memberbound.errors import InputError, SearchError
from memberbound.games import SubsetGame
from memberbound.learners.learner import Labels
from memberbound.learners.trained import available_if
from memberbound.numerics.roots import confirmed, least_scale
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up
from memberbound.quantities import Certificate, significant
from memberbound.release.calibration import Calibration
from memberbound.release.half.fitting import (
    Rows,
    check_eta,
    subset_assumptions,
    with_public_coins,
)
from memberbound.release.noise import GaussianNoise, floating_point_slack
from memberbound.subset.gaussian import NoisySum, noise_on_query
from memberbound.subset.population_record import digest_of_rows
from memberbound.subset.profile import checked_table, clipped
from memberbound.subset.record_bounds import eta_from_success
from memberbound.tables.cells import Intervals
from memberbound.threads import no_warnings

# ── Sums over the training set: calibrated exactly, without sampling and without retraining ───────
#
# Replacing one record changes the sum by v_x - v_x', whatever the rest of the training set.  So the
# neighbour profile gives X1's mean for every record, and the certificate always holds.

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
#: Format of a sum's record; recomputing the noise needs the table.
SUM_FORMAT = "memberbound-sum/1"


@dataclass(frozen=True, eq=False)
class SumStatistic:
    """The exact sum of the subset's rows of ``vectors``, divided by ``size``.

    ``size`` 1 gives a sum, the number of records drawn a mean.  Dividing hides nothing (L24-L14),
    so the noise is calibrated on the sum, as in ``population``.

    Examples:
        >>> SumStatistic(np.array([[1.0], [2.0], [4.0]]))(np.array([0, 2])).tolist()
        [5.0]
    """

    vectors: FloatArray
    names: tuple[str, ...] = field(default=())
    size: int = 1

    def __post_init__(self) -> None:
        table = checked_table("vectors", self.vectors).copy()
        table.setflags(write=False)
        object.__setattr__(self, "vectors", table)

    @property
    def dimension(self) -> int:
        """Number of released coordinates."""
        return int(self.vectors.shape[1])

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the sum over these records, or their mean."""
        return np.array([math.fsum(column) for column in self.vectors[rows].T]) / self.size

    @property
    def rounding(self) -> float:
        """Upper bound on the distance between ``size`` times the value and the exact sum."""
        # fsum rounds once, and so does the division: half an ulp of at most Σ|v| each.
        sizes = np.abs(self.vectors).sum(axis=0)
        return up(float(np.linalg.norm(sizes)) * UNIT * 2.02, 64)


def calibrate_sum(
    statistic: SumStatistic, game: SubsetGame, *, eta: float, crowd: bool = False
) -> Calibration:
    """Find the least Gaussian noise on Σ_{x∈D} v_x, certified without sampling.

    The coupling only compares neighbouring training sets.  With ``crowd``, the sum over the other
    members counts as noise too: it is nearly normal, and the smaller of the two bounds applies to
    each record.

    Guarantee: no attack gains more than ``eta`` over the likelier answer, on the average record or
    on every record, as the game specifies: always, not with some confidence.
    Theorem: X1, L24-P12; X9 for a sum that is one number; X21 for the crowd (proofs/crowd.md).
    Assumes: the training set is a uniform subset of the game's size; noise is drawn once.
    Numerics: the bound was evaluated, rounded up, at the returned scale, which is that of
    :class:`~memberbound.subset.gaussian.NoisySum`, the search of ``population``, plus an allowance
    for floating-point draws and the rounding of the sum.  It is within about 1e-12 of the least
    noise; with the crowd, within 1e-4 (1e-3 for one number).
    Edge cases: equal vectors need no noise (η = 0, proved), nor do vectors of which so few differ
    that η holds without noise; a vacuous η of min(k/N, 1 - k/N) or more is rejected; the crowd
    never increases the noise, and has no effect if it is too small for its columns.

    Examples:
        >>> noise = calibrate_sum(total([0.0, 1.0, 2.0, 3.0]), SubsetGame(4, 2, "average"), eta=0.1)
        >>> round(noise.noise_scale, 2), noise.certificate.confidence, noise.fits
        (2.38, 1.0, 0)
    """
    goal = check_eta(eta, game)
    if len(statistic.vectors) != game.population:
        raise InputError(
            f"vectors must have one row for each of the {game.population} records, "
            f"got {len(statistic.vectors)}."
        )
    if game.population < 4:
        raise InputError(f"population must have at least 4 records, got {game.population!r}.")
    # For one number the exact mixtures, for the worst record, are already optimal.
    pays = crowd and (statistic.dimension > 1 or game.record == "average")
    noisy = NoisySum.of(statistic.vectors, game, crowd=pays)
    theorems = ("X1", "L24-P12") if statistic.dimension > 1 else ("X1", "L24-P12", "X9")
    law = GaussianNoise(0.0, statistic.dimension)
    note = ""
    if noisy.profile.diameter == 0.0:
        value = 0.0
        note = "No noise is needed: the statistic is the same on all subsets."
    elif (silent := _silent_gain(statistic.vectors, game)) <= goal:
        value = silent
        note = (
            "No noise is needed: swapping a record changes the statistic too rarely for any "
            "attacker to gain more than eta from the bare one."
        )
    else:
        law, value, hidden = _least(statistic, noisy, goal)
        theorems = ("X21", *theorems) if hidden else theorems
    certificate = Certificate(
        "eta",
        value,
        "upper",
        game,
        theorems,
        subset_assumptions(
            game,
            noisy=law.rms > 0,
            sampled=False,
            coins="The statistic is a function of the training set alone.",
        ),
    )
    details: dict[str, object] = {
        "scale": law.scale,
        "derivation": {"format": SUM_FORMAT, "rows_sha256": digest_of_rows(statistic.vectors)},
    }
    details |= {"note": note} if note else {}
    return Calibration(law, certificate, goal, "crowd" if crowd else "sum", 0, details)


def _silent_gain(vectors: FloatArray, game: SubsetGame) -> float:
    """Return an upper bound on the gain without noise: any swap of unequal records is visible."""
    _, which, counts = np.unique(vectors + 0.0, axis=0, return_inverse=True, return_counts=True)
    unequal = (len(vectors) - counts[which.ravel()]) / (len(vectors) - 1)
    share = unequal.max() if game.record == "every" else unequal.mean()
    return up(float(share) * game.largest_gain * (1 + sum_slack(len(vectors))), 16)


def _least(
    statistic: SumStatistic, noisy: NoisySum, goal: float
) -> tuple[GaussianNoise, float, bool]:
    """Return the noise of ``population`` plus an allowance for floating point.

    Also return the gain, and whether the crowd reduced it.
    """
    game, slack = noisy.game, floating_point_slack(GaussianNoise(1.0, statistic.dimension))

    def total(bounded: NoisySum, sigma: float) -> float:
        gain = float(eta_from_success(np.array([bounded.worst_success(sigma)]), game)[0])
        # An error of r in the sum moves each of the two worlds by at most r/(σ√(2π)): ½·2 of that.
        off = statistic.rounding / (sigma * _ROOT_TWO_PI)
        return up(gain + slack + off, 16)

    target, without = game.blind + goal, replace(noisy, crowd=None)
    try:
        ideal = noisy.noise_for_success(target)
        if noisy.crowd is not None and ideal >= without.noise_for_success(target):
            # With hundreds of columns, each evaluation of the crowd takes seconds.
            noisy = without
        try:
            sigma = confirmed(lambda s: total(noisy, s), goal, ideal)
        except SearchError:
            # Rounding takes much of η: search for more noise by coupling alone.
            sigma = least_scale(lambda s: total(noisy.coupling, s) - goal, ideal)
    except (SearchError, InputError):
        raise InputError(
            f"eta must be above what floating-point noise of this dimension and size adds, "
            f"got {goal!r}. Centre the vectors or ask for less."
        ) from None
    law = GaussianNoise(noise_on_query(sigma, statistic.size), statistic.dimension)
    gain = total(noisy, sigma)
    return law, gain, noisy.crowd is not None and gain < total(without, sigma)


# ── Statistics of a population's subsets: means, sums, histograms, covariances, quantiles, others ─
#
# Sums over records are :class:`SumStatistic` and are calibrated exactly; the others use the
# calibrators that refit.  All other inputs (edges, categories) are public.


def total(data: ArrayLike, names: tuple[str, ...] = ()) -> SumStatistic:
    """Return the sum."""
    return SumStatistic(checked_table("data", data), names)


def mean(data: ArrayLike, *, size: int | None = None, names: tuple[str, ...] = ()) -> SumStatistic:
    """Return the mean over ``size`` records (default: half of them)."""
    rows = checked_table("data", data)
    return SumStatistic(rows, names, len(rows) // 2 if size is None else size)


def histogram(
    data: ArrayLike, *, bins: ArrayLike | None = None, categories: Sequence[str] = ()
) -> SumStatistic:
    """Return counts of numbers between the edges ``bins``, or of the given ``categories``.

    The last bin contains its right edge; values outside all bins or categories are not counted.
    """
    values: Labels = np.asarray(data)
    if bins is None:
        counts = values[:, None] == np.array(categories)
        return SumStatistic(counts.astype(np.float64), tuple(categories))
    edges = np.asarray(bins, dtype=np.float64)
    cells = Intervals(edges, "closed", text=partial(significant, side="given"))
    counts = cells.index_of(np.asarray(values, dtype=np.float64))[:, None] == np.arange(cells.count)
    return SumStatistic(counts.astype(np.float64), tuple(map(cells.label, range(cells.count))))


def covariance(data: ArrayLike, *, size: int | None = None) -> SumStatistic:
    """Return the upper triangle of the covariance matrix about the population's mean, row by row.

    The mean is public in the subset game, so the covariance is a mean of products of deviations
    from it.
    """
    table = checked_table("data", data)
    first, second = np.triu_indices(table.shape[1])
    centred = table - table.mean(axis=0)
    return mean(centred[:, first] * centred[:, second], size=size)


@dataclass(frozen=True, eq=False)
class CallableStatistic:
    """A Statistic: ``function`` of the chosen rows of ``data``, flattened."""

    data: Labels
    function: Callable[[Labels], ArrayLike]
    dimension: int

    def __call__(self, rows: Rows) -> FloatArray:
        """Return the function's value on these records."""
        return np.ravel(np.asarray(self.function(self.data[rows]), dtype=np.float64))


def quantiles(data: ArrayLike, levels: Sequence[float]) -> CallableStatistic:
    """Return the quantiles of every column at the given levels, ordered by level."""
    return callable_statistic(checked_table("data", data), partial(np.quantile, q=levels, axis=0))


def callable_statistic(
    data: ArrayLike, function: Callable[[Labels], ArrayLike]
) -> CallableStatistic:
    """Wrap any function of the selected rows; its output length is taken from the first rows.

    Examples:
        >>> callable_statistic([1.0, 2.0, 4.0, 8.0], np.max)(np.array([0, 2])).tolist()
        [4.0]
    """
    table: Labels = np.asarray(data)
    if not callable(function):
        raise InputError(f"function must be callable, got {function!r}.")
    # Only the length is used; the first rows are public like all rows.
    first = np.ravel(np.asarray(function(table[: (len(table) + 1) // 2]), dtype=np.float64))
    if first.size == 0:
        raise InputError("function must return at least one number.")
    return CallableStatistic(table, function, int(first.size))


# ── A fitted linear model as a vector of numbers, and back ────────────────────────────────────────
#
# The vector has the same length for every subset: classes are the population's, and a class absent
# from a subset gets fixed values.  The inverse fills a *shell*: an estimator fitted on a few
# made-up rows, so that nothing of the secret fit but the released vector reaches it.

#: Estimators of scikit-learn with releasable coefficients and intercepts.
_LINEAR = ("LinearRegression", "LinearSVC", "LogisticRegression", "Ridge", "RidgeClassifier")


@dataclass(frozen=True, eq=False)
class Population:
    """All records: features, target, and the classes of a classification."""

    features: FloatArray
    target: Labels
    classes: Labels | None = None

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.features)

    @property
    def outputs(self) -> int:
        """Outputs of a linear model per row: one per class beyond two classes, else one."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)


@dataclass(frozen=True, eq=False)
class FittedParameters:
    """A Statistic: coefficients and intercepts of a linear model fitted on a subset.

    Scores of logistic regression are defined up to a common shift.  With several classes they are
    centred, and an absent class gets zeros: the mean score, which is never above the largest score
    of a present class.  Other models have one-versus-rest scores, and an absent class gets the
    constant score -1, its own perfect fit.

    Examples:
        >>> from sklearn.linear_model import Ridge
        >>> people = Population(np.arange(6.0)[:, None], np.arange(6.0))
        >>> slope, height = FittedParameters.of(Ridge(alpha=1e-9), people)(np.arange(4))
        >>> round(float(slope), 6), abs(round(float(height), 6))
        (1.0, 0.0)
    """

    estimator: BaseEstimator
    population: Population

    @classmethod
    def of(cls, estimator: BaseEstimator, population: Population) -> FittedParameters:
        """Prepare an unfitted estimator."""
        name = type(estimator).__name__
        if type(estimator).__module__.partition(".")[0] != "sklearn" or name not in _LINEAR:
            raise InputError(
                f"estimator must be one of {', '.join(_LINEAR)}, or come with query rows, got "
                f"{name}. Put scalers before HalfPrivate, not inside."
            )
        return cls(with_public_coins(clone(estimator)), population)

    @property
    def dimension(self) -> int:
        """Outputs times features, plus one intercept per output."""
        width = self.population.features.shape[1] + bool(self.estimator.fit_intercept)
        return self.population.outputs * int(width)

    @property
    def _softmax(self) -> bool:
        return type(self.estimator).__name__ == "LogisticRegression"

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and return the vector."""
        people = self.population
        features, target = people.features[rows], people.target[rows]
        present = target[:0] if people.classes is None else np.unique(target)
        if len(present) == 1:  # a learner may refuse a single class
            table = np.zeros((1, self.dimension // people.outputs))
            if self.estimator.fit_intercept:
                # The log-odds with one made-up record of the other class, or a perfect 1.
                table[0, -1] = np.log(len(rows) + 1.0) if self._softmax else 1.0
        else:
            model = clone(self.estimator).fit(features, target)
            table = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
            if model.fit_intercept:
                heights = np.broadcast_to(np.ravel(model.intercept_), (len(table),))
                table = np.column_stack([table, heights])
        if people.classes is not None:
            table = self._of_all_classes(table, np.searchsorted(people.classes, present))
        return np.asarray(table.ravel())

    def _of_all_classes(self, table: FloatArray, present: Rows) -> FloatArray:
        """Return the scores of all classes, from those of the present ones."""
        if self.population.outputs == 1:
            return -table if present.tolist() == [0] else table
        if len(present) == 2:
            # A binary fit has one row of scores: the second class's minus the first's.
            table = np.vstack([-table, table]) / (2.0 if self._softmax else 1.0)
        full = np.zeros((self.population.outputs, table.shape[1]))
        if self._softmax:
            full[present] = table - (table.mean(axis=0) if len(present) > 1 else 0.0)
            return full - (full.mean(axis=0) if len(present) == 1 else 0.0)
        if self.estimator.fit_intercept:
            full[:, -1] = -1.0
        full[present] = table
        return full

    @cached_property
    def _shell(self) -> BaseEstimator:
        """Return a fit on a few rows that are the same for every population of this shape."""
        classes, width = self.population.classes, self.population.features.shape[1]
        count = 8 if classes is None else 4 * len(classes)
        rows = np.sin(np.arange(1.0, count * width + 1)).reshape(count, width)
        target = np.cos(np.arange(1.0, count + 1)) if classes is None else np.repeat(classes, 4)
        with no_warnings:
            return clone(self.estimator).fit(rows, target)

    def model(self, vector: FloatArray) -> BaseEstimator:
        """Return an estimator with this vector that depends on no subset otherwise."""
        model = copy.deepcopy(self._shell)
        table = vector.reshape(self.population.outputs, -1)
        flat = np.ndim(model.coef_) == 1
        if model.fit_intercept:
            heights = table[:, -1].copy()
            model.intercept_ = float(heights[0]) if np.ndim(model.intercept_) == 0 else heights
            table = table[:, :-1]
        model.coef_ = table[0].copy() if flat else table.copy()
        return model


def clip_rows(rows: FloatArray, radius: float | None) -> FloatArray:
    """Clip rows to the norm ``radius``; None leaves them unchanged."""
    return rows if radius is None else clipped(rows, radius).vectors


# ── Private predictions on a fixed query set, for learners without a parameter vector ─────────────
#
# The release is the table of predicted probabilities (or numbers) on public query rows.  Answering
# any other row would be a second release, so it is refused.


class PredictionTable(BaseEstimator):  # type: ignore[misc]
    """Released predictions for the rows of ``query``, and for no others.

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
        indices = {row.tobytes(): index for index, row in enumerate(self.query + 0.0)}
        numbers = [indices.get(row.tobytes()) for row in np.ascontiguousarray(wanted + 0.0)]
        missing = sum(index is None for index in numbers)
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
            return answers[:, 0]
        return np.asarray(self.classes[_probabilities(answers).argmax(axis=1)])

    @available_if(lambda self: self.classes is not None)
    def predict_proba(self, rows: ArrayLike) -> FloatArray:
        """Return probabilities of the classes."""
        return _probabilities(self._answers(rows))


def _probabilities(answers: FloatArray) -> FloatArray:
    """Convert noisy answers to probabilities: clip to [0, 1] and normalise."""
    cut = np.clip(answers, 0.0, 1.0)
    if answers.shape[1] == 1:
        return np.hstack([1.0 - cut, cut])
    cut = np.where(cut.sum(axis=1, keepdims=True) > 0, cut, 1.0)
    return np.asarray(cut / cut.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class FittedPredictions:
    """A Statistic: predictions on ``query`` of an estimator fitted on a subset, flattened.

    The query rows are clipped like those of the population.
    """

    estimator: BaseEstimator
    population: Population
    query: FloatArray
    clip: float | None

    @classmethod
    def of(
        cls,
        estimator: BaseEstimator,
        population: Population,
        query: FloatArray,
        clip: float | None = None,
    ) -> FittedPredictions:
        """Prepare an unfitted estimator."""
        if query.ndim != 2 or len(query) == 0 or query.shape[1] != population.features.shape[1]:
            raise InputError(
                f"query must be rows of {population.features.shape[1]} features, "
                f"got shape {query.shape!r}."
            )
        return cls(with_public_coins(clone(estimator)), population, query, clip)

    @property
    def dimension(self) -> int:
        """Query rows times released columns."""
        return len(self.query) * self.population.outputs

    def __call__(self, rows: Rows) -> FloatArray:
        """Fit on these records and predict the query rows."""
        people = self.population
        target, classes = people.target[rows], people.classes
        if classes is not None and len(np.unique(target)) == 1:
            # Many learners reject a single class; its probability is 1.
            answers = np.tile(classes == target[0], (len(self.query), 1)).astype(np.float64)
            return self._columns(answers)
        model = clone(self.estimator).fit(people.features[rows], target)
        query = clip_rows(self.query, self.clip)
        if classes is None:
            return np.ravel(np.asarray(model.predict(query), dtype=np.float64))
        answers = np.zeros((len(self.query), len(classes)))
        if hasattr(model, "predict_proba"):
            present = np.searchsorted(classes, model.classes_)
            answers[:, present] = model.predict_proba(query)
        else:
            predicted = np.searchsorted(classes, model.predict(query))
            answers[np.arange(len(predicted)), predicted] = 1.0
        return self._columns(answers)

    @staticmethod
    def _columns(answers: FloatArray) -> FloatArray:
        return np.ravel(answers[:, 1:] if answers.shape[1] == 2 else answers)

    def model(self, vector: FloatArray) -> PredictionTable:
        """Return the prediction table with this vector."""
        table = vector.reshape(len(self.query), -1).copy()
        return PredictionTable(self.query.copy(), table, self.population.classes)


#: Statistics with a vector that can be converted back into a model.
Learnable = FittedParameters | FittedPredictions
