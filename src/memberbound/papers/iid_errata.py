"""Counterexamples to claims of A25, A24 and A23 that do not hold as printed.

The TOML file of a paper names the function of an erratum, and describes its setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from memberbound.iid.gaussian_mean import leak_of_gaussian_mean
from memberbound.iid.worst_case import (
    diversity_given_largest_atom,
    leak_from_diversity,
    leak_of_uniform,
)
from memberbound.numerics.rounding import FloatArray
from memberbound.papers.means import required_sample_size
from memberbound.papers.overfitting import ceiling_from_stopping
from memberbound.papers.results import Outcome
from memberbound.papers.security import (
    accuracy_of_attack,
    best_conditional_accuracy,
    least_dp_delta,
)

#: Outputs of a release and their probabilities.
ExactLaw = dict[Hashable, Fraction]
HALF = Fraction(1, 2)
#: Tolerance for a bound computed in floating point.
ROUNDING = 1e-9


# ── A25 and its preprints A24 and A23: discrete data ──────────────────────────────────────────────


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


def corollary_5_4_2() -> Outcome:
    """A24-C5.4.2 has no condition on n·p_k; with many rare atoms its lower bound passes 1."""
    atoms, n = 1000, 2
    # C_K = √(K − 1) for K equal atoms.
    spread = math.sqrt(atoms - 1) - 1 / math.sqrt(2 * n)
    printed = math.exp(-13 / 6) / math.sqrt(2 * math.pi) * spread / math.sqrt(n)
    worst = leak_of_uniform(atoms, n)
    return printed, worst, printed > worst + ROUNDING, {}


def lemma_21() -> Outcome:
    """A25-L21 uses the constants of A25-L30 for an atom with p ≥ 1 − 1/n, where they fail."""
    n, rare = 5, Fraction(1, 10)
    left = mean_deviation(n, 1 - rare) / 2
    squared_upper = Fraction(44, 100) ** 2 * rare * (1 - rare) / n
    return math.sqrt(squared_upper), left, left**2 > squared_upper, {}


def lemma_22() -> Outcome:
    """A25-L22 claims Δ = o((1−p)^n); at γ = 1 the ratio is 2p for every n."""
    p = Fraction(1, 3)
    q = 1 - p

    def leak(n: int) -> Fraction:
        # P(no record is 1) is q^n; given the record it is 0 (a 1, with probability p) or q^(n−1).
        return p * q**n + q * (q ** (n - 1) - q**n)

    ratios = {leak(n) / q**n for n in range(1, 61)}
    # A sequence that is o((1−p)^n) cannot keep one positive ratio at every n.
    return 0, max(ratios), ratios == {2 * p}, {}


def lemma_24_comment() -> Outcome:
    """The comment on A25-L24 claims that the range of C_K thins out away from δ = 1/2."""
    widths = {}
    for largest in (0.34, 0.4, 0.5, 0.6, 0.9):
        lower, upper = diversity_given_largest_atom(10, largest)
        widths[f"width_at_{largest:g}"] = upper - lower
    nearer, farther = widths.pop("width_at_0.4"), widths.pop("width_at_0.34")
    return nearer, farther, farther > nearer + ROUNDING, widths


def lemma_29() -> Outcome:
    """A25-L29 claims a remainder o(e^−n); with small atoms it decays far more slowly."""
    atoms, gamma = 10, Fraction(2)
    p = Fraction(1, atoms)
    remainders: dict[int, Fraction] = {}
    for n in (100, 200, 400):
        m = math.floor(gamma * n * p)
        psi = math.comb(n, m + 1) * (m + 1) * p ** (m + 1) * (1 - p) ** (n - m)
        left = atoms * mean_deviation(n, p, gamma) / (2 * gamma)
        # Equation 44's |1 − 1/γ|·o(e^−n): the sum of its other terms minus the left side.
        remainders[n] = atoms * psi / (gamma * n) + abs(1 - 1 / gamma) / 2 - left
    logs = {n: math.log(r.numerator) - math.log(r.denominator) + n for n, r in remainders.items()}
    # Method of types: P(B = j) ≥ e^{−n·kl(j/n, p)}/(n+1), so e^n·remainder → ∞ if kl < 1.
    kl = 0.2 * math.log(0.2 / 0.1) + 0.8 * math.log(0.8 / 0.9)
    numbers = {f"log_of_remainder_times_e_to_n_at_{n}": value for n, value in logs.items()}
    growing = kl < 1 and 0 < logs[100] < logs[200] < logs[400]
    return math.exp(-100), remainders[100], growing, numbers | {"decay_exponent": kl}


def table_1() -> Outcome:
    """A25-Tab1 bounds Δ by the C_K of clusters of x; the released classifier also saw labels."""
    clusters, pairs, n = 2, 8, 6
    bounds = {k: leak_from_diversity(math.sqrt(k - 1), n) for k in (clusters, pairs)}
    leak = leak_of_uniform(pairs, n)
    numbers = {"bound_from_pairs": bounds[pairs]}
    return bounds[clusters], leak, leak > bounds[clusters] + ROUNDING, numbers


def text_of_table_1() -> Outcome:
    """A25 §6.2 reports a loss of 2 % at C_K = 9.20, where its table shows 0.3 points."""
    lost = (989 - 986) / 1000
    # To the one digit that is printed, 2 % reaches from 1.5 to 2.5 %.
    return 0.02, lost, abs(lost - 0.02) > 0.005, {}


def corollary_15() -> Outcome:
    """A25-C15's proof names ν = 1/(1+λ) for γ = 1; that is ν = λ/(1+λ)."""
    lam, n = 3.0, 10
    named = leak_of_uniform(2, n, nu=1 / (1 + lam), lam=lam)
    worst = leak_of_uniform(2, n, nu=lam / (1 + lam), lam=lam)
    return named, worst, worst > named + ROUNDING, {"gamma_at_the_nu_named": 1 / lam**2}


def any_procedure() -> Outcome:
    """A25-H.2 claims after L33: every learner's security tends to 1; not for continuous laws."""
    n, atoms = 1000, (10**6, 10**12, 10**18)
    securities = {f"security_with_{k:.0e}_atoms": 1 - leak_of_uniform(k, n) for k in atoms}
    # A fresh record of a continuous law is in the released set with probability 0.
    falling = all(a > b for a, b in pairwise(securities.values()))
    return 1, 0, falling and min(securities.values()) < ROUNDING, securities


# ── A25: means of records ─────────────────────────────────────────────────────────────────────────


def corollary_4_1_1() -> Outcome:
    """A23-C4.1.1 claims n ≥ √d/ε is enough; the Gaussian mean at n = 50 needs more."""
    n, d = 50, 1
    epsilon = math.sqrt(d) / n
    # The computed leak exceeds the true one by a smaller share than this.
    leak = leak_of_gaussian_mean(n, d) * (1 - ROUNDING)
    # For normal records the central-limit terms of A23-T4.1 vanish and P25 alone remains:
    # Δ ≤ m₁/(2√n) + √d/(2n) with m₁ = E|v| = √(2/π). Its quadratic gives a valid size.
    enough = math.ceil(float(required_sample_size(math.sqrt(2 / math.pi) / 2, d, epsilon)))
    numbers = {
        "n_from_the_quadratic": enough,
        "delta_upper_at_that_n": leak_of_gaussian_mean(enough, d),
    }
    return epsilon, leak, leak > epsilon, numbers


def proposition_b_1() -> Outcome:
    """A24-PB.1 is printed for every integer n; at n = 1 one of the laws is a point."""
    # √d/(2n) with d = n = 1; the event {0} has probability 1 under one law, 0 under the other.
    return 1 / 2, 1, 1 / 2 < 1, {}


def exact_sum_leak_lower(n: int, points: int, spread: Fraction) -> Fraction:
    """A lower bound on Δ at γ = 1 of the mean of n records from points in general position.

    A record is one of the ``points`` values, each as likely, or with probability ``spread`` a draw
    from a density. No two selections of n points have the same sum, so the attack that says "in"
    when the sum is one of n points and the record is among them is right on every member while no
    record came from the density, and wrong on a fresh record that happens to be among them:
    TPR − FPR = (1−w)^n·(1 − (1−w)(1 − (1−1/N)^n)), w the spread and N the number of points.
    """
    no_spread = (1 - spread) ** n
    return no_spread * (1 - (1 - spread) * (1 - (1 - Fraction(1, points)) ** n))


def needed_constant(n: int) -> float:
    """Least C(1) with which A24-T5.1 covers n² points in [0, 1] and a density of weight n^(−2).

    The law is within 1/2 of its mean and has the variance of the uniform law up to n^(−4), so
    m₁ ≤ 1 and m₃ ≤ (1/2)³·12^(3/2) up to the same; both are rounded up.
    """
    leak = float(exact_sum_leak_lower(n, n**2, Fraction(1, n**2)))
    first, third = 1.001, 5.21
    return (leak - 1 / (2 * n)) * math.sqrt(n) / (1 + third) - first / (2 * (1 + third))


def theorem_5_1() -> Outcome:
    """A24-T5.1 has a constant that depends on d alone; these laws need an ever larger one."""
    needed = {n: needed_constant(n) for n in (100, 400, 1600, 6400)}
    # Δ stays near 1, so each fourfold n needs twice the constant: there is no bound.
    numbers = {f"constant_needed_at_{n}": value for n, value in needed.items()}
    return (
        needed[100],
        needed[6400],
        all(b > 1.9 * a for a, b in pairwise(needed.values())),
        numbers,
    )


def remark_13() -> Outcome:
    """A25-R13's proof rests on a false Taylor identity; its final size survives for ε ≤ 1.

    With s = √d/c² the exact size is (c²/2ε²)(1 + εs + √(1 + 2εs)), at most (c²/ε²)(1 + s) for
    ε ≤ 1 because √(1 + 2x) ≤ 1 + x; the printed (c²/ε²)(1 + s)^{3/2} is above that.
    """
    u = 0.1  # ε√d/c² at c = 1, d = 1, ε = 1/10
    gap = 1 + u - math.sqrt(1 + 2 * u)

    def intermediate(term: float) -> float:
        """The ū with gap = ½·term·(1 + 2ū)^{−3/2}; the printed step needs 0 ≤ ū ≤ u."""
        return (math.pow(2 * gap / term, -2 / 3) - 1) / 2

    numbers = {"intermediate_point_with_the_square": intermediate(u**2)}
    return u, intermediate(1.0), intermediate(1.0) > u, numbers


def _rank(derivative: Callable[[FloatArray], FloatArray], points: FloatArray) -> int:
    """Return the largest rank of a derivative over some points."""
    return max(int(np.linalg.matrix_rank(derivative(point))) for point in points)


def example_3() -> Outcome:
    """A25-E3 applies T13 to (z, z², z³), which lies on a curve: no part has a density."""
    points = np.random.default_rng(3).normal(size=(100, 1))
    rank = _rank(lambda z: np.array([[1.0], [2 * z[0]], [3 * z[0] ** 2]]), points)
    # Sard: a smooth map into R^m with a derivative of smaller rank has an image of measure 0.
    return 3, rank, rank < 3, {}


def example_4() -> Outcome:
    """A25-E4 applies T13 to (xxᵀ, xy), six numbers that are functions of three."""

    def derivative(point: FloatArray) -> FloatArray:
        a, b, y = point
        return np.array([[2 * a, 0, 0], [b, a, 0], [b, a, 0], [0, 2 * b, 0], [y, 0, a], [0, y, b]])

    rank = _rank(derivative, np.random.default_rng(4).normal(size=(100, 3)))
    return 6, rank, rank < 6, {}


# ── A25: attacks and differential privacy ─────────────────────────────────────────────────────────


def section_2() -> Outcome:
    """A25 §2 equates the chance of a right answer with TNR + TPR; the weights ν, 1-ν lack."""
    tnr = tpr = Fraction(1)
    chance = float(accuracy_of_attack([1, 0], [0, 1], [1, 0]))
    return tnr + tpr, chance, chance < tnr + tpr, {}


def equation_15() -> Outcome:
    """A24-eq15 exchanges the densities of the two worlds; it shows at any ν other than ½."""
    nu, zero = Fraction(1, 4), Fraction(0)
    # Densities of (release, record shown) in the two worlds, at the four pairs of bits.
    out, inside = [Fraction(1, 4)] * 4, [HALF, zero, zero, HALF]
    pairs = list(zip(out, inside, strict=True))
    # From the definition: the best attack says "in" where that is the likelier world.
    best = sum((max(nu * o, (1 - nu) * i) for o, i in pairs), zero)

    def integral(of_out: Fraction, of_in: Fraction) -> Fraction:
        return HALF + HALF * sum((abs(of_out * o - of_in * i) for o, i in pairs), zero)

    printed = integral(1 - nu, nu)
    return printed, best, printed != best == integral(nu, 1 - nu), {}


def remark_4() -> Outcome:
    """A25-R4 claims that a data-dependent attack is always right; not when records coincide."""
    best = best_conditional_accuracy((HALF, HALF), (0, 1), HALF)
    return 1, best, best < 1, {}


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
    zero = Fraction(0)
    total = zero
    for column in zip(*channel, strict=True):
        out = sum((p * mass for p, mass in zip(law, column, strict=True)), zero)
        for p, mass in zip(law, column, strict=True):
            total += p * max(zero, weights[0] * out + weights[1] * mass)
    return total


def equation_53() -> Outcome:
    """A25-eq53 starts with in and out exchanged; for γ ≠ 1 that is another number."""
    gamma, truth = Fraction(2), Fraction(9, 10)
    law, channel = (HALF, HALF), ((truth, 1 - truth), (1 - truth, truth))
    by_definition = channel_leak(law, channel, (gamma, Fraction(-1))) / gamma
    printed = channel_leak(law, channel, (Fraction(-1), gamma)) / gamma
    return printed, by_definition, printed != by_definition, {"final_bound": 9 - 1 / gamma}


def private_supremum() -> Outcome:
    """A25-H.2 gives tanh(ε/2) as a supremum; no pure DP learner passes tanh(ε/4) (X11).

    Every release y of an ε-DP learner has likelihoods v_z (given z₁ = z) within a factor e^ε.
    Its share of Δ over its probability, Σ p_z(v_z − v̄)₊/v̄, is quasi-convex in v, hence largest
    with v in {1, e^ε}; if e^ε is taken with probability a it is (e^ε−1)a(1−a)/(1 + (e^ε−1)a).
    """
    e_epsilon, steps = 4, 3000
    printed, ceiling = Fraction(3, 5), Fraction(1, 3)  # tanh(ε/2), tanh(ε/4)
    shares = (Fraction(k, steps) for k in range(steps + 1))
    largest = max((e_epsilon - 1) * a * (1 - a) / (1 + (e_epsilon - 1) * a) for a in shares)
    channel = [[Fraction(4 if y == z else 1, 6) for y in range(3)] for z in range(3)]
    attained = channel_leak([Fraction(1, 3)] * 3, channel)
    numbers = {"largest_share_over_a_grid": largest, "leak_attained": attained}
    return printed, ceiling, largest <= ceiling < printed and attained == ceiling, numbers


def lemma_33() -> Outcome:
    """A25-L33 claims that no deterministic learner is DP; a constant one is, with ε = δ = 0."""
    constant = least_dp_delta(lambda _: "always the same", (0, 1), 3)
    return 1, constant, constant < 1, {"least_delta_of_the_sum": least_dp_delta(sum, (0, 1), 3)}


# ── A25: overfitting ──────────────────────────────────────────────────────────────────────────────


def capped_loss(y: float, prediction: float) -> float:
    """min(|y|, 1)/(1 + prediction²): continuous, and zero only at y = 0."""
    return min(abs(y), 1.0) / (1 + prediction**2)


def equation_13() -> Outcome:
    """A25-eq13 only requires a continuous loss; a prediction can then shrink it.

    With ω(y, u) = min(|y|, 1)/(1 + u²) the constant prediction u = √(1/η − 1) has loss at most η on
    every record there is. A learner that starts there has met its stopping rule before it saw the
    data, so its release reveals nothing: the laws of the two worlds are the same.
    """
    # The loss is largest at |y| ≥ 1.
    largest = {e: capped_loss(1.0, math.sqrt(1 / e - 1)) / e for e in (1e-2, 1e-4, 1e-6)}
    # Its stopping rule is met for certain (up to rounding), with a release that is constant.
    ceiling = float(ceiling_from_stopping(1e-6, 1 / math.sqrt(2 * math.pi)))
    numbers = {"ceiling_with_squared_loss_at_1e-06": ceiling}
    return 0, 1, max(largest.values()) <= 1 + ROUNDING, numbers


def remark_12() -> Outcome:
    """A25-R12 lacks the same condition: these learners overfit at every ε, with α = 0.01."""
    return 0.01, *equation_13()[1:]


def chance_to_reach(eta: float) -> float:
    """Chance that the best constant fits two standard normal labels with mean squared loss ≤ η.

    The least loss is (y₁ − y₂)²/4, half the square of a standard normal variable.
    """
    return math.erf(math.sqrt(eta))


def example_1() -> Outcome:
    """A25-E1 takes a class that approximates Ψ* for one that can fit the noise."""
    chance = chance_to_reach(1e-6)
    numbers = {"security_of_the_least_squares_fit_lower": 1 - leak_of_gaussian_mean(2, 1)}
    return 1, chance, chance < 1, numbers


def example_2() -> Outcome:
    """A25-E2 (A24-E4.3) lets x have any law; with x constant d > n does not interpolate."""
    leak = leak_of_gaussian_mean(2, 1)
    return 0, 1 - leak, leak < 1, {"chance_of_training_loss_below_1e-6": chance_to_reach(1e-6)}


def ridge_example() -> Outcome:
    """A24-E4.3 has training loss 0 "with any regularization"; a ridge penalty leaves a loss.

    With orthonormal x_i the penalised fit shrinks every label: the prediction is y/(1 + nλ), where
    the mean squared error has the penalty λ‖θ‖².
    """
    labels, penalty = (Fraction(1), Fraction(2)), HALF
    shrink = 1 / (1 + len(labels) * penalty)
    losses = [(y - shrink * y) ** 2 for y in labels]
    return 0, min(losses), min(losses) > 0, {"prediction_over_label": shrink}


def proposition_19() -> Outcome:
    """A25-P19's proof claims that no network is constant at a label; one without slope may be.

    One unit, Ψ(x) = v·max(0, wᵀx + b) with w = 0 and b = v = 1: it is 1 at every x.
    """
    points = np.random.default_rng(19).normal(size=(1000, 3))
    w, b, v, y = np.zeros(3), 1.0, 1.0, 1.0
    share = float(np.mean(v * np.maximum(points @ w + b, 0.0) == y))
    return 0, share, share > 0, {}
