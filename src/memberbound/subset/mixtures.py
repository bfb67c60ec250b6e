"""Exact distributions "in" and "out" of a one-dimensional noisy sum (X9).

Unlike the coupling, they lose nothing.  Fourier inversion gives both densities as cubics on cells
with certified errors, and hockey-sticks are integrals of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from memberbound.declarations import Progress
from memberbound.errors import InputError, fraction, positive
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import UNIT, FloatArray, sum_slack, up_array
from memberbound.subset.profile import checked_table
from memberbound.subset.record_bounds import RecordBounds

# ── Distributions "in" and "out" as cubics on cells, and their hockey-sticks ──────────────────────
#
# ∫(p_in - c·p_out)₊ over a cell is at most the integral of the positive part of the cubics'
# difference raised by both errors, and at most ∫p_in.  If "out" is below its error, the second
# bound prevents a large c from multiplying the error (proofs/exact-mixtures.md, steps 1 and 2).

#: Above this ε the "out" densities underflow, and the result is ∞.
LARGEST_EPSILON = 80.0
#: Number of parts of a cell in which the difference may change sign.
_PARTS = 8


def _bernstein_at(points: FloatArray) -> FloatArray:
    """Return the values of the four cubic Bernstein polynomials, one row per point of [0, 1]."""
    t, s = points, 1 - points
    return np.stack([s**3, 3 * s**2 * t, 3 * s * t**2, t**3], axis=1)


_AT_NODES = _bernstein_at(np.linspace(0.0, 1.0, _PARTS + 1))


def bernstein(
    left: FloatArray, left_slope: FloatArray, right: FloatArray, right_slope: FloatArray, h: float
) -> FloatArray:
    """Return Bernstein coefficients of cubics with these values and slopes at the ends of cells."""
    return np.stack([left, left + left_slope * (h / 3), right - right_slope * (h / 3), right])


@dataclass(frozen=True, eq=False)
class DensityPair:
    """Densities "in" and "out" of R records on n cells, with certified errors.

    ``inside`` and ``outside`` have shape (4, R, n); the errors bound |density - cubic| on a cell
    and have shape (R, 1).  ``beyond`` bounds the masses in and out outside all cells, which
    periodic cells may contain nevertheless.  The errors include at least 32 roundings of the
    largest coefficient in the cell, for a cubic times c, for c itself, and for values.
    """

    width: float
    inside: FloatArray
    outside: FloatArray
    error_in: FloatArray
    error_out: FloatArray
    beyond: tuple[float, float] = (0.0, 0.0)

    @property
    def records(self) -> int:
        """R, the number of records."""
        return int(self.inside.shape[1])

    @cached_property
    def _caps(self) -> FloatArray:
        """Upper bounds on ∫p_in over the cells, per unit of width; they do not depend on c."""
        mean = (self.inside[0] + self.inside[1] + self.inside[2] + self.inside[3]) * 0.25
        return np.asarray(np.maximum(mean + self.error_in, 0.0), dtype=np.float64)

    def swapped(self) -> DensityPair:
        """Return the pair with "in" and "out" exchanged."""
        cubics, errors = (self.outside, self.inside), (self.error_out, self.error_in)
        return DensityPair(self.width, *cubics, *errors, self.beyond[::-1])

    def hockey_sticks(
        self, factors: FloatArray, rows: NDArray[np.intp] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds on ∫(p_in - c·p_out)₊, one c > 0 per record, and P_out of that set.

        Guarantee: the first array is never below the true hockey-stick (X9).
        Numerics: the second array is not rounded safely; it only guides the search.
        """
        chosen = slice(None) if rows is None or len(rows) == self.records else rows
        c = np.asarray(factors, dtype=np.float64)[:, None]
        p_in, p_out = self.inside[:, chosen], self.outside[:, chosen]
        e_in, e_out = self.error_in[chosen], self.error_out[chosen]
        lifted = p_out * -c
        lifted += p_in
        lifted += e_in + c * e_out
        below, above = lifted < 0, lifted > 0
        # A cubic lies between its Bernstein coefficients, so these cells have no change of sign.
        below = below[0] | below[1] | below[2] | below[3]
        above = above[0] | above[1] | above[2] | above[3]
        part = (lifted[0] + lifted[1] + lifted[2] + lifted[3]) * 0.25
        part[~above] = 0.0
        mixed = np.nonzero(below & above)
        part[mixed] = _positive_parts(lifted[:, mixed[0], mixed[1]])
        part = np.minimum(part, self._caps[chosen])
        total = part.sum(axis=1) * self.width + (self.beyond[0] + c[:, 0] * self.beyond[1])
        mass = self.width * np.where(above, p_out[0], 0.0).sum(axis=1)
        # Sums of numbers with one sign, with at most 64 roundings of each.
        return np.asarray(total * (1 + sum_slack(part.shape[1] + 64))), mass

    def epsilon(self, delta: float, start: FloatArray | None = None) -> FloatArray:
        """Return an ε per record at which H_{e^ε}(in‖out) ≤ δ was verified, or ∞.

        Guarantee: (ε, δ) holds in this direction; an ε smaller by 1e-6 of 1 + ε fails the computed
        bound.  Uses Newton's method on ln H inside a bracket, from 0 or ``start``.
        """
        count = self.records
        low, high, point = np.zeros(count), np.full(count, math.inf), np.zeros(count)
        if start is not None:
            point = np.where(start < LARGEST_EPSILON, start, 0.0)
        active = np.arange(count)
        for _ in range(80):
            eps = point[active]
            factor = np.exp(eps)
            value, mass = self.hockey_sticks(factor, active)
            safe = value <= delta
            high[active] = np.where(safe, np.minimum(high[active], eps), high[active])
            low[active] = np.where(safe, low[active], np.maximum(low[active], eps))
            lo, hi = low[active], high[active]
            tolerance = 1e-6 * (1 + eps)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = np.log(value / delta) * value / (factor * mass)
                target = eps + np.clip(step, -20.0, 20.0) + np.where(safe, -0.4, 0.4) * tolerance
            middle = np.where(
                np.isfinite(hi), (lo + hi) / 2, np.minimum(2 * lo + 1, LARGEST_EPSILON)
            )
            bad = ~((target > lo) & (target < hi)) | (target > LARGEST_EPSILON)
            point[active] = np.where(bad, middle, target)
            closed = (hi - lo <= tolerance) | (lo >= LARGEST_EPSILON)
            active = active[~closed]
            if not len(active):
                break
        return high


def _positive_parts(coefficients: FloatArray) -> FloatArray:
    """Return upper bounds on the mean of (cubic)₊ over [0, 1], given Bernstein coefficients.

    Numerics: accurate to 64 roundings of the result and 16 of the largest coefficient.  On a part
    of length ℓ the mean error of the chord is at most ℓ³/12·max|q''|, and q'' is linear.
    """
    values = _AT_NODES @ coefficients
    bend = 6 * np.maximum(
        np.abs(coefficients[0] - 2 * coefficients[1] + coefficients[2]),
        np.abs(coefficients[1] - 2 * coefficients[2] + coefficients[3]),
    )
    left, right = values[:-1], values[1:]
    up_left, up_right = np.maximum(left, 0.0), np.maximum(right, 0.0)
    reach = np.abs(left) + np.abs(right)
    safe_reach = np.where(reach > 0, reach, 1.0)
    chord = np.where(
        left * right < 0, (up_left**2 + up_right**2) / (2 * safe_reach), (up_left + up_right) / 2
    )
    length = 1 / _PARTS
    return np.asarray(chord.sum(axis=0) * length + bend * (length**2 / 12), dtype=np.float64)


# ── The densities by Fourier inversion, from N alone ──────────────────────────────────────────────
#
# With G_x(y, ω) = Π_{i≠x}(q + p·y·e^{iωw_i}) the characteristic functions are coefficients in y:
# φ_out,x = [y^k]G_x / P(Bin(N-1,p) = k) and φ_in,x = e^{iωw_x}[y^{k-1}]G_x / P(Bin(N-1,p) = k-1).
# The coefficient is computed from J points of the unit circle, the density from equispaced ω;
# truncation errors are bounded (proofs/exact-mixtures.md, step 3).

ComplexArray = NDArray[np.complex128]
IntArray = NDArray[np.intp]

#: The noise damps frequencies beyond this by e^{-ω²/2} < 2e-17.
HIGHEST = 8.8
#: Maximum mass outside the window; see :func:`_half_window`.
OUTSIDE = 1e-20
#: Pairs (y, ω) with a smaller share of a density's mass are omitted, and added to the error.
NEGLIGIBLE = 1e-19
#: Target for the interpolation error of a hockey-stick divergence.
INTERPOLATION = 1e-9
#: Limits on time and memory, beyond which the inversion is not attempted.
_MOST_FACTORS, _MOST_CELLS = 2e9, 6e7


def _log_binomial(n: int, p: float, k: FloatArray) -> FloatArray:
    """Return ln P(Bin(n, p) = k), with an absolute error far below 1e-6."""
    choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.asarray(choose + k * math.log(p) + (n - k) * math.log1p(-p), dtype=np.float64)


@lru_cache(maxsize=8)
def _binomial(n: int, p: float, k: int) -> float:
    """Return P(Bin(n, p) = k), correctly rounded, for p a multiple of 2⁻⁴⁰."""
    a = round(p * 2**40)
    return float(math.comb(n, k) * a**k * (2**40 - a) ** (n - k) / (1 << (40 * n)))


def _aliases(n: int, p: float, k: int, nodes: int) -> float:
    """Return an upper bound on Σ_{m≠0} P(Bin(n,p) = k + mJ) / P(Bin(n,p) = k)."""
    others = np.concatenate([np.arange(k - nodes, -1, -nodes), np.arange(k + nodes, n + 1, nodes)])
    if not len(others):
        return 0.0
    logs = _log_binomial(n, p, others.astype(np.float64)) - _log_binomial(
        n, p, np.array([float(k)])
    )
    return 1.001 * float(np.exp(logs).sum())


def _circle_nodes(n: int, p: float, k: int) -> int:
    """Return J, the number of points for aliases below 1e-19; at most n + 1, which has none."""
    nodes = min(n + 1, math.ceil(9.4 * math.sqrt(n * p * (1 - p))) + 16)
    while nodes < n + 1 and max(_aliases(n, p, j, nodes) for j in (k - 1, k)) > 1e-19:
        nodes = min(n + 1, nodes + nodes // 8 + 1)
    return nodes


def _half_window(w: FloatArray, p: float, size: int, log_normaliser: float) -> float:
    """Return T with P(sum + noise ≥ T) ≤ OUTSIDE, by a Chernoff bound.

    E e^{λ·sum} ≤ Π(q + p·e^{λw_i}) / P(Bin(N,p) = k) for every λ > 0, because all coefficients in y
    are positive.  The largest possible sum plus the noise alone may give a smaller T.
    """
    scale = math.sqrt(1 + p * (1 - p) * float(np.square(w).sum()))
    best = float(np.sort(w)[-size:].sum()) + 9.6
    for rate in np.geomspace(0.5, 24.0, 24) / scale:
        logs = np.logaddexp(math.log1p(-p), math.log(p) + rate * w)
        cost = float(logs.sum()) + rate**2 / 2 - log_normaliser - math.log(OUTSIDE)
        best = min(best, cost / rate)
    return best + 1e-6 * abs(best) + 1e-6


@dataclass(frozen=True, eq=False)
class FourierSums:
    """The pairs (y, ω) to evaluate, with error bounds for the omitted ones."""

    w: FloatArray
    size: int
    p: float
    nodes: int
    window: float
    frequencies: FloatArray
    #: Evaluated pairs, sorted by frequency: index into ``frequencies``, and point of the circle.
    index: IntArray
    point: IntArray
    #: Pointwise errors of the densities "in" and "out", from omitted or rounded coefficients.
    error: tuple[float, float]
    normaliser: tuple[float, float]

    @property
    def beyond(self) -> tuple[float, float]:
        """Bounds on the masses in and out beyond the window: P_in ≤ P·N/k, P_out ≤ P·N/(N - k)."""
        n = len(self.w)
        return (2.02 * OUTSIDE * n / self.size, 2.02 * OUTSIDE * n / (n - self.size))

    @cached_property
    def _blocks(self) -> list[IntArray]:
        """All records, sorted by value and cut into blocks."""
        return np.array_split(np.argsort(self.w, kind="stable"), min(len(self.w), 64))

    @cached_property
    def _totals(self) -> list[ComplexArray]:
        """The product of each block's factors at every evaluated pair."""
        return [self._block_product(block) for block in self._blocks]

    def pairs(self, wanted: IntArray) -> Iterator[tuple[IntArray, DensityPair]]:
        """Yield the densities of the wanted records, block by block.

        Only blocks with a wanted record are recomputed.
        """
        is_wanted = np.zeros(len(self.w), dtype=bool)
        is_wanted[wanted] = True
        ahead: list[ComplexArray] = [np.ones_like(self._totals[0])]
        for product in self._totals[:-1]:
            ahead.append(ahead[-1] * product)
        behind = np.ones_like(self._totals[0])
        for block, product in zip(self._blocks[::-1], self._totals[::-1], strict=True):
            chosen, before = block[is_wanted[block]], ahead.pop()
            if len(chosen):
                others = before * behind * self._block_product(block[~is_wanted[block]])
                phi_in, phi_out = self._transforms(chosen, others)
                cells = self._cells(phi_in, phi_out, len(wanted))
                step = max(1, (1 << 15) // cells)
                for a in range(0, len(chosen), step):
                    rows = slice(a, a + step)
                    yield chosen[rows], self._densities(phi_in[rows], phi_out[rows], cells)
            behind = behind * product

    def _turns(self, block: IntArray) -> ComplexArray:
        """Return e^{iωw}, a row per record."""
        return np.asarray(np.exp(1j * np.outer(self.w[block], self.frequencies)))

    def _circle(self, power: int) -> ComplexArray:
        """Return y^power at the evaluated pairs, with the exponent reduced exactly.

        It is reduced to (-J/2, J/2], because an angle near 2π has a larger rounding error than the
        equivalent one near 0, which the error bound assumes.
        """
        whole = (power * self.point) % self.nodes
        whole = np.where(2 * whole > self.nodes, whole - self.nodes, whole)
        return np.asarray(np.exp(2j * math.pi / self.nodes * whole))

    def _block_product(self, block: IntArray) -> ComplexArray:
        """Return the product of the block's factors at every evaluated pair."""
        turns, y = self._turns(block), self.p * self._circle(1)
        product = np.ones(len(y), dtype=np.complex128)
        for row in turns:
            product *= (1 - self.p) + y * row[self.index]
        return product

    def _transforms(
        self, block: IntArray, others: ComplexArray
    ) -> tuple[ComplexArray, ComplexArray]:
        """Return φ_in and φ_out of some records, including noise, given the product of the others.

        Uses prefix and suffix products instead of division, so a factor may be 0.
        """
        turns, y = self._turns(block), self.p * self._circle(1)
        noise = np.exp(-0.5 * self.frequencies**2)
        weight_in = self._circle(1 - self.size) / (self.nodes * self.normaliser[0])
        weight_out = self._circle(-self.size) / (self.nodes * self.normaliser[1])
        starts = np.searchsorted(self.index, np.arange(len(self.frequencies)))
        shape = (len(block), len(self.frequencies))
        phi_in, phi_out = np.zeros(shape, complex), np.zeros(shape, complex)
        # Process a few thousand pairs at a time, cut between frequencies.
        cuts = np.unique(np.searchsorted(starts, np.arange(0, len(self.index), 1 << 13)))
        cuts = np.unique(np.append(cuts, len(starts)))
        for first, last in pairwise(cuts.tolist()):
            stop = len(self.index) if last == len(starts) else starts[last]
            span = slice(starts[first], stop)
            local = starts[first:last] - starts[first]
            index, points = self.index[span], y[span]
            factors = [(1 - self.p) + points * row[index] for row in turns]
            ahead = [others[span]]
            for factor in factors[:-1]:
                ahead.append(ahead[-1] * factor)
            behind = np.ones(len(index), dtype=np.complex128)
            for i in range(len(block) - 1, -1, -1):
                product = ahead[i] * behind
                sums = np.add.reduceat(product * weight_in[span], local)
                phi_in[i, first:last] = sums * turns[i, first:last]
                phi_out[i, first:last] = np.add.reduceat(product * weight_out[span], local)
                behind = behind * factors[i]
        return phi_in * noise, phi_out * noise

    def _cells(self, phi_in: ComplexArray, phi_out: ComplexArray, records: int) -> int:
        """Return the number of cells for a small interpolation error, within limits."""
        bend = 2 * self.frequencies**4 @ np.maximum(np.abs(phi_in), np.abs(phi_out)).max(axis=0)
        ideal = self.window * (bend / (384 * INTERPOLATION)) ** 0.25
        highest = 4 * self.frequencies[-1] * self.window / (2 * math.pi)
        limit = min(1 << 20, _MOST_CELLS / records)
        return 1 << math.ceil(math.log2(max(min(ideal, limit), highest, 64)))

    def _densities(self, phi_in: ComplexArray, phi_out: ComplexArray, cells: int) -> DensityPair:
        """Return the densities as cubics on the cells of the periodic window."""
        width = self.window / cells
        harmonics = np.rint(self.frequencies * self.window / (2 * math.pi)).astype(np.intp)
        # The error of a fast transform is at most ten units of Σ|coefficient| per halving.  64 more
        # units cover later steps; the sums below are at most the first one.
        units = 10 * math.log2(cells) + 64 + len(self.frequencies)
        cubics, errors = [], []
        for phi, left_out in ((phi_in, self.error[0]), (phi_out, self.error[1])):
            spectrum = np.zeros((len(phi), cells // 2 + 1), dtype=np.complex128)
            spectrum[:, harmonics] = np.conj(phi) / width
            value = np.fft.irfft(spectrum, cells, axis=1)
            spectrum[:, harmonics] *= 1j * self.frequencies
            slope = np.fft.irfft(spectrum, cells, axis=1)
            cubics.append(
                bernstein(value, slope, np.roll(value, -1, 1), np.roll(slope, -1, 1), width)
            )
            size = 2 * np.abs(phi) / self.window
            moments = size @ np.stack([self.frequencies**power for power in (0, 1, 4)], axis=1)
            rounding = units * UNIT * (moments[:, 0] + width / 4 * moments[:, 1])
            bound = left_out + moments[:, 2] * (width**4 / 384) + rounding
            errors.append(bound[:, None])
        return DensityPair(width, cubics[0], cubics[1], errors[0], errors[1], self.beyond)


def fourier_sums(w: FloatArray, size: int, records: int | None = None) -> FourierSums | None:
    """Plan the inversion for centred values in units of σ; None if it would be too expensive.

    ``records`` is the number evaluated at once (default: all distinct values).
    """
    n = len(w)
    p = min(max(round(size / n * 2**40), 1), 2**40 - 1) / 2**40
    spread = p * (1 - p)
    nodes = _circle_nodes(n - 1, p, size)
    log_normaliser = float(_log_binomial(n, p, np.array([float(size)]))[0]) - 1e-6
    # A shift of all values moves both ends of the window equally.
    even = w - w.mean()
    window = sum(_half_window(each, p, size, log_normaliser) for each in (even, -even))
    count = math.ceil(HIGHEST * window / (2 * math.pi)) + 1
    if count > 1_000_000:
        return None
    normaliser = (_binomial(n - 1, p, size - 1), _binomial(n - 1, p, size))
    frequencies: FloatArray = np.arange(count, dtype=np.float64) * (2 * math.pi / window)
    noise = np.exp(-0.5 * frequencies**2)
    # Beyond the last frequency the noise alone bounds the coefficients.
    top = count * (2 * math.pi / window)
    beyond = math.exp(-0.5 * top * top) * (1 + window / (2 * math.pi * top))
    lost = 0.0
    # Skip a frequency if the product over 512 records is negligible even for the best y.
    scouts = np.sort(w)[np.unique(np.linspace(0, n - 1, min(n, 512)).astype(np.intp))]
    reach = np.abs(_characteristic(scouts, frequencies))
    damped = _product_bound(spread, len(scouts), reach) * noise / min(normaliser)
    alive = damped >= NEGLIGIBLE
    lost += float(damped[~alive].sum())
    alive_places = np.nonzero(alive)[0]
    if len(alive_places) * n > _MOST_FACTORS / 4:
        return None
    full = _characteristic(w, frequencies[alive_places])
    turns = np.exp(2j * math.pi / nodes * np.arange(nodes))
    angles = np.abs(np.angle(turns))
    mass = float(np.abs(w).sum())
    indices, points, total, rounded = [], [], 0, 0.0
    for block in np.array_split(
        np.arange(len(alive_places)), max(1, len(alive_places) * nodes >> 20)
    ):
        aligned = np.real(np.outer(full[block], turns))
        bound = _product_bound(spread, n, aligned) * noise[alive_places[block], None]
        share = bound / (nodes * min(normaliser))
        take = share >= NEGLIGIBLE
        lost += float(share[~take].sum())
        # Errors per factor: phases (3 roundings of ωw, 3 of the angle), cosines, and one product.
        phase = 6.1 * frequencies[alive_places[block], None] * (mass / n) + 3.1 * angles[None, :]
        units = (p * phase + 20) * (n + 2) + 2 * nodes + 200
        rounded += float((share * units)[take].sum()) * UNIT
        row, column = np.nonzero(take)
        indices.append(block[row])
        points.append(column)
        total += len(row)
        if total > 400_000 or total * n > _MOST_FACTORS:
            return None
    alias = [_aliases(n - 1, p, j, nodes) * float(noise.sum()) + beyond for j in (size - 1, size)]
    ratio = [min(normaliser) / each for each in normaliser]
    index, point = np.concatenate(indices), np.concatenate(points)
    used, index = np.unique(index, return_inverse=True)
    # Sharp resonances need cells that resolve them, for every requested record.
    if 4 * int(alive_places[used[-1]]) * (records or len(np.unique(w))) > _MOST_CELLS:
        return None
    # One per cent more than twice the sum, which far exceeds its rounding.
    error = [2.02 / window * ((lost + rounded) * r + a) for r, a in zip(ratio, alias, strict=True)]
    return FourierSums(
        w, size, p, nodes, window, frequencies[alive_places[used]], index, point,
        (error[0], error[1]), normaliser,
    )  # fmt: skip


def _characteristic(w: FloatArray, frequencies: FloatArray) -> ComplexArray:
    """Return Σ_i e^{iωw_i}, computed in blocks."""
    sums = np.empty(len(frequencies), dtype=np.complex128)
    step = max(1, (1 << 20) // len(w))
    for a in range(0, len(frequencies), step):
        angle = np.outer(frequencies[a : a + step], w)
        sums[a : a + step] = np.cos(angle).sum(axis=1) + 1j * np.sin(angle).sum(axis=1)
    return sums


def _product_bound(spread: float, count: int, aligned: FloatArray) -> FloatArray:
    """Return a bound on the product of all but any two of ``count`` factors, given Σcos(phase).

    |q + p·e^{iφ}|² = 1 - 2pq(1 - cos φ) ≤ e^{-2pq(1 - cos φ)}, and omitting a factor adds at most
    2pq to the exponent.  The factor 1.001 covers rounding, here and in the factors.
    """
    exponent = spread * np.minimum(4 + aligned - count, 0.0)
    return np.asarray(1.001 * np.exp(exponent), dtype=np.float64)


# ── Bounds of every record ────────────────────────────────────────────────────────────────────────

#: Evaluate every distinct value up to this many; beyond that, a sample of this size.
MOST_EXACT = 3_000
#: Share of δ for the step to a neighbour.
_SHARE = 0.05


def mixture_bounds(
    values: ArrayLike,
    game: SubsetGame,
    *,
    sigma: float,
    delta: float,
    progress: Progress | None = None,
) -> RecordBounds:
    """Return bounds on PMP's ε and on attack success for every record, from the exact mixtures.

    The release is Σ_{i∈D} values[i] + N(0, σ²), D a uniform k-subset; for a mean give f/k.

    Guarantee: that of :class:`RecordBounds`.
    Theorem: X9 (proofs/exact-mixtures.md); I24-P2 for the success.
    Assumes: the attacker knows the population and sees the release only.
    Numerics: upper bounds.  Success exceeds the truth by about 1e-8, and ε by about 1e-6·(1 + ε)
        plus the effect of an error of 1e-9 in both hockey-sticks.  That effect matters if δ·e^-ε is
        below about 1e-9, and then the coupling bound may be smaller.  Combine the two with
        :meth:`RecordBounds.tightened`. Beyond :data:`MOST_EXACT` distinct values, only this many
        are evaluated, including the outermost; the others are bounded through a neighbour (step 4
        of the proof).
    Edge cases: equal values leak nothing (ε = 0), and twins are separate records.  δ = 0, ε above
        80, or sums that spread over more than about 10⁵ σ give ε = ∞; the last case also gives
        success = 1.

    Examples:
        >>> bounds = mixture_bounds([0.0, 1.0, 2.0, 4.0], SubsetGame(4, 2), sigma=2.0, delta=1e-3)
        >>> bounds.worst_record, round(bounds.pmp_epsilon_upper, 3), round(bounds.success_upper, 4)
        (3, 4.924, 0.7555)
    """
    table = checked_table("values", values)
    if table.shape != (game.population, 1):
        raise InputError(
            f"values must be one number for each of {game.population} records, "
            f"got shape {table.shape!r}."
        )
    checked = table[:, 0]
    scale, target = positive("sigma", sigma), fraction("delta", delta)
    count = game.population
    epsilon, success = np.full(count, math.inf), np.ones(count)
    if (checked == checked[0]).all():
        epsilon, success = np.zeros(count), np.zeros(count)  # the blind guess
    else:
        # A shift changes nothing; shift by a value of the table, so that whole numbers stay whole.
        with np.errstate(over="ignore"):
            centred = checked - np.sort(checked)[count // 2]
            scaled = centred / scale
        distinct, first, twins = np.unique(centred, return_index=True, return_inverse=True)
        plan = None
        if np.abs(scaled).max() < 1e6:
            plan = fourier_sums(scaled, game.size, min(len(first), MOST_EXACT))
        if plan is not None:
            epsilon, success = _along_the_line(
                plan, distinct, first, game=game, sigma=scale, delta=target, progress=progress
            )
            epsilon, success = epsilon[twins], success[twins]  # equal values have equal laws
    return RecordBounds(
        game, target, epsilon, success, "exact mixtures", ("X9", "I24-P2", "L24-D2"),
        ("The release is one number, the sum (or mean) over a uniform subset plus normal noise.",),
    )  # fmt: skip


def _along_the_line(
    plan: FourierSums,
    values: FloatArray,
    first: IntArray,
    *,
    game: SubsetGame,
    sigma: float,
    delta: float,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray]:
    """Return ε and success of the distinct values in ascending order.

    ``first`` is the index of a record with each value.  If there are many values, some are bounded
    through a neighbour (step 4 of the proof).
    """
    count = len(values)
    done = np.arange(count)
    if count > MOST_EXACT:
        # The outermost values leak most.  Between them take the first value of every nonempty cell,
        # with the narrowest cells that the limit allows.
        outer, narrow, wide, chosen = MOST_EXACT // 6, 0.0, 1.0, done[:0]
        for _ in range(40):
            width = (narrow + wide) / 2
            cells = np.floor((values - values[0]) / (width * (values[-1] - values[0])))
            starts = np.flatnonzero(np.diff(cells, prepend=-1.0))
            if len(starts) <= MOST_EXACT - 2 * outer:
                wide, chosen = width, starts
            else:
                narrow = width
        done = np.unique(np.concatenate([done[:outer], chosen, done[-outer:]]))
    epsilon, success = np.full(count, math.inf), np.ones(count)
    #: ε at a smaller δ, which leaves a share for the step to a neighbour.
    spare = np.full(count, math.inf)
    index = np.full(game.population, -1)
    index[first[done]] = done
    worked_out = 0
    for records, pair in plan.pairs(first[done]):
        where = index[records]
        success[where] = _success(pair, game)
        if delta > 0:
            back = pair.swapped()
            forth = pair.epsilon(delta)
            both = epsilon[where] = np.maximum(forth, back.epsilon(delta, forth))
            if len(done) < count:
                less = delta * (1 - 2 * _SHARE)
                spare[where] = np.maximum(pair.epsilon(less, both), back.epsilon(less, both))
        worked_out += len(records)
        if progress is not None:
            progress(worked_out, len(done))
    rest = np.setdiff1d(np.arange(count), done)
    right = np.searchsorted(done, rest)  # both ends are evaluated
    # Errors in units of σ: two units of the largest value for w itself, ten for the steps below.
    slack = 16 * UNIT * float(np.abs(values).max()) / sigma
    for near in (done[right - 1], done[right]):
        way = np.abs(values[near] - values[rest]) / sigma + slack
        # TV of N(τ, 1) and N(0, 1) is 2Φ(τ/2) - 1 ≤ τ/√(2π).
        through = up_array(success[near] + way / math.sqrt(2 * math.pi), 1)
        success[rest] = np.minimum(success[rest], through)
        if delta > 0:
            through = up_array(spare[near] + 2 * _cost_of_moving(way, spare[near], delta), 1)
            epsilon[rest] = np.minimum(epsilon[rest], through)
    return epsilon, success


def _cost_of_moving(way: FloatArray, epsilon: FloatArray, delta: float) -> FloatArray:
    """Return a with e^a·((1 - 2s)δ + e^ε·g(a)) + g(a) ≤ δ, or ∞ if there is none.

    g(a) is the hockey-stick of N(τ, 1) against N(0, 1) at e^a, and s is :data:`_SHARE`.
    If e^a ≤ 1 + s, then s(1 + 2s)δ remains for (1 + e^{a+ε})·g(a), and g(a) ≤ Φ(τ/2 - a/τ).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        allowed = _SHARE * delta / (1 + (1 + _SHARE) * np.exp(epsilon))
        # Raised by far more than the rounding of Φ⁻¹, which is below -1 here.
        toll = way * (way / 2 - special.ndtri(allowed)) * (1 + 1e-9)
    # Its rounding is far below the remaining 2s²δ.
    affordable = np.isfinite(toll) & (toll <= math.log1p(_SHARE))
    return np.where(affordable, toll, math.inf)


def _success(pair: DensityPair, game: SubsetGame) -> FloatArray:
    """Return the best accuracy (1-π) + π·H_{(1-π)/π}(in‖out), or its mirror, per record."""
    rest = game.population - game.size
    odds = np.full(pair.records, rest / game.size)
    forth = (rest + game.size * pair.hockey_sticks(odds)[0]) / game.population
    back = (game.size + rest * pair.swapped().hockey_sticks(1 / odds)[0]) / game.population
    return up_array(np.minimum(forth, back), 2)
