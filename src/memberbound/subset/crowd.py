"""The crowd hides the record: noisy sums in any dimension (X21, proofs/crowd.md).

The release is Σ_{i∈D} v_i + N(0, τ²I), D a uniform subset of N known records.  Whoever attacks
record x does not know which of the others are in D, and their sum is nearly normal: with c the mean
of the others and V = τ²I + the covariance of their part of the sum, the two worlds are N(±δ, V),
δ = (v_x - c)/2, up to an error that is computed here.  So x hides behind V, not behind τ²I alone.

* :class:`CrowdTable` holds what does not depend on the noise;
* :class:`Crowd` adds the noise: one distance r per record and one :class:`NormalError` per group of
  records; everything else (success, ε̃) is read from these.

Other subsets than halves are halves of a random part of the records (step 9 of the proof).
Nothing is sampled, so nothing holds with a confidence below one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.curve.base import price_exponent
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import IidGame, SubsetGame
from memberbound.numerics.means import mean_upper
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up, up_array
from memberbound.quantities import Certificate
from memberbound.subset.profile import (
    NeighbourProfile,
    checked_vectors,
    largest_entry,
    noise_on_sum,
)
from memberbound.subset.record_bounds import RecordBounds

THEOREMS = ("X21", "I24-P2", "L24-D2")
ASSUMPTIONS = (
    "The subset is uniform among all subsets of its size, and the attacker knows the population "
    "but nothing else about the subset.",
    "Independent noise N(0, σ²) is added to every coordinate of the sum or mean, and nothing else "
    "about this subset is released (L24-Dis1).",
    "Every row is one record, also where two rows are equal.",
)

#: Every computed sum of non-negative terms is raised by this share: far above what rounding loses.
_SLACK = 1e-9
#: Leverages: records are grouped by the first of these at or above theirs.
_LEVELS = (0.01, 0.04, 0.12, 0.3, 0.6)
#: Degrees of the expansion that are bounded one by one.
_DEGREES = 56
#: Parts of the records, by their distance from the centre, that far frequencies are left to.
_PARTS = (
    1.0, 0.999, 0.998, 0.996, 0.993, 0.99, 0.985, 0.98, 0.975, 0.97, 0.965, 0.96, 0.95, 0.94, 0.92,
    0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1,
)  # fmt: skip
#: cos x ≤ 1 - αx² + (α/β)x⁴ for all x (proofs/crowd.md, step 7).
_COSINES = ((0.5, 12.0), (0.438, 18.0), (0.285, 25.0), (0.169, 30.0), (0.106, 33.0), (0.051, 36.0))
#: Share of the cosines' decay that is used; the rest keeps the tilt integrable.
_SHARES = (0.3, 0.6, 0.85, 0.95)
#: Shares of the steepest possible tilt towards a shell that are tried.
_TILTS = np.array([0.1, 0.3, 0.5, 0.7, 0.85, 0.95])[:, None]
#: Angles that part the main arc from the outer one, and weights of the quartic (step 6).
_ARCS = (0.35, 0.5, 0.78)
#: How many metrics of the frequencies are tried.
_METRICS = 4
_WEIGHTS = np.array([0.1, 0.25, 0.5, 1.0])
#: Beyond so many columns fewer parts and multiples are tried: eigenvalues cost more, and each
#: choice gives a bound.
_MANY_COLUMNS = 64
#: From so many columns on fourth moments are bounded through second ones.
_MOST_PRODUCTS = 700
#: Multiplications that the exact fourth moment may cost; it is computed for every amount of noise.
_MOST_WORK = 2e9
_BLOCK = 1 << 21
#: From so many terms on numpy adds them in another order than one by one.
_SHORT = 8
#: Beyond, e^ε times any error is above 1.
_MOST_EPSILON = 500.0
#: The least noise, in units of the largest entry, that is looked at.
_LEAST = 1e-60
#: Fewer records than this times (columns + 10) hide nobody, whatever the noise: not looked at.
_FEWEST = 3
#: Log of what a shell may hold without being looked at again.
_NEGLIGIBLE = -50.0
#: Where k ≠ N/2: the probability that what is left of the records is not as usual, and how many
#: things are asked of it (step 9).
_MISSED, _EVENTS = 1e-6, 3


# ── What does not depend on the noise ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class CrowdTable:
    """Half the centred records in the eigenbasis of their scatter, times a power of two.

    ``scatter`` holds the eigenvalues; the scatter of the exact records is within ``rounding`` of
    diagonal and of them, and every row within ``offset`` of its exact place.
    """

    game: SubsetGame
    halves: FloatArray
    scatter: FloatArray
    exponent: int
    rounding: float
    offset: float

    @classmethod
    def of(cls, records: ArrayLike, game: SubsetGame) -> CrowdTable:
        """Centre and rotate the records: divergences are invariant under both."""
        table = checked_vectors(records)
        count, columns = table.shape
        if count != game.population:
            raise InputError(
                f"records must be {game.population} rows, one per record, got {count!r}."
            )
        exponent = math.frexp(largest_entry(table))[1]
        with np.errstate(under="ignore"):
            halves = np.ldexp(table, -exponent)  # now of size at most one
        halves -= halves.mean(axis=0)
        halves /= 2
        scatter, basis = np.linalg.eigh(halves.T @ halves)
        trace = float(_weighted_squares(halves, np.ones(columns)).sum())
        # The mean of N numbers of size at most one, a difference and a rotation.
        offset = 2 * (count + 64 * columns) * UNIT * math.sqrt(columns)
        # Sums of N products of such rows, and the residual of the eigenvectors.
        slack = sum_slack(16 * (count + 64 * columns)) * trace
        slack += 2 * offset * math.sqrt(count * trace) + count * offset**2
        for part in _slices(halves):  # in its place
            halves[part] = halves[part] @ basis
        return cls(game, halves, np.maximum(scatter, 0.0), exponent, slack, offset)

    @property
    def half(self) -> int:
        """n: the members, or the others where those are fewer: 2n records hide each other."""
        return min(self.game.size, self.game.population - self.game.size)

    @property
    def removed(self) -> int:
        """How many records stand aside: the target, and one more where N is odd."""
        return 1 + (self.game.population - 2 * self.half == 1)

    @cached_property
    def thinned(self) -> _Thinned | None:
        """The part of the others that is left where more than one record has to be revealed."""
        others, drawn = self.game.population - 1, 2 * self.half - 1
        if others - drawn < 2:
            return None
        log = math.log(_EVENTS * (self.halves.shape[1] + 1) / _MISSED)
        return _Thinned(drawn, others, log)

    @property
    def share(self) -> float:
        """ρ: the share of the others that is left."""
        return 1.0 if self.thinned is None else self.thinned.share

    @property
    def missed(self) -> float:
        """Probability that the bounds below do not hold for the part that is left."""
        return 0.0 if self.thinned is None else _MISSED

    def drift(self, trace: float, longest: float) -> float:
        """How far the sum of the crowd may be from -ρ times the target, at most.

        The target's own crowd is all others, all but one, or a random part of them.
        """
        if self.thinned is None:
            return (self.removed - 1) * longest
        return self.thinned.centre(trace, longest)


@dataclass(frozen=True)
class _Thinned:
    """So many of the others, a uniform subset; how far sums over it are from their means.

    Either holds but for a probability of (d + 1)·e^-log (matrix Bernstein without replacement),
    applied to the sum over the subset or to that over the rest.
    """

    drawn: int
    others: int
    log: float

    @property
    def share(self) -> float:
        """ρ."""
        return self.drawn / self.others

    def _deviation(self, variance: float, largest: float) -> float:
        jump = self.log * largest / 3
        return (jump + math.sqrt(jump**2 + 2 * self.log * variance)) * (1 + _SLACK)

    def scatter(self, squares: float, largest: float) -> float:
        """Of Σyyᵀ ⪯ 1, downwards: Σ|y|²yyᵀ is at most ``squares``, |y|² at most ``largest``."""
        part = self._deviation(self.share * squares, 1 / self.others)
        rest = self._deviation((1 - self.share) * squares, largest)
        return min(part, rest, (self.others - self.drawn) * largest)

    def centre(self, trace: float, longest: float) -> float:
        """Of Σy, in length: Σ|y|² is at most ``trace``, |y| at most ``longest``."""
        return self._deviation(min(self.share, 1 - self.share) * trace, 2 * longest)

    def decay(self, kappa: FloatArray) -> FloatArray:
        """What of κ is left when exp(-κΣ…) is averaged over subsets: ρ(1 - e^-κ)."""
        return np.asarray(-self.share * np.expm1(-kappa) * (1 - _SLACK))


# ── How far the law of the crowd is from the normal law ───────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class NormalError:
    """Norms of the parts of degree 3, 4, … of the density's expansion, and of the rest.

    ``norms[k]`` is the part of degree k: even ones are common to both worlds, odd ones have
    opposite signs in them.  ``rest`` is the norm of all parts from ``len(norms)`` on.
    """

    norms: FloatArray
    rest: float

    @property
    def norm(self) -> float:
        """Norm of the whole: the L¹ distance of either world from its normal law, from above."""
        return math.sqrt(float(np.square(self.norms).sum()) + self.rest**2) * (1 + _SLACK)

    def shift_cost(self, distance: FloatArray) -> FloatArray:
        """Half the L¹ distance of the error's two shifts by ±r, from above (step 5)."""
        r = np.asarray(distance, dtype=np.float64)
        degrees = np.flatnonzero(self.norms > 0)
        # Σ_j r^j √((k+j)!/k!)/j! over odd j for even k and over even j for odd k.
        j = np.arange(0, 64)
        weights = np.zeros(len(j))
        for k in degrees:
            growth = 0.5 * (special.gammaln(k + j + 1) - special.gammaln(k + 1))
            weights += self.norms[k] * np.exp(growth - special.gammaln(j + 1)) * ((j + k) % 2)
        with np.errstate(under="ignore"):
            powers = np.power(np.minimum(r, 1.0)[:, None], j[None, :])
        total = self.rest + powers @ weights
        # The norm itself bounds the same distance, for every r.
        return np.minimum(np.where(r > 1.0, math.inf, total * (1 + _SLACK)), self.norm)


@cache
def _tangent() -> FloatArray:
    """tan(w + θ), tan θ = y, as a series in w (rows) of polynomials in y (columns): t' = 1 + t²."""
    top, width = _DEGREES, _DEGREES + 2
    tangent = np.zeros((top, width))
    tangent[0, 1] = 1.0
    for k in range(top - 1):
        square = sum(
            (np.convolve(tangent[i], tangent[k - i])[:width] for i in range(k + 1)),
            start=np.zeros(width),
        )
        square[0] += k == 0
        tangent[k + 1] = square / (k + 1)
    tangent.setflags(write=False)
    return tangent


def _expansion(records: int, half: int, second: float, fourth: float, longest: float) -> FloatArray:
    """Norms of the parts of degree < :data:`_DEGREES` (step 4 of the proof).

    A majorant in two variables: powers of x (rows) with coefficients that are polynomials in |y|
    (columns), all non-negative; y has density ∝ (1 + y²)^(-n-1).
    """
    top = _DEGREES
    width = top + 2
    tangent = _tangent()
    exponent = np.zeros((top, width))
    exponent[2, 0], exponent[2, 2] = second / (2 * records), second / 2
    for m in range(3, top):
        size = math.sqrt(second * fourth) if m == 3 else fourth * longest ** ((m - 4) / 2)
        exponent[m] += tangent[m - 1] / m * size
    series = np.zeros((top, width))
    series[0, 0] = 1.0
    # Multiplying by m·exponent[m] as a matrix, those of all m side by side.
    lag = np.arange(width)[:, None] - np.arange(width)
    scaled = exponent * np.arange(top)[:, None]
    factors = np.where(lag >= 0, scaled[:, np.maximum(lag, 0)], 0.0)
    factors = factors.transpose(1, 0, 2).reshape(width, top * width)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(2, top):
            # Σ over m = 2, …, k of m·exponent[m]·series[k - m]
            series[k] = factors[:, 2 * width : (k + 1) * width] @ series[k - 2 :: -1].ravel() / k
    power = np.arange(width + 1)
    low = power < half  # moments of order 2n + 1 on do not exist; none is needed
    moments = np.full(width + 1, math.inf)
    # Upwards from E|y|⁰ and from E|y| = Γ(n+1)/(nΓ(½)Γ(n+½)) ≤ √(n + ½)/(n√π) (Wendel): differences
    # of logarithms of the gamma function would lose digits at large n.
    moments[:2] = 1.0, math.sqrt((half + 0.5) / math.pi) / half
    for p in range(width - 1):
        if low[p + 2]:
            moments[p + 2] = moments[p] * (p + 1) / (2 * half - 1 - p)
    degree = np.arange(top)
    with np.errstate(invalid="ignore"):
        even = np.where(series > 0, series * moments[:-1], 0.0).sum(axis=1)
        odd = np.where(series > 0, series * moments[1:], 0.0).sum(axis=1)
    norms = np.exp(0.5 * special.gammaln(degree + 1)) * np.where(degree % 2, odd, even)
    if not np.isfinite(series).all():
        norms[:] = math.inf  # nothing is proved, whatever an infinity was multiplied with
    norms[:3] = 0.0  # one, and what the covariance matches exactly
    return np.asarray(norms * (1 + _SLACK), dtype=np.float64)


# ── One amount of noise ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Crowd:
    """What the others hide of every record, at one amount of noise on the sum.

    Guarantee: for every record x, both hockey-sticks between P_in,x and P_out,x at e^ε are at most
    ``delta(ε)[x]``, hence no attack is right more often than ``success[x]``.
    Theorem: X21 (proofs/crowd.md).
    Assumes: σ does not depend on D.
    Numerics: every sum is raised by 1e-9 and more where the scatter is ill-conditioned.
    Edge cases: where the normal law is not proved to be near, everything is 1 (nothing is proved):
    few records, many columns, next to no noise, or a record that outweighs the others together.
    Where k is not N/2, rounded either way, the crowd is a random part of 2·min(k, N-k) records, and
    the smaller that part, the less is proved (on 20 000 rows of Adult, down to k ≈ 0.3 N).

    Examples:
        >>> rows = np.random.default_rng(1).normal(size=(2000, 2))
        >>> crowd = Crowd.of(rows, SubsetGame(2000, 1000), sigma=4.0)
        >>> float(crowd.success.max()) < 0.56
        True
    """

    table: CrowdTable
    sigma: float

    @classmethod
    def of(cls, records: ArrayLike, game: SubsetGame, sigma: float) -> Crowd:
        """Centre the records and add noise of this σ to their sum."""
        return cls(CrowdTable.of(records, game), positive("sigma", sigma))

    @property
    def game(self) -> SubsetGame:
        """The subset game that is played."""
        return self.table.game

    @property
    def half(self) -> int:
        """n: half of the records among which the target hides, itself included."""
        return self.table.half

    @property
    def crowd(self) -> int:
        """M = 2n - 1: the records among which the target hides."""
        return 2 * self.half - 1

    @cached_property
    def _covariance(self) -> FloatArray:
        """H = τ²I + λ·scatter in its eigenbasis, to within ``_relative_error``."""
        inflation = (self.crowd + 1) / self.crowd
        return np.asarray(self._noise**2 + inflation * self.table.scatter, dtype=np.float64)

    @cached_property
    def _noise(self) -> float:
        """σ in the table's unit; more than the largest helps no further, and less is safe."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.clip(np.ldexp(self.sigma, -self.table.exponent), _LEAST, 1 / _LEAST))

    @cached_property
    def _relative_error(self) -> float:
        """Share by which squares in the metric of H may be too small, or ∞ if unknown."""
        share = 4 * self.table.rounding / self._noise**2 + _SLACK
        return share if share < 1e-3 and self._noise > _LEAST else math.inf

    @cached_property
    def leverage(self) -> FloatArray:
        """q: the squared length of half a record's distance from the centre, in H's metric."""
        length = np.sqrt(_weighted_squares(self.table.halves, 1 / self._covariance))
        length = length + self.table.offset / self._noise
        return np.asarray(np.square(length) * (1 + self._relative_error), dtype=np.float64)

    @cached_property
    def _lost_share(self) -> FloatArray:
        """κ: V ⪰ (1 - κ)H for the crowd of each record (step 3)."""
        return self._lost_share_at(self.leverage)

    def _lost_share_at(self, leverage: FloatArray) -> FloatArray:
        count = self.crowd
        inflation = (count + 1) / count
        if self.table.removed == 2:
            largest = float(self.leverage.max())
            return np.asarray(inflation * (1 + 2 / count) * (leverage + largest) * (1 + _SLACK))
        if self.table.thinned is None:
            return np.asarray(inflation**2 * leverage * (1 + _SLACK))
        if not self._is_applicable:
            return np.ones_like(leverage)
        plan, share = self._plan(0), self.table.share
        lost = self.table.thinned.scatter(plan.squares, float(self.leverage.max()))
        lost = lost + share * leverage + count * np.square(self._centre_shift(leverage))
        left = share + (1 - share) * float(plan.noise.min())
        return np.asarray(1 - left + inflation * lost * (1 + _SLACK))

    def _centre_shift(self, leverage: FloatArray) -> FloatArray:
        """How far the mean of the target's crowd is from that of all, in H's metric, at most."""
        trace, longest = float(self.leverage.sum()), math.sqrt(float(self.leverage.max()))
        drift = self.table.drift(trace, longest)
        return np.asarray((self.table.share * np.sqrt(leverage) + drift) / self.crowd)

    @cached_property
    def distance(self) -> FloatArray:
        """r: half the distance of the two worlds' centres in the metric of V, per record."""
        length = np.sqrt(self.leverage) + self._centre_shift(self.leverage)
        left = 1 - self._lost_share
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = length / np.sqrt(left) * (1 + _SLACK)
        return np.where(left > 0, distance, math.inf)

    @cached_property
    def _costs(self) -> list[tuple[NDArray[np.intp], FloatArray, float]]:
        """Per group: its records, what the shift costs each, and the norm of the error."""
        return [(m, e.shift_cost(self.distance[m]), e.norm) for m, e in self.errors]

    @cached_property
    def errors(self) -> list[tuple[NDArray[np.intp], NormalError]]:
        """Records by leverage, and how far the law of each group's crowd is from normal."""
        groups: list[tuple[NDArray[np.intp], NormalError]] = []
        if not self._is_applicable:
            return groups
        low = -1.0
        for level in _LEVELS:
            mine = np.flatnonzero((self.leverage > low) & (self.leverage <= level))
            low = level
            if mine.size == 0:
                continue
            top = float(self.leverage[mine].max())
            taken = float(self._lost_share_at(np.array([top]))[0])
            if taken < 1:
                error = self._error(top, taken)
                if error is not None:
                    groups.append((mine, error))
        return groups

    @property
    def _is_applicable(self) -> bool:
        """Whether there are enough records, and enough noise for floating point."""
        many = 2 * self.half >= _FEWEST * (len(self._covariance) + 10)
        return many and math.isfinite(self._relative_error)

    @cached_property
    def _plans(self) -> list[_Frequencies]:
        return []

    def _plan(self, place: int) -> _Frequencies:
        """Frequencies in one of the metrics, made when they are asked for."""
        while len(self._plans) <= place:
            self._plans.append(_Frequencies.of(self, len(self._plans)))
        return self._plans[place]

    def _error(self, leverage: float, taken: float) -> NormalError | None:
        """The error for records of at most this leverage."""
        widened, count = 1 / (1 - taken), self.crowd
        longest = float(self.leverage.max())
        aside = float(self._centre_shift(np.array(leverage)))
        second = float(np.linalg.norm(1 - self._plan(0).noise)) * (1 + _SLACK)
        whole, columns = self._plan(0).fourth, math.sqrt(len(self._covariance))
        fourth = whole + 4 * aside * math.sqrt(columns * whole) + 6 * aside**2 * columns
        fourth += 5 * count * aside**4
        fourth *= widened**2 * (1 + _SLACK)
        length = widened * (math.sqrt(longest) + aside) ** 2 * (1 + _SLACK)
        norms = _expansion(count, self.half, second, fourth, length)
        below = np.sqrt(np.cumsum(np.square(norms)))
        best: NormalError | None = None
        for place in range(_METRICS):
            rests = self._plan(place).rests(widened)  # ln of the squared norm from each degree on
            total = below[:-1] + np.exp(np.minimum(0.5 * rests[1:], 300.0))
            degree = int(np.argmin(total)) + 1
            rest = math.exp(min(0.5 * float(rests[degree]), 300.0)) * (1 + _SLACK)
            error = NormalError(norms[:degree], rest)
            if error.norm < (1.0 if best is None else best.norm):
                best = error
            if best is not None and best.rest <= 0.1 * best.norm:
                break
        return best

    # ---- what is read off -----------------------------------------------------------------------

    def delta(self, epsilon: float) -> FloatArray:
        """Return, per record, both hockey-sticks between "in" and "out" at e^ε, from above."""
        result = np.ones(self.game.population)
        if not 0 <= nonnegative("epsilon", epsilon) <= _MOST_EPSILON:
            return result
        for mine, cost, norm in self._costs:
            apart = 2 * self.distance[mine] * (1 + _SLACK)
            normal = gaussian_hockey_stick_of_shifts_upper(apart, epsilon)
            extra = cost + 0.5 * math.expm1(epsilon) * norm
            result[mine] = up_array(normal + extra * (1 + _SLACK) + self.table.missed)
        return np.minimum(result, 1.0)

    @cached_property
    def success(self) -> FloatArray:
        """How often an attack can be right at the prior k/N, per record, from above (I24-P2)."""
        pi = self.game.prior
        stick = self.delta(price_exponent(pi, 1.0)[0])
        return np.minimum(up_array(max(pi, 1 - pi) + min(pi, 1 - pi) * stick), 1.0)

    def pmp_epsilon(self, delta: float) -> FloatArray:
        """Return, per record, an ε at which both hockey-sticks are at most δ, or ∞ (L24-D2)."""
        target = fraction("delta", delta)
        result = np.full(self.game.population, math.inf)
        left = target - self.table.missed
        if left <= 0.0:
            return result
        for mine, cost, norm in self._costs:
            r = self.distance[mine]
            # Distances are rounded up to some levels: the bound grows with them.
            levels = np.unique(np.append(np.geomspace(max(r.min(), 1e-9), r.max(), 48), r.max()))
            epsilons = np.array([_epsilon_of_events(float(level), norm, left) for level in levels])
            result[mine] = epsilons[np.minimum(np.searchsorted(levels, r), len(levels) - 1)]
            if cost.min() < target:
                result[mine] = np.minimum(result[mine], self._epsilon_by_sum(mine, target))
        return result

    def _epsilon_by_sum(self, mine: NDArray[np.intp], target: float) -> FloatArray:
        """An ε with ``delta(ε)`` ≤ target, for some records."""
        result = np.full(mine.size, math.inf)
        grid = np.concatenate([[0.0], np.geomspace(1e-4, 12.0, 120)])
        before = self.delta(0.0)[mine]
        result[before <= target] = 0.0
        for low, high in pairwise(grid):
            now = self.delta(float(high))[mine]
            crossed = (now <= target) & ~np.isfinite(result)
            # A hockey-stick is convex in e^ε, so it lies below the chord between two bounds on it.
            share = (before[crossed] - target) / (before[crossed] - now[crossed])
            crossing = low + np.log1p(share * math.expm1(high - low))
            result[crossed] = np.minimum(up_array(crossing, 64), high)
            before = now
        return result

    def bounds(self, delta: float) -> RecordBounds:
        """Return success and ε̃ of every record as certificates."""
        epsilon = self.pmp_epsilon(delta)
        return RecordBounds(
            self.game, delta, epsilon, self.success, "the crowd", THEOREMS, ASSUMPTIONS
        )


def _epsilon_of_events(distance: float, norm: float, delta: float) -> float:
    """An ε at which no event costs more than δ, when errors count by the events' probability.

    An event of probability α under the first normal law has at most α + ‖error‖√α in its world and
    at least β - ‖error‖√β in the other, β ≥ Φ(Φ⁻¹(α) - 2r) (step 5 of the proof).  Between two
    points of the grid the first is taken at its upper and the second at its lower end.
    """
    alpha = np.append(np.geomspace(delta * 1e-3, 0.5, 1500), np.linspace(0.5, 1.0, 200)[1:])
    most = alpha + norm * np.sqrt(alpha)
    if most[0] > delta * (1 - _SLACK):
        return math.inf
    beta = special.ndtr(special.ndtri(alpha[:-1]) - 2 * distance * (1 + _SLACK)) * (1 - _SLACK)
    least = np.maximum(beta - norm * np.sqrt(beta), 0.0) * (1 - _SLACK)
    needed = most[1:] - delta * (1 - _SLACK)
    if (needed[least == 0.0] > 0).any():
        return math.inf
    with np.errstate(divide="ignore"):
        ratio = np.where(needed > 0, needed / np.where(least > 0, least, 1.0), 0.0).max()
    return max(0.0, math.log(ratio) + _SLACK) if ratio > 0 else 0.0


# ── The parts of high degree: frequencies near, far, and beyond (steps 6 to 8) ────────────────────


@dataclass(frozen=True, eq=False)
class _Part:
    """Some of the records around their own mean, in the metric R of the frequencies."""

    size: int
    scatter: FloatArray
    widest: float
    fourth: float


@dataclass(frozen=True, eq=False)
class _Frequencies:
    """Shells of frequencies ζ by ζ*Pζ, P = diag(shape) in the eigenbasis of H."""

    crowd: Crowd
    shape: FloatArray
    noise: FloatArray
    fourth: float
    quartic: float
    squares: float
    parts: list[_Part]

    @classmethod
    def of(cls, crowd: Crowd, place: int) -> _Frequencies:
        """Measure the records in the metric H^½PH^½; any P > 0 will do.

        P is the identity, or follows the others' or the noise's share of the variance, or its root.
        """
        covariance = crowd._covariance
        noise = crowd._noise**2 / covariance * (1 - crowd._relative_error)
        others = np.maximum((1 - noise) / max(float((1 - noise).max()), 1e-12), 1e-4)
        shape = (np.ones(len(noise)), others, np.sqrt(noise / noise.max()), noise / noise.max())[
            place
        ]
        metric = np.sqrt(covariance * shape)
        wider = 1 + crowd._relative_error
        blur = crowd.table.offset / float(metric.min()) * wider * (1 + _SLACK)
        halves = crowd.table.halves
        order = np.argsort(_weighted_squares(halves, 1 / metric**2), kind="stable")
        rows = _Measured(halves, order, metric, math.sqrt(1 + crowd._relative_error))
        count, columns = rows.shape
        sizes = np.sqrt(_weighted_squares(rows, np.ones(columns)))
        table, removed = crowd.table, crowd.table.removed
        tried = _PARTS if columns <= _MANY_COLUMNS else _PARTS[::3]
        ends = sorted({count, *(n for part in tried if (n := int(part * count)) > 4 * columns)})
        parts: list[_Part] = []
        whole = quartic = squares = math.inf
        for size, scatter, mean, fourth, computed, weighted in _cumulated(rows, ends):
            longest = (float(sizes[:size].max()) + blur) ** 2
            largest = (computed**0.25 + size**0.25 * blur) ** 4
            if size == count:
                # Rows that are off by at most ``blur`` move Σ y⊗y⊗y⊗y by at most this.
                off = 4 * sizes**3 + 6 * sizes**2 * blur + 4 * sizes * blur**2 + blur**3
                whole = fourth + blur * float(off.sum()) * (1 + _SLACK)
                squares = (math.sqrt(weighted) + blur * math.sqrt(8 * count * longest)) ** 2
                reach, trace = math.sqrt(longest), float(np.trace(scatter))
                trace = (math.sqrt(trace) + math.sqrt(count) * blur) ** 2
                aside = (table.share * reach + table.drift(trace, reach)) / crowd.crowd
                quartic = (largest**0.25 + count**0.25 * aside) ** 4 * (1 + _SLACK)
            offset = float(np.linalg.norm(mean)) + 2 * blur
            widest = (math.sqrt(longest) + offset) ** 2 * (1 + _SLACK)
            moved = offset + removed * math.sqrt(widest) / (size - removed)
            centred = scatter - size * np.outer(mean, mean)
            eigenvalues = np.linalg.eigvalsh(centred)
            loss = removed * widest * size / (size - removed) + _SLACK * float(np.trace(scatter))
            loss += 4 * size * blur * math.sqrt(widest)
            parts.append(
                _Part(
                    size - removed,
                    # H itself may be larger than computed by twice the relative error.
                    centred / wider**2 - loss * np.eye(columns),
                    (float(eigenvalues[-1]) + 4 * size * blur * math.sqrt(widest)) * (1 + _SLACK),
                    (largest**0.25 + size**0.25 * moved) ** 4 * (1 + _SLACK),
                )
            )
        return cls(crowd, shape, noise, whole, quartic, squares, parts)

    def rests(self, widened: float) -> FloatArray:
        """Return the log of a bound on the squared norm of all parts from degree 0, 1, 2, … on."""
        half = self.crowd.half
        end = 2 * (math.log(3.0 + half) + 0.5 * float(np.log(2 / self.noise).sum()) + 80)
        end /= float((self.noise / self.shape).min())
        start = 0.3 * float(self.shape.sum())
        radii = np.geomspace(start, end, max(2, math.ceil(math.log(end / start) / 0.04)))
        low, high = radii[:-1], radii[1:]
        shells = np.minimum(
            self._near(np.array([1.0]), high, low, widened)[0], self._noise_alone(low, widened)
        )
        open_ = shells > _NEGLIGIBLE
        shells[open_] = np.minimum(shells[open_], self._far(low[open_], high[open_], widened))
        shells = np.append(shells, self._noise_alone(radii[-1:], widened))
        outside = np.logaddexp.accumulate(shells[::-1])[::-1]
        dilation = np.geomspace(1.03, 40.0, 60)
        inside = self._near(dilation, radii, None, widened)
        shrunk = np.arange(_DEGREES) * np.log(dilation)[:, None]
        # Per radius and degree the best dilation; per degree the best radius that is usable.
        usable = np.isfinite(inside).any(axis=0)
        dilated = (inside.T[usable, :, None] - shrunk).min(axis=1)
        both = np.logaddexp(dilated, outside[usable, None])
        return np.asarray(both.min(axis=0, initial=math.inf) + _SLACK)

    @property
    def others(self) -> FloatArray:
        """The others' shares of the variance, from above: λG is at most this in H's metric."""
        most = np.minimum(1 - self.noise + _SLACK, 1.0) * (1 + self.crowd._relative_error) ** 2
        return np.asarray(most, dtype=np.float64)

    @property
    def _volume(self) -> float:
        """Log of how much larger det H may be than computed."""
        return 2 * len(self.shape) * math.log1p(self.crowd._relative_error)

    def _near(
        self, squared: FloatArray, high: FloatArray, low: FloatArray | None, widened: float
    ) -> FloatArray:
        """Log of E[|φ(ρζ)|²; low < |ζ|_P² ≤ high] for every ρ² (rows) and radius, step 6."""
        half, count = self.crowd.half, self.crowd.crowd
        shape, others = self.shape * widened, self.others
        r2, t2 = squared[:, None], high[None, :]
        spread = r2 * t2 * float((others / self.shape).max())  # largest λΣ|s|² of ρζ
        bound = np.full((squared.size, high.size), math.inf)
        tails = np.stack([self._outer(float(r), high, widened) for r in squared])
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            for arc in _ARCS:
                best = np.full(bound.shape, math.inf)
                curvature = (arc / math.cos(arc) ** 2 - math.tan(arc)) / (4 * arc**3)
                for weight in _WEIGHTS:
                    first = (math.tan(arc) / arc - 1) / arc**2 + 4 * (1 + 1 / weight) * curvature
                    second = (1 + weight) * curvature
                    spare = half - 1 - first * spread
                    bend = second * self.quartic * r2**2 * t2
                    tilt = r2[..., None] * widened * others / count + bend[..., None] * shape
                    # Most radii are too large for most dilations: logarithms of the others only.
                    usable = (spare > 0) & (_over_columns(np.maximum, tilt) < 1)
                    tilt = tilt[usable]
                    main = 0.5 * np.log((half + 0.5) / spare[usable])
                    if low is None:
                        value = -_over_columns(np.add, np.log(1 - tilt))
                    else:
                        value = np.full(main.shape, math.inf)
                        room = _over_columns(np.minimum, (1 - tilt) / shape)
                        inner = np.broadcast_to(low, usable.shape)[usable]
                        for part in (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
                            chernoff = part * room
                            log = np.log(1 - tilt - chernoff[..., None] * shape)
                            log = _over_columns(np.add, log)
                            value = np.fmin(value, -chernoff * inner - log)
                    main = main + value
                    least = best[usable]
                    best[usable] = np.where(np.isfinite(main) & (main < least), main, least)
                outer = (
                    math.log(math.pi * (half + 0.5))
                    + tails
                    - count * math.sin(arc) ** 2
                    + 2 / 3 * np.sqrt(self.quartic * spread) * r2 * t2
                )
                outer = np.where(2 * spread <= count, outer, math.inf)
                bound = np.minimum(bound, np.logaddexp(best, outer))
        return np.asarray(math.log(2) + bound + _SLACK, dtype=np.float64)

    def _outer(self, squared: float, high: FloatArray, widened: float) -> FloatArray:
        """Log of E[exp(ρ²λΣ|s|²); |ζ|_P² ≤ high]: by volume where the exponential wins."""
        growth = squared * self.others - 1 / widened
        wild = growth > -0.1
        tame = -np.log(-growth[~wild]).sum()
        count = int(wild.sum())
        if count == 0:
            return np.full(high.shape, tame + self._volume)
        steepest = float(np.maximum(growth[wild] / self.shape[wild], 0.0).max())
        volume = count * np.log(high) - np.log(self.shape[wild]).sum() - special.gammaln(count + 1)
        return np.asarray(tame + volume + steepest * high + self._volume, dtype=np.float64)

    @property
    def _scales(self) -> FloatArray:
        """Multiples of a part's scatter that are looked at: fewer where eigenvalues cost more."""
        return np.geomspace(1e-3, 0.95, 64 if len(self.shape) <= _MANY_COLUMNS else 24)

    @cached_property
    def _spectra(self) -> list[FloatArray]:
        """Eigenvalues of the noise and these multiples of each part's scatter, in the metric P."""
        own, scales = np.diag(self.noise / self.shape), self._scales[:, None, None]
        return [np.asarray(np.linalg.eigvalsh(own + scales * p.scatter)) for p in self.parts]

    def _far(self, low: FloatArray, high: FloatArray, widened: float) -> FloatArray:
        """Log of E[|φ(ζ)|²; low < |ζ|_P² ≤ high] from the decay of part of the cosines (step 7)."""
        log_shape = float(np.log(self.shape).sum())
        scales = self._scales
        # Every cosine with every share of its decay (rows), in every shell (columns).
        alpha, beta, share = (
            np.array(column)[:, None]
            for column in zip(*((*cosine, s) for cosine in _COSINES for s in _SHARES), strict=True)
        )
        thinned = self.crowd.table.thinned
        decay = share if thinned is None else thinned.decay(share)
        slope = (1 - share) / (widened * float(self.shape.max()))

        def tilted(
            tilt: FloatArray, form: FloatArray, row: NDArray[np.intp], shell: NDArray[np.intp]
        ) -> FloatArray:
            """Return the log of the Gaussian integral, tilted towards the shell by Chernoff."""
            theta = tilt * np.minimum(form[:, 0], slope[row, 0])
            inner = (form - theta[..., None]) * (
                1 - share[row] - (theta * widened)[..., None] * self.shape
            )
            logs = _over_columns(np.add, np.log(inner))
            return np.asarray(-theta * low[shell] - 0.5 * (logs + log_shape))

        best = np.full(low.shape, math.inf)
        chosen = np.zeros(low.shape, dtype=np.intp)
        forms = np.ones((low.size, len(self.shape)))
        for part, spectra in zip(self.parts, self._spectra, strict=True):
            # What is left when the angle has been integrated out.
            weight = decay * part.size
            left = decay * (1 - 4 * np.maximum(np.log(weight / math.pi), 0.0) / weight)
            factor = 1 - 12 * part.widest * high / (beta * part.size)
            lost = 8 * alpha * left * part.fourth * high / beta
            # A smaller multiple of a positive form is on the safe side.
            place = np.searchsorted(scales, 2 * alpha * left * factor, side="right") - 1
            row, shell = np.nonzero((place >= 0) & (spectra[place, 0] > lost))
            values = spectra[place[row, shell]] - lost[row, shell][:, None]
            price = np.log(math.pi**2 * (self.crowd.half + 0.5) / weight)[row, 0]
            log = tilted(np.array(0.7), values, row, shell) + price
            # The last one to be written is the smallest of its shell.
            order = np.argsort(-log, kind="stable")
            order = order[log[order] < best[shell[order]]]
            best[shell[order]], chosen[shell[order]] = log[order], row[order]
            forms[shell[order]] = values[order]
        every = np.flatnonzero(np.isfinite(best))
        row, forms, usual = chosen[every], forms[every], np.array(0.7)
        gain = tilted(_TILTS, forms, row, every).min(axis=0) - tilted(usual, forms, row, every)
        best[every] += np.minimum(gain, 0.0)
        return best + self._volume + _SLACK

    def _noise_alone(self, low: FloatArray, widened: float) -> FloatArray:
        """Log of E[|φ(ζ)|²; |ζ|_P² > low] from the noise alone (step 8)."""
        half, count = self.crowd.half, self.crowd.crowd
        room = min(
            float((self.noise / self.shape).min()), 0.9 / (widened * float(self.shape.max()))
        )
        theta = np.linspace(0.02, 0.98, 49)[:, None] * room
        log = np.log(1 - 1 / count - theta * widened * self.shape)
        log = log + np.log(self.noise - theta * self.shape)
        bound = (-theta * low - 0.5 * log.sum(axis=1, keepdims=True)).min(axis=0)
        return np.asarray(bound + math.log(math.pi**2 / 4 * (2 * half + 1) / count) + _SLACK)


def _over_columns(operation: np.ufunc, values: FloatArray) -> FloatArray:
    """The sum, minimum or maximum over the last axis; numpy is slow where that is a short one."""
    if values.shape[-1] >= _SHORT:
        return np.asarray(operation.reduce(values, axis=-1))
    # In numpy's own order, so that no digit depends on this.
    return np.asarray(reduce(operation, np.moveaxis(values, -1, 0)))


@dataclass(frozen=True, eq=False)
class _Measured:
    """Rows in another order and metric, made slice by slice: a table of all is never held."""

    halves: FloatArray
    order: NDArray[np.intp]
    metric: FloatArray
    wider: float

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.order), len(self.metric)

    def __getitem__(self, part: slice) -> FloatArray:
        rows = self.halves[self.order[part]]
        rows /= self.metric
        rows *= self.wider
        return rows


def _slices(rows: FloatArray | _Measured) -> Iterator[slice]:
    """Parts of a table, each small."""
    step = max(1, _BLOCK // rows.shape[1])
    return (slice(first, first + step) for first in range(0, rows.shape[0], step))


def _weighted_squares(rows: FloatArray | _Measured, weights: FloatArray) -> FloatArray:
    """Return Σ_j w_j·x_j² of every row, block by block: a second table of all is never made."""
    squares = np.empty(rows.shape[0])
    for part in _slices(rows):
        squares[part] = np.square(rows[part]) @ weights
    return squares


def _cumulated(
    rows: FloatArray | _Measured, ends: list[int]
) -> Iterator[tuple[int, FloatArray, FloatArray, float, float, float]]:
    """Second moments, mean and fourth moments of the first so many rows, from above.

    ``fourth`` is √ΣΣ(y_i·y_j)⁴, ``largest`` at least Σ|e·y_i|⁴ for every unit vector e ∈ C^d, and
    ``squares`` the largest eigenvalue of Σ|y|²yyᵀ.
    """
    count, columns = rows.shape
    upper = np.triu_indices(columns)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    products = len(weight)
    exact = products <= _MOST_PRODUCTS
    quartic = exact or count * products**2 <= _MOST_WORK
    scatter, total = np.zeros((columns, columns)), np.zeros(columns)
    weighted = np.zeros((columns, columns))
    moment = np.zeros((products, products)) if quartic else None
    step = max(1, _BLOCK // products)
    done = 0
    for end in ends:
        for first in range(done, end, step):
            block = rows[first : min(first + step, end)]
            scatter += block.T @ block
            total += block.sum(axis=0)
            weighted += (block * np.square(block).sum(axis=1)[:, None]).T @ block
            if moment is not None:
                pairs = block[:, upper[0]] * block[:, upper[1]] * weight
                moment += pairs.T @ pairs
        done = end
        # (y_i·y_j)⁴ ≤ |y_i|²|y_j|²(y_i·y_j)², and Σ|e·y|⁴ ≤ Σ|y|²|e·y|².
        largest = squares = max(float(np.linalg.eigvalsh(weighted)[-1]), 0.0)
        fourth = float(np.linalg.norm(weighted))
        if moment is not None:
            fourth = float(np.linalg.norm(moment))
            if exact:
                largest = min(largest, _largest_quartic(moment, upper[0] == upper[1], columns))
        slack = 1 + _SLACK
        yield end, scatter, total / end, fourth * slack, largest * slack, squares * slack


def _largest_quartic(moment: FloatArray, diagonal: NDArray[np.bool_], columns: int) -> float:
    """Σ|e·y|⁴ = vᵀMv for v = Re ee*, of norm at most 1 and trace 1: its multiple of 1 is known."""
    unit = diagonal / math.sqrt(columns)
    image = moment @ unit
    along = float(unit @ image)
    across = float(np.linalg.norm(image - along * unit))
    rest = moment - np.outer(unit, image) - np.outer(image, unit) + along * np.outer(unit, unit)
    share = 1 - 1 / columns
    top = float(np.linalg.eigvalsh(rest)[-1])
    return along / columns + 2 * across * math.sqrt(share / columns) + max(top, 0.0) * share


# ── Functions of noisy means of fresh rows: A25-T13 with a number (step 10) ───────────────────────
#
# A table of 2n independent rows is a population of which the training set is a uniform half.
# Whoever knows that population besides the release knows more than the attacker of the i.i.d. game,
# so the average record's leak in the subset game, averaged over tables, bounds the leak Δ_n.
# Disjoint tables of one long table are independent draws of it.

#: A word in front of which no other stream of ours starts.
_ORDER = 0x7AB1E

_FRESH_ROWS = (
    "The rows, in whatever order, are independent draws from one distribution; the training set is "
    "n more draws from it.  n and σ were fixed without looking at them.",
    "Only a function of the mean of the training rows plus independent noise N(0, σ²) on every "
    "coordinate is released.",
)


def table_leaks(records: ArrayLike, n: int, *, sigma: float) -> FloatArray:
    """Return the average record's leak in each of the disjoint tables of 2n rows, from above.

    Per record the smaller of X21 and X1 counts; ``sigma`` is the noise on the mean of n rows.
    """
    rows = checked_vectors(records)
    size = whole_number("n", n, at_least=2)
    noise = noise_on_sum("mean", positive("sigma", sigma), size)
    count = rows.shape[0] // (2 * size)
    if count < 1:
        raise InputError(f"records must be at least 2n = {2 * size} rows, got {rows.shape[0]!r}.")
    game = SubsetGame(2 * size, size)
    leaks = []
    for table in rows[: count * 2 * size].reshape(count, 2 * size, -1):
        coupled = NeighbourProfile.from_vectors(table).advantage(noise)
        leak = np.minimum(coupled, Crowd.of(table, game, noise).delta(0.0))
        leaks.append(min(1.0, up(float(leak.mean()) * (1 + 2 * sum_slack(leak.size)))))
    return np.array(leaks)


def leak_of_means(
    records: ArrayLike,
    n: int,
    *,
    sigma: float,
    confidence: float = 0.95,
    tables: int | None = None,
    seed: int = 0,
) -> Certificate:
    """Bound Δ_n for every function of a noisy mean of n rows, from rows of an unknown law.

    The rows are put into a random order first, so that a sorted file is as good as any; ``tables``
    is how many tables of 2n rows are looked at, at most.

    Guarantee: with this confidence, no attack on a random record of the i.i.d. game (ν = ½, λ = 1)
    gains more than the value over guessing: MIS ≥ 1 - value.
    Theorem: X21 (A25-T13 with a number); X1; bounded means (proofs/bounded-means.md).
    Assumes: see ``assumptions``.  Nothing is asked of the law: no density, no moments.
    Numerics: from above.
    Edge cases: with R = rows/2n tables the confidence alone costs about ln(1/β)/R, so that one
    table of 2n rows proves nothing (1.0), and a hundred are needed for a cost of 0.03.  Without
    noise nothing is proved, where A25-P25 and X8 speak of normal rows.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(1200, 1))
        >>> leak_of_means(rows, 10, sigma=1.0).value < 0.15
        True
    """
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    rows = checked_vectors(records)
    order = np.random.default_rng([whole_number("seed", seed, at_least=0), _ORDER])
    rows = rows[order.permutation(len(rows))]
    if tables is not None:
        rows = rows[: 2 * whole_number("n", n, at_least=2) * whole_number("tables", tables)]
    leaks = table_leaks(rows, n, sigma=sigma)
    value = float(mean_upper(leaks, confidence=level).max()) if leaks.size > 1 else 1.0
    return Certificate(
        "leak of the average record",
        min(1.0, value),
        "upper",
        IidGame(),
        ("X21", "X1", "A25-T13", "A25-P5"),
        _FRESH_ROWS,
        level,
    )
