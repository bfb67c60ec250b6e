"""Closed forms between the notions, one function per theorem.

Each returns a bound rounded to the safe side.  The general route is the curve; these are the
formulas people quote, and the tests hold the two against each other.
"""

from __future__ import annotations

import math

from memberbound.errors import fraction, nonnegative
from memberbound.games import gamma_from_priors
from memberbound.numerics.rounding import down, up

__all__ = [
    "accuracy_from_dp",
    "advantage_from_dp",
    "epsilon_from_advantage",
    "eta_from_dp",
    "eta_from_pmp",
    "eta_from_pmp_printed",
    "leak_from_dp",
    "leak_from_dp_printed",
    "leak_from_information",
    "leak_from_pure_dp",
    "leak_from_total_variation",
    "posterior_odds_from_dp",
    "precision_from_dp",
    "success_from_pmp",
    "tpr_from_dp",
    "tpr_from_eta",
]


def advantage_from_dp(epsilon: float, delta: float = 0.0) -> float:
    """Return the largest TPR - FPR under replace-one (ε, δ)-DP: δ + (1-δ)·tanh(ε/2).

    Theorem: I24-T4, attained; X2 at γ = 1.

    Example:
    >>> round(advantage_from_dp(8.0, 1e-5), 6)
    0.999329
    """
    eps, dlt = nonnegative("epsilon", epsilon), fraction("delta", delta)
    return min(1.0, up(dlt + (1 - dlt) * math.tanh(eps / 2), 8))


def accuracy_from_dp(epsilon: float, delta: float = 0.0) -> float:
    """Return the best accuracy at even odds: δ + (1-δ)/(1+e^{-ε}) (I24-T4, attained)."""
    return min(1.0, up(0.5 + advantage_from_dp(epsilon, delta) / 2))


def eta_from_dp(epsilon: float, delta: float = 0.0) -> float:
    """Return the η of MIP that (ε, δ)-DP implies: half the advantage, attained.

    Theorem: I24-T4; its δ + (1-δ)/(1+e^{-ε}) - ½ is the same number, but cancels for small ε.
    """
    return min(0.5, advantage_from_dp(epsilon, delta) / 2)


def tpr_from_dp(fpr: float, epsilon: float, delta: float = 0.0) -> float:
    """Return the best TPR at one FPR under (ε, δ)-DP (Kairouz, Oh and Viswanath 2015)."""
    alpha = fraction("fpr", fpr)
    eps, dlt = nonnegative("epsilon", epsilon), fraction("delta", delta)
    # e^ε·α without overflow: beyond 1 it does not matter how far.
    steep = dlt + (math.exp(min(eps + math.log(alpha), 1.0)) if alpha > 0 else 0.0)
    flat = 1 - math.exp(-eps) * max(0.0, 1 - alpha - dlt)
    return min(1.0, up(min(steep, flat), int(16 + 4 * eps)))


def leak_from_dp(epsilon: float, delta: float = 0.0, nu: float = 0.5, lam: float = 1.0) -> float:
    """Return the largest Δ_{ν,λ} of a pair of (ε, δ)-indistinguishable laws (X2).

    Guarantee: MIS ≥ 1 - result for every replace-one (ε, δ)-DP learner, every law and n.
    Theorem: X2, in the form it takes after A25-P5: with g = max(γ, 1/γ) it is the hockey-stick
    max{δ, 1 - g(1-δ), δ + (1-δ)(e^ε - g)/(1 + e^ε)} of the extremal pair.
    """
    eps, dlt = nonnegative("epsilon", epsilon), fraction("delta", delta)
    gamma = gamma_from_priors(nu, lam)
    # Lowering g can only raise the bound: that absorbs the rounding of γ.
    g = max(1.0, max(gamma, 1 / gamma) * (1 - 1e-15))
    fall = math.exp(-eps)
    middle = dlt + (1 - dlt) * (1 - g * fall) / (1 + fall)
    return min(1.0, max(0.0, up(max(dlt, 1 - g * (1 - dlt), middle), 16)))


def leak_from_dp_printed(
    epsilon: float, delta: float = 0.0, nu: float = 0.5, lam: float = 1.0
) -> float:
    """Return A25-R8's printed bound on Δ (its eq 9), for comparison; never below X2.

    max(1, γ)·[(e^ε - 1/γ)₊ - (1 - 1/γ)₊ + δ], cut at 1.
    """
    eps, dlt = nonnegative("epsilon", epsilon), fraction("delta", delta)
    gamma = gamma_from_priors(nu, lam)
    if eps > 40:
        return 1.0
    # For γ ≥ 1 the two brackets telescope to e^ε - 1, which keeps small values exact.
    bracket = math.expm1(eps) if gamma >= 1 else max(0.0, math.exp(eps) - 1 / gamma)
    return min(1.0, up(max(1.0, gamma) * (bracket + dlt), 16))


def leak_from_pure_dp(epsilon: float, nu: float = 0.5, lam: float = 1.0) -> float:
    """Return the largest Δ_{ν,λ} of a pure ε-DP learner in the i.i.d. game (X11).

    Guarantee: MIS ≥ 1 - result for every replace-one (ε, 0)-DP learner, every law and n.
    Theorem: X11, ``proofs/pure-dp-iid.md``: with g = max(γ, 1/γ) the leak is at most
    (e^{ε/2} - √g)²/(e^ε - 1), which is tanh(ε/4) at γ = 1, and 0 once g ≥ e^ε.  Half of X2 for
    small ε, because the out-world averages over the very records the in-world may hold.

    Example:
    >>> round(leak_from_pure_dp(1.0), 6), round(leak_from_dp(1.0), 6)
    (0.244919, 0.462117)
    """
    eps = nonnegative("epsilon", epsilon)
    gamma = gamma_from_priors(nu, lam)
    g = max(1.0, max(gamma, 1 / gamma) * (1 - 1e-15))
    if eps <= math.log(g):
        return 0.0
    if g == 1.0:
        return min(1.0, up(math.tanh(eps / 4), 8))
    # Divided by e^ε throughout: (1 - √g·e^{-ε/2})²/(1 - e^{-ε}).
    root = -math.expm1(0.5 * (math.log(g) - eps))
    return min(1.0, up(root * root / -math.expm1(-eps), 64))


def leak_from_total_variation(total_variation: float) -> float:
    """Return a bound on Δ_{ν,λ} at every (ν, λ): the total variation itself.

    Theorem: A25-R7 without its factor max(1, γ): Δ is a hockey-stick at γ ≥ 1, and those never
    exceed the one at 1.
    """
    return fraction("total_variation", total_variation)


def leak_from_information(nats: float) -> float:
    """Return a bound on Δ from the mutual information I(θ; z₁) in nats, by Pinsker.

    Theorem: A25-R7 eq 8 without its factor max(1, γ); also Bretagnolle–Huber, which takes over
    above about 1.6 nats.
    """
    info = nonnegative("nats", nats)
    return min(1.0, up(min(math.sqrt(info / 2), math.sqrt(-math.expm1(-info))), 8))


def posterior_odds_from_dp(epsilon: float, prior: float = 0.5) -> tuple[float, float]:
    """Return the smallest and largest odds of "in" after seeing an (ε, 0)-DP release (I24-P6)."""
    eps = nonnegative("epsilon", epsilon)
    pi = fraction("prior", prior, open_left=True, open_right=True)
    log_odds = math.log(pi) - math.log1p(-pi)
    low, high = log_odds - eps, log_odds + eps
    return (
        down(math.exp(low), int(16 + 4 * abs(low))) if low > -745 else 0.0,
        up(math.exp(high), int(16 + 4 * abs(high))) if high < 709 else math.inf,
    )


def precision_from_dp(epsilon: float, prior: float = 0.5) -> float:
    """Return the best probability that a record named "in" was in, under (ε, 0)-DP.

    The posterior odds of I24-P6 as a probability (Thudi et al. bound the same quantity).
    """
    eps = nonnegative("epsilon", epsilon)
    pi = fraction("prior", prior)
    if pi in (0.0, 1.0):
        return pi
    return min(1.0, up(pi / (pi + (1 - pi) * math.exp(-eps)), 16))


def success_from_pmp(epsilon: float) -> float:
    """Return the best success of a practical attacker under ε-PMP: 1/(1+e^{-ε}) (L24-L6)."""
    return min(1.0, up(1 / (1 + math.exp(-nonnegative("epsilon", epsilon))), 8))


def eta_from_pmp(epsilon: float) -> float:
    """Return the η of MIP that ε-PMP implies: ½·tanh(ε/2) (X6, from L24-L6)."""
    return min(0.5, up(math.tanh(nonnegative("epsilon", epsilon) / 2) / 2, 8))


def eta_from_pmp_printed(epsilon: float) -> float:
    """Return L24-L13's weaker printed η: (1-e^{-ε})/2."""
    return min(0.5, up(-math.expm1(-nonnegative("epsilon", epsilon)) / 2, 8))


def tpr_from_eta(fpr: float, eta: float) -> float:
    """Return the best TPR at one FPR under η-MIP with k = N/2: FPR + 2η (I24-T8 corrected)."""
    return min(1.0, up(fraction("fpr", fpr) + 2 * fraction("eta", eta)))


def epsilon_from_advantage(advantage: float, delta: float = 0.0) -> float:
    """Return an ε at which (ε, δ)-DP still keeps TPR - FPR at or below ``advantage``.

    Numerics: the largest up to rounding; ``advantage_from_dp(result, delta) ≤ advantage`` holds
    when evaluated.
    """
    from memberbound.dp.calibration import AdvantageTarget, calibrated_epsilon

    return calibrated_epsilon(AdvantageTarget(advantage), delta)
