"""Errata of L24 (practical membership privacy): one computed counterexample each."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from itertools import combinations

from .errata import (
    Counterexample,
    Errata,
    Law,
    exact_sum,
    hockey_stick,
    membership_laws,
    optimal_accuracy,
)

__all__ = ["ERRATA", "exponential_mechanism_ratios"]

ERRATA = Errata()

_LEAK = Fraction(1, 5)
_E_EPSILON = Fraction(3, 2)


def _least_delta(p: Law, q: Law) -> Fraction:
    """The least δ at ``_E_EPSILON`` for both directions."""
    return max(hockey_stick(p, q, _E_EPSILON), hockey_stick(q, p, _E_EPSILON))


@ERRATA.add(
    "L24-L3",
    "L24-L15",
    printed="P(A ∈ S | x ∈ D) = (2/N)ΣP(A(D) ∈ S) over the N training sets with x, so the "
    "conditional form with 2δ is the same as the averaged form with δ.",
    holds="P(A ∈ S | x ∈ D) = (1/N)ΣP(A(D) ∈ S), so both forms carry the same δ; for δ = 0 nothing "
    "changes.",
)
def lemma_3() -> Counterexample:
    """L24-L3 equates a conditional probability with (2/N)Σ, hence halves δ from (2) to (3)."""
    population, n, target = (0, 1, 2, 3), 2, 0

    def leaky(train: tuple[int, ...]) -> Law:
        leak = _LEAK if target in train else Fraction(0)
        return {"in": leak, "silent": 1 - leak}

    # Form (2): conditional probabilities. Form (3): means over X_in and X_out, N sets each.
    conditional = Fraction(0)
    averaged = Fraction(0)
    subsets = list(combinations(population, n))
    for record in population:
        conditional = max(conditional, _least_delta(*membership_laws(population, n, leaky, record)))
        means: list[dict[Hashable, Fraction]] = []
        for side in (True, False):
            chosen = [s for s in subsets if (record in s) is side]
            mean: dict[Hashable, Fraction] = {}
            for subset in chosen:
                for output, mass in leaky(subset).items():
                    mean[output] = mean.get(output, Fraction(0)) + mass / len(chosen)
            means.append(mean)
        averaged = max(averaged, _least_delta(means[0], means[1]))
    with_target = [s for s in subsets if target in s]
    # The printed identity on S = every output: a probability of 2.
    identity = Fraction(2, len(with_target)) * exact_sum(
        exact_sum(leaky(s).values()) for s in with_target
    )
    implied = conditional / 2
    return Counterexample(
        setting="four records, two train; with probability 1/5 the release says whether record 0 "
        "trained, otherwise it is silent; e^ε = 3/2",
        printed_value=float(implied),
        true_value=float(averaged),
        violated=averaged > implied,
        numbers={
            "least_delta_in_form_2": float(conditional),
            "least_delta_in_form_3": float(averaged),
            "least_delta_in_form_3_as_printed": float(implied),
            "printed_probability_of_the_sure_event": float(identity),
            "e_epsilon": float(_E_EPSILON),
        },
    )


@ERRATA.add(
    "L24-C4",
    "L24-C16",
    printed="At n = 1, (ε, δ)-DP is the same as (ε, 2δ)-PMP for every pair of records.",
    holds="At n = 1, (ε, δ)-DP is the same as (ε, δ)-PMP for every pair of records.",
)
def corollary_4() -> Counterexample:
    """L24-C4: at n = 1 the least δ of DP and of PMP are the same, not half of one another."""
    universe = (0, 1)

    def release_or_silence(train: tuple[int, ...]) -> Law:
        (record,) = train
        return {record: _LEAK, "silent": 1 - _LEAK}

    laws = {x: release_or_silence((x,)) for x in universe}
    dp = _least_delta(laws[0], laws[1])
    pmp = max(
        _least_delta(*membership_laws(universe, 1, release_or_silence, record))
        for record in universe
    )
    implied = pmp / 2
    return Counterexample(
        setting="one training record out of {0, 1}; released with probability 1/5, otherwise "
        "silence; e^ε = 3/2",
        printed_value=float(implied),
        true_value=float(dp),
        violated=dp > implied,
        numbers={
            "least_delta_of_pmp": float(pmp),
            "least_delta_of_dp": float(dp),
            "least_delta_of_dp_as_printed": float(implied),
            "e_epsilon": float(_E_EPSILON),
        },
    )


def exponential_mechanism_ratios(
    records: tuple[float, ...], candidates: tuple[float, ...], clip: float, epsilon: float
) -> list[tuple[float, float]]:
    """Pairs (P_in, P_out) of every (record, candidate) for the ε-DP exponential mechanism.

    Data space [−clip, clip], loss the mean distance to the training records: its sensitivity
    is (max|w| + clip)/n for candidates inside the data space.
    """
    n = len(records) // 2
    sensitivity = (max(abs(w) for w in candidates) + clip) / n
    tables: list[tuple[frozenset[int], list[float]]] = []
    for indices in combinations(range(2 * n), n):
        weights = [
            math.exp(
                -epsilon * math.fsum(abs(w - records[i]) for i in indices) / (2 * n * sensitivity)
            )
            for w in candidates
        ]
        total = math.fsum(weights)
        tables.append((frozenset(indices), [weight / total for weight in weights]))
    half = len(tables) / 2
    return [
        (
            math.fsum(row[w] for chosen, row in tables if x in chosen) / half,
            math.fsum(row[w] for chosen, row in tables if x not in chosen) / half,
        )
        for x in range(2 * n)
        for w in range(len(candidates))
    ]


@ERRATA.add(
    "L24-P9",
    "L24-P19",
    printed="The exponential mechanism is ε̃-PMP if and only if ε̃ is at least the largest "
    "ln(in/out) over records and candidates.",
    holds="ε̃ must be at least the largest |ln(in/out)|: the definition bounds both ratios.",
)
def proposition_9() -> Counterexample:
    """L24-P9 takes the largest ln(in/out); the definition also bounds ln(out/in)."""
    epsilon = 2.0
    pairs = exponential_mechanism_ratios((0.0, 1.0, 2.0, 10.0), (0.0, 8.0, 9.0, 10.0), 10, epsilon)
    logs = [math.log(inside / outside) for inside, outside in pairs]
    one_sided, two_sided = max(logs), max(abs(value) for value in logs)
    # At the printed ε̃ the definition needs P_out(w) ≤ e^ε̃ P_in(w) for every w.
    excess = max(outside - math.exp(one_sided) * inside for inside, outside in pairs)
    return Counterexample(
        setting="records 0, 1, 2, 10 in [−10, 10], two train; candidates 0, 8, 9, 10; mean "
        "distance loss; the 2-DP exponential mechanism",
        printed_value=one_sided,
        true_value=two_sided,
        # Rounding in these short sums is below 1e-14; the margin keeps the claim beyond it.
        violated=two_sided > one_sided + 1e-9 and excess > 1e-9,
        numbers={
            "epsilon": epsilon,
            "one_sided_pmp_epsilon": one_sided,
            "two_sided_pmp_epsilon": two_sided,
            "probability_excess_at_printed_epsilon": excess,
        },
    )


@ERRATA.add(
    "L24-text",
    printed="1/(1 + e^−123) ≈ 0.53.",
    holds="1/(1 + e^−0.123) ≈ 0.53.",
)
def typo_123() -> Counterexample:
    """L24's text under its figure 2 prints 1/(1 + e^−123) where 0.123 is meant."""
    printed_success = 0.53
    as_printed = 1 / (1 + math.exp(-123))
    as_meant = 1 / (1 + math.exp(-0.123))
    half_unit = 0.005
    return Counterexample(
        setting="success bound 1/(1 + e^−ε) of a 0.123-PMP mechanism, stated to two digits",
        printed_value=printed_success,
        true_value=as_printed,
        violated=abs(as_printed - printed_success) > half_unit,
        numbers={
            "with_exponent_123": as_printed,
            "with_exponent_0_123": as_meant,
            "rounding": half_unit,
        },
    )


@ERRATA.add(
    "L24-fn2",
    printed="The 2n records of X can be taken as distinct without loss of generality: repeats are "
    "dropped and n becomes smaller.",
    holds="A repeated record trains with probability above ½, so dropping it changes the game (and "
    "may leave an odd number of records). That X is distinct is an assumption.",
)
def footnote_2() -> Counterexample:
    """L24's footnote 2 drops repeated records without loss; a repeat changes the prior.

    A release that says nothing is 0-PMP, so L24-L6 caps every attack at ½; but whoever always
    says "in" about a record that occurs twice is right more often.
    """
    population, n = ("a", "a", "b", "c"), 2
    sets = list(combinations(population, n))
    always_in = Fraction(sum("a" in chosen for chosen in sets), len(sets))
    success_cap = Fraction(1, 2)
    distinct = len(set(population))
    return Counterexample(
        setting="X = (a, a, b, c), n = 2, a release that says nothing; the attacker says that a "
        "trained",
        printed_value=float(success_cap),
        true_value=float(always_in),
        violated=always_in > success_cap,
        numbers={
            "probability_that_a_trains": float(always_in),
            "distinct_records": distinct,
            # Without the repeat X would need an even number of records for n to be half of it.
            "left_over_when_halved": distinct % 2,
        },
    )


@ERRATA.add(
    "L24-App1",
    printed="Releasing a training example D₁ with probability nη, otherwise nothing, is η-MIP (how "
    "D₁ is chosen is not said).",
    holds="True if D₁ is drawn uniformly from the training set, and then the exact value is η/2. A "
    "fixed rule such as the smallest record gives nη/2, above η for n > 2.",
)
def release_one_record() -> Counterexample:
    """L24-App1's "release a training example D₁" is η-MIP only if D₁ is drawn at random."""
    n, eta = 3, Fraction(1, 10)
    population = tuple(range(2 * n))

    def smallest(train: tuple[int, ...]) -> Law:
        return {min(train): n * eta, "null": 1 - n * eta}

    def uniform(train: tuple[int, ...]) -> Law:
        law: dict[Hashable, Fraction] = dict.fromkeys(train, eta)
        law["null"] = 1 - n * eta
        return law

    fixed, drawn = (
        max(optimal_accuracy(*membership_laws(population, n, mechanism, x)) for x in population)
        - Fraction(1, 2)
        for mechanism in (smallest, uniform)
    )
    return Counterexample(
        setting="six records, three train, η = 1/10; with probability nη the smallest training "
        "record is released, otherwise nothing",
        printed_value=float(eta),
        true_value=float(fixed),
        violated=fixed > eta,
        numbers={
            "n": n,
            "eta_of_the_smallest_record": float(fixed),
            "eta_of_a_uniform_record": float(drawn),
        },
    )
