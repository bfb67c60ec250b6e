"""Reference values of DP-SGD, by a contour integral instead of a lattice.

Shares no code and no method with memberbound, riskcal or dp-accounting, which all put losses on a
lattice.  With L the privacy loss of one step, x ~ N(0, σ²) and s = (x - ½)/σ²,

    L = ln(1 - q + q·e^s),      M(z) = E e^{zL}   ("out" law),      M(z+1)   ("in" law),

T steps add their losses, so their transform is M^T.  Undoing a Laplace transform on the line
Re z = c > 0 gives

    P_in(L > τ)  = 1/(2πi) ∫ e^{-zτ} M(z+1)^T / z        dz,
    P_out(L > τ) = 1/(2πi) ∫ e^{-zτ} M(z)^T / z          dz,
    δ(ε)         = 1/(2πi) ∫ e^{-zε} M(z+1)^T / (z(z+1)) dz.

Errors, all of them bounded or at rounding level:

* M(z): the trapezoidal rule on x.  The nearest singularity of L is πσ² off the real line, so
  spacing h has an error of about e^{-2π²σ²/h}; σ/16 or less puts that below 1e-100.
* The line integral: the trapezoidal rule with spacing h equals the wanted number plus its aliases
  Σ_{k≠0} e^{ckp} f(τ + kp), p = 2π/h (Poisson summation).  They are ≥ 0; those on the left are at
  most e^{-cp}/(1-e^{-cp}) together, those on the right fall under Chernoff's bound.  Both bounds
  are part of the error that is returned.
* Truncation: the line ends where |M^T| stayed below 1e-18 of its peak for 64 nodes.  It does not
  come back, since the loss has a smooth density; running this file checks ten times as far.
* Rounding: ln M is accurate to about 1e-15, so M^T to about 1e-12; 1e-11 is added.

Every value is relative to the saddle point, so small tails keep their relative accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

__all__ = ["Dominance", "MonteCarlo", "monte_carlo"]

#: Logarithm of the accuracy required of aliases and truncation, relative to the saddle value.
_LOG_ACCURACY = -34.0
#: Rounding of M^T, relative to the saddle value.
_ROUNDING = 1e-11


@dataclass(frozen=True)
class Dominance:
    """The pair "record in" against "record out" of DP-SGD, add/remove.

    For slopes e^ε ≥ 1 this order of the pair is the worse one (Zhu, Dong and Wang 2022), so the
    advantage, ε(δ) and the TPR at small FPR are those of the symmetrised curve too.
    """

    sigma: float
    q: float
    steps: int
    #: Moves the line of integration away from the saddle point: the result must not change.
    shift: float = 1.0

    @cached_property
    def _law(self) -> tuple[np.ndarray, np.ndarray]:
        """Loss and log weight at the nodes of the trapezoidal rule under N(0, σ²).

        The range covers e^{zL} for Re z up to about 60: a tilt by z moves the mass to x = z.
        """
        sigma = self.sigma
        width = min(sigma, sigma * sigma) / 32
        x = np.arange(-16 * sigma, 16 * sigma + 64.0, width)
        s = (x - 0.5) / sigma**2
        loss = np.logaddexp(math.log1p(-self.q), math.log(self.q) + s)
        near = s < 20  # without cancellation where the loss is small
        loss[near] = np.log1p(self.q * np.expm1(s[near]))
        log_weight = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
        keep = log_weight + 60.0 * np.maximum(loss, 0.0) > -200
        return loss[keep], log_weight[keep] + math.log(width)

    def _log_m(self, z: np.ndarray) -> np.ndarray:
        """Return ln M(z) for z on one vertical line (any branch: only e^{T·} is used)."""
        loss, log_weight = self._law
        real = float(z[0].real)
        exponent = real * loss + log_weight
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        heavy = weight > 1e-18
        total = np.exp(1j * np.outer(z.imag, loss[heavy])) @ weight[heavy]
        with np.errstate(divide="ignore"):
            return top + np.log(total)

    def _chernoff(self, order: float) -> float:
        """Return ln of E_out e^{order·L} over all steps."""
        return self.steps * float(self._log_m(np.array([complex(order)]))[0].real)

    def _saddle(self, tau: float, shift: float) -> float:
        """Return c > 0 that about minimises e^{-cτ}M(c+shift)^T/c."""
        orders = np.geomspace(0.05, 40.0, 60)
        values = [self._chernoff(c + shift) - c * tau - math.log(c) for c in orders]
        return self.shift * float(orders[int(np.argmin(values))])

    def _integral(self, tau: float, shift: float, kernel: str) -> tuple[float, float]:
        """Return the integral and a bound on its absolute error."""
        c = self._saddle(tau, shift)
        peak = self._chernoff(c + shift) - c * tau
        scale = math.exp(peak)
        # Left aliases: e^{-cp}/(1-e^{-cp}) in all.  Right ones: Chernoff at a higher order.
        period = max((-_LOG_ACCURACY - min(peak, 0.0)) / c, 1.0)
        higher = np.array([1.05, 1.1, 1.25, 1.5, 2.0, 3.0]) * c
        rise = np.array([self._chernoff(order + shift) - order * tau for order in higher])
        while True:
            left = math.exp(-c * period) / -math.expm1(-c * period)
            right = float(np.min(np.exp(np.minimum(rise - (higher - c) * period, 300.0))))
            if left + right < 1.01 * math.exp(_LOG_ACCURACY) * scale:
                break
            period *= 1.25
        h = 2 * math.pi / period
        total, size, start = 0.0, 0.0, 0
        while True:
            t = h * np.arange(start, start + 256)
            z = c + 1j * t
            power = np.exp(self.steps * self._log_m(z + shift) - z * tau - peak)
            divisor = z * (z + 1) if kernel == "stick" else z
            terms = (power / divisor).real
            total += float(terms.sum()) - (0.5 * float(terms[0]) if start == 0 else 0.0)
            size += float(np.abs(terms).sum())
            start += 256
            # Gaussian decay: what is left is far below the last block's largest term.
            if float(np.abs(power[-64:]).max()) < 1e-18:
                break
            if start > 1 << 17:
                raise RuntimeError("the line integral did not decay")
        unit = scale * h / math.pi
        return unit * total, 2 * (left + right) + _ROUNDING * unit * size

    def stick(self, epsilon: float) -> tuple[float, float]:
        """Return δ(ε) and the bound on its error."""
        return self._integral(epsilon, 1.0, "stick")

    def survival(self, tau: float, law: str) -> tuple[float, float]:
        """Return P(L > τ) under the law "in" or "out", and the bound on its error."""
        return self._integral(tau, 1.0 if law == "in" else 0.0, "tail")

    def advantage(self) -> tuple[float, float]:
        """Return the largest TPR - FPR."""
        return self.stick(0.0)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return ε at δ; its error is that of δ over the slope."""
        root = self._root(lambda e: self.stick(e)[0], delta)
        slope = self.survival(root, "out")[0] * math.exp(root)
        return root, 1e-10 + self.stick(root)[1] / slope

    def tpr(self, fpr: float) -> tuple[float, float]:
        """Return the TPR of the likelihood-ratio test at one FPR (slope at least one)."""
        tau = self.threshold(fpr)
        value, error = self.survival(tau, "in")
        return value, error + math.exp(tau) * (self.survival(tau, "out")[1] + 1e-11 * fpr)

    def threshold(self, fpr: float) -> float:
        """Return τ with P_out(L > τ) = fpr."""
        tau = self._root(lambda t: self.survival(t, "out")[0], fpr)
        if tau < 0:
            raise ValueError(f"at FPR {fpr} the other order of the pair may decide")
        return tau

    @staticmethod
    def _root(falling, target: float) -> float:
        """Return where a falling function meets the target, in log scale."""
        high = 1.0
        while falling(high) > target:
            high *= 2
        return float(
            brentq(lambda v: math.log(falling(v)) - math.log(target), 0.0, high, xtol=1e-12)
        )


@dataclass(frozen=True)
class MonteCarlo:
    """One simulated number beside its reference."""

    name: str
    estimate: float
    standard_error: float
    reference: float

    @property
    def deviation(self) -> float:
        """Difference in standard errors."""
        return (self.estimate - self.reference) / self.standard_error


#: The simulated training samples the record this many times as often, and is weighted back:
#: losses beyond the thresholds, rare under both laws, then make up a good part of the sample.
_MORE_OFTEN = 4.0


def _simulate(pair: Dominance, runs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Total loss of simulated trainings, and the log likelihood ratio of the simulation to "out".

    Single precision: an error of 6e-8 per step, 1e-5 in the sum at worst, far below one s.e.
    """
    rng = np.random.default_rng(seed)
    often = _MORE_OFTEN * pair.q
    shift, scale = np.float32(-0.5 / pair.sigma**2), np.float32(1 / pair.sigma)
    jump = np.float32(1 / pair.sigma**2)
    loss, ratio = np.empty(runs), np.empty(runs)
    chunk = 2000
    for first in range(0, runs, chunk):
        part = slice(first, min(first + chunk, runs))
        size = part.stop - first
        s = rng.standard_normal((size, pair.steps), dtype=np.float32)
        s *= scale
        s += shift
        # Steps are exchangeable, so the sampled ones may as well be the first ones.
        taken = rng.binomial(pair.steps, often, size)
        wide = int(taken.max())
        s[:, :wide] += jump * (np.arange(wide) < taken[:, None])
        np.exp(s, out=s)
        s -= np.float32(1)
        for rate, total in ((pair.q, loss), (often, ratio)):
            mixed = np.float32(rate) * s
            mixed += np.float32(1)  # the vectorised log is five times as fast as log1p
            total[part] = np.log(mixed, out=mixed).sum(axis=1, dtype=np.float64)
    return loss, ratio


def monte_carlo(
    pair: Dominance, runs: int, fprs: tuple[float, ...], delta: float, seed: int = 1
) -> list[MonteCarlo]:
    """Simulate ``runs`` trainings and compare with the reference.

    Thresholds come from the reference, so each comparison is a plain mean with a standard error.
    """
    loss, ratio = _simulate(pair, runs, seed)
    out, inside = np.exp(-ratio), np.exp(loss - ratio)

    def mean(name: str, values: np.ndarray, reference: float) -> MonteCarlo:
        error = float(values.std()) / math.sqrt(runs)
        return MonteCarlo(name, float(values.mean()), error, reference)

    def stick(epsilon: float) -> np.ndarray:
        return inside * np.maximum(-np.expm1(epsilon - loss), 0.0)

    eps = pair.epsilon(delta)[0]
    rows = [
        mean("advantage", stick(0.0), pair.advantage()[0]),
        mean(f"δ at ε = {eps:.4f}", stick(eps), delta),
    ]
    for fpr in fprs:
        tau = pair.threshold(fpr)
        beyond = loss > tau
        rows.append(mean(f"FPR at loss > {tau:.4f}", out * beyond, fpr))
        rows.append(mean(f"TPR at FPR {fpr:g}", inside * beyond, pair.tpr(fpr)[0]))
    return rows


def _main() -> None:
    """Print the reference of the benchmark, on three different lines of integration."""
    print("σ = 1, q = 0.01, 1000 steps, add/remove; the line moved off the saddle point by")
    for shift in (1.0, 0.8, 0.6):
        pair = Dominance(1.0, 0.01, 1000, shift)
        found = (pair.advantage(), pair.epsilon(1e-5), pair.tpr(1e-2), pair.tpr(1e-3))
        names = ("advantage", "ε(1e-5)", "TPR(1e-2)", "TPR(1e-3)")
        cells = (f"{n} {v:.13f} ± {e:.0e}" for n, (v, e) in zip(names, found, strict=True))
        print(f"  ×{shift:g}: " + "  ".join(cells))
    pair = Dominance(1.0, 0.01, 1000)
    far = 2.0 + 1j * np.linspace(30.0, 300.0, 1000)
    size = 1000 * (pair._log_m(far).real - pair._log_m(np.array([2.0 + 0j])).real)
    print(f"  |M^T| on the line from height 30 to 300: at most e^{size.max():.0f} of its peak")


if __name__ == "__main__":
    _main()
