"""The crowd hides the record: noisy sums in any dimension (X21, proofs/crowd.md).

The release is Σ_{i∈D} v_i + N(0, τ²I), D a uniform half of N known records.  An attacker of record
x does not know which of the others are in D, and their sum is nearly normal.  With c the mean of
the others and V = τ²I + the covariance of their part of the sum, the two worlds are N(±δ, V), δ =
(v_x - c)/2, up to an error that is computed here.  So V hides x, not τ²I alone.

:class:`CrowdTable` holds the part that does not depend on the noise.  :class:`Crowd` adds the
noise; one distance r per record and one :class:`NormalError` per group of records then determine
all bounds.  Nothing is sampled, so all bounds hold with certainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.curve.base import price_exponent
from memberbound.errors import fraction, nonnegative, positive
from memberbound.games import SubsetGame
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.numerics.rounding import UNIT, FloatArray, up_array
from memberbound.subset.distances import checked_vectors, scaled_entries
from memberbound.subset.record_bounds import RecordBounds

ASSUMPTIONS = (
    "The subset is uniform among all subsets of its size, and the attacker knows the population "
    "but nothing else about the subset.",
    "Independent noise N(0, σ²) is added to every coordinate of the sum or mean, and nothing else "
    "about this subset is released (L24-Dis1).",
    "Every row is one record, even if two rows are equal.",
)

#: Measurements of the records, norms of the expansion, and hockey-sticks are raised by this share,
#: which far exceeds their rounding and that of the steps in between.
_SLACK = 1e-9
#: Number of degrees of the expansion that are bounded one by one.
_DEGREES = 56
#: Above this many columns try fewer choices, because eigenvalues cost more; any choice is valid.
_MANY_COLUMNS = 64
#: The smallest noise considered, in units of the largest entry.
_LEAST = 1e-60


# ── The part that does not depend on the noise ────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class CrowdTable:
    """Half the centred records in the eigenbasis of their scatter, times a power of two.

    ``scatter`` holds the eigenvalues.  The scatter of the exact records differs from their diagonal
    matrix by at most ``rounding``, and every row from its exact value by at most ``offset``.
    """

    game: SubsetGame
    halves: FloatArray
    scatter: FloatArray
    exponent: int
    rounding: float
    offset: float

    @classmethod
    def of(cls, records: ArrayLike, game: SubsetGame) -> CrowdTable:
        """Centre and rotate the records; divergences are invariant under both."""
        halves, exponent = scaled_entries(checked_vectors(records))
        count, columns = halves.shape
        halves -= halves.mean(axis=0)
        halves /= 2
        scatter, basis = np.linalg.eigh(halves.T @ halves)
        trace = float(np.vdot(halves, halves))
        # Errors of the mean of N numbers of size at most one, of a difference and of a rotation.
        offset = 2 * (count + 64 * columns) * UNIT * math.sqrt(columns)
        # Twice the first term covers the offset.  Sums of N products of such rows, and the residual
        # of the eigenvectors, are off by 16(N + 64d) units of the trace: at most eight times
        # offset·√(N·trace), since no row is longer than √d, and the trace at most N·d.
        slack = 10 * offset * math.sqrt(count * trace) + count * offset**2
        return cls(game, halves @ basis, np.maximum(scatter, 0.0), exponent, slack, offset)

    @property
    def half(self) -> int:
        """n, where 2n records hide each other."""
        return self.game.population // 2

    @property
    def is_half(self) -> bool:
        """Whether a half is drawn, rounded up or down if N is odd."""
        return min(self.game.size, self.game.population - self.game.size) == self.half

    @property
    def removed(self) -> int:
        """Number of records outside the pairs: the target, and one more if N is odd."""
        return 1 + self.game.population % 2


# ── Distance of the crowd's distribution from the normal one ──────────────────────────────────────


@dataclass(frozen=True, eq=False)
class NormalError:
    """Norms of the terms of degree 3, 4, … of the density's expansion, and of the remainder.

    ``norms[k]`` is the norm of the term of degree k.  Even terms are common to both worlds, odd
    ones have opposite signs in them.  ``rest`` is the norm of all terms of degree ``len(norms)``
    and above.  Both are raised by about 1e-9, and so is the result of :meth:`sticks`; the steps in
    between are not.
    """

    norms: FloatArray
    rest: float

    @property
    def norm(self) -> float:
        """The norm of all terms, a bound on the L¹ distance of either world from its normal law."""
        return math.sqrt(float(np.square(self.norms).sum()) + self.rest**2)

    def shift_cost(self, distance: FloatArray) -> FloatArray:
        """Return a bound on half the L¹ distance of the error's two shifts by ±r (step 5)."""
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
        # The norm itself also bounds this distance, for every r.
        return np.minimum(np.where(r > 1.0, math.inf, total), self.norm)

    def sticks(self, distance: FloatArray, epsilons: FloatArray) -> FloatArray:
        """Return bounds on hockey-sticks, for worlds ±r apart (rows) and every e^ε (columns)."""
        normal = gaussian_hockey_stick_of_shifts_upper(2 * distance[:, None], epsilons)
        extra = self.shift_cost(distance)[:, None] + 0.5 * np.expm1(epsilons) * self.norm
        return np.asarray((normal + extra) * (1 + _SLACK), dtype=np.float64)


@cache
def _tangent() -> FloatArray:
    """Return tan(w + θ), tan θ = y, as a series in w (rows) of polynomials in y (columns)."""
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
    """Return bounds on the norms of the terms of degree < :data:`_DEGREES` (step 4 of the proof).

    They come from a majorant in two variables: powers of x (rows) with coefficients that are
    polynomials in |y| (columns), all non-negative; y has density ∝ (1 + y²)^(-n-1).
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
    # Multiplication by m·exponent[m] as a matrix, for all m side by side.
    lag = np.arange(width)[:, None] - np.arange(width)
    scaled = exponent * np.arange(top)[:, None]
    factors = np.where(lag >= 0, scaled[:, np.maximum(lag, 0)], 0.0)
    factors = factors.transpose(1, 0, 2).reshape(width, top * width)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(2, top):
            # Σ over m = 2, …, k of m·exponent[m]·series[k - m]
            series[k] = factors[:, 2 * width : (k + 1) * width] @ series[k - 2 :: -1].ravel() / k
    power = np.arange(width + 1)
    low = power < half  # moments of order 2n + 1 and above do not exist, and are not needed
    moments = np.full(width + 1, math.inf)
    # Recursion from E|y|⁰ and from E|y| = Γ(n+1)/(nΓ(½)Γ(n+½)) ≤ √(n + ½)/(n√π) (Wendel), because
    # differences of log-gamma functions would lose digits at large n.
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
        norms[:] = math.inf  # after an overflow nothing is proved
    norms[:3] = 0.0  # mass, mean and covariance match exactly
    return np.asarray(norms * (1 + _SLACK), dtype=np.float64)


# ── One amount of noise ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Crowd:
    """The protection of every record by the other records, at one noise level.

    Guarantee: for every record x, both hockey-sticks between P_in,x and P_out,x at e^ε are at most
    ``delta(ε)[x]``, hence no attack is right more often than ``success[x]``.
    Theorem: X21 (proofs/crowd.md).
    Assumes: σ does not depend on D.
    Numerics: squares in the metric of the crowd are raised by 1e-9, and by more if the scatter is
    ill-conditioned; all later results are monotone in them.
    Edge cases: all bounds are 1 (vacuous) if the normal law is not proved to be near, which happens
    with few records, many columns, very little noise, or a record that outweighs all others
    together; likewise if k is not N/2, rounded up or down.

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
    def crowd(self) -> int:
        """M = 2n - 1, the number of records that hide the target."""
        return 2 * self.table.half - 1

    @cached_property
    def _covariance(self) -> FloatArray:
        """H = τ²I + λ·scatter in its eigenbasis, up to ``_relative_error``."""
        inflation = (self.crowd + 1) / self.crowd
        return np.asarray(self._noise**2 + inflation * self.table.scatter, dtype=np.float64)

    @cached_property
    def _noise(self) -> float:
        """σ in the table's unit, capped: more would not help, and less is safe."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.clip(np.ldexp(self.sigma, -self.table.exponent), _LEAST, 1 / _LEAST))

    @cached_property
    def _relative_error(self) -> float:
        """Relative amount by which squares in the metric of H may be too small, or ∞ if unknown."""
        share = 4 * self.table.rounding / self._noise**2 + _SLACK
        return share if share < 1e-3 and self._noise > _LEAST else math.inf

    @cached_property
    def leverage(self) -> FloatArray:
        """q, the squared norm of half a record's distance from the centre, in H's metric."""
        halves = self.table.halves
        length = np.sqrt(np.einsum("ij,ij,j->i", halves, halves, 1 / self._covariance))
        length = length + self.table.offset / self._noise
        return np.asarray(np.square(length) * (1 + self._relative_error), dtype=np.float64)

    def lost_share(self, leverage: FloatArray) -> FloatArray:
        """Return κ with V ⪰ (1 - κ)H for the crowds of records of these leverages (step 3)."""
        inflation = (self.crowd + 1) / self.crowd
        if self.table.removed == 1:
            return np.asarray(inflation**2 * leverage)
        both = leverage + float(self.leverage.max())
        return np.asarray(inflation * (1 + 2 / self.crowd) * both)

    def _centre_shift(self, leverage: FloatArray) -> FloatArray:
        """Bound on the distance of the crowd's mean from the overall mean, in the metric of H."""
        other = (self.table.removed - 1) * math.sqrt(float(self.leverage.max()))
        return np.asarray((np.sqrt(leverage) + other) / self.crowd)

    @cached_property
    def distance(self) -> FloatArray:
        """r, half the distance between the two worlds' centres in the metric of V, per record."""
        length = np.sqrt(self.leverage) + self._centre_shift(self.leverage)
        left = 1 - self.lost_share(self.leverage)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = length / np.sqrt(left)
        return np.where(left > 0, distance, math.inf)

    @cached_property
    def errors(self) -> list[tuple[NDArray[np.intp], NormalError]]:
        """Groups of records by leverage, with the error of each group's normal approximation."""
        groups: list[tuple[NDArray[np.intp], NormalError]] = []
        if not self._is_applicable:
            return groups
        for low, level in pairwise((-1.0, 0.01, 0.04, 0.12, 0.3, 0.6)):
            mine = np.flatnonzero((self.leverage > low) & (self.leverage <= level))
            if mine.size == 0:
                continue
            top = float(self.leverage[mine].max())
            taken = float(self.lost_share(np.array([top]))[0])
            error = self._error(top, taken) if taken < 1 else None
            if error is not None:
                groups.append((mine, error))
        return groups

    @property
    def _is_applicable(self) -> bool:
        """Whether a half of enough records is drawn, with enough noise for floating point."""
        # Fewer records give no protection at any noise level.
        many = 2 * self.table.half >= 3 * (len(self._covariance) + 10)
        return self.table.is_half and many and math.isfinite(self._relative_error)

    @cached_property
    def frequencies(self) -> _Frequencies:
        """Statistics of the records for the bounds on terms of high degree."""
        return _Frequencies.of(self)

    def _error(self, leverage: float, taken: float) -> NormalError | None:
        """Return the error for records of at most this leverage."""
        widened, count = 1 / (1 - taken), self.crowd
        longest = float(self.leverage.max())
        aside = float(self._centre_shift(np.array(leverage)))
        second = float(np.linalg.norm(1 - self.frequencies.noise))
        whole, columns = self.frequencies.fourth, math.sqrt(len(self._covariance))
        fourth = whole + 4 * aside * math.sqrt(columns * whole) + 6 * aside**2 * columns
        fourth += 5 * count * aside**4
        fourth *= widened**2
        length = widened * (math.sqrt(longest) + aside) ** 2
        norms = _expansion(count, self.table.half, second, fourth, length)
        below = np.sqrt(np.cumsum(np.square(norms)))
        rests = self.frequencies.rests(widened)  # ln of the squared norm from each degree on
        rests = np.exp(np.minimum(0.5 * rests, 300.0))
        degree = int(np.argmin(below[:-1] + rests[1:])) + 1
        error = NormalError(norms[:degree], float(rests[degree]))
        return error if error.norm < 1.0 else None

    def delta(self, epsilon: float) -> FloatArray:
        """Return, per record, a bound on both hockey-sticks between "in" and "out" at e^ε."""
        result = np.ones(self.table.game.population)
        if nonnegative("epsilon", epsilon) > 500.0:  # e^ε times any error exceeds 1
            return result
        for mine, error in self.errors:
            result[mine] = error.sticks(self.distance[mine], np.array([epsilon]))[:, 0]
        return np.minimum(result, 1.0)

    @cached_property
    def success(self) -> FloatArray:
        """Upper bound on attack accuracy at the prior k/N, per record (I24-P2)."""
        pi = self.table.game.prior
        stick = self.delta(price_exponent(pi, 1.0)[0])
        return np.minimum(up_array(max(pi, 1 - pi) + min(pi, 1 - pi) * stick), 1.0)

    def pmp_epsilon(self, delta: float) -> FloatArray:
        """Return, per record, an ε at which both hockey-sticks are at most δ, or ∞ (L24-D2)."""
        target = fraction("delta", delta)
        result = np.full(self.table.game.population, math.inf)
        if target == 0.0:
            return result
        grid = np.append(0.0, np.geomspace(1e-4, 12.0, 600))
        for mine, error in self.errors:
            r = self.distance[mine]
            # Round distances up to a few levels, because both bounds grow with them.
            levels = np.unique(np.append(np.geomspace(max(r.min(), 1e-9), r.max(), 48), r.max()))
            by_events = [_epsilon_of_events(float(r), error.norm, target) for r in levels]
            enough = error.sticks(levels, grid) <= target
            by_sum = np.where(enough.any(axis=1), grid[enough.argmax(axis=1)], math.inf)
            index = np.minimum(np.searchsorted(levels, r), len(levels) - 1)
            result[mine] = np.minimum(by_events, by_sum)[index]
        return result

    def bounds(self, delta: float) -> RecordBounds:
        """Return success and ε̃ of every record as certificates."""
        epsilon, theorems = self.pmp_epsilon(delta), ("X21", "I24-P2", "L24-D2")
        return RecordBounds(
            self.table.game, delta, epsilon, self.success, "the crowd", theorems, ASSUMPTIONS
        )


def _epsilon_of_events(distance: float, norm: float, delta: float) -> float:
    """Return an ε at which no event costs more than δ, with errors weighted by its probability.

    An event of probability α under the first normal law has at most α + ‖error‖√α in its world and
    at least β - ‖error‖√β in the other, β ≥ Φ(Φ⁻¹(α) - 2r) (step 5 of the proof).  Between two
    points of the grid the first is evaluated at the upper and the second at the lower end.

    Numerics: ``norm`` and ``distance`` are raised by more than the loss where β and ‖error‖√β
    nearly cancel.  Elsewhere the grid covers rounding: its points are at least a quarter per cent
    apart, and β grows by at least the same share as α.  So up to the middle the first term is too
    large by 5e-4 of itself, and beyond it the second too small by 5e-4 of β.
    """
    alpha = np.append(np.geomspace(delta * 1e-3, 0.5, 1500), np.linspace(0.5, 1.0, 200)[1:])
    most = alpha + norm * np.sqrt(alpha)
    if most[1] > delta:
        return math.inf
    beta = special.ndtr(special.ndtri(alpha[:-1]) - 2 * distance)
    least = np.maximum(beta - norm * np.sqrt(beta), 0.0)
    needed = most[1:] - delta
    if (needed[least == 0.0] > 0).any():
        return math.inf
    with np.errstate(divide="ignore"):
        ratio = np.where(needed > 0, needed / np.where(least > 0, least, 1.0), 0.0).max()
    return max(0.0, math.log(ratio)) if ratio > 0 else 0.0


# ── Terms of high degree: near, far and very far frequencies (steps 6 to 8) ───────────────────────

#: Shares of the records, by distance from the centre, that bound far frequencies.
_PARTS = (
    1.0, 0.999, 0.998, 0.996, 0.993, 0.99, 0.985, 0.98, 0.975, 0.97, 0.965, 0.96, 0.95, 0.94, 0.92,
    0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1,
)  # fmt: skip
#: cos x ≤ 1 - αx² + (α/β)x⁴ for all x (step 7).
_COSINES = ((0.5, 12.0), (0.438, 18.0), (0.285, 25.0), (0.169, 30.0), (0.106, 33.0), (0.051, 36.0))


@dataclass(frozen=True, eq=False)
class _Part:
    """A subset of the records, centred at their own mean, in the metric of H."""

    size: int
    scatter: FloatArray
    widest: float
    fourth: float


@dataclass(frozen=True, eq=False)
class _Frequencies:
    """Shells of frequencies ζ, by their norm in the metric of H."""

    half: int
    noise: FloatArray
    relative_error: float
    fourth: float
    quartic: float
    parts: list[_Part]

    @classmethod
    def of(cls, crowd: Crowd) -> _Frequencies:
        """Measure the records in the metric of H, nearest first.

        Numerics: rows, and with them all moments, are raised by half of H's relative error, at
        least 1e-9; corrections subtracted from a scatter are raised by the same share of its trace.
        """
        table, removed = crowd.table, crowd.table.removed
        metric, off = np.sqrt(crowd._covariance), crowd._relative_error
        blur = table.offset / float(metric.min()) * (1 + off)
        rows = table.halves[np.argsort(crowd.leverage, kind="stable")]
        rows *= math.sqrt(1 + off) / metric
        count, columns = rows.shape
        sizes = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        tried = _PARTS if columns <= _MANY_COLUMNS else _PARTS[::3]
        ends = sorted({count, *(n for part in tried if (n := int(part * count)) > 4 * columns)})
        parts: list[_Part] = []
        whole = quartic = math.inf
        for size, scatter, mean, fourth, computed in _cumulated(rows, ends):
            longest = (float(sizes[:size].max()) + blur) ** 2
            largest = (computed**0.25 + size**0.25 * blur) ** 4
            if size == count:
                # An error of at most ``blur`` in the rows changes Σ y⊗y⊗y⊗y by at most this.
                moved = 4 * sizes**3 + 6 * sizes**2 * blur + 4 * sizes * blur**2 + blur**3
                whole = fourth + blur * float(moved.sum())
                aside = removed * math.sqrt(longest) / crowd.crowd
                quartic = (largest**0.25 + count**0.25 * aside) ** 4
            offset = float(np.linalg.norm(mean)) + 2 * blur
            widest = (math.sqrt(longest) + offset) ** 2
            shifted = offset + removed * math.sqrt(widest) / (size - removed)
            centred = scatter - size * np.outer(mean, mean)
            blurred = 4 * size * blur * math.sqrt(widest)
            loss = removed * widest * size / (size - removed) + _SLACK * float(np.trace(scatter))
            parts.append(
                _Part(
                    size - removed,
                    # H itself may exceed its computed value by twice the relative error.
                    centred / (1 + off) ** 2 - (loss + blurred) * np.eye(columns),
                    float(np.linalg.eigvalsh(centred)[-1]) + blurred,
                    (largest**0.25 + size**0.25 * shifted) ** 4,
                )
            )
        noise = crowd._noise**2 / crowd._covariance * (1 - off)
        return cls(table.half, noise, off, whole, quartic, parts)

    def rests(self, widened: float) -> FloatArray:
        """Return the log of a bound on the squared norm of all terms of degree ≥ 0, 1, 2, …."""
        end = 2 * (math.log(3.0 + self.half) + 0.5 * float(np.log(2 / self.noise).sum()) + 80)
        end /= float(self.noise.min())
        start = 0.3 * len(self.noise)
        radii = np.geomspace(start, end, max(2, math.ceil(math.log(end / start) / 0.04)))
        low, high = radii[:-1], radii[1:]
        shells = np.minimum(
            self._near(np.array([1.0]), high, low, widened)[0], self._noise_alone(low, widened)
        )
        open_ = shells > -50.0  # the others are negligible
        shells[open_] = np.minimum(shells[open_], self._far(low[open_], high[open_], widened))
        shells = np.append(shells, self._noise_alone(radii[-1:], widened))
        outside = np.logaddexp.accumulate(shells[::-1])[::-1]
        dilation = np.geomspace(1.03, 40.0, 60)
        inside = self._near(dilation, radii, None, widened)
        shrunk = np.arange(_DEGREES) * np.log(dilation)[:, None]
        # Take the best dilation per radius and degree, and the best usable radius per degree.  The
        # rounding of these steps, and of those they use, is far below the slack.
        usable = np.isfinite(inside).any(axis=0)
        dilated = (inside.T[usable, :, None] - shrunk).min(axis=1)
        both = np.logaddexp(dilated, outside[usable, None])
        return np.asarray(both.min(axis=0, initial=math.inf) + _SLACK)

    @property
    def others(self) -> FloatArray:
        """Upper bounds on the others' shares of the variance: λG is at most this in H's metric."""
        # The noise's share is already lowered by the relative error, which is far above rounding.
        return np.asarray((1 - self.noise) * (1 + self.relative_error) ** 2, dtype=np.float64)

    @property
    def _volume(self) -> float:
        """The log of the factor by which det H may exceed its computed value."""
        return 2 * len(self.noise) * math.log1p(self.relative_error)

    def _near(
        self, squared: FloatArray, high: FloatArray, low: FloatArray | None, widened: float
    ) -> FloatArray:
        """Bound log E[|φ(ρζ)|²; low < |ζ|² ≤ high] for every ρ² (rows) and radius (step 6)."""
        half, count, others = self.half, 2 * self.half - 1, self.others
        r2, t2 = squared[:, None], high[None, :]
        spread = r2 * t2 * float(others.max())  # largest λΣ|s|² of ρζ
        bound = np.full((squared.size, high.size), math.inf)
        tails = np.stack([self._outer(float(r), high, widened) for r in squared])
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            for arc in (0.35, 0.5, 0.78):  # the angle between the main and the outer arc
                best = np.full(bound.shape, math.inf)
                curvature = (arc / math.cos(arc) ** 2 - math.tan(arc)) / (4 * arc**3)
                for weight in (0.1, 0.25, 0.5, 1.0):  # of the quartic
                    first = (math.tan(arc) / arc - 1) / arc**2 + 4 * (1 + 1 / weight) * curvature
                    second = (1 + weight) * curvature
                    spare = half - 1 - first * spread
                    bend = widened * second * self.quartic * r2**2 * t2
                    # Most radii are too large for most dilations, so take logarithms of the others
                    # only.
                    usable = (spare > 0) & (r2 * widened * float(others.max()) / count + bend < 1)
                    of_others = np.broadcast_to(r2, usable.shape)[usable] * (widened / count)
                    left = 1 - of_others[:, None] * others - bend[usable][:, None]
                    if low is None:
                        value = -np.log(left).sum(axis=1)
                    else:
                        value = np.full(len(left), math.inf)
                        inner = np.broadcast_to(low, usable.shape)[usable]
                        for share in (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
                            tilt = share * left.min(axis=1)
                            log = np.log(left - tilt[:, None]).sum(axis=1)
                            value = np.fmin(value, -tilt / widened * inner - log)
                    value += 0.5 * np.log((half + 0.5) / spare[usable])
                    least = best[usable]
                    best[usable] = np.where(np.isfinite(value) & (value < least), value, least)
                outer = (
                    math.log(math.pi * (half + 0.5))
                    + tails
                    - count * math.sin(arc) ** 2
                    + 2 / 3 * np.sqrt(self.quartic * spread) * r2 * t2
                )
                outer = np.where(2 * spread <= count, outer, math.inf)
                bound = np.minimum(bound, np.logaddexp(best, outer))
        return np.asarray(math.log(2) + bound, dtype=np.float64)

    def _outer(self, squared: float, high: FloatArray, widened: float) -> FloatArray:
        """Bound log E[exp(ρ²λΣ|s|²); |ζ|² ≤ high], by volume if the exponential dominates."""
        growth = squared * self.others - 1 / widened
        wild = growth > -0.1
        tame, count = -np.log(-growth[~wild]).sum() + self._volume, int(wild.sum())
        if count == 0:
            return np.full(high.shape, tame)
        steepest = max(float(growth.max()), 0.0)
        volume = count * np.log(high) - special.gammaln(count + 1)
        return np.asarray(tame + volume + steepest * high, dtype=np.float64)

    @property
    def _scales(self) -> FloatArray:
        """Multiples of a part's scatter to try; fewer if eigenvalues are expensive."""
        return np.geomspace(1e-3, 0.95, 64 if len(self.noise) <= _MANY_COLUMNS else 24)

    @cached_property
    def _spectra(self) -> list[FloatArray]:
        """Eigenvalues of the noise and these multiples of each part's scatter."""
        own, scales = np.diag(self.noise), self._scales[:, None, None]
        return [np.asarray(np.linalg.eigvalsh(own + scales * p.scatter)) for p in self.parts]

    def _far(self, low: FloatArray, high: FloatArray, widened: float) -> FloatArray:
        """Bound log E[|φ(ζ)|²; low < |ζ|² ≤ high] by the decay of some of the cosines (step 7)."""
        scales = self._scales
        # For every cosine and share of its decay (rows), and every shell (columns); the rest of the
        # decay keeps the tilt integrable.
        choices = [(*cosine, share) for cosine in _COSINES for share in (0.3, 0.6, 0.85, 0.95)]
        alpha, beta, share = np.array(choices).T[:, :, None]

        def tilted(
            tilt: FloatArray, form: FloatArray, row: NDArray[np.intp], shell: NDArray[np.intp]
        ) -> FloatArray:
            """Return the log of the Gaussian integral, tilted towards the shell by Chernoff."""
            rest = 1 - share[row, 0]
            theta = tilt * np.minimum(form[:, 0], rest / widened)
            logs = np.log(form - theta[..., None]).sum(axis=-1)
            logs += form.shape[1] * np.log(rest - theta * widened)
            return np.asarray(-theta * low[shell] - 0.5 * logs)

        best = np.full(low.shape, math.inf)
        chosen = np.zeros(low.shape, dtype=np.intp)
        forms = np.ones((low.size, len(self.noise)))
        for part, spectra in zip(self.parts, self._spectra, strict=True):
            # The remaining factor after integrating out the angle.
            weight = share * part.size
            left = share * (1 - 4 * np.maximum(np.log(weight / math.pi), 0.0) / weight)
            factor = 1 - 12 * part.widest * high / (beta * part.size)
            lost = 8 * alpha * left * part.fourth * high / beta
            # A smaller multiple of a positive form is safe.
            index = np.searchsorted(scales, 2 * alpha * left * factor, side="right") - 1
            row, shell = np.nonzero((index >= 0) & (spectra[index, 0] > lost))
            values = spectra[index[row, shell]] - lost[row, shell][:, None]
            price = np.log(math.pi**2 * (self.half + 0.5) / weight)[row, 0]
            log = tilted(np.array(0.7), values, row, shell) + price
            # The last value written is the smallest of its shell.
            order = np.argsort(-log, kind="stable")
            order = order[log[order] < best[shell[order]]]
            best[shell[order]], chosen[shell[order]] = log[order], row[order]
            forms[shell[order]] = values[order]
        every = np.flatnonzero(np.isfinite(best))
        row, forms, usual = chosen[every], forms[every], np.array(0.7)
        tilts = np.array([0.1, 0.3, 0.5, 0.7, 0.85, 0.95])[:, None]
        gain = tilted(tilts, forms, row, every).min(axis=0) - tilted(usual, forms, row, every)
        best[every] += np.minimum(gain, 0.0)
        return best + self._volume

    def _noise_alone(self, low: FloatArray, widened: float) -> FloatArray:
        """Bound log E[|φ(ζ)|²; |ζ|² > low] by the noise alone (step 8)."""
        count = 2 * self.half - 1
        theta = np.linspace(0.02, 0.98, 49)[:, None] * min(float(self.noise.min()), 0.9 / widened)
        logs = np.log(self.noise - theta).sum(axis=1, keepdims=True)
        logs += len(self.noise) * np.log(1 - 1 / count - theta * widened)
        bound = (-theta * low - 0.5 * logs).min(axis=0)
        return np.asarray(bound + math.log(math.pi**2 / 4 * (count + 2) / count))


def _cumulated(
    rows: FloatArray, ends: list[int]
) -> Iterator[tuple[int, FloatArray, FloatArray, float, float]]:
    """Return upper bounds on second moments, mean and fourth moments of the first ``count`` rows.

    ``fourth`` bounds √ΣΣ(y_i·y_j)⁴, and ``largest`` bounds Σ|e·y_i|⁴ for every unit vector e ∈ C^d.
    """
    columns = rows.shape[1]
    upper = np.triu_indices(columns)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    products = len(weight)
    scatter, total = np.zeros((columns, columns)), np.zeros(columns)
    weighted = np.zeros((columns, columns))
    # With more products, bound fourth moments through second ones.
    moment = np.zeros((products, products)) if products <= 700 else None
    step = max(1, (1 << 21) // products)
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
        largest = max(float(np.linalg.eigvalsh(weighted)[-1]), 0.0)
        fourth = float(np.linalg.norm(weighted))
        if moment is not None:
            fourth = float(np.linalg.norm(moment))
            largest = min(largest, _largest_quartic(moment, upper[0] == upper[1], columns))
        yield end, scatter, total / end, fourth * (1 + _SLACK), largest * (1 + _SLACK)


def _largest_quartic(moment: FloatArray, diagonal: NDArray[np.bool_], columns: int) -> float:
    """Bound Σ|e·y|⁴ = vᵀMv, where v = Re ee* has norm at most 1 and trace 1."""
    unit = diagonal / math.sqrt(columns)
    image = moment @ unit
    along = float(unit @ image)
    across = float(np.linalg.norm(image - along * unit))
    rest = moment - np.outer(unit, image) - np.outer(image, unit) + along * np.outer(unit, unit)
    share = 1 - 1 / columns
    top = float(np.linalg.eigvalsh(rest)[-1])
    return along / columns + 2 * across * math.sqrt(share / columns) + max(top, 0.0) * share
