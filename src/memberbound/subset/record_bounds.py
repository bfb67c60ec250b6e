"""Certified bounds for every record of a population, for any mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from memberbound.errors import InputError, SearchError, fraction
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, double_above, double_below, up
from memberbound.quantities import Side, significant

#: The quantity that a target limits: ε̃, or the success of any attack.
Target = Literal["target_pmp", "target_success"]
#: The parameter that sets the noise: ε, σ, or a target.
Asked = Literal["epsilon", "sigma", "target_pmp", "target_success"]


def eta_from_success(success: FloatArray, game: SubsetGame) -> FloatArray:
    """Return η = accuracy - max(k/N, 1 - k/N) per record, rounded up (I24-D1).

    Numerics: the blind guess is rounded down before subtraction; if it is a double, as at k = N/2,
    the result is exact.
    """
    gain = np.asarray(success, dtype=np.float64) - _blind_guess(game)[0]
    # The difference of two numbers in [½, 1] is exact (Sterbenz).
    return np.asarray(np.maximum(gain, 0.0), dtype=np.float64)


def average_success(success: FloatArray) -> float:
    """Return the success bound of the average record, rounded up."""
    # The exact sum is rounded once, and the mean once again.
    return min(1.0, up(math.fsum(success.tolist()) / success.size, 1))


def _blind_guess(game: SubsetGame) -> tuple[float, float]:
    """Return max(k/N, 1 - k/N) as doubles, rounded down and rounded up."""
    size, total = int(game.size), int(game.population)
    exact = Fraction(max(size, total - size), total)
    return double_below(exact), double_above(exact)


@dataclass(frozen=True, eq=False)
class RecordBounds:
    """Upper bounds for every record of the population, at one mechanism.

    Guarantee: for every record x both hockey-sticks between P_in,x and P_out,x at e^ε are at most
    ``delta``, ε = ``pmp_epsilon[x]``, possibly ∞ (L24-D2); no attack on x is right more often than
    ``success[x]`` at the prior k/N (I24-P2), and ``eta[x]`` is its gain over the blind guess.

    Numerics: ``success`` is clipped to between the blind guess, which every attacker reaches, and
    1, so a bound that lost its last digit still holds.
    """

    game: SubsetGame
    delta: float
    pmp_epsilon: FloatArray
    success: FloatArray
    method: str
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    confidence: float = 1.0

    def __post_init__(self) -> None:
        fraction("delta", self.delta)
        fraction("confidence", self.confidence, open_left=True)
        shape = (self.game.population,)
        for name in ("pmp_epsilon", "success"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.shape != shape or np.isnan(values).any() or (values < 0).any():
                raise InputError(f"{name} must hold {shape[0]} numbers of at least 0.")
            if name == "success":
                values = np.clip(values, _blind_guess(self.game)[1], 1.0)
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @property
    def eta(self) -> FloatArray:
        """Gain over the blind guess, per record."""
        return eta_from_success(self.success, self.game)

    @property
    def worst_record(self) -> int:
        """Index of a record with the largest success bound, ties broken by ε."""
        return int(self.by_exposure[0])

    @property
    def pmp_epsilon_upper(self) -> float:
        """ε̃: the mechanism is (ε̃, δ)-PMP for this population."""
        return float(self.pmp_epsilon.max())

    @property
    def eta_upper(self) -> float:
        """η of Membership Inference Privacy: the worst record's."""
        return float(self.eta.max())

    @property
    def success_upper(self) -> float:
        """Upper bound on the success of any attack on any record."""
        return float(self.success.max())

    def reached(self, quantity: Target) -> float:
        """Return the quantity that a target limits: ε̃ or success of the worst record."""
        return self.pmp_epsilon_upper if quantity == "target_pmp" else self.success_upper

    @property
    def by_exposure(self) -> NDArray[np.intp]:
        """Return the records by exposure: by success, largest first, with ties broken by ε."""
        return np.lexsort((self.pmp_epsilon, self.success))[::-1]

    def tightened(self, other: RecordBounds) -> RecordBounds:
        """Return the smaller of two valid bounds for every record.

        A method that gives no smaller bound is not named.
        """
        if (self.game, self.delta) != (other.game, other.delta):
            raise InputError("two bounds must be about the same game and δ to be combined.")
        if min(self.confidence, other.confidence) < 1:
            raise InputError("two bounds must hold without sampling to be combined.")
        if (other.success >= self.success).all() and (other.pmp_epsilon >= self.pmp_epsilon).all():
            return self
        return RecordBounds(
            self.game,
            self.delta,
            np.minimum(self.pmp_epsilon, other.pmp_epsilon),
            np.minimum(self.success, other.success),
            f"{self.method} and {other.method}",
            tuple(dict.fromkeys(self.theorems + other.theorems)),
            tuple(dict.fromkeys(self.assumptions + other.assumptions)),
        )


@dataclass(frozen=True)
class Comparison:
    """Success bounds of three attackers at one ε, with decreasing knowledge.

    ``coupled`` is the bound on the last attacker from coupling alone (L24-P12), if a smaller one is
    known.
    """

    epsilon: float
    worst_case: float
    population: float
    practical: float
    coupled: float | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """A mechanism, given or calibrated to a target, with its certified bounds.

    ``coupled`` are the bounds from coupling alone, if others are smaller.
    """

    epsilon: float
    epsilon_population: float
    bounds: RecordBounds
    compared: Comparison
    sigma: float | None = None
    coupled: RecordBounds | None = None


def short_decimal(value: float, side: Side, holds: Callable[[float], bool]) -> float:
    """Return a short decimal at or beyond ``value`` on one side that satisfies ``holds``.

    >>> short_decimal(0.12345678, "upper", lambda x: True)
    0.123457
    """
    share = 1e-6 if side == "upper" else -1e-6
    for _ in range(40):
        short = float(significant(value, side))
        if holds(short):
            return short
        value = short * (1 + share)
        share *= 1.5
    raise SearchError(f"the result of the search, {value!r}, did not meet the target again.")
