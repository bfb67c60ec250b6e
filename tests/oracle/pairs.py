"""Hypothesis strategies for finite pairs, and exact operations on their ROC polygons."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import strategies as st

from oracle import finite

F = Fraction
Pair = tuple[list[Fraction], list[Fraction]]

#: Plain counts, thirds (no finite binary form), and masses near the smallest doubles.
_WEIGHTS = st.one_of(
    st.integers(0, 12).map(F),
    st.integers(1, 50).map(lambda k: F(k, 3)),
    st.sampled_from([F(0), F(1), F(1, 10**300), F(3, 10**300), F(1, 10**320), F(1, 7**40)]),
)


def _normalise(weights: list[Fraction]) -> list[Fraction]:
    total = sum(weights)
    return [w / total for w in weights] if total else [F(1), *[F(0)] * (len(weights) - 1)]


@st.composite
def independent_pairs(draw: st.DrawFn, most: int = 7) -> Pair:
    """Two laws drawn apart; zero masses in either world, or in both, happen."""
    size = draw(st.integers(1, most))
    lists = st.lists(_WEIGHTS, min_size=size, max_size=size)
    return _normalise(draw(lists)), _normalise(draw(lists))


@st.composite
def shifted_pairs(draw: st.DrawFn, most: int = 6) -> Pair:
    """A law and the same law after moving a little mass: equal and nearly equal masses."""
    size = draw(st.integers(2, most))
    q = _normalise(draw(st.lists(st.integers(1, 9).map(F), min_size=size, max_size=size)))
    p = list(q)
    for _ in range(draw(st.integers(0, 2))):
        i = draw(st.integers(0, size - 1))
        j = (i + draw(st.integers(1, size - 1))) % size
        share = draw(st.sampled_from([F(1, 3), F(1), F(1, 10**6), F(1, 10**25), F(1, 10**300)]))
        moved = p[i] * share
        p[i], p[j] = p[i] - moved, p[j] + moved
    return p, q


def pairs(most: int = 7) -> st.SearchStrategy[Pair]:
    return st.one_of(independent_pairs(most), shifted_pairs(min(most, 6)))


def law(masses: list[Fraction]) -> dict[int, Fraction]:
    return dict(enumerate(masses))


def pair_of_roc(corners: list[tuple[Fraction, Fraction]]) -> Pair:
    """A pair with these corners of its ROC: one outcome per edge."""
    edges = [(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in pairwise(corners)]
    return [dy for _, dy in edges], [dx for dx, _ in edges]


def chain(first: Pair, second: Pair) -> Pair:
    """The exact composition second(first(alpha)) of two ROCs, as a pair."""
    one, two = (finite.roc_vertices(law(p), law(q)) for p, q in (first, second))

    grid = {x for x, _ in one}
    for t, _ in two:  # where the first ROC passes a corner of the second
        for (x0, y0), (x1, y1) in pairwise(one):
            if y0 <= t <= y1 and y1 > y0:
                grid.add(x0 + (x1 - x0) * (t - y0) / (y1 - y0))
    corners = [(F(0), F(0))]
    corners += [(x, finite.height(two, finite.height(one, x))) for x in sorted(grid)]
    return pair_of_roc(corners)


def joint(members: list[Pair], weights: list[Fraction]) -> Pair:
    """The pair of an attacker who sees a public label besides the outcome."""
    p = [w * m for (inside, _), w in zip(members, weights, strict=True) for m in inside]
    q = [w * m for (_, outside), w in zip(members, weights, strict=True) for m in outside]
    return p, q


def merge(pair: Pair, groups: list[int]) -> Pair:
    """Outcomes with the same group number become one."""
    p = {g: F(0) for g in groups}
    q = dict(p)
    for a, b, g in zip(*pair, groups, strict=True):
        p[g], q[g] = p[g] + a, q[g] + b
    return list(p.values()), list(q.values())
