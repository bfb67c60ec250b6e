"""Binomial probabilities for up to 10¹² records, and upper bounds on mean deviations.

Three ideas keep every step accurate to a few units in the last place:

* Loader's saddle point form of a point probability, with a deviance as its exponent (a sum of two
  non-negative terms) plus Stirling errors, so nothing large cancels;
* every mean n·p is an unevaluated sum of two doubles, because the deviance depends on k - np, and
  n·p rounded to one double has an error of 1e-4 at n = 10¹²;
* a hockey-stick is a sum (or an integral) of positive terms, never a difference of two tails.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from memberbound.errors import InputError, positive, whole_number
from memberbound.numerics.rounding import SMALLEST, UNIT, FloatArray, two_product

#: Maximum count: counts must be exact doubles, and products of two must not overflow.
MAX_RECORDS = 10**15

#: ln x! - ((x + ½)ln x - x + ½ln 2π) for x = 1…15 (entry 0 is never used).
_STIRLING_SMALL = np.array(
    [
        0.0, 0.08106146679532726, 0.0413406959554093, 0.027677925684998338, 0.020790672103765093,
        0.016644691189821193, 0.01387612882307075, 0.011896709945891771, 0.010411265261972096,
        0.009255462182712733, 0.00833056343336287, 0.0075736754879518405, 0.006942840107209529,
        0.0064089941880042065, 0.005951370112758847, 0.0055547335519628015,
    ]
)  # fmt: skip
#: Above this standard deviation of the count, hockey-sticks are integrated instead of summed.
_WIDE = 30.0
#: Deviance beyond which the Chernoff bound exp(-deviance) is returned.
_FAR = 650.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


class Atoms(NamedTuple):
    """Atoms with probability ``p``, ``q`` = 1 - p, and p once more as the sum ``p + rest``."""

    p: FloatArray
    q: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, p: ArrayLike) -> Atoms:
        """Return atoms with exactly these doubles in [0, 1] as probabilities."""
        values = np.atleast_1d(np.asarray(p, dtype=np.float64))
        if not np.all((values >= 0) & (values <= 1)):
            raise InputError("probabilities must be in [0, 1].")
        return cls(values, 1.0 - values, np.zeros_like(values))

    @classmethod
    def uniform(cls, atoms: int) -> Atoms:
        """Return one atom of probability 1/K, exact to 32 digits."""
        p = 1.0 / atoms
        top, bottom = p.as_integer_ratio()
        rest = (bottom - atoms * top) / (bottom * atoms)
        return cls(np.array([p]), np.array([(atoms - 1) / atoms]), np.array([rest]))

    def mean(self, n: float) -> tuple[FloatArray, FloatArray]:
        """Return n·p as the sum of two doubles."""
        high, low = two_product(np.float64(n), self.p)
        return _two_sum(high, low + n * self.rest)


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a + b without error, as the sum of two doubles (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _floor(high: FloatArray, low: FloatArray) -> FloatArray:
    """Return ⌊high + low⌋ for a normalised pair."""
    whole = np.floor(high)
    return np.asarray(np.where((whole == high) & (low < 0), whole - 1, whole))


def _log1p_minus(x: FloatArray) -> FloatArray:
    """Return ln(1 + x) - x to about ten units in the last place, for x > -1."""
    # With r = x/(2+x), ln(1+x) = 2 artanh r and 2r = x - xr, so the linear term drops out.
    near = np.abs(x) <= 0.5
    z = np.where(near, x, 0.0)
    r = z / (2.0 + z)
    r2 = r * r
    series = np.full_like(r2, 1 / 39)
    for odd in range(37, 1, -2):
        series = series * r2 + 1 / odd
    close = r * (2.0 * r2 * series - z)
    far = np.where(near, 1.0, x)
    return np.asarray(np.where(near, close, np.log1p(far) - far))


def _stirling_error(x: FloatArray) -> FloatArray:
    """Return ln x! - ((x + ½)ln x - x + ½ln 2π) for whole x ≥ 1, absolute error below 1e-17."""
    small = x < 16
    w = 1.0 / np.where(small, 16.0, x)
    w2 = w * w
    series = 1 / 12 - w2 * (1 / 360 - w2 * (1 / 1260 - w2 * (1 / 1680 - w2 * (1 / 1188))))
    series = (series - w2**5 * (691 / 360360) + w2**6 / 156) * w
    table = _STIRLING_SMALL[np.where(small, x, 0).astype(np.int64)]
    return np.asarray(np.where(small, table, series))


def _deviance_part(count: FloatArray, gap: FloatArray, mean: FloatArray) -> FloatArray:
    """Return count·ln(count/mean) + mean - count ≥ 0, given an accurate gap = mean - count."""
    some = count > 0
    divisor = np.where(some, count, 1.0)
    w = np.where(some, gap / divisor, 0.0)
    # For a mean far below the count, 1 + w loses its digits, so take the logarithm directly.
    scarce = w < -0.5
    ratio = np.where(scarce & (mean > 0), mean, divisor) / divisor
    direct = np.where(mean > 0, gap - count * np.log(ratio), np.inf)
    value = np.where(scarce, direct, -count * _log1p_minus(np.where(scarce, 0.0, w)))
    return np.asarray(np.where(some, value, mean))


def _point(
    n: float, k: FloatArray, high: FloatArray, low: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return P(Bin(n, p) = k) and its deviance n·kl(k/n, p); ``high + low`` is n·p."""
    gap = (high - k) + low  # np - k
    rest = n - k
    deviance = _deviance_part(k, gap, high) + _deviance_part(rest, -gap, (n - high) - low)
    inner = (k > 0) & (rest > 0)
    a, b = np.where(inner, k, 1.0), np.where(inner, rest, 1.0)
    size = max(n, 1.0)
    stirling = _stirling_error(np.array([size])) - _stirling_error(a) - _stirling_error(b)
    scale = np.where(inner, np.sqrt(size / (2 * math.pi * a) / b) * np.exp(stirling), 1.0)
    with np.errstate(under="ignore"):
        return np.asarray(scale * np.exp(-deviance)), np.asarray(deviance)


def point_probability(n: int, k: ArrayLike, p: ArrayLike) -> FloatArray:
    """Return P(Bin(n, p) = k), to nearest.

    Numerics: relative error below (32 + 16 D)·2⁻⁵³ with D the deviance n·kl(k/n, p), so 1e-14
    near the mean, for n up to 10¹⁵ (Loader 2000, with the mean carried in two doubles).
    Edge cases: k outside 0…n gives 0; p = 0 and p = 1 put all mass on one end.

    Examples:
        >>> point_probability(4, [0, 2, 5], 0.5).tolist()
        [0.0625, 0.375, 0.0]
    """
    size = _records(n, at_least=0)
    atoms = Atoms.of(p)
    counts, _, high, low = np.broadcast_arrays(
        np.asarray(k, dtype=np.float64), atoms.p, *atoms.mean(float(size))
    )
    valid = (counts >= 0) & (counts <= size) & (counts == np.floor(counts))
    value, _ = _point(float(size), np.where(valid, counts, 0.0), high, low)
    return np.where(valid, value, 0.0)


def half_deviation_upper(n: int, p: ArrayLike | Atoms) -> FloatArray:
    """Return an upper bound on ½·E|Bin(n,p)/n - p|, an atom's share of the worst leak at γ = 1.

    Guarantee: never below the true value.
    Theorem: A25-L31 (De Moivre).  For any m, with b the masses of Bin(n-1, p),
        E[(B/n - p)·1{B > m}] = p·P(B' ≥ m) - p·P(B > m) = p(1-p)·b(m),
    where B' ~ Bin(n-1, p), because k·C(n,k) = n·C(n-1,k-1) turns E[B·1{B>m}] into np·P(B' ≥ m),
    and P(B > m) = P(B' > m) + p·b(m).  The event {B > np} makes the left side largest, so
    m = ⌊np⌋ gives E(B/n - p)₊, which is half of E|B/n - p| as B/n - p has mean 0.
    Numerics: relative excess below 1e-13; the floor is taken of the exact product.
    Edge cases: p = 0 and p = 1 give 0.

    Examples:
        >>> float(half_deviation_upper(1, 0.25)[0])  # 0.25·0.75, from above
        0.18750000000000...
    """
    size = float(_records(n))
    atoms = p if isinstance(p, Atoms) else Atoms.of(p)
    m = np.minimum(_floor(*atoms.mean(size)), size - 1)
    mass, deviance = _point(size - 1, m, *atoms.mean(size - 1))
    # No underflow: the mass is at least of the order n^(-1/2), and near 1 for a tiny p.
    return np.asarray(atoms.p * atoms.q * mass * (1 + UNIT * (64 + 16 * deviance)))


def hockey_stick_upper(
    n: int, p: ArrayLike | Atoms, gamma: float, gamma_rest: float = 0.0
) -> FloatArray:
    """Return an upper bound on an atom's share of the worst leak at γ ≠ 1.

    That is E(B/n - γp)₊ for γ ≥ 1 and E(p - B/(γn))₊ for γ ≤ 1, B ~ Bin(n,p); ``gamma_rest``
    is the rounding error of γ as a double.

    Guarantee: never below the true value.
    Theorem: A25-T14, with E_k|B_k/n - γp_k| split into its positive or negative part (X13).
    Numerics: relative excess below 1e-11 above 1e-282 (unless γnp is within 1e-8 of n, where the
    last bits of γp decide); below that the Chernoff bound exp(-650) takes over.  Both sides are
    Σ_{j≥0} P(Bin(n,·) = k₀+j)(w + j) with k₀ the first count beyond γnp and w its distance:
    positive terms, no cancellation.
    Edge cases: p = 0 gives 0, and so does p = 1; γ ≥ 1/p gives 0 where p is a double.

    Examples:
        >>> hockey_stick_upper(1, 0.25, 2.0).round(12).tolist()  # 0.25·(1 - 2·0.25)
        [0.125]
    """
    size = float(_records(n))
    ratio = positive("gamma", gamma)
    atoms = p if isinstance(p, Atoms) else Atoms.of(p)
    if ratio == 1.0 and gamma_rest == 0.0:
        return half_deviation_upper(n, atoms)
    # The form for γ ≥ 1 is at least the other one at any γ, so the rest does not matter here.
    above = ratio >= 1.0
    high, low = atoms.mean(size)
    # γnp as the sum of two doubles.  Its error is negligible compared with the terms after the
    # first; above the mean there may be none, so subtract it.  In squared units of γnp it is at
    # most 16: 4 for the mean, 2 for what two doubles of γ leave and for the product of both second
    # doubles, 1 for each of the other two products, and 2 + 3 + 3 for the sums.
    # Splitting a γ above 1e300 would overflow; if γnp does, no count is beyond it.
    lift = 2.0**64 if ratio > 1e290 else 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        cut, tail = two_product(np.float64(ratio / lift), high * lift)
    exact = (low == 0) & (gamma_rest == 0) if above else True
    room = np.where(exact, 0.0, 20 * UNIT * UNIT * cut)
    cut, tail = _two_sum(cut, tail + ratio * low + gamma_rest * high - room)
    # Distance from γnp to the next count, in the direction away from the mean.
    whole = _floor(np.minimum(cut, 2 * size), tail)
    value = np.zeros_like(atoms.p)
    if above:
        live = np.flatnonzero((whole < size) & (atoms.q > 0))
        first = whole[live] + 1
        step = (first - cut[live]) - tail[live]
        side = _Side(size, atoms.p[live], atoms.q[live], high[live], low[live])
        value[live] = _linear_tail(side, first, step, size)
    else:
        live = np.flatnonzero((atoms.p > 0) & (atoms.q > 0))
        first = size - whole[live]
        # A product that underflows loses up to four of the smallest doubles.
        step = (cut[live] - whole[live]) + tail[live] + 4 * SMALLEST
        opposite, lost = _two_sum(np.full(live.size, size), -high[live])
        mirrored = _two_sum(opposite, lost - low[live])
        side = _Side(size, atoms.q[live], atoms.p[live], *mirrored)
        value[live] = _linear_tail(side, first, step, size * ratio)
    far = np.minimum(atoms.p, math.exp(-_FAR))
    value[live] = np.where(np.isnan(value[live]), far[live], value[live])
    return np.minimum(value, atoms.p)


class _Side(NamedTuple):
    """Bin(n, p) seen from one side: q = 1 - p and the mean as two doubles."""

    n: float
    p: FloatArray
    q: FloatArray
    high: FloatArray
    low: FloatArray


def _linear_tail(side: _Side, first: FloatArray, step: FloatArray, scale: float) -> FloatArray:
    """Return upper bounds on Σ_{j≥0} P(B = first + j)(step + j)/scale; NaN beyond _FAR."""
    mass, deviance = _point(side.n, first, side.high, side.low)
    result, units = np.full_like(mass, np.nan), np.zeros_like(mass)
    near = deviance <= _FAR
    wide = np.sqrt(side.n * side.p * side.q) > _WIDE
    for chosen, method in ((near & ~wide, _added), (near & wide, _integrated)):
        index = np.flatnonzero(chosen)
        if index.size:
            part = _Side(side.n, *(x[index] for x in side[1:]))
            result[index], units[index] = method(part, first[index], step[index])
    # The error of the mass is up to 32 + 16 D units; the last steps and the caller's add a few.
    # Divide by a small scale before the product with a small mass can underflow; what remains is
    # the rounding of subnormal results.
    value = result / scale * mass * (1 + UNIT * (64 + 16 * deviance + units))
    return np.nextafter(value, np.inf)


def _added(side: _Side, first: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Σ_j P(B = first+j)/P(B = first)·(step + j), including the tail, and its error.

    The error is relative, in units: four roundings per summed term.
    """
    total, units = np.zeros_like(step), np.zeros_like(step)
    index = np.arange(step.size)
    # The odds overflow only next to a subnormal p, where the last count is the only one.
    with np.errstate(over="ignore"):
        odds = np.minimum(side.p / side.q, np.finfo(np.float64).max)
    k, term, w, sums = first.copy(), np.ones_like(step), step.copy(), np.zeros_like(step)
    terms = 0
    while index.size:
        for _ in range(8):
            sums += term * w
            term = term * ((side.n - k) / (k + 1) * odds)
            k += 1
            w += 1
        terms += 8
        # The ratio decreases from here, so a geometric series bounds the remainder.
        ratio = np.maximum((side.n - k) / (k + 1) * odds, 0.0)
        safe = np.where(ratio < 1, 1 - ratio, np.nan)
        left = np.where(term > 0, term * (w / safe + ratio / safe**2), 0.0)
        done = left <= 1e-17 * sums
        total[index[done]] = (sums + left)[done]
        units[index[done]] = 4 * terms + 64
        keep = ~done
        index, odds = index[keep], odds[keep]
        k, term, w, sums = k[keep], term[keep], w[keep], sums[keep]
    return total, units


def _integrated(side: _Side, first: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum of :func:`_added` as an integral, for wide laws.

    h(t) = Σ_j P(Bin(n,t) = k₀+j)(w+j) has h(0) = h'(0) = 0 and, as the second difference of a
    hinge sits on two counts, h''(t) = n(n-1)[w·b(k₀-2; t) + (1-w)·b(k₀-1; t)] with b the masses of
    Bin(n-2, t).  Taylor's formula h(p) = ∫(p-t)h''(t)dt has a positive, log-concave integrand;
    with t = p - u and everything relative to P(Bin(n,p) = k₀) it is the one below.
    """
    n, p, q = side.n, side.p, side.q
    sd = np.sqrt(n * p * q)
    distance = (first - side.high) - side.low
    z = np.maximum(distance / sd, 0.0)
    # exp(-zv - v²/2) < e^-50 at the end, with a margin for the skewness at sd > 30.
    end = 110.0 / (np.sqrt(z * z + 110.0) + z)
    unit = sd / n  # one standard deviation of t, since the sd of B/n is √(pq/n)
    total = np.zeros_like(p)
    for node, weight in zip(0.5 + 0.5 * _NODES, 0.5 * _WEIGHTS, strict=True):
        v = end * node
        u = unit * v
        x, y = u / p, u / q
        power = (
            (first - 2) * _log1p_minus(-x)
            + (n - first) * _log1p_minus(y)
            - v * ((distance - 2 * q) / sd)
        )
        step_mix = step + (1 - step) * (n - first) / (first - 1) * (p - u) / (q + u)
        total += weight * v * np.exp(power) * step_mix
    value = total * end * (first * (first - 1)) * np.square(unit / p)
    return value, np.full_like(value, 1e-12 / UNIT)


def _records(n: int, at_least: int = 1) -> int:
    size = whole_number("n", n, at_least=at_least)
    if size > MAX_RECORDS:
        raise InputError(f"n must be at most {MAX_RECORDS:,}, got {n!r}.")
    return size
