"""Security of a learner, its leak, and bounds through other notions (A25 §2, §3 and App. H).

The game: a record that is fresh with probability ν, else a uniform member of the training set;
a member found counts λ.  ``inside`` and ``outside`` are the laws of (release, record) with a member
and with a fresh record, listed over the same outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from memberbound.curve import PolygonCurve, mixture
from memberbound.curve.base import price_exponent
from memberbound.dp import guarantee_from_epsilon_delta
from memberbound.errors import InputError, fraction, nonnegative, positive
from memberbound.games import IidGame, gamma_from_priors
from memberbound.iid.leak_bounds import weighted_accuracy_from_leak
from memberbound.numerics.normal import gaussian_hockey_stick_of_shifts_upper
from memberbound.numerics.rounding import double_below, down, up
from memberbound.papers.vectors import Numbers, each
from memberbound.subset.finite import largest_stick

Masses = Sequence[float | Fraction]


def accuracy_of_attack(
    inside: ArrayLike, outside: ArrayLike, says_in: ArrayLike, nu: float = 0.5, lam: float = 1.0
) -> Numbers:
    """A25-D1, A25-D2: return the accuracy of an attack, ν·TNR + λ(1-ν)·TPR.

    ``says_in`` holds, for every outcome, the probability of answering "in"; further leading axes
    are further attacks.

    Numerics: to nearest.

    Examples:
        >>> accuracy_of_attack([0.75, 0.25], [0.5, 0.5], [1, 0])
        0.625
    """
    gamma_from_priors(nu, lam)
    attack = np.asarray(says_in, dtype=np.float64)
    if not np.all((attack >= 0) & (attack <= 1)):
        raise InputError("says_in must be probabilities in [0, 1], got one that is not.")
    member, fresh = (np.asarray(law, dtype=np.float64) for law in (inside, outside))
    value = nu * ((1 - attack) @ fresh) + lam * (1 - nu) * (attack @ member)
    return float(value) if value.ndim == 0 else np.asarray(value)


def leak_of_pair(inside: Masses, outside: Masses, nu: float = 0.5, lam: float = 1.0) -> float:
    """A25-eq5, A25-P5: return the leak Δ of two laws of (release, record), from above.

    Guarantee: no attack has an accuracy above max(ν, λ(1-ν)) + min(ν, λ(1-ν))·Δ.
    Theorem: A25-P5, A25-T6.
    Assumes: the masses are those of the two worlds.
    Numerics: rounded up; fractions are exact before that.

    Examples:
        >>> round(leak_of_pair([0.75, 0.25], [0.5, 0.5]), 12)
        0.25
    """
    return PolygonCurve.from_masses(inside, outside).leak(nu, lam)


def security_of_pair(inside: Masses, outside: Masses, nu: float = 0.5, lam: float = 1.0) -> float:
    """A25-D3, A25-T6: return the security (MIS) of two laws of (release, record), from below.

    Guarantee: the security is at least this; it is 1 - Δ (A25-T6).
    Theorem: A25-D3, A25-T6.
    Assumes: the masses are those of the two worlds.
    Numerics: rounded down.

    Examples:
        >>> round(security_of_pair([0.75, 0.25], [0.5, 0.5]), 12)
        0.75
    """
    return PolygonCurve.from_masses(inside, outside).security(nu, lam)


def best_accuracy_of_pair(inside: Masses, outside: Masses, nu: float = 0.5) -> float:
    """A24-eq15, A24-T3.3: return the best accuracy ½ + ½∫|(1-ν)p_in - νp_out|, from above.

    The paper prints the two densities exchanged, which is the same number at ν = ½ only.

    Guarantee: no attack is right more often (λ = 1).
    Theorem: A24-eq15, corrected.
    Assumes: the masses are those of the two worlds.
    Numerics: rounded up.

    Examples:
        >>> round(best_accuracy_of_pair([0.5, 0, 0, 0.5], [0.25] * 4, nu=0.25), 12)
        0.875
    """
    return PolygonCurve.from_masses(inside, outside).accuracy(1 - nu)


def best_accuracy(leak: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0) -> Numbers:
    """A25-T6: return the best accuracy max(ν, λ(1-ν)) + min(ν, λ(1-ν))·Δ, from above.

    Guarantee: no attack exceeds it at a leak of at most ``leak``.
    Theorem: A25-T6.
    Assumes: ``leak`` is Δ at this ν and λ, or at γ = 1, where it is largest (X13).
    Numerics: the smallest double at or above the exact value.

    Examples:
        >>> best_accuracy(0.25), best_accuracy(0.5, lam=4.0)
        (0.625, 2.25)
    """
    return each(
        lambda d, v, w: weighted_accuracy_from_leak(fraction("leak", d), IidGame(v, w)),
        leak,
        nu,
        lam,
    )


def divergence(p: Masses, q: Masses, alpha: float) -> float:
    """A25-eq4, A25-P5: return the normalised divergence D_α(P, Q) in [0, 1], from above.

    Δ is D_γ of the world with a fresh record against the world with a member.

    Guarantee: never below the true value.
    Theorem: A25-eq4, A25-P5, A25-eq26.
    Assumes: ``p`` and ``q`` list the same outcomes.
    Numerics: rounded up.

    Examples:
        >>> round(divergence([0.5, 0.5], [0.75, 0.25], alpha=2.0), 12)
        0.0
        >>> round(divergence([0.5, 0.5], [0.75, 0.25], alpha=1.25), 12)
        0.125
    """
    price = positive("alpha", alpha)
    return PolygonCurve.from_masses(q, p).leak(0.5, 1 / price)


def scaled_divergence(p: Masses, q: Masses, alpha: float) -> float:
    """A25-eq3: return the scaled hockey-stick D̃_α(P, Q) = (1/α)·sup_B[αP(B) - Q(B)], from above.

    Guarantee: never below the true value.
    Theorem: A25-eq3, through D_α = max(1, α)·[D̃_α - (1 - 1/α)₊].
    Assumes: ``p`` and ``q`` list the same outcomes.
    Numerics: rounded up.

    Examples:
        >>> round(scaled_divergence([0.5, 0.5], [0.75, 0.25], alpha=2.0), 12)
        0.5
    """
    price = positive("alpha", alpha)
    return up(divergence(p, q, price) / max(1.0, price) + max(0.0, 1 - 1 / price), 8)


def leak_over_records(
    law: Sequence[float], channel: Sequence[Masses], nu: float = 0.5, lam: float = 1.0
) -> float:
    """A25-eq7, A24-eq16: return Δ as the mean over records of the leak given the record.

    ``law[z]`` is the probability of record z, ``channel[z]`` the law of the release given that z is
    a member.

    Guarantee: never below the leak of the release.
    Theorem: A25-eq7.
    Assumes: the law of the release with a fresh record is the mean of the channel, as it is for
    independent records.
    Numerics: rounded up.

    Examples:
        >>> round(leak_over_records([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]]), 12)
        0.4
    """
    rows = [[Fraction(mass) for mass in row] for row in channel]
    weights = [Fraction(p) for p in law]
    columns = zip(*rows, strict=True)
    out = [sum((p * m for p, m in zip(weights, c, strict=True)), Fraction(0)) for c in columns]
    curves = [PolygonCurve.from_masses(row, out) for row in rows]
    return mixture(curves, law).leak(nu, lam)


def leak_from_total_variation(
    total_variation: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """A25-R7: return max(1, γ)·TV, the paper's bound on the leak, from above and at most 1.

    The factor is not needed: Δ ≤ TV at every ν and λ (X13).

    Guarantee: never below the leak of a learner with this total variation.
    Theorem: A25-R7.
    Assumes: ``total_variation`` is not below that of the two worlds.
    Numerics: rounded up.

    Examples:
        >>> round(leak_from_total_variation(0.1, nu=0.75), 12)
        0.3
    """

    def bound(tv: float, v: float, w: float) -> float:
        gamma = max(1.0, gamma_from_priors(v, w))
        return min(1.0, up(gamma * fraction("total_variation", tv), 8))

    return each(bound, total_variation, nu, lam)


def security_from_information(
    information: ArrayLike, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """A25-eq8: return 1 - max(1, γ)·√(I/2), the security that mutual information leaves.

    ``information`` is I(release; record of the training set) in nats.

    Guarantee: the security is at least this.
    Theorem: A25-eq8 (Pinsker).
    Assumes: ``information`` is not below the true one.
    Numerics: rounded down; 0 where the bound is vacuous.

    Examples:
        >>> round(security_from_information(0.02), 12)
        0.9
    """

    def bound(nats: float, v: float, w: float) -> float:
        gamma = max(1.0, gamma_from_priors(v, w))
        leak = up(gamma * math.sqrt(nonnegative("information", nats) / 2), 8)
        return max(0.0, down(1.0 - leak)) if leak else 1.0

    return each(bound, information, nu, lam)


def security_from_dp(
    epsilon: ArrayLike, delta: ArrayLike = 0.0, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """A25-eq9, A25-R8: return the paper's lower bound on the security of an (ε, δ)-DP learner.

    1 - max(1, γ)·[(e^ε - 1/γ)₊ - (1 - 1/γ)₊ + δ]; ``leak_from_dp`` is the exact supremum.

    Guarantee: the security of every replace-one (ε, δ)-DP learner is at least this.
    Theorem: A25-eq9.
    Assumes: replace-one adjacency.
    Numerics: rounded down; 0 where the bound is vacuous.

    Examples:
        >>> round(security_from_dp(0.1), 6)
        0.894829
    """

    def bound(eps: float, dlt: float, v: float, w: float) -> float:
        gamma = Fraction(v) / (Fraction(w) * (1 - Fraction(v)))
        price_exponent(v, w)  # refuses invalid ν and λ
        if nonnegative("epsilon", eps) > 50:
            return 0.0
        grown = Fraction(up(math.exp(eps), 4)) if eps else Fraction(1)
        bracket = max(Fraction(0), grown - 1 / gamma) - max(Fraction(0), 1 - 1 / gamma)
        leak = max(Fraction(1), gamma) * (bracket + Fraction(fraction("delta", dlt)))
        return max(0.0, double_below(1 - leak))

    return each(bound, epsilon, delta, nu, lam)


def leak_from_dp(
    epsilon: ArrayLike, delta: ArrayLike = 0.0, nu: ArrayLike = 0.5, lam: ArrayLike = 1.0
) -> Numbers:
    """X2, A25-H.2: return the largest leak that (ε, δ)-DP allows at any ν and λ, from above.

    At γ = 1 it is δ + (1-δ)·tanh(ε/2).  It is attained in the neighbour game; for δ = 0 the
    i.i.d. game allows less (X11, ``beyond.leak_from_pure_dp``).

    Guarantee: no replace-one (ε, δ)-DP learner leaks more.
    Theorem: X2.
    Assumes: replace-one adjacency.
    Numerics: rounded up.

    Examples:
        >>> round(leak_from_dp(1.0), 6)
        0.462117
    """

    def bound(eps: float, dlt: float, v: float, w: float) -> float:
        return guarantee_from_epsilon_delta([(eps, dlt)]).curve.leak(v, w)

    return each(bound, epsilon, delta, nu, lam)


def best_conditional_accuracy(
    law: Sequence[Fraction], data: Sequence[int], nu: Fraction = Fraction(1, 2)
) -> Fraction:
    """A25-R4: return the best accuracy of an attack that may depend on the training set (λ = 1).

    It is shown a fresh record with probability ν and a uniform member otherwise, and calls a record
    a member where that is the likelier case.  ``law[z]`` is the probability of record z, ``data``
    lists the training records.

    Examples:
        >>> best_conditional_accuracy([Fraction(1, 2)] * 2, (0, 1))
        Fraction(1, 2)
    """
    shares = (Fraction(list(data).count(z), len(data)) for z in range(len(law)))
    terms = (max(nu * p, (1 - nu) * share) for p, share in zip(law, shares, strict=True))
    return sum(terms, Fraction(0))


def least_dp_delta(
    mechanism: Callable[..., object],
    values: Iterable[Hashable],
    n: int,
    e_epsilon: Fraction = Fraction(1),
) -> Fraction:
    """A25-D32, A25-L33: return the least δ of (ε, δ)-DP over all data sets of n records, exactly.

    ``mechanism`` maps a tuple of records to a law of outcomes, or, if it is deterministic, to its
    outcome.  Replace-one adjacency; ``e_epsilon`` is e^ε.

    Examples:
        >>> least_dp_delta(sum, (0, 1), 3), least_dp_delta(lambda data: "always", (0, 1), 3)
        (Fraction(1, 1), Fraction(0, 1))
    """
    listed = tuple(values)

    def law(data: tuple[Hashable, ...]) -> Mapping[Hashable, Fraction | int]:
        released = mechanism(data)
        return released if isinstance(released, Mapping) else {released: 1}

    worst = Fraction(0)
    for data in product(listed, repeat=n):
        first = law(data)
        for i, other in product(range(n), listed):
            second = law((*data[:i], other, *data[i + 1 :]))
            pairs = [
                (Fraction(first.get(a, 0)), Fraction(second.get(a, 0))) for a in {*first, *second}
            ]
            worst = max(worst, largest_stick(pairs, Fraction(e_epsilon)))
    return worst


def gaussian_dp_delta(distance: ArrayLike, sigma: ArrayLike, epsilon: ArrayLike) -> Numbers:
    """A25-L34, L24-L10: return the δ(ε) of N(0, σ²I) noise on values this far apart, from above.

    It tends to 1 with the distance: a statistic that one record can move arbitrarily far has no
    finite ε and δ < 1 under noise of a fixed scale.

    Guarantee: the mechanism is (ε, δ)-DP with this δ, and with no smaller one.
    Theorem: L24-L10.
    Assumes: ``distance`` is the L2-sensitivity, replace-one.
    Numerics: rounded up.

    Examples:
        >>> gaussian_dp_delta([1.0, 10.0, 100.0], sigma=1.0, epsilon=1.0).round(4).tolist()
        [0.1269, 1.0, 1.0]
    """

    def bound(far: float, scale: float, eps: float) -> float:
        shift = up(nonnegative("distance", far) / positive("sigma", scale), 4)
        ends = gaussian_hockey_stick_of_shifts_upper(
            np.array([shift]), np.array([nonnegative("epsilon", eps)])
        )
        return float(ends.ravel()[0])

    return each(bound, distance, sigma, epsilon)
