"""Trade-off curves of DP-SGD: T steps of the Poisson-sampled Gaussian mechanism.

Lattices of different spacing all give valid support lines, so the spacing is refined until the
bound stops improving, and every line found on the way is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from memberbound.curve import GaussianCurve, TradeoffCurve, polygon_from_lines
from memberbound.dp.loss_lattice import ForwardProfile
from memberbound.dp.subsampled_gaussian import Direction, loss_spread, one_step
from memberbound.errors import fraction, positive, whole_number
from memberbound.games import Adjacency
from memberbound.numerics.rounding import UNIT

__all__ = ["DpSgd"]

#: First spacing of the lattice relative to the spread of one step's loss, and its refinement.
_FIRST_STEP = 0.2
_REFINE = 4.0
#: Spacing that is fine enough by itself once a record is expected in this many steps.
_KNOWN_STEP = 0.05
_MANY_HITS = 5.0
#: The error falls with the square of the spacing, so a change below this means about a fifteenth
#: of it is left.
_CONVERGED = 6e-3
_ROUNDS = 4
#: Where all losses round to zero, any spacing will do.
_LEAST_SPREAD = 1e-200
#: Below this noise the mechanism betrays every sampled record to double precision and beyond.
_NO_NOISE = 2e-3
#: Read-offs that decide whether the bound still improves.
_WATCHED_FPR = (0.1, 1e-2, 1e-3)


@dataclass(frozen=True)
class DpSgd:
    """Parameters of DP-SGD: noise multiplier σ, Poisson sampling rate q, number of steps T.

    The sum of clipped gradients over a Poisson sample gets Gaussian noise of standard deviation
    σ times the clipping norm, T times; all T noisy sums are released.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int

    def __post_init__(self) -> None:
        positive(
            "noise_multiplier",
            self.noise_multiplier,
            "Without noise there is no bound; use at least 0.01.",
        )
        fraction("sample_rate", self.sample_rate, open_left=True)
        object.__setattr__(self, "steps", whole_number("steps", self.steps))

    @property
    def sampled_probability(self) -> float:
        """Probability 1 - (1-q)^T that a record is used at all, from above."""
        if self.sample_rate == 1.0:
            return 1.0
        return min(1.0, -math.expm1(self.steps * math.log1p(-self.sample_rate)) * (1 + 8 * UNIT))

    def curve(self, adjacency: Adjacency = "add-remove") -> TradeoffCurve:
        """Return the curve of "record in" against "record out" (add/remove) or replaced.

        Guarantee: at or above the exact curve, rounding and Fourier error included.
        Theorem: dominating pairs compose (Zhu, Dong and Wang 2022); for replace-one the pair is
        proved in ``proofs/replace-one-sampled-gaussian.md``.
        Numerics: within about 0.1 % of the truth for usual parameters.
        Edge cases: q = 1 is exactly Gaussian DP with μ = √T/σ (2√T/σ for replace-one).
        """
        if self.sample_rate == 1.0:
            mu = math.sqrt(self.steps) / self.noise_multiplier * (1 + 4 * UNIT)
            return GaussianCurve(mu if adjacency == "add-remove" else 2 * mu)
        if adjacency == "add-remove":
            ahead = self.profile("remove")
            behind = self.profile("add")
        else:
            ahead = behind = self.profile("replace")
        return polygon_from_lines(ahead.epsilon, ahead.delta, behind.epsilon, behind.delta)

    def symmetric_curve(self) -> TradeoffCurve:
        """Return a curve at or above "in against out" and "out against in" under add/remove.

        DP speaks of both orders at once; see :meth:`TradeoffCurve.symmetrised`.
        """
        if self.sample_rate == 1.0:
            return self.curve("add-remove")
        lines = self.profile("remove").worse(self.profile("add"))
        return polygon_from_lines(lines.epsilon, lines.delta, lines.epsilon, lines.delta)

    def profile(self, direction: Direction) -> ForwardProfile:
        """Return support lines for one ordered pair of worlds."""
        return _profile(self.noise_multiplier, self.sample_rate, self.steps, direction)


def _certain_lines(sigma_free: DpSgd, direction: Direction) -> ForwardProfile:
    """Lines that hold whatever the noise.

    With probability (1-q)^T the record is never sampled and the two worlds agree, so hockey-sticks
    never exceed s = 1 - (1-q)^T; and N(0) is at most (1-q)^{-T} times the mixture.
    """
    sampled = sigma_free.sampled_probability
    lines = ForwardProfile(np.array([0.0]), np.array([sampled]))
    if direction == "add":
        reach = -sigma_free.steps * math.log1p(-sigma_free.sample_rate) * (1 + 8 * UNIT)
        return lines.meet(ForwardProfile(np.array([reach]), np.array([0.0])))
    return lines


@lru_cache(maxsize=64)
def _profile(sigma: float, q: float, steps: int, direction: Direction) -> ForwardProfile:
    lines = _certain_lines(DpSgd(sigma, q, steps), direction)
    if sigma < _NO_NOISE:
        return lines
    spread = max(loss_spread(sigma, q, direction), _LEAST_SPREAD)
    # With many sampled steps the total is nearly normal, and a spacing of f times one step's spread
    # adds at most f²/4 of its variance: no second lattice is needed to know that it is fine enough.
    known = q * steps >= _MANY_HITS
    spacing = spread * (_KNOWN_STEP if known else _FIRST_STEP)
    before: np.ndarray | None = None
    for _ in range(1 if known else _ROUNDS):
        lattice = one_step(sigma, q, direction, spacing)
        found = lattice.composed_profile(steps)
        if found.advantage >= 1.0 and before is not None:
            break  # the window would not fit in memory; coarser lattices have said what they can
        lines = lines.meet(found)
        now = np.array([found.advantage, *(found.tpr(a) - a for a in _WATCHED_FPR)])
        if before is not None and np.all(before - now <= _CONVERGED * np.abs(now)):
            break
        before, spacing = now, spacing / _REFINE
    # Hockey-sticks fall with ε, so each line may use every δ to its left.
    return ForwardProfile(lines.epsilon, np.minimum.accumulate(lines.delta))
