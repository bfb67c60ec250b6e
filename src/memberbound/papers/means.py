"""Learners that are functions of a mean (A25 §5.1 and App. G)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from memberbound.certificate import Certificate
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import IidGame, SubsetGame, gamma_from_priors
from memberbound.iid import gaussian_mean
from memberbound.iid.certificates import leak_certificate
from memberbound.numerics.means import betting_upper, log_error_shared
from memberbound.numerics.rounding import down, up
from memberbound.papers.vectors import Numbers, each
from memberbound.subset.distances import checked_table
from memberbound.subset.gaussian import NoisySum, noise_on_sum


def leak_of_gaussian_mean(
    n: ArrayLike, d: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """X8: return the leak of the mean of n normal records in R^d, exactly.

    Guarantee: the largest advantage of any attack (i.i.d. game, the *average* record), for every
    mean and invertible covariance.
    Theorem: X8; A25-T13 with its constant known.
    Assumes: normal records.
    Numerics: rounded up, by less than 1e-9 of the value.

    Examples:
        >>> leak_of_gaussian_mean([10, 100, 1000], d=1).round(4).tolist()
        [0.1071, 0.0321, 0.0101]
    """
    return each(gaussian_mean.leak_of_gaussian_mean, n, d, nu, lam)


def leak_of_gaussian_mean_bound(n: ArrayLike, d: ArrayLike) -> Numbers:
    """A25-P25, A25-T13: return the paper's bound on the leak of the mean of n normal records.

    √d/(2n) + E‖V‖/(2√n), V ~ N(0, I_d): T13 with its constant, which is known for normal records.

    Guarantee: never below :func:`leak_of_gaussian_mean`.
    Theorem: A25-P25.
    Assumes: normal records.
    Numerics: rounded up.

    Examples:
        >>> leak_of_gaussian_mean_bound([10, 100, 1000], d=1).round(4).tolist()
        [0.1762, 0.0449, 0.0131]
    """
    return each(gaussian_mean.leak_of_gaussian_mean_bound, n, d)


def gaussian_distance(n: ArrayLike, shift: ArrayLike, d: ArrayLike) -> Numbers:
    """A25-P25, A24-PB.1: return √d/(2n) + ‖β‖/(2√n), from above and at most 1.

    Guarantee: at least the total variation of N(0, I_d) and N(β/√n, (1-1/n)I_d), ``shift`` = ‖β‖.
    Theorem: A25-P25, for n ≥ 2 (it is printed for every n).
    Assumes: nothing else.
    Numerics: rounded up.
    Edge cases: n = 1, where the second law is a point, gives 1.

    Examples:
        >>> round(gaussian_distance(100, 1.0, d=4), 12)
        0.06
    """

    def bound(size: int, length: float, dimension: int) -> float:
        records, far = whole_number("n", size), nonnegative("shift", length)
        if records == 1:
            return 1.0
        root = math.sqrt(whole_number("d", dimension))
        return min(1.0, up(root / (2 * records) + far / (2 * math.sqrt(records)), 8))

    return each(bound, n, shift, d)


def security_of_mean(
    n: ArrayLike, c: ArrayLike, d: int, nu: float = 0.5, lam: float = 1.0
) -> Numbers:
    """A25-T13: return 1 - max(1, γ)·(c + √d/(2√n))/√n, the security for a constant c.

    The paper gives no c.  For normal records c = E‖V‖/2; otherwise noise on the mean gives a number
    from rows: :func:`leak_of_means`.

    Guarantee: the security is at least this if ``c`` is at least the law's constant.
    Theorem: A25-T13.
    Assumes: the law of L(z) has an absolutely continuous part and a third moment.
    Numerics: rounded down; at least 0.

    Examples:
        >>> security_of_mean([100, 10_000], c=0.4, d=1).round(5).tolist()
        [0.955, 0.99595]
    """
    gamma, root = max(1.0, gamma_from_priors(nu, lam)), math.sqrt(whole_number("d", d))

    def bound(size: int, constant: float) -> float:
        records = math.sqrt(whole_number("n", size))
        leak = up(gamma * (nonnegative("c", constant) + root / (2 * records)) / records, 16)
        return max(0.0, down(1.0 - leak, 2))

    return each(bound, n, c)


def required_sample_size(c: ArrayLike, d: ArrayLike, epsilon: ArrayLike) -> Numbers:
    """A25-R13, A24-R5.1: return the least real n with c·n^(-1/2) + √d/(2n) ≤ ε.

    The exact root ((c + √(c² + 2ε√d))/(2ε))².  The printed size is larger than needed.

    Numerics: to nearest.

    Examples:
        >>> required_sample_size(0.4, 1, [0.1, 0.01]).round(1).tolist()
        [25.0, 1698.5]
    """

    def root(constant: float, dimension: int, target: float) -> float:
        first, limit = nonnegative("c", constant), positive("epsilon", target)
        # The rationalised root avoids the cancellation of -c + √(c² + …).
        inner = math.sqrt(first**2 + 2 * limit * math.sqrt(whole_number("d", dimension)))
        return float(((first + inner) / (2 * limit)) ** 2)

    return each(root, c, d, epsilon)


def leak_of_means(
    rows: ArrayLike, n: int, sigma: float, confidence: float = 0.95, seed: int = 0
) -> Certificate:
    """A25-T13, A25-E3, A25-E4, X21: certify the leak of functions of a noisy mean, from rows.

    ``rows`` are L(z) of independent records, one per row; the release is any function of the mean
    over n records plus N(0, σ²I).  T13's constant has no stated value; this has one, for any law.

    Guarantee: with probability at least ``confidence`` over the rows, Δ_n is at most the value at
    every ν and λ (i.i.d. game, the *average* record).
    Theorem: X21, step 10 of proofs/crowd.md, with X1: two worlds of a table of 2n rows; the mean
    over disjoint tables by a betting bound.
    Assumes: independent rows; ``n`` and ``sigma`` were fixed without looking at them.
    Numerics: rounded up.
    Edge cases: rows beyond the last whole table of 2n are not used; R tables cannot certify less
    than about ln(1/β)/R.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
        >>> bound = leak_of_means(rows, n=25, sigma=0.3)
        >>> 0.05 < bound.value < 0.3, bound.confidence
        (True, 0.95)
    """
    table = checked_table("rows", rows)
    size = whole_number("n", n)
    noise = noise_on_sum(positive("sigma", sigma), size)
    tables = len(table) // (2 * size)
    if tables < 1:
        raise InputError(f"rows must be at least 2n = {2 * size}, got {len(table)}.")
    game = SubsetGame(2 * size, size, "average")
    order = np.random.default_rng(whole_number("seed", seed, at_least=0)).permutation(len(table))
    leaks = []
    for start in range(0, tables * 2 * size, 2 * size):
        noisy = replace(NoisySum.of(table[order[start : start + 2 * size]], game), line=None)
        # Accuracy ½ + ½·TV at even odds; the subtraction is exact.
        leaks.append(min(1.0, up(2 * (noisy.worst_success(noise) - 0.5), 2)))
    level = fraction("confidence", confidence, open_left=True, open_right=True)
    value = float(betting_upper(np.array(leaks), log_error_shared(level, 1))[0])
    assumptions = (
        "The rows are independent draws from one distribution.",
        "The number of records and the noise were fixed without looking at the rows.",
    )
    return leak_certificate(value, IidGame(), ("X21", "X1", "X13"), assumptions, level)
