"""Discrete laws: the worst learner, C_K(P), and what single atoms add (A25 §5.2, App. C and G).

A law is given by the probabilities of its atoms; n records are independent draws from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
from numpy.typing import ArrayLike

from memberbound.attacks.intervals import clopper_pearson_lower, clopper_pearson_upper
from memberbound.errors import InputError, fraction, nonnegative, whole_number
from memberbound.games import gamma_from_priors
from memberbound.iid import worst_case
from memberbound.iid.profiles import CountProfile
from memberbound.iid.record_leak import cell_probability_lower
from memberbound.iid.worst_case import Between, Diversity, checked_law
from memberbound.numerics.binomial import hockey_stick_upper, point_probability
from memberbound.numerics.rounding import FloatArray, down, sum_slack, up
from memberbound.papers.vectors import Numbers, each

# ── The worst learner ─────────────────────────────────────────────────────────────────────────────


def leak_of_law(
    probabilities: ArrayLike,
    n: ArrayLike,
    nu: ArrayLike = 0.5,
    lam: ArrayLike = 1.0,
    multiplicity: ArrayLike | None = None,
) -> Numbers:
    """A25-T14, A25-eq32, A24-T5.4: return the leak of the worst learner on n records.

    Guarantee: no learner and no attack exceed it; releasing the histogram reaches it (i.i.d. game,
    the *average* record).
    Theorem: A25-T14.
    Assumes: the records are independent draws from the law.
    Numerics: rounded up, by less than 1e-10 of the value.
    Edge cases: ``n``, ``nu`` and ``lam`` may be arrays; ``multiplicity[k]`` is the number of atoms
    with probability ``probabilities[k]``.

    Examples:
        >>> leak_of_law([0.5, 0.3, 0.2], n=[10, 100, 1000]).round(4).tolist()
        [0.1659, 0.054, 0.0171]
    """

    def bound(size: int, v: float, w: float) -> float:
        return worst_case.leak_of_law(probabilities, size, v, w, multiplicity)

    return each(bound, n, nu, lam)


def leak_of_uniform(
    atoms: ArrayLike, n: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """A25-T14: return the leak of the worst learner for equally likely atoms.

    Guarantee, Theorem, Assumes, Numerics: as :func:`leak_of_law`.

    Examples:
        >>> leak_of_uniform([10, 1000], n=1000).round(4).tolist()
        [0.0378, 0.3677]
    """
    return each(worst_case.leak_of_uniform, atoms, n, nu, lam)


def shares_of_atoms(
    probabilities: ArrayLike, n: int, nu: float = 0.5, lam: float = 1.0
) -> FloatArray:
    """A25-L21, A25-L29, A25-eq47: return what every atom adds to the worst leak, from above.

    At γ = 1 it is ½E|B/n - p| = ψ(⌊np⌋, p)/n: p(1-p)ⁿ for an atom with p < 1/n, and pⁿ(1-p) for one
    with p ≥ 1 - 1/n.

    Guarantee: no share is below the true one; their sum is A25-T14.
    Theorem: A25-T14, A25-L29.
    Assumes: the records are independent draws from a law with these atoms.
    Numerics: rounded up.

    Examples:
        >>> shares_of_atoms([0.9, 0.1], n=5).round(6).tolist()
        [0.059049, 0.059049]
    """
    law = np.asarray(probabilities, dtype=np.float64)
    size, gamma = whole_number("n", n), gamma_from_priors(nu, lam)
    return hockey_stick_upper(size, law.ravel(), gamma).reshape(law.shape)


def leak_of_learner(
    probabilities: Sequence[Fraction | float],
    n: int,
    learner: Callable[[tuple[int, ...]], Hashable],
    gamma: Fraction | float = Fraction(1),
) -> Fraction:
    """A24-L5.5, A25-L26, A25-eq43: return the leak of a learner that sees the histogram, exactly.

    ``learner`` maps the counts of the atoms to the release.  At γ = 1 the leak is
    ½Σ_jΣ_l|E[(p_j - N_j/n)·1{release l}]|: only the partition of the histograms counts.

    Guarantee: exact.
    Theorem: A24-L5.5; at any γ A25-eq7 with A25-eq39.
    Assumes: the records are independent draws from the law, the learner is deterministic.
    Edge cases: more than 200 000 histograms are refused.

    Examples:
        >>> leak_of_learner([Fraction(2, 3), Fraction(1, 3)], 2, learner=max)
        Fraction(4, 27)
    """
    law = [Fraction(p) for p in probabilities]
    size, price = whole_number("n", n), Fraction(gamma)
    count = math.comb(size + len(law) - 1, len(law) - 1)
    if count > 200_000:
        raise InputError(f"the number of histograms must be at most 200000, got {count}.")
    inside: dict[tuple[Hashable, int], Fraction] = {}
    mass: dict[Hashable, Fraction] = {}
    for histogram in _histograms(size, len(law)):
        weight = Fraction(math.factorial(size))
        for times, p in zip(histogram, law, strict=True):
            weight *= p**times / math.factorial(times)
        label = learner(histogram)
        mass[label] = mass.get(label, Fraction(0)) + weight
        for atom, times in enumerate(histogram):
            if times:
                key = label, atom
                inside[key] = inside.get(key, Fraction(0)) + weight * Fraction(times, size)
    zero, total = Fraction(0), Fraction(0)
    for label, chance in mass.items():
        for atom, p in enumerate(law):
            member, fresh = inside.get((label, atom), zero), chance * p
            over = member - price * fresh if price >= 1 else fresh - member / price
            total += max(zero, over)
    return total


def _histograms(n: int, atoms: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to spread n records over the atoms."""
    if atoms == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _histograms(n - first, atoms - 1):
            yield (first, *rest)


def histogram_ratio(counts: ArrayLike, probabilities: ArrayLike, atom: int) -> Numbers:
    """A25-eq39, A24-eq24: return how much likelier a histogram is given that a member is an atom.

    k_j/(n·p_j), for counts along the last axis.

    Numerics: to nearest.

    Examples:
        >>> histogram_ratio([[3, 1], [2, 2]], [0.5, 0.5], atom=0).tolist()
        [1.5, 1.0]
    """
    table = np.asarray(counts, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    ratio = table[..., atom] / (table.sum(axis=-1) * p[atom])
    return float(ratio) if ratio.ndim == 0 else np.asarray(ratio)


def leak_of_maximum(
    p: ArrayLike, n: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """A24-L5.6, A25-L22: return the leak of releasing the maximum of Bernoulli(p) records.

    2p(1-p)ⁿ at γ = 1.  A25-L22 prints o((1-p)ⁿ), which is too small.

    Guarantee: never below the true leak.
    Theorem: A24-L5.6 at γ = 1; at any γ A25-eq7 for the four pairs (release, record).
    Assumes: independent records.
    Numerics: rounded up.

    Examples:
        >>> round(leak_of_maximum(0.1, n=20), 6)
        0.024315
    """

    def bound(chance: float, size: int, v: float, w: float) -> float:
        one, gamma = fraction("p", chance), gamma_from_priors(v, w)
        q, times = Fraction(1) - Fraction(one), whole_number("n", size)
        price = Fraction(v) / (Fraction(w) * (1 - Fraction(v)))
        if one in (0.0, 1.0):
            return 0.0
        # qⁿ and qⁿ⁻¹ from above; 1 - qⁿ is as good as its complement.
        none, other = (up(math.pow(1 - one, m), 8 + 2 * m) for m in (times, times - 1))
        zero = Fraction(0)
        if gamma >= 1:
            seen = max(zero, 1 - price * (1 - Fraction(none)))
            leak = Fraction(one) * seen + Fraction(none) * max(zero, 1 - price * q)
        else:
            rest = max(
                zero,
                1
                - Fraction(down(math.pow(1 - one, times), 8 + 2 * times))
                - (1 - Fraction(other)) / price,
            )
            leak = Fraction(one) * Fraction(none) + q * rest
        return min(1.0, up(float(leak), 8))

    return each(bound, p, n, nu, lam)


# ── C_K(P) ────────────────────────────────────────────────────────────────────────────────────────


def diversity(probabilities: ArrayLike, multiplicity: ArrayLike | None = None) -> Diversity:
    """A25-eq18: return C_K(P) = Σ√(p(1-p)) beside the Gini-Simpson and Shannon indices.

    Numerics: to nearest; the entropy is in nats.

    Examples:
        >>> diversity([0.7, 0.2, 0.1]).c_k.__round__(6)
        1.158258
    """
    return worst_case.diversity(probabilities, multiplicity)


def diversity_of_table(
    counts: ArrayLike, cells: int | None = None, confidence: float = 0.95
) -> Between:
    """A25-eq18: return a confidence interval for C_K(P) from the counts of a table's cells.

    ``cells`` is the number of possible cells, if it is public.  Without it the upper end is
    infinite: unseen atoms can make C_K as large as one likes.

    Guarantee: with probability at least ``confidence`` over the rows C_K(P) is in the interval.
    Theorem: with ``cells``, Clopper-Pearson bounds of all K cells hold together when they share the
    error; those never seen have mass at most 1 - Σ lower ends, and spread evenly they add most.
    Without it, X15 bounds all cells from below at once.  √(p(1-p)) rises up to ½ and falls from
    there, so over an interval it is least at an end.
    Assumes: the rows are independent draws from one law; ``cells`` was not chosen by looking.
    Numerics: outward.
    Edge cases: zero counts are dropped.

    Examples:
        >>> low, high = diversity_of_table([4000, 3000, 2000, 1000], cells=4)
        >>> round(low, 2), round(high, 2)
        (1.62, 1.67)
    """
    seen = np.asarray(counts, dtype=np.int64).ravel()
    seen = seen[seen > 0]
    rows = int(seen.sum())
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    if cells is None:
        # One statement for all lower ends, one for the only cell that can exceed ½.
        profile = CountProfile.from_counts(seen)
        lows = {c: cell_probability_lower(rows, c, (1 + level) / 2) for c in profile.count.tolist()}
        lower = np.array([lows[c] for c in seen.tolist()])
        upper = clopper_pearson_upper(seen, rows, (1 - level) / 2)
        return Between(_outward(lower, upper)[0], math.inf)
    total = whole_number("cells", cells, at_least=max(1, len(seen)))
    error = (1 - level) / (2 * total)
    lower = clopper_pearson_lower(seen, rows, error)
    upper = clopper_pearson_upper(seen, rows, error)
    least, most = _outward(lower, upper)
    unseen = total - len(seen)
    if unseen:
        missing = min(
            max(0.0, 1 - float(lower.sum())) + sum_slack(len(seen)),
            unseen * float(clopper_pearson_upper(0, rows, error)),
        )
        most = up(most + math.sqrt(missing * (unseen - min(missing, unseen / 2))), 64)
    return Between(least, min(most, up(math.sqrt(total - 1), 4)) if total > 1 else 0.0)


def _outward(lower: FloatArray, upper: FloatArray) -> tuple[float, float]:
    """Return Σ of the least and of the largest √(p(1-p)) over intervals of p."""
    ends = [np.sqrt(np.clip(p * (1 - p), 0.0, None)) for p in (lower, upper)]
    inside = (lower <= 0.5) & (upper >= 0.5)
    most = np.where(inside, 0.5, np.maximum(*ends))
    room = 1 + 8 * sum_slack(max(1, len(lower)))
    return float(np.minimum(*ends).sum()) / room, float(most.sum()) * room


def leak_from_diversity(c_k: ArrayLike, n: ArrayLike) -> Numbers:
    """A25-C15, A24-C5.4.1: return C_K/(2√n), an upper bound on every learner's leak.

    Guarantee: no learner leaks more, at any ν and λ.
    Theorem: A25-C15.
    Assumes: ``c_k`` is not below C_K(P); independent records.
    Numerics: rounded up; at most 1.

    Examples:
        >>> round(leak_from_diversity(9.95, n=10_000), 6)
        0.04975
    """
    return each(worst_case.leak_from_diversity, c_k, n)


def leak_range_from_diversity(probabilities: ArrayLike, n: int) -> Between:
    """A25-C15: return the range 0.29 … 0.44 times C_K/√n of the worst leak at the worst ν.

    Guarantee: the worst learner's leak at γ = 1 is in the range.
    Theorem: A25-C15.
    Assumes: the records are independent draws from the law.
    Numerics: outward.
    Edge cases: without n ≥ 5 and n·p > 1 for every atom it is 0 … C_K/(2√n).

    Examples:
        >>> low, high = leak_range_from_diversity([0.25] * 4, n=100)
        >>> round(low, 4), round(leak_of_uniform(4, 100), 4), round(high, 4)
        (0.0502, 0.0688, 0.0762)
    """
    law, _, _ = checked_law(probabilities)
    size = whole_number("n", n)
    used = law[law > 0]
    c_k = worst_case.diversity(law).c_k
    rate = c_k / math.sqrt(size)
    if size < 5 or not np.all(size * used > 1 + 1e-12):
        return Between(0.0, worst_case.leak_from_diversity(up(c_k, 32 + used.size), size))
    return Between(down(0.29 * rate, 32 + used.size), up(0.44 * rate, 32 + used.size))


def leak_lower_from_diversity(c_k: ArrayLike, n: ArrayLike, smallest: float) -> Numbers:
    """A24-C5.4.2: return e^(-13/6)/√(2π)·(C_K - 1/√(2n))/√n, a lower bound on the worst leak.

    ``smallest`` is the smallest probability; the paper forgets that n·p ≥ 1 is needed.

    Guarantee: the worst learner leaks at least this much.
    Theorem: A24-C5.4.2, corrected.
    Assumes: finitely many atoms, ``c_k`` is not above C_K(P), independent records.
    Numerics: rounded down; at least 0.

    Examples:
        >>> round(leak_lower_from_diversity(1.7320508, 100, smallest=0.25), 4)
        0.0076
    """
    least = fraction("smallest", smallest, open_left=True)

    def bound(c: float, n_: int) -> float:
        size = whole_number("n", n_, at_least=2)
        if size * least < 1:
            raise InputError(f"n·smallest must be at least 1, got {size * least!r}.")
        spread = nonnegative("c_k", c) - 1 / math.sqrt(2 * size)
        rate = math.exp(-13 / 6) / math.sqrt(2 * math.pi * size)
        return max(0.0, down(spread * rate, 32)) if spread > 0 else 0.0

    return each(bound, c_k, n)


def size_from_diversity(c_k: ArrayLike, epsilon: ArrayLike) -> Numbers:
    """A25-C15: return n ≥ (C_K/(2ε))², enough records for a leak of at most ε.

    Guarantee: ``leak_from_diversity(c_k, n)`` is at most ε.
    Theorem: A25-C15.
    Assumes: ``c_k`` is not below C_K(P); independent records.
    Numerics: the whole number was checked again.

    Examples:
        >>> size_from_diversity(4.3, [0.1, 0.01]).tolist()
        [463, 46226]
    """

    def enough(c: float, target: float) -> int:
        limit = fraction("epsilon", target, open_left=True)
        n = max(1, math.ceil((nonnegative("c_k", c) / (2 * limit)) ** 2))
        while worst_case.leak_from_diversity(c, n) > limit:
            n += 1
        return n

    return each(enough, c_k, epsilon)


def largest_diversity(atoms: ArrayLike) -> Numbers:
    """A25-L23: return √(K-1), the largest C_K of a law on K atoms, from above.

    Guarantee: no law on K atoms has a larger C_K; the uniform law reaches it.
    Theorem: A25-L23.
    Assumes: nothing.
    Numerics: rounded up.

    Examples:
        >>> largest_diversity([2, 5, 101]).round(9).tolist()
        [1.0, 2.0, 10.0]
    """
    return each(lambda k: up(math.sqrt(whole_number("atoms", k) - 1), 2), atoms)


def diversity_given_largest_atom(atoms: int, largest: float) -> Between:
    """A25-L24: return the range of C_K over laws on K atoms with this largest probability.

    Guarantee: C_K is in the range.
    Theorem: A25-L24.
    Assumes: nothing else about the law.
    Numerics: outward.

    Examples:
        >>> [round(x, 6) for x in diversity_given_largest_atom(4, 0.5)]
        [1.0, 1.618034]
    """
    return worst_case.diversity_given_largest_atom(atoms, largest)


def diversity_from_indices(gini_simpson: float, shannon: float, atoms: int) -> Between:
    """A25-C.2, A25-eq23, A25-eq24, A25-eq25: return the range of C_K that two indices leave.

    max(2G, H) ≤ C_K ≤ √(K·min(G, 1 - e^(-H))), with G = 1 - Σp² and the entropy H in nats.

    Guarantee: C_K is in the range.
    Theorem: A25-eq23 to A25-eq25.
    Assumes: both indices are those of one law on K atoms.
    Numerics: outward.

    Examples:
        >>> index = diversity([0.7, 0.2, 0.1])
        >>> low, high = diversity_from_indices(index.gini_simpson, index.shannon, 3)
        >>> round(low, 4), round(index.c_k, 4), round(high, 4)
        (0.92, 1.1583, 1.1747)
    """
    k, gini = whole_number("atoms", atoms), fraction("gini_simpson", gini_simpson)
    nats = nonnegative("shannon", shannon)
    most = math.sqrt(k * min(gini, -math.expm1(-nats)))
    return Between(down(max(2 * gini, nats), 8), up(most, 16))


def law_that_leaks(sizes: Sequence[int], leaks: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """A25-L20: return a law with a worst leak of at least the wanted one at every n_i.

    The result is (probabilities, multiplicity) for :func:`leak_of_law`.  A block of mass w on K
    atoms leaks w(1 - w/K)ⁿ ≥ w(1 - n/K); block i carries the difference of two wanted leaks.  An
    endless schedule gives C_K = ∞ and a rate as slow as one likes.

    Guarantee: the leak at n_i is at least ``leaks[i]``.
    Theorem: A25-L20.
    Assumes: sizes rise and leaks fall, strictly, from below 1.
    Numerics: a factor 2 more atoms than needed covers the rounding.

    Examples:
        >>> law = law_that_leaks([10, 1000, 100_000], [0.9, 0.8, 0.7])
        >>> leak_of_law(law[0], [10, 1000, 100_000], multiplicity=law[1]).round(3).tolist()
        [0.999, 0.921, 0.813]
    """
    n = [whole_number("sizes", size) for size in sizes]
    wanted = [fraction("leaks", leak, open_right=True) for leak in leaks]
    rising = all(a < b for a, b in pairwise(n)) and all(a > b for a, b in pairwise(wanted))
    if len(n) != len(wanted) or not n or not rising:
        raise InputError("sizes must rise and leaks fall, one leak for each size.")
    aims = [1.0, *((a + b) / 2 for a, b in pairwise(wanted))]
    masses = np.array([a - b for a, b in zip(aims, [*aims[1:], 0.0], strict=True)])
    cells, needed = [], 1.0
    for size, leak, aim in zip(n, wanted, aims, strict=True):
        needed = max(needed, 2.0 * size * aim / (aim - leak))
        cells.append(float(math.ceil(needed)))
    return masses / np.array(cells), np.array(cells)


# ── Single atoms ──────────────────────────────────────────────────────────────────────────────────


def deviation_range(p: float, n: int) -> Between:
    """A25-L30: return the range of ½E|B/n - p| = ψ(⌊np⌋, p)/n by the constants 0.29 and 0.44.

    Guarantee: the half deviation is in the range.
    Theorem: A25-L30.
    Assumes: n ≥ 5 and 1 ≤ ⌊np⌋ ≤ n - 2; anything else is refused.
    Numerics: outward.

    Examples:
        >>> low, high = deviation_range(0.3, 100)
        >>> round(low, 4), round(float(shares_of_atoms(0.3, 100)), 4), round(high, 4)
        (0.0133, 0.0182, 0.0202)
    """
    chance, size = fraction("p", p), whole_number("n", n)
    if size < 5 or not 1 <= math.floor(Fraction(chance) * size) <= size - 2:
        raise InputError(
            f"n must be at least 5 and ⌊np⌋ from 1 to n - 2, got n = {n!r}, p = {p!r}."
        )
    unit = math.sqrt(chance * (1 - chance) / size)
    return Between(down(0.29 * unit, 16), up(0.44 * unit, 16))


def partial_deviation(m: ArrayLike, n: int, p: float) -> Numbers:
    """A25-L31, A25-eq46: return De Moivre's (m+1)·C(n, m+1)·p^(m+1)·(1-p)^(n-m).

    It is Σ_{k≤m} P(B = k)(np - k), B ~ Bin(n, p); at m = ⌊np⌋, over n, half the mean deviation.

    Numerics: to nearest.

    Examples:
        >>> (
        ...     round(partial_deviation(1, n=4, p=0.25), 6),
        ...     round(4 * shares_of_atoms(0.25, 4).item(), 6),
        ... )
        (0.316406, 0.316406)
    """
    size, chance = whole_number("n", n), fraction("p", p)

    def exact(k: int) -> float:
        at = whole_number("m", k, at_least=0)
        if at >= size:
            return 0.0
        mass = float(point_probability(size - 1, at, chance).item())
        return size * chance * (1 - chance) * mass

    return each(exact, m)


def disagreement(
    learner: Callable[[tuple[Hashable, ...]], object], values: Sequence[Hashable], largest: int
) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]] | None:
    """A25-P18, A25-D16, A25-D17: return two data sets of equal frequencies but unequal release.

    ``None`` means that up to ``largest`` records the learner is a function of the empirical
    distribution, that is, symmetric and redundancy invariant.

    Examples:
        >>> disagreement(lambda data: sum(data) / len(data), (0, 1), largest=5) is None
        True
        >>> disagreement(len, "ab", largest=3)
        (('a',), ('a', 'a'))
    """
    known: dict[frozenset[tuple[Hashable, Fraction]], tuple[tuple[Hashable, ...], object]] = {}
    for size in range(1, whole_number("largest", largest) + 1):
        for data in product(values, repeat=size):
            shares = {z: Fraction(times, size) for z, times in Counter(data).items()}
            first, value = known.setdefault(frozenset(shares.items()), (data, learner(data)))
            if learner(data) != value:
                return first, data
    return None
