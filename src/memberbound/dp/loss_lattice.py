"""Privacy-loss distributions on a lattice: composition with safe rounding, and their curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack

# ── Upper bounds on composed privacy losses, on a lattice ─────────────────────────────────────────
#
# One release has an in-law P and an out-law Q; its privacy loss ln(P/Q) under P is stored on the
# points (start + i)·step, plus a mass at +∞.  T independent releases, of one kind or several, add
# their losses, so the masses are convolved T times by one fast Fourier transform of each kind.
# Three errors are accounted for (theory §6.8, ``proofs/loss-lattice.md``):
#
# * *wrap-around*: mass above the window is bounded by Chernoff's inequality and added; mass that
#   wraps into the window only adds, except that a tilt would scale mass from below too far down, so
#   that is bounded and added as well;
# * *rounding*: every output of a Cooley–Tukey transform of t is within c·u·log₂M·‖t‖₁ of the truth,
#   because it is a sum of the t_n times phases, each rounded log₂M times.  A perturbation e of a
#   coefficient F changes F^T by at most T·(|F|+e)^{T-1}·e.  The mean of these bounds every composed
#   mass, their root mean square bounds the Euclidean norm of all errors together;
# * *tails*: the same absolute error would drown a δ of 1e-12, so the masses are also composed under
#   exponential tilts e^{θℓ}, which make the error relative to the tail.
# Each tilt gives valid support lines, of which the smallest is kept.

#: Mass above the window, as a natural logarithm.
_LOG_TAIL = -46.0
#: Rounding per halving of a transform, in units: twiddle factor, two products, sums (Higham §24.1
#: gives about 7, the radices 3, 4 and 5 no more); doubled.
_STAGE = 16.0
#: Tail levels with an exponential tilt.
_TILT_LEVELS = (1e-13, 1e-30)
#: Orders to try in Chernoff's inequality, relative to the best one for a normal law.
_ORDERS = np.geomspace(1 / 512, 4.0, 16)
#: Largest window, in lattice points.
MAX_WINDOW = 1 << 21
#: A tilted window may be longer than the plain one by at most this factor.
_TILT_STRETCH = 4
#: Larger exponents are clipped; the noise term has the same factor and then exceeds one.
_CUT = 600.0
#: Covers every underflow.
_TINY = 1e-290

ComplexArray = NDArray[np.complex128]


@dataclass(frozen=True)
class ForwardProfile:
    """Support lines TPR ≤ δ + e^ε α at ascending ε ≥ 0, each valid on its own."""

    epsilon: FloatArray
    delta: FloatArray

    def tpr(self, fpr: float) -> float:
        """Return the minimum of the lines at an FPR, an upper bound on the TPR."""
        with np.errstate(over="ignore"):
            lines = self.delta + np.exp(self.epsilon) * fpr
        return min(1.0, float(lines.min()) * (1 + 8 * UNIT))

    @property
    def advantage(self) -> float:
        """The line of slope one."""
        return self.stick(0.0)

    def stick(self, epsilon: float) -> float:
        """Return the hockey-stick at one ε from above; see :meth:`sticks`."""
        return float(self.sticks(np.array([epsilon]))[0])

    def sticks(self, epsilon: FloatArray) -> FloatArray:
        """Return hockey-sticks from above.

        The profile is decreasing, so a value to the left is a bound; it is also convex in e^ε, so
        the chord to the next line on the right is another one.
        """
        index = np.searchsorted(self.epsilon, epsilon, side="right")
        left = np.append(1.0, np.minimum.accumulate(self.delta))[index]
        inside = (index > 0) & (index < self.epsilon.size)
        low = self.epsilon[np.maximum(index - 1, 0)]
        high = self.epsilon[np.minimum(index, self.epsilon.size - 1)]
        gap = np.where(inside & (high > low), high - low, 1.0)
        share = np.expm1(np.clip(epsilon - low, 0.0, gap)) / np.expm1(np.minimum(gap, 1.0))
        right = self.delta[np.minimum(index, self.epsilon.size - 1)]
        # The error of the share is a few units of its gap, so at most relative to ``left``.
        slack = 16 * UNIT * (1 + (np.abs(low) + np.abs(high)) / gap)
        chord = left * (1 - share) + right * share + slack * left
        useful = inside & (gap <= 1.0) & (epsilon > low)
        return np.where(useful, np.minimum(left, chord), left)

    def worse(self, other: ForwardProfile) -> ForwardProfile:
        """Return lines that bound both profiles, at the slopes of this one."""
        return ForwardProfile(
            self.epsilon, np.maximum(self.sticks(self.epsilon), other.sticks(self.epsilon))
        )

    def meet(self, other: ForwardProfile) -> ForwardProfile:
        """Return the lines of both profiles."""
        epsilon = np.concatenate([self.epsilon, other.epsilon])
        delta = np.concatenate([self.delta, other.delta])
        order = np.argsort(epsilon, kind="stable")
        return ForwardProfile(epsilon[order], delta[order])


@dataclass(frozen=True)
class LossLattice:
    """Masses of the privacy loss at (start + i)·step, and ``infinite`` at +∞.

    ``relative_error`` bounds the amount by which each mass may be below the mass it represents.
    """

    start: int
    step: float
    mass: FloatArray
    infinite: float
    relative_error: float

    @property
    def losses(self) -> FloatArray:
        """Loss at each point of the lattice."""
        index = self.start + np.arange(self.mass.size, dtype=np.float64)
        return np.asarray(index * self.step, dtype=np.float64)

    def composed_profile(self, times: int, grid: FloatArray | None = None) -> ForwardProfile:
        """Return support lines of ``times`` independent releases; see :class:`Composition`."""
        return Composition(((self, times),)).profile(grid)

    def tilted(self, theta: float) -> tuple[FloatArray, float, float] | None:
        """Return mass·e^{θℓ}/Z, ln Z and the rounding of the exponentials.

        None if underflow would not be negligible.
        """
        exponent = theta * self.losses
        shift = float(exponent[self.mass > 0].max())
        with np.errstate(under="ignore"):  # the noise term covers masses that underflow
            weighted = np.exp(np.minimum(exponent - shift, 0.0)) * self.mass
        # An approximate sum suffices, because the factor is multiplied back in later.
        total = float(weighted.sum())
        if total < _TINY / UNIT:
            return None
        exponents = float(np.abs(exponent).max()) + abs(math.log(total))
        return weighted / total, shift + math.log(total), 32 * UNIT * (1 + exponents)

    def log_moments(self, mass: FloatArray, orders: FloatArray) -> FloatArray:
        """Return upper bounds on ln Σ mass·e^{hℓ}, without overflow."""
        positive = mass > 0
        losses, log_mass = self.losses[positive], np.log(mass[positive])
        result = np.empty(orders.size)
        with np.errstate(under="ignore"):
            for i, order in enumerate(orders):
                exponent = order * losses + log_mass
                top = float(exponent.max())
                result[i] = top + math.log(float(np.exp(exponent - top).sum()))
        # Covers exponents up to 1024 (beyond, the result is as large) and the sum over kinds.
        return result + sum_slack(losses.size + 8192) + 8 * UNIT * np.abs(result)


@dataclass(frozen=True)
class _Tilted:
    """Masses of each part times e^{θℓ}, normalised.

    A composed mass at loss ℓ is at most the tilted one times e^{log_scale - θℓ}·e^{error}.
    """

    theta: float
    masses: tuple[FloatArray, ...]
    log_scale: float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class Composition:
    """Independent releases: lattices of one spacing, each with its number of repetitions.

    Guarantee: every line of :meth:`profile` lies on or above the true hockey-stick, provided each
    lattice dominates its release (see :mod:`memberbound.dp.dpsgd`).
    """

    parts: tuple[tuple[LossLattice, int], ...]

    @property
    def step(self) -> float:
        """The common spacing of all lattices."""
        return self.parts[0][0].step

    @property
    def times(self) -> int:
        """Number of releases."""
        return sum(times for _, times in self.parts)

    def _total(self, values: Iterable[float]) -> float:
        """Return Σ times·value over the parts."""
        return math.fsum(
            times * value for (_, times), value in zip(self.parts, values, strict=True)
        )

    @property
    def _lowest(self) -> int:
        return sum(times * lattice.start for lattice, times in self.parts)

    @property
    def _highest(self) -> int:
        return sum(times * (part.start + part.mass.size - 1) for part, times in self.parts)

    def profile(self, grid: FloatArray | None = None) -> ForwardProfile:
        """Return support lines of all releases, on lattice points ε ≥ 0.

        ``grid`` are ascending lattice indices (default: about a thousand over the window).
        """
        lattices = [lattice for lattice, _ in self.parts]
        relative = self._total(lattice.relative_error for lattice in lattices)
        if not all(lattice.mass.any() for lattice in lattices) or relative > 0.5:
            return ForwardProfile(np.zeros(1), np.ones(1))
        plain = _Tilted(0.0, tuple(lattice.mass for lattice in lattices))
        low, high = self._window(plain)
        runs = [(plain, low, high)]
        if self.times > 1:
            longest = _TILT_STRETCH * max(high - low, 1 << 14)
            for theta in self._tilts():
                tilt = self._tilted(theta)
                if tilt is not None:
                    low, high = self._window(tilt)
                    if high - low < longest:
                        runs.append((tilt, low, high))
        if grid is None:
            grid = _line_indices(self.step, max(1, *(high for _, _, high in runs)))
        best = np.ones(grid.size)
        for run, low, high in runs:
            best = np.minimum(best, self._sticks(run, (low, high), grid))
        # Upper bounds on the mass at +∞ after T releases, and on the shortfall of each mass.
        lost = 1.0
        if max(lattice.infinite for lattice in lattices) < 1:
            lost = -math.expm1(self._total(math.log1p(-each.infinite) for each in lattices))
        best = best * _growth(relative) + lost * (1 + 8 * UNIT) + _TINY
        # A line may be moved to a larger ε, so round ε up.
        return ForwardProfile(grid * self.step * (1 + 2 * UNIT), np.minimum(best, 1.0))

    def _tilted(self, theta: float) -> _Tilted | None:
        """Return the masses under the tilt θ, with the rounding of the exponentials."""
        tilted = [lattice.tilted(theta) for lattice, _ in self.parts]
        finite = [each for each in tilted if each is not None]
        if len(finite) < len(tilted):
            return None
        masses, logs, errors = zip(*finite, strict=True)
        return _Tilted(theta, masses, self._total(logs), self._total(errors))

    def _log_moments(self, masses: Sequence[FloatArray], orders: FloatArray) -> FloatArray:
        """Return upper bounds on the logarithms of the sum's moments."""
        moments = [
            (times * lattice.log_moments(mass, orders)).tolist()
            for (lattice, times), mass in zip(self.parts, masses, strict=True)
        ]
        return np.array([math.fsum(column) for column in zip(*moments, strict=True)])

    def _orders(self, masses: Sequence[FloatArray], log_tail: float) -> FloatArray:
        """Return orders around the best one for a normal law of the same variance."""
        variances = []
        for mass in masses:
            points = np.arange(mass.size, dtype=np.float64)
            total = float(mass.sum())
            mean = float((mass * points).sum()) / total
            variances.append(max(1e-6, float((mass * np.square(points - mean)).sum()) / total))
        return _ORDERS * (math.sqrt(-2 * log_tail / self._total(variances)) / self.step)

    def _tilts(self) -> list[float]:
        """Return tilts that move the tails of size ``_TILT_LEVELS`` to the centre."""
        masses = [lattice.mass for lattice, _ in self.parts]
        orders = self._orders(masses, math.log(_TILT_LEVELS[0]))
        moments = self._log_moments(masses, orders)
        best = {float(orders[np.argmin((moments - math.log(v)) / orders)]) for v in _TILT_LEVELS}
        return sorted(best)

    def _window(self, tilt: _Tilted) -> tuple[int, int]:
        """Return a lattice range with at most e^{_LOG_TAIL} of the tilted mass on either side."""
        orders = self._orders(tilt.masses, _LOG_TAIL)
        upper, lower = float(self._highest), float(self._lowest)
        if self.times > 1:
            ahead = self._log_moments(tilt.masses, orders) - _LOG_TAIL
            behind = self._log_moments(tilt.masses, -orders) - _LOG_TAIL
            upper = min(upper, float(np.min(ahead / orders)) / self.step)
            lower = max(lower, float(np.max(-behind / orders)) / self.step)
        slack = 8 * UNIT * (abs(lower) + abs(upper))
        return math.floor(lower - slack) - 1, math.ceil(upper + slack) + 1

    def _sticks(self, tilt: _Tilted, window: tuple[int, int], grid: FloatArray) -> FloatArray:
        """Return hockey-sticks at the lattice indices ``grid``, from one tilted convolution."""
        (low, high), first = window, int(grid[0])
        # An empty window: nearly all mass is at +∞ after this many releases.
        if high < low or high - min(low, first) + 1 > MAX_WINDOW:
            return np.ones(grid.size)
        length = _smooth_length(max(high - low + 1, 64))
        end = low + length
        index = grid[: np.searchsorted(grid, end - 1)].astype(np.int64)
        rate = tilt.theta * self.step
        # Covers rounding of the tilt, of the inverse scale, and of the sums.
        exponents = abs(tilt.log_scale) + rate * max(abs(first), abs(end))
        roundings = end - first + 8 * index.size + 64 + 8 * math.ceil(exponents)
        relative = tilt.error + sum_slack(roundings)
        if relative > 0.5:
            return np.ones(grid.size)
        above = math.exp(min(0.0, tilt.log_scale - rate * end + _LOG_TAIL)) * _growth(relative)
        if end > self._highest:
            above = 0.0  # the window includes the largest loss
        sticks = np.full(grid.size, above)
        if index.size == 0:  # beyond the window there is only the Chernoff tail
            return sticks
        counts = [times for _, times in self.parts]
        composed, sup_error, norm_error = _convolved(tilt.masses, counts, length)
        # Index k of the circular result is the lattice point Σ times·start + k (mod length).
        points = np.arange(first + 1, end)
        mass = np.where(points >= low, composed[(points - self._lowest) % length], 0.0)
        if tilt.theta > 0:
            with np.errstate(under="ignore"):
                mass *= np.exp(np.minimum(tilt.log_scale - rate * points, _CUT))
        value = _sticks_of_masses(mass, index - first, self.step)
        # The errors after index i, weighted by 1 - e^{ε_i - ℓ} ≤ min(1, distance in loss); the
        # first is scaled like point i + 1, and the others decrease geometrically.
        behind = (end - 1 - index).astype(np.float64)
        reach = np.minimum(1.0, behind * self.step)
        with np.errstate(under="ignore"):
            scale = np.exp(np.minimum(tilt.log_scale - rate * (index + 1), _CUT))
        terms, squares, below = behind, behind, 0.0
        if rate > 0:
            below = math.exp(_LOG_TAIL)
            terms = np.minimum(behind, -1 / math.expm1(-rate))
            squares = np.minimum(behind, -1 / math.expm1(-2 * rate))
        error = np.minimum(sup_error * terms, norm_error * squares**0.5) + below
        noise = 1.01 * scale * reach * error
        sticks[: index.size] += (value + noise) * _growth(relative)
        return sticks


def _growth(relative: float) -> float:
    """Return an upper bound on Π 1/(1-ρ), for errors ρ with sum ``relative`` ≤ 1/2.

    A single error of that size is the worst case, and -ln(1-ρ) ≤ ρ + ρ² up to ρ = 0.68.
    """
    return math.exp(1.01 * relative * (1 + relative))


def _sticks_of_masses(mass: FloatArray, index: NDArray[np.int64], step: float) -> FloatArray:
    """Return Σ_{j > i} mass_j·(1 - e^{-(j-i)·step}) at ascending i, from positive terms.

    ``mass[k]`` belongs to the point k + 1.  Points between two indices are added directly, the
    rest follows from the next index, d further: 1 - e^{-(x+d)} = e^{-d}(1 - e^{-x}) + (1 - e^{-d}).
    """
    sizes = np.diff(index, append=mass.size)
    offset = np.arange(1, mass.size - index[0] + 1) - np.repeat(index - index[0], sizes)
    body = mass[index[0] :]
    starts = index - index[0]
    whole = np.add.reduceat(body, starts).tolist()
    with np.errstate(under="ignore"):
        near = np.add.reduceat(body * -np.expm1(-step * offset), starts).tolist()
        rise = (-np.expm1(-step * sizes)).tolist()
        fall = np.exp(-step * sizes).tolist()
    result = np.empty(index.size)
    stick = above = 0.0
    for i in range(index.size - 1, -1, -1):
        stick = near[i] + fall[i] * stick + rise[i] * above
        above += whole[i]
        result[i] = stick
    return result


def _line_indices(step: float, top: int) -> FloatArray:
    """Return the lattice indices of the lines to keep.

    There are about 500 over the window, and one about every 0.01 in ε (every 0.5 % beyond 4), so
    that narrow and wide windows both have enough lines.
    """
    eps = np.concatenate([np.arange(0.0, 4.0, 0.01), np.geomspace(4.0, 1e9, 4200)])
    index = np.concatenate([np.ceil(eps / step), np.ceil(np.linspace(0.0, top, 500))])
    return np.unique(np.append(index[index < top], float(top)))


def _smooth_length(at_least: int) -> int:
    """Return the next length of the form {8, 9, 10, 12, 15}·2^k: fast, and no prime above 5."""
    scale = 1 << max(0, (at_least - 1).bit_length() - 4)
    return min(f * scale for f in (8, 9, 10, 12, 15, 16) if f * scale >= at_least)


def _power(base: ComplexArray, exponent: int) -> ComplexArray:
    """Return ``base`` to a whole power ≥ 1; relative error below (exponent - 1) products."""
    result: ComplexArray | None = None
    while True:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent == 0:
            assert result is not None
            return result
        base = base * base


def _convolved(
    masses: Sequence[FloatArray], counts: Sequence[int], length: int
) -> tuple[FloatArray, float, float]:
    """Return the circular convolution of all powers, and its error in the sup- and Euclidean norm.

    ``proofs/loss-lattice.md``, §4: with coefficients F_k off by e_k and W_k = |F_k| + e_k, the
    product of the powers T_k is off by Π W_k^{T_k} times Σ T_k·e_k/W_k and the rounding of the
    inverse transform.
    """
    times, product, bound = sum(counts), None, np.ones(1)
    ratio = np.zeros(1)
    with np.errstate(under="ignore"):
        for mass, count in zip(masses, counts, strict=True):
            rows = -(-mass.size // length)
            padded = np.zeros(rows * length)
            padded[: mass.size] = mass
            folded = padded.reshape(rows, length).sum(axis=0)
            if times == 1:
                return folded, 0.0, 0.0
            coefficient = np.fft.rfft(folded)
            # Stages are counted twice, which covers the products of powers, the sum and |F|.
            stages = _STAGE * UNIT * math.log2(length)
            off = (stages + rows * UNIT) * float(folded.sum())
            # Upper bound on |F| of both the true and the computed coefficient.
            size = np.abs(coefficient) + off
            bound = bound * size**count
            ratio = ratio + count * off / size
            power = _power(coefficient, count)
            product = power if product is None else product * power
        assert product is not None
        composed = np.fft.irfft(product, length)
        each = bound * (ratio * 1.01 + 2 * stages)
        squares = float(np.square(each).sum())
    # The half spectrum represents both halves.
    mean, norm = 2 * float(each.sum()) / length, math.sqrt(2 * squares / length)
    return np.maximum(composed, 0.0), mean * 1.01, norm * 1.01
