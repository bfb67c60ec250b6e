"""Practical membership privacy, result by result (Lowy, Li, Liu, Koike-Akino, Parsons, Wang 2024).

The game: a population of N = 2n records is known to the attacker, a uniform half trains, and
*every* record has to be protected.  A mechanism is a function from a set of records 0, …, N-1 to a
law of outcomes, in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, fraction, nonnegative, positive, whole_number
from memberbound.games import SubsetGame
from memberbound.numerics.rounding import FloatArray, half_up, up
from memberbound.papers.izzo2024 import eta_of_mechanism, post_processed
from memberbound.papers.security import gaussian_dp_delta, least_dp_delta
from memberbound.papers.vectors import Numbers, each
from memberbound.subset import gaussian
from memberbound.subset.clipping import clipped
from memberbound.subset.crowd import Crowd, CrowdTable
from memberbound.subset.distances import BinnedDistances
from memberbound.subset.enumeration import exact_bounds, is_enumerable
from memberbound.subset.exponential import ExponentialMechanism, clip_sensitivity, l2_losses
from memberbound.subset.finite import Mechanism, finite_worlds
from memberbound.subset.profile import NeighbourProfile
from memberbound.subset.sampling import sampled_bounds

__all__ = [
    "PrivacyCurve",
    "draw_population",
    "eta_from_pmp",
    "eta_of_mechanism",
    "exponential_curve",
    "exponential_pmp",
    "exposed_record",
    "gaussian_curve",
    "gaussian_dp_delta",
    "gaussian_noise",
    "gaussian_pmp",
    "joint_release",
    "least_dp_delta",
    "missing_parity_bit",
    "pmp_delta",
    "pmp_ratio",
    "post_processed",
    "prior_of_repeated_record",
    "release_one_record",
    "success_from_pmp",
    "success_from_pmp_at_any_size",
    "sum_modulo",
]

# ── What PMP is ───────────────────────────────────────────────────────────────────────────────────


def pmp_ratio(mechanism: Mechanism, population: int, size: int | None = None) -> Fraction | None:
    """L24-D2, L24-L3, L24-P9: return e^ε̃, the largest of in/out and out/in over the records.

    ``None`` where an outcome betrays a record for certain.  L24-P9 prints one of the two ratios.

    Guarantee: exact, by listing all subsets.
    Theorem: L24-D2.
    Assumes: the laws are the mechanism's.

    Examples:
        >>> pmp_ratio(sum_modulo(3), 6)
        Fraction(2, 1)
    """
    worlds = finite_worlds(mechanism, _game(population, size))
    ratios = [worlds.ratio(record) for record in range(population)]
    return None if None in ratios else max(r for r in ratios if r is not None)


def pmp_delta(
    mechanism: Mechanism, population: int, e_epsilon: Fraction, size: int | None = None
) -> Fraction:
    """L24-D2, L24-L11, L24-C4: return the least δ of (ε, δ)-PMP, both hockey-sticks, exactly.

    L24-L3 and L24-C4 print 2δ where δ is meant.

    Guarantee: exact, by listing all subsets.
    Theorem: L24-D2, L24-L11.
    Assumes: the laws are the mechanism's.

    Examples:
        >>> pmp_delta(release_one_record(3, Fraction(1, 10)), 6, Fraction(100))
        Fraction(1, 10)
    """
    worlds = finite_worlds(mechanism, _game(population, size))
    return max(worlds.delta(record, Fraction(e_epsilon)) for record in range(population))


def _game(population: int, size: int | None) -> SubsetGame:
    return SubsetGame(population, population // 2 if size is None else size)


def success_from_pmp(epsilon: ArrayLike) -> Numbers:
    """L24-L6, L24-text: return 1/(1 + e^(-ε)), the success of any attack on ε-PMP.

    Guarantee: no attack on any record is right more often.
    Theorem: L24-L6.
    Assumes: ε-PMP at k = N/2.
    Numerics: rounded up.

    Examples:
        >>> success_from_pmp([0.123, 1.0, 10.0]).round(4).tolist()
        [0.5307, 0.7311, 1.0]
    """
    return each(lambda e: guarantee_from_epsilon_delta([(e, 0.0)]).curve.accuracy(), epsilon)


def success_from_pmp_at_any_size(epsilon: ArrayLike, size: int, population: int) -> Numbers:
    """L24-fn1: return max(k/N, 1 - k/N, 1/(1 + e^(-ε))), the success at any subset size.

    Guarantee: no attack on any record of an ε-DP mechanism is right more often.
    Theorem: L24-fn1; randomised response reaches it.
    Assumes: replace-one ε-DP, D a uniform k-subset.
    Numerics: rounded up.

    Examples:
        >>> success_from_pmp_at_any_size([0.1, 2.0], size=3, population=4).round(4).tolist()
        [0.75, 0.8808]
    """
    game = SubsetGame(population, size)
    blind = up(game.blind, 1)
    return each(lambda e: max(blind, float(success_from_pmp(e))), epsilon)


def eta_from_pmp(epsilon: ArrayLike) -> Numbers:
    """L24-L13: return (1 - e^(-ε))/2, the paper's η of ε-PMP; X6 has ½tanh(ε/2), which is less.

    Guarantee: every ε-PMP mechanism is η-MIP.
    Theorem: L24-L13.
    Assumes: k = N/2.
    Numerics: rounded up.

    Examples:
        >>> eta_from_pmp([0.1, 1.0]).round(6).tolist()
        [0.047581, 0.31606]
    """
    return each(lambda e: half_up(up(-math.expm1(-nonnegative("epsilon", e)), 8)), epsilon)


# ── Mechanisms that separate the notions ──────────────────────────────────────────────────────────


def sum_modulo(n: int) -> Mechanism:
    """L24-P5: return the release of the sum modulo 2n of the members, records 0 … 2n-1.

    At n = 3 it is ln 2-PMP, and for no n > 2 ε-DP for a finite ε: it is deterministic.

    Examples:
        >>> pmp_ratio(sum_modulo(6), 12)  # the paper's 40/37 is an upper bound
        Fraction(38, 37)
    """
    modulus = 2 * whole_number("n", n)
    return lambda train: {sum(train) % modulus: 1}


def release_one_record(n: int, eta: Fraction, *, smallest: bool = False) -> Mechanism:
    """L24-App1: return the release of one member with probability nη, nothing otherwise.

    Drawn uniformly it has η/2 and ε̃ = ∞; the smallest member instead has nη/2.

    Examples:
        >>> fair = release_one_record(3, Fraction(1, 10))
        >>> biased = release_one_record(3, Fraction(1, 10), smallest=True)
        >>> eta_of_mechanism(fair, 6), eta_of_mechanism(biased, 6), pmp_ratio(fair, 6)
        (Fraction(1, 20), Fraction(3, 20), None)
    """
    members, gain = whole_number("n", n), Fraction(eta)
    if not 0 <= members * gain <= 1:
        raise InputError(f"n·eta must be in [0, 1], got {members * gain}.")

    def mechanism(train: frozenset[int]) -> dict[Hashable, Fraction]:
        law: dict[Hashable, Fraction] = {None: 1 - members * gain}
        return law | ({min(train): members * gain} if smallest else dict.fromkeys(train, gain))

    return mechanism


def missing_parity_bit(others: Sequence[int]) -> int:
    """L24-App2: return the bit that even parity leaves to the record not shown.

    A simulator without that record rebuilds the data set from the others, so that releasing
    everything is "distributionally private" with ε = δ = 0.

    Examples:
        >>> missing_parity_bit([1, 0, 1, 1])
        1
    """
    if not set(others) <= {0, 1}:
        raise InputError(f"others must be bits, got {list(others)!r}.")
    return sum(others) % 2


def exposed_record(population: int) -> tuple[Fraction, Fraction]:
    """L24-App3: return the average and the worst advantage of the release of 1{x* ∈ D}.

    The average tends to 0 with the number of records, while x* is exposed for certain.

    Examples:
        >>> exposed_record(8)
        (Fraction(1, 4), Fraction(1, 1))
    """
    worlds = finite_worlds(lambda train: {0 in train: 1}, _game(population, None))
    gains = [2 * worlds.eta(record) for record in range(population)]
    return sum(gains, Fraction(0)) / population, max(gains)


def joint_release(first: Mechanism, second: Mechanism) -> Mechanism:
    """L24-Dis1: return the release of two independent outputs on one data set.

    PMP does not add up: two ln 2-PMP releases can be jointly PMP for no finite ε.

    Examples:
        >>> relabelled = lambda train: {
        ...     sum({0: 0, 1: 1, 2: 2, 3: 5, 4: 4, 5: 3}[x] for x in train) % 6: 1
        ... }
        >>> pmp_ratio(relabelled, 6), pmp_ratio(joint_release(sum_modulo(3), relabelled), 6)
        (Fraction(2, 1), None)
    """

    def both(train: frozenset[int]) -> dict[Hashable, Fraction]:
        one, two = first(train), second(train)
        return {(a, b): Fraction(p) * q for a, p in one.items() for b, q in two.items()}

    return both


def prior_of_repeated_record(copies: int, population: int, size: int) -> Fraction:
    """L24-fn2: return the chance that a record which occurs several times is drawn at least once.

    It is above k/N, so that the records of a population are distinct is an assumption.

    Examples:
        >>> prior_of_repeated_record(2, 4, 2)
        Fraction(5, 6)
    """
    game, times = SubsetGame(population, size), whole_number("copies", copies)
    none = math.comb(game.population - times, game.size)
    return 1 - Fraction(none, math.comb(game.population, game.size))


# ── The two mechanisms of the figures ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class PrivacyCurve:
    """The privacy parameters of a mechanism along its DP parameter.

    ``epsilon`` is DP over all data sets, ``epsilon_population`` over neighbours inside the
    population, ``pmp_epsilon`` ε̃ for a random half, ``sigma`` the noise where there is one.
    ``proved`` is the least bound on ε̃ known here, with the crowd (X21).
    """

    epsilon: FloatArray
    epsilon_population: FloatArray
    pmp_epsilon: FloatArray
    proved: FloatArray
    sigma: FloatArray | None = None


def draw_population(
    n: int,
    d: int,
    sigma: float = 1.0,
    *,
    clip: float = 10.0,
    centre: ArrayLike = 0.0,
    outliers: float = 1.0,
    seed: int | np.random.Generator = 0,
) -> FloatArray:
    """L24-F1, L24-F4: draw 2n records N(centre, σ²I), two of them scaled, clipped to a norm.

    Examples:
        >>> draw_population(6, 3, clip=2.0, outliers=100.0).shape
        (12, 3)
    """
    rng = np.random.default_rng(seed)
    records = 2 * whole_number("n", n, at_least=2)
    middle = np.broadcast_to(np.asarray(centre, dtype=np.float64), (whole_number("d", d),))
    rows = middle + nonnegative("sigma", sigma) * rng.standard_normal((records, d))
    rows[rng.choice(records, size=2, replace=False)] *= outliers
    return clipped(rows, clip).vectors


def exponential_pmp(
    mechanism: ExponentialMechanism, confidence: float = 0.95, seed: int = 0
) -> float:
    """L24-P9, L24-D7, L24-L8: return ε̃ of the exponential mechanism, from above.

    Exact while all subsets can be enumerated (2n ≤ 28), else from random subsets with confidence.

    Guarantee: the mechanism is ε̃-PMP for its population; beyond enumeration with ``confidence``.
    Theorem: L24-P9 with both signs of the logarithm; X10.
    Assumes: D is a uniform half.
    Numerics: rounded up.

    Examples:
        >>> losses = [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
        >>> round(exponential_pmp(ExponentialMechanism(losses, 2, 4.0, 1.0)), 6)
        0.620115
    """
    if is_enumerable(mechanism.game):
        return exact_bounds(mechanism).pmp_epsilon_upper
    return sampled_bounds(mechanism, confidence=confidence, seed=seed).pmp_epsilon_upper


def exponential_curve(
    records: ArrayLike,
    candidates: ArrayLike,
    epsilons: ArrayLike,
    *,
    clip: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> PrivacyCurve:
    """L24-F1, L24-P9: return ε̃ and ε(X) of the exponential mechanism along ε, at any n, d and σ.

    The loss of a candidate is the mean distance to the records (geometric median); ``clip`` is the
    public radius of the records (default: the largest norm among them).

    Guarantee: at every ε the mechanism is ε̃-PMP for these records.
    Theorem: L24-D7, L24-L8, L24-P9, X10.
    Assumes: D is a uniform half of the records.
    Numerics: rounded up; beyond 28 records each ε̃ holds with ``confidence`` by itself.

    Examples:
        >>> rows = draw_population(5, 2, sigma=1.0)
        >>> curve = exponential_curve(rows, [[1.0, 0.0], [-1.0, 0.0]], [1.0, 10.0], clip=10.0)
        >>> bool((curve.pmp_epsilon < curve.epsilon_population).all())
        True
    """
    rows, targets = np.asarray(records, dtype=np.float64), np.asarray(candidates, dtype=np.float64)
    size = _half(rows)
    reach = _radius(rows, clip)
    losses, wide = l2_losses(rows, targets), clip_sensitivity(targets, reach, size)
    axis = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    made = [ExponentialMechanism(losses, size, float(e), wide) for e in axis]
    pmp = np.array([exponential_pmp(one, confidence, seed) for one in made])
    return PrivacyCurve(axis, np.array([one.epsilon_population for one in made]), pmp, pmp)


def gaussian_noise(epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike) -> Numbers:
    """L24-L10: return the least σ for which N(0, σ²I) noise is (ε, δ)-DP, from above.

    Guarantee: noise of this σ is (ε, δ)-DP.
    Theorem: L24-L10 (analytic Gaussian mechanism).
    Assumes: ``sensitivity`` is the replace-one L2-sensitivity.
    Numerics: rounded up; evaluated again.

    Examples:
        >>> gaussian_noise([0.5, 1.0], 1e-5, 1.0).round(4).tolist()
        [7.0318, 3.7306]
    """
    return each(gaussian.noise_from_dp, epsilon, delta, sensitivity)


def gaussian_pmp(records: ArrayLike, sigma: float, delta: float) -> FloatArray:
    """L24-P12: return ε̃ of every record for the mean of a random half plus N(0, σ²I) noise.

    Guarantee: the release is (ε̃, δ)-PMP for the record.
    Theorem: L24-P12 (coupling), in its O(N²) form for sums.
    Assumes: D is a uniform half of the records.
    Numerics: rounded up.

    Examples:
        >>> gaussian_pmp([[0.0], [1.0], [2.0], [9.0]], sigma=2.0, delta=0.01).round(2).tolist()
        [6.05, 5.07, 4.16, 6.34]
    """
    rows = np.asarray(records, dtype=np.float64)
    noise = gaussian.noise_on_sum(sigma, _half(rows))
    return NeighbourProfile.from_vectors(rows).pmp_epsilon(delta, noise)


def gaussian_curve(
    records: ArrayLike, epsilons: ArrayLike, *, delta: float = 0.01, clip: float | None = None
) -> PrivacyCurve:
    """L24-F4, L24-P12: return ε̃ and ε(X) of a noisy mean along ε, at any n, d and σ.

    The noise is calibrated to (ε, δ)-DP over the ball of radius ``clip`` (default: the largest norm
    among the records); σ is that of the mean.

    Guarantee: at every ε the release is (ε̃, δ)-PMP for these records.
    Theorem: L24-L10, L24-P12; X21 for ``proved``.
    Assumes: D is a uniform half of the records.
    Numerics: rounded up; distances are binned upwards.

    Examples:
        >>> curve = gaussian_curve(draw_population(20, 2, clip=20.0), [5.0], clip=20.0)
        >>> bool((curve.proved <= curve.pmp_epsilon).all())
        True
    """
    rows = np.asarray(records, dtype=np.float64)
    size = _half(rows)
    reach = _radius(rows, clip)
    dlt = fraction("delta", delta, open_left=True, open_right=True)
    profile = NeighbourProfile(BinnedDistances.of(rows))
    table = CrowdTable.of(rows, SubsetGame(2 * size, size))
    axis = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    found = []
    for epsilon in axis.tolist():
        noise = gaussian.noise_from_dp(epsilon, dlt, up(2 * positive("clip", reach)))
        coupled = profile.pmp_epsilon(dlt, noise)
        crowd = Crowd(table, noise).pmp_epsilon(dlt)
        found.append(
            (
                gaussian.dp_from_noise(noise, dlt, profile.diameter),
                float(coupled.max()),
                float(np.minimum(coupled, crowd).max()),
                gaussian.noise_on_query(noise, size),
            )
        )
    population, pmp, proved, sigma = (np.array(column) for column in zip(*found, strict=True))
    return PrivacyCurve(axis, population, pmp, proved, sigma)


def _radius(rows: FloatArray, clip: float | None) -> float:
    """Return the public radius of the records; refuse one that a record exceeds."""
    largest = float(np.linalg.norm(rows, axis=1).max()) * (1 + 1e-12)
    if clip is not None and positive("clip", clip) * (1 + 1e-9) < largest:
        raise InputError(f"clip must be at least the largest norm {largest:.6g}, got {clip!r}.")
    return largest if clip is None else max(clip, min(largest, clip * (1 + 1e-9)))


def _half(rows: FloatArray) -> int:
    if rows.ndim != 2 or len(rows) < 4 or len(rows) % 2:
        raise InputError(
            f"records must be an even number of at least four rows, got shape {rows.shape}."
        )
    return len(rows) // 2
