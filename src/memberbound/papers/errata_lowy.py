"""Counterexamples to claims of L24 (practical membership privacy)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np

from memberbound.games import SubsetGame
from memberbound.papers.results import Counterexample, ExactLaw
from memberbound.subset.enumeration import subset_laws
from memberbound.subset.exponential import ExponentialMechanism
from memberbound.subset.finite import finite_worlds, largest_stick

_LEAK = Fraction(1, 5)
_E_EPSILON = Fraction(3, 2)


def lemma_3() -> Counterexample:
    """L24-L3 equates a conditional probability with (2/N)Σ, hence halves δ from (2) to (3)."""
    game = SubsetGame(4, 2)

    def leaky(train: frozenset[int]) -> ExactLaw:
        leak = _LEAK if 0 in train else Fraction(0)
        return {"in": leak, "silent": 1 - leak}

    # Form (3): means over the training sets with the record, and over those without it.
    worlds = finite_worlds(leaky, game)
    averaged = max(worlds.delta(x, _E_EPSILON) for x in range(4))
    # Form (2): conditional probabilities, each a joint one over that of the condition.
    conditional = Fraction(0)
    subsets = [frozenset(s) for s in combinations(range(4), 2)]
    share = Fraction(1, len(subsets))
    for record in range(4):
        laws = []
        for inside in (True, False):
            chosen = [s for s in subsets if (record in s) is inside]
            joint = [
                sum((share * leaky(s)[a] for s in chosen), Fraction(0)) for a in ("in", "silent")
            ]
            laws.append([mass / sum(joint) for mass in joint])
        pairs = list(zip(*laws, strict=True))
        conditional = max(conditional, largest_stick(pairs, _E_EPSILON))
    with_target = [s for s in subsets if 0 in s]
    total = sum((sum(leaky(s).values(), Fraction(0)) for s in with_target), Fraction(0))
    sure = Fraction(2, len(with_target)) * total
    return Counterexample(
        setting="four records, two train; with probability 1/5 the release says whether record 0 "
        "trained, otherwise it is silent; e^ε = 3/2",
        printed_value=conditional / 2,
        true_value=averaged,
        violated=averaged > conditional / 2,
        numbers={
            "least_delta_in_form_2": conditional,
            # The printed identity on the event that holds every output.
            "printed_probability_of_the_sure_event": sure,
        },
    )


def corollary_4() -> Counterexample:
    """L24-C4: at n = 1 the least δ of DP and of PMP are the same, not half of one another."""

    def release_or_silence(train: frozenset[int]) -> ExactLaw:
        (record,) = train
        return {record: _LEAK, "silent": 1 - _LEAK}

    first, second = (release_or_silence(frozenset({x})) for x in (0, 1))
    pairs = [(first.get(a, Fraction(0)), second.get(a, Fraction(0))) for a in (0, 1, "silent")]
    dp = largest_stick(pairs, _E_EPSILON)
    worlds = finite_worlds(release_or_silence, SubsetGame(2, 1))
    pmp = max(worlds.delta(x, _E_EPSILON) for x in (0, 1))
    return Counterexample(
        setting="one training record out of {0, 1}; released with probability 1/5, otherwise "
        "silence; e^ε = 3/2",
        printed_value=pmp / 2,
        true_value=dp,
        violated=dp > pmp / 2,
        numbers={"least_delta_of_pmp": pmp},
    )


def proposition_9() -> Counterexample:
    """L24-P9 takes the largest ln(in/out); the definition also bounds ln(out/in)."""
    records, candidates = np.array([0.0, 1.0, 2.0, 10.0]), np.array([0.0, 8.0, 9.0, 10.0])
    losses = np.abs(records[:, None] - candidates)
    # In [−10, 10] a record moves the mean loss by at most (max|w| + 10)/n.
    laws = subset_laws(ExponentialMechanism(losses, size=2, epsilon=2.0, sensitivity=10.0))
    one_sided, two_sided = float(laws.ratio.max()), float(np.abs(laws.ratio).max())
    # At the printed ε̃ the definition needs P_out(w) ≤ e^ε̃ P_in(w) for every w.
    excess = float((np.exp(laws.log_out) - math.exp(one_sided) * np.exp(laws.log_in)).max())
    return Counterexample(
        setting="records 0, 1, 2, 10 in [−10, 10], two train; candidates 0, 8, 9, 10; mean "
        "distance loss; the 2-DP exponential mechanism",
        printed_value=one_sided,
        true_value=two_sided,
        # The laws are known to 1e-12.
        violated=two_sided > one_sided + 1e-9 and excess > 1e-9,
        numbers={"epsilon": 2.0, "probability_excess_at_printed_epsilon": excess},
    )


def typo_123() -> Counterexample:
    """L24's text under its figure 2 prints 1/(1 + e^−123) where 0.123 is meant."""
    as_printed, as_meant = (1 / (1 + math.exp(-exponent)) for exponent in (123, 0.123))
    return Counterexample(
        setting="success bound 1/(1 + e^−ε) of a 0.123-PMP mechanism, stated to two digits",
        printed_value=0.53,
        true_value=as_printed,
        violated=abs(as_printed - 0.53) > 0.005,
        numbers={"with_exponent_0_123": as_meant},
    )


def footnote_2() -> Counterexample:
    """L24's footnote 2 drops repeated records without loss; a repeat changes the prior.

    A release that says nothing is 0-PMP, so L24-L6 caps every attack at ½; but whoever always
    says "in" about a record that occurs twice is right more often.
    """
    population = ("a", "a", "b", "c")
    sets = list(combinations(population, 2))
    always_in = Fraction(sum("a" in chosen for chosen in sets), len(sets))
    return Counterexample(
        setting="X = (a, a, b, c), n = 2, a release that says nothing; the attacker says that a "
        "trained",
        printed_value=0.5,
        true_value=always_in,
        violated=always_in > Fraction(1, 2),
        # Without the repeat X would need an even number of records for n to be half of it.
        numbers={"distinct_records": len(set(population))},
    )


def release_one_record() -> Counterexample:
    """L24-App1's "release a training example D₁" is η-MIP only if D₁ is drawn at random."""
    n, eta = 3, Fraction(1, 10)
    game = SubsetGame(2 * n, n)

    def smallest(train: frozenset[int]) -> ExactLaw:
        return {min(train): n * eta, "null": 1 - n * eta}

    def uniform(train: frozenset[int]) -> ExactLaw:
        return {**dict.fromkeys(train, eta), "null": 1 - n * eta}

    fixed, drawn = (
        max(worlds.eta(x) for x in range(2 * n))
        for worlds in (finite_worlds(smallest, game), finite_worlds(uniform, game))
    )
    return Counterexample(
        setting="six records, three train, η = 1/10; with probability nη the smallest training "
        "record is released, otherwise nothing",
        printed_value=eta,
        true_value=fixed,
        violated=fixed > eta,
        numbers={"n": n, "eta_of_a_uniform_record": drawn},
    )
