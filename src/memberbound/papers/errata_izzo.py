"""Counterexamples to claims of I24 (membership inference privacy)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Literal

import numpy as np

from memberbound.games import SubsetGame
from memberbound.papers.results import Counterexample, ExactLaw
from memberbound.release.noise import izzo_constant
from memberbound.subset.finite import finite_worlds, largest_stick

__all__ = ["TRAINING_SETS", "attack_on_norm_noise", "reciprocal_sensitivity"]

#: The training sets of I24-C10's counterexample: two of four records.
TRAINING_SETS = tuple(combinations(range(4), 2))


def theorem_8() -> Counterexample:
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
    return Counterexample(
        setting="two records, one of them trains; the release names the record that trained "
        "with probability 3/4 and the other one otherwise",
        printed_value=eta,
        true_value=gap,
        violated=gap > eta,
        numbers={"corrected_bound": 2 * eta},
    )


def attack_on_norm_noise(
    d: int, eta: float, radius: Literal["laplace", "gamma"], draws: int, seed: int
) -> float:
    """Share of right guesses of the likelihood-ratio attacker on I24-C10's noise, M = 2.

    World: four records, two of them train, six training sets; the learner writes the one-hot
    code of its training set d/6 times over, so every coordinate has σ_i² = 5/36 exactly.
    Divided by σ_i√d the norm of I24-C10 is the Euclidean one and the six outputs are
    √(6/5)·e_j for six orthonormal e_j. The noise is radius × uniform direction.

    The attacker's likelihood depends on the noise only through its length and its six
    coordinates along the e_j, and those of a uniform direction are six normal variables over
    √(their squares + an independent χ² with d − 6 degrees of freedom). So the simulation is
    exact at any d without ever building a vector of length d.

    Numerics: the log-likelihoods are differences to the true training set, through ``log1p``;
    a rounding error can only make the attacker worse, never inflate the share of right
    guesses beyond what this attack attains.
    """
    count = len(TRAINING_SETS)
    if d <= count or d % count:
        raise ValueError(f"d must be a multiple of {count} above {count}, got {d!r}.")
    member = np.array([0 in subset for subset in TRAINING_SETS])
    rng = np.random.default_rng(seed)
    c = izzo_constant(eta, 2)
    # U is symmetric, so only |r| matters: Laplace(c) has |r| exponential.
    r = rng.exponential(c, draws) if radius == "laplace" else rng.gamma(d, c, draws)
    normals = rng.standard_normal((draws, count))
    length = np.sqrt((normals**2).sum(axis=1) + rng.chisquare(d - count, draws))
    noise = normals * (r / length)[:, None]
    secret = rng.integers(count, size=draws)

    scale = math.sqrt(6 / 5)
    own = noise[np.arange(draws), secret][:, None]
    other = secret[:, None] != np.arange(count)
    # Relative change of the squared length when the noise is read from another centre.
    change = (2 * scale * (own - noise) + 2 * scale**2) * other / (r**2)[:, None]
    change = np.maximum(change, -1 + 1e-15)
    longer = r[:, None] * change / (1 + np.sqrt(1 + change))
    log_density = -longer / c
    if radius == "laplace":
        # Density in R^d of (Laplace radius) × (uniform direction): exp(−‖x‖/c)·‖x‖^−(d−1).
        log_density -= (d - 1) / 2 * np.log1p(change)
    likelihood = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    guess = likelihood[:, member].sum(axis=1) >= likelihood[:, ~member].sum(axis=1)
    return float((guess == member[secret]).mean())


def corollary_10() -> Counterexample:
    """I24-C10 and Alg1 draw a Laplace radius; in high dimension the promise breaks.

    The true value is a lower confidence bound (Hoeffding, error 1e-6) for the accuracy of one
    attack, hence for the optimal attacker's accuracy.
    """
    d, eta, draws, seed, error = 999_996, 0.25, 200_000, 20240401, 1e-6
    published = attack_on_norm_noise(d, eta, "laplace", draws, seed)
    corrected = attack_on_norm_noise(d, eta, "gamma", draws, seed)
    lower = published - math.sqrt(math.log(1 / error) / (2 * draws))
    # With density ∝ exp(−‖x‖/c) the log-likelihood ratio of two outputs is at most their
    # distance √(12/5) over c: pure DP among the six sets, so I24-T4 applies.
    epsilon = math.sqrt(12 / 5) / izzo_constant(eta, 2)
    return Counterexample(
        setting="four records, two train; the learner writes the one-hot code of its training "
        f"set {d // 6} times over (d = {d}); noise as in the corollary with M = 2, exact "
        "per-coordinate moments and η = 1/4",
        printed_value=0.5 + eta,
        true_value=lower,
        violated=lower > 0.5 + eta,
        numbers={
            "draws": draws,
            "seed": seed,
            "error_probability": error,
            "laplace_radius_accuracy_estimate": published,
            "gamma_radius_accuracy_estimate": corrected,
            "gamma_radius_accuracy_upper": 1 / (1 + math.exp(-epsilon)),
        },
    )


def sigma_from_train() -> Counterexample:
    """I24-Alg1 takes σ from halves of D_train; it can miss the moment by any factor.

    With four records a half of D_train is one record, whose variance is 0. The estimate is
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
    moment = float(np.std(list(outputs.values())))
    span = max(outputs.values()) - min(outputs.values())
    return Counterexample(
        setting="records 0, 1, 3, 7; two of them train; the learner releases their variance "
        "plus 1e-4 times their mean; M = 2, η = 1/4, every half of D_train used (B → ∞)",
        printed_value=0.5 + eta,
        true_value=accuracy,
        violated=accuracy > 0.5 + eta,
        numbers={
            "true_moment": moment,
            "largest_estimated_moment": max(estimates.values()),
            "distinct_noise_scales": len({round(s, 12) for s in estimates.values()}),
            # Noise from the true moment is ε-DP among the six outputs, ε = span/(cσ).
            "accuracy_upper_with_true_moment": 1 / (1 + math.exp(-span / (c * moment))),
        },
    )


def lemma_13() -> Counterexample:
    """I24-L13's hypothesis bounds the second moment by σ^k; the tail then need not be t^−k."""
    k, sigma, t, size = 4, 2, Fraction(19, 10), 4
    # |X| = 4 for certain, so every moment is a power of 4 and all mass is above t·σ.
    tail = 1 if size > t * sigma else 0
    return Counterexample(
        setting="X = ±4 with probability 1/2 each, k = 4, σ = 2, t = 1.9",
        printed_value=t**-k,
        true_value=tail,
        # The hypothesis as printed is met, the one that is meant is not.
        violated=size**2 <= sigma**k < size**k and tail > t**-k,
        # With the k-th moment in the hypothesis σ must be 4, and nothing is above t·4.
        numbers={"sigma_with_the_k_th_moment": size},
    )


def reciprocal_sensitivity(records: tuple[float, ...], size: int) -> tuple[float, float]:
    """Largest change of 1/Σ when one of ``size`` records is replaced, and its variance."""
    values = {frozenset(s): 1 / math.fsum(s) for s in combinations(records, size)}
    largest = max(
        abs(value - values[chosen - {leaving} | {entering}])
        for chosen, value in values.items()
        for leaving in chosen
        for entering in set(records) - chosen
    )
    return largest, float(np.var(list(values.values())))


def proposition_11() -> Counterexample:
    """I24-P11's data set in the main text lacks the element that makes the sensitivity large."""
    sizes = (8, 10, 12)
    main, appendix = [], []
    for n in sizes:
        powers = tuple(2.0**i for i in range(n - 1))
        main.append(reciprocal_sensitivity(powers, n // 2)[0])
        # The appendix adds √p − Σ_{i ≤ n/2−2} 2^i: with the small powers it sums to √p.
        odd_one = math.comb(n, n // 2) ** -0.5 - (2 ** (n // 2 - 1) - 1)
        appendix.append(reciprocal_sensitivity((*powers, odd_one), n // 2))
    # Distinct powers of two: the least sum is 2^{n/2} − 1, and A lies in (0, 1/that].
    below = all(s <= 1 / (2 ** (n // 2) - 1) < 1 for n, s in zip(sizes, main, strict=True))
    return Counterexample(
        setting="records 2^0, …, 2^(n−2), n/2 of them train, release 1/Σ; n = 8, 10, 12 "
        "(values at n = 12)",
        printed_value=2 ** (sizes[-1] / 3),
        true_value=main[-1],
        violated=below and main == sorted(main, reverse=True),
        numbers={
            **{f"sensitivity_at_{n}": value for n, value in zip(sizes, main, strict=True)},
            "sensitivity_with_the_missing_record": appendix[-1][0],
            "variance_with_the_missing_record": appendix[-1][1],
        },
    )


def general_k() -> Counterexample:
    """I24 says its results have analogues for every k; T8 has none of the form FPR + c·η."""
    population = frozenset(range(4))

    def missing_half(train: frozenset[int]) -> ExactLaw:
        (missing,) = population - train
        return {missing in (0, 1): Fraction(1)}

    worlds = finite_worlds(missing_half, SubsetGame(4, 3))
    eta = max(worlds.eta(x) for x in population)
    gaps = [largest_stick(worlds.pair(x), Fraction(1)) for x in population]
    prior = Fraction(3, 4)
    return Counterexample(
        setting="four records, three train; the release says whether the one left out is among "
        "the first two",
        printed_value=eta,
        true_value=max(gaps),
        # At η = 0 no multiple of η is above a positive TPR − FPR.
        violated=eta == 0 and min(gaps) > 0,
        numbers={"prior_of_in": prior, "corrected_bound": (2 * prior - 1 + eta) / prior},
    )
