"""I24-L12: for k >= N/2 the sets without x inject into neighbouring sets with x (Hall)."""

from fractions import Fraction
from itertools import combinations

from oracle import subset
from oracle.claims import assert_exact, assert_holds

F = Fraction
SIZES = [(size, k) for size in range(2, 8) for k in range(1, size)]


def sides(size, k, x):
    with_x = [d for d in subset.subsets(size, k) if x in d]
    without = [d for d in subset.subsets(size, k) if x not in d]
    return with_x, without


def matching(size, k, x):
    """Largest matching of sets without x to neighbouring sets with x (augmenting paths)."""
    with_x, without = sides(size, k, x)
    near = {d: [e for e in with_x if len(d & e) == k - 1] for d in without}
    taken = {}

    def place(d, seen):
        for e in near[d]:
            if e not in seen:
                seen.add(e)
                if e not in taken or place(taken[e], seen):
                    taken[e] = d
                    return True
        return False

    for d in without:
        place(d, set())
    return {d: e for e, d in taken.items()}


def test_injection_exists_exactly_from_half_on():
    assert_exact(
        lambda size, k: 2 * k >= size,
        (((size, k), len(matching(size, k, 0)) == len(sides(size, k, 0)[1])) for size, k in SIZES),
        broken={"without the condition": lambda size, k: True},
    )


def test_matched_sets_are_neighbours_and_distinct():
    for size, k in SIZES:
        for x in (0, size - 1):
            result = matching(size, k, x)
            assert len(set(result.values())) == len(result)
            for d, e in result.items():
                assert x not in d
                assert x in e
                assert len(d & e) == k - 1
            if 2 * k == size:  # a bijection, which the proof of I24-T4 needs
                assert len(result) == len(sides(size, k, x)[0])


def families():
    """(N, k, number of sets without x, number of their neighbours with x)."""
    for size, k in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 3), (5, 4)):
        with_x, without = sides(size, k, 0)
        near = {d: {e for e in with_x if len(d & e) == k - 1} for d in without}
        for count in range(1, len(without) + 1):
            for family in combinations(without, count):
                yield size, k, count, len(set().union(*(near[d] for d in family)))


def test_every_family_expands_by_k_over_n_minus_k():
    assert_holds(
        lambda size, k, count, reached: reached >= F(k, size - k) * count,
        families(),
        broken={"larger": lambda size, k, count, reached: reached >= F(k + 1, size - k) * count},
    )


# An explicit injection instead of an existence proof


def matched_neighbour(size, d, x):
    """The set with x that is paired with a set without it.

    Leave x out, read a set as a row of brackets, and replace the member behind the last closing
    bracket that has no partner: the steps of a symmetric chain decomposition (Greene and Kleitman).
    """
    unmatched, opened = [], 0
    for other in range(size):
        if other == x:
            continue
        if other not in d:
            opened += 1
        elif opened:
            opened -= 1
        else:
            unmatched.append(other)
    return d - {unmatched[-1]} | {x}


def matches(size, k, x, partner=matched_neighbour):
    """Whether the map is an injection into neighbours with x, and a bijection at half."""
    with_x, without = sides(size, k, x)
    images = [partner(size, d, x) for d in without]
    near = all(x in e and len(d & e) == k - 1 for d, e in zip(without, images, strict=True))
    distinct = len(set(images)) == len(images)
    return near and distinct and (2 * k != size or set(images) == set(with_x))


def test_explicit_matching_is_an_injection_and_a_bijection_at_half():
    assert_holds(
        matches,
        [(n, k, x) for n, k in SIZES if 2 * k >= n for x in (0, n // 2, n - 1)],
        broken={
            "replace the smallest": lambda *case: matches(
                *case, partner=lambda size, d, x: d - {min(d)} | {x}
            )
        },
    )
