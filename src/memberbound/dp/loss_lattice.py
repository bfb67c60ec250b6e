"""Privacy losses on a lattice, composed many times, never below the truth.

One release has an in-law P and an out-law Q; its privacy loss ln(P/Q) under P is stored on the
points (start + i)·step, plus a mass at +∞.  T independent releases add their losses, so the masses
are convolved T times by one fast Fourier transform.  Three errors are accounted for (theory §6.8):

* *wrap-around*: mass above the window is bounded by Chernoff's inequality and added; mass that
  wraps into the window only adds;
* *rounding*: every output of a Cooley–Tukey transform of t is within c·u·log₂M·‖t‖₁ of the truth,
  because at each stage the partial sums feeding one output are bounded by ‖t‖₁ together.  A
  perturbation e of every coefficient F changes F^T by at most T·|F|^{T-1}·e, so each composed mass
  is off by at most (T+1)·e·mean|F|^{T-1};
* *tails*: the same absolute error would drown a δ of 1e-12, so the masses are also composed under
  exponential tilts e^{θℓ}, which make the error relative to the tail.

Each tilt gives valid support lines; the smallest is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack

__all__ = ["ForwardProfile", "LossLattice"]

#: Mass outside the window, as a natural logarithm.
_LOG_TAIL = -46.0
#: Rounding per stage of a transform, in units: twiddle factor, two products, sums (Higham §24.1
#: gives about 7); doubled.
_STAGE = 16.0
#: Tail levels for which an exponential tilt is made.
_TILT_LEVELS = (1e-7, 1e-14, 1e-28)
_TILT_GRID = np.concatenate([np.geomspace(1e-3, 0.1, 5), np.geomspace(0.15, 512.0, 26)])
_NEGATIVE_ORDERS = -np.geomspace(0.05, 64.0, 10)
#: Largest window, in lattice points.
MAX_WINDOW = 1 << 22


@dataclass(frozen=True)
class ForwardProfile:
    """Support lines TPR ≤ δ + e^ε α at ascending ε ≥ 0, each valid by itself."""

    epsilon: FloatArray
    delta: FloatArray

    def tpr(self, fpr: float) -> float:
        """Return the smallest line at one FPR: an upper bound on the TPR."""
        with np.errstate(over="ignore"):
            lines = self.delta + np.exp(self.epsilon) * fpr
        return min(1.0, float(lines.min()) * (1 + 8 * UNIT))

    @property
    def advantage(self) -> float:
        """The line of slope one."""
        return self.stick(0.0)

    def stick(self, epsilon: float) -> float:
        """Return the hockey-stick at one ε from above: the profile falls, so look to the left."""
        index = int(np.searchsorted(self.epsilon, epsilon, side="right")) - 1
        return float(self.delta[: index + 1].min())

    def meet(self, other: ForwardProfile) -> ForwardProfile:
        """Return the lines of both."""
        return ForwardProfile(
            np.concatenate([self.epsilon, other.epsilon]),
            np.concatenate([self.delta, other.delta]),
        )


@dataclass(frozen=True)
class LossLattice:
    """Masses of the privacy loss at (start + i)·step, and ``infinite`` at +∞.

    ``relative_error`` bounds how far each mass may lie below the mass it stands for.
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

    def _log_mgf(self, orders: FloatArray) -> FloatArray:
        """Log moment generating function at several orders, without overflow."""
        positive = self.mass > 0
        losses, log_mass = self.losses[positive], np.log(self.mass[positive])
        result = np.empty(orders.size)
        with np.errstate(under="ignore"):
            for i, order in enumerate(orders):
                exponent = order * losses + log_mass
                top = float(exponent.max())
                result[i] = top + math.log(float(np.exp(exponent - top).sum()))
        # The logarithm of a sum of n terms is off by little more than their relative error.
        return result + 1e-12 * (1 + np.abs(result))

    def composed_profile(self, times: int, grid: FloatArray | None = None) -> ForwardProfile:
        """Return support lines of ``times`` independent releases, on lattice points ε ≥ 0.

        Guarantee: every line lies on or above the true hockey-stick, provided ``mass`` dominates
        one release (see :mod:`memberbound.dp.subsampled_gaussian`).
        """
        log_mgf = self._log_mgf(_TILT_GRID)
        fall = self._log_mgf(_NEGATIVE_ORDERS)
        tilts = [0.0]
        for level in _TILT_LEVELS:
            reach = (times * log_mgf - math.log(level)) / _TILT_GRID
            tilts.append(float(_TILT_GRID[int(np.argmin(reach))]))
        _, high = self._window(times, 0.0, log_mgf, fall)
        top = max(high, 1)
        if grid is None:
            grid = _line_indices(self.step, top)
        best = np.ones(grid.size)
        for tilt in sorted(set(tilts)):
            best = np.minimum(best, self._sticks(times, tilt, grid, log_mgf, fall))
        # All mass at +∞ after T releases, and the shortfall of each mass, both from above.
        lost = -math.expm1(times * math.log1p(-min(self.infinite, 0.5)))
        best = best * math.exp(1.01 * times * self.relative_error) + lost * (1 + 8 * UNIT)
        return ForwardProfile(grid * self.step, np.minimum(best, 1.0))

    def _window(
        self, times: int, tilt: float, log_mgf: FloatArray, fall: FloatArray
    ) -> tuple[int, int]:
        """Lattice range that holds all but e^{_LOG_TAIL} of the tilted composed mass."""
        base = 0.0 if tilt == 0.0 else float(np.interp(tilt, _TILT_GRID, log_mgf))
        upper = times * (self.start + self.mass.size - 1) * self.step
        for order, value in zip(_TILT_GRID, log_mgf, strict=True):
            if order > tilt:
                reach = (times * (value - base) - _LOG_TAIL) / (order - tilt)
                upper = min(upper, reach)
        lower = times * self.start * self.step
        # Orders below the tilt: the rest of the grid, order 0, and some negative ones.
        orders = np.concatenate([_NEGATIVE_ORDERS, [0.0], _TILT_GRID])
        values = np.concatenate([fall, [0.0], log_mgf])
        below = orders < tilt
        if below.any():
            reach = (times * (values[below] - base) - _LOG_TAIL) / (orders[below] - tilt)
            lower = max(lower, float(reach.max()))
        return math.floor(lower / self.step) - 1, math.ceil(upper / self.step) + 1

    def _sticks(
        self, times: int, tilt: float, grid: FloatArray, log_mgf: FloatArray, fall: FloatArray
    ) -> FloatArray:
        """Hockey-sticks at the lattice indices ``grid``, from one tilted convolution."""
        from scipy import fft, signal  # slow to import, and only DP-SGD needs them

        if tilt == 0.0:
            tilted, log_scale = self.mass, 0.0
        else:
            exponent = tilt * self.losses
            shift = float(exponent.max())
            weighted = np.exp(exponent - shift) * self.mass
            total = float(weighted.sum())
            tilted, log_scale = weighted / total, times * (shift + math.log(total))
        low, high = self._window(times, tilt, log_mgf, fall)
        if high - min(low, 0) + 1 > MAX_WINDOW:
            return np.ones(grid.size)
        length = fft.next_fast_len(max(high - low + 1, 64), real=True)
        composed, error = _convolved(tilted, times, length)
        # Index k of the circular result stands for lattice point times·start + k (mod length).
        points = np.arange(max(low + length, 1))
        composed = np.where(points >= low, composed[(points - times * self.start) % length], 0.0)
        with np.errstate(over="ignore", under="ignore"):
            scale = np.exp(np.minimum(log_scale - tilt * points * self.step, 700.0))
        mass = composed * scale * (1 + 64 * UNIT * (1 + abs(log_scale)))
        above = float(np.exp(min(log_scale - tilt * (low + length) * self.step + _LOG_TAIL, 0.0)))
        # S_j = mass above point j, A_j = Σ mass·e^{ε_j-ℓ}: the stick is S - A.
        decay = math.exp(-self.step)
        reverse = mass[::-1]
        behind = np.concatenate([[0.0], np.cumsum(reverse)[:-1]])
        filtered = signal.lfilter([0.0, decay], [1.0, -decay], reverse)
        slack = sum_slack(mass.size) + 4 * UNIT / self.step
        stick = (behind - filtered)[::-1] + (behind * slack)[::-1]
        spread = (
            float(points.size) if tilt == 0 else min(points.size, 1 / math.expm1(tilt * self.step))
        )
        noise = error * scale * spread * 1.01
        stick = np.maximum(stick, 0.0) + noise + above
        index = grid.astype(np.int64)
        inside = index < stick.size
        values = stick[np.minimum(index, stick.size - 1)]
        return np.where(inside, values, above)  # beyond the window only the Chernoff tail is left


def _line_indices(step: float, top: int) -> FloatArray:
    """Lattice indices of the lines to keep.

    Some 500 over the window, and about every 0.01 in ε (every 0.5 % beyond 4), so that neither
    a narrow nor a wide window is drawn with too few lines.
    """
    eps = np.concatenate([np.arange(0.0, 4.0, 0.01), np.geomspace(4.0, 1e9, 4200)])
    index = np.concatenate([np.ceil(eps / step), np.ceil(np.linspace(0.0, top, 500))])
    return np.unique(np.append(index[index < top], float(top)))


def _convolved(mass: FloatArray, times: int, length: int) -> tuple[FloatArray, float]:
    """Return the T-fold circular convolution and a bound on the error of each entry."""
    from scipy import fft

    padded = np.zeros(-(-mass.size // length) * length)
    padded[: mass.size] = mass
    folded = padded.reshape(-1, length).sum(axis=0)
    coefficient = fft.rfft(folded)
    with np.errstate(under="ignore"):
        power = coefficient**times
        size = np.abs(coefficient)
        total = max(1.0, float(folded.sum()))
        rounding = _STAGE * UNIT * math.log2(length) * total
        weight = np.minimum(size + rounding, total) ** (times - 1)
    composed = fft.irfft(power, length)
    # irfft averages over ``length`` coefficients; the half spectrum stands for both halves.
    mean = 2.0 * float(weight.sum()) / length
    error = (times * (rounding + 8 * UNIT) + 2 * rounding) * mean * total
    return np.maximum(composed, 0.0), error
