"""The exponential mechanism over a finite set of candidates and a decomposable loss (L24-D7).

The loss of a data set is the mean of its records' losses, so candidate w is released with
probability proportional to a product over the records: P(w given D) ∝ exp(Σ_{x∈D} score(x, w)) with
score = -ε·loss/(2Δk).  What this says about the records of a population is computed by
:mod:`memberbound.subset.enumeration` (every subset) and by sampling where there are too many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError, nonnegative, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, down, up
from memberbound.subset.distances import checked_table, clipped

__all__ = ["ExponentialMechanism", "clip_sensitivity", "l2_losses"]

#: Fewest records of a population: with fewer, some record's set holds it alone or all others.
_FEWEST = 4
#: A given Δ may fall short of the population's by this factor: 1/3 is not a double.
_ROUNDING_ALLOWANCE = 1e-12
#: Rates and ε(X) beyond this many orders of magnitude are refused: doubles end near 1e±308.
_LEAST_NUMBER = 1e-280


def l2_losses(records: ArrayLike, candidates: ArrayLike) -> FloatArray:
    """Return the (N, m) distances from every record to every candidate.

    Their mean over a data set is the loss of the geometric median (L24 §5).
    Numerics: to about d/2 + 2 roundings, without the cancellation of the ‖x‖² - 2x·w + ‖w‖² form.

    Examples:
        >>> l2_losses([[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0]]).tolist()
        [[0.0], [5.0]]
    """
    rows, targets = checked_table("records", records), checked_table("candidates", candidates)
    if rows.shape[1] != targets.shape[1]:
        raise InputError(
            f"candidates must be of the records' dimension {rows.shape[1]}, "
            f"got {targets.shape[1]}. Give one column per column of the records."
        )
    distances = np.empty((len(rows), len(targets)))
    for place, target in enumerate(targets):
        distances[:, place] = np.linalg.norm(rows - target, axis=1)
    return distances


def clip_sensitivity(candidates: ArrayLike, radius: float, size: int) -> float:
    """Return Δ of the mean distance when every record has norm at most ``radius``, from above.

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
            these doubles as they stand.
        size: k, the number of records in a data set.
        epsilon: ε of L24-D7; 0 releases a uniform candidate.
        sensitivity: Δ of L24-D7, over all data sets and not only those inside the population.

    Edge cases: records with equal losses are told apart by their row.  Losses that move the mean by
    more than ``sensitivity`` inside the population are refused, because ε-DP would be false; so are
    losses and ε of such a size that ε/(2Δk) or ε(X) leaves the range of doubles.

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
                "A record hides among the others of its population."
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
        object.__setattr__(
            self,
            "sensitivity",
            positive(
                "sensitivity", self.sensitivity, "A loss that never moves needs no mechanism."
            ),
        )
        if self.population_sensitivity > self.sensitivity * (1 + _ROUNDING_ALLOWANCE):
            raise InputError(
                f"sensitivity must be at least {self.population_sensitivity!r}, how far the mean "
                f"loss moves inside this population, got {self.sensitivity!r}. With less, the "
                "mechanism is not ε-DP; raise it, or clip the records."
            )
        if self.epsilon > 0 and self.population_sensitivity > 0:
            # Below, scores would lose digits or vanish, and every bound would rest on them.
            tame = _LEAST_NUMBER < self.rate < 1 / _LEAST_NUMBER
            if not (tame and self.epsilon_population > _LEAST_NUMBER):
                raise InputError(
                    f"epsilon/(2·sensitivity·size) and epsilon inside the population must be above "
                    f"{_LEAST_NUMBER!r} (or epsilon 0), got {self.rate!r} and "
                    f"{self.epsilon_population!r}. Change the unit of the losses."
                )

    # ---- construction ---------------------------------------------------------------------

    @classmethod
    def geometric_median(
        cls,
        records: ArrayLike,
        candidates: ArrayLike,
        *,
        size: int,
        epsilon: float,
        clip: float | None = None,
        sensitivity: float | None = None,
    ) -> ExponentialMechanism:
        """Return the mechanism that looks for the candidate nearest to the records on average.

        With ``clip`` the records are first scaled into the ball of that radius, and Δ follows from
        it (:func:`clip_sensitivity`) unless ``sensitivity`` is given.
        """
        rows = checked_table("records", records)
        if clip is not None:
            rows = clipped(rows, positive("clip", clip)).vectors
        losses = l2_losses(rows, candidates)
        if sensitivity is None:
            if clip is None:
                raise InputError(
                    "sensitivity must be given when there is no clip radius: the distance to a "
                    "record of any norm is unbounded. Give clip or sensitivity."
                )
            sensitivity = clip_sensitivity(candidates, clip, size)
        return cls(losses, size, epsilon, sensitivity)

    @classmethod
    def calibrated_to_population(
        cls, losses: ArrayLike, *, size: int, epsilon_population: float, sensitivity: float
    ) -> ExponentialMechanism:
        """Return the mechanism whose ε(X) is the given one: ε = ε(X)·Δ/Δ(X).

        This is how L24 sets its figures.
        Numerics: ε is rounded down, so that ``epsilon_population`` read back does not exceed it.
        """
        target = nonnegative("epsilon_population", epsilon_population)
        blank = cls(np.asarray(losses, dtype=np.float64), size, 0.0, sensitivity)
        if blank.population_sensitivity == 0.0:
            raise InputError(
                "losses must differ between records to calibrate to them; all rows are equal, so "
                "the release says nothing about anybody at any ε."
            )
        scale = blank.sensitivity / blank.population_sensitivity
        return replace(blank, epsilon=max(0.0, down(target * scale, 16)))

    # ---- what it is -----------------------------------------------------------------------

    @property
    def game(self) -> SubsetGame:
        """Uniform subsets of ``size`` of the N records."""
        return SubsetGame(len(self.losses), self.size)

    @property
    def candidates(self) -> int:
        """m, how many candidates there are."""
        return int(self.losses.shape[1])

    @property
    def rate(self) -> float:
        """ε/(2Δk), the weight of one unit of one record's loss; to three roundings."""
        return self.epsilon / (2 * self.sensitivity * self.size)

    @cached_property
    def scores(self) -> FloatArray:
        """(N, m): -ε·loss/(2Δk), so that P(w given D) ∝ exp(Σ_{x∈D} scores[x, w])."""
        return np.asarray(-self.rate * self.losses, dtype=np.float64)

    @cached_property
    def centred_scores(self) -> FloatArray:
        """``scores`` up to a constant per record, which cancels in P: every row's middle is 0.

        The shift is taken on the losses, so that a large common part costs no digits: every entry
        is within five roundings of its own value.
        """
        middle = self.losses.max(axis=1) / 2 + self.losses.min(axis=1) / 2
        return np.asarray(-self.rate * (self.losses - middle[:, None]), dtype=np.float64)

    @cached_property
    def population_sensitivity(self) -> float:
        """Δ(X): how far the mean loss moves when a record of X replaces another, from above."""
        high, low = self.losses.max(axis=0).tolist(), self.losses.min(axis=0).tolist()
        spread = max(Fraction(h) - Fraction(g) for h, g in zip(high, low, strict=True))
        moved = float(spread / self.size)
        # Exact where it is a double, so that Δ = Δ(X) can be given.
        return moved if Fraction(moved) * self.size >= spread else math.nextafter(moved, math.inf)

    @property
    def epsilon_population(self) -> float:
        """ε(X) = ε·Δ(X)/Δ, from above: the DP parameter between data sets inside X (L24-L8)."""
        return up(self.epsilon * (self.population_sensitivity / self.sensitivity), 4)

    def log_probabilities(self, members: NDArray[np.intp]) -> FloatArray:
        """Return ln P(w given D), (B, m), for B data sets of row numbers, (B, k); to rounding."""
        total = self.centred_scores[members].sum(axis=1)
        total -= total.max(axis=1, keepdims=True)
        return np.asarray(total - np.log(np.exp(total).sum(axis=1, keepdims=True)))
