"""One pair of finite laws, "in" against "out": the best test in exact rationals.

A law is a mapping from outcome to ``Fraction``; outcomes absent from a mapping have mass zero.
The first methods compute with whole numbers over one denominator, which spares every step the
reduction of a fraction; functions ending in ``_by_...`` are the slow second methods, by
enumeration, used to check the first ones.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations, pairwise
from random import Random

Law = Mapping[Hashable, Fraction]

ZERO, ONE, HALF = Fraction(0), Fraction(1), Fraction(1, 2)


def check_law(law: Law) -> None:
    """Raise unless the masses are exact, non-negative and sum to one."""
    for outcome, mass in law.items():
        if not isinstance(mass, (int, Fraction)) or mass < 0:
            raise ValueError(f"mass of {outcome!r} must be an exact number >= 0, got {mass!r}.")
    if sum(law.values()) != 1:
        raise ValueError(f"masses must sum to 1, got {sum(law.values())}.")


def outcomes(p_in: Law, p_out: Law) -> list[Hashable]:
    """Outcomes of positive mass under either law, each once."""
    seen = dict.fromkeys([*p_in, *p_out])
    return [a for a in seen if p_in.get(a, 0) or p_out.get(a, 0)]


def masses(p_in: Law, p_out: Law) -> tuple[list[Fraction], list[Fraction]]:
    """Both laws as lists over the same outcomes."""
    points = outcomes(p_in, p_out)
    return [p_in.get(a, ZERO) for a in points], [p_out.get(a, ZERO) for a in points]


def events(points: list[Hashable]) -> Iterator[tuple[Hashable, ...]]:
    """All subsets of the given outcomes: the rejection regions of all deterministic tests."""
    for size in range(len(points) + 1):
        yield from combinations(points, size)


def mass(law: Law, event: tuple[Hashable, ...]) -> Fraction:
    masses = [law.get(a, ZERO) for a in event]
    common = math.lcm(*[m.denominator for m in masses])
    return Fraction(sum([m.numerator * (common // m.denominator) for m in masses]), common)


def whole(p: Law, q: Law) -> tuple[list[int], list[int], int]:
    """The masses of both laws, outcome by outcome, times their common denominator, and that."""
    both = masses(p, q)
    common = math.lcm(*{m.denominator for side in both for m in side})
    ups, downs = ([m.numerator * (common // m.denominator) for m in side] for side in both)
    return ups, downs, common


def _stick(ups: list[int], downs: list[int], common: int, gamma: Fraction) -> Fraction:
    top, bottom = gamma.numerator, gamma.denominator
    gaps = (bottom * up - top * down for up, down in zip(ups, downs, strict=True))
    return Fraction(sum(gap for gap in gaps if gap > 0), bottom * common)


def hockey_stick(p: Law, q: Law, gamma: Fraction) -> Fraction:
    """sup over events S of p(S) - gamma q(S), as the sum of positive parts."""
    return _stick(*whole(p, q), gamma)


def hockey_stick_by_events(p: Law, q: Law, gamma: Fraction) -> Fraction:
    return max(mass(p, s) - gamma * mass(q, s) for s in events(outcomes(p, q)))


def hockey_sticks(p_in: Law, p_out: Law, gamma: Fraction) -> tuple[Fraction, Fraction]:
    """Both directions: (in over out, out over in)."""
    ups, downs, common = whole(p_in, p_out)
    return _stick(ups, downs, common, gamma), _stick(downs, ups, common, gamma)


def delta(p_in: Law, p_out: Law, gamma: Fraction) -> Fraction:
    """Least delta for which the pair is (ln gamma, delta)-indistinguishable, both ways."""
    return max(hockey_sticks(p_in, p_out, gamma))


def total_variation(p: Law, q: Law) -> Fraction:
    """Half the L1 distance (``hockey_stick`` at gamma = 1 is the second method)."""
    ups, downs, common = whole(p, q)
    return Fraction(sum(abs(u - d) for u, d in zip(ups, downs, strict=True)), 2 * common)


def max_ratio(p_in: Law, p_out: Law) -> Fraction | None:
    """e^epsilon for the least pure epsilon, i.e. the largest ratio either way; None = infinite."""
    worst = ONE
    for a in outcomes(p_in, p_out):
        up, down = p_in.get(a, ZERO), p_out.get(a, ZERO)
        if not up or not down:
            return None
        worst = max(worst, up / down, down / up)
    return worst


def roc_vertices(p_in: Law, p_out: Law) -> list[tuple[Fraction, Fraction]]:
    """Corners (FPR, TPR) of the best ROC, from (0, 0) or (0, t) to (1, 1).

    Neyman-Pearson: outcomes enter in decreasing order of in/out, equal ratios together; between
    corners the best test randomises, so the ROC is the polygon through the corners.
    """
    ups, downs, common = whole(p_in, p_out)
    groups: dict[Fraction | None, tuple[int, int]] = {}
    for up, down in zip(ups, downs, strict=True):
        ratio = Fraction(up, down) if down else None  # None: infinite, taken first
        fpr, tpr = groups.get(ratio, (0, 0))
        groups[ratio] = (fpr + down, tpr + up)
    finite = sorted((r for r in groups if r is not None), reverse=True)
    x, y = 0, 0
    corners = [(ZERO, ZERO)]
    for ratio in ([None] if None in groups else []) + finite:
        x, y = x + groups[ratio][0], y + groups[ratio][1]
        corners.append((Fraction(x, common), Fraction(y, common)))
    return corners


def tpr_at_fpr(p_in: Law, p_out: Law, fpr: Fraction) -> Fraction:
    """Best TPR among tests with false-positive rate at most ``fpr``, randomised tests included."""
    return height(roc_vertices(p_in, p_out), fpr)


def height(corners: list[tuple[Fraction, Fraction]], fpr: Fraction) -> Fraction:
    """The polygon through the corners of a ROC, at one false-positive rate."""
    best = ZERO
    for (x0, y0), (x1, y1) in pairwise(corners):
        if x1 <= fpr:
            best = max(best, y1)
        elif x0 <= fpr:
            best = max(best, y0 + (y1 - y0) * (fpr - x0) / (x1 - x0))
    return best


def best_accuracy(p_in: Law, p_out: Law, prior: Fraction) -> Fraction:
    """Largest probability of a right guess when "in" has probability ``prior``."""
    ups, downs, common = whole(p_in, p_out)
    top, bottom = prior.numerator, prior.denominator
    right = (max(top * u, (bottom - top) * d) for u, d in zip(ups, downs, strict=True))
    return Fraction(sum(right), bottom * common)


def accuracy(p_in: Law, p_out: Law, prior: Fraction, guess_in: tuple[Hashable, ...]) -> Fraction:
    """Probability of a right guess by the rule "in" exactly on ``guess_in``."""
    return prior * mass(p_in, guess_in) + (1 - prior) * (1 - mass(p_out, guess_in))


def accuracies_by_rules(p_in: Law, p_out: Law, prior: Fraction) -> tuple[Fraction, Fraction]:
    """(smallest, largest) accuracy over all 2^m deterministic rules."""
    values = [accuracy(p_in, p_out, prior, s) for s in events(outcomes(p_in, p_out))]
    return min(values), max(values)


def best_precision(p_in: Law, p_out: Law, prior: Fraction) -> Fraction:
    """Largest posterior of "in" over outcomes that can occur."""
    ups, downs, _ = whole(p_in, p_out)
    top, bottom = prior.numerator, prior.denominator
    best, of = 0, 1
    for up, down in zip(ups, downs, strict=True):
        hit = top * up
        both = hit + (bottom - top) * down
        if hit * of > best * both:
            best, of = hit, both
    return Fraction(best, of)


def push(law: Law, kernel: Mapping[Hashable, Law]) -> dict[Hashable, Fraction]:
    """Law of a post-processed outcome: ``kernel`` sends an outcome to a law of new outcomes."""
    image: dict[Hashable, Fraction] = {}
    for a, weight in law.items():
        for b, chance in kernel[a].items():
            image[b] = image.get(b, ZERO) + weight * chance
    return image


def random_law(
    rng: Random, points: list[Hashable], *, grain: int = 9, zeros: bool = False
) -> dict[Hashable, Fraction]:
    """Random rational law; with ``zeros`` some masses vanish (never all of them)."""
    low = 0 if zeros else 1
    weights = [rng.randint(low, grain) for _ in points]
    if not any(weights):
        weights[rng.randrange(len(points))] = 1
    total = sum(weights)
    return {a: Fraction(w, total) for a, w in zip(points, weights, strict=True)}


def random_pair(
    rng: Random, size: int, *, zeros: bool = False
) -> tuple[dict[Hashable, Fraction], dict[Hashable, Fraction]]:
    points: list[Hashable] = list(range(size))
    return random_law(rng, points, zeros=zeros), random_law(rng, points, zeros=zeros)


def random_kernel(
    rng: Random, sources: list[Hashable], targets: list[Hashable], *, zeros: bool = True
) -> dict[Hashable, dict[Hashable, Fraction]]:
    """A random rational channel from ``sources`` to ``targets``."""
    return {a: random_law(rng, targets, zeros=zeros) for a in sources}


def random_fraction(rng: Random, low: Fraction, high: Fraction, *, grain: int = 24) -> Fraction:
    """A rational in [low, high] on a grid of ``grain`` steps."""
    return low + (high - low) * Fraction(rng.randint(0, grain), grain)
