"""The densities "in" and "out" of a noisy sum by Fourier inversion, from N alone (X9).

With G_x(y, ω) = Π_{i≠x}(q + p·y·e^{iωw_i}) the characteristic functions are coefficients in y:
φ_out,x = [y^k]G_x / P(Bin(N-1,p) = k) and φ_in,x = e^{iωw_x}[y^{k-1}]G_x / P(Bin(N-1,p) = k-1).
The coefficient is computed from J points of the unit circle, the density from equispaced ω;
truncation errors are bounded (proofs/exact-mixtures.md, step 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from memberbound.numerics.rounding import UNIT, FloatArray
from memberbound.subset.densities import DensityPair, bernstein

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
