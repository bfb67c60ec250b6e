"""The i.i.d. game: n records from a law on K atoms, a release computed from their histogram.

``law_in`` is the joint law of (release, uniform member), ``law_out`` that of (release, fresh
record).  The out-world has probability ``nu``; ``lam`` weighs a right "in" (A25-D1 to D3).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import comb, factorial

from oracle.finite import ONE, ZERO, Law, events, hockey_stick, mass, outcomes

Histogram = tuple[int, ...]
Release = Mapping[Histogram, Hashable]  # values: a label, or a law of labels
Pair = tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]]


def histograms(n: int, atoms: int) -> Iterator[Histogram]:
    """All ways to spread n records over the atoms."""
    if atoms == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in histograms(n - first, atoms - 1):
            yield (first, *rest)


def multinomial(p: Sequence[Fraction], n: int) -> dict[Histogram, Fraction]:
    """Law of the histogram of n independent records."""
    law = {}
    for h in histograms(n, len(p)):
        weight = Fraction(factorial(n))
        for count, chance in zip(h, p, strict=True):
            weight *= chance**count / Fraction(factorial(count))
        law[h] = weight
    return law


def as_law(value: Hashable | Law) -> Law:
    """A deterministic release value as the law that gives it for certain."""
    return value if isinstance(value, Mapping) else {value: ONE}


def joint_laws(p: Sequence[Fraction], n: int, release: Release) -> Pair:
    """(law_in, law_out) of (release, record) through the histogram, member U uniform in D."""
    held: dict[Hashable, list[Fraction]] = {}
    released: dict[Hashable, Fraction] = {}
    for h, weight in multinomial(p, n).items():
        for label, chance in as_law(release[h]).items():
            both = weight * chance
            released[label] = released.get(label, ZERO) + both
            seen = held.setdefault(label, [ZERO] * len(p))
            for z, count in enumerate(h):
                if count:
                    seen[z] += both * count
    law_in = {(label, z): m / n for label, seen in held.items() for z, m in enumerate(seen)}
    law_out = {(label, z): m * pz for label, m in released.items() for z, pz in enumerate(p)}
    return law_in, law_out


def joint_laws_by_sequences(p: Sequence[Fraction], n: int, release: Release) -> Pair:
    """The same by the K^n ordered datasets, the fresh record z0 and the member z1 (the first)."""
    law_in: dict[Hashable, Fraction] = {}
    law_out: dict[Hashable, Fraction] = {}
    for data in product(range(len(p)), repeat=n):
        weight = ONE
        for z in data:
            weight *= p[z]
        h = tuple(data.count(z) for z in range(len(p)))
        for label, chance in as_law(release[h]).items():
            key = (label, data[0])
            law_in[key] = law_in.get(key, ZERO) + weight * chance
            for z0, p0 in enumerate(p):
                key = (label, z0)
                law_out[key] = law_out.get(key, ZERO) + weight * chance * p0
    return law_in, law_out


def gamma(nu: Fraction, lam: Fraction) -> Fraction:
    return nu / (lam * (1 - nu))


def attack_accuracy(
    pair: Pair, nu: Fraction, lam: Fraction, says_in: tuple[Hashable, ...]
) -> Fraction:
    """A25-D2: nu P(right on a fresh record) + lam (1 - nu) P(right on a member)."""
    law_in, law_out = pair
    return nu * (1 - mass(law_out, says_in)) + lam * (1 - nu) * mass(law_in, says_in)


def best_accuracy(pair: Pair, nu: Fraction, lam: Fraction) -> Fraction:
    """Supremum over attacks, each (release, record) answered by the larger term."""
    law_in, law_out = pair
    return sum(
        (
            max(nu * law_out.get(a, ZERO), lam * (1 - nu) * law_in.get(a, ZERO))
            for a in outcomes(law_in, law_out)
        ),
        ZERO,
    )


def accuracies_by_attacks(pair: Pair, nu: Fraction, lam: Fraction) -> tuple[Fraction, Fraction]:
    """(smallest, largest) accuracy over all 2^m deterministic attacks."""
    values = [attack_accuracy(pair, nu, lam, s) for s in events(outcomes(*pair))]
    return min(values), max(values)


def security(pair: Pair, nu: Fraction, lam: Fraction, *, by_attacks: bool = False) -> Fraction:
    """MIS by its definition (A25-D3)."""
    top = accuracies_by_attacks(pair, nu, lam)[1] if by_attacks else best_accuracy(pair, nu, lam)
    return (nu + lam * (1 - nu) - top) / min(nu, lam * (1 - nu))


def divergence(p: Law, q: Law, alpha: Fraction, *, by_events: bool = False) -> Fraction:
    """D_alpha(p, q) of A25-eq3 and eq4, from the supremum over events of alpha p - q."""
    if by_events:
        points = outcomes(p, q)
        sup = max(alpha * mass(p, s) - mass(q, s) for s in events(points))
    else:
        sup = alpha * hockey_stick(p, q, 1 / alpha)
    return max(ONE, alpha) * (sup / alpha - max(ZERO, 1 - 1 / alpha))


def leakage(pair: Pair, gam: Fraction) -> Fraction:
    """Delta_{nu,lam,n} by A25-eq5."""
    law_in, law_out = pair
    return divergence(law_out, law_in, gam)


def map_release(n: int, atoms: int, f: Callable[[Histogram], Hashable | Law]) -> Release:
    """Tabulate a function of the histogram as a release."""
    return {h: f(h) for h in histograms(n, atoms)}


def injective(n: int, atoms: int) -> Release:
    """Release the histogram itself: the worst learner (A25-T14)."""
    return map_release(n, atoms, lambda h: h)


def binomial(n: int, p: Fraction) -> list[Fraction]:
    """Masses of Bin(n, p) at 0..n."""
    return [
        Fraction(factorial(n), factorial(b) * factorial(n - b)) * p**b * (1 - p) ** (n - b)
        for b in range(n + 1)
    ]


def mean_deviation(n: int, p: Fraction, gam: Fraction = ONE) -> Fraction:
    """E|B/n - gamma p| for B ~ Bin(n, p), from the masses."""
    return sum((m * abs(Fraction(b, n) - gam * p) for b, m in enumerate(binomial(n, p))), ZERO)


def worst_leak(p: Sequence[Fraction], n: int, gam: Fraction = ONE) -> Fraction:
    """Leak of the worst learner on a discrete law (A25-T14), from the deviations of the counts."""
    spread = sum((mean_deviation(n, x, gam) for x in p), ZERO)
    return max(ONE, gam) * (spread / gam - abs(1 - 1 / gam)) / 2


def de_moivre(n: int, m: int, p: Fraction) -> Fraction:
    """E[(np - B) 1{B <= m}] in closed form, B ~ Bin(n, p) (A25-L31)."""
    return (m + 1) * comb(n, m + 1) * p ** (m + 1) * (1 - p) ** (n - m)


def leak_of_learner(
    learner: Callable[[Histogram], Hashable], p: Sequence[Fraction], n: int, gam: Fraction = ONE
) -> Fraction:
    """Delta of a function of the histogram, by the two worlds."""
    return leakage(joint_laws(p, n, map_release(n, len(p), learner)), gam)
