"""Errata of A25 (the journal paper): one computed counterexample each."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

from .types import Counterexample

__all__ = [
    "histogram_delta",
    "lemma_21",
    "lemma_22",
    "lemma_24_comment",
    "lemma_29",
    "maximum_delta",
    "printed_sample_size",
    "remark_13",
    "required_sample_size",
    "table_1",
    "upper_tail",
    "width_given_largest_atom",
]


def _divergence(out: list[Fraction], inside: list[Fraction], gamma: Fraction) -> Fraction:
    """D_γ(P_out, P_in) from its generator (A25-P5), two laws on the same finite set."""
    spread = sum((abs(p - q / gamma) for p, q in zip(out, inside, strict=True)), Fraction(0))
    return max(Fraction(1), gamma) * (spread - abs(1 - 1 / gamma)) / 2


def _psi(n: int, p: Fraction) -> Fraction:
    """ψ(⌊np⌋, p)/n = ½E|Bin(n,p)/n − p|, the share of one atom in the worst Δ (A25-L31)."""
    m = math.floor(n * p)
    return math.comb(n, m + 1) * (m + 1) * p ** (m + 1) * (1 - p) ** (n - m) / n


def lemma_21() -> Counterexample:
    """A25-L21 uses the constants of A25-L30 for an atom with p ≥ 1 − 1/n, where they fail.

    Two atoms, 1 − q and q < 1/n: the rare one is the sum over k > k_n, the other one is left to
    be caught between 0.29·√(p(1−p)/n) and 0.44·√(p(1−p)/n).
    """
    low, high = Fraction(29, 100), Fraction(44, 100)
    # Upper side: no remainder is printed there. Squares keep the comparison exact.
    n, q = 5, Fraction(1, 10)
    left = _psi(n, 1 - q)
    squared_upper = high**2 * q * (1 - q) / n
    # Lower side: the remainder o(e^−n) would have to be this negative, times e^n.
    rare = Fraction(1, 10**6)
    needed = {
        size: (low.numerator / low.denominator * math.sqrt(rare * (1 - rare) / size)
               - float(_psi(size, 1 - rare))) * math.exp(size)
        for size in (10, 20, 40)
    }  # fmt: skip
    growing = list(needed.values())
    return Counterexample(
        setting="atoms 9/10 and 1/10, n = 5: what is left after the rare atom (upper side); "
        "atoms 1 − 1e−6 and 1e−6, n = 10, 20, 40 (lower side)",
        printed_value=math.sqrt(squared_upper),
        true_value=float(left),
        violated=left**2 > squared_upper and growing[0] > 1 and growing == sorted(growing),
        numbers={
            "lower_side_at_10_printed": 0.29 * math.sqrt(rare * (1 - rare) / 10),
            "lower_side_at_10_true": float(_psi(10, 1 - rare)),
            "remainder_needed_times_e_to_n_at_10": needed[10],
            "remainder_needed_times_e_to_n_at_20": needed[20],
            "remainder_needed_times_e_to_n_at_40": needed[40],
        },
    )


def maximum_delta(p: Fraction, n: int, gamma: Fraction) -> Fraction:
    """Exact Δ of the release "some record is 1" for n Bernoulli(p) records."""
    q = 1 - p
    out = [q**n, 1 - q**n]
    given_one = [Fraction(0), Fraction(1)]
    given_zero = [q ** (n - 1), 1 - q ** (n - 1)]
    return p * _divergence(out, given_one, gamma) + q * _divergence(out, given_zero, gamma)


def lemma_22() -> Counterexample:
    """A25-L22 claims Δ = o((1−p)^n); at γ = 1 the ratio is 2p for every n."""
    p, sizes = Fraction(1, 3), range(1, 61)
    ratios = [maximum_delta(p, n, Fraction(1)) / (1 - p) ** n for n in sizes]
    last = sizes[-1]

    def late_ratio(gamma: Fraction) -> float:
        return float(maximum_delta(p, last, gamma) / (1 - p) ** last)

    return Counterexample(
        setting="Bernoulli(1/3) records, release = their maximum, γ = 1, n = 1 … 60",
        printed_value=0.0,
        true_value=float(ratios[-1]),
        # A sequence that is o((1−p)^n) cannot keep one positive ratio at every n.
        violated=ratios[-1] > 0 and len(set(ratios)) == 1,
        numbers={
            "p": float(p),
            "largest_n": last,
            "ratio_smallest": float(min(ratios)),
            "ratio_largest": float(max(ratios)),
            "two_p": float(2 * p),
            "ratio_at_gamma_1_2": late_ratio(Fraction(1, 2)),
            "ratio_at_gamma_5_4": late_ratio(Fraction(5, 4)),
            "ratio_at_gamma_2": late_ratio(Fraction(2)),
        },
    )


def width_given_largest_atom(atoms: int, largest: float) -> float:
    """Largest minus least C_K over laws on K atoms whose largest probability is δ (A25-L24)."""
    alone = math.sqrt(largest * (1 - largest))
    top = alone + math.sqrt((1 - largest) * (atoms - 2 + largest))
    fit = math.floor(1 / largest)
    left = 1 - fit * largest
    return top - fit * alone - math.sqrt(max(left * (1 - left), 0.0))


def lemma_24_comment() -> Counterexample:
    """The comment on A25-L24 says that the range of C_K thins out away from δ = 1/2."""
    atoms, near, far = 10, 0.4, 0.34
    nearer, further = (width_given_largest_atom(atoms, delta) for delta in (near, far))
    return Counterexample(
        setting="K = 10: the width of the range of C_K at δ = 0.4 (an upper limit for every δ "
        "further from 1/2, as printed) and at δ = 0.34",
        printed_value=nearer,
        true_value=further,
        violated=further > nearer + 1e-9,
        numbers={
            "width_at_0.5": width_given_largest_atom(atoms, 0.5),
            "width_at_0.6": width_given_largest_atom(atoms, 0.6),
            "width_at_0.9": width_given_largest_atom(atoms, 0.9),
        },
    )


def upper_tail(n: int, p: Fraction, m: int) -> Fraction:
    """P(Bin(n, p) > m), exactly."""
    return sum(
        (math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(m + 1, n + 1)), Fraction(0)
    )


def lemma_29() -> Counterexample:
    """A25-L29 claims a remainder o(e^−n); with small atoms it decays far more slowly."""
    atoms, gamma = 10, Fraction(2)
    p = Fraction(1, atoms)
    prefactor = abs(1 - 1 / gamma)
    logs: dict[int, float] = {}
    remainders: dict[int, Fraction] = {}
    for n in (100, 200, 400):
        m = math.floor(gamma * n * p)
        mean_deviation = sum(
            (
                math.comb(n, k) * p**k * (1 - p) ** (n - k) * abs(Fraction(k, n) - gamma * p)
                for k in range(n + 1)
            ),
            Fraction(0),
        )
        psi = math.comb(n, m + 1) * (m + 1) * p ** (m + 1) * (1 - p) ** (n - m)
        left = atoms * mean_deviation / (2 * gamma)
        # What equation 44 calls |1 − 1/γ|·o(e^−n): everything it adds minus the left side.
        remainders[n] = atoms * psi / (gamma * n) + prefactor / 2 - left
        logs[n] = math.log(remainders[n].numerator) - math.log(remainders[n].denominator) + n
    # Method of types: P(B = j) ≥ e^{−n·kl(j/n, p)}/(n+1), so e^n·remainder → ∞ if kl < 1.
    share = float(gamma * p)
    kl = share * math.log(share / float(p)) + (1 - share) * math.log((1 - share) / float(1 - p))
    growth = list(logs.values())
    first = remainders[100]
    return Counterexample(
        setting="ten atoms of probability 1/10, γ = 2, n = 100, 200, 400",
        printed_value=math.exp(-100),
        true_value=float(first),
        violated=kl < 1 and growth[0] > 0 and growth == sorted(growth) and len(set(growth)) > 1,
        numbers={
            "remainder_at_100": float(first),
            "log_of_remainder_times_e_to_n_at_100": logs[100],
            "log_of_remainder_times_e_to_n_at_200": logs[200],
            "log_of_remainder_times_e_to_n_at_400": logs[400],
            "exact_tail_form_at_100": float(prefactor * upper_tail(100, p, 20)),
            "hoeffding_upper_at_100": float(prefactor)
            * math.exp(-2 * 100 * float(p * (gamma - 1)) ** 2),
            "decay_exponent": kl,
        },
    )


def required_sample_size(c: float, d: int, epsilon: float) -> float:
    """Least real n with c·n^−½ + √d/(2n) ≤ ε: the positive root of the quadratic."""
    # The rationalised root avoids the cancellation of −c + √(c² + …).
    return ((c + math.sqrt(c**2 + 2 * epsilon * math.sqrt(d))) / (2 * epsilon)) ** 2


def printed_sample_size(c: float, d: int, epsilon: float) -> float:
    """The size at the end of the printed proof of A25-R13."""
    return c**2 / epsilon**2 * math.pow(1 + math.sqrt(d) / c**2, 1.5)


def remark_13() -> Counterexample:
    """A25-R13's proof rests on a false Taylor identity; its final size survives for ε ≤ 1.

    With s = √d/c² the exact size is (c²/2ε²)(1 + εs + √(1 + 2εs)), at most (c²/ε²)(1 + s) for
    ε ≤ 1 because √(1 + 2x) ≤ 1 + x; the printed (c²/ε²)(1 + s)^{3/2} is above that.
    """
    c, d, epsilon = 1.0, 1, 0.1
    u = epsilon * math.sqrt(d) / c**2
    gap = 1 + u - math.sqrt(1 + 2 * u)
    # The printed step needs some 0 ≤ ū ≤ u with gap = ½(1 + 2ū)^{−3/2}: solve for ū.
    needed = ((2 * gap) ** (-2 / 3) - 1) / 2
    with_square = ((2 * gap / u**2) ** (-2 / 3) - 1) / 2
    powers = [10.0**k for k in range(-3, 4)]
    ratios = [
        printed_sample_size(a, k, e) / required_sample_size(a, k, e)
        for a, k, e in product(powers, (1, 10, 1000, 100_000), (1e-4, 1e-2, 0.1, 0.5, 1.0))
    ]
    return Counterexample(
        setting="the proof's Taylor step at c = 1, d = 1, ε = 1/10: u = 1/10",
        printed_value=u,
        true_value=needed,
        violated=needed > u,
        numbers={
            "largest_intermediate_point_allowed": u,
            "intermediate_point_needed_as_printed": needed,
            "intermediate_point_with_the_square": with_square,
            "printed_size": printed_sample_size(c, d, epsilon),
            "exact_size": required_sample_size(c, d, epsilon),
            "smallest_printed_over_exact_size": min(ratios),
            "largest_printed_over_exact_size": max(ratios),
        },
    )


def _histograms(total: int, atoms: int) -> list[tuple[int, ...]]:
    """Every way to put ``total`` records into ``atoms`` cells."""
    if atoms == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(total + 1)
        for rest in _histograms(total - first, atoms - 1)
    ]


def histogram_delta(probabilities: list[Fraction], n: int) -> Fraction:
    """Exact Δ at γ = 1 of the learner that releases the histogram of its n records.

    From the definition E_z TV(law of the release given z, law of the release): both laws are
    enumerated, the closed form of A25-T14 is not used.
    """

    def law(counts: tuple[int, ...]) -> Fraction:
        mass = Fraction(math.factorial(sum(counts)))
        for count, p in zip(counts, probabilities, strict=True):
            mass *= p**count / math.factorial(count)
        return mass

    delta = Fraction(0)
    for counts in _histograms(n, len(probabilities)):
        out = law(counts)
        for k, p in enumerate(probabilities):
            others = (*counts[:k], counts[k] - 1, *counts[k + 1 :])
            inside = law(others) if counts[k] else Fraction(0)
            delta += p * abs(out - inside) / 2
    return delta


def table_1() -> Counterexample:
    """A25-Tab1 bounds Δ by the C_K of clusters of x; the released classifier also saw labels."""
    clusters, labels, n = 2, 4, 6
    pair = Fraction(1, clusters * labels)
    delta = histogram_delta([pair] * (clusters * labels), n)
    without_labels = histogram_delta([Fraction(1, clusters)] * clusters, n)
    # For K equal atoms C_K² = K − 1, so C_K/(2√n) can be compared through exact squares.
    squared_bound = Fraction(clusters - 1, 4 * n)
    return Counterexample(
        setting="two equal clusters of x, four equally likely labels in each, n = 6; the "
        "classifier releases the label counts of every cluster",
        printed_value=math.sqrt(squared_bound),
        true_value=float(delta),
        violated=delta**2 > squared_bound,
        numbers={
            "n": n,
            "c_k_of_clusters": math.sqrt(clusters - 1),
            "c_k_of_pairs": math.sqrt(clusters * labels - 1),
            "bound_from_clusters": math.sqrt(squared_bound),
            "bound_from_pairs": math.sqrt(Fraction(clusters * labels - 1, 4 * n)),
            "delta_of_released_label_counts": float(delta),
            "delta_if_labels_were_not_used": float(without_labels),
        },
    )
