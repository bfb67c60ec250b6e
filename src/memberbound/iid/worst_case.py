"""The exact worst-case leak over all learners on discrete data (A25-T14).

For a law with atoms p_k the largest leak over all learners is a sum over atoms of one binomial
hockey-stick each.  With γ = ν/(λ(1-ν)) and B_k ~ Bin(n, p_k) it is Σ_k E(B_k/n - γp_k)₊ for γ ≥ 1
and Σ_k E(p_k - B_k/(γn))₊ for γ ≤ 1: A25-T14's formula after its constant is cancelled against
Σ_k (E B_k/n - γp_k) = 1 - γ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memberbound.errors import InputError, fraction, nonnegative, whole_number
from memberbound.games import gamma_from_priors
from memberbound.numerics.binomial import Atoms, hockey_stick_upper
from memberbound.numerics.rounding import FloatArray, down, up

#: Largest number of atoms of a uniform law.
MAX_ATOMS = 10**18
#: Largest accepted deviation of a sum of probabilities from 1.
SUM_TOLERANCE = 1e-9
#: Number of atoms per block: small enough for the cache, so that memory does not grow with K.
_CHUNK = 1 << 14


def leak_of_law(
    probabilities: ArrayLike,
    n: int,
    nu: float = 0.5,
    lam: float = 1.0,
    multiplicity: ArrayLike | None = None,
) -> float:
    """Return the largest leak Δ of any learner on n records from this law, from above.

    ``multiplicity[k]`` is the number of atoms with probability ``probabilities[k]`` (default: 1).

    Guarantee: no learner and no attack exceed it; an injective function of the histogram reaches
    it (i.i.d. game, the *average* record).
    Theorem: A25-T14, A24-T5.4; A25-L29 and L31 for the closed form.
    Assumes: the records are independent draws from the law.
    Numerics: never below the true value; relative excess below 1e-10.  If the probabilities miss
    1 by r (at most 1e-9), r is added: every share is 1-Lipschitz in its p_k and 0 at p_k = 0, so
    the result covers every law P with Σ_k|P_k - p_k| ≤ r, unlisted atoms included.
    Edge cases: zero probabilities are dropped; a single certain atom leaks 0.

    Examples:
        >>> round(leak_of_law([0.5, 0.5], n=100), 6)
        0.039795
        >>> round(leak_of_law([0.01], n=1, multiplicity=[100]), 6)
        0.99
    """
    law, weights, miss = checked_law(probabilities, multiplicity)
    size = whole_number("n", n)
    gamma, rest = _two_doubles(_gamma(nu, lam))
    parts = []
    for p, weight in _chunks(law, weights):
        share = hockey_stick_upper(size, p, gamma, rest)
        parts.append(math.fsum((share if weight is None else share * weight).tolist()))
    return min(up(math.fsum(parts) + miss, 8), 1.0)


def leak_of_uniform(atoms: int, n: int, nu: float = 0.5, lam: float = 1.0) -> float:
    """Return the largest leak Δ on n records from the uniform law on ``atoms`` atoms, from above.

    Guarantee, Theorem, Assumes: as :func:`leak_of_law`; K times the share of one atom.
    Numerics: never below the true value; 1/K is carried to 32 digits, so any K up to 10¹⁸.
    Edge cases: one atom leaks 0, and so does any number up to γ.

    Examples:
        >>> round(leak_of_uniform(10**12, n=10**6), 6)  # hardly any two records agree
        0.999999
    """
    size = whole_number("n", n)
    cells = whole_number("atoms", atoms)
    if cells > MAX_ATOMS:
        raise InputError(f"atoms must be at most {MAX_ATOMS:,}, got {atoms!r}.")
    gamma = _gamma(nu, lam)
    if cells == 1 or cells <= gamma:
        return 0.0
    share = float(hockey_stick_upper(size, Atoms.uniform(cells), *_two_doubles(gamma))[0])
    return min(up(cells * share, 8), 1.0)


def _gamma(nu: float, lam: float) -> Fraction:
    gamma_from_priors(nu, lam)  # rejects invalid values
    fresh = Fraction(nu)
    return fresh / (Fraction(lam) * (1 - fresh))


def _two_doubles(value: Fraction) -> tuple[float, float]:
    """Return γ as the sum of two doubles, because at n = 10¹² its last bits affect Δ."""
    high = float(value)
    return high, float(value - Fraction(high))


def checked_law(
    probabilities: ArrayLike, multiplicity: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray | None, float]:
    """Return probabilities, multiplicities and the deviation of their sum from 1.

    Raises InputError when an entry is outside [0, 1], a multiplicity is not a whole number, or the
    sum misses 1 by more than 1e-9.
    """
    law = np.asarray(probabilities, dtype=np.float64)
    if law.ndim != 1 or law.size == 0:
        raise InputError("probabilities must be a list of at least one number.")
    weights: NDArray[np.float64] | None = None
    if multiplicity is not None:
        weights = np.asarray(multiplicity, dtype=np.float64)
        if weights.shape != law.shape:
            raise InputError(
                f"multiplicity must have one entry per probability ({law.size}), "
                f"got {weights.size}."
            )
        if not np.all((weights >= 0) & (weights == np.floor(weights))):
            raise InputError("multiplicity must be whole numbers of at least 0.")
    sums = []
    for p, weight in _chunks(law, weights):
        bad = ~((p >= 0) & (p <= 1))
        if bad.any():
            value = float(p[np.argmax(bad)])
            raise InputError(f"probabilities must be in [0, 1], got {value!r}.")
        sums.append(_exact_sum(p, weight))
    miss = float(abs(sum(sums, Fraction(0)) - 1))
    if miss > SUM_TOLERANCE:
        raise InputError(
            f"probabilities must sum to 1, got {math.fsum(map(float, sums))!r}. "
            "Divide by their sum, or add the missing values."
        )
    return law, weights, up(miss, 2)


def _exact_sum(p: FloatArray, weight: FloatArray | None) -> Fraction:
    """Return Σ p_k·w_k to about 2⁻¹⁰⁰, adding high parts and remainders separately."""
    if weight is None:
        terms = p.tolist()
        high = math.fsum(terms)
        return Fraction(high) + Fraction(math.fsum([*terms, -high]))
    return sum((Fraction(a) * Fraction(b) for a, b in zip(p, weight, strict=True)), Fraction(0))


def _chunks(
    law: FloatArray, weights: FloatArray | None
) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    for start in range(0, law.size, _CHUNK):
        piece = slice(start, start + _CHUNK)
        yield law[piece], None if weights is None else weights[piece]


# ── The diversity C_K(P) = Σ_k √(p_k(1-p_k)) of a law, and its bounds on the leak ─────────────────
# Bounds from C_K are looser than :func:`~memberbound.iid.worst_case.leak_of_law` but need only one
# number.  Each is rounded outward.


class Between(NamedTuple):
    """A number known to lie in [lower, upper]."""

    lower: float
    upper: float


class Diversity(NamedTuple):
    """C_K, and the indices with which A25 §C.2 compares it (entropy in nats)."""

    c_k: float
    gini_simpson: float
    shannon: float
    atoms: int


def diversity(probabilities: ArrayLike, multiplicity: ArrayLike | None = None) -> Diversity:
    """Return C_K(P) with the Gini–Simpson index and the entropy, rounded to nearest.

    Examples:
        >>> diversity([0.25] * 4).c_k  # √(K-1) at the uniform law (A25-L23)
        1.7320508075688772
    """
    law, weights, _ = checked_law(probabilities, multiplicity)
    p, weight = _listed(law, weights)
    q = 1.0 - p
    # -p ln p with p near 1: log1p(-q), as q is exact there.
    log = np.where(p > 0.5, np.log1p(-np.where(p > 0.5, q, 0.0)), np.log(p))
    return Diversity(
        math.fsum((np.sqrt(p * q) * weight).tolist()),
        math.fsum((p * q * weight).tolist()),
        math.fsum((-p * log * weight).tolist()),
        int(weight.sum()),
    )


def diversity_given_largest_atom(atoms: int, largest: float) -> Between:
    """Return the range of C_K over laws on K atoms with largest probability ``largest``.

    Theorem: A25-L24.  At the upper end, the rest is spread evenly; at the lower end, it is
    concentrated on as few atoms of probability δ as possible, plus one for the remainder.  The
    lower end is an infimum: with fewer than K used atoms, laws that use all K approach it without
    reaching it.
    Numerics: outward.
    Edge cases: ``largest`` below 1/K is rejected; 1 gives [0, 0].

    Examples:
        >>> [round(x, 6) for x in diversity_given_largest_atom(4, 0.5)]
        [1.0, 1.618034]
    """
    k = _atoms(atoms)
    delta = fraction("largest", largest, open_left=True)
    exact = Fraction(delta)
    # 1/K may round to a double just below it, so accept that.
    if exact * k < 1 - Fraction(1, 2**52):
        raise InputError(f"largest must be at least 1/atoms = {1 / k!r}, got {largest!r}.")
    if delta == 1.0:
        return Between(0.0, 0.0)
    alone = math.sqrt(delta * (1 - delta))
    rest = 1 - delta
    # (K-1) atoms of rest/(K-1): each √(r(1-r)), together √(rest·(K-1-rest)).
    top = alone + math.sqrt(rest * max(k - 2 + delta, 0.0))
    fit = int(1 / exact)
    remainder = float(1 - fit * exact)
    low = fit * alone + math.sqrt(remainder * (1 - remainder))
    return Between(down(low, 8), up(top, 8))


def leak_from_diversity(c_k: float, n: int) -> float:
    """Return C_K/(2√n), an upper bound on the leak of every learner at every ν and λ.

    Guarantee: Δ ≤ C_K/(2√n) for K finite or infinite, any n.
    Theorem: A25-C15 (first part), A24-C5.4.1: ½E|B/n - p| ≤ ½√(p(1-p)/n) by Jensen, and γ = 1 is
    the worst case (X13).
    Numerics: rounded up; ``c_k`` must not be below the true C_K.
    Edge cases: capped at 1, the vacuous bound.

    Examples:
        >>> round(leak_from_diversity(9.95, n=10_000), 6)
        0.04975
    """
    size = whole_number("n", n)
    return min(up(nonnegative("c_k", c_k) / (2 * math.sqrt(size))), 1.0)


def _atoms(atoms: int) -> int:
    return whole_number("atoms", atoms)


def _listed(law: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the atoms with positive probability, and their multiplicities."""
    weight = np.ones_like(law) if weights is None else weights
    used = (law > 0) & (weight > 0)
    return law[used], weight[used]
