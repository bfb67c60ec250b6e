"""Counterexamples to claims of A25 and its preprints A24 and A23, and to our first form of X7."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

from memberbound.iid.gaussian_mean import leak_of_gaussian_mean
from memberbound.iid.record_leak import record_leak_upper
from memberbound.iid.worst_case import (
    diversity,
    diversity_given_largest_atom,
    leak_from_diversity,
    leak_of_uniform,
)
from memberbound.papers.results import Counterexample

__all__ = [
    "best_conditional_accuracy",
    "capped_loss",
    "chance_to_reach",
    "channel_leak",
    "exact_sum_leak_lower",
    "least_dp_delta",
    "maximum_delta",
    "mean_deviation",
    "needed_constant",
    "printed_sample_size",
    "required_sample_size",
    "squared_loss_ceiling",
]

_HALF = Fraction(1, 2)


def _total(terms: Iterable[Fraction]) -> Fraction:
    return sum(terms, Fraction(0))


# ---- discrete data -----------------------------------------------------------------------------


def mean_deviation(n: int, p: Fraction, gamma: Fraction = Fraction(1)) -> Fraction:
    """E|Bin(n, p)/n − γp|, exactly."""
    # Whole numbers over one denominator: a fraction would be reduced at every step.
    a, b, centre = p.numerator, p.denominator, gamma * p
    total = sum(
        math.comb(n, k) * a**k * (b - a) ** (n - k)
        * abs(k * centre.denominator - centre.numerator * n)
        for k in range(n + 1)
    )  # fmt: skip
    return Fraction(total, b**n * n * centre.denominator)


def corollary_5_4_2() -> Counterexample:
    """A24-C5.4.2 has no condition on n·p_k; with many rare atoms its lower bound passes 1."""
    n = 2

    def printed(atoms: int) -> float:
        spread = diversity([1 / atoms], multiplicity=[atoms]).c_k - 1 / math.sqrt(2 * n)
        return math.exp(-13 / 6) / math.sqrt(2 * math.pi) * spread / math.sqrt(n)

    return Counterexample(
        setting="uniform law on 1000 atoms, n = 2",
        printed_value=printed(1000),
        true_value=leak_of_uniform(1000, n),
        violated=printed(1000) > leak_of_uniform(1000, n) + 1e-9,
        numbers={
            # The same n with n·p_k = 1 for every atom.
            "bound_with_two_atoms": printed(2),
            "worst_leak_with_two_atoms": leak_of_uniform(2, n),
        },
    )


def lemma_21() -> Counterexample:
    """A25-L21 uses the constants of A25-L30 for an atom with p ≥ 1 − 1/n, where they fail.

    Two atoms, 1 − q and q < 1/n: the rare one is the sum over k > k_n, the other one is left to
    be caught between 0.29·√(p(1−p)/n) and 0.44·√(p(1−p)/n).
    """
    # Upper side: no remainder is printed there. Squares keep the comparison exact.
    n, q = 5, Fraction(1, 10)
    left = mean_deviation(n, 1 - q) / 2
    squared_upper = Fraction(44, 100) ** 2 * q * (1 - q) / n
    # Lower side: the remainder o(e^−n) would have to be this negative, times e^n.
    rare, sizes = Fraction(1, 10**6), (10, 20, 40)
    printed = {size: 0.29 * math.sqrt(rare * (1 - rare) / size) for size in sizes}
    true = {size: float(mean_deviation(size, 1 - rare) / 2) for size in sizes}
    growing = [(printed[size] - true[size]) * math.exp(size) for size in sizes]
    return Counterexample(
        setting="atoms 9/10 and 1/10, n = 5: what is left after the rare atom (upper side); "
        "atoms 1 − 1e−6 and 1e−6, n = 10, 20, 40 (lower side)",
        printed_value=math.sqrt(squared_upper),
        true_value=left,
        violated=left**2 > squared_upper and growing[0] > 1 and growing == sorted(growing),
        numbers={
            "lower_side_at_10_printed": printed[10],
            "lower_side_at_10_true": true[10],
            **{
                f"remainder_needed_times_e_to_n_at_{size}": value
                for size, value in zip(sizes, growing, strict=True)
            },
        },
    )


def maximum_delta(p: Fraction, n: int, gamma: Fraction) -> Fraction:
    """Exact Δ of the release "some record is 1" for n Bernoulli(p) records."""
    q = 1 - p
    none = q**n  # the probability that all records are 0

    def divergence(none_given_record: Fraction) -> Fraction:
        """D_γ(P_out, P_in) from its generator (A25-P5)."""
        spread = abs(none - none_given_record / gamma)
        spread += abs(1 - none - (1 - none_given_record) / gamma)
        return max(Fraction(1), gamma) * (spread - abs(1 - 1 / gamma)) / 2

    return p * divergence(Fraction(0)) + q * divergence(q ** (n - 1))


def lemma_22() -> Counterexample:
    """A25-L22 claims Δ = o((1−p)^n); at γ = 1 the ratio is 2p for every n."""
    p, sizes = Fraction(1, 3), range(1, 61)

    def ratio(n: int, gamma: Fraction) -> Fraction:
        return maximum_delta(p, n, gamma) / (1 - p) ** n

    ratios = [ratio(n, Fraction(1)) for n in sizes]
    return Counterexample(
        setting="Bernoulli(1/3) records, release = their maximum, γ = 1, n = 1 … 60",
        printed_value=0,
        true_value=ratios[-1],
        # A sequence that is o((1−p)^n) cannot keep one positive ratio at every n.
        violated=ratios[-1] > 0 and len(set(ratios)) == 1,
        numbers={
            "ratio_at_gamma_1_2": ratio(60, _HALF),
            "ratio_at_gamma_5_4": ratio(60, Fraction(5, 4)),
            "ratio_at_gamma_2": ratio(60, Fraction(2)),
        },
    )


def lemma_24_comment() -> Counterexample:
    """The comment on A25-L24 says that the range of C_K thins out away from δ = 1/2."""

    def width(largest: float) -> float:
        lower, upper = diversity_given_largest_atom(10, largest)
        return upper - lower

    return Counterexample(
        setting="K = 10: the width of the range of C_K at δ = 0.4 (an upper limit for every δ "
        "further from 1/2, as printed) and at δ = 0.34",
        printed_value=width(0.4),
        true_value=width(0.34),
        violated=width(0.34) > width(0.4) + 1e-9,
        numbers={f"width_at_{largest:g}": width(largest) for largest in (0.5, 0.6, 0.9)},
    )


def lemma_29() -> Counterexample:
    """A25-L29 claims a remainder o(e^−n); with small atoms it decays far more slowly."""
    atoms, gamma = 10, Fraction(2)
    p = Fraction(1, atoms)
    prefactor = abs(1 - 1 / gamma)
    remainders: dict[int, Fraction] = {}
    for n in (100, 200, 400):
        m = math.floor(gamma * n * p)
        psi = math.comb(n, m + 1) * (m + 1) * p ** (m + 1) * (1 - p) ** (n - m)
        left = atoms * mean_deviation(n, p, gamma) / (2 * gamma)
        # What equation 44 calls |1 − 1/γ|·o(e^−n): everything it adds minus the left side.
        remainders[n] = atoms * psi / (gamma * n) + prefactor / 2 - left
    logs = {n: math.log(r.numerator) - math.log(r.denominator) + n for n, r in remainders.items()}
    # Method of types: P(B = j) ≥ e^{−n·kl(j/n, p)}/(n+1), so e^n·remainder → ∞ if kl < 1.
    kl = 0.2 * math.log(0.2 / 0.1) + 0.8 * math.log(0.8 / 0.9)
    return Counterexample(
        setting="ten atoms of probability 1/10, γ = 2, n = 100, 200, 400",
        printed_value=math.exp(-100),
        true_value=remainders[100],
        violated=kl < 1 and 0 < logs[100] < logs[200] < logs[400],
        numbers={
            **{f"log_of_remainder_times_e_to_n_at_{n}": value for n, value in logs.items()},
            "hoeffding_upper_at_100": float(prefactor) * math.exp(-2 * 100 * 0.1**2),
            "decay_exponent": kl,
        },
    )


def table_1() -> Counterexample:
    """A25-Tab1 bounds Δ by the C_K of clusters of x; the released classifier also saw labels."""
    clusters, pairs, n = 2, 8, 6
    delta = leak_of_uniform(pairs, n)
    # C_K = √(K − 1) for K equal atoms.
    bounds = {k: leak_from_diversity(math.sqrt(k - 1), n) for k in (clusters, pairs)}
    return Counterexample(
        setting="two equal clusters of x, four equally likely labels in each, n = 6; the "
        "classifier releases the label counts of every cluster",
        printed_value=bounds[clusters],
        true_value=delta,
        violated=delta > bounds[clusters] + 1e-9,
        numbers={
            "bound_from_pairs": bounds[pairs],
            "delta_if_labels_were_not_used": leak_of_uniform(clusters, n),
        },
    )


def text_of_table_1() -> Counterexample:
    """A25 §6.2 speaks of a loss of 2 % at C_K = 9.20, where its table shows 0.3 points."""
    # Thousandths, so that the differences are exact.
    raw, discretised = 989, {"4.30": 963, "6.74": 968, "9.20": 986}
    lost = {c_k: (raw - accuracy) / 1000 for c_k, accuracy in discretised.items()}
    return Counterexample(
        setting="the row n = 1000 of A25-Tab1: accuracy 0.989 on raw images, 0.986 at C_K = 9.20",
        printed_value=0.02,
        true_value=lost["9.20"],
        # To the one digit that is printed, 2 % reaches from 1.5 to 2.5 %.
        violated=abs(lost["9.20"] - 0.02) > 0.005,
        numbers={f"loss_at_{c_k}": value for c_k, value in lost.items()},
    )


def square_root_form() -> Counterexample:
    """X7 was first stated with 1/√(2πλ); between integers that is too small."""
    n, p = 10, Fraction(1, 20)
    leak = mean_deviation(n, p) / (2 * p)
    expected = float(n * p)
    printed = 1 / math.sqrt(2 * math.pi * expected)
    above_one = Fraction(1, 100)
    return Counterexample(
        setting="ten records, a cell of probability 1/20: λ = 1/2 members expected",
        printed_value=printed,
        true_value=leak,
        violated=leak > printed + 1e-9,
        numbers={
            "corrected_bound": float(record_leak_upper(expected)),
            # Above one member too, so this is no matter of tiny cells only.
            "printed_at_one_and_a_half": 1 / math.sqrt(3 * math.pi),
            "leak_at_one_and_a_half": mean_deviation(150, above_one) / (2 * above_one),
        },
    )


# ---- means of records --------------------------------------------------------------------------

#: ``leak_of_gaussian_mean`` exceeds the truth by less than this share of it.
_EXCESS = 1e-9


def corollary_4_1_1() -> Counterexample:
    """A23-C4.1.1 claims n ≥ √d/ε is enough; the Gaussian mean at n = 50 needs more."""
    n, d = 50, 1
    epsilon = math.sqrt(d) / n
    upper = leak_of_gaussian_mean(n, d)
    # For normal records the central-limit terms of A23-T4.1 vanish and P25 alone remains:
    # Δ ≤ m₁/(2√n) + √d/(2n) with m₁ = E|v| = √(2/π). Its quadratic gives a valid size.
    c = math.sqrt(2 / math.pi) / 2
    enough = math.ceil(required_sample_size(c, d, epsilon))
    return Counterexample(
        setting="mean of n = 50 records from N(0, 1): d = 1, all moments finite, ε = 1/50, "
        "so n = √d/ε",
        printed_value=epsilon,
        true_value=upper * (1 - _EXCESS),
        violated=upper * (1 - _EXCESS) > epsilon,
        numbers={
            "bound_without_central_limit_terms": c / math.sqrt(n) + math.sqrt(d) / (2 * n),
            "n_from_the_quadratic": enough,
            "delta_upper_at_that_n": leak_of_gaussian_mean(enough, d),
        },
    )


def proposition_b_1() -> Counterexample:
    """A24-PB.1 is printed for every integer n; at n = 1 one of the laws is a point."""

    def bound(n: int) -> float:  # d = 1, β = 0
        return 1 / (2 * n)

    # At n = 2 the densities of N(0, 1) and N(0, ½) cross at ±√ln 2.
    crossing = math.sqrt(math.log(2))
    return Counterexample(
        setting="d = 1, β = 0, n = 1: a standard normal law against the point 0",
        printed_value=bound(1),
        true_value=1,  # the event {0} has probability 1 under one law and 0 under the other
        violated=bound(1) < 1,
        numbers={
            "bound_at_2": bound(2),
            "distance_at_2": math.erf(crossing) - math.erf(crossing / math.sqrt(2)),
        },
    )


def exact_sum_leak_lower(n: int, points: int, spread: Fraction) -> Fraction:
    """A lower bound on Δ at γ = 1 of the mean of n records from points in general position.

    A record is one of the ``points`` values, each as likely, or with probability ``spread`` a draw
    from a density. No two selections of n points have the same sum, so the attack that says "in"
    when the sum is one of n points and the record is among them is right on every member while no
    record came from the density, and wrong on a fresh record that happens to be among them:
    TPR − FPR = (1−w)^n·(1 − (1−w)(1 − (1−1/N)^n)), w the spread and N the number of points.
    """
    kept = (1 - spread) ** n
    return kept * (1 - (1 - spread) * (1 - (1 - Fraction(1, points)) ** n))


def needed_constant(n: int) -> float:
    """Least C(1) with which A24-T5.1 covers n² points in [0, 1] and a density of weight n^(−2).

    The law is within 1/2 of its mean and has the variance of the uniform law up to n^(−4), so
    m₁ ≤ 1 and m₃ ≤ (1/2)³·12^(3/2) up to the same; both are taken a little larger.
    """
    leak = float(exact_sum_leak_lower(n, n**2, Fraction(1, n**2)))
    first, third = 1.001, 5.21
    return (leak - 1 / (2 * n)) * math.sqrt(n) / (1 + third) - first / (2 * (1 + third))


def theorem_5_1() -> Counterexample:
    """A24-T5.1 has a constant that depends on d alone; these laws need an ever larger one."""
    needed = {n: needed_constant(n) for n in (100, 400, 1600, 6400)}
    return Counterexample(
        setting="d = 1, the mean of n records that are uniform on n² points in general position "
        "of [0, 1], with a density of weight n^(−2) mixed in; n = 100, 400, 1600, 6400: the "
        "constant C(1) that the first needs, and the last",
        printed_value=needed[100],
        true_value=needed[6400],
        # Δ stays near 1, so each fourfold n asks for twice the constant: there is no bound.
        violated=all(b > 1.9 * a for a, b in pairwise(needed.values())),
        numbers={
            **{f"constant_needed_at_{n}": value for n, value in needed.items()},
            "leak_lower_at_6400": exact_sum_leak_lower(6400, 6400**2, Fraction(1, 6400**2)),
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
    u = 0.1  # ε√d/c² at c = 1, d = 1, ε = 1/10
    gap = 1 + u - math.sqrt(1 + 2 * u)

    def intermediate(term: float) -> float:
        """The ū with gap = ½·term·(1 + 2ū)^{−3/2}; the printed step needs 0 ≤ ū ≤ u."""
        return (math.pow(2 * gap / term, -2 / 3) - 1) / 2

    powers = [10.0**k for k in range(-3, 4)]
    settings = product(powers, (1, 10, 1000, 100_000), (1e-4, 1e-2, 0.1, 0.5, 1.0))
    ratios = [printed_sample_size(*at) / required_sample_size(*at) for at in settings]
    return Counterexample(
        setting="the proof's Taylor step at c = 1, d = 1, ε = 1/10: u = 1/10",
        printed_value=u,
        true_value=intermediate(1.0),
        violated=intermediate(1.0) > u,
        numbers={
            "intermediate_point_with_the_square": intermediate(u**2),
            "smallest_printed_over_exact_size": min(ratios),
            "largest_printed_over_exact_size": max(ratios),
        },
    )


# ---- attacks and differential privacy ----------------------------------------------------------


def equation_15() -> Counterexample:
    """A24-eq15 exchanges the densities of the two worlds; it shows at any ν other than ½."""
    nu = Fraction(1, 4)
    # Densities of (release, record shown) in the two worlds, at the four pairs of bits.
    out = [Fraction(1, 4)] * 4
    inside = [_HALF, Fraction(0), Fraction(0), _HALF]
    # From the definition: every one of the 16 attacks, an event on which it says "in".
    best = max(
        _total(
            (1 - nu) * i if says_in else nu * o
            for o, i, says_in in zip(out, inside, attack, strict=True)
        )
        for attack in product((False, True), repeat=4)
    )

    def integral(first: Fraction, second: Fraction) -> Fraction:
        gaps = (abs(first * o - second * i) for o, i in zip(out, inside, strict=True))
        return _HALF + _HALF * _total(gaps)

    return Counterexample(
        setting="n = 1, a fair coin, the release is the record, ν = 1/4; all 16 attacks tried",
        printed_value=integral(1 - nu, nu),
        true_value=best,
        violated=integral(1 - nu, nu) != best,
        numbers={
            "integral_with_the_densities_in_place": integral(nu, 1 - nu),
            "integral_as_printed_at_even_odds": integral(_HALF, _HALF),
        },
    )


def best_conditional_accuracy(
    law: Sequence[Fraction], data: tuple[int, ...], nu: Fraction
) -> Fraction:
    """Best accuracy of an attack that may depend on the data, λ = 1: all attacks are tried.

    Given the data and the release an attack is a set of records it calls members; it is shown
    a fresh record with probability ν and a uniform member otherwise.
    """
    best = Fraction(0)
    for says_in in product((False, True), repeat=len(law)):
        fresh = _total(mass for mass, says in zip(law, says_in, strict=True) if not says)
        member = Fraction(sum(says_in[z] for z in data), len(data))
        best = max(best, nu * fresh + (1 - nu) * member)
    return best


def remark_4() -> Counterexample:
    """A25-R4 says a data-dependent attack is always right; not when records coincide."""
    best = best_conditional_accuracy((_HALF, _HALF), (0, 1), _HALF)
    apart = best_conditional_accuracy((Fraction(0), Fraction(0), Fraction(1)), (0, 1), _HALF)
    return Counterexample(
        setting="Bernoulli(1/2) records, the data set (0, 1), ν = 1/2, λ = 1; all attacks tried",
        printed_value=1,
        true_value=best,
        violated=best < 1,
        numbers={"accuracy_if_fresh_records_never_coincide": apart},
    )


#: Row z holds the law of the release when the one record is z.
Channel = Sequence[Sequence[Fraction]]


def channel_leak(
    law: Sequence[Fraction],
    channel: Channel,
    weights: tuple[Fraction, Fraction] = (Fraction(-1), Fraction(1)),
) -> Fraction:
    """Mean over records of sup_S of a·P(release ∈ S) + b·P(release ∈ S given the record).

    With the weights a = −1, b = 1 this is Δ at γ = 1, n = 1.
    """
    a, b = weights
    columns = list(zip(*channel, strict=True))
    out = [_total(p * mass for p, mass in zip(law, column, strict=True)) for column in columns]
    return _total(
        p * max(Fraction(0), a * o + b * mass)
        for p, row in zip(law, channel, strict=True)
        for o, mass in zip(out, row, strict=True)
    )


def equation_53() -> Counterexample:
    """A25-eq53 starts with in and out exchanged; for γ ≠ 1 that is another number."""
    gamma, truth = Fraction(2), Fraction(9, 10)
    law, channel = (_HALF, _HALF), ((truth, 1 - truth), (1 - truth, truth))
    by_definition = channel_leak(law, channel, (gamma, Fraction(-1))) / gamma
    printed = channel_leak(law, channel, (Fraction(-1), gamma)) / gamma
    return Counterexample(
        setting="n = 1, a fair coin, randomised response that is true with probability 9/10 "
        "(e^ε = 9), γ = 2: the first equality for D̃_γ",
        printed_value=printed,
        true_value=by_definition,
        violated=printed != by_definition,
        numbers={"final_bound": 9 - 1 / gamma},
    )


def private_supremum() -> Counterexample:
    """A25-H.2 gives tanh(ε/2) as a supremum; no pure DP learner passes tanh(ε/4) (X11).

    Every release y of an ε-DP learner has likelihoods v_z (given z₁ = z) within a factor e^ε.
    Its share of Δ over its probability, Σ p_z(v_z − v̄)₊/v̄, is quasi-convex in v, hence largest
    with v in {1, e^ε}; if e^ε is taken with probability a it is (e^ε−1)a(1−a)/(1 + (e^ε−1)a).
    """
    e_epsilon = 4
    printed, ceiling = Fraction(3, 5), Fraction(1, 3)  # tanh(ε/2), tanh(ε/4)
    steps = 3000
    shares = (Fraction(k, steps) for k in range(steps + 1))
    largest = max((e_epsilon - 1) * a * (1 - a) / (1 + (e_epsilon - 1) * a) for a in shares)
    channel = [[Fraction(4 if y == z else 1, 6) for y in range(3)] for z in range(3)]
    attained = channel_leak([Fraction(1, 3)] * 3, channel)
    private = all(max(column) <= e_epsilon * min(column) for column in zip(*channel, strict=True))
    return Counterexample(
        setting="ε = 2·ln 2, δ = 0, γ = 1, any law and n; the ceiling is attained at n = 1 by "
        "naming one of three equally likely records, the right one with probability 4/6",
        printed_value=printed,
        true_value=ceiling,
        violated=largest <= ceiling < printed and private and attained == ceiling,
        numbers={"largest_share_over_a_grid": largest, "leak_attained": attained},
    )


def least_dp_delta(learner: Callable[[tuple[int, ...]], Hashable], n: int) -> int:
    """Least δ of (0, δ)-DP for a deterministic learner on n bits, replace-one."""
    return max(
        int(learner(data) != learner((*data[:i], 1 - data[i], *data[i + 1 :])))
        for data in product((0, 1), repeat=n)
        for i in range(n)
    )


def lemma_33() -> Counterexample:
    """A25-L33 says no deterministic learner is DP; a constant one is, with ε = δ = 0."""
    constant = least_dp_delta(lambda _: "always the same", 3)
    return Counterexample(
        setting="three bits; the learner that returns the same value for every data set",
        printed_value=1,
        true_value=constant,
        violated=constant < 1,
        numbers={"least_delta_of_the_sum": least_dp_delta(sum, 3)},
    )


# ---- overfitting -------------------------------------------------------------------------------


def capped_loss(y: float, prediction: float) -> float:
    """min(|y|, 1)/(1 + prediction²): continuous, and zero only at y = 0."""
    return min(abs(y), 1.0) / (1 + prediction**2)


def squared_loss_ceiling(eta: float, alpha: float) -> float:
    """Ceiling on MIS at γ = 1 for squared loss, y ~ N(0, 1), training stopped at mean loss η.

    By A25-P10 the learner is (η/α, 1 − α)-overfitting, and a fresh record has squared loss at most
    r with probability at most 2√r/√(2π), whatever the prediction (A25-T11, first part).
    """
    return min(1.0, alpha + 2 * math.sqrt(eta / alpha) / math.sqrt(2 * math.pi))


def equation_13() -> Counterexample:
    """A25-eq13 asks of the loss only that it is continuous; a prediction can then shrink it.

    With ω(y, u) = min(|y|, 1)/(1 + u²) the constant prediction u = √(1/η − 1) has loss at most η on
    every record there is. A learner that starts there has met its stopping rule before it saw the
    data, so its release says nothing: the laws of the two worlds are the same.
    """
    grid = [k / 64 for k in range(-640, 641)]  # |y| beyond 1 changes nothing
    largest = {
        eta: max(capped_loss(y, math.sqrt(1 / eta - 1)) for y in grid) / eta
        for eta in (1e-2, 1e-4, 1e-6)
    }
    return Counterexample(
        setting="y ~ N(0, 1), loss min(|y|, 1)/(1 + u²) with prediction u; the learner that must "
        "stop at mean loss η predicts √(1/η − 1) on any data; η = 1e−2, 1e−4, 1e−6",
        printed_value=0,
        true_value=1,
        # Its stopping rule is met for certain (up to rounding), with a release that is constant.
        violated=all(ratio <= 1 + 1e-9 for ratio in largest.values()),
        numbers={
            **{f"largest_loss_over_eta_at_{eta:g}": ratio for eta, ratio in largest.items()},
            "ceiling_with_squared_loss_at_1e-06": squared_loss_ceiling(1e-6, 0.01),
            "ceiling_with_squared_loss_at_1e-12": squared_loss_ceiling(1e-12, 1e-4),
        },
    )


def remark_12() -> Counterexample:
    """A25-R12 lacks the same condition: these learners overfit at every ε, with α = 0.01."""
    return replace(equation_13(), printed_value=0.01)


def chance_to_reach(eta: float) -> float:
    """Chance that the best constant fits two standard normal labels with mean squared loss ≤ η.

    The least loss is (y₁ − y₂)²/4, half the square of a standard normal variable.
    """
    return math.erf(math.sqrt(eta))


def example_1() -> Counterexample:
    """A25-E1 takes a class that approximates Ψ* for one that can fit the noise."""
    return Counterexample(
        setting="Ψ* = 0, noise N(0, 1), n = 2, the class of constant functions (it contains Ψ*): "
        "the chance that any member reaches training loss 1e−6",
        printed_value=1,
        true_value=chance_to_reach(1e-6),
        violated=chance_to_reach(1e-6) < 1,
        numbers={
            "mean_of_the_least_training_loss": 0.5,
            "security_of_the_least_squares_fit_lower": 1 - leak_of_gaussian_mean(2, 1),
        },
    )


def example_2() -> Counterexample:
    """A25-E2 (A24-E4.3) lets x have any law; with x constant d > n does not interpolate."""
    leak = leak_of_gaussian_mean(2, 1)
    return Counterexample(
        setting="x = (1, 0, 0) for every record, y ~ N(0, 1), n = 2 < d = 3, least squares: the "
        "fit releases the mean of the two labels",
        printed_value=0,
        true_value=1 - leak,
        violated=leak < 1,
        numbers={"chance_of_training_loss_below_1e-6": chance_to_reach(1e-6)},
    )
