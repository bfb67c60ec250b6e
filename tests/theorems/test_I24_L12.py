"""I24-L12: for k >= N/2 the sets without x inject into neighbouring sets with x (Hall)."""

from fractions import Fraction
from itertools import combinations

import pytest

from memberbound.errors import InputError
from memberbound.games import SubsetGame
from oracle import subset
from oracle.printed_examples import matched_neighbour

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


def injects_when_at_least_half(size, k):
    return 2 * k >= size


def injects_always(size, k):
    return True


def violations(claim):
    """Sizes where the claim "an injection exists" is wrong, either way."""
    bad = []
    for size, k in SIZES:
        found = matching(size, k, 0)
        without = sides(size, k, 0)[1]
        if claim(size, k) != (len(found) == len(without)):
            bad.append((size, k))
    return bad


def test_injection_exists_exactly_from_half_on():
    assert violations(injects_when_at_least_half) == []


def test_the_claim_without_its_condition_is_caught():
    assert violations(injects_always)


def test_matched_sets_are_neighbours_and_distinct():
    for size, k in SIZES:
        for x in (0, size - 1):
            found = matching(size, k, x)
            assert len(set(found.values())) == len(found)
            for d, e in found.items():
                assert x not in d
                assert x in e
                assert len(d & e) == k - 1
            if 2 * k == size:  # a bijection, which the proof of I24-T4 needs
                assert len(found) == len(sides(size, k, x)[0])


def expansion(size, k):
    return F(k, size - k)


def expansion_too_large(size, k):
    return F(k + 1, size - k)


def hall_violations(factor):
    """Families W of sets without x that have fewer than factor |W| neighbours."""
    bad = []
    for size, k in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 3), (5, 4)):
        with_x, without = sides(size, k, 0)
        near = {d: {e for e in with_x if len(d & e) == k - 1} for d in without}
        for count in range(1, len(without) + 1):
            for family in combinations(without, count):
                reached = set().union(*(near[d] for d in family))
                if len(reached) < factor(size, k) * count:
                    bad.append((size, k, family))
    return bad


def test_every_family_expands_by_k_over_n_minus_k():
    assert hall_violations(expansion) == []


def test_a_larger_expansion_is_caught():
    assert hall_violations(expansion_too_large)


# The package: an explicit injection instead of an existence proof


def package_violations(partner):
    """Sizes from half on where the map is not an injection into neighbours with x."""
    bad = []
    for size, k in SIZES:
        if 2 * k < size:
            continue
        for x in (0, size // 2, size - 1):
            with_x, without = sides(size, k, x)
            images = [partner(d, x, SubsetGame(size, k)) for d in without]
            near = all(x in e and len(d & e) == k - 1 for d, e in zip(without, images, strict=True))
            distinct = len(set(images)) == len(images)
            onto = 2 * k != size or set(images) == set(with_x)
            if not (near and distinct and onto):
                bad.append((size, k, x))
    return bad


def replace_the_smallest(d, x, game):
    return d - {min(d)} | {x}


def test_package_matching_is_an_injection_and_a_bijection_at_half():
    assert package_violations(matched_neighbour) == []


def test_a_map_that_is_not_injective_is_caught():
    assert package_violations(replace_the_smallest)


@pytest.mark.parametrize(
    ("members", "record", "size", "k"),
    [({1, 2}, 0, 5, 2), ({0, 1}, 0, 4, 2), ({1}, 0, 4, 2), ({1, 9}, 0, 4, 2), ({1, 2}, 4, 4, 2)],
)
def test_package_refuses_what_has_no_partner(members, record, size, k):
    with pytest.raises(InputError):
        matched_neighbour(frozenset(members), record, SubsetGame(size, k))
