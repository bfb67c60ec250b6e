"""Toy releases with known privacy, and random ones with privacy by construction.

DP is replace-one.  Every bound ``g`` stands for e^epsilon, a rational number of at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from random import Random

from oracle.finite import ONE, Law, random_kernel, random_law
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


def release_one_record(chance: Fraction) -> Callable[[Subset], Law]:
    """A uniform member of D with probability ``chance``, otherwise nothing (L24 appendix)."""

    def release(d: Subset) -> Law:
        law: dict[Hashable, Fraction] = {x: chance / len(d) for x in d}
        law[None] = 1 - chance
        return law

    return release


def indicator(secret: Subset) -> Callable[[Subset], Law]:
    """Return whether D is one particular set (I24-T5)."""
    return lambda d: {d == secret: ONE}


def whole_set(d: Subset) -> Law:
    """The training set itself."""
    return {d: ONE}


def parity(bits: tuple[int, ...]) -> Callable[[Subset], Law]:
    """Return whether an odd number of members carries bit 1."""
    return lambda d: {sum(bits[x] for x in d) % 2: ONE}


def random_mechanism(
    rng: Random, size: int, k: int, count: int, *, zeros: bool = True
) -> dict[Subset, Law]:
    """An arbitrary finite-output mechanism: an independent random law for every subset."""
    points: list[Hashable] = list(range(count))
    return {d: random_law(rng, points, zeros=zeros) for d in subsets(size, k)}


def random_games(
    seed: int, count: int, sizes: Sequence[int] | None = None, *, zeros: bool = True
) -> Iterator[tuple[dict[Subset, Law], int, int]]:
    """(mechanism, N, k): any k of N in 2, ..., 5; k = N/2 where ``sizes`` are given."""
    rng = Random(seed)
    for _ in range(count):
        size = rng.choice(sizes) if sizes else rng.randint(2, 5)
        k = size // 2 if sizes else rng.randint(1, size - 1)
        yield random_mechanism(rng, size, k, rng.randint(2, 4), zeros=zeros), size, k


def processed_games(
    seed: int, count: int
) -> Iterator[tuple[dict[Subset, Law], int, int, dict[Hashable, Law]]]:
    """(mechanism, N, k, channel): random channels, random maps and bijections, by turns."""
    rng = Random(seed)
    for i in range(count):
        size = rng.randint(2, 5)
        k = rng.randint(1, size - 1)
        outcomes = rng.randint(2, 4)
        kernel = random_mechanism(rng, size, k, outcomes)
        points: list[Hashable] = list(range(outcomes))
        if i % 3 == 0:
            channel = random_kernel(rng, points, ["a", "b", "c"])
        elif i % 3 == 1:
            channel = {a: {rng.choice("ab"): ONE} for a in points}
        else:
            channel = {a: {("renamed", a): ONE} for a in points}
        yield kernel, size, k, channel


def pmp_games(seed: int) -> Iterator[tuple[dict[Subset, Law] | Callable[[Subset], Law], int]]:
    """(mechanism, N) at k = N/2 with a finite PMP ratio, randomised response among them."""
    for kernel, size, _ in random_games(seed, 14, (2, 4), zeros=False):
        yield kernel, size
    for truth in (Fraction(1, 2), Fraction(2, 3), Fraction(99, 100)):
        yield randomised_response(truth), 2
    yield sum_mod(6), 6


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

    All masses are between a common floor and g times it; topping up gives extreme points of that
    polytope, so the ratio g is attained, and mixing two of them gives inner points.
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

#: (atoms, n) of games small enough to enumerate all attacks.
IID_SHAPES = ((2, 1), (2, 2), (2, 3), (3, 1), (3, 2))


def max_bernoulli(n: int) -> Release:
    """The largest of n coin flips (A24-L5.6); atom 1 is "heads"."""
    return map_release(n, 2, lambda h: int(h[1] > 0))


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


def random_iid_games(
    seed: int, count: int, shapes: Sequence[tuple[int, int]] = IID_SHAPES
) -> Iterator[tuple[list[Fraction], int, Release]]:
    """(law, n, release): random functions of the histogram and random channels, by turns.

    ``shapes`` are pairs (atoms, n).
    """
    rng = Random(seed)
    for i in range(count):
        atoms, n = rng.choice(shapes)
        p = random_iid_law(rng, atoms)
        make = random_release if i % 2 else random_merge
        yield p, n, make(rng, n, atoms, 2)
