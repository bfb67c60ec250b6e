"""Counterexamples to claims of I24 and L24 that do not hold as printed.

The TOML file of a paper names the function of an erratum, and describes its setting.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np

from memberbound.games import SubsetGame
from memberbound.papers.iid_errata import HALF, ROUNDING, ExactLaw
from memberbound.papers.results import Outcome
from memberbound.release.noise import izzo_constant
from memberbound.subset.enumeration import subset_laws
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.finite import finite_worlds, largest_stick

# ── I24: membership inference privacy ─────────────────────────────────────────────────────────────


def theorem_8() -> Outcome:
    """I24-T8 claims TPR ≤ FPR + η; randomised response on two records reaches 2η."""
    truth = Fraction(3, 4)

    def randomised_response(train: frozenset[int]) -> ExactLaw:
        (secret,) = train
        return {secret: truth, 1 - secret: 1 - truth}

    worlds = finite_worlds(randomised_response, SubsetGame(2, 1))
    # The mechanism is η-MIP with exactly this η: the hypothesis of the theorem is met.
    eta = max(worlds.eta(x) for x in (0, 1))
    # The attacker who answers "in" on S has TPR − FPR = P_in(S) − P_out(S).
    gap = max(largest_stick(worlds.pair(x), Fraction(1)) for x in (0, 1))
    return eta, gap, gap > eta, {"corrected_bound": 2 * eta}


def attack_on_norm_noise(
    radius: Literal["laplace", "gamma"], eta: float, draws: int, seed: int, d: int
) -> float:
    """Share of right guesses of the likelihood-ratio attacker on I24-C10's noise, M = 2.

    World: four records, two of them train, six training sets; the learner writes the one-hot
    code of its training set d/6 times over, so every coordinate has σ_i² = 5/36 exactly.
    Divided by σ_i√d the norm of I24-C10 is the Euclidean one and the six outputs are
    √(6/5)·e_j for six orthonormal e_j. The noise is radius × uniform direction.

    The attacker's likelihood depends on the noise only through its length and its six
    coordinates along the e_j, and those of a uniform direction are six normal variables over
    √(their squares + an independent χ² with d − 6 degrees of freedom). So the simulation is
    exact at any d, a multiple of six, without ever building a vector of length d.

    Numerics: the log-likelihoods are differences to the true training set, through ``log1p``;
    a rounding error can only make the attacker worse, never inflate the share of right
    guesses beyond what this attack attains.
    """
    rng = np.random.default_rng(seed)
    member = np.array([0 in chosen for chosen in combinations(range(4), 2)])
    secret = rng.integers(6, size=draws)
    c, length = izzo_constant(eta, 2), math.sqrt(6 / 5)
    # The direction is symmetric, so only |r| matters: Laplace(c) has |r| exponential.
    r = rng.exponential(c, draws) if radius == "laplace" else rng.gamma(d, c, draws)
    normals = rng.standard_normal((draws, 6))
    norm = np.sqrt((normals**2).sum(axis=1) + rng.chisquare(d - 6, draws))
    noise = normals * (r / norm)[:, None]
    own = noise[np.arange(draws), secret][:, None]
    # Relative change of the squared length when the noise is read from another centre.
    other = secret[:, None] != np.arange(6)
    change = (2 * length * (own - noise) + 2 * length**2) * other / (r**2)[:, None]
    change = np.maximum(change, -1 + 1e-15)
    log_density = -r[:, None] * change / (1 + np.sqrt(1 + change)) / c
    if radius == "laplace":
        # Density in R^d of (Laplace radius) × (uniform direction): exp(−‖x‖/c)·‖x‖^−(d−1).
        log_density -= (d - 1) / 2 * np.log1p(change)
    likelihood = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    guess = likelihood[:, member].sum(axis=1) >= likelihood[:, ~member].sum(axis=1)
    return float((guess == member[secret]).mean())


def corollary_10() -> Outcome:
    """I24-C10 and Alg1 draw a Laplace radius; in high dimension the promise breaks.

    The true value is a lower confidence bound (Hoeffding, error 1e-6) for the accuracy of one
    attack, hence for the optimal attacker's accuracy.
    """
    d, eta, draws, seed = 999_996, 0.25, 200_000, 20240401
    published = attack_on_norm_noise("laplace", eta, draws, seed, d)
    lower = published - math.sqrt(math.log(1e6) / (2 * draws))
    # With density ∝ exp(−‖x‖/c) the log-likelihood ratio of two outputs is at most their
    # distance √(12/5) over c: pure DP among the six sets, so I24-T4 applies.
    epsilon = math.sqrt(12 / 5) / izzo_constant(eta, 2)
    numbers = {
        "draws": draws,
        "laplace_radius_accuracy_estimate": published,
        "gamma_radius_accuracy_estimate": attack_on_norm_noise("gamma", eta, draws, seed, d),
        "gamma_radius_accuracy_upper": 1 / (1 + math.exp(-epsilon)),
    }
    return 0.5 + eta, lower, lower > 0.5 + eta, numbers


def sigma_from_train() -> Outcome:
    """I24-Alg1 takes σ from halves of D_train; it can miss the moment by any factor.

    With four records a half of D_train is one record, with variance 0. The estimate is
    then the spread of the small mean term alone, for every budget B: two values at distance t
    never have a standard deviation above t/2.
    """
    eta, c = 0.25, izzo_constant(0.25, 2)

    def learner(*records: float) -> float:
        return float(np.var(records) + 1e-4 * np.mean(records))

    outputs = {train: learner(*train) for train in combinations((0.0, 1.0, 3.0, 7.0), 2)}
    estimates = {train: float(np.std([learner(x) for x in train])) for train in outputs}
    # Attack: name the training set with the nearest clean output. It errs only if the
    # Laplace(c·σ̂) noise (d = 1, where the radius law is right) passes half the gap.
    accuracy = 0.0
    for train, output in outputs.items():
        gap = min(abs(output - other) for t, other in outputs.items() if t != train)
        accuracy += -math.expm1(-gap / (2 * c * estimates[train])) / len(outputs)
    numbers = {
        "true_moment": float(np.std(list(outputs.values()))),
        "largest_estimated_moment": max(estimates.values()),
    }
    return 0.5 + eta, accuracy, accuracy > 0.5 + eta, numbers


def lemma_13() -> Outcome:
    """I24-L13's hypothesis bounds the second moment by σ^k; the tail then need not be t^−k."""
    k, sigma, t, size = 4, 2, Fraction(19, 10), 4
    # |X| = 4 for certain, so every moment is a power of 4 and all mass is above t·σ.
    tail = 1 if size > t * sigma else 0
    # The printed hypothesis holds, the intended one does not.
    return t**-k, tail, size**2 <= sigma**k < size**k and tail > t**-k, {}


def proposition_11() -> Outcome:
    """I24-P11's data set in the main text lacks the element that makes the sensitivity large."""
    n = 12
    sums = {
        frozenset(chosen): sum(2**i for i in chosen)
        for chosen in combinations(range(n - 1), n // 2)
    }
    largest = max(
        abs(Fraction(1, total) - Fraction(1, sums[chosen - {leaving} | {entering}]))
        for chosen, total in sums.items()
        for leaving in chosen
        for entering in set(range(n - 1)) - chosen
    )
    # Distinct powers of two: the least sum is 2^{n/2} − 1, so A is in (0, 1/that] at any n.
    return 2 ** (n / 3), largest, largest <= Fraction(1, 2 ** (n // 2) - 1), {}


def general_k() -> Outcome:
    """I24 claims analogues of its results for every k; T8 has none of the form FPR + c·η."""
    population = frozenset(range(4))

    def missing_half(train: frozenset[int]) -> ExactLaw:
        (missing,) = population - train
        return {missing in (0, 1): Fraction(1)}

    worlds = finite_worlds(missing_half, SubsetGame(4, 3))
    eta = max(worlds.eta(x) for x in population)
    gaps = [largest_stick(worlds.pair(x), Fraction(1)) for x in population]
    prior = Fraction(3, 4)
    # At η = 0 no multiple of η is above a positive TPR − FPR.
    numbers = {"prior_of_in": prior, "corrected_bound": (2 * prior - 1 + eta) / prior}
    return eta, max(gaps), eta == 0 and min(gaps) > 0, numbers


# ── L24: practical membership privacy ─────────────────────────────────────────────────────────────

_LEAK = Fraction(1, 5)
_E_EPSILON = Fraction(3, 2)


def lemma_3() -> Outcome:
    """L24-L3 equates a conditional probability with (2/N)Σ, hence halves δ from (2) to (3).

    |X_in| = N already conditions: with (2/N)Σ the sure event has probability 2.
    """

    def leaky(train: frozenset[int]) -> ExactLaw:
        leak = _LEAK if 0 in train else Fraction(0)
        return {"in": leak, "silent": 1 - leak}

    worlds = finite_worlds(leaky, SubsetGame(4, 2))
    averaged = max(worlds.delta(x, _E_EPSILON) for x in range(4))
    # Form (2): the conditional laws given that record 0 trained or not are known at once.
    conditional = largest_stick([(_LEAK, Fraction(0)), (1 - _LEAK, Fraction(1))], _E_EPSILON)
    numbers = {"least_delta_in_form_2": conditional}
    return conditional / 2, averaged, averaged > conditional / 2, numbers


def corollary_4() -> Outcome:
    """L24-C4: at n = 1 the least δ of DP and of PMP are the same, not half of one another."""

    def release_or_silence(train: frozenset[int]) -> ExactLaw:
        (record,) = train
        return {record: _LEAK, "silent": 1 - _LEAK}

    first, second = (release_or_silence(frozenset({x})) for x in (0, 1))
    pairs = [(first.get(a, Fraction(0)), second.get(a, Fraction(0))) for a in (0, 1, "silent")]
    dp = largest_stick(pairs, _E_EPSILON)
    worlds = finite_worlds(release_or_silence, SubsetGame(2, 1))
    pmp = max(worlds.delta(x, _E_EPSILON) for x in (0, 1))
    return pmp / 2, dp, dp > pmp / 2, {"least_delta_of_pmp": pmp}


def proposition_9() -> Outcome:
    """L24-P9 takes the largest ln(in/out); the definition also bounds ln(out/in)."""
    records, candidates = np.array([0.0, 1.0, 2.0, 10.0]), np.array([0.0, 8.0, 9.0, 10.0])
    losses = np.abs(records[:, None] - candidates)
    # In [−10, 10] a record moves the mean loss by at most (max|w| + 10)/n.
    laws = subset_laws(ExponentialMechanism(losses, size=2, epsilon=2.0, sensitivity=10.0))
    assert laws is not None
    one_sided, two_sided = float(laws.ratio.max()), float(np.abs(laws.ratio).max())
    return one_sided, two_sided, two_sided > one_sided + ROUNDING, {"epsilon": 2.0}


def typo_123() -> Outcome:
    """L24's text under its figure 2 prints 1/(1 + e^−123) where 0.123 is meant."""
    as_printed, as_meant = (1 / (1 + math.exp(-exponent)) for exponent in (123, 0.123))
    return 0.53, as_printed, abs(as_printed - 0.53) > 0.005, {"with_exponent_0_123": as_meant}


def footnote_2() -> Outcome:
    """L24's footnote 2 drops repeated records without loss; a repeat changes the prior.

    A release that reveals nothing is 0-PMP, so L24-L6 caps every attack at ½; but an attacker who
    always says "in" about a record that occurs twice is right more often.
    """
    sets = list(combinations("aabc", 2))
    always_in = Fraction(sum("a" in chosen for chosen in sets), len(sets))
    return 0.5, always_in, always_in > HALF, {}


def release_one_record() -> Outcome:
    """L24-App1's "release a training example D₁" is η-MIP only if D₁ is drawn at random."""
    n, eta = 3, Fraction(1, 10)

    def smallest(train: frozenset[int]) -> ExactLaw:
        return {min(train): n * eta, "null": 1 - n * eta}

    def uniform(train: frozenset[int]) -> ExactLaw:
        return {**dict.fromkeys(train, eta), "null": 1 - n * eta}

    fixed, drawn = (
        max(finite_worlds(release, SubsetGame(2 * n, n)).eta(x) for x in range(2 * n))
        for release in (smallest, uniform)
    )
    return eta, fixed, fixed > eta, {"eta_of_a_uniform_record": drawn}
