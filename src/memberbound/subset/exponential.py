"""The exponential mechanism over a finite set of candidates and a decomposable loss (L24-D7).

The loss of a data set is the mean of its records' losses, so candidate w is released with
probability proportional to a product over the records: P(w given D) ∝ exp(Σ_{x∈D} score(x, w)) with
score = -ε·loss/(2Δk).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, nonnegative, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, FloatArray, double_above, down, up
from memberbound.subset.distances import checked_table

#: Minimum population; in a smaller one, some data set would be a single record or all others.
_FEWEST = 4
#: A given Δ may be below the population's by this factor, because 1/3 is not a double.
_ROUNDING_ALLOWANCE = 1e-12
#: Rates and ε(X) beyond this many orders of magnitude are rejected, as doubles end near 1e±308.
_LEAST_NUMBER = 1e-280


def l2_losses(records: ArrayLike, candidates: ArrayLike) -> FloatArray:
    """Return the (N, m) distances from every record to every candidate.

    Their mean over a data set is the loss of the geometric median (L24 §5).
    Numerics: accurate to about d/2 + 2 roundings, without the cancellation of ‖x‖² - 2x·w + ‖w‖².
    """
    rows, targets = checked_table("records", records), checked_table("candidates", candidates)
    if rows.shape[1] != targets.shape[1]:
        raise InputError(
            f"candidates must be of the records' dimension {rows.shape[1]}, "
            f"got {targets.shape[1]}. Give one column per column of the records."
        )
    distances = np.empty((len(rows), len(targets)))
    for index, target in enumerate(targets):
        distances[:, index] = np.linalg.norm(rows - target, axis=1)
    return distances


def clip_sensitivity(candidates: ArrayLike, radius: float, size: int) -> float:
    """Return an upper bound on Δ of the mean distance for records of norm at most ``radius``.

    Theorem: L24-D7.  The distance from a record in the ball of radius C to w lies between
    max(0, ‖w‖ - C) and ‖w‖ + C and reaches both, so replacing one of k records moves the mean by at
    most max_w [(‖w‖ + C) - max(0, ‖w‖ - C)]/k = (C + min(C, max_w ‖w‖))/k.
    Numerics: rounded up by more than the rounding of the norms and distances.

    Examples:
        >>> round(clip_sensitivity([[0.0], [3.0]], radius=10.0, size=2), 12)
        6.5
    """
    reach = positive("radius", radius)
    targets = checked_table("candidates", candidates)
    count = whole_number("size", size)
    farthest = float(np.linalg.norm(targets, axis=1).max())
    return up((reach + min(reach, farthest)) / count, targets.shape[1] + 16)


@dataclass(frozen=True, eq=False)
class ExponentialMechanism:
    """The exponential mechanism on subsets of ``size`` of the N records of a population.

    Guarantee: ``epsilon``-DP, replace-one (L24-L8), if the mean loss of no candidate moves by more
    than ``sensitivity`` when one record of *any* data set is replaced; between data sets inside the
    population it is ``epsilon_population``-DP.

    Attributes:
        losses: (N, m), the loss of every record at every candidate.  The mechanism is the one with
            exactly these doubles.
        size: k, the number of records in a data set.
        epsilon: ε of L24-D7; 0 releases a uniform candidate.
        sensitivity: Δ of L24-D7, over all data sets and not only those inside the population.

    Edge cases: records with equal losses are distinguished by their row.  Losses that move the mean
    by more than ``sensitivity`` inside the population are rejected, because ε-DP would be false; so
    are losses and ε for which ε/(2Δk) or ε(X) leaves the range of doubles.

    Examples:
        >>> losses = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
        >>> mechanism = ExponentialMechanism(losses, size=2, epsilon=2.0, sensitivity=1.0)
        >>> mechanism.population_sensitivity, round(mechanism.epsilon_population, 12)
        (0.5, 1.0)
    """

    losses: FloatArray
    size: int
    epsilon: float
    sensitivity: float

    def __post_init__(self) -> None:
        losses = checked_table("losses", self.losses).copy()
        if np.ndim(self.losses) != 2:
            raise InputError("losses must be a table of records × candidates, got one column.")
        if len(losses) < _FEWEST:
            raise InputError(
                f"losses must be of at least {_FEWEST} records, got {len(losses)}. "
                "Other records of the population hide a record."
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(np.ptp(losses)):
                raise InputError("losses must differ by finite numbers, got larger ones.")
        losses.setflags(write=False)
        object.__setattr__(self, "losses", losses)
        size = whole_number("size", self.size)
        object.__setattr__(self, "size", size)
        SubsetGame(len(losses), size)
        object.__setattr__(self, "epsilon", nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "sensitivity", positive("sensitivity", self.sensitivity))
        if self.population_sensitivity > self.sensitivity * (1 + _ROUNDING_ALLOWANCE):
            raise InputError(
                f"sensitivity must be at least {self.population_sensitivity!r}, how far the mean "
                f"loss moves inside this population, got {self.sensitivity!r}. With less, the "
                "mechanism is not ε-DP; raise it, or clip the records."
            )
        if self.epsilon > 0 and self.population_sensitivity > 0:
            # Below this, scores would lose digits or vanish, and all bounds depend on them.
            tame = _LEAST_NUMBER < self.rate < 1 / _LEAST_NUMBER
            if not (tame and self.epsilon_population > _LEAST_NUMBER):
                raise InputError(
                    f"epsilon/(2·sensitivity·size) and epsilon inside the population must be above "
                    f"{_LEAST_NUMBER!r} (or epsilon 0), got {self.rate!r} and "
                    f"{self.epsilon_population!r}. Change the unit of the losses."
                )

    @classmethod
    def calibrated_to_population(
        cls, losses: ArrayLike, *, size: int, epsilon_population: float, sensitivity: float
    ) -> ExponentialMechanism:
        """Return the mechanism with the given ε(X), that is, with ε = ε(X)·Δ/Δ(X).

        L24 sets its figures this way.
        Numerics: ε is rounded down, so that ``epsilon_population`` read back does not exceed it.
        """
        target = nonnegative("epsilon_population", epsilon_population)
        blank = cls(np.asarray(losses, dtype=np.float64), size, 0.0, sensitivity)
        if blank.population_sensitivity == 0.0:
            raise InputError(
                "losses must differ between records to calibrate to them; all rows are equal, so "
                "the release reveals nothing about any record at any ε."
            )
        scale = blank.sensitivity / blank.population_sensitivity
        return replace(blank, epsilon=max(0.0, down(target * scale, 16)))

    @property
    def game(self) -> SubsetGame:
        """Uniform subsets of ``size`` of the N records."""
        return SubsetGame(len(self.losses), self.size)

    @property
    def rate(self) -> float:
        """ε/(2Δk), the weight of one unit of a record's loss, to three roundings."""
        return self.epsilon / (2 * self.sensitivity * self.size)

    @cached_property
    def scores(self) -> CentredScores:
        """The scores -ε·loss/(2Δk) without their common parts."""
        return CentredScores.of(self)

    @cached_property
    def population_sensitivity(self) -> float:
        """Δ(X), an upper bound on the change of the mean loss when records of X are exchanged."""
        high, low = self.losses.max(axis=0).tolist(), self.losses.min(axis=0).tolist()
        spread = max(Fraction(h) - Fraction(g) for h, g in zip(high, low, strict=True))
        # Exact if it is a double, so that Δ = Δ(X) can be given.
        return double_above(spread / self.size)

    @property
    def epsilon_population(self) -> float:
        """ε(X) = ε·Δ(X)/Δ, rounded up: the DP parameter between data sets inside X (L24-L8)."""
        return up(self.epsilon * (self.population_sensitivity / self.sensitivity), 4)


@dataclass(frozen=True, eq=False)
class CentredScores:
    """Scores without their common parts, with bounds on their rounding errors.

    Σ_{x∈D} score(x, w) = Σ_{x∈D} ``values``[x, w] + ``base``[w] + (the same for every w): a
    constant per record cancels in P, and one per candidate is the same for all data sets.
    ``error``[w] bounds the error of the sum over any D, ``base_error``[w] that of the base;
    ``reach`` bounds the absolute value of such a sum.
    """

    values: FloatArray
    base: FloatArray
    reach: float
    error: FloatArray
    base_error: FloatArray

    @classmethod
    def of(cls, mechanism: ExponentialMechanism) -> CentredScores:
        """Subtract the constants exactly, so that large common parts cost no digits."""
        size, losses, rate = mechanism.size, mechanism.losses, mechanism.rate
        middle = losses.max(axis=1) / 2 + losses.min(axis=1) / 2
        rows, rows_tail = _difference(losses, middle[:, None])
        typical = np.median(rows, axis=0)
        both, both_tail = _difference(rows, typical[None, :])
        again = both.max(axis=1) / 2 + both.min(axis=1) / 2
        left, left_tail = _difference(both, again[:, None])
        values = -rate * (left + (rows_tail + both_tail + left_tail))
        base = -rate * size * (typical - typical.min())
        reach = _largest_sum(values, size)
        # A value has four rounding errors: two of the rate, the last sum, the product.  Adding up k
        # of them in any order, each half separately, costs k more, which leaves a margin of four.
        error = (size + 8) * UNIT * reach
        # The tails are a rounding of the parts; adding the three of them costs two roundings more.
        tails = np.abs(rows_tail) + np.abs(both_tail) + np.abs(left_tail)
        error = error + 4 * UNIT * rate * _largest_sum(tails, size)
        return cls(values, base, float(reach.max()), error, 6 * UNIT * np.abs(base))


def _largest_sum(values: FloatArray, size: int) -> FloatArray:
    """Return, per column, the sum of the ``size`` largest absolute values, which bounds D's sum."""
    largest = np.partition(np.abs(values), len(values) - size, axis=0)[len(values) - size :]
    return np.asarray(largest.sum(axis=0))


def _difference(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a rounded difference and its exact rounding error (Knuth's two-sum)."""
    total = first - second
    part = total - first
    return total, (first - (total - part)) - (second + part)
