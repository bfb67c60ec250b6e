"""Toy releases with known privacy, and random ones with privacy by construction.

DP is replace-one.  Every bound ``g`` stands for e^epsilon, a rational number of at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from random import Random

from oracle.finite import ONE, Law, random_law
from oracle.iid import Release, histograms, map_release
from oracle.subset import Subset, subsets

# --- subset game -------------------------------------------------------------------------------


def randomised_response(truth: Fraction, target: int = 0) -> Callable[[Subset], Law]:
    """Tell whether ``target`` is in D, truthfully with probability ``truth``."""

    def release(d: Subset) -> Law:
        answer = target in d
        return {answer: truth, not answer: 1 - truth}

    return release


def leaking_response(g: Fraction, leak: Fraction, target: int = 0) -> Callable[[Subset], Law]:
    """The extremal (ln g, leak)-DP mechanism: sure truth with probability ``leak``, else RR."""

    def release(d: Subset) -> Law:
        answer = target in d
        return {
            ("sure", answer): leak,
            ("likely", answer): (1 - leak) * g / (1 + g),
            ("likely", not answer): (1 - leak) / (1 + g),
        }

    return release


def sum_mod(modulus: int) -> Callable[[Subset], Law]:
    """The sum of the records modulo ``modulus`` (L24-P5): deterministic, hence never DP."""
    return lambda d: {sum(d) % modulus: ONE}


def majority(labels: list[int]) -> Callable[[Subset], Law]:
    """Whether more than half of the chosen records carry label 1."""
    return lambda d: {int(2 * sum(labels[x] for x in d) > len(d)): ONE}


def release_one_record(chance: Fraction) -> Callable[[Subset], Law]:
    """A uniform member of D with probability ``chance``, otherwise nothing (L24 appendix)."""

    def release(d: Subset) -> Law:
        law: dict[Hashable, Fraction] = {x: chance / len(d) for x in d}
        law[None] = 1 - chance
        return law

    return release


def indicator(secret: Subset) -> Callable[[Subset], Law]:
    """Whether D is one particular set (I24-T5)."""
    return lambda d: {d == secret: ONE}


def random_mechanism(
    rng: Random, size: int, k: int, count: int, *, zeros: bool = True
) -> dict[Subset, Law]:
    """An arbitrary finite-output mechanism: an independent random law for every subset."""
    points: list[Hashable] = list(range(count))
    return {d: random_law(rng, points, zeros=zeros) for d in subsets(size, k)}


def _fill(rng: Random, floor: list[Fraction], g: Fraction) -> list[Fraction]:
    """A law with floor <= masses <= g floor, reached by topping masses up in random order."""
    masses, missing = list(floor), 1 - sum(floor)
    order = list(range(len(floor)))
    rng.shuffle(order)
    for i in order:
        step = min(missing, (g - 1) * floor[i])
        masses[i] += step
        missing -= step
    if missing:
        raise ValueError("floor too small: g times the floor must reach mass 1.")
    return masses


def random_dp_laws(
    rng: Random, g: Fraction, count: int, many: int
) -> list[dict[Hashable, Fraction]]:
    """``many`` laws on ``count`` outcomes, every two of them within the ratio g both ways.

    All masses lie between a common floor and g times it; topping up gives extreme points of that
    polytope, so the ratio g is really reached, and mixing two of them gives inner points.
    """
    base = random_law(rng, list(range(count)))
    shrink = 1 / g + (1 - 1 / g) * Fraction(rng.randint(0, 6), 8)  # floor's mass: in [1/g, 1)
    floor = [base[i] * shrink for i in range(count)]
    laws = []
    for _ in range(many):
        masses = _fill(rng, floor, g)
        if rng.random() < 0.3:
            other = _fill(rng, floor, g)
            masses = [(a + b) / 2 for a, b in zip(masses, other, strict=True)]
        laws.append(dict(enumerate(masses)))
    return laws


def random_dp_kernel(
    rng: Random, size: int, k: int, g: Fraction, count: int = 3
) -> dict[Subset, Law]:
    """A random (ln g, 0)-DP mechanism on the k-subsets (any two subsets, not only neighbours)."""
    chosen = list(subsets(size, k))
    return dict(zip(chosen, random_dp_laws(rng, g, count, len(chosen)), strict=True))


def exponential_kernel(
    rng: Random, size: int, k: int, base: Fraction, count: int = 3
) -> dict[Subset, Law]:
    """Exponential mechanism, weight base^score, score = members that vote for the outcome.

    Replacing one record moves each score by at most one, so it is (ln base^2, 0)-DP; unlike
    ``random_dp_kernel`` distant subsets differ by more than that.
    """
    votes = [[rng.randint(0, 1) for _ in range(count)] for _ in range(size)]
    table: dict[Subset, Law] = {}
    for d in subsets(size, k):
        weights = [base ** sum(votes[x][a] for x in d) for a in range(count)]
        table[d] = {a: w / sum(weights) for a, w in enumerate(weights)}
    return table


def with_leak(kernel: dict[Subset, Law], leak: Fraction) -> dict[Subset, Law]:
    """Release D itself with probability ``leak``: turns (eps, 0)-DP into (eps, leak)-DP."""
    leaky: dict[Subset, Law] = {}
    for d, law in kernel.items():
        mixed: dict[Hashable, Fraction] = {a: (1 - leak) * m for a, m in law.items()}
        mixed[("leak", d)] = leak
        leaky[d] = mixed
    return leaky


def random_dp_pair(
    rng: Random, g: Fraction, leak: Fraction, count: int = 3
) -> tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]]:
    """A random (ln g, leak)-indistinguishable pair: a pure pair plus a leak of mass ``leak``."""
    p, q = random_dp_laws(rng, g, count, 2)
    share = leak * Fraction(rng.randint(0, 4), 4)  # the rest of the leak stays uninformative
    p_in = {a: (1 - leak) * m for a, m in p.items()}
    p_out = {a: (1 - leak) * m for a, m in q.items()}
    p_in["in"], p_out["out"] = leak - share, leak - share
    p_in["both"] = p_out["both"] = share
    return p_in, p_out


def extremal_pair(
    g: Fraction, leak: Fraction
) -> tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]]:
    """The pair that dominates all (ln g, leak)-indistinguishable pairs."""
    release = leaking_response(g, leak)
    return dict(release(frozenset({0}))), dict(release(frozenset({1})))


# --- i.i.d. game -------------------------------------------------------------------------------


def max_bernoulli(n: int) -> Release:
    """The largest of n coin flips (A24-L5.6); atom 1 is "heads"."""
    return map_release(n, 2, lambda h: int(h[1] > 0))


def majority_vote(n: int) -> Release:
    """Which of two atoms occurs more often, ties to atom 0."""
    return map_release(n, 2, lambda h: int(h[1] > h[0]))


def random_merge(rng: Random, n: int, atoms: int, labels: int) -> Release:
    """A random deterministic release with at most ``labels`` values."""
    return {h: rng.randrange(labels) for h in histograms(n, atoms)}


def random_release(rng: Random, n: int, atoms: int, labels: int) -> Release:
    """A random randomised release with at most ``labels`` values."""
    points: list[Hashable] = list(range(labels))
    return {h: random_law(rng, points, zeros=True) for h in histograms(n, atoms)}


def random_iid_law(rng: Random, atoms: int) -> list[Fraction]:
    """A random law on the atoms, every atom with positive mass."""
    law = random_law(rng, list(range(atoms)))
    return [law[i] for i in range(atoms)]


def constant_release(n: int, atoms: int) -> Release:
    """Release nothing."""
    return map_release(n, atoms, lambda h: 0)
