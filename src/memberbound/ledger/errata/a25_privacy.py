"""Errata of A25 on attacks and differential privacy: one computed counterexample each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import product

from .finite import hockey_stick
from .types import Counterexample

__all__ = [
    "best_conditional_accuracy",
    "channel_leak",
    "equation_53",
    "least_dp_delta",
    "lemma_33",
    "private_supremum",
    "remark_4",
]

Channel = Sequence[Sequence[Fraction]]
"""Row z holds the law of the release when the one record is z."""


def best_conditional_accuracy(
    law: Sequence[Fraction], data: tuple[int, ...], nu: Fraction
) -> Fraction:
    """Best accuracy of an attack that may depend on the data, λ = 1: all attacks are tried.

    Given the data and the release an attack is a set of records it calls members; it is shown
    a fresh record with probability ν and a uniform member otherwise.
    """
    atoms = range(len(law))
    best = Fraction(0)
    for says_in in product((False, True), repeat=len(law)):
        fresh = sum((law[z] for z in atoms if not says_in[z]), Fraction(0))
        member = Fraction(sum(says_in[z] for z in data), len(data))
        best = max(best, nu * fresh + (1 - nu) * member)
    return best


def remark_4() -> Counterexample:
    """A25-R4 says a data-dependent attack is always right; not when records coincide."""
    half = Fraction(1, 2)
    law, data = (half, half), (0, 1)
    best = best_conditional_accuracy(law, data, half)
    apart = best_conditional_accuracy((Fraction(0), Fraction(0), Fraction(1)), data, half)
    return Counterexample(
        setting="Bernoulli(1/2) records, the data set (0, 1), ν = 1/2, λ = 1; all attacks tried",
        printed_value=1.0,
        true_value=float(best),
        violated=best < 1,
        numbers={
            "formula_sum_of_larger_masses": float(sum(max(half * p, half * half) for p in law)),
            "accuracy_if_fresh_records_never_coincide": float(apart),
        },
    )


def _worlds(law: Sequence[Fraction], channel: Channel) -> list[Fraction]:
    """Law of the release when the record is drawn from ``law``: the out-world."""
    outputs = range(len(channel[0]))
    return [sum((p * row[y] for p, row in zip(law, channel, strict=True)), Fraction(0))
            for y in outputs]  # fmt: skip


def channel_leak(law: Sequence[Fraction], channel: Channel) -> Fraction:
    """Δ at γ = 1, n = 1: the mean over records of TV(release given the record, release)."""
    out = _worlds(law, channel)
    return sum(
        (
            p * sum((abs(a - b) for a, b in zip(row, out, strict=True)), Fraction(0)) / 2
            for p, row in zip(law, channel, strict=True)
        ),
        Fraction(0),
    )


def equation_53() -> Counterexample:
    """A25-eq53 starts with in and out exchanged; for γ ≠ 1 that is another number."""
    gamma, truth = Fraction(2), Fraction(9, 10)
    law = (Fraction(1, 2), Fraction(1, 2))
    channel = ((truth, 1 - truth), (1 - truth, truth))
    out = _worlds(law, channel)

    def mean_supremum(out_weight: Fraction, in_weight: Fraction) -> Fraction:
        """(1/γ)·E_z sup_S of a weighted difference: the sum of its positive part."""
        total = Fraction(0)
        for p, row in zip(law, channel, strict=True):
            gains = (out_weight * o + in_weight * i for o, i in zip(out, row, strict=True))
            total += p * sum((max(Fraction(0), gain) for gain in gains), Fraction(0))
        return total / gamma

    by_definition = mean_supremum(gamma, Fraction(-1))
    printed = mean_supremum(Fraction(-1), gamma)
    e_epsilon = truth / (1 - truth)
    return Counterexample(
        setting="n = 1, a fair coin, randomised response that is true with probability 9/10 "
        "(e^ε = 9), γ = 2: the first equality for D̃_γ",
        printed_value=float(printed),
        true_value=float(by_definition),
        violated=printed != by_definition,
        numbers={
            "gamma": float(gamma),
            "e_epsilon": float(e_epsilon),
            "final_bound": float(max(Fraction(0), e_epsilon - 1 / gamma)),
        },
    )


def private_supremum() -> Counterexample:
    """A25-H.2 gives tanh(ε/2) as a supremum; no pure DP learner passes tanh(ε/4) (X11).

    Every release y of an ε-DP learner has likelihoods v_z (given z₁ = z) within a factor e^ε.
    Its share of Δ over its probability, Σ p_z(v_z − v̄)₊/v̄, is quasi-convex in v, hence largest
    with v in {1, e^ε}; if e^ε is taken with probability a it is (e^ε−1)a(1−a)/(1 + (e^ε−1)a).
    """
    root = 2  # e^{ε/2}
    e_epsilon = root**2
    printed = Fraction(e_epsilon - 1, e_epsilon + 1)  # tanh(ε/2)
    ceiling = Fraction(root - 1, root + 1)  # tanh(ε/4)
    steps = 3000
    shares = (Fraction(k, steps) for k in range(steps + 1))
    largest = max((e_epsilon - 1) * a * (1 - a) / (1 + (e_epsilon - 1) * a) for a in shares)
    own, other = Fraction(4, 6), Fraction(1, 6)
    third = Fraction(1, 3)
    channel = [[own if y == z else other for y in range(3)] for z in range(3)]
    attained = channel_leak([third] * 3, channel)
    private = all(
        a <= e_epsilon * b
        for y in range(3)
        for a in (row[y] for row in channel)
        for b in (row[y] for row in channel)
    )
    return Counterexample(
        setting="ε = 2·ln 2, δ = 0, γ = 1, any law and n; the ceiling is attained at n = 1 by "
        "naming one of three equally likely records, the right one with probability 4/6",
        printed_value=float(printed),
        true_value=float(ceiling),
        violated=largest <= ceiling < printed and private and attained == ceiling,
        numbers={
            "e_epsilon": e_epsilon,
            "largest_share_over_a_grid": float(largest),
            "leak_attained": float(attained),
        },
    )


def least_dp_delta(learner: Callable[[tuple[int, ...]], Hashable], n: int) -> Fraction:
    """Least δ of (0, δ)-DP for a deterministic learner on n bits, replace-one."""
    worst = Fraction(0)
    for data in product((0, 1), repeat=n):
        for i in range(n):
            other = (*data[:i], 1 - data[i], *data[i + 1 :])
            laws = ({learner(data): Fraction(1)}, {learner(other): Fraction(1)})
            worst = max(worst, hockey_stick(laws[0], laws[1], Fraction(1)))
    return worst


def lemma_33() -> Counterexample:
    """A25-L33 says no deterministic learner is DP; a constant one is, with ε = δ = 0."""
    n = 3
    constant = least_dp_delta(lambda _: "always the same", n)
    return Counterexample(
        setting="three bits; the learner that returns the same value for every data set",
        printed_value=1.0,
        true_value=float(constant),
        violated=constant < 1,
        numbers={
            "n": n,
            "least_delta_of_the_constant_learner": float(constant),
            "least_delta_of_the_sum": float(least_dp_delta(sum, n)),
        },
    )
